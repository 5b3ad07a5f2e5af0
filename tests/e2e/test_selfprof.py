# SPDX-License-Identifier: Apache-2.0
"""Programs that profile themselves: the server under load, as go tool pprof sees it."""
import http.client
import os
import re
import shutil
import threading
import time
import urllib.parse

from harness import HttpServer, Server, Skip, answer, check, http_get, run, share_of_others, slow, wait_until
from pprof_file import Profile
from test_agent import start_agent

CLOCK_TICK = os.sysconf("SC_CLK_TCK")
LOST = "[lost: no stack]"
BOTTOM = {"_start", "__libc_start_main_impl", "start_thread", "clone3", "__clone3", "__clone", "clone"}


def new_series(env):
    """A target whose series are others each time: what makes storage work."""
    count = iter(range(1 << 30))

    def do(handler):
        n = next(count)
        lines = "".join(f'load_metric{{round="{n}",row="{i}",text="value {i % 37} of {n}"}} {i}\n' for i in range(2000))
        return answer(handler, 200, lines.encode(), [("Content-Type", "text/plain; version=0.0.4")])
    return HttpServer(env, do).address


def config(target):
    return "".join(["scrape_configs:\n"] + [f"""
  - job_name: load{i}
    metrics_path: /metrics
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs:
      - targets: ['{target}']
""" for i in range(2)])


class Load:
    """Asks queries until it is closed."""
    QUERIES = ("sum by (row) (count_over_time(load_metric[1m]))", 'count({text=~".*7 of .*"})', "topk(3, rate(load_metric[30s]))")

    def __init__(self, env, server):
        self.server, self.stop = server, threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(q,), daemon=True) for q in self.QUERIES]
        for t in self.threads:
            t.start()
        env.at_end(self.close)

    def ask(self, query):
        while not self.stop.is_set():
            try:
                self.server.get("/api/v1/query", query=query)
            except Exception:  # the server is busy, or gone with the test
                time.sleep(0.05)

    def close(self):
        self.stop.set()
        for t in self.threads:
            t.join(20)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICK


def pprof(env, *args):
    if not shutil.which("go"):
        raise Skip("no go")
    argv = ["go", "tool", "pprof", *args]
    status, out = run(argv, env=dict(os.environ, PPROF_TMPDIR=env.dir, GOFLAGS="", GOTOOLCHAIN="local"))
    check(status == 0, f"{' '.join(argv)}: {out}")
    return out


def share(stacks, ns, test):
    """Of CPU time, in stacks of which test(frames) is true."""
    return sum(n for frames, n in stacks if test(frames)) / ns


def profiled(server, seconds):
    """A profile, its stacks [(frames, ns)], and what /proc says was used meanwhile."""
    before = cpu_seconds(server.p.pid)
    status, headers, body = http_get(server.url + f"/debug/pprof/profile?seconds={seconds}")
    used = cpu_seconds(server.p.pid) - before
    check(status == 200 and headers["Content-Type"] == "application/octet-stream", f"{status} {body[:200]} {headers}")
    p = Profile(body)
    check(p.types == [("samples", "count"), ("cpu", "nanoseconds")], f"{p.types}")
    return body, [(frames, values[1]) for frames, _, values in p.samples], used


@slow
def test_the_server_under_load(env):
    seconds = 10 if os.environ.get("PYRRHA_LONG") else 5
    server = Server(env, config(new_series(env)))
    Load(env, server)
    time.sleep(1)
    profiled(server, 1)  # reading names the first time is CPU time behind the profile
    body, stacks, used = profiled(server, seconds)
    for _ in range(4):  # storage has less to do than queries
        if any(str(f[0]).startswith("rocksdb::") for frames, _ in stacks for f in frames):
            break
        body, stacks, used = profiled(server, seconds)
    ns = sum(n for _, n in stacks)
    # The clock that /proc shows is read at both ends, some milliseconds outside of what was measured.
    check(abs(ns / 1e9 - used) <= 0.03 * used + 0.05, f"{ns / 1e9:.2f} s in the profile, {used:.2f} s in /proc")
    # On a busy machine the signals of CPU timers come late. CPU time that no signal accounted for is taken from the threads' CPU clocks, without a stack.
    lost = share(stacks, ns, lambda frames: frames[-1][0] == LOST)
    check(lost <= min(0.03 * share_of_others(), 0.5), f"{lost:.3f} of all has no stack")
    bottom = lost + share(stacks, ns, lambda frames: frames[-1][0] in BOTTOM)
    check(bottom >= 0.95, f"{bottom:.3f} of all reach the bottom; others: "
          f"{[f[-1] for f, _ in stacks if f[-1][0] not in BOTTOM and f[-1][0] != LOST][:10]}")
    for folder in ("tsdb/", "promql-like/"):
        got = share(stacks, ns, lambda frames: any(re.search(f"(^|/){folder}([a-z]+/)?[a-z_]+[.]c$", str(f[1])) for f in frames))
        check(got > 0.01, f"{got:.3f} is in functions of {folder}")
    queries = share(stacks, ns, lambda frames: {"promql_instant", "serve_query", "worker_main"} <= {f[0] for f in frames})
    check(queries > 0.05, "queries are seen down to the workers that they run on")
    top = pprof(env, "-top", "-nodecount=10000", "-nodefraction=0", env.path("cpu.pb.gz", body))
    check("File: pyrrha" in top and all(re.search(name, top) for name in ("rocksdb::", "view_select", "promql_instant")), top)


def heap(server, path="/debug/pprof/heap"):
    status, headers, body = http_get(server + path)
    check(status == 200 and headers["Content-Type"] == "application/octet-stream", f"{status} {body[:200]} {headers}")
    return Profile(body), body


def test_the_heap(env):
    server = Server(env, config(new_series(env)))
    time.sleep(3)
    p, body = heap(server.url)
    check([f"{t}/{u}" for t, u in p.types] == ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"],
          f"{p.types}")
    asked, held = (sum(values[i] for _, _, values in p.samples) for i in (1, 3))
    with open(f"/proc/{server.p.pid}/status", encoding="utf-8") as f:
        resident = int(re.search(r"VmRSS:\s+([0-9]+)", f.read()).group(1)) * 1024
    check(4e6 < held < resident and asked >= held, f"{held} of {asked} bytes are held, {resident} are resident")
    rocks = [values[1] for frames, _, values in p.samples if any(str(f[0]).startswith("rocksdb::") for f in frames)]
    check(sum(rocks) > 0, "nothing that RocksDB asked for")
    top = pprof(env, "-top", "-sample_index=inuse_space", env.path("heap.pb.gz", body))
    check("Type: inuse_space" in top and not re.search(r" (malloc|xmalloc|xcalloc)$", top, re.M), top)
    delta, _ = heap(server.url, "/debug/pprof/heap?seconds=1")
    check(0 < sum(values[1] for _, _, values in delta.samples) < asked * 2, "what was asked for in a second")
    check(http_get(server.url + "/debug/pprof/heap?seconds=x")[0] == 400, "seconds=x")
    off = Server(env, "", ["--no-self-profile.heap"], name="off")
    check(http_get(off.url + "/debug/pprof/heap")[0] == 404, "the heap of one that does not sample it")


@slow
def test_the_agent_itself(env):
    agent = start_agent(env)
    body = http_get(agent + "/debug/pprof/self/profile?seconds=2")[2]
    p = Profile(body)
    names = {f[0] for frames, _, _ in p.samples for f in frames}
    check(any("pyrrha-agent" in file for file in p.binaries.values()) and names & {"agent_drain", "drain_main", "run_named", "main"},
          f"{p.binaries} {names}")
    check(sum(values[3] for _, _, values in heap(agent, "/debug/pprof/self/heap")[0].samples) > 0, "its heap")
    check(b"pyrrha-agent" in http_get(agent + "/debug/pprof/self/cmdline")[2], "its command line")
    check(b"heap" in http_get(agent + "/debug/pprof/self")[2], "its index")


def test_pages(env):
    server = Server(env, "", ["--web.external-url=http://me:hidden@localhost/"])
    status, headers, body = http_get(server.url + "/debug/pprof/")
    check(status == 200 and headers["Content-Type"].startswith("text/html") and b"profile?debug=1" in body, f"{status} {body}")
    check(http_get(server.url + "/debug/pprof")[2] == body, "the index without its slash")
    status, _, body = http_get(server.url + "/debug/pprof/cmdline")
    check(status == 200 and body.split(b"\0") == [a.replace("me:hidden", "<redacted>").encode() for a in server.argv],
          f"{status} {body}")
    status, headers, body = http_get(server.url + "/debug/pprof/goroutine")
    check((status, headers.get("X-Go-Pprof")) == (404, "1"), f"{status} {body}")
    status, _, body = http_get(server.url + "/debug/pprof/profile?seconds=601")
    check((status, body.strip()) == (400, b"profile duration exceeds server's WriteTimeout"), f"{status} {body}")
    # Several at a time, though not more than eight; and who leaves ends what he asked for.
    url = urllib.parse.urlparse(server.url)
    others = [http.client.HTTPConnection(url.hostname, url.port, timeout=60) for _ in range(7)]
    for o in others:
        o.request("GET", "/debug/pprof/profile")
    check(http_get(server.url + "/debug/pprof/profile?seconds=1")[0] == 200, "the eighth")
    others += [http.client.HTTPConnection(url.hostname, url.port, timeout=60)]
    others[7].request("GET", "/debug/pprof/profile")
    busy = b"Could not enable CPU profiling: 8 CPU profiles are being taken already"
    wait_until("the ninth is refused", lambda: http_get(server.url + "/debug/pprof/profile?seconds=1")[2].strip() == busy)
    check(http_get(server.url + "/debug/pprof/profile?seconds=1")[0] == 500, "its status")
    for o in others:
        o.close()
    wait_until("the places of those that left are free", lambda: http_get(server.url + "/debug/pprof/profile?seconds=1")[0] == 200)
