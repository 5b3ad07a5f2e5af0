# SPDX-License-Identifier: Apache-2.0
"""Attacks by queries; the programs are in tests/attack."""
import json
import os
import sys
import time
import urllib.parse

from harness import LONG, patience, TOP, Echo, Server, check, http_get, scrape_config, wait_until

sys.path.insert(0, os.path.join(TOP, "tests", "attack"))
import bad_regex  # noqa: E402
import deep_queries  # noqa: E402


def ask(server, path, **params):
    status, _, body = http_get(server.url + "/api/v1/" + path, data=urllib.parse.urlencode(params).encode())
    return status, json.loads(body)


def test_deep_queries(env):
    server = Server(env, "")
    bad = deep_queries.attack(server.url, 300 if LONG else 0, deep_queries.SLOW * patience())
    check(not bad and server.alive(), "\n".join(bad) + server.text()[-2000:])
    status, answer = ask(server, "query", query="+".join(["1"] * 10000))
    check(status == 400 and "more than 2000 operations" in answer["error"], str(answer)[:500])
    status, answer = ask(server, "query", query=" or ".join(["vector(1)"] * 1000))
    check(status == 200 and answer["data"]["result"][0]["value"][1] == "1", str(answer)[:500])
    status, answer = ask(server, "format_query", query="+".join(["1"] * 2000))
    check(status == 200 and len(answer["data"]) < 10 << 20, f"{status} {str(answer)[:500]}")
    begin = time.monotonic()
    ask(server, "parse_query", query="merge(" * 390 + "cpu" + ")" * 390)
    check(time.monotonic() - begin < 10 * patience(), "the tree is checked once a node")


HARD, NAME = "(?:a?){30}a{30}[bq]", "a" * 40 + "c"


def test_bad_expressions(env):
    echo = Echo(env)
    server = Server(env, scrape_config([echo.address], extra="""
    relabel_configs: [{target_label: long, replacement: %s}]""" % NAME))
    wait_until("there are profiles", lambda: server.value("count(cpu)") and server.value("count(up)"), 60)
    bad = bad_regex.attack(server.url, 300 if LONG else 0)
    check(not bad and server.alive(), "\n".join(bad) + server.text()[-2000:])
    for op in ("=~", "!~"):
        for path, params in (("query", {"query": 'up{long%s"%s"}' % (op, HARD)}), ("series", {"match[]": 'up{long%s"%s"}' % (op, HARD)})):
            begin = time.monotonic()
            status, answer = ask(server, path, **params)
            check(status == 422 and HARD in answer["error"] and "a" * 40 in answer["error"], f"{path} {status} {str(answer)[:500]}")
            check(time.monotonic() - begin < 5 * patience(), "at once")


def test_relabelling_that_takes_long_is_told(env):
    """What it would have done with the target or series is not known: neither is kept nor dropped in silence."""
    echo = Echo(env)
    for action in ("keep", "drop"):
        rule = f'{{action: {action}, source_labels: [long], regex: "{HARD}"}}'
        name = f"{{target_label: long, replacement: {NAME}}}"
        server = Server(env, scrape_config([echo.address], extra=f"    relabel_configs: [{name}]\n"
                                                                 f"    metric_relabel_configs: [{rule}]\n"),
                        ["--web.enable-lifecycle"], name=action)
        wait_until(f"{action}: the target says so", lambda: any(
            "took too many steps" in t.get("lastError", "") and t["health"] == "down" for t in server.targets()), 30)
        check(not server.value('count({__name__=~".*cpu.*"})'), "nothing was stored")
        server.configure(scrape_config([echo.address], extra=f"    relabel_configs: [{name}, {rule}]\n"))
        check(http_get(server.url + "/-/reload", data=b"")[0] == 200, "reloaded")
        wait_until(f"{action}: the log says so", lambda: 'msg="target cannot be scraped"' in server.text() and
                   "relabel_configs: rule 2: the regular expression" in server.text(), 30)
        check(server.metrics()["pyrrha_target_sync_failed_total"] > 0, "counted")
        server.terminate()
