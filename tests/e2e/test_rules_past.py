# SPDX-License-Identifier: Apache-2.0
"""Rules over the past of a real server: pyrtool tells what their alerts would have done, and nothing of it is written."""
import json
import time

import remote_write
from harness import Echo, Server, check, http_get, run, slow, wait_until

RULES = """groups:
- name: g
  interval: 30s
  rules:
  - {record: 'pod:load', expr: 'sum by (pod) (load)'}
  - {alert: Busy, expr: 'pod:load > 3', for: 2m, labels: {site: '{{ $labels.pod }}'}}
"""


def try_rules(env, server, text, *flags):
    return run([env.program("pyrtool"), "rules", "try", env.path("try.yml", text), "--url", server.url, *flags], 60)


def test_floats(env):
    server = Server(env, "global: {scrape_interval: 1s}\n", ["--web.enable-remote-write-receiver"])
    end = int(time.time()) // 60 * 60
    start = end - 3600
    remote_write.load(server.url, [({"__name__": "load", "pod": "a"}, [((start + s) * 1000, 5.0 if 600 <= s < 1200 else 1.0)
                                                                       for s in range(0, 3600, 15)])])
    status, out = try_rules(env, server, RULES, "--start", str(start), "--end", str(end), "--output=json")
    check(status == 0, out)
    data = json.loads(out)["data"]
    check(len(data["alerts"]) == 1, out)
    alert = data["alerts"][0]
    check(alert["labels"] == {"alertname": "Busy", "pod": "a", "site": "a"} and alert["state"] == "inactive", out)
    at = [time.mktime(time.strptime(alert[k][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone - start for k in ("activeAt", "firedAt", "endedAt")]
    check(600 <= at[0] < 630 and abs(at[1] - at[0] - 120) < 1 and 1200 <= at[2] < 1230, f"{at} {out}")
    check(data["evaluations"] in (240, 242), out)
    status, out = try_rules(env, server, RULES, "--start", str(start), "--end", str(end))
    check(status == 0 and 'alertname="Busy"' in out and "  resolved " in out and "1 alerts in 24" in out, out)
    for name in ("pod:load", "ALERTS", "ALERTS_FOR_STATE"):
        check(not server.query(f"{{__name__='{name}'}}[2h]")["result"], f"{name} was written")
    check(not [m for m in server.metrics() if m.startswith("pyrrha_rule") and "try" in m], "what is tried is not counted")
    status, out = try_rules(env, server, RULES.replace("load > 3", "load >"), "--end", str(end))
    check(status == 1 and "try.yml:6:" in out, out)
    status, _, body = http_get(server.url + "/api/v1/rules/try", data=b"")
    check(status == 400 and b"rules" in body, body)


def test_profiles(env):
    echo = Echo(env)
    server = Server(env, f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: echo\n"
                    f"  static_configs: [{{targets: ['{echo.address}']}}]\n")
    wait_until("there are profiles", lambda: (server.value("samples(merge(cpu[10s]))") or 0) > 0, 60)
    time.sleep(2)  # so that a slot is later than they are
    rules = """groups: [{name: g, interval: 1s, rules: [{record: n, expr: 'samples(merge by (job) (cpu[10s]))'},
      {alert: Seen, expr: 'n > 0 and on (job) merge by (job) (cpu[10s])'}]}]"""
    status, out = try_rules(env, server, rules, "--start", str(time.time() - 60))
    check(status == 0 and '{alertname="Seen", job="echo"}' in out and "  firing " in out, out)


@slow
def test_backfill_profiles(env):
    """Recorded profiles of the past add up to their source, beside what the server records; twice is as once, also on other slots."""
    echo = Echo(env)
    env.path("rules-a.yml", "groups: [{name: live, interval: 2s, rules: [{record: live, expr: 'merge by (job) (cpu[2s])', profiles: true}]}]")
    server = Server(env, f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nrule_files: ['rules-*.yml']\nscrape_configs:\n- job_name: echo\n"
                    f"  static_configs: [{{targets: ['{echo.address}']}}]\n", ["--web.enable-admin-api"])
    wait_until("slots were recorded", lambda: [1 for r in server.query("live[1m]")["result"] if len(r["values"]) >= 8], 60)
    stamps = [float(t) for r in server.query("live[1m]")["result"] for t, _ in r["values"]]
    words = ["--url", server.url, "--start", f"{stamps[0] - 4}", "--end", f"{stamps[-1]}"]
    tool = [env.program("pyrtool"), "rules", "backfill"]
    rule = "{record: RECORD, expr: 'merge by (job) (cpu[2s])', profiles: true}"
    past = env.path("past.yml", "groups: [{name: p, interval: 2s, rules: [" + rule.replace("RECORD", "past") + ", {record: n, expr: 'value(past)'}]}]")
    status, out = run([*tool, past, *words], 60)
    check(status == 0 and " 0 were there already, 0 refused" in out and "left out" not in out, out)
    got = {r["metric"]["__name__"]: [float(t) for t, _ in r["values"]] for r in server.query('{__name__=~"past|n"}[1m]')["result"]}
    check(len(got["past"]) >= 5 and got["past"] == got["n"], f"a value for each profile: {got}")
    last, width = got["past"][-1], round(got["past"][-1] - got["past"][0])

    def totals(name):
        return {r["metric"]["function"]: r["value"][1] for r in server.query(f"total(merge({name}[{width}s]))", time=last)["result"]}
    check(totals("cpu") == totals("past") and totals("cpu"), f"{totals('cpu')} {totals('past')}")
    first = totals("past")
    for path in (past, env.path("elsewhere.yml", open(past, encoding="utf-8").read()), env.path("rules-a.yml")):
        was = totals("live")
        status, out = run([*tool, path, *words], 60)
        check(status == 0 and totals("past") == first and totals("live") == was, out)


def test_backfill(env):
    env.path("rules-a.yml", "groups: [{name: g, interval: 30s, rules: [{record: r, expr: vector(1)}]}]")
    config = "global: {scrape_interval: 1s}\nrule_files: ['rules-*.yml']\n"
    server = Server(env, config, ["--web.enable-remote-write-receiver", "--web.enable-admin-api"])
    end = int(time.time()) // 60 * 60 - 600
    start = end - 1800
    remote_write.load(server.url, [({"__name__": "load", "pod": p}, [((start + s) * 1000, float(s)) for s in range(0, until, 15)])
                                   for p, until in (("a", 1800), ("b", 600))])
    path = env.path("back.yml", """groups: [{name: g, interval: 30s, rules: [{record: pod_load, expr: load}, {record: all_load, expr: sum(pod_load)},
      {alert: A, expr: 'load > 0'}]}]""")
    words = [env.program("pyrtool"), "rules", "backfill", path, "--url", server.url, "--start"]

    def recorded():
        return {n: [(r["metric"], r["values"]) for r in server.query(f"{n}[1h]")["result"]]
                for n in ("pod_load", "all_load", "ALERTS")}
    status, out = run(words + [str(start + 900), "--end", str(end)], 60)
    check(status == 0 and " 0 were there already, 0 refused" in out, out)
    status, out = run(words + [str(start), "--end", str(end)], 60)
    check(status == 0 and " 0 were there already" not in out, out)
    first = recorded()
    status, out = run(words + [str(start), "--end", str(end)], 60)
    check(status == 0 and ": 0 samples written" in out and recorded() == first, out)
    by_pod = {m["pod"]: [(float(t), float(v)) for t, v in s] for m, s in first["pod_load"]}
    check(len(by_pod["a"]) == 60 and not first["ALERTS"] and len(first["all_load"][0][1]) == 60, str(first))
    total = {float(t): float(v) for t, v in first["all_load"][0][1]}
    for t, v in by_pod["a"]:
        check(total[t] == v + dict(by_pod["b"]).get(t, 0), f"the later rule saw the earlier one at {t}: {total[t]}")
        check(v == (t - start) // 15 * 15, f"{v} at {t}")
