# SPDX-License-Identifier: Apache-2.0
"""The alerts that are sent, beside those of Prometheus 3: the same rules, the same floats by remote-write to both, at the same time; an
Alertmanager stub for each writes down what it is told. Both evaluate in real time, at slots that follow from a hash: so of
many names for the group one is taken whose slots in both are a few milliseconds apart, and floats are stamped in between. A rate depends on these
milliseconds, so none is held against a threshold. PYRRHA_PROMETHEUS3 names
the program of Prometheus 3; PYRRHA_SEED gives other floats, PYRRHA_LONG or PYRRHA_SECONDS more of them."""
import calendar
import json
import os
import random
import re
import threading
import time
import urllib.parse

import remote_write
from harness import LONG, HttpServer, Process, Server, Skip, answer, check, free_port, http_get, wait_until

INTERVAL = 2       # seconds
SECONDS = int(os.environ.get("PYRRHA_SECONDS", 600 if LONG else 40))
OFFSET = 4 if SECONDS < 300 else 30 # query_offset: by then the floats are there, in a long run also beside other work
NAMES = 300
RULES = """groups:
- name: %(name)s
  interval: 2s
  query_offset: %(offset)ds
  labels: {team: core}
  rules:
  - record: pod:requests:rate
    expr: sum by (pod) (rate(requests_total[6s]))
  - record: all:requests:rate
    expr: sum(pod:requests:rate)
    labels: {team: all}
  - record: pod:requests:spread
    expr: (max_over_time(requests_total[6s]) - min_over_time(requests_total[6s])) / 6
  - record: load:changes
    expr: changes(load[8s]) + resets(requests_total[8s])
  - alert: Busy
    expr: avg_over_time(load[4s]) > 6
    for: 4s
    keep_firing_for: 6s
    labels: {severity: '{{ if gt $value 8.0 }}page{{ else }}warn{{ end }}', pod: '{{ $labels.pod | toUpper }}'}
    annotations: {summary: '{{ $labels.pod }} has {{ $value | printf "%%.3f" }} of {{ with query "count(load)" }}{{ . | first | value }}{{ end }}', site: '{{ $externalLabels.site }}'}
  - {alert: AtOnce, expr: 'load > 7', annotations: {value: '{{ humanize $value }}'}}
  - {alert: Spread, expr: 'pod:requests:spread > 3', for: 6s}
  - {alert: Gap, expr: 'absent(count_over_time(load{pod="a"}[3s]))', labels: {team: gaps}}
  - {alert: Many, expr: 'count by (alertname) (ALERTS{alertstate="firing"}) > 2', labels: {noise: 'yes'}}
  - {alert: Same, expr: 'label_replace(load, "pod", "", "", "") > 2'}
"""


class Stub(HttpServer):
    def __init__(self, env):
        self.told, self.lock = [], threading.Lock()
        super().__init__(env, self.take)

    def take(self, h):
        body = h.rfile.read(int(h.headers["Content-Length"]))
        with self.lock:
            self.told += json.loads(body)
        answer(h, 200, b"{}")


def config(rules, stub):
    return (f"global: {{scrape_interval: 2s, evaluation_interval: 2s, external_labels: {{site: 'here', replica: '1'}}}}\nrule_files: ['{rules}']\n"
            f"alerting:\n  alert_relabel_configs: [{{action: labeldrop, regex: replica}}, {{source_labels: [alertname], regex: Many, target_label: seen, replacement: x}}]\n"
            f"  alertmanagers: [{{static_configs: [{{targets: ['{stub.address}']}}]}}]\n")


class Prometheus(Process):
    def __init__(self, env, program, text):
        self.url = f"http://127.0.0.1:{free_port()}"
        super().__init__(env, "prometheus", [program, "--config.file=" + env.path("prometheus.yml", text), "--storage.tsdb.path=" + env.path("prom-data"),
                                             "--web.listen-address=" + self.url.split("//")[1], "--web.enable-remote-write-receiver",
                                             "--rules.alert.resend-delay=5s"])
        wait_until("prometheus is ready", lambda: http_get(self.url + "/-/ready")[0] == 200, 60)


def ask(url, path):
    status, _, body = http_get(url + path)
    check(status == 200, body)
    return json.loads(body)["data"]


def matrix(url, query):
    data = ask(url, "/api/v1/query?query=" + urllib.parse.quote(query))["result"]
    return [(r["metric"], [(float(t), v) for t, v in r["values"]]) for r in data]


def slots_of(url):
    """Of each group: where in the interval its slots are."""
    rows = {m["g"]: s[-1][0] % INTERVAL for m, s in matrix(url, "probe[1m]")}
    check(len(rows) == NAMES, f"{len(rows)} groups were evaluated")
    return rows


def nearest(ours, theirs):
    """A name whose slots are as near as can be, and not where a second begins."""
    def apart(g):
        d = abs(ours[g] - theirs[g])
        return min(d, INTERVAL - d)
    names = [g for g in ours if 0.1 < ours[g] % 1 < 0.9]
    best = min(names, key=apart)
    return best, ours[best], theirs[best], apart(best)


def feed(urls, phase, begin):
    """A float of each series each second, in the middle between slots: gaps with and without an end, resets, ups and downs."""
    rng = random.Random(int(os.environ.get("PYRRHA_SEED", "1")))
    pods, total, away, level = "abcd", {}, {}, {}
    for k in range(SECONDS):
        t = begin + k
        time.sleep(max(0, t - time.time()))
        series = []
        for pod in pods:
            level[pod] = min(max(level.get(pod, 4) + rng.uniform(-2.5, 2.5), 0), 10)
            total[pod] = 0 if rng.random() < 0.05 else total.get(pod, 0) + level[pod]
            stale = False
            if away.get(pod, 0):
                away[pod] -= 1
                continue
            if rng.random() < 0.08:
                away[pod] = rng.randint(1, 8)
                stale = rng.random() < 0.5
                if not stale:
                    continue
            for name, v in (("load", level[pod]), ("requests_total", total[pod])):
                series.append(({"__name__": name, "pod": pod}, [(round(t * 1000), remote_write.STALE if stale else v)]))
        for url in urls if series else ():
            status, text = remote_write.post(url, series)
            check(status in (200, 204), f"{url}: {status} {text}")
        check(time.time() - t < OFFSET - 1, "the floats came too late for the evaluation")


def seconds(text):
    m = re.fullmatch(r"(.*?)(\.\d+)?Z", text)
    return calendar.timegm(time.strptime(m[1], "%Y-%m-%dT%H:%M:%S")) + float(m[2] or 0)


def slot(t, phase):
    n = (t - phase) / INTERVAL
    check(abs(n - round(n)) < 0.02, f"{t} is no slot")
    return round(n)


def told(stub, phase, until):
    """What was sent, but for what came after that slot: {(labels, annotations, startsAt, endsAt)}."""
    out = set()
    with stub.lock:
        for a in stub.told:
            starts, ends = slot(seconds(a["startsAt"]), phase), slot(seconds(a["endsAt"]), phase)
            sent = ends - 4 * 5 // INTERVAL
            if starts <= until and (sent <= until or ends <= until):
                out.add((json.dumps(a["labels"], sort_keys=True), json.dumps(a.get("annotations", {}), sort_keys=True), starts, ends))
    return out


def recorded(url, phase, until):
    rows = {}
    for labels, samples in matrix(url, f'{{__name__=~"pod:.*|all:.*|load:.*|ALERTS.*"}}[{SECONDS + OFFSET + 60}s]'):
        for t, v in samples:
            at = slot(t + OFFSET, phase)
            if at > until:
                continue
            if labels["__name__"] == "ALERTS_FOR_STATE": # whole seconds
                v = round((float(v) - phase) / INTERVAL + 0.5 * (phase % 1 > 0.5) / INTERVAL, 0)
            rows[json.dumps(labels, sort_keys=True), at] = float(v)
    return rows


def compare(what, ours, theirs):
    only_ours = sorted(map(str, set(ours) - set(theirs)))
    only_theirs = sorted(map(str, set(theirs) - set(ours)))
    check(not only_ours and not only_theirs, f"{what}: {len(ours)} here and {len(theirs)} there; only here: {only_ours[:8]}; only there: {only_theirs[:8]}")


def same_values(ours, theirs):
    """All are the same, but rates: they are extrapolated to the ends of a range, and those lie where the slots do."""
    for key, v in theirs.items():
        far = abs(ours[key] - v)
        check(far <= (0.02 * abs(v) if ":rate" in key[0] else 0), f"{key}: {ours[key]} here, {v} there")


def missed(url, name):
    _, _, body = http_get(url + "/metrics")
    return sum(float(line.rsplit(b" ", 1)[1]) for line in body.splitlines()
               if re.match(rb"(pyrrha|prometheus)_rule_group_iterations_missed_total\{.*;" + name.encode() + rb'"', line))


def test_sent(env):
    program = os.environ.get("PYRRHA_PROMETHEUS3")
    if not program:
        raise Skip("PYRRHA_PROMETHEUS3 names no Prometheus 3")
    probes = "groups:\n" + "".join(f"- {{name: n{i}, interval: 2s, rules: [{{record: probe, labels: {{g: n{i}}}, expr: vector(1)}}]}}\n" for i in range(NAMES))
    rules, stubs = env.path("rules.yml", probes), (Stub(env), Stub(env))
    server = Server(env, config(rules, stubs[0]), ["--web.enable-remote-write-receiver", "--rules.alert.resend-delay=5s"])
    prometheus = Prometheus(env, program, config(rules, stubs[1]))
    ours = wait_until("our slots are known", lambda: slots_of(server.url))
    theirs = wait_until("those of Prometheus are known", lambda: slots_of(prometheus.url))
    name, our_phase, their_phase, apart = nearest(ours, theirs)
    check(apart < 0.02, f"{name}: {our_phase} {their_phase}")
    env.path("rules.yml", RULES % {"name": name, "offset": OFFSET})
    for p in (server, prometheus):
        p.p.send_signal(1)
    wait_until("both have the rules", lambda: all(len(ask(p.url, "/api/v1/rules")["groups"]) == 1 for p in (server, prometheus)))
    time.sleep(2 * INTERVAL)
    begin = (int(time.time()) // INTERVAL + 1) * INTERVAL + our_phase + 0.5
    feed((server.url, prometheus.url), our_phase, begin)
    last = int((begin + SECONDS + OFFSET - our_phase) // INTERVAL) + 4  # some slots more: what goes away
    time.sleep(max(0, last * INTERVAL + our_phase + 1.5 - time.time()))
    got = [(told(stubs[i], phase, last), recorded(p.url, phase, last)) for i, (p, phase) in enumerate(((server, our_phase), (prometheus, their_phase)))]
    lost = [missed(p.url, name) for p in (server, prometheus)]
    if any(lost):
        raise Skip(f"the machine is too slow: slots were missed {lost}")
    check(len(got[1][0]) > 20 and any(s[3] <= last for s in got[1][0]), f"Prometheus sent too little to compare: {got[1][0]}")
    compare("recorded series and ALERTS", got[0][1], got[1][1])
    same_values(got[0][1], got[1][1])
    compare("alerts sent", got[0][0], got[1][0])
    print(f"# {len(got[0][0])} alerts sent and {len(got[0][1])} samples recorded, equal; slots {apart * 1000:.0f} ms apart")
