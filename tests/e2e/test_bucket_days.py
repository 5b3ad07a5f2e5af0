# SPDX-License-Identifier: Apache-2.0
"""Days of the fleet of bench/fleet.h in a bucket (bench/bucket_bench.c makes them: late rows, deletes, rollups, late names, a day that goes and begins
again). The disk is lost, an empty one with the same id comes back, and each question has the answer that it had, byte by byte. The lost disk
returns when the other one has gone on: it takes an id of its own, has what it had, and leaves the objects of the first id as they are."""
import importlib.machinery
import importlib.util
import os
import re
import shutil
import time
import urllib.parse

from harness import Clock, LONG, Server, Skip, TOP, check, http_get, run, slow, wait_until

ID = "shop-1"
HOUR, DAY = 3600, 86400
CONFIG = """
scrape_configs: []
object_storage:
  server_id: %s%s
  bucket: {type: FILESYSTEM, config: {directory: %s}}
storage:
  tsdb:
    retention:
      - {selector: '{job="short"}', time: 3d}
"""
# All that may differ between two answers to one question; of headers only the type of the content is compared.
VOLATILE = (
    (re.compile(rb'"list":"[^"]*"'), "the name of a list of frames has a key of the process"),
    (re.compile(rb'"timings":\{[^}]*\}'), "how long stats=true took"),
)


# ---- questions ----

def of_the_bench():
    """bench/http, which asks for the fleet that begins at its T0."""
    loader = importlib.machinery.SourceFileLoader("bench_http", os.path.join(TOP, "bench", "http"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def of_a_range(http, function, at, span, whole):
    """About (at - span, at]; whole: in all formats."""
    cpu, native, length = http.CPU, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", f"{span}s"
    f = '{function="%s"}' % function
    profiles = (f"merge({cpu}[{length}])", f"merge by (service) ({cpu}[{length}])", f'merge({cpu}{{service="service-2"}}[{length}])',
                f'diff(merge({cpu}{{service="service-0"}}[{length}]), merge({cpu}{{service="service-0"}}[{length}] offset 6h))',
                f"merge(rate({native}[{length}]))", f'tagroot(merge({native}[{length}]), "worker", "pod")')
    for n, q in enumerate(profiles):
        yield "query", {"query": q, "time": at, "format": "flamegraph", "width": 1600, "whole": 3000, "functions": 1000, "search": "a"}, http.FLAME
        yield "query", {"query": q, "time": at, "format": "pprof"}, {}
        for kind in ("flamegraph", "json", "folded", "speedscope", "svg", "dot") if n >= 4 or (whole and n != 1) else ("svg", "dot"):
            yield "query", {"query": q, "time": at, "format": kind}, {}
    for q in (f"topk(10, self(merge({cpu}[{length}])))", f"sort_desc(total(merge by (service) ({cpu}[{length}])))", f"share(merge({cpu}[{length}]), {f})",
              f"topk(5, total(merge({cpu}[{length}]), \"file\"))", f"count_over_time({cpu}[{length}])", f"sum by (service, node) (rate({cpu}[{length}]))",
              f"count by (pod) (sum_over_time({native}[{length}]))", f'total(merge({native}[{length}]), {{function="native::function_7"}})',
              f"quantile_over_time(0.9, temperature[{length}])", f"increase(requests_total[{length}])", f"max_over_time(passing[{length}])"):
        yield "query", {"query": q, "time": at}, {}
    yield "query", {"query": f"sum(rate({cpu}[{length}]))", "time": at, "stats": "true"}, {}
    graph = {"start": at - span + span // 60, "end": at, "step": span // 60}
    for q in (f"sum by (pod) (rate({cpu}[{span // 60}s]))", f"share(merge by (service) ({cpu}[10m]), {f})", f"topk(3, self(merge({cpu}[{max(600, span // 60)}s])))",
              f'total(merge by (service) ({cpu}[1h]), {f})', f"sum by (service) (sum_over_time({cpu}[1h]))", f'rate({native}[20m])', "temperature", "rate(requests_total[10m])", "passing"):
        yield "query_range", {"query": q, **graph}, {}
        yield "query_range", {"query": q, **graph}, http.MATRIX
    within = {"start": at - span, "end": at}
    yield "labels", within, {}
    yield "series", {"match[]": '{__name__=~".+"}', **within}, {}
    for name in ("__name__", "pod", "service", "node", "job"):
        yield f"label/{name}/values", within, {}
    for key in ("function", "file", "binary"):
        yield f"frame/{key}/values", {"match[]": cpu, **within, "limit": 500}, {}
    yield "frame/function/values", {"match[]": native, **within, "search": "native"}, {}
    yield "profile_types", within, {}


def questions(days, newest, function):
    """{name: (path, headers)}; none reaches beyond the newest stamp, where a server that came back says what it lost."""
    http = of_the_bench()
    t0, all_of_it = http.T0, newest - http.T0
    ranges = [(newest, HOUR, True), (t0 + 2 * DAY + 3 * HOUR, 6 * HOUR, False), (t0 + 2 * DAY, DAY, False), (t0 + 3 * DAY, DAY, False),
              (t0 + 6 * DAY, DAY, True), (t0 + 4 * DAY, 3 * DAY, False), (newest, all_of_it, True)]
    found = {f"bench/http: {q.name}": (q.link, q.headers) for q in [*http.of_the_fleet(function), *http.of_a_week(function)]}
    for n, (at, span, whole) in enumerate(ranges):
        if not LONG and n in (2, 3, 5):
            continue
        for k, (path, params, headers) in enumerate(of_a_range(http, function, at, span, whole)):
            link = f"/api/v1/{path}?" + urllib.parse.urlencode(params)
            found[f"{n}.{k} {path} {params.get('format', '')} {params.get('query', '')}"] = (link, headers)
    check(days >= 8, "a week has to be over")
    return found


def ask(server, link, headers):
    status, got, body = http_get(server.url + link, headers=headers, timeout=1500)
    for volatile, _ in VOLATILE:
        body = volatile.sub(b"", body)
    return status, got["Content-Type"], body


def ask_all(server, asked):
    return {name: ask(server, *q) for name, q in asked.items()}


def compare(env, what, before, after):
    """Leaves the first that differ beside the logs."""
    wrong = [name for name in before if before[name] != after[name]]
    for n, name in enumerate(wrong[:10]):
        env.path(f"{what}-{n}.before", before[name][2])
        env.path(f"{what}-{n}.after", after[name][2])
    check(not wrong, f"{what}: {len(wrong)} of {len(before)} answers differ ({what}-N.before, .after): " + "; ".join(
        f"{name}: {before[name][:2]} {len(before[name][2])} bytes, {after[name][:2]} {len(after[name][2])} bytes" for name in wrong[:10]))


# ---- servers ----

class Days:
    """What bench_bucket made, and servers over it, whose clock goes on from there."""

    def __init__(self, env, *options):
        self.env, self.bucket, self.storage = env, env.path("bucket"), env.path("made")
        self.clock = Clock(env, "pyrrha")
        status, out = run([env.program("bench_bucket"), "--dir=" + self.storage, "--bucket=" + self.bucket, "--id=" + ID, *options], seconds=1800)
        self.said = env.path("made.log", out)
        check(status == 0, out[-3000:])
        newest, self.function = out.splitlines()[-1].split(" ", 1)
        self.newest = int(newest) // 1000
        self.puts = next(line for line in out.splitlines() if line.startswith("puts an hour: "))
        self.clock.set(self.newest + 20 * 60 - time.time())

    def server(self, name, storage, id_=ID, options=(), keys=""):
        """keys: further lines of object_storage."""
        clock = self.clock

        class Here(Server):
            under = clock.under

            def __init__(self, env):
                self.given = storage
                super().__init__(env, CONFIG % (id_, keys, env.path("bucket")), ["--web.enable-admin-api", "--query.timeout=20m", *options], name=name)  # on a busy host as well

            def start_on(self, name, port):
                self.storage = self.given
                super().start_on(name, port)
        return Here(self.env)

    def objects(self, id_):
        """{path: (size, time of the last change)}"""
        found = {}
        for folder, _, files in os.walk(os.path.join(self.bucket, id_)):
            for name in files:
                s = os.stat(os.path.join(folder, name))
                found[os.path.relpath(os.path.join(folder, name), self.bucket)] = s.st_size, s.st_mtime_ns
        return found


def metric(server, name):
    return server.metrics()["pyrrha_tsdb_bucket_" + name]


def is_back(server):
    check(metric(server, "writes") == 1, server.text())
    return metric(server, "absent_days") == 0


def id_of(server):
    return re.search(r'msg="writes to its bucket" id=(\S+)', server.text()).group(1)


def is_up(server, days):
    return metric(server, "waiting_parts") == 0 and metric(server, "days") == days


# ---- the story ----

def comes_back(env, days, *options):
    d = Days(env, f"--days={days}", *options)
    asked = questions(days, d.newest, d.function)
    first = d.server("first", d.storage)
    wait_until("it writes to the bucket", lambda: is_back(first))
    gone = {"match[]": '{service="service-3",node="node-0"}', "start": str(d.newest - 5 * DAY), "end": str(d.newest - 4 * DAY)}
    status, _, body = http_get(first.link("/api/v1/admin/tsdb/delete_series", **gone), data=b"")
    check(status == 204, f"{status}: {body}")
    before = ask_all(first, asked)
    some = {name: q for name, q in asked.items() if LONG or name.startswith(("4.", "bench/http: week"))}
    compare(env, "again", {name: before[name] for name in some}, ask_all(first, some))
    bad = [(name, a[0], a[2][:300]) for name, a in before.items() if a[0] not in (200, 404)]  # 404: pprof and dot of what was deleted
    check(not bad, f"{len(bad)} of {len(before)} fail: {bad[:5]}")
    empty = [name for name, a in before.items() if a[0] == 404 or b'"result":[]' in a[2] or b'"data":[]' in a[2]]
    check(len(empty) < len(before) / 8, f"{len(empty)} of {len(before)} answers are empty: {empty}")
    check(first.terminate(60)[0] == 0, first.text())
    os.rename(d.storage, env.path("old"))

    begin = time.monotonic()
    second = d.server("second", env.path("empty"))
    ready = time.monotonic() - begin
    today = [name for name in asked if name.startswith("0.")]  # the newest hour is there before all else
    compare(env, "today", {name: before[name] for name in today}, ask_all(second, {name: asked[name] for name in today}))
    wait_until("all days are back", lambda: is_back(second), 600)
    back = time.monotonic() - begin
    compare(env, "back", before, ask_all(second, asked))
    lost = second.get("/api/v1/query", query="count_over_time(temperature[1h])", time=str(d.newest + 600)).decode()
    check('"warnings":[' in lost, f"what was not in the bucket is lost, and nothing is said of it: {lost}")
    wait_until("it has put what it rewrote", lambda: is_up(second, days), 300)
    check(second.terminate(60)[0] == 0, second.text())

    objects = d.objects(ID)
    third = d.server("third", env.path("old"))
    wait_until("the old disk has an id of its own", lambda: is_back(third), 60)
    other = id_of(third)
    check(other != ID and other.startswith(ID), other)
    wait_until("it has put its days", lambda: is_up(third, days), 600)
    compare(env, "old", before, ask_all(third, asked))
    check(third.terminate(60)[0] == 0, third.text())
    check(d.objects(ID) == objects, f"objects of {ID} have changed: {set(d.objects(ID).items()) ^ set(objects.items())}")

    # Both go on under their ids, also on empty disks.
    for name, id_ in ("fourth", other), ("fifth", ID):
        server = d.server(name, env.path("empty-" + name), id_)
        wait_until("all days are back again", lambda s=server: is_back(s), 600)
        check(id_of(server) == id_, server.text())
        compare(env, name, {name: before[name] for name in some}, ask_all(server, some))
        check(server.terminate(60)[0] == 0, server.text())
    size = sum(s for s, _ in objects.values())
    env.path("figures", f"{len(asked)} questions, {sum(len(a[2]) for a in before.values())} bytes of answers\n{len(objects)} objects, {size} bytes\n"
                        f"ready after {ready:.2f} s, all days after {back:.2f} s\n{d.puts}\n")
    for name in ("bucket", "old", "empty", "empty-fourth", "empty-fifth"):
        shutil.rmtree(env.path(name))


@slow
def test_ten_days_come_back(env):
    if not LONG and not os.environ.get("PYRRHA_BUCKET_DAYS"):
        raise Skip("minutes of CPU: runs with PYRRHA_LONG=1, or with PYRRHA_BUCKET_DAYS=1 for fewer questions")
    if LONG:
        comes_back(env, 10, "--scale=0.1")
    else:
        comes_back(env, 8, "--every=60")
