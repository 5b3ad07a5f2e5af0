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
