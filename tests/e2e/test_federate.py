# SPDX-License-Identifier: Apache-2.0
"""/federate: its text, and Debian's real Prometheus that scrapes it."""
import time

import remote_write
from harness import Echo, Server, check, http_get, scrape_config, wait_until
from test_promql_oracle import Prometheus

SELECT = '{__name__=~"fed.*|my.name|slow"}'


def federate(server, *match, accept=None):
    status, headers, body = http_get(server.link("/federate", **{"match[]": list(match)}), headers={"Accept": accept} if accept else None)
    return status, headers.get("Content-Type", ""), body.decode()


def test_text(env):
    server = Server(env, "global: {external_labels: {cluster: 'eu\"1', job: other}}\n", ["--web.enable-remote-write-receiver"])
    now = int(time.time() * 1000)
    status, text = remote_write.post(server.url, [
        ({"__name__": "fed_a", "instance": "i", "job": "j", "x": 'a"b\\c\nd'}, [(now - 2000, 1), (now - 1000, 0.1)]),
        ({"__name__": "fed_a", "A": "before the name", "job": "j"}, [(now - 1000, float("inf"))]),
        ({"__name__": "fed_b"}, [(now - 1000, float("nan"))]),
        ({"__name__": "fed_ended"}, [(now - 2000, 1), (now - 1000, remote_write.STALE)]),
        ({"__name__": "fed_old"}, [(now - 301000, 1)]),
        ({"__name__": "my.name", "la-bel": "1", "la.bel": "2"}, [(now - 1000, -1e300)])])
    check(status == 204, text)
    t = now - 1000
    want = (f'# TYPE fed_a untyped\nfed_a{{A="before the name",job="j",cluster="eu\\"1",instance=""}} +Inf {t}\n'
            f'fed_a{{instance="i",job="j",x="a\\"b\\\\c\\nd",cluster="eu\\"1"}} 0.1 {t}\n'
            f'# TYPE fed_b untyped\nfed_b{{cluster="eu\\"1",job="other",instance=""}} NaN {t}\n')
    ours = f'cluster="eu\\"1",job="other",instance=""}} -1e+300 {t}\n'
    got = federate(server, SELECT, "fed_a")
    check(got == (200, "text/plain; version=0.0.4; charset=utf-8",
                  want + '# TYPE my_name untyped\nmy_name{la_bel="1",' + ours), f"{got}")
    got = federate(server, SELECT, accept="text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2")
    check(got == (200, "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
                  want + '# TYPE "my.name" untyped\n{"my.name","la-bel"="1","la.bel"="2",' + ours), f"{got}")
    check(federate(server, "fed_b", "fed_b")[2].count("fed_b{") == 1, "a series of two selectors is there once")
    check(federate(server)[0] == 200 and federate(server)[2] == "", "no selector, no series")
    status, _, text = federate(server, "fed_a{")
    check(status == 400 and 'invalid parameter "match[]"' in text, text)
    server.configure("global: {external_labels: {cluster: two}}\n")
    server.p.send_signal(1)
    wait_until("external labels are those of now", lambda: 'cluster="two"' in federate(server, "fed_b")[2])


def test_prometheus_scrapes_it(env):
    echo = Echo(env)
    env.path("rules.yml", "groups: [{name: a, rules: [{record: 'job:cpu:rate', expr: 'sum by (job) (rate(cpu[10s]))'},"
             " {record: busy, expr: 'share(rate(cpu[10s]), frames(\"main.*\"))'}]}]")
    scrapes = scrape_config([echo.address]).replace("global:\n", "global:\n  external_labels: {cluster: eu}\n  evaluation_interval: 1s\n")
    ours = Server(env, scrapes + "rule_files: [rules.yml]\n")
    wait_until("the rules have recorded", lambda: ours.value("count(job:cpu:rate)") and ours.value("count(busy)"))
    theirs = Prometheus(env, "scrape_configs:\n- job_name: federate\n  honor_labels: true\n  scrape_interval: 1s\n  scrape_timeout: 1s\n"
                        "  metrics_path: /federate\n  params: {'match[]': ['{__name__=~\".+\"}']}\n"
                        f"  static_configs: [{{targets: ['127.0.0.1:{ours.port}']}}]\n")
    selector = '{__name__=~"job:.*|busy|up",cluster="eu"}'
    wait_until("each series is there several times", lambda: all(
        theirs.query('count_over_time(%s{cluster="eu"}[1m]) >= 3' % name)["result"] for name in ("job:cpu:rate", "busy", "up")))
    end = time.time()
    for row in theirs.query(selector + "[1m]", time=end)["result"]:
        labels = {k: v for k, v in row["metric"].items() if k != "cluster"}
        mine = ours.query("{%s}[2m]" % ",".join(f'{k}="{v}"' for k, v in labels.items()), time=end)["result"]
        have = {tuple(p) for r in mine if r["metric"] == labels for p in map(tuple, r["values"])}
        check({tuple(p) for p in row["values"]} <= have, f"{labels}: {row['values']} of {sorted(have)}")
    names = {t["name"] for t in ours.api("profile_types")}
    check(names and not names & set(theirs.api("label/__name__/values")), f"profiles are left out: {names}")
    up = theirs.query('min_over_time(up{job="federate"}[1m])')["result"]
    check([r["value"][1] for r in up] == ["1"], f"Prometheus understands all of it: {up}")
