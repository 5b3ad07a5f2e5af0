# SPDX-License-Identifier: Apache-2.0
"""Formats besides profile.proto, scraped over HTTP from a server of files: what storage gives back is what google/pprof makes of
the same bytes. Its own test data, taken from its Go module, and folded text."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

from harness import HttpServer, Server, Skip, TOP, answer, check, run, wait_until
from pprof_file import Profile
from test_pprof_oracle import difference

FOLDED = (b"main;work;malloc 12\n\n[worker tid=7/8];main;operator new(unsigned long) 3\nmain;work;malloc 5\r\nmain 1\n"
          b"java;A.b;A$c_[j];_raw_spin_lock_[k] 7\na;b 1.5\n")
GO = dict(os.environ, GOFLAGS="-mod=mod", GOTOOLCHAIN="local")


def oracle(env):
    """The program of tests/oracle, and the folder of google/pprof's test data."""
    if not shutil.which("go"):
        raise Skip("no go")
    source, d = os.path.join(TOP, "tests", "oracle"), tempfile.mkdtemp(dir=env.dir)
    for name in ("go.mod", "go.sum", "main.go"):
        shutil.copy(os.path.join(source, name), d)
    status, out = run(["timeout", "120", "go", "build", "-o", "oracle", "."], 300, cwd=d, env=GO)
    if status:
        raise Skip(f"the module github.com/google/pprof is not at hand: {out.strip()[-200:]}")
    module = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/pprof"], cwd=d, env=GO, check=True,
                            stdout=subprocess.PIPE, timeout=60).stdout.decode().strip()
    return os.path.join(d, "oracle"), os.path.join(module, "profile", "testdata")


def config(address, names):
    off = "".join(f"        {t}: {{enabled: false}}\n" for t in ("memory", "block", "mutex", "goroutine", "process_cpu"))
    return "scrape_configs:\n" + "".join(f"""
  - job_name: {name}
    scrape_interval: 2s
    profiling_config:
      pprof_config:
{off}        legacy: {{path: /{name}, kind: gauge}}
    static_configs: [{{targets: ["{address}"]}}]
""" for name in names)


def test_formats(env):
    program, testdata = oracle(env)
    files = {re.sub(r"\W", "_", os.path.basename(f)): f for f in glob.glob(testdata + "/*") if not f.endswith(".string")}
    check(len(files) >= 13, f"only {sorted(files)}")
    files["folded"] = env.path("folded", FOLDED.decode())
    bodies = {}
    for name, path in files.items():
        with open(path, "rb") as f:
            bodies[name] = f.read()
    server = Server(env, config(HttpServer(env, lambda h: answer(h, 200, bodies[h.path.split("?")[0].strip("/")])).address, files))
    bad = []
    for name, path in files.items():
        out = env.path(name + ".pb.gz")
        subprocess.run([program, "folded" if name == "folded" else "uninteresting", out, path], check=True, timeout=60)
        with open(out, "rb") as f:
            theirs = Profile(f.read())
        for kind, unit in theirs.types:
            selector = f'{{__name__=~"legacy:{kind}:{unit}:.*",job="{name}"}}'
            wait_until(f"{name} {kind} is there", lambda s=selector: server.query(s)["result"])
            ours = Profile(server.get("/api/v1/query", query=selector, format="pprof"))
            check(ours.types == [(kind, unit)], f"{name}: {ours.types}")
            d = difference(ours.stacks(), theirs.stacks(kind))
            bad += [f"{name} {kind}: {d}"] * bool(d)
            check(theirs.stacks(kind), f"{name} {kind} has no stacks: nothing was compared")
    check(not bad, "\n".join(bad))


HEAP = (b"heap profile: 3: 300 [ 3: 300] @ heapprofile\n 1: 100 [ 1: 100] @ 0x401001 0x402001\n 2: 200 [2: 200] @ 0x403001 0x402001\n"
        b"MAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 fc:00 12 /bin/app\n")


def test_names(env):
    """Of a program with gperftools: asked of its symbol page, once, from the first profile on. One without a page is up, too."""
    asked = []

    def do(handler):
        if handler.command == "GET":
            return answer(handler, 200, HEAP) if handler.path.endswith("/heap") else answer(handler, 404, b"no\n")
        if not handler.path.startswith("/pprof/"):
            return answer(handler, 404, b"no\n")  # and the body is left unread, as by many a server
        body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        asked.append((handler.path, sorted(body.split("+"))))
        return answer(handler, 200, b"num_symbols: 1\n0x401000\twork(int)\n0x402000\tmain\n")
    address = HttpServer(env, do).address
    server = Server(env, f"""
scrape_configs:
  - job_name: native
    scrape_interval: 1s
    profiling_config: {{preset: gperftools}}
    static_configs: [{{targets: ["{address}"]}}]
  - job_name: nameless
    scrape_interval: 1s
    profiling_config: {{preset: gperftools, path_prefix: /without}}
    static_configs: [{{targets: ["{address}"]}}]
""")

    def rows(job):
        return {r["metric"]["function"]: float(r["value"][1]) for r in
                server.query(f'total({{__name__=~"memory:space:.*",job="{job}"}})')["result"]}
    wait_until("the heap is there", lambda: rows("native"))
    check(rows("native") == {"work(int)": 100, "main": 300, "app+0x3000": 200}, rows("native"))
    check(wait_until("the other is there", lambda: rows("nameless")) == {"app+0x1000": 100, "app+0x2000": 300, "app+0x3000": 200},
          rows("nameless"))
    wait_until("scrapes", lambda: server.value('sum(count_over_time(profile_up{job="native",profile="memory"}[1m]))') >= 3)
    check(asked == [("/pprof/symbol", ["0x401000", "0x402000", "0x403000"])], asked)
    check(server.metrics()["pyrrha_target_scrapes_failed_total"] == 0, server.text()[-2000:])


def test_import(env):
    """Files, told by what they hold."""
    _, testdata = oracle(env)
    want = {"cppbench.heap": "memory:space:", "cppbench.growth": "growth:space:", "cppbench.cpu": "process_cpu:cpu:",
            "cppbench.thread": "threads:thread:", "go.godoc.thread": "threadcreate:threadcreate:", "java.heap": "memory:inuse_space:"}
    for name in want:
        folder = os.path.join(env.dir, "files", "job=" + name)
        os.makedirs(folder)
        shutil.copyfile(os.path.join(testdata, name), os.path.join(folder, name))
    status, out = run([env.program("pyrtool"), "tsdb", "import", env.path("pyrrha-data"), os.path.join(env.dir, "files")])
    check(status == 0, out)
    server = Server(env, "scrape_configs: []\n")
    for name, kind in want.items():
        wait_until(name, lambda n=name, k=kind: server.query(f'{{__name__=~"{k}.*",job="{n}"}}')["result"], 10)
