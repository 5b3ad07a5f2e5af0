# SPDX-License-Identifier: Apache-2.0
"""The flame graph of the page in a headless Chromium, over two pods whose profiles are known: functions that call themselves, libraries and
a kernel, boxes too small to see, and more rows than a window has. page_flame.mjs holds each number against the language's answer."""
import gzip
import os
import time

from harness import HttpServer, Server, answer, check, in_the_browser, need_a_browser, slow, wait_until
from pprof_file import message

APP, LIBC, KERNEL = "/usr/bin/shop", "/usr/lib/libc.so.6", "[kernel]"
MAIN = [("main.main", "/src/main.go", APP)]
SERVE = [*MAIN, ("main.serve", "/src/serve.go", APP)]
FIB, WORK = ("main.fib", "/src/fib.go", APP), ("main.work", "/src/work.go", APP)
DEEP = [(f"main.deep{i}", "/src/deep.go", APP) for i in range(70)]


def stacks(pod):
    """[(frames from the root on, milliseconds)] of a second, of which each is a little different."""
    yield [*SERVE, *[FIB] * 12, ("main.add", "/src/fib.go", APP)], 300 + 40 * pod
    yield [*SERVE, *[FIB] * 7], 60
    yield [*SERVE, ("runtime.mallocgc", "/go/malloc.go", APP), ("memset", "string/memset.c", LIBC)], 90
    yield [*SERVE, ("write", "unistd/write.c", LIBC), ("sys_write", "", KERNEL), ("copy_from_user", "", KERNEL)], 120
    yield [*SERVE, WORK], 80
    yield [*MAIN, ("main.other", "/src/other.go", APP), WORK], 50 * pod
    yield [*MAIN, *DEEP], 70
    yield [("kthread", "", KERNEL)], 30 + int(time.time()) % 7
    for i in range(1500):
        yield [*MAIN, ("main.wide", "/src/wide.go", APP), (f"main.leaf{i}", "/src/wide.go", APP)], 0.001


def profile(pod):
    """A CPU profile of the second that has just ended."""
    strings, functions, locations, samples = [""], {}, {}, []

    def text(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)
    binaries = {b: i + 1 for i, b in enumerate((APP, LIBC, KERNEL))}
    for frames, ms in stacks(pod):
        ids = []
        for f in reversed(frames):
            if f not in locations:
                functions[f[0]] = len(functions) + 1
                locations[f] = (len(locations) + 1, functions[f[0]], binaries[f[2]])
            ids.append(locations[f][0])
        samples.append((ids, round(ms * 1e6)))
    for f in locations:
        text(f[0]), text(f[1])
    place = {s: i for i, s in enumerate(strings)}
    out = [(1, message((1, text("cpu")), (2, text("nanoseconds"))))]
    out += [(2, message(*[(1, i) for i in ids], (2, v))) for ids, v in samples]
    out += [(3, message((1, i), (2, i << 24), (3, (i << 24) + 0x100000), (5, text(b)), (7, 1))) for b, i in binaries.items()]
    out += [(4, message((1, i), (2, m), (3, (m << 24) + 16 * i), (4, message((1, fn), (2, 1))))) for i, fn, m in locations.values()]
    out += [(5, message((1, functions[f[0]]), (2, place[f[0]]), (4, place[f[1]]))) for f in locations]
    period = message((1, text("cpu")), (2, text("nanoseconds")))
    out += [(6, s.encode()) for s in strings]
    return message(*out, (10, 1_000_000_000), (11, period), (12, 1_000_000))


def pod_server(env, pod):
    return HttpServer(env, lambda h: answer(h, 200, gzip.compress(profile(pod) + message((9, int((time.time() - 1) * 1e9))), 1))).address


def config(addresses):
    off = "".join(f"        {t}: {{enabled: false}}\n" for t in ("memory", "block", "mutex", "goroutine"))
    targets = "".join(f"      - {{targets: ['{a}'], labels: {{pod: web-{i}}}}}\n" for i, a in enumerate(addresses))
    return f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: shop
    profiling_config:
      pprof_config:
{off}        process_cpu: {{path: /profile}}
    static_configs:
{targets}"""


def start(env):
    server = Server(env, config([pod_server(env, pod) for pod in range(2)]))
    wait_until("profiles of both pods", lambda: len(server.query("cpu")["result"]) == 2, 90)
    return server


@slow
def test_flame_graph(env):
    need_a_browser(env)
    server = start(env)
    in_the_browser(env, "page_flame.mjs", server.url, env.dir, seconds=400)
    check([f for f in os.listdir(env.dir) if f.endswith(".png")], "no screenshot was left in " + env.dir)
