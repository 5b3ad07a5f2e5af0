# SPDX-License-Identifier: Apache-2.0
"""Two sides beside each other, and the table, in a headless Chromium: page_compare.mjs. The profiles are imported, so that every number is known
and nothing has to be waited for."""
import json
import os
import time

from harness import Server, check, in_the_browser, need_a_browser, run, slow
from test_format import Stamper, corpus, made

# Samples of 10 ms in each profile of 10 s, by stack; the numbers in brackets are of the time after the deploy. "parse" changes by chance only.
STACKS = {"a": {("hot", "work", "main"): (60, 90), ("parse", "work", "main"): (30, 30), ("old", "main"): (6, 0), ("fresh", "main"): (0, 15)},
          "b": {("hot", "work", "main"): (20, 20), ("parse", "work", "main"): (70, 70)}}


def files(env, deploy):
    """job=shop: five minutes before and after the deploy, and from pod b too; five minutes later two and a half more minutes. job=big: 10,000 functions."""
    def put(place, t, stamper):
        folder = os.path.join(env.dir, "files", *place.split("/"))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{t}.pb"), "wb") as f:
            f.write(stamper.until(t))

    def of(pod, which, extra=0):
        rows = [(s, n[which] + (extra if s[0] == "parse" else 0)) for s, n in STACKS[pod].items()]
        return Stamper(made([(s, (n, n * 10**7)) for s, n in rows if n]))
    for pod in STACKS:
        for i in range(30):
            put(f"job=shop/pod={pod}", deploy - 290 + 10 * i, of(pod, 0))
            put(f"job=shop/pod={pod}", deploy + 10 + 10 * i, of(pod, 1, i % 3 == 0))
            if i < 15:
                put(f"job=shop/pod={pod}", deploy + 610 + 10 * i, of(pod, 1))
    put("job=big", deploy, Stamper(made([((f"pkg{i % 50}.function{i}", f"pkg{i % 50}.caller{i % 7}", "main"), (1 + i % 997, (1 + i % 997) * 10**7)) for i in range(10000)])))
    put("job=fib", deploy, Stamper(corpus("fib")))
    return os.path.join(env.dir, "files")


@slow
def test_in_a_browser(env):
    need_a_browser(env)
    deploy = int(time.time()) // 3600 * 3600 - 3 * 86400 + 1800
    status, out = run([env.program("pyrtool"), "tsdb", "import", os.path.join(env.dir, "pyrrha-data"), files(env, deploy), "--output=json"])
    check(status == 0 and json.loads(out)["bad"] == 0, out)
    server = Server(env, "global: {}\n", flags=["--storage.tsdb.retention.time=0"])
    in_the_browser(env, "page_compare.mjs", server.url, str(deploy), env.dir, seconds=400)
