# SPDX-License-Identifier: Apache-2.0
"""Alerts on their way: Debian's real Alertmanager is told of what a function does to the CPU, with a link to the flame graph, and
that it is over; and what becomes of alerts where Alertmanagers are away, slow or broken."""
import json
import os
import threading
import time
import urllib.parse

from harness import Echo, HttpServer, Process, Server, Skip, answer, check, free_port, http_get, run, wait_until
from test_promql_oracle import tool


def shown_its_files(program):
    """Debian's Alertmanager reads a template from /usr/share, where it is not: words before the program that put it there for it."""
    share = os.path.join(os.path.dirname(os.path.dirname(program)), "share")
    if os.path.dirname(program) == "/usr/bin":
        return []
    under = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    under += ["sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"', share]
    status, out = run([*under, "true"])
    if status:
        raise Skip(f"no mount namespace for Alertmanager: {out}")
    return under


class Alertmanager(Process):
    def __init__(self, env, name="alertmanager"):
        program = tool(env, "prometheus-alertmanager", "prometheus-alertmanager")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = env.path(name + ".yml", "route: {receiver: nobody, group_wait: 0s, group_interval: 1s}\nreceivers: [{name: nobody}]\n")
        super().__init__(env, name, [*shown_its_files(program), program, "--config.file=" + config, "--storage.path=" + env.path(name + "-data"),
                                     f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="])
        wait_until("alertmanager is ready", lambda: http_get(self.url + "/-/ready")[0] == 200)

    @property
    def address(self):
        return self.url.split("//")[1]

    def alerts(self, active=True):
        status, _, body = http_get(self.url + f"/api/v2/alerts?active={str(active).lower()}")
        check(status == 200, f"{status}: {body}")
        return json.loads(body)


class Load:
    """Clients of /fibonacci, until it is stopped."""

    def __init__(self, env, echo, clients=2):
        self.on, self.url = True, f"http://{echo.address}/fibonacci?n=30"
        env.at_end(self.stop)
        for _ in range(clients):
            threading.Thread(target=self.ask, daemon=True).start()

    def ask(self):
        deadline = time.monotonic() + 120
        while self.on and time.monotonic() < deadline:
            try:
                http_get(self.url)
            except OSError:
                return

    def stop(self):
        self.on = False


def states(server, name):
    """alertstate of ALERTS."""
    return {row["metric"]["alertstate"] for row in server.query(f'ALERTS{{alertname="{name}"}}')["result"]}


CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s, external_labels: {{cluster: test}}}}
rule_files: [hot.yml]
alerting:
  alert_relabel_configs: [{{action: labeldrop, regex: pod}}]
  alertmanagers: [{{static_configs: [{{targets: ['{alertmanager}']}}]}}]
scrape_configs:
- job_name: echo
  profiling_config: {{pprof_config: {{memory: {{enabled: false}}, goroutine: {{enabled: false}}, block: {{enabled: false}}, mutex: {{enabled: false}}}}}}
  static_configs: [{{targets: ['{echo}'], labels: {{pod: a}}}}]
"""

RULES = """
groups:
- name: hot
  rules:
  - alert: FunctionEatsCPU
    expr: share(merge by (job) (cpu{job="echo"}[5s]), {function="main.fibonacciHandler"}) > 0.3
    for: 4s
    labels: {severity: page, pod: '{{ $labels.job }}'}
    annotations:
      summary: 'main.fibonacciHandler has {{ $value | humanizePercentage }} of the CPU'
      flame: '{{ flameLink "merge(cpu{job=\\"echo\\"}[5s])" }}'
"""


def linked_functions(server, link):
    """Names in the flame graph that a link of an annotation opens."""
    check(link.startswith(server.url + "/?"), link)
    q = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
    check(q["view"] == ["flame"], link)
    return server.get("/api/v1/query", query=q["q"][0], time=q["to"][0], format="flamegraph").decode()


def test_a_hot_function_is_told_and_resolved(env):
    echo, alertmanager = Echo(env, 0), Alertmanager(env)
    env.path("hot.yml", RULES)
    server = Server(env, CONFIG.format(alertmanager=alertmanager.address, echo=echo.address), ["--rules.alert.resend-delay=1s"])
    check([a["url"] for a in server.api("alertmanagers")["activeAlertmanagers"]] == [alertmanager.url + "/api/v2/alerts"], "alertmanagers")
    load = Load(env, echo)
    wait_until("the alert is pending", lambda: states(server, "FunctionEatsCPU") == {"pending"}, 40)
    told = alertmanager.alerts()
    check(not told or states(server, "FunctionEatsCPU") != {"pending"}, "a pending alert is not told")
    wait_until("the alert fires", lambda: states(server, "FunctionEatsCPU") == {"firing"})
    alert = wait_until("Alertmanager has it", alertmanager.alerts)[0]
    check(alert["labels"] == {"alertname": "FunctionEatsCPU", "cluster": "test", "job": "echo", "severity": "page"}, f"labels: {alert}")
    check("of the CPU" in alert["annotations"]["summary"] and "%" in alert["annotations"]["summary"], f"summary: {alert}")
    check("main.fibonacciHandler" in linked_functions(server, alert["annotations"]["flame"]), f"flame: {alert}")
    check(alert["generatorURL"].startswith(server.url + "/graph?g0.expr="), f"generatorURL: {alert}")
    load.stop()
    wait_until("it is resolved there", lambda: not alertmanager.alerts(), 40)
    metrics = server.metrics()
    check(metrics[f'pyrrha_notifications_sent_total{{alertmanager="{alertmanager.url}/api/v2/alerts"}}'] >= 2, "sent")
    check(metrics["pyrrha_notifications_alertmanagers_discovered"] == 1, "discovered")


class Receiver(HttpServer):
    """An Alertmanager in name only: answers with that status after so long, and keeps what it was sent."""

    def __init__(self, env, status=200, seconds=0):
        self.kept, self.done = [], threading.Event()
        self.status, self.seconds = status, seconds
        super().__init__(env, self.take)
        env.at_end(self.done.set)

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.kept.append((handler.path, dict(handler.headers), json.loads(body)))
        self.done.wait(self.seconds)
        try:
            answer(handler, self.status, b"no\n")
        except OSError:
            pass  # it did not wait that long

    def names(self):
        return {a["labels"]["alertname"] for _, _, batch in list(self.kept) for a in batch}


MANY = """
global: {{evaluation_interval: 1s}}
rule_files: [always.yml]
alerting:
  alertmanagers:
  - file_sd_configs: [{{files: [there.json]}}]
    timeout: 500ms
    path_prefix: /am
    basic_auth: {{username: u, password: secret}}
    relabel_configs: [{{action: drop, source_labels: [keep], regex: 'no'}}]
    alert_relabel_configs: [{{target_label: via, replacement: file}}]
  - static_configs: [{{targets: ['{alertmanager}']}}]
"""


def list_receivers(env, *groups):
    """The file is replaced, as discovery wants it."""
    os.rename(env.path("there.new", json.dumps([{"targets": t, "labels": {"keep": keep}} for keep, t in groups])), env.path("there.json"))


def test_alertmanagers_that_fail_hold_up_no_other(env):
    alertmanager, broken, slow, late = Alertmanager(env), Receiver(env, 500), Receiver(env, 200, 60), Receiver(env)
    gone = f"127.0.0.1:{free_port()}"
    env.path("always.yml", "groups: [{name: a, rules: [{alert: Always, expr: 'vector(1)'}]}]")
    list_receivers(env, ("yes", [broken.address, slow.address, gone]), ("no", [late.address]))
    server = Server(env, MANY.format(alertmanager=alertmanager.address), ["--rules.alert.resend-delay=1s"])

    def url(address):
        return f"http://{address}/am/api/v2/alerts"

    def metric(name, address):
        return server.metrics()[f'pyrrha_notifications_{name}{{alertmanager="{url(address)}"}}']
    known = wait_until("all are known", lambda: len((a := server.api("alertmanagers"))["activeAlertmanagers"]) == 4 and a)
    check({a["url"] for a in known["activeAlertmanagers"]} == {url(broken.address), url(slow.address), url(gone),
                                                               alertmanager.url + "/api/v2/alerts"}, f"active: {known}")
    check([a["url"] for a in known["droppedAlertmanagers"]] == [url(late.address)], f"dropped: {known}")
    check(wait_until("Alertmanager has it", alertmanager.alerts)[0]["labels"] == {"alertname": "Always"}, "labels")
    for address in (broken.address, slow.address, gone):
        wait_until(f"{address} fails", lambda: metric("errors_total", address) >= 2 and metric("dropped_total", address) >= 2)
        check(metric("sent_total", address) == 0, f"{address} took alerts")
    path, headers, batch = broken.kept[0]
    check(path == "/am/api/v2/alerts" and headers["Authorization"].startswith("Basic ") and headers["Content-Type"] == "application/json",
          f"{path} {headers}")
    check(batch[0]["labels"] == {"alertname": "Always", "via": "file"}, f"{batch}")
    list_receivers(env, ("yes", [late.address]))
    wait_until("who comes later is told", lambda: late.names() == {"Always"})
    check(len(server.api("alertmanagers")["activeAlertmanagers"]) == 2, "those that left are forgotten")
    check("secret" not in server.text(), "the log has no password")


def test_what_is_queued_is_sent_at_the_end(env):
    """An Alertmanager that takes its time gets what waited for it; one that never answers does not keep the program."""
    patient, stuck = Receiver(env, 200, 1), Receiver(env, 200, 60)
    rules = ", ".join(f"{{alert: A{i}, expr: 'vector(1)'}}" for i in range(6))
    env.path("many.yml", f"groups: [{{name: a, rules: [{rules}]}}]")
    server = Server(env, "global: {evaluation_interval: 1s}\nrule_files: [many.yml]\nalerting: {alertmanagers: "
                    f"[{{static_configs: [{{targets: ['{patient.address}', '{stuck.address}']}}]}}]}}\n",
                    ["--alertmanager.notification-batch-size=3"])
    wait_until("the first batch is under way", lambda: patient.kept)
    status, seconds = server.terminate()
    check(status == 0, f"exit status {status} after {seconds:.1f} s: {server.text()[-1500:]}")
    check(patient.names() == {f"A{i}" for i in range(6)}, f"sent: {patient.names()}")
    check("alerts were not sent before the end" in server.text(), "what was not sent is told")
