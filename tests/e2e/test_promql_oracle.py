# SPDX-License-Identifier: Apache-2.0
"""The language on values beside Debian's real Prometheus 2.42: the same series in both through remote-write, the same
queries to both, equal answers. Where Prometheus 3 decided otherwise than 2.42, both answers are written down here."""
import concurrent.futures
import http.client
import json
import math
import os
import random
import re
import shutil
import time

from harness import LONG, patience, Process, Server, Skip, alone, check, free_port, http_get, run, wait_until
import promql_queries
import remote_write

CONFIG = "global:\n  evaluation_interval: 1m\n"
# The first sample's time of the generated series. It is the same on every run, and so is every answer: subquery steps lie
# at multiples of the resolution since 1970, so where they fall within a range depends on the time of day of the data.
BEGIN = 1767259800  # 2026-01-01 09:30 UTC
ANY_AGE = ["--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=0"]


def tool(env, name, package="prometheus", folder="bin"):
    """A program of a Debian package (prometheus and promtool are in this one), which is unpacked into the build directory and not installed."""
    tools = os.path.join(env.build, "tools")
    with alone(env, "tools"):
        path = shutil.which(name) or os.path.join(tools, "usr", folder, name)
        if not os.path.exists(path) and shutil.which("apt-get"):
            os.makedirs(tools, exist_ok=True)
            run(["sh", "-c", f"apt-get download -qq {package} && dpkg-deb -x {package}_*.deb . && rm -f {package}_*.deb"],
                120, cwd=tools)
    if not os.path.exists(path):
        raise Skip(f"no {name}, and Debian's package {package} cannot be had")
    return path


class Prometheus(Process):
    """Answers as a Server of the harness does."""
    link, get, api, query = Server.link, Server.get, Server.api, Server.query

    def __init__(self, env, config=CONFIG):
        program = tool(env, "prometheus")
        _, version = run([program, "--version"])
        self.is_2_42 = "version 2.42" in version
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(env, "prometheus", [
            program, "--config.file=" + env.path("prometheus.yml", config), "--storage.tsdb.path=" + env.path("prometheus"),
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--log.level=warn"])
        wait_until("prometheus is ready", lambda: http_get(self.url + "/-/ready")[0] == 200)


def both(env):
    """(ours, theirs), empty; samples of any age are taken."""
    theirs = Prometheus(env)
    return Server(env, CONFIG, ANY_AGE), theirs


# ---- answers that can be compared ----

def ask(server, path, **params):
    """("error",), or (type, what it says); warnings are each server's own."""
    try:
        status, _, body = http_get(server.link("/api/v1/" + path, **params), timeout=30 * patience())
    except TimeoutError:
        return "nothing in time",
    answer = json.loads(body)
    if answer["status"] != "success":
        return "error", answer["errorType"], answer["error"], status
    kind, result = answer["data"]["resultType"], answer["data"]["result"]
    if kind in ("scalar", "string"):
        return kind, {(): [result]}
    rows = {}
    for row in result:
        key = tuple(sorted(row["metric"].items()))
        check(key not in rows, f"{params}: {key} twice")
        rows[key] = row["values"] if kind == "matrix" else [row["value"]]
    return kind, rows, [row["metric"] for row in result]


def same_value(a, b):
    try:
        x, y = float(a), float(b)
    except ValueError:
        return a == b
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or math.isinf(y):
        return (math.isnan(x) and math.isnan(y)) or x == y
    return abs(x - y) <= max(1e-9 * max(abs(x), abs(y)), 1e-12)


def difference(a, b, ordered=False):
    """None, or what distinguishes ours from theirs."""
    if a[0] != b[0] or len(a) == 1:
        return f"ours is {a[0]}, theirs {b[0]}: {a[1:]} / {b[1:]}"[:600]
    if a[0] == "error":
        return None if a[3] == b[3] else f"ours is HTTP {a[3]} ({a[2]}), theirs {b[3]} ({b[2]})"
    if set(a[1]) != set(b[1]):
        return f"only ours: {sorted(set(a[1]) - set(b[1]))[:3]}, only theirs: {sorted(set(b[1]) - set(a[1]))[:3]}"
    for key, points in a[1].items():
        if [p[0] for p in points] != [p[0] for p in b[1][key]]:
            return f"{dict(key)}: ours at {[p[0] for p in points]}, theirs at {[p[0] for p in b[1][key]]}"[:900]
        for p, q in zip(points, b[1][key]):
            if not same_value(p[1], q[1]):
                return f"{dict(key)} at {p[0]}: ours {p[1]}, theirs {q[1]}"
    return "not in the same order" if ordered and a[2] != b[2] else None


def without_name(answer):
    """2.42 keeps the name of what went through atan2, by mistake."""
    if answer[0] not in ("vector", "matrix"):
        return answer
    return (answer[0], {tuple(p for p in k if p[0] != "__name__"): v for k, v in answer[1].items()}, answer[2])


FILTERS_MATCHES = re.compile(r" (==|!=|<=|>=|<|>) (on|ignoring)\(")


def compare(ours, theirs, path, query, **params):
    a, b = (ask(s, path, query=query, **params) for s in (ours, theirs))
    if theirs.is_2_42 and a[0] == "error" and b[0] != "error" and "multiple matches" in a[2] and FILTERS_MATCHES.search(query):
        return None  # what a comparison filters out is a match: one of the differences below
    if " atan2 " in query:
        b = without_name(b)
    # Equal values are in no order that anyone promised.
    ordered = path == "query" and a[0] == "vector" and query.startswith("sort") and \
        len({p[0][1] for p in a[1].values()}) == len(a[1])
    d = difference(a, b, ordered)
    return d and f"{path} {query} {params}: {d}"


def differences_at(ours, theirs, begin, nested):
    """Loads the series with their first sample at that second, asks both, returns (number of questions, what differs)."""
    for server in (ours, theirs):
        remote_write.load(server.url, promql_queries.series(begin * 1000))
    rng, jobs = random.Random(3), []
    # @ names an instant between whole seconds too: a subquery's range from a whole second may begin at one of its steps,
    # which 2.42 counts in and 3 does not.
    for q in promql_queries.queries(f"{begin + 2707}.1", nested):
        jobs.append(("query", q, {"time": begin + 15 * rng.randrange(60, 350) + 7.1}))
        start = begin + 15 * rng.randrange(0, 250) + 7.1
        jobs.append(("query_range", q, {"start": start, "end": round(start + rng.choice((300, 1200, 3000)), 1),
                                        "step": rng.choice((15, 30, 60, 77))}))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda j: compare(ours, theirs, j[0], j[1], **j[2]), jobs))
    return len(jobs), [f for f in found if f]


def test_generated_queries_equal_prometheus(env):
    ours, theirs = both(env)
    n, bad = differences_at(ours, theirs, BEGIN, 10000 if LONG else 400)
    check(n >= 2000, f"only {n} queries")
    check(not bad, f"{len(bad)} of {n} answers differ:\n" + "\n".join(bad[:100]))


def test_generated_queries_at_many_hours(env):
    """The same with the data at other times, later and later, as receivers want it."""
    if not LONG:
        raise Skip("only in long runs")
    ours, theirs = both(env)
    for begin in range(BEGIN, BEGIN + 200 * 10801, 10801):
        n, bad = differences_at(ours, theirs, begin, 400)
        check(not bad, f"{len(bad)} of {n} answers differ with data from {begin}:\n" + "\n".join(bad[:100]))


# ---- what 2.42 and 3 answer differently; ours is 3's ----

# (why, query, 2.42's answer, ours). An answer: a number (of the one element), None (nothing), {label: value} of the one
# element's labels, or "error: text in the message". T is a time at which there is a sample, in seconds.
DIFFERENCES = (
    ("ranges are open at their start", "count_over_time(exact[1m] @ T)", 5, 4),
    ("ranges are open at their start", "count_over_time(exact[15s] @ T)", 2, 1),
    ("so is the look-back", "count(exact offset -5m) or vector(0)", 1, 0),
    ("so is the look-back", "count(ended) or vector(0)", 1, 0),
    ("subqueries are open at their start", "count_over_time(exact[5m:1m] @ M)", 6, 5),
    ("a name goes at the end of the query", 'label_replace(abs(exact), "n", "$1", "__name__", "(.*)")', {}, {"n": "exact"}),
    ("a name goes at the end of the query", "sum(abs({__name__=~\"exact|other\"}))", "error: same labelset", 4),
    ("atan2 drops the name", "exact atan2 1 and on() vector(1)", {"__name__": "exact"}, {}),
    ("a dot matches a line's end", 'count(lines{text=~"a.b"})', None, 1),
    ("names are UTF-8", '{"a.dotted name"}', "error: parse error", 7),
    ("names are UTF-8", 'sum by ("a b") (spaced)', "error: parse error", 8),
    ("labels are UTF-8", 'count_values("bad label", exact)', "error: invalid label name", {"bad label": "3"}),
    ("numbers have exponents of two", "0x1p3", "error: parse error", 8),
    ("digits are grouped", "1_000", "error: parse error", 1000),
    ("a duration is a number", "5m", "error: parse error", 300),
    ("a number is a duration", "count_over_time(exact[300] @ M)", "error: parse error", 20),
    ("durations are calculated", "count_over_time(exact[1m*5] @ M)", "error: parse error", 20),
    ("holt_winters has another name", "holt_winters(exact[5m] @ M, 0.5, 0.5)", 3, "error: holt_winters"),
    ("a rate starts at zero if half a gap is farther", "increase(young[15m] @ M)", 82, 81),
    ("the deviation of an infinity is no number", "stddev(exact * Inf)", 0, "NaN"),
    ("what a comparison filters out is a match", '{__name__=~"exact|other"} > on() vector(2)', 3, "error: multiple matches"),
    ("infinite sums stay infinite", "stdvar_over_time(wild[5m] @ M)", "NaN", "+Inf"),
)
# Stable functions and aggregations that 2.42 has not, or that are experimental in 3: answered, or refused by name.
YOUNGER = ("first_over_time(exact[5m])", "mad_over_time(exact[5m])", "limitk(1, exact)", "limit_ratio(0.5, exact)",
           "sort_by_label(exact, \"x\")", "ts_of_max_over_time(exact[5m])", "double_exponential_smoothing(exact[5m], 0.5, 0.5)",
           "histogram_avg(exact)", "info(exact)")


def special(t):
    """Series for the differences, with samples at t, a whole minute, and 15 s apart before it."""
    before = [(1000 * (t - 15 * i), 3.0) for i in range(80, -1, -1)]
    return [({"__name__": "exact"}, before), ({"__name__": "other"}, [(ms, 1.0) for ms, _ in before]),
            ({"__name__": "ended"}, [(1000 * (t - 300), 1.0)]), ({"__name__": "lines", "text": "a\nb"}, before),
            ({"__name__": "young"}, [(1000 * (t - 15 * i), 82.0 - 2 * i) for i in range(40, -1, -1)]),
            ({"__name__": "wild"}, [(ms, 1e300 * (-1) ** i) for i, (ms, _) in enumerate(before)])]


def short(answer):
    """An answer in the form of the table."""
    if answer[0] == "error":
        return "error: " + answer[2]
    rows = answer[1]
    return None if not rows else [(dict(k), points[-1][1]) for k, points in rows.items()]


def is_as(answer, want):
    if isinstance(want, str) and want.startswith("error: "):
        return answer[0] == "error" and want[7:] in answer[2]
    got = short(answer)
    if want is None or isinstance(got, str) or got is None:
        return got == want
    return len(got) == 1 and (got[0][0] == want if isinstance(want, dict) else same_value(got[0][1], str(want)))


def test_known_differences_to_2_42(env):
    """Each is checked on both sides, so that the list above stays true."""
    theirs = Prometheus(env)
    if not theirs.is_2_42:
        raise Skip("this prometheus is not Debian 12's 2.42")
    ours = Server(env, CONFIG, ANY_AGE)
    t = BEGIN + 3600
    for server in (theirs, ours):
        remote_write.load(server.url, special(t))
    names = [({"__name__": "a.dotted name"}, [(1000 * t, 7.0)]), ({"__name__": "spaced", "a b": "c"}, [(1000 * t, 8.0)])]
    remote_write.load(ours.url, names)
    bad = []
    for why, query, old, new in DIFFERENCES:
        query = re.sub(r"\b[TM]\b", str(t), query)
        for who, server, want in (("2.42", theirs, old), ("ours", ours, new)):
            got = ask(server, "query", query=query, time=t)
            if not is_as(got, want):
                bad.append(f"{why}: {query}: {who} says {short(got)}, expected {want}")
    for query in YOUNGER:
        answer = ask(ours, "query", query=query, time=t)
        if answer[0] == "error" and "experimental" not in answer[2] and "histogram" not in answer[2]:
            bad.append(f"{query}: neither answered nor refused as experimental: {answer[2]}")
    check(not bad, f"{len(bad)} are not as listed:\n" + "\n".join(bad))


# ---- promtool against ours; the receiver ----

def test_promtool_queries(env):
    promtool = tool(env, "promtool")
    server = Server(env, CONFIG, ANY_AGE)
    t = BEGIN + 3600
    remote_write.load(server.url, [({"__name__": "exact", "job": j}, [(1000 * (t + 15 * i), float(i)) for i in range(9)])
                                   for j in ("a", "b")])

    def say(*words):
        status, out = run([promtool, "query", *words])
        check(status == 0, f"promtool query {words}: {status}: {out}")
        return out.strip().splitlines()
    said = say("instant", f"--time={t + 1}", server.url, 'sum(exact) + 1')
    check(said == [f"{{}} => 1 @[{t + 1}]"], str(said))
    said = say("range", f"--start={t}", f"--end={t + 60}", "--step=30s", server.url, 'exact{job="a"}')
    check(said[0] == 'exact{job="a"} =>' and said[1:] == [f"{v} @[{t + s}]" for v, s in ((0, 0), (2, 30), (4, 60))], str(said))
    said = say("series", "--match=exact", f"--start={t}", f"--end={t + 60}", server.url)
    check(sorted(said) == ['{__name__="exact", job="a"}', '{__name__="exact", job="b"}'], str(said))
    check(say("labels", f"--start={t}", f"--end={t + 60}", server.url, "job") == ["a", "b"], "promtool query labels")
    status, out = run([promtool, "query", "instant", server.url, "sum("])
    check(status != 0 and "parse error" in out, f"{status} {out}")


def announced(server, length):
    """The answer to a body of that length before any of it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest("POST", "/api/v1/write")
    connection.putheader("Content-Length", str(length))
    connection.endheaders()
    with connection.getresponse() as r:
        return r.status


def test_remote_write_receiver(env):
    """What a sender is told: 204, or whether to try again."""
    off = Server(env, CONFIG, name="off")
    now = int(time.time() * 1000)
    one = [({"__name__": "exact"}, [(now, 1.0)])]
    status, text = remote_write.post(off.url, one)
    check(status == 404 and "--web.enable-remote-write-receiver" in text, f"{status} {text}")
    server = Server(env, CONFIG, ["--web.enable-remote-write-receiver"])
    for what, series, want in (
            ("a sample", one, 204), ("the same again", one, 204), ("nothing", [], 204),
            ("a series without a name", [({"job": "x"}, [(now, 1.0)])], 400),
            ("far ahead", [({"__name__": "exact"}, [(now + 3600000, 1.0)])], 400),
            ("before retention", [({"__name__": "exact"}, [(1000, 1.0)])], 400)):
        status, text = remote_write.post(server.url, series)
        check(status == want, f"{what}: {status} {text}, expected {want}")
    check(server.value("exact") == 1, "the sample is there")
    status, _, body = http_get(server.url + "/api/v1/write", data=b"nonsense", headers=remote_write.HEADERS)
    check(status == 400, f"{status} {body}")
    check(announced(server, 5 << 20) == 413, "5 MiB")
    status, _, _ = http_get(server.url + "/api/v1/write", data=b"\xff\xff\xff\xff\x0f", headers=remote_write.HEADERS)
    check(status == 413, f"a block of 4 GiB: {status}")
