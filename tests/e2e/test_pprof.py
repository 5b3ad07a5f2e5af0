# SPDX-License-Identifier: Apache-2.0
"""Exactness: what comes out equals the very bytes that were scraped, merged by google/pprof, function by function."""
import os
import re
import shutil
import subprocess
import urllib.parse

from harness import Echo, Proxy, Server, Skip, check, http_get, run, scrape_config, slow, wait_until
from pprof_file import message

TOP = ["go", "tool", "pprof", "-symbolize=none", "-top", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0"]
ROW = re.compile(r"^\s*(-?[\d.]+)(\w*)\s+\S+%\s+\S+%\s+(-?[\d.]+)(\w*)\s+\S+%\s+(.+)$")


def need_go():
    if not shutil.which("go"):
        raise Skip("no go")


def pprof(argv, env):
    """Output of go tool pprof, which keeps its own files in the test's directory."""
    import os
    status, out = run(argv, env=dict(os.environ, PPROF_TMPDIR=env.dir, GOFLAGS="", GOTOOLCHAIN="local"))
    check(status == 0, f"{' '.join(argv)}: {out}")
    return out


def table(out):
    """function -> (flat, cum) of the text that -top prints."""
    rows = {m.group(5): (m.group(1) + m.group(2), m.group(3) + m.group(4)) for m in map(ROW.match, out.splitlines()) if m}
    check(rows, f"no rows in: {out}")
    return rows


def functions(source, unit, env, *flags):
    return table(pprof([*TOP, "-unit=" + unit, *flags, source], env))


def merged(env, name, bodies):
    """The file that google/pprof makes of these scraped bodies."""
    files = [env.path(f"{name}-{i}.pb.gz", b) for i, b in enumerate(bodies)]
    out = env.path(name + "-merged.pb.gz")
    pprof(["go", "tool", "pprof", "-symbolize=none", "-proto", "-output=" + out, *files], env)
    return out


def recorded(env, profiles, also=None):
    """A server whose scrapes went through a recording proxy that is now closed; not before also(proxy) is true."""
    need_go()
    proxy = Proxy(env, Echo(env).address)
    server = Server(env, scrape_config([proxy.address]))
    wait_until(f"{profiles} CPU profiles", lambda: len(proxy.bodies("/debug/pprof/profile")) >= profiles, 60 + 2 * profiles)
    if also:
        wait_until("what the test is about was scraped", lambda: closed_with(proxy, also), 90)
    proxy.close_gate()
    return server, proxy


def closed_with(proxy, also):
    """Whether also(proxy) is true of what was scraped last. The gate is closed for the look: else one more may be scraped behind it."""
    proxy.close_gate()
    try:
        return also(proxy)
    except Exception:
        proxy.open_gate()
        raise


def first_difference(ours, theirs):
    for f in sorted(set(ours) | set(theirs)):
        if ours.get(f) != theirs.get(f):
            return f"{f}: ours (flat, cum) {ours.get(f)}, google/pprof {theirs.get(f)}"
    return None


def same(server, env, query, theirs, unit, sample_index):
    url = server.link("/api/v1/query", format="pprof", query=query)
    difference = first_difference(functions(url, unit, env, "-sample_index=" + sample_index), theirs)
    check(difference is None, f"{query}: {difference}")
    return True


def test_go_tool_pprof_reads_a_query(env):
    server, _ = recorded(env, 2)
    link = server.url + '/api/v1/query?format=pprof&query=merge(cpu{job="echoserver"}[5m])'
    out = wait_until("go tool pprof -top URL", lambda: pprof(["go", "tool", "pprof", "-top", link], env))
    check("main.fibonacci" in out and "Type: cpu" in out, out)


def bare(end_ns):
    """Three seconds in two binaries: addresses without functions."""
    strings = ["", "cpu", "nanoseconds", "/opt/app/server", "/opt/app/libx.so", "c0ffee"]
    rows = [(1, message((1, 1), (2, 2))), (11, message((1, 1), (2, 2))), (12, 10**7), (9, end_ns - 10**10), (10, 10**10)]
    rows += [(3, message((1, i + 1), (2, 0x400000 << i), (3, (0x400000 << i) + 0x10000), (5, 3 + i), (6, 5 * i))) for i in (0, 1)]
    rows += [(4, message((1, i + 1), (2, i % 2 + 1), (3, (0x400000 << i % 2) + 0x1000 + i))) for i in range(4)]
    rows += [(2, message((1, 1), (1, 3), (2, 10**9))), (2, message((1, 2), (1, 4), (2, 2 * 10**9)))]
    return message(*rows, *((6, s.encode()) for s in strings))


def test_go_tool_pprof_reads_what_has_no_names(env):
    """pprof asks the server that it got a profile from for the names of bare addresses, and ends if that fails."""
    need_go()
    folder = os.path.join(env.dir, "files", "job=bare")
    os.makedirs(folder)
    end = 1700000000
    with open(os.path.join(folder, f"{end}.pb"), "wb") as f:
        f.write(bare(end * 10**9))
    status, out = run([env.program("pyrtool"), "tsdb", "import", env.path("pyrrha-data"), os.path.join(env.dir, "files"), "--output=json"])
    check(status == 0, out)
    server = Server(env, scrape_config([]), ["--storage.tsdb.retention.time=0"])
    query = urllib.parse.quote('merge(cpu{job="bare"}[5m])')
    url = f"{server.url}/api/v1/query?format=pprof&time={end + 1}&query={query}"
    for how in ([], ["-symbolize=remote"], ["-symbolize=force"]):
        out = pprof(["go", "tool", "pprof", "-top", *how, url], env)
        check("Type: cpu" in out and "100% of 3s total" in out and "[server]" in out and "[libx.so]" in out, f"{how}: {out}")
    status, _, body = http_get(server.url + "/api/v1/symbolz", data=b"0x401000+0x801001")
    check(status == 200 and body == b"num_symbols: 0\n", f"{status} {body}")
    status, _, body = http_get(server.url + "/symbolz", data=b"0x401000+0x801001")  # where Go 1.19 asks
    check(status == 200 and body == b"num_symbols: 0\n", f"{status} {body}")


def test_merge_equals_google_pprof(env):
    """Delta types: all scraped profiles added up, function by function."""
    server, proxy = recorded(env, 6)
    for query, path, unit, index in (
            ('merge(cpu{job="echoserver"}[5m])', "/debug/pprof/profile", "nanoseconds", "cpu"),
            ('merge(cpu_samples{job="echoserver"}[5m])', "/debug/pprof/profile", "count", "samples"),
            ('merge(fgprof_time{job="echoserver"}[5m])', "/debug/fgprof", "nanoseconds", "time"),
            ('merge(fgprof_samples{job="echoserver"}[5m])', "/debug/fgprof", "count", "samples")):
        whole = merged(env, index + path.rsplit("/", 1)[1], proxy.bodies(path))
        theirs = functions(whole, unit, env, "-sample_index=" + index)
        check(any("main.fibonacciHandler" in f for f in theirs), f"the scraped {path} have no handler: {list(theirs)[:5]}")
        wait_until(query, lambda q=query, t=theirs, u=unit, i=index: same(server, env, q, t, u, i), 15)


@slow
def test_increase_of_cumulative_types_equals_last_minus_first(env):
    """Counters of the process: the increases that were kept add up to the last scrape minus the first."""
    def contended(proxy):
        """Requests met at the mutex between two scrapes: one in five is seen, and a busy machine has few requests."""
        bodies = proxy.bodies("/debug/pprof/mutex")
        if not bodies:
            return None
        first, last = env.path("mutex-first.pb.gz", bodies[0]), env.path("mutex-last.pb.gz", bodies[-1])
        return functions(last, "count", env, "-sample_index=contentions", "-base=" + first)

    server, proxy = recorded(env, 6, contended)
    for query, path, unit, index in (
            ('merge(heap_alloc_objects{job="echoserver"}[5m])', "/debug/pprof/allocs", "count", "alloc_objects"),
            ('merge(heap_alloc_space{job="echoserver"}[5m])', "/debug/pprof/allocs", "bytes", "alloc_space"),
            ('merge(mutex_contentions{job="echoserver"}[5m])', "/debug/pprof/mutex", "count", "contentions"),
            ('merge(block_delay{job="echoserver"}[5m])', "/debug/pprof/block", "nanoseconds", "delay")):
        bodies = proxy.bodies(path)
        first, last = env.path(index + "-first.pb.gz", bodies[0]), env.path(index + "-last.pb.gz", bodies[-1])
        grown = functions(last, unit, env, "-sample_index=" + index, "-base=" + first)
        theirs = {f: v for f, v in grown.items() if [x.rstrip("abcdefghijklmnopqrstuvwxyz") for x in v] != ["0", "0"]}
        wait_until(query, lambda q=query, t=theirs, u=unit, i=index: same(server, env, q, t, u, i), 15)


def test_newest_heap_is_the_scraped_one(env):
    """A gauge at an instant is the last profile as it was scraped; one in which something is in use, which a small program's need not have."""
    def in_use(proxy):
        last = env.path("last.pb.gz", proxy.bodies("/debug/pprof/allocs")[-1])
        return functions(last, "bytes", env, "-sample_index=inuse_space")
    server, proxy = recorded(env, 3, in_use)
    theirs = {f: v for f, v in in_use(proxy).items() if [x.rstrip("abcdefghijklmnopqrstuvwxyz") for x in v] != ["0", "0"]}
    wait_until("inuse_space", lambda: same(server, env, "last_over_time(heap_inuse_space[5m])", theirs, "bytes", "inuse_space"), 15)


def test_readouts_equal_pprofs_top(env):
    """self() and total() of the language are the flat and cum columns of google/pprof's top over what was scraped."""
    server, proxy = recorded(env, 4)
    whole = merged(env, "cpu", proxy.bodies("/debug/pprof/profile"))
    top = functions(whole, "nanoseconds", env, "-sample_index=cpu")
    number = lambda text: int(text[:-2]) if text.endswith("ns") else int(text)
    for column, function in ((0, "self"), (1, "total")):
        theirs = {re.sub(r" \((partial-)?inline\)$", "", f): number(v[column]) for f, v in top.items()}
        theirs = {f: v for f, v in theirs.items() if v}

        def same_rows(function=function, theirs=theirs):
            rows = server.query(function + '(merge(cpu{job="echoserver"}[5m]))')["result"]
            ours = {r["metric"]["function"]: round(float(r["value"][1]) * 1e9) for r in rows}
            difference = first_difference({f: v for f, v in ours.items() if v}, theirs)
            check(difference is None, f"{function}: {difference}")
            return True
        wait_until(function, same_rows, 15)
