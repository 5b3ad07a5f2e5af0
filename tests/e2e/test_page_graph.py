# SPDX-License-Identifier: Apache-2.0
"""The graph of the page in a headless Chromium (page_graph.mjs): of series whose version changes, of ninety series, of alerts that
fired, of nothing; and a function over time. The data is imported, so that it is known to the sample."""
import json
import os
import time

import remote_write
from harness import Echo, Server, check, in_the_browser, need_a_browser, run, scrape_config, slow, wait_until
from pprof_file import message

STEP = 15
DOWN = """
  - job_name: broken
    static_configs: [{targets: ['127.0.0.1:9']}]
"""


def cpu_profile(stacks, end, seconds):
    """profile.proto of {(function, ...), leaf first: samples} at 100 Hz."""
    strings, functions, samples = ["", "cpu", "nanoseconds", "samples", "count"], {}, b""

    def text(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)

    for stack, n in stacks.items():
        ids = [functions.setdefault(f, len(functions) + 1) for f in stack]
        samples += message((2, message(*[(1, i) for i in ids], (2, n), (2, n * 10_000_000))))
    out = message((1, message((1, text("samples")), (2, text("count")))), (1, message((1, text("cpu")), (2, text("nanoseconds"))))) + samples
    for f, i in functions.items():
        out += message((4, message((1, i), (4, message((1, i), (2, 1))))), (5, message((1, i), (2, text(f)), (3, text(f)), (4, text("main.go")))))
    out += b"".join(message((6, s.encode())) for s in strings)
    return out + message((9, (end - seconds) * 10**9), (10, seconds * 10**9), (11, message((1, text("cpu")), (2, text("nanoseconds")))), (12, 10_000_000))


def write(root, labels, end, stacks, seconds=STEP):
    folder = os.path.join(root, *[f"{k}={v}" for k, v in labels.items()], "__profile__=process_cpu:delta")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, time.strftime("%Y-%m-%dT%H:%M:%S.000Z.pb", time.gmtime(end))), "wb") as f:
        f.write(cpu_profile(stacks, end, seconds))


def stored(env, base):
    """Half an hour from base on: echo, of which a new version comes in the middle and spends more in fib; shop, ninety pods; idle."""
    root, data = env.path("profiles"), env.path("pyrrha-data")
    for end in range(base + STEP, base + 1801, STEP):
        new = end > base + 900
        for pod in ("a", "b"):
            labels = {"job": "echo", "zone": "north", "container": "echoserver", "pod": f"echo-{'2' if new else '1'}{pod}", "version": "2.0" if new else "1.0"}
            write(root, labels, end, {("main.fib", "main.serve"): 600 if new else 100, ("main.write", "main.serve"): 400 if pod == "a" else 200})
    for end in range(base + 60, base + 601, 60):
        for pod in range(90):
            write(root, {"job": "shop", "pod": f"shop-{pod:02}"}, end, {("main.sell",): 10 + pod}, 60)
        write(root, {"job": "idle"}, end, {}, 60)
    status, out = run([env.program("pyrtool"), "tsdb", "import", data, root], seconds=60)
    check(status == 0, out)


@slow
def test_in_a_browser(env):
    need_a_browser(env)
    base = int(time.time()) // 60 * 60 - 7200
    stored(env, base)
    server = Server(env, scrape_config([Echo(env, load=1).address], job="live") + DOWN, flags=["--web.enable-remote-write-receiver"])
    fired = [(t * 1000, 1.0) for t in range(base + 1200, base + 1501, 15)]
    alert = {"__name__": "ALERTS", "alertname": "TooHot", "alertstate": "firing", "severity": "page", "container": "echoserver"}
    other = dict(alert, alertname="Elsewhere", container="another")
    status, text = remote_write.post(server.url, [(a, fired + [(fired[-1][0] + 15000, remote_write.STALE)]) for a in (alert, other)])
    check(status == 204, text)
    wait_until("the live job has samples", lambda: server.query('cpu{job="live"}')["result"], 90)
    in_the_browser(env, "page_graph.mjs", server.url, env.dir, json.dumps({"base": base}), seconds=400)
