# SPDX-License-Identifier: Apache-2.0
"""Rules and alerts as they are shown: the API beside a real Prometheus's, field by field, and the page in a headless Chromium.
A Prometheus that is found in PATH is taken before Debian's: /api/v1/rules of 2.42 has few of the parameters."""
import json
import os
import re

from harness import Server, check, http_get, in_the_browser, need_a_browser, run, slow, wait_until
from test_promql_oracle import Prometheus, tool

CONFIG = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ['%s/rules-*.yml']\n"

# An alert that fires, kept and pending ones, rules that fail and that find nothing; names and texts of people who mean harm.
RULES = r"""
groups:
- name: '<b>g</b>'
  limit: 10
  labels: {team: core}
  rules:
  - {record: one, expr: vector(1), labels: {x: 'y'}}
  - alert: '<img src=x onerror="hacked=1">'
    expr: (one or label_replace(one * 0.35, "pod", "</script><script>hacked=1</script>", "", "")) > 0.3
    labels: {severity: '{{ if gt $value 0.5 }}page{{ else }}ticket{{ end }}'}
    annotations:
      summary: '<script>hacked=1</script> {{ $labels.pod }} has {{ $value | humanizePercentage }}'
      long: '{{ printf "%065536d" 1 }}'
      runbook: http://example.org/runbook?of={{ $value }}
      harm: javascript:hacked=1
  - {alert: Waits, expr: one == 1, for: 1h, keep_firing_for: 90s}
  - {alert: Quiet, expr: one > 2, annotations: {summary: nothing}}
- name: fails
  interval: 2s
  rules:
  - {alert: Fails, expr: '(one or label_replace(one, "a", "b", "", "")) > 0', labels: {a: x}}
"""
OTHER = "groups: [{name: other, interval: 1500ms, rules: [{record: 'a:b', expr: 'sum by (x) (one) / 4'}]}]\n"


def with_rules(env, rules=RULES):
    env.path("rules-a.yml", rules)
    env.path("rules-b.yml", OTHER)
    return CONFIG % env.dir


def evaluated(server):
    """The second time at least: a group may come before the one whose series it reads."""
    rules = {r["name"]: r["health"] for g in server.api("rules")["groups"] for r in g["rules"]}
    return len(rules) == 6 and "unknown" not in rules.values() and rules["Fails"] == "err" and len(server.api("alerts")["alerts"]) == 3


# ---- beside Prometheus ----

def pairs(x):
    """Objects as lists, so that the order of fields counts; what differs from run to run is only there or not, and of a kind."""
    if isinstance(x, list):
        return [pairs(v) for v in x]
    if not isinstance(x, tuple):
        return x
    out = []
    for k, v in x:
        if k == "evaluationTime":
            v = isinstance(v, (int, float)) and 0 <= v < 5
        elif k in ("lastEvaluation", "activeAt", "keepFiringSince"):
            v = bool(re.fullmatch(r"2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", v))
        elif k == "groupNextToken":
            v = bool(v)
        v = pairs(v)
        out.append((k, sorted(v) if k == "alerts" and v else v))
    return out


def ask(server, path):
    status, _, body = http_get(server.url + "/api/v1/" + path)
    answer = json.loads(body, object_pairs_hook=tuple)
    if status != 200:
        return status, [(k, re.sub(r'(number|exclude_alerts): .*', r"\1", v)) for k, v in answer]
    return status, pairs(answer)


PLAIN = ["rules", "rules?type=x", "alerts"]
OF_3 = ["rules?type=alert", "rules?type=record", "rules?exclude_alerts=true", "rules?exclude_alerts=False", "rules?exclude_alerts=x", "rules?type=ALERT&exclude_alerts=1",
        "rules?rule_name[]=Quiet&rule_name[]=one", "rules?rule_name[]=nobody", "rules?rule_group[]=fails&rule_group[]=x", "rules?file[]=FILE",
        "rules?file[]=FILE&rule_group[]=fails", "rules?file[]=rules-b.yml", "rules?match[]={x=%22y%22}", "rules?match[]={x=~%22.%22,a=%22%22}&match[]={a=%22x%22}",
        "rules?match[]={severity=~%22.*page.*%22}", "rules?match[]={team=%22core%22}&type=record",
        "rules?group_limit=1", "rules?group_limit=2&type=record", "rules?group_limit=100", "rules?group_limit=x", "rules?group_limit=0",
        "rules?group_limit=-1", "rules?group_limit=3000000000", "rules?group_next_token=x", "rules?group_limit=1&group_next_token=x"]


def test_api_beside_prometheus(env):
    is_2 = "version 2." in run([tool(env, "prometheus"), "--version"])[1]
    config = with_rules(env, RULES.replace("  labels: {team: core}\n", "") if is_2 else RULES)  # groups have labels since 3.0
    theirs, ours = Prometheus(env, config), Server(env, config)
    for server in (theirs, ours):
        wait_until("all rules were evaluated", lambda: evaluated(server))
    for path in PLAIN if is_2 else PLAIN + OF_3:
        path = path.replace("FILE", os.path.join(env.dir, "rules-a.yml"))
        a, b = json.dumps(ask(theirs, path)), json.dumps(ask(ours, path))
        if is_2:  # empty labels of a recording rule are not there
            a, b = (x.replace('["labels", []], ', "") for x in (a, b))
        at = max(len(os.path.commonprefix([a, b])) - 200, 0)
        check(a == b, f"{path}:\nPrometheus {a[at:at + 500]}\nPyrrha     {b[at:at + 500]}")


def test_pages_of_groups(env):
    server = Server(env, with_rules(env))
    names, token = [], {}
    while True:
        answer = server.api("rules", group_limit=1, **token)
        names += [g["name"] for g in answer["groups"]]
        if "groupNextToken" not in answer:
            break
        token = {"group_next_token": answer["groupNextToken"]}
    check(names == ["<b>g</b>", "fails", "other"], names)


# ---- the page ----

@slow
def test_in_a_browser(env):
    need_a_browser(env)
    server, empty = Server(env, with_rules(env)), Server(env, "global: {}\n", name="empty")
    wait_until("all rules were evaluated", lambda: evaluated(server))
    in_the_browser(env, "page_rules.mjs", server.url, empty.url, env.dir, seconds=400)
