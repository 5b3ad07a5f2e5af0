# SPDX-License-Identifier: Apache-2.0
"""Float series that have one of everything, and some hundred queries made from them; the same on every run.

Samples lie 15 s apart, at 3.4 s and a few milliseconds past; evaluation happens at some 7.1 s; resolutions and ranges are
whole seconds. So no evaluation, edge of a range or step of a subquery meets a sample: there Prometheus 2 and 3 differ."""
import math
import random

from remote_write import STALE

INTERVAL_MS = 15000
POINTS = 360  # 90 minutes


def _counter(rng, start, rate, reset_every=0):
    v = start
    for i in range(POINTS):
        if reset_every and i % reset_every == reset_every - 1:
            v = 0.0
        v += rng.choice((0, 1, rate, 2 * rate))
        yield float(v)


def _walk(rng, start, step):
    v = start
    for _ in range(POINTS):
        v += rng.uniform(-step, step)
        yield v


def _buckets(rng, rate):
    """Five cumulative buckets, sum and count."""
    counts, total = [90000, 120000, 130000, 140000, 150000], 200000.0
    for _ in range(POINTS):
        for _ in range(rate):
            x = rng.lognormvariate(-1, 1)
            total += x
            for i, le in enumerate((0.1, 0.5, 1, 5, math.inf)):
                counts[i] += x <= le
        yield counts[:], total


def _odd(kind, i):
    """Values at which functions have edges; None is no sample."""
    if kind == "nan":
        return math.nan if i % 3 == 0 else float(i)
    if kind == "inf":
        return math.inf if i % 50 == 7 else float(i)
    if kind == "neginf":
        return -math.inf if i % 70 == 9 else -float(i)
    if kind == "gap":
        return None if i // 40 % 2 else math.sin(i)
    if kind == "stale":
        return STALE if i % 40 == 20 else None if i % 40 > 20 else float(i % 40)
    if kind == "late":
        return float(i) if i > 200 else None
    if kind == "once":
        return 42.0 if i == 300 else None
    if kind == "constant":
        return 3.0
    return 1e140 * (i % 7 - 2) if kind == "huge" else 1e-9 * i


ODD = ("nan", "inf", "neginf", "gap", "stale", "late", "once", "constant", "huge", "tiny")


def series(begin_ms):
    """[(labels, [(t_ms, value), ...]), ...], sample i of all of them around begin_ms + 15 s * i."""
    rng, out = random.Random(7), []

    def add(values, **labels):
        labels["__name__"] = labels.pop("name")
        offset = begin_ms + 3400 + 37 * (len(out) % 13)
        out.append((labels, [(offset + INTERVAL_MS * i, v) for i, v in enumerate(values) if v is not None]))
    for job in ("api", "web", "db"):
        for instance in ("i-0", "i-1"):
            for code in ("200", "404", "500"):
                add(_counter(rng, 50000, rng.randint(2, 40), 97 if code == "404" else 0), name="http_requests_total", job=job,
                    instance=instance, code=code)
            add([float(rng.choice((10, 20, 20, 40)))] * POINTS, name="capacity", job=job, instance=instance)
            add([1.0] * POINTS, name="build_info", job=job, instance=instance, version=rng.choice(("1.0", "1.1")),
                zone=rng.choice(("north", "south")))
            add((float(rng.random() < 0.8) for _ in range(POINTS)), name="ready", job=job, instance=instance)
        rows = list(_buckets(rng, 5))
        for k, le in enumerate(("0.1", "0.5", "1", "5", "+Inf")):
            add((float(counts[k]) for counts, _ in rows), name="latency_seconds_bucket", job=job, le=le)
        add((total for _, total in rows), name="latency_seconds_sum", job=job)
        add((float(counts[4]) for counts, _ in rows), name="latency_seconds_count", job=job)
    for room in ("attic", "cellar", "hall"):
        add(_walk(rng, rng.uniform(-5, 25), 0.7), name="temperature_celsius", room=room, floor=str(len(room) % 3))
    for kind in ODD:
        add((_odd(kind, i) for i in range(POINTS)), name="odd", kind=kind)
    return out


# ---- queries ----

VECTORS = ("http_requests_total", 'http_requests_total{job="api"}', '{__name__=~"http_.*",code!~"4.."}', "capacity", "build_info",
           "ready", "temperature_celsius", 'temperature_celsius{room=~"a.*|hall"}', "odd", 'odd{kind!="nan"}',
           'odd{kind="none"}', "latency_seconds_sum", '{job="db",instance="i-1"}', 'capacity{version=""}')
GAUGES = ("temperature_celsius", "ready", "capacity", "odd", 'odd{kind=~"gap|late|stale"}')
COUNTERS = ("http_requests_total", 'http_requests_total{code="404"}', "latency_seconds_bucket", 'odd{kind="stale"}')
RANGES = ("1m", "5m", "7m30s", "20m")
MODIFIERS = ("", "", "", " offset 3m", " offset -2m", " @ {mid}", " @ start()", " @ end()", " @ {mid} offset 4m", " offset 90s @ end()")

UNARY = ("abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "round", "sin", "cos", "tan", "asin", "acos", "atan",
         "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg", "rad", "timestamp", "absent", "scalar", "sort", "sort_desc", "-", "+")
DATES = ("minute", "hour", "day_of_week", "day_of_month", "day_of_year", "days_in_month", "month", "year")
OVER_TIME = ("avg_over_time", "min_over_time", "max_over_time", "sum_over_time", "count_over_time", "stddev_over_time",
             "stdvar_over_time", "last_over_time", "present_over_time", "absent_over_time", "changes", "resets", "delta",
             "idelta", "deriv")
RATES = ("rate", "increase", "irate", "resets", "changes")
ARITHMETIC = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
AGGREGATIONS = ("sum", "avg", "min", "max", "count", "stddev", "stdvar", "group")
GROUPINGS = ("", " by (job)", " without (instance)", " by (job, code)", " by ()", " without ()", " by (nothing)", " by (job, __name__)")


def _functions(rng):
    for f in UNARY:
        for v in rng.sample(VECTORS, 2):
            yield f"{f}({v})"
    for f in DATES:
        for v in rng.sample(GAUGES[:3], 2):
            yield f"{f}({v} * {rng.choice(('1', '86400', '-1e6', '4e7'))})"
    for v in VECTORS:
        yield v
        yield f"clamp({v}, -1, 20)"
        yield f"clamp_min({v}, 4) + clamp_max({v}, 4)"
        yield f"round({v}, {rng.choice(('0.3', '5', '1e-3', '0.1'))})"
    yield from ("time()", "pi()", "vector(1.5)", "scalar(vector(time())) * 2", "scalar(capacity)", "time() % 86400", "minute()",
                "day_of_week(vector(1136239445))", "month(vector(-1)) + year(vector(-1))", "1 / 0", "0 / 0", "-1 % 3",
                "2 ^ 3 ^ 2", "-2 ^ 2", "1 + 2 * 3 - 4 / 8 % 3", "NaN", "-Inf", "0x1F", "1e3", ".5", "'text'", "\"a\\tb\"",
                "clamp(vector(3), 5, 1)", "absent(none_such)", 'absent(none_such{a="b",c=~"d",e="f"})', "absent(sum(none_such))",
                'absent_over_time(none_such{a="b"}[5m])', "1 > bool 2", "1 < bool 2", "3 == bool 3", "vector(1) and vector(2)")


def _ranges(rng):
    for f in OVER_TIME:
        for v in GAUGES:
            yield f"{f}({v}[{rng.choice(RANGES)}]{rng.choice(MODIFIERS)})"
    for f in RATES:
        for v in COUNTERS:
            for r in rng.sample(RANGES, 2):
                yield f"{f}({v}[{r}]{rng.choice(MODIFIERS)})"
    for q in ("0", "0.5", "0.9", "1", "-1", "2"):
        yield f"quantile_over_time({q}, {rng.choice(GAUGES)}[{rng.choice(RANGES)}])"
        yield f"predict_linear({rng.choice(GAUGES)}[{rng.choice(RANGES)}], {rng.choice(('60', '-600', '3600'))})"
    for v in VECTORS:
        yield f"{v}{rng.choice(MODIFIERS[3:])}"


def _aggregations(rng):
    for f in AGGREGATIONS:
        for g in GROUPINGS:
            # 2.42 takes the deviation of a single NaN or Inf for 0
            finite = [v for v in VECTORS if not f.startswith("std") or "odd" not in v]
            yield f"{f}{g}({rng.choice(finite)})"
        yield f"{f}(rate(http_requests_total[5m])) by (job)"
    for g in GROUPINGS:
        yield f"quantile{g}({rng.choice(('0', '0.25', '0.5', '0.99', '1', '-1', '7'))}, {rng.choice(VECTORS)})"
        # averages, because no two of them are equal: which of equals is taken, nobody promised
        yield f"topk{g}({rng.choice('123')}, avg_over_time(http_requests_total[{rng.choice(RANGES)}]))"
        yield f"bottomk{g}({rng.choice('123')}, avg_over_time(http_requests_total[{rng.choice(RANGES)}]))"
        yield f'count_values{g}("v", {rng.choice(("capacity", "ready", "build_info"))})'
    yield from ('topk(0, capacity)', 'topk(100, temperature_celsius)', 'sum(topk by (job) (1, http_requests_total))',
                'topk(scalar(count(temperature_celsius)), temperature_celsius)',
                'quantile(scalar(avg(ready)), temperature_celsius)', 'count(count by (job, code) (http_requests_total))',
                'max by (job) (sum by (job, instance) (http_requests_total))', 'sum without (le) (latency_seconds_bucket)')


def _matching(rng):
    for op in ARITHMETIC + COMPARISONS:
        yield f"temperature_celsius {op} {rng.choice(('3', '-2.5', '20'))}"
        yield f"{rng.choice(('3', '0', '100'))} {op} capacity"
        yield f'http_requests_total{{code="200"}} {op} ignoring(code) http_requests_total{{code="500"}}'
        yield f"http_requests_total {op} on(job, instance) group_left capacity"
        yield f"capacity {op} on(job, instance) group_right() http_requests_total"
        yield f"http_requests_total {op} ignoring(code) group_left ready"
        yield f"sum by (job) (http_requests_total) {op} sum by (job) (capacity)"
    for op in COMPARISONS:
        yield f"temperature_celsius {op} bool 5"
        yield f"5 {op} bool temperature_celsius"
        yield f'http_requests_total{{code="200"}} {op} bool ignoring(code) http_requests_total{{code="500"}}'
        yield f"odd {op} odd"
        yield f"time() {op} bool 0"
    for op in ("and", "or", "unless"):
        yield f"http_requests_total {op} on(job) capacity{{job=~\"api|db\"}}"
        yield f"capacity {op} ready == 1"
        yield f'http_requests_total{{code="200"}} {op} ignoring(code) http_requests_total{{job="web",code="404"}}'
        yield f"odd {op} odd > 10"
        yield f"capacity {op} on() vector(1)"
        yield f"capacity {op} temperature_celsius"
    yield from ("capacity * on(job, instance) group_left(version, zone) build_info",
                "sum by (zone) (http_requests_total * on(job, instance) group_left(zone) build_info)",
                "build_info * on(job, instance) group_right(version) http_requests_total",
                'label_replace(capacity, "host", "n$1", "instance", "i-(.*)")',
                'label_replace(capacity, "job", "", "job", "api")', 'label_replace(capacity, "x", "y", "nothing", "")',
                'label_replace(capacity, "instance", "${1}x", "job", "(a|b).*")', 'label_replace(capacity, "x", "$1", "job", "nope")',
                'label_join(capacity, "all", "-", "job", "instance")', 'label_join(capacity, "job", "")',
                'label_join(capacity, "all", ",", "nothing", "job")')


def _subqueries(rng):
    inner = ("temperature_celsius", "rate(http_requests_total[2m])", "sum by (job) (ready)", "odd > 3", "capacity", "time()", "vector(1)")
    for f in OVER_TIME:
        for v in rng.sample(inner, 3):
            step = rng.choice(("1m", "30s", "17s", "2m", ""))
            yield f"{f}(({v})[{rng.choice(('10m', '6m30s', '25m'))}:{step}]{rng.choice(MODIFIERS)})"
    yield from ("max_over_time(avg_over_time(temperature_celsius[3m])[10m:1m])", "rate(sum by (job) (http_requests_total)[10m:30s])",
                "sum_over_time(max_over_time(temperature_celsius[5m:40s])[10m:2m])", "quantile_over_time(0.5, (ready * 3)[8m:20s])",
                "avg_over_time((time() % 100)[5m:7s])", "count_over_time(absent(none_such)[5m:30s])",
                "min_over_time((temperature_celsius offset 5m)[10m:1m])", "deriv((http_requests_total{code=\"200\"} @ {mid})[10m:1m])")


def _histograms(rng):
    for q in ("0", "0.1", "0.5", "0.9", "0.999", "1", "-0.1", "1.1", "NaN"):
        yield f"histogram_quantile({q}, rate(latency_seconds_bucket[{rng.choice(RANGES)}]))"
        yield f"histogram_quantile({q}, sum by (le) (latency_seconds_bucket))"
    yield from ("histogram_quantile(0.9, latency_seconds_bucket{le!=\"+Inf\"})", "histogram_quantile(0.5, capacity)",
                "latency_seconds_sum / latency_seconds_count", "histogram_quantile(scalar(avg(ready)), latency_seconds_bucket)")


def _errors():
    """What both have to refuse."""
    yield from ("sum(", "rate(capacity)", "capacity[5m]", "capacity + on(job) ready", "capacity and 1", "sum by (job) (1)", "1 == 2",
                '{a=~"("}', "capacity{", "topk(capacity)", "no_such_function(1)", '{x=""}', "rate(capacity[0s])", "capacity offset",
                "label_replace(capacity, \"x\", \"y\", \"job\", \"(\")", "sum(capacity) by", "capacity * on(job) group_left capacity",
                "1 + ", "-'text'", "abs(1)", "time(1)", "capacity[5m:]offset",
                "rate(http_requests_total[5m]) and ", "{}", "capacity @ capacity", "sum without (job, (capacity)", "# only a comment")


# Not nested: names, which go at the end (3) or at once (2.42); deviations of a single NaN; timestamp(). Nor subqueries with both @
# and offset: 2.42 forgets one of them.
PLAIN = tuple(v for v in VECTORS if "odd" not in v and not v.startswith("{job")) + ('odd{kind!~"nan|inf|neginf|huge"}',
                                                                                 'odd{kind=~"gap|late|stale|once"}')
DEEP_MODIFIERS = ("", "", " offset 3m", " offset -2m")  # 2.42 reads too little for @ in a subquery in a subquery
MATCHING = ("", "on(job)", "on(job, instance)", "ignoring(code)", "on()", "on(instance) group_left",
            "ignoring(code) group_left(version)", "on(job) group_right")


def _leaf(rng, modifiers):
    return rng.choice((f"{rng.choice(PLAIN)}{rng.choice(modifiers)}",
                       f"{rng.choice(RATES[:3])}(http_requests_total[{rng.choice(RANGES)}]{rng.choice(modifiers)})",
                       f"{rng.choice(OVER_TIME)}({rng.choice(PLAIN)}[{rng.choice(RANGES)}]{rng.choice(modifiers)})"))


def _nested(rng, depth, modifiers):
    """An expression of expressions. No range of a subquery ends at a step, even in a subquery; averages,
    which differ in their last digit, are not rounded, nor are their changes counted."""
    def inner():
        return _nested(rng, depth - 1, modifiers)
    form = rng.randrange(10) if depth else 0
    if form < 1:
        return _leaf(rng, modifiers)
    if form < 3:
        return (f"{rng.choice([f for f in OVER_TIME if f not in ('changes', 'resets')])}(({inner()})[{rng.choice(('7m1s250ms', '11m3s250ms', '3m31s250ms'))}:"
                f"{rng.choice(('1m', '37s', '20s', '2m'))}]{rng.choice(('', ' offset 3m', ' offset -2m'))})")
    if form < 4:
        return f"{rng.choice([a for a in AGGREGATIONS if 'std' not in a])}{rng.choice(GROUPINGS[:-1])}({inner()})"
    if form < 6:
        op = rng.choice(ARITHMETIC[:4] + COMPARISONS)
        return f"({inner()}) {op}{rng.choice(('', ' bool')) if op in COMPARISONS else ''} {rng.choice(MATCHING)} ({inner()})"
    if form < 7:
        return f"({inner()}) {rng.choice(('and', 'or', 'unless'))} {rng.choice(MATCHING[:5])} ({inner()})"
    if form < 8:
        return f"({inner()}) {rng.choice(ARITHMETIC[:4] + COMPARISONS)} {rng.choice(('2', '0.5', '-3', 'scalar(capacity)', 'time()'))}"
    if form < 9:
        return f"{rng.choice(('abs', 'sqrt', 'deg', '-', 'absent'))}({inner()})"
    return (f'label_replace({inner()}, "{rng.choice(("job", "x", "instance"))}", "{rng.choice(("$1", "a", "", "x$1y"))}", '
            f'"{rng.choice(("job", "code", "instance"))}", "{rng.choice((".*", "(.).*", "(a|w).*", "i-(.*)"))}")')


def queries(mid_s, nested=400, seed=11):
    """All of them, each once; {mid} in modifiers is an instant of the data."""
    rng, seen = random.Random(seed), {}
    expressions = (_nested(rng, 1 + i % 3, MODIFIERS if i % 3 == 0 else DEEP_MODIFIERS) for i in range(nested))
    for part in (_functions(rng), _ranges(rng), _aggregations(rng), _matching(rng), _subqueries(rng), _histograms(rng), _errors(),
                 expressions):
        for q in part:
            seen.setdefault(q.replace("{mid}", mid_s))
    return list(seen)
