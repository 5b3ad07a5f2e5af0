# SPDX-License-Identifier: Apache-2.0
"""What the page shows of twenty profiles, real ones and a large one, is what the language answers: each row of the table, each tooltip,
searches. By the page's own code, without a browser. PYRRHA_LONG=1: all types of the real ones, and a large one of 100,000 nodes."""
import json
import os
import shutil
import subprocess

from harness import LONG, TOP, Server, Skip, check, run
from large_profile import Program
from test_table import corpus


def bundled(env):
    """page_numbers.ts with the page's modules, as node runs it."""
    work = os.path.join(env.build, "web/ui/work")
    esbuild = os.path.join(work, "node_modules/.bin/esbuild")
    if not os.path.exists(esbuild) or not shutil.which("node"):
        raise Skip("no node, or the page was not bundled in this build directory")
    shutil.copytree(os.path.join(TOP, "web/ui/src"), env.path("page/src"))
    os.makedirs(env.path("page/e2e"))
    shutil.copy(os.path.join(TOP, "tests/e2e/page_numbers.ts"), env.path("page/e2e"))
    out = env.path("page_numbers.mjs")
    subprocess.run([esbuild, env.path("page/e2e/page_numbers.ts"), "--bundle", "--platform=node", "--format=esm", "--log-level=warning", "--outfile=" + out], check=True)
    return out


def test_the_page_shows_what_the_language_says(env):
    script = bundled(env)
    server = Server(env, "", ["--storage.tsdb.retention.time=50y"])
    server.terminate()
    nodes = 100_000 if LONG else 6_000
    large = env.path("large.pb", Program(nodes, nodes // 20).profile(1_700_000_000 * 10**9))
    files = corpus()[:19] + [large]
    for i, path in enumerate(files):
        status, out = run([env.program("pyrtool"), "tsdb", "import", f"--label=n={i}", "--increases", server.storage, path], seconds=120)
        check(status == 0, out)
    server.restart()
    queries, seen = [], set()
    for name in server.api("label/__name__/values"):
        for s in server.query(f'last_over_time({{__name__="{name}"}}[20y])')["result"]:
            n = s["metric"]["n"]
            if LONG or n not in seen:
                seen.add(n)
                queries.append({"query": f'merge({{__name__="{name}",n="{n}"}}[20y])', "time": s["value"][0]})
    check(len(seen) >= min(20, len(files)), f"{len(seen)} profiles of {len(files)} files")
    status, out = run(["node", script, server.url, env.path("queries.json", json.dumps(queries))], seconds=1200 if LONG else 240)
    check(status == 0, out[-3000:])
    print("# " + out.strip())
    server.terminate()
