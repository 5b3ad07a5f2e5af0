# SPDX-License-Identifier: Apache-2.0
"""What the page shows of twenty profiles, real ones and a large one, is what the language answers: each row of the table, each tooltip,
searches; and the cores of the header. By the page's own code, without a browser. PYRRHA_LONG=1: all types of the real ones, and a large one of 100,000 nodes."""
import json
import os
import shutil
import subprocess
import time
import urllib.parse

from harness import LONG, TOP, HttpServer, Server, Skip, answer, check, run, wait_until
from large_profile import Program
from test_format import Stamper, made
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


def target(env, function, load):
    """The address of a program that uses so many cores all the time, however long it is profiled."""
    def do(handler):
        seconds = int(urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)["seconds"][0])
        time.sleep(seconds)
        n = round(load * seconds * 100)
        answer(handler, 200, Stamper(made([((function, "main"), (n, n * 10**7))], duration=seconds)).until(time.time()))
    return HttpServer(env, do).address


def job(name, address, interval, more=""):
    quiet = ", ".join(f"{t}: {{enabled: false}}" for t in ("memory", "block", "goroutine", "mutex"))
    return f"""
- job_name: {name}
  scrape_interval: {interval}
  static_configs: [{{targets: ['{address}']}}]
  profiling_config: {{pprof_config: {{{quiet}, process_cpu: {{enabled: true{more}}}}}}}"""


def test_the_header_says_the_cores_of_rate(env):
    """Of a target that is profiled for 1 s of each 2.5 s, of one that is profiled all the time, and of both."""
    script = bundled(env)
    server = Server(env, "scrape_configs:" + job("part", target(env, "part", 0.35), "2500ms", ", seconds: 1") + job("whole", target(env, "whole", 0.2), "2s"))
    wait_until("both are profiled for 40 s", lambda: all((server.value(f'coverage(cpu{{job="{j}"}}[40s] offset 1s)') or 0) > 0.99 for j in ("part", "whole")), 240)
    at, queries = int(time.time()) - 1, []
    for of, mixed in (('{job="part"}', False), ('{job="whole"}', False), ("", True)):
        rate = f"sum(rate(cpu{of}[40s]))"
        queries += [{"query": q, "time": at, "rate": rate, "mixed": mixed} for q in
                    (f"merge(cpu{of}[40s])", f"merge by (job) (cpu{of}[40s])", f"merge_over_time(cpu{of}[40s])", f"avg_over_time(cpu{of}[40s])", f"cpu{of}", f"sum(cpu{of})")]
        queries.append({"query": f"merge(rate(cpu{of}[40s]))", "time": at, "rate": rate})
    for j, weight in (("part", 2.5), ("whole", 1)):
        data = server.api("query", query=f'merge(cpu{{job="{j}"}}[40s])', format="json", time=at)
        check(data["profiles"][0]["weight"] == weight, f"{j}: {data}")
    status, out = run(["node", script, server.url, env.path("queries.json", json.dumps(queries))], seconds=120)
    check(status == 0, out[-3000:])
    print("# " + out.strip())
    server.terminate()
