# SPDX-License-Identifier: Apache-2.0
"""A reader that was written from docs/format/ alone (tests/format/) and the programs agree about storage directories:
of every earlier format, and of one that a server has just written. So the documents are whole and true."""
import glob
import json
import os
import random
import re
import signal
import sys
import tarfile
import time

import remote_write
from harness import ApiError, HttpServer, Server, Skip, TOP, answer, check, http_get, run, slow, wait_until
from pprof_file import Profile, fields, plain, stripped, _field
from test_admin import cpu_profile

sys.path.insert(0, os.path.join(TOP, "tests", "format"))
CORPUS = os.environ.get("PYRRHA_CORPUS") or os.path.join(os.path.dirname(TOP), "shared", "corpus")
DAY = 1700006400  # 2023-11-15T00:00:00Z


def explained(path):
    """What the reader makes of a directory: all of it explained, and everything that is kept twice the same."""
    try:
        import reader
    except OSError as e:
        raise Skip(f"RocksDB's library cannot be loaded: {e}") from None
    s = reader.Storage(path)
    check(not s.report.problems, f"{path}: {len(s.report.problems)} problems: {s.report.problems[:5]}")
    check(s.report.bytes > 0 and s.report.unexplained == 0, f"{path}: {s.report.unexplained} bytes are not explained")
    return s


def folded(symbols, column):
    """A stack as `pyrtool tsdb dump` shows it, a question mark for each frame that has no name."""
    out = []
    for l in reversed(symbols.locations(symbols.tables[8][column][0])):
        functions = [symbols.tables[3][f]["name"] if f >= 0 else 0 for f, _, _ in symbols.tables[4][l]["lines"]] or [0]
        out += [symbols.string(n) or "?" for n in reversed(functions)]
    return ";".join(out)


def shortest(v):
    """A float as our programs spell it."""
    if v != v or v in (float("inf"), float("-inf")):
        return "NaN" if v != v else "+Inf" if v > 0 else "-Inf"
    if v == round(v) and abs(v) < 1e15:
        return "%.0f" % v
    return next(text for text in ("%.15g" % v, "%.16g" % v, "%.17g" % v) if float(text) == v)


def as_dumped(rows):
    """Rows of a series of the reader's as `pyrtool tsdb dump` has them."""
    import reader
    out = []
    for t, row, p in rows:
        if isinstance(row, int):
            out.append((t, "stale" if row == reader.STALE else shortest(reader.values.double(row))))
        elif row["stale"]:
            out.append((t, "stale"))
        else:
            stacks = sorted((folded(p.symbols, c), v) for c, v in row["columns"].items())
            out.append((t, str(row["total"]), row["duration"], row["period"], stacks))
    return out


def dumped(env, path):
    status, text = run([env.program("pyrtool"), "tsdb", "dump", path, "--stacks", "--output=json"], 300)
    check(status == 0, text[-2000:])
    out = {}
    for o in map(json.loads, text.splitlines()):
        nameless = lambda s: ";".join("?" if f.startswith("0x") else f for f in s.split(";"))
        row = o["t"], o["value"]
        if "duration" in o:
            row += o["duration"], o["period"], sorted((nameless(s), v) for s, v in o["stacks"])
        out.setdefault(tuple(sorted(o["labels"].items())), []).append(row)
    return out


def same_as_dumped(env, path):
    s, theirs = explained(path), dumped(env, path)
    ours = {labels: as_dumped(rows) for labels, rows in s.select().items()}
    for labels in sorted(set(ours) | set(theirs)):
        a, b = ours.get(labels, []), theirs.get(labels, [])
        wrong = next((i for i in range(max(len(a), len(b))) if a[i:i + 1] != b[i:i + 1]), None)
        check(wrong is None, f"{dict(labels)}: {len(a)} rows, the program has {len(b)}; row {wrong}: {a[wrong:][:1]}, the program has {b[wrong:][:1]}"[:3000])
    check(len(ours) > 0, f"{path}: nothing in it")
    return s


def test_earlier_formats(env):
    kept = sorted(glob.glob(os.path.join(TOP, "tests", "fixtures", "tsdb-format-*.tar.gz")))
    check(len(kept) >= 3, f"{kept}")
    for file in kept:
        version = int(re.search(r"(\d+)\.tar", file)[1])
        path = env.path(f"format-{version}")
        with tarfile.open(file) as tar:
            tar.extractall(path)
        s = same_as_dumped(env, path)
        check(s.version == version and s.report.compared > 400, f"format {version}: {s.version}, {s.report.compared} sums")


class Stamper:
    """A profile without its time, to be put behind it again and again."""

    def __init__(self, data):
        rows = list(fields(plain(data)))
        self.duration = dict(rows).get(10, 0)
        self.body = b"".join(_field(n, v) for n, v in rows if n != 9)

    def until(self, t):
        """Measured until t, in seconds."""
        return self.body + _field(9, int(t * 1000) * 1000000 - self.duration)


def made(samples, types=(("samples", "count"), ("cpu", "nanoseconds")), period=10000000, duration=10, named=False):
    """A profile of [(stack, values)], functions by name, leaf first; each sample with a number label of its place, or (named)
    two string labels."""
    strings, functions = ["", "size", "bytes"], {}

    def text(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)

    def message(*pairs):
        return b"".join(_field(k, v if isinstance(v, bytes) else v & (1 << 64) - 1) for k, v in pairs)
    out = [(1, message((1, text(t)), (2, text(u)))) for t, u in types]
    for i, (stack, numbers) in enumerate(samples):
        ids = [functions.setdefault(f, len(functions) + 1) for f in stack]
        labels = [message((1, 1), (3, i), (4, 2))]
        if named:
            labels = [message((1, text("thread")), (2, text(str(i % 17)))), message((1, text("comm")), (2, text(f"worker-{i % 3}")))]
        out.append((2, message(*((1, n) for n in ids), *((2, v) for v in numbers), *((3, l) for l in labels))))
    for f, n in functions.items():
        out += [(4, message((1, n), (4, message((1, n), (2, 7))))), (5, message((1, n), (2, text(f)), (4, text(f + ".c"))))]
    out += [(10, duration * 10**9), (11, message((1, text("cpu")), (2, text("nanoseconds")))), (12, period)]
    return message(*out, *((6, s.encode()) for s in strings))


def corpus(name):
    """A real profile; where there are none, one that is made up, of the same types."""
    path = os.path.join(CORPUS, name + ".pb.gz")
    if os.path.exists(path):
        with open(path, "rb") as f:
            return f.read()
    dice, out = random.Random(name), []
    types = {"profile-with-labels": ("samples",), "node-unsymbolised": ("samples",),
             "alloc_space_delta": ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")}.get(name, ("samples", "cpu"))
    units = {"cpu": "nanoseconds", "alloc_space": "bytes", "inuse_space": "bytes"}
    for _ in range(200):
        stack = [f"f{dice.randrange(40)}" for _ in range(dice.randrange(2, 9))] + ["main"]
        n = dice.randrange(1, 400)
        out.append((stack, [n * 10000000 if t == "cpu" else n * dice.randrange(1, 5000) if t in units else n for t in types]))
    data = made(out, [(t, units.get(t, "count")) for t in types], named=name == "profile-with-labels")
    return stripped(data) if name == "node-unsymbolised" else data


def odd_numbers(n):
    types = ("samples", "count"), ("cpu", "nanoseconds"), ("twice", "nanoseconds")
    return made([(("f", "main"), (n, 7 * n, 14 * n)), (("g", "main"), (-n, 13, 26)), (("h", "g", "main"), (1, 1 << 50, 2 << 50))], types)


def backlog(env):
    """A folder of files over two days that are long past: what `pyrtool tsdb import` seals. Two pods are a service of
    which there is an aggregate; later come bytes, sample labels, negative numbers, stacks without names."""
    def put(place, t, stamper):
        folder = os.path.join(env.dir, "files", *place.split("/"))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{t}.pb"), "wb") as f:
            f.write(stamper.until(t))
    real = {name: Stamper(corpus(name)) for name in ("fib", "profile1", "profile-with-labels", "alloc_space_delta", "node-unsymbolised")}
    for i in range(32):  # eight minutes at 15 s
        for pod in ("a", "b"):
            put(f"job=shop/pod={pod}", DAY + 15 * i + 3, real["fib" if i % 9 else "profile1"])
    odd = [Stamper(odd_numbers(n)) for n in (1, 300, 70000)]
    for hour in range(0, 48, 9):
        put("job=shop/pod=a", DAY + 3600 * hour + 1800, real["fib"])
        put("job=labels", DAY + 3600 * hour + 5, real["profile-with-labels"])
        put("job=native", DAY + 3600 * hour + 6, real["node-unsymbolised"])
        for i in range(6):
            put("job=odd", DAY + 3600 * hour + 10 * i + i % 2, odd[i % 3])
    put("job=old", DAY - 86400 * 5 + 7, real["fib"])
    for i in range(3):
        put("job=heap", DAY + 1000 + 600 * i, real["alloc_space_delta"])
    return os.path.join(env.dir, "files")


def imported(env, path):
    status, out = run([env.program("pyrtool"), "tsdb", "import", path, backlog(env), "--output=json"])
    check(status == 0 and json.loads(out)["bad"] == 0, out)


CONFIG = """
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: live
    profiling_config:
      pprof_config:
        memory: {enabled: false}
        block: {enabled: false}
        mutex: {enabled: false}
        goroutine: {enabled: false}
    static_configs: [{targets: [ADDRESSES]}]
"""
FLAGS = ["--web.enable-admin-api", "--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=0"]


def targets(env, done):
    """Addresses that are scraped: a real profile with sample labels, a binary that has no names, one that has them
    once "named" is done, and odd numbers until "gone" is."""
    real, odd = Stamper(corpus("profile-with-labels")), Stamper(odd_numbers(300))

    def give(body):
        def do(handler):
            b = body() if "/profile" in handler.path else None
            answer(handler, 200 if b else 404, b or b"none")
        return HttpServer(env, do).address
    return [give(lambda: real.until(time.time())), give(lambda: cpu_profile(False)), give(lambda: cpu_profile("named" in done)),
            give(lambda: "gone" not in done and odd.until(time.time()))]


def scrapes(server, address):
    return server.query(f'{{__name__=~"process_cpu:.*",instance="{address}"}}[1h]')["result"]


def delete(server, match, start, end):
    status, _, body = http_get(server.link("/api/v1/admin/tsdb/delete_series", **{"match[]": match, "start": start, "end": end}), data=b"")
    check(status == 204, f"delete {match}: {status} {body}")


def floats(server, name, times):
    series = [({"__name__": name, "pod": pod}, [(int(t * 1000), t / 7 if i % 5 else -0.0) for i, t in enumerate(times)] +
               [(int(times[-1] * 1000) + 1, remote_write.STALE)]) for pod in ("a", "b")]
    status, text = remote_write.post(server.url, series)
    check(status == 204, f"remote-write: {status} {text}")


def newest(server, address):
    return max(t for s in scrapes(server, address) for t, _ in s["values"])


QUERIES = (  # selector, end, length: aligned to whole days and hours, not aligned, in the log, over both
    ('{__name__=~"process_cpu:cpu:.*",job="shop"}', DAY + 86400, 86400), ('{__name__=~"process_cpu:cpu:.*",job="shop"}', DAY + 3600, 3600),
    ('{__name__=~"process_cpu:cpu:.*",job="shop",pod="a"}', DAY + 130000, 129000), ('{__name__=~"process_cpu:cpu:.*",job="odd"}', DAY + 172800, 172800),
    ('{__name__=~"process_cpu:samples:.*",job="odd"}', DAY + 40000, 40000), ('{__name__=~".*:samples:.*",job="labels"}', DAY + 86400, 86400),
    ('{__name__=~".*:alloc_space:.*",job="heap"}', DAY + 21600, 21600), ('{__name__=~".*:samples:.*",job="native"}', DAY + 90000, 89000))


def asked(server, query, end, seconds):
    try:
        return Profile(server.get("/api/v1/query", query=f"merge({query}[{seconds}s])", format="pprof", time=end)).stacks()
    except ApiError as e:
        raise AssertionError(f"{query} {end} {seconds}: {e}") from None


@slow
def test_what_a_server_writes(env):
    """Sealed windows, rollups and aggregates, deletes, floats, names that came late, and what only the log has: what a
    server answered before it was killed is what the reader reads."""
    data = os.path.join(env.dir, "pyrrha-data")
    status, out = run([env.program("pyrtool"), "tsdb", "import", data, backlog(env), "--output=json"])
    check(status == 0 and json.loads(out)["bad"] == 0, out)
    done = set()
    addresses = targets(env, done)
    server = Server(env, CONFIG.replace("ADDRESSES", ", ".join(f'"{a}"' for a in addresses)), flags=FLAGS)
    floats(server, "size", [DAY + 60 * i for i in range(100)])
    now = time.time()
    floats(server, "fresh", [now - 60 + i for i in range(60)])
    delete(server, '{job="shop",pod="b"}', DAY + 100, DAY + 200)
    delete(server, '{job="odd"}', DAY + 9 * 3600, DAY + 10 * 3600)
    delete(server, 'fresh{pod="b"}', now - 30, now - 20)
    delete(server, '{job="old"}', 0, now)
    wait_until("all targets are scraped", lambda: all(scrapes(server, a) for a in addresses), 60)
    before = time.time()
    done.add("named")
    wait_until("late names", lambda: server.metrics().get("pyrrha_tsdb_late_names_total", 0) >= 2, 60)
    done.add("gone")
    wait_until("one target is gone", lambda: server.value(f'up{{instance="{addresses[3]}"}}') == 0, 60)
    end = round(time.time(), 3)  # what is stamped until then is stored once something later is
    wait_until("later profiles", lambda: all(newest(server, a) > end for a in addresses[:3]), 60)
    delete(server, f'{{instance="{addresses[2]}"}}', before - 3600, before)
    kinds = zip(("samples", "cpu", "cpu", "twice"), addresses)
    queries = *QUERIES, *((f'{{__name__=~"process_cpu:{kind}:.*",instance="{a}"}}', end, 3600) for kind, a in kinds)
    answers = [(q, asked(server, *q)) for q in queries]
    points = [(q, server.query(f"{q[0]}[{q[2]}s]", time=q[1])["result"]) for q in (("size", DAY + 6000, 6000), ("fresh", end, 3600))]
    delete(server, '{job="native"}', DAY, DAY + 20)
    server.p.send_signal(signal.SIGKILL)  # most likely before the parts are written anew: they are masked
    server.p.wait()
    s = same_as_dumped(env, data)
    check(min(t for rows in s.select(lambda labels: labels.get("job") == "native").values() for t, _, _ in rows) > DAY * 1000 + 20000,
          "a profile that was deleted is there")
    for query, theirs in answers:
        same_stacks(s, query, theirs)
    for query, theirs in points:
        same_points(s, query, theirs)
    check(not s.select(lambda labels: labels.get("job") == "old"), "what was deleted with its whole day is there")
    check(list(s.log.gone) == [DAY // 86400 - 5], f"days that were deleted as a whole: {s.log.gone}")
    old_days_go(env, server, s)
    seen_all(env)


def old_days_go(env, server, s):
    """By retention, all that was imported."""
    server.argv[server.argv.index(FLAGS[-1])] = "--storage.tsdb.retention.time=1d"
    server.restart()
    left = lambda: [n for n in os.listdir(os.path.join(server.storage, "partitions")) if n.split(".")[0] in ("19676", "19677")]
    wait_until("days beyond retention are gone", lambda: left() == [], 60)
    check(server.terminate()[0] == 0, "the server did not end well")
    after = same_as_dumped(env, server.storage)
    check(after.dropped(19676) > 0 and after.dropped(19677) > 0, f"dropped: until {after.until}, {after.days}")
    fresh = lambda labels: labels["__name__"] == "fresh"
    check(len(after.select(fresh)) == len(s.select(fresh)), "today is not what it was")


def test_notes(env):
    """Beside the records of a log that was killed and trimmed: the reader's and the program's are the same."""
    torture, faults = env.program("torture"), env.program("faults.so")
    status, out = run([torture, "--lives", "5", "--kinds", "kill", "--keep", "--faults", faults, "--dir", env.dir], 120)
    check(status == 0, out[-2000:])
    data = os.path.join(env.dir, "run-0")
    s = explained(data)
    status, out = run([env.program("pyrtool"), "tsdb", "notes", data, "--output=json"])
    check(status == 0, out)
    shown = lambda b: "".join("\\\\" if c == 0x5c else chr(c) if 0x20 <= c < 0x7f else f"\\x{c:02x}" for c in b)
    ours = [{"t": t, "key": shown(k), "value": shown(v)} for k, (_, t, v) in sorted(s.log.notes.items())]
    theirs = list(map(json.loads, out.splitlines()))
    check(len(ours) >= 2 and ours == theirs, f"{ours}, the program has {theirs}")
    status, text = run([env.program("pyrtool"), "tsdb", "notes", data])
    check(status == 0 and text.splitlines()[0] == f"{ours[0]['t']} {ours[0]['key']} {ours[0]['value']}", text)


# Each way to write something that docs/format/ describes.
ALL = """header version 1,header version 2,detail version 1,detail version 2,detail 0,detail 1,detail 2,escaped 0,escaped 1,fact 1,
fact 2,fact 3,label is a number 0,label is a number 1,log profile 0,log profile 1,log values 0,log values 1,log values 2,
rollup 0,rollup 1,rollup 2,same 0,same 1,sealed floats 1,series 0,series 2,series 3,series 129,stale markers 0,
stale markers 1,sums 0,sums 1,symbols 1,symbols 2,symbols 3,symbols 4,symbols 5,symbols 6,symbols 7,symbols 8,symbols 9,
totals 0,totals 1,packed symbols 1,packed symbols 2,packed symbols 3,packed symbols 4,packed symbols 5,packed symbols 6,
packed symbols 7,packed symbols 8,packed symbols 9,string is a number 0,string is a number 1,key of templates 0,
template is known 0,template is known 1"""


def seen_all(env):
    """So that a reader that misreads what never occurs is not taken for right."""
    test_earlier_formats(env)
    import reader
    missing = {x.strip() for x in ALL.split(",")} - set(reader.values.SEEN)
    check(not missing, f"described, but not in any of these directories: {sorted(missing)}")


def selected(s, query):
    import reader
    text, end, seconds = query
    chosen = s.select(reader.selector(text), round((end - seconds) * 1000), round(end * 1000))
    check(chosen, f"{query}: the reader finds nothing")
    return chosen


def same_stacks(s, query, theirs):
    import reader
    ours = reader.merged([r for rows in selected(s, query).values() for r in rows])
    wrong = sorted((k for k in set(ours) | set(theirs) if ours.get(k) != theirs.get(k)), key=str)
    check(not wrong, f"{query}: {len(wrong)} of {len(theirs)} rows differ: {[(k, ours.get(k), theirs.get(k)) for k in wrong[:2]]}"[:3000])


def same_points(s, query, theirs):
    import reader
    ours = {labels: [[t / 1000, reader.values.double(bits)] for t, bits, _ in rows if bits != reader.STALE]
            for labels, rows in selected(s, query).items()}
    theirs = {tuple(sorted(x["metric"].items())): [[t, float(v)] for t, v in x["values"]] for x in theirs}
    check(ours == theirs, f"{query}: {ours}; the server: {theirs}"[:3000])
