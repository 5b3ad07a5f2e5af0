# SPDX-License-Identifier: Apache-2.0
"""Rules in the real program: what is recorded, alerts over kills, files that are wrong."""
import os
import random
import socket
import time

from harness import Echo, Process, Server, check, http_get, slow, wait_until

LONG = bool(os.environ.get("PYRRHA_LONG"))


def rules_server(env, rules, scrapes="", flags=()):
    env.path("rules-a.yml", rules)
    return Server(env, "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ['rules-*.yml']\n" + scrapes,
                  flags)


def samples(server, query, at=None):
    """Of each series of a range selector: labels and [(t, value)]."""
    data = server.query(query, **({"time": at} if at else {}))["result"]
    return [(r["metric"], [(float(t), float(v)) for t, v in r["values"]]) for r in data]


def test_recorded_values_and_order(env):
    server = rules_server(env, "groups: [{name: a, rules: [{record: one, expr: 'vector(time())'}, {record: two, expr: 'one + 1'},"
                          "{record: twin, expr: '1'}, {record: twin, expr: '2'}, {record: twin, expr: '1'}]}]")
    wait_until("both were recorded", lambda: server.value("count(two - one)"))
    time.sleep(3)
    one = {t: v for _, s in samples(server, "one[1m]") for t, v in s}
    two = {t: v for _, s in samples(server, "two[1m]") for t, v in s}
    check(len(one) >= 3 and set(two) <= set(one), f"{one} {two}")
    for t, v in two.items():
        check(abs(one[t] - t) < 1e-6 and abs(v - one[t] - 1) < 1e-6, f"at {t} the later rule saw the earlier one: {one[t]} {v}")
    health = [(r["health"], r.get("lastError", "")) for r in server.api("rules")["groups"][0]["rules"]]
    check([h for h, _ in health] == ["ok", "ok", "ok", "err", "ok"] and "there is one of that time already" in health[3][1], str(health))
    steps = sorted(one)
    check(all(abs(b - a - 1) < 1e-6 for a, b in zip(steps, steps[1:])), f"slots are an interval apart: {steps}")
    nice = {name: {int(f[16]) for f in rows} for name, rows in threads(server).items()}
    usual = min(nice["httpd-work"])
    check(nice["rules"] == {min(usual + 15, 19)} and nice["rules hurried"] == {min(usual + 5, 19)},
          f"who evaluates gives way to who waits for an answer: {nice}")


def test_a_bad_file_changes_nothing(env):
    server = rules_server(env, "groups: [{name: a, rules: [{record: one, expr: '1'}]}]")
    wait_until("it was recorded", lambda: server.value("one"))
    path = env.path("rules-b.yml", "groups:\n- name: b\n  rules:\n  - record: cpu\n    expr: |\n      sum(\n        up +)\n  - alert: x\n")
    server.p.send_signal(1)
    wait_until("the reload failed", lambda: server.metrics()["pyrrha_config_last_reload_successful"] == 0)
    text = server.text()
    for want in (path + ":4:13: ", path + ":7:13: ", path + ":8:5: "):
        check(want in text, f"{want}: {text[-3000:]}")
    env.path("rules-b.yml", " ")
    server.p.send_signal(1)
    wait_until("an empty file is one that somebody writes", lambda: "rules-b.yml (of rule_files) is empty" in server.text())
    now = time.time()
    wait_until("the old rules go on", lambda: server.value("timestamp(one)") > now + 1)
    os.remove(path)
    server.p.send_signal(1)
    wait_until("the reload worked", lambda: server.metrics()["pyrrha_config_last_reload_successful"] == 1)


class ServerOnAllInterfaces(Server):
    def start_on(self, name, port):
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.argv = [self.env.program("pyrrha"), "--config.file=" + self.config, "--storage.path=" + self.storage,
                     f"--web.listen-address=:{port}", "--web.allow-insecure", "--web.enable-lifecycle", *self.flags]
        Process.__init__(self, self.env, name, self.argv)


def test_links_of_a_server_on_all_interfaces(env):
    """They have the host's name, as in Prometheus, and the log warns of that once there are alerts, unless the URL was given."""
    warning = "links of alerts begin with this URL"
    config = "global: {evaluation_interval: 1s}\nrule_files: ['links.yml']\n"
    env.path("links.yml", "groups: []\n")
    server = ServerOnAllInterfaces(env, config)
    check(warning not in server.text(), "without alerts there is no warning")
    env.path("links.yml", "groups: [{name: a, rules: [{alert: Always, expr: vector(1), annotations: {url: '{{ $externalURL }}/x'}}]}]\n")
    for _ in range(2):
        check(http_get(server.url + "/-/reload", data=b"")[0] == 200, "reload")
    alert = wait_until("the alert fires", lambda: server.api("alerts")["alerts"])[0]
    check(alert["annotations"]["url"] == f"http://{socket.gethostname()}:{server.port}/x", str(alert))
    check(server.text().count(warning) == 1, "one warning")
    given = ServerOnAllInterfaces(env, config, ["--web.external-url=http://pyrrha.example/"], name="given")
    alert = wait_until("the alert fires", lambda: given.api("alerts")["alerts"])[0]
    check(alert["annotations"]["url"] == "http://pyrrha.example/x" and warning not in given.text(), str(alert))


def threads(server):
    """What /proc says of each thread after its name, by name."""
    rows = {}
    for thread in os.listdir(f"/proc/{server.p.pid}/task"):
        with open(f"/proc/{server.p.pid}/task/{thread}/stat", encoding="utf-8") as f:
            name, _, rest = f.read().partition("(")[2].rpartition(")")
        rows.setdefault(name, []).append(rest.split())
    return rows


@slow
def test_slow_groups_beside_quick_ones(env):
    """Groups whose rules take long do not hold up the others; a reload without them does not wait for the last of their rules."""
    slow = "sum(sum_over_time(sin(vector(time()))[30d:1s]))"
    env.path("rules-slow.yml", "groups:\n" + "".join(f"- name: slow{g}\n  rules:\n" + "".join(
        f"  - {{record: s, expr: '{slow} + {g * 1000 + i}'}}\n" for i in range(100)) for g in range(6)))
    server = rules_server(env, "groups: [{name: quick, rules: [{record: one, expr: 'vector(time())'}]}]")
    wait_until("the quick one was evaluated", lambda: server.value("one"), 30)

    def on_time():
        seen = sum(len(s) for _, s in samples(server, "one[10s]"))
        return seen >= 7 or check(False, f"{seen} of 10 slots were evaluated")

    def hurry():
        ticks = sum(int(f[11]) + int(f[12]) for f in threads(server)["rules hurried"])
        return ticks > 50 or check(False, f"{ticks} ticks of CPU")
    wait_until("an evaluation that takes longer than a quarter of its interval goes on in a thread that hurries", hurry)
    # Others use the machine, too: in one stretch of ten seconds it is on time.
    wait_until("the quick group is on time", on_time, 180)
    os.remove(env.path("rules-slow.yml", ""))
    began = time.time()
    server.p.send_signal(1)
    env.path("rules-new.yml", "groups: [{name: new, rules: [{record: new, expr: '1'}]}]")
    server.p.send_signal(1)
    # The slow rules that are left would take minutes.
    wait_until("the new rules are there", lambda: server.value("new"), 60)
    print(f"the reload took {time.time() - began:.1f} s")


def check_alert(server, wait_s, end):
    """Of one alert's series: it fires once, after it was seen pending for long enough, and became active once."""
    pending = [t for _, s in samples(server, 'ALERTS{alertname="A",alertstate="pending"}[1h]') for t, v in s]
    firing = [t for _, s in samples(server, 'ALERTS{alertname="A",alertstate="firing"}[1h]') for t, v in s]
    check(firing and (not pending or max(pending) < min(firing)), f"never back to pending: {pending} {firing}")
    check(len(pending) + 2 >= wait_s, f"it did not fire before it was seen for {wait_s} s: {pending}")
    since = {v for _, s in samples(server, 'ALERTS_FOR_STATE{alertname="A"}[1h]') for t, v in s if t >= min(firing)}
    check(len(since) == 1, f"active since the same time while it fires: {since}")
    check(max(firing) <= end, "it was resolved")
    return firing


@slow
def test_alerts_over_kills(env):
    """Killed while it is pending, fires, is kept: it neither fires early nor resolves falsely, and stays active since when it was."""
    kills, keep = (50, 60) if LONG else (5, 6)
    end = int(time.time()) + (90 if LONG else 28)
    rules = (f"groups: [{{name: a, rules: [{{alert: A, expr: 'vector(time()) < {end}', for: 6s, keep_firing_for: {keep}s}}]}}]")
    server = rules_server(env, rules)
    rng = random.Random(int(os.environ.get("PYRRHA_SEED", "1")))
    for _ in range(kills):
        if time.time() > end - 10:
            break  # a busy machine takes long to start it: it has to fire before it is over, in order to be kept
        time.sleep(rng.uniform(0.3, 3.5 if not LONG else 2))
        server.kill()
        server.restart()
    wait_until("it was resolved", lambda: time.time() > end + keep and not samples(server, 'ALERTS{alertname="A"}[2s]'), 60 + keep)
    firing = check_alert(server, 6, end + 2 * keep + 60)
    kept = [t for t in firing if t >= end]
    check(kept and max(kept) >= end + keep - 2, f"kept for {keep} s after {end}: {kept}")


@slow
def test_recorded_profiles_add_up(env):
    echo = Echo(env)
    server = rules_server(env, "groups: [{name: a, interval: 2s, rules: [{record: rec, profiles: true, expr: 'merge by (job) (on_path[2s])'}]}]"
                          .replace("on_path", "cpu"),
                          f"scrape_configs:\n- job_name: echo\n  static_configs: [{{targets: ['{echo.address}']}}]\n")
    wait_until("three slots were recorded", lambda: [1 for _, s in samples(server, "rec[1m]") if len(s) >= 3], 60)
    server.kill()
    time.sleep(3)
    server.restart()
    now = time.time()
    wait_until("slots of the outage and after it were recorded", lambda: [1 for _, s in samples(server, "rec[1m]") if s[-1][0] > now + 2], 60)
    stamps = sorted({t for _, s in samples(server, "rec[1m]") for t, _ in s})
    first, last = stamps[0], stamps[-1]
    width = round(last - first)
    check(abs(width - (last - first)) < 1e-6 and width % 2 == 0, f"slots: {stamps}")
    source = server.value(f"value(merge(cpu[{width}s]))", time=last)
    recorded = server.value(f"value(merge(rec[{width}s]))", time=last)
    check(source and abs(source - recorded) < 1e-12, f"{source} of the source, {recorded} recorded")
    total = {r["metric"]["function"]: r["value"][1] for r in server.query(f"total(merge(cpu[{width}s]))", time=last)["result"]}
    again = {r["metric"]["function"]: r["value"][1] for r in server.query(f"total(merge(rec[{width}s]))", time=last)["result"]}
    check(total == again and "main.fibonacci" in " ".join(total), f"{total} {again}")
