# SPDX-License-Identifier: Apache-2.0
"""Attacks by queries; the programs are in tests/attack."""
import json
import os
import sys
import time
import urllib.parse

from harness import LONG, TOP, Server, check, http_get

sys.path.insert(0, os.path.join(TOP, "tests", "attack"))
import deep_queries  # noqa: E402  pylint: disable=wrong-import-position


def ask(server, path, **params):
    status, _, body = http_get(server.url + "/api/v1/" + path, data=urllib.parse.urlencode(params).encode())
    return status, json.loads(body)


def test_deep_queries(env):
    server = Server(env, "")
    bad = deep_queries.attack(server.url, 300 if LONG else 0)
    check(not bad and server.alive(), "\n".join(bad) + server.text()[-2000:])
    status, answer = ask(server, "query", query="+".join(["1"] * 10000))
    check(status == 400 and "more than 2000 operations" in answer["error"], str(answer)[:500])
    status, answer = ask(server, "query", query=" or ".join(["vector(1)"] * 1000))
    check(status == 200 and answer["data"]["result"][0]["value"][1] == "1", str(answer)[:500])
    status, answer = ask(server, "format_query", query="+".join(["1"] * 2000))
    check(status == 200 and len(answer["data"]) < 10 << 20, f"{status} {str(answer)[:500]}")
    begin = time.monotonic()
    ask(server, "parse_query", query="merge(" * 390 + "cpu" + ")" * 390)
    check(time.monotonic() - begin < 10, "the tree is checked once a node")
