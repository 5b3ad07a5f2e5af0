# SPDX-License-Identifier: Apache-2.0
"""The language on stacks beside google/pprof: real profiles are scraped from a server of files. The language's
answers about them must equal pprof's about the files, to the last unit. Rows of zero are dropped on both sides."""
import concurrent.futures
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from harness import HttpServer, LONG, patience, Server, Skip, TOP, alone, answer, check, run, slow, wait_until
from pprof_file import Profile, escaped, plain, stamped, stripped

CORPUS = os.environ.get("PYRRHA_CORPUS") or os.path.join(os.path.dirname(TOP), "shared", "corpus")
# file -> the sample type that is asked for
FILES = {"fib": "cpu", "fgprof": "time", "profile1": "cpu", "profile-with-labels": "samples", "alloc_objects": "alloc_space",
         "two-stacks": "cpu", "single-stack": "cpu", "node-unsymbolised": "samples"}
NANOSECONDS = ("cpu", "time")
UNITS = {"cpu": "nanoseconds", "time": "nanoseconds", "alloc_space": "bytes", "inuse_space": "bytes"}


def file_of(name):
    return os.path.join(CORPUS, name + ".pb.gz")


def need_all():
    if not shutil.which("go"):
        raise Skip("no go")
    if not os.path.exists(file_of("fib")):
        raise Skip(f"no real profiles in {CORPUS}")


def file_server(env, bodies, once=()):
    """Serves /NAME. A list of bodies is served one after another, each once."""
    left = {name: list(reversed(bodies[name])) for name in once}

    def do(handler):
        name = handler.path.split("?")[0].strip("/")
        body = bodies.get(name) if name not in left else left[name].pop() if left[name] else None
        if body is None:
            return answer(handler, 503, b"no more\n")
        return answer(handler, 200, stamped(body, time.time_ns()))
    return HttpServer(env, do).address


def config(address, names):
    """Every file is scraped as a CPU profile, that is as what was measured, whatever its types are."""
    off = "".join(f"        {t}: {{enabled: false}}\n" for t in ("memory", "block", "mutex", "goroutine"))
    return "scrape_configs:\n" + "".join(f"""
  - job_name: {name}
    scrape_interval: 1s
    profiling_config:
      pprof_config:
{off}        process_cpu: {{enabled: true, path: /{name}}}
    static_configs: [{{targets: ["{address}"]}}]
""" for name in names)


def selector(job, kind):
    return f'{{__name__=~"process_cpu:{kind}:.*",job="{job}"}}'


def served(env, names, files=None, kinds=None):
    """A server that has each of these files as the newest profile of a job."""
    need_all()
    paths = files or {name: file_of(name) for name in names}
    bodies = {}
    for name in names:
        with open(paths[name], "rb") as f:
            bodies[name] = plain(f.read())
    server = Server(env, config(file_server(env, bodies), names))
    for name in names:
        kind = (kinds or FILES)[name]
        wait_until(f"{name} is there", lambda n=name, k=kind: server.query(selector(n, k))["result"])
    return server


@functools.lru_cache(1)
def built(build):
    """The command of the google/pprof that tests/oracle pins, built once into the build directory; None if its modules
    are not at hand and cannot be fetched."""
    source, tools = os.path.join(TOP, "tests", "oracle"), os.path.join(build, "tools")
    with open(os.path.join(source, "go.mod"), encoding="utf-8") as f:
        revision = re.search(r"google/pprof v\S+-(\w+)", f.read()).group(1)
    path = os.path.join(tools, "pprof-" + revision)
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory() as d:  # go writes beside go.mod
            for name in ("go.mod", "go.sum", "main.go"):
                shutil.copy(os.path.join(source, name), d)
            os.makedirs(tools, exist_ok=True)
            # where the network swallows what is sent, go would wait for minutes
            status, out = run(["timeout", "120", "go", "build", "-o", os.path.join(d, "pprof"), "github.com/google/pprof"], 300, cwd=d,
                              env=dict(os.environ, GOFLAGS="-mod=mod", GOTOOLCHAIN="local"))
            if status:
                print(f"  google/pprof cannot be built, go's own is taken: {out.strip()[-200:]}")
                return None
            shutil.move(os.path.join(d, "pprof"), path + ".new")
            os.rename(path + ".new", path)
    return path


@functools.lru_cache(1)
def go_tool():
    """go tool pprof by its path, if go tells it: that spares go's own start."""
    status, out = run(["go", "tool", "-n", "pprof"], env=dict(os.environ, GOFLAGS="", GOTOOLCHAIN="local"))
    path = out.strip().split("\n")[-1]
    if status or not os.access(path, os.X_OK):
        raise Skip(f"no go tool pprof: {out}")
    return path


def program(env):
    with alone(env, "pprof"):
        return built(env.build) or go_tool()


def pprof(env, output, *words):
    """What google/pprof writes for these flags and files."""
    words = [output, "-symbolize=none", "-nodecount=0", "-nodefraction=0", "-edgefraction=0", *words]
    e = dict(os.environ, PPROF_TMPDIR=env.dir, GOFLAGS="", GOTOOLCHAIN="local")
    p = subprocess.run([program(env), *words], stdin=subprocess.DEVNULL, env=e, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60 * patience())
    if b"profile is empty" in p.stderr or b"no matches found" in p.stderr.lower():
        return b""
    check(p.returncode == 0, f"pprof {words}: {p.stderr.decode(errors='replace')}")
    return p.stdout


def theirs(env, kind, *words, labels=True):
    out = pprof(env, "-proto", "-output=/dev/stdout", f"-sample_index={kind}", *words)
    return Profile(out).stacks(kind, labels) if out else {}


def ours(server, query, labels=True):
    return Profile(server.get("/api/v1/query", query=query, format="pprof")).stacks(labels=labels)


def show(key):
    if not isinstance(key, tuple):
        return hex(key) if isinstance(key, int) else key
    return f"{key[0]:x} [{key[1]}]" if isinstance(key[0], int) else \
        " < ".join(str(f[0]) for f in key[0][:6]) + f" {dict(key[1]) or ''}"


def difference(a, b):
    """None, or what distinguishes ours from theirs."""
    if a == b:
        return None
    keys = [k for k in sorted(set(a) | set(b), key=str) if a.get(k, 0) != b.get(k, 0)]
    return keys and (f"{len(keys)} of {len(set(a) | set(b))} rows differ, ours adds up to {sum(a.values())}, pprof's to "
                     f"{sum(b.values())}; first {show(keys[0])}: ours {a.get(keys[0])}, pprof's {b.get(keys[0])}")


def all_of(jobs):
    """Runs the comparisons (name, function) four at a time; all that differ are told."""
    def run_one(job):
        try:
            d = job[1]()
        except Exception as e:  # told with its name beside the others
            d = f"{type(e).__name__}: {e}"
        return d and f"{job[0]}: {d}"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        bad = [d for d in pool.map(run_one, jobs) if d]
    check(not bad, f"{len(bad)} of {len(jobs)} differ:\n" + "\n".join(bad[:60]))


def expressions(profile, kind):
    """Some that match one function, several, and files."""
    names = profile.names(kind)
    some = [names[i] for i in sorted({len(names) // 10, len(names) // 3}) if i < len(names)]
    return [escaped(n) for n in some] + [r"^runtime\.", r"(?i)ALLOC|lock", r"\.go$"]


FILTERS = ("focus", "ignore", "hide", "show", "show_from", "prune_from")


@slow
def test_filters(env):
    """Every filter with every kind of expression, each pair in half of the files (PYRRHA_LONG: in all)."""
    server = served(env, list(FILES))
    jobs = []
    for k, (name, kind) in enumerate(FILES.items()):
        with open(file_of(name), "rb") as f:
            profile = Profile(f.read())
        for i, expression in enumerate(expressions(profile, kind)):
            for filter_ in FILTERS if LONG else FILTERS[(i + k) % 2::2]:
                query = f"{filter_}({selector(name, kind)}, {json.dumps(expression)})"
                jobs.append((f"{filter_} {expression} of {name}", lambda n=name, k=kind, q=query, f=filter_, x=expression:
                             difference(ours(server, q), theirs(env, k, f"-{f}={x}", file_of(n)))))
        jobs.append((f"all of {name}", lambda n=name, k=kind: difference(ours(server, selector(n, k)), theirs(env, k, file_of(n)))))
    all_of(jobs)


@slow
def test_sample_labels(env):
    """where() is tagfocus."""
    server = served(env, ["profile-with-labels", "alloc_objects"])
    jobs = []
    for name, query, tags in (
            ("profile-with-labels", '{thread_name="parca"}', "thread_name=^parca$"),
            ("profile-with-labels", '{thread_name=~"p.*"}', "thread_name=^p.*$"),
            ("alloc_objects", '"bytes", "48b:1kb"', "bytes=48b:1kb"), ("alloc_objects", '"bytes", "1kb:"', "bytes=1kb:"),
            ("alloc_objects", '"bytes", ":64b"', "bytes=:64b"), ("alloc_objects", '"bytes", "48b"', "bytes=48b")):
        q = f"where({selector(name, FILES[name])}, {query})"
        jobs.append((q, lambda n=name, q=q, t=tags: difference(ours(server, q), theirs(env, FILES[n], f"-tagfocus={t}", file_of(n)))))
    all_of(jobs)


# ---- numbers ----

def numbers(server, query, kind):
    """function -> value in the native unit."""
    scale = 10 ** 9 if kind in NANOSECONDS else 1
    rows = {}
    for r in server.query(query)["result"]:
        name = re.sub(r"^(.*\+)?0x[0-9a-f]+$", "", r["metric"]["function"])  # pprof has one row for all that has no name
        rows[name] = rows.get(name, 0) + round(float(r["value"][1]) * scale)
    return {f: v for f, v in rows.items() if v}


def top(env, kind, *words):
    """(flat, cum): function -> value."""
    p = Profile(pprof(env, "-topproto", "-output=/dev/stdout", f"-sample_index={kind}",
                      "-unit=" + UNITS.get(kind, "count"), *words))
    both = []
    for column in ("flat", "cum"):
        rows = {}
        for frames, _, values in p.samples:
            rows[frames[0][0]] = rows.get(frames[0][0], 0) + values[p.index(column)]
        both.append({f: v for f, v in rows.items() if v})
    return both


SYMBOLISED = {n: k for n, k in FILES.items() if n != "node-unsymbolised"}


def compare_top(env, server, name, kind):
    flat, cum = top(env, kind, file_of(name))
    p = selector(name, kind)
    some = list(cum)[len(cum) // 2]
    focused = top(env, kind, "-focus=" + escaped(some), file_of(name))
    for query, want in ((f"self({p})", flat), (f"total({p})", cum), (f'self({p}, "function")', flat),
                        (f"self(focus({p}, {json.dumps(escaped(some))}))", focused[0]),
                        (f"total(focus({p}, {json.dumps(escaped(some))}))", focused[1])):
        d = difference(numbers(server, query, kind), want)
        if d:
            return f"{query}: {d}"
    for k in (1, 5):
        got = sorted(numbers(server, f"topk({k}, self({p}))", kind).values())
        if got != sorted(flat.values())[-k:]:
            return f"topk({k}, self): {got}, pprof {sorted(flat.values())[-k:]}"
    return None


@slow
def test_top(env):
    server = served(env, list(SYMBOLISED))
    all_of([(f"top of {n}", lambda n=n, k=k: compare_top(env, server, n, k)) for n, k in SYMBOLISED.items()])


ROW = re.compile(r"^\s*(-?\d+)(?:ns|B)?\s+\S+%\s+\S+%\s+(-?\d+)(?:ns|B)?\s+\S+%\s+(.*)$")
ADDRESS = re.compile(r"^([0-9a-f]{16} )?(?:\[(.+)\]|<unknown>)$")
# as it was measured, and symbolised ones without their symbols
UNSYMBOLISED = {"node-unsymbolised": "samples", "profile-with-labels": "samples", "fib": "cpu", "profile1": "cpu",
                "alloc_objects": "alloc_space"}


def top_addresses(env, kind, path):
    """(flat, cum) of -top -addresses: (address, file) or name -> value. A row is a function's name or, where there is none,
    "ADDRESS [file]"; the address has 16 digits and is left out if it is 0."""
    both = {}, {}
    for line in pprof(env, "-top", "-addresses", f"-sample_index={kind}", "-unit=" + UNITS.get(kind, "count"), path).decode().splitlines():
        if ROW.match(line):
            *values, name = ROW.match(line).groups()
            m = ADDRESS.match(name)
            key = (int(m[1] or "0", 16), m[2] or "") if m else name
            for rows, v in zip(both, values):
                check(key not in rows, f"pprof has two rows {key}")
                rows[key] = int(v)
    return [{k: v for k, v in rows.items() if v} for rows in both]


def topproto_addresses(env, kind, path):
    """(flat, cum) of -topproto -addresses: address or name -> value. It does not say the file: where two mappings have the
    same address (there is one in profile-with-labels) its two rows are added up, as are ours beside it."""
    p = Profile(pprof(env, "-topproto", "-output=/dev/stdout", "-addresses", f"-sample_index={kind}",
                      "-unit=" + UNITS.get(kind, "count"), path))
    both = []
    for column in ("flat", "cum"):
        rows = {}
        for (frame,), ids, values in zip((s[0] for s in p.samples), p.stack_ids, (s[2] for s in p.samples)):
            key = frame[0] or p.addresses[ids[0]][0]
            rows[key] = rows.get(key, 0) + values[p.index(column)]
        both.append({k: v for k, v in rows.items() if v})
    return both


def addresses(profile):
    """What we call a location without a name (FILE+0xOFFSET, the offset in the file) -> (address, file), as pprof does."""
    known = {}
    for i, (address, path) in profile.addresses.items():
        (frame, *_), file = profile.locations[i], os.path.basename(path)
        if len(frame) == 2:
            name = (file and file + "+") + f"0x{frame[1] % 2 ** 64:x}"
            check(known.setdefault(name, (address, file)) == (address, file), f"{name} is two addresses")
    return known


def compare_addresses(env, server, name, kind, path):
    with open(path, "rb") as f:
        known = addresses(Profile(f.read()))
    scale = 10 ** 9 if kind in NANOSECONDS else 1
    for readout, rows, proto in zip(("self", "total"), top_addresses(env, kind, path), topproto_addresses(env, kind, path)):
        by_file, by_address = {}, {}
        for r in server.query(f"{readout}({selector(name, kind)})")["result"]:
            key, v = known.get(r["metric"]["function"], r["metric"]["function"]), round(float(r["value"][1]) * scale)
            check(key not in by_file, f"two rows of ours are {key}")
            by_file[key] = v
            key = key[0] if isinstance(key, tuple) else key
            by_address[key] = by_address.get(key, 0) + v
        check(rows and proto, f"pprof says nothing of {name}")
        for what, a, b in (("-top", by_file, rows), ("-topproto", by_address, proto)):
            d = difference({k: v for k, v in a.items() if v}, b)
            if d:
                return f"{readout}, {what}: {d}"
    return None


def test_top_without_symbols(env):
    """What has no name is a row per address, as with pprof's -addresses."""
    need_all()
    paths = {}
    for name in UNSYMBOLISED:
        paths[name] = os.path.join(env.dir, name + ".pb")
        with open(file_of(name), "rb") as f, open(paths[name], "wb") as out:
            data = f.read()
            out.write(plain(data) if name == "node-unsymbolised" else stripped(data))
    server = served(env, list(UNSYMBOLISED), paths, UNSYMBOLISED)
    all_of([(f"addresses of {n}", lambda n=n, k=k: compare_addresses(env, server, n, k, paths[n])) for n, k in UNSYMBOLISED.items()])


CONTEXT = re.compile(r"^\s+(-?\d+)(?:ns|B)?\s+\S+%\s+\|\s+(.*)$")
NODE = re.compile(r"^\s*(-?\d+)(?:ns|B)?\s+\S+%\s+\S+%\s+(-?\d+)(?:ns|B)?\s+\S+%\s+\|\s+(.*)$")


def peek(env, kind, function, path):
    """(callers, callees) of a function: name -> value."""
    out = pprof(env, "-peek=" + escaped(function), f"-sample_index={kind}", "-unit=" + UNITS.get(kind, "count"), path).decode()
    around = ({}, {})
    side = 0
    for line in out.splitlines():
        if NODE.match(line):
            side = 1
        elif line.startswith("------"):
            side = 0
        elif CONTEXT.match(line):
            value, name = CONTEXT.match(line).groups()
            name = re.sub(r" \((partial-)?inline\)$", "", name)
            around[side][name] = around[side].get(name, 0) + int(value)
    return [{f: v for f, v in rows.items() if v} for rows in around]


def compare_peek(env, server, name, kind, function):
    for readout, want in zip(("callers", "callees"), peek(env, kind, function, file_of(name))):
        query = f"{readout}({selector(name, kind)}, {{function={json.dumps(function)}}})"
        d = difference(numbers(server, query, kind), want)
        if d:
            return f"{query}: {d}"
    return None


@slow
def test_callers_and_callees(env):
    server = served(env, list(SYMBOLISED))
    jobs = []
    for name, kind in SYMBOLISED.items():
        with open(file_of(name), "rb") as f:
            names = Profile(f.read()).names(kind)
        for function in names[1:60:6]:
            jobs.append((f"peek {function} in {name}", lambda n=name, k=kind, f=function: compare_peek(env, server, n, k, f)))
    all_of(jobs)


# ---- several profiles ----

def series_files():
    return sorted(glob.glob(os.path.join(CORPUS, "series", "*.pb.gz")))


def compare_ten(env, server, kind):
    p, files = selector("ten", kind), series_files()
    jobs = [(f"merge({p}[5m])", []), (f"merge_over_time({p}[5m])", []), (f"sum_over_time({p}[5m])", []),
            (f'focus(merge({p}[5m]), "runtime")', ["-focus=runtime"]), (f'hide(merge({p}[5m]), "^runtime")', ["-hide=^runtime"])]
    jobs = [(q, lambda q=q, w=w: difference(ours(server, q), theirs(env, kind, *w, *files))) for q, w in jobs]
    flat, cum = top(env, kind, *files)
    return jobs + [(f"self of ten {kind}", lambda: difference(numbers(server, f"self(merge({p}[5m]))", kind), flat)),
                   (f"total of ten {kind}", lambda: difference(numbers(server, f"total(merge({p}[5m]))", kind), cum))]


def test_merge_of_ten(env):
    need_all()
    bodies = {"ten": [plain(open(f, "rb").read()) for f in series_files()]}
    check(len(bodies["ten"]) == 10, f"{len(bodies['ten'])} files")
    server = Server(env, config(file_server(env, bodies, ["ten"]), ["ten"]))
    wait_until("ten profiles", lambda: server.value(f"count_over_time({selector('ten', 'alloc_space')}[5m])") == 10, 60)
    all_of(compare_ten(env, server, "alloc_space") + compare_ten(env, server, "inuse_objects"))


def test_diff(env):
    """A - B with B's side marked, the net of it, and after A was scaled to B's total."""
    need_all()
    files = series_files()
    pairs = [("a0", files[0], "b0", files[9], "alloc_space"), ("a1", file_of("profile1"), "b1", file_of("fib"), "samples"),
             ("a2", file_of("fib"), "b2", file_of("profile1"), "cpu"), ("a3", files[2], "b3", files[7], "inuse_space"),
             ("a4", file_of("two-stacks"), "b4", file_of("single-stack"), "cpu")]
    paths = {p[i]: p[i + 1] for p in pairs for i in (0, 2)}
    server = served(env, list(paths), paths, {p[i]: p[4] for p in pairs for i in (0, 2)})
    jobs = []
    for a, fa, b, fb, kind in pairs:
        x, y = selector(a, kind), selector(b, kind)
        jobs += [(f"{what}: {os.path.basename(fa)} - {os.path.basename(fb)} of {kind}",
                  lambda q=q, w=w, l=l, k=kind, fa=fa: difference(ours(server, q, l), theirs(env, k, *w, fa, labels=l)))
                 for what, q, w, l in (
                     ("both sides", f"diff({x}, {y})", ["-diff_base=" + fb], True),
                     ("net", f"diff({x}, {y})", ["-base=" + fb], False),
                     ("minus", f"{x} - ignoring(job) {y}", ["-base=" + fb], False),
                     ("share", f'diff({x}, {y}, "share")', ["-normalize", "-base=" + fb], False),
                     ("share, both sides", f'diff({x}, {y}, "share")', ["-normalize", "-diff_base=" + fb], True),
                     ("plus", f"{x} + ignoring(job) {y}", [fb], True))]
        jobs.append((f"self of a difference {a}", lambda x=x, y=y, k=kind, fa=fa, fb=fb:
                     difference(numbers(server, f"self(diff({x}, {y}))", k), top(env, k, "-base=" + fb, fa)[0])))
    all_of(jobs)
