# SPDX-License-Identifier: Apache-2.0
"""Answers have one order, by value and then by text: what a server answered before a restart it answers after it, byte for byte, also if
it is asked in another order. Ids differ then: the days of a query share a dictionary, which meets their stacks as queries ask for them."""
import json
import os
import random
import re

from harness import Server, check, http_get, run
from pprof_file import plain
from test_format import Stamper, made

DAY = 1700006400  # 2023-11-15T00:00:00Z
DAYS = 3
HEAP = ("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")


def profile(seed, types=(("samples", "count"), ("cpu", "nanoseconds")), **more):
    """Of few functions and few values: many samples are equal to others but for their text. Each day meets them in an order of its own."""
    dice, rows = random.Random(seed), {}
    for _ in range(300):
        stack = tuple(f"fn{dice.randrange(25)}" for _ in range(dice.randrange(1, 7))) + ("main",)
        n = dice.choice((1, 1, 1, 2, 3, 70))
        rows[stack] = [n * 10**7 if t == "cpu" else n * 1024 if u == "bytes" else n for t, u in types]
    rows = list(rows.items())
    dice.shuffle(rows)
    return Stamper(made(rows, types, **more))


def files(env):
    for day in range(DAYS):
        for i in range(6):
            for pod in "abc":
                for job, body in (("shop", profile(f"{pod}{day}", named=pod == "b")), ("heap", profile(f"{pod}{day}{i % 2}", HEAP))):
                    folder = os.path.join(env.dir, "files", f"job={job}", f"pod={pod}")
                    os.makedirs(folder, exist_ok=True)
                    t = DAY + 86400 * day + 3600 + 10 * i
                    with open(os.path.join(folder, f"{t}.pb"), "wb") as f:
                        f.write(body.until(t))
    return os.path.join(env.dir, "files")


CPU, OF_HEAP = '{__name__=~"process_cpu:cpu:.*",job="shop"', '{__name__=~".*:inuse_space:.*",job="heap"'
END = DAY + 86400 * DAYS
PROFILES = (
    f"merge by (pod) ({OF_HEAP}}}[3d])", f"merge({CPU}}}[3d])", f"merge by (pod) ({CPU}}}[3d])", f"merge({OF_HEAP},pod=\"a\"}}[2d])",
    f"merge({CPU},pod=\"b\"}}[2d] offset 12h)", f"merge by (pod) (rate({CPU}}}[2d]))", f"merge({OF_HEAP}}}[3d]) / 7",
    f"diff(merge({CPU},pod=\"a\"}}[3d]), merge({CPU},pod=\"c\"}}[3d]))", f"tagroot(merge({CPU}}}[3d]), \"comm\", \"thread\")",
)
NUMBERS = (
    f"self(merge({CPU}}}[3d]))", f"total(merge(rate({CPU}}}[2d])))", f"topk(7, self(merge by (pod) ({OF_HEAP}}}[3d])))", f"sort(total(merge({OF_HEAP}}}[3d])))",
    f"bottomk(9, share(merge by (pod) ({CPU}}}[3d])))", f"total(merge({OF_HEAP}}}[3d]) / 7, \"file\")", f"sort_desc(sum by (function) (self(merge by (pod) (rate({CPU}}}[3d])))))",
)
FORMATS = ("pprof", "flamegraph", "json", "folded", "speedscope", "svg", "dot")


def questions():
    """(path, parameters, headers)"""
    for q in PROFILES:
        for f in FORMATS:
            yield "/api/v1/query", {"query": q, "format": f, "time": END}, {}
        page = {"query": q, "format": "flamegraph", "time": END, "width": 800, "functions": 15, "search": "fn1"}
        yield "/api/v1/query", page, {}
        yield "/api/v1/query", page, {"Accept": "application/vnd.pyrrha.flame"}
    for q in NUMBERS:
        yield "/api/v1/query", {"query": q, "time": END}, {}
        yield "/api/v1/query_range", {"query": q, "start": END - 7200, "end": END, "step": 3600}, {}
    span = {"start": DAY, "end": END}
    for path in ("labels", "label/pod/values", "label/__name__/values", "profile_types"):
        yield "/api/v1/" + path, span, {}
    yield "/api/v1/series", {"match[]": '{job=~".+"}', **span}, {}


def answers(server, order):
    out = {}
    for path, params, headers in order:
        status, _, body = http_get(server.link(path, **params), headers=headers)
        check(status == 200, f"{path} {params}: {status} {body[:500]!r}")
        # the name of a list of frames is a hash with a random key, which each start of the server draws anew
        out[path, json.dumps(params), str(headers)] = re.sub(rb'"list":"[0-9a-f]{16}"', b"", plain(body))
    return out


def test_same_bytes_after_a_restart(env):
    status, out = run([env.program("pyrtool"), "tsdb", "import", env.path("pyrrha-data"), files(env), "--output=json"])
    check(status == 0 and json.loads(out)["bad"] == 0, out)
    server = Server(env, "global: {}\n", flags=["--storage.tsdb.retention.time=0"])
    asked = list(questions())
    before = answers(server, asked)
    check(server.terminate()[0] == 0, "the server did not end well")
    server.restart()
    after = answers(server, reversed(asked))
    differ = [k for k in before if before[k] != after[k]]
    for path, params, headers in differ[:5]:
        a, b = before[path, params, headers], after[path, params, headers]
        at = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), min(len(a), len(b)))
        print(f"{path} {params} {headers}: {len(a)} and {len(b)} bytes, at {at}: {a[max(at - 80, 0):at + 80]!r} and {b[max(at - 80, 0):at + 80]!r}")
    check(not differ, f"{len(differ)} of {len(before)} answers differ: {differ[:20]}")
    check(sum(map(len, before.values())) > 10**6, f"{sum(map(len, before.values()))} bytes of answers are too few to say anything")
