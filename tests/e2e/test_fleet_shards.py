# SPDX-License-Identifier: Apache-2.0
"""A day of the fleet of bench/fleet.h (bench/days_bench.c makes it) in shards: four servers that have the pods between them, whose number was three until an hour in the
middle, and one server that has them all. A querier over the four answers each question byte by byte as the one: also amid deletes, seals and restarts. While servers
are killed, each answer is that one or says which server it lacks."""
import json
import os
import random
import threading
import time
import urllib.parse

import remote_write
from harness import Clock, LONG, Server, check, http_get, patience, run, slow, wait_until
from test_bucket_days import DAY, HOUR, ask, ask_all, compare, of_a_range, of_the_bench
from test_fleet import address, querier_config

SHARDS, MOVED_AT = 4, 9
FILLERS = 500  # series of each shard: an hour of less than a MiB is sealed a quarter of an hour after the start
OTHER_TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"  # which these days do not have
FLAGS = ["--web.enable-admin-api", "--web.enable-remote-write-receiver", "--query.timeout=20m", "--query.max-samples=1000000000", "--storage.tsdb.retention.time=0"]


class Shards:
    """The storages, and servers over them whose clock goes on from the end of the day."""

    def __init__(self, env, scale=0.05):
        self.env, self.clock, http = env, Clock(env, "pyrrha"), of_the_bench()
        self.newest = http.T0 + DAY + HOUR // 2
        for name, shard in [("all", None)] + [(f"shard-{i}", f"{i}/{SHARDS - 1},{i}/{SHARDS}@{MOVED_AT}") for i in range(SHARDS)]:
            self.make(name, scale, [f"--shard={shard}"] if shard else [])
        self.clock.set(self.newest + 10 - time.time())
        self.all = self.server("all")
        self.servers = [self.server(f"shard-{i}") for i in range(SHARDS)]

    def make(self, name, scale, options):
        argv = [self.env.program("bench_days"), "--dir=" + self.env.path(name + "-data"), "--make", "--days=1", "--half-hour", f"--scale={scale}", *options]
        status, out = run(argv, seconds=600)
        check(status == 0, out[-3000:])

    def server(self, name, config="scrape_configs: []\n"):
        under = self.clock.under

        class Here(Server):
            pass
        Here.under = under
        return Here(self.env, config, FLAGS, name=name)

    def querier(self, *servers, name="querier", timeout="10m"):
        config = querier_config(*(servers or map(address, self.servers))).replace("timeout: 5s", f"timeout: {timeout}")
        return self.server(name, config)

    def function(self):
        """One that profiles have."""
        found = self.all.api("frame/function/values", **{"match[]": of_the_bench().CPU, "start": self.newest - HOUR, "end": self.newest, "limit": 50})
        return found[len(found) // 2]


# ---- questions ----

def questions(shards, function):
    """{name: (path, headers)}"""
    http, t0 = of_the_bench(), shards.newest - DAY - HOUR // 2
    found = {f"bench/http: {q.name}": (q.link, q.headers) for q in http.of_the_fleet(function) if "of rate" not in q.name}
    ranges = [(shards.newest, HOUR, True), (t0 + MOVED_AT * HOUR + 1800, HOUR, False), (t0 + (MOVED_AT + 3) * HOUR, 6 * HOUR, False), (shards.newest, DAY, True)]
    for n, (at, span, whole) in enumerate(ranges):
        for k, (path, params, headers) in enumerate(of_a_range(http, function, at, span, whole and LONG)):
            params = {key: v if not isinstance(v, str) else v.replace(OTHER_TYPE, http.CPU) for key, v in params.items()}
            if not LONG and k % 4 != n % 4:
                continue
            if path == "profile_types" or "merge(rate(" in params.get("query", ""):
                continue  # docs/fleet.md: the last digit of quotients may differ; series of a type are counted by server
            found[f"{n}.{k} {path} {params.get('format', '')} {params.get('query', '')}"] = (f"/api/v1/{path}?" + urllib.parse.urlencode(params), headers)
    return found


# ---- one server's answers ----

def post_all(shards, path, **params):
    """The same to each server but the querier."""
    for server in [shards.all, *shards.servers]:
        status, _, body = http_get(server.link("/api/v1/admin/tsdb/" + path, **params), data=b"", timeout=600)
        check(status == 204, f"{server.name} {path}: {status} {body}")


def write_floats(shards):
    """Series of the last half hour that are not profiles. One of them moves from a shard to another in the middle."""
    begin = shards.newest - HOUR // 2 + 60
    stamps = [t * 1000 for t in range(begin, shards.newest, 15)]
    gauge = {f"node-{i}": [(t, float((t // 1000 * (i + 3)) % 997) / 7) for t in stamps] for i in range(2 * SHARDS)}
    counter = {node: [(t, float(t // 15000 * (i + 1) % 50000)) for t in stamps] for i, node in enumerate(gauge)}

    def load(server, mine):
        series = [({"__name__": name, "node": node}, [s for k, s in enumerate(samples) if mine(i, k)])
                  for name, of in (("temperature", gauge), ("requests_total", counter)) for i, (node, samples) in enumerate(of.items())]
        remote_write.load(server.url, [(labels, samples) for labels, samples in series if samples])
    filler = [[({"__name__": "filler", "node": f"{n}-{i}"}, [(t, float(t // 1000 * i % 997)) for t in stamps]) for i in range(FILLERS)] for n in range(SHARDS)]
    for part, server in zip(filler, shards.servers):
        remote_write.load(shards.all.url, part)
        remote_write.load(server.url, part)
    load(shards.all, lambda i, k: True)
    for n, server in enumerate(shards.servers):
        load(server, lambda i, k, n=n: (i + (i == 1 and k > len(stamps) // 2)) % SHARDS == n)


def same(env, shards, querier, asked, what):
    """Asks the one and the querier; returns the answers."""
    want = ask_all(shards.all, asked)
    compare(env, what, want, ask_all(querier, asked))
    return want


def check_questions(shards, asked, want):
    bad = [(name, a[0], a[2][:200]) for name, a in want.items() if a[0] != 200]
    check(not bad, f"{len(bad)} of {len(want)} fail: {bad[:5]}")
    empty = [name for name, a in want.items() if b'"result":[]' in a[2] or b'"data":[]' in a[2]]
    check(len(empty) < len(want) / 8, f"{len(empty)} of {len(want)} answers are empty: {empty}")
    count = f"count(count_over_time({of_the_bench().CPU}[1d]))"
    held = [s.value(count, time=shards.newest) for s in shards.servers]
    check(all(held) and sum(held) > shards.all.value(count, time=shards.newest), f"some series have moved: {held}")


def windows(server):
    return server.metrics()["pyrrha_tsdb_head_windows"]


@slow
def test_shards_are_one_server(env):
    shards = Shards(env)
    write_floats(shards)
    asked, querier = questions(shards, shards.function()), shards.querier()
    want = same(env, shards, querier, asked, "first")
    check_questions(shards, asked, want)
    some = {name: q for n, (name, q) in enumerate(asked.items()) if LONG or n % 3 == 0}
    compare(env, "again", {name: want[name] for name in some}, ask_all(querier, some))
    gone = {"match[]": '{service="service-1"}', "start": str(shards.newest - 5 * HOUR), "end": str(shards.newest - 3 * HOUR)}
    post_all(shards, "delete_series", **gone)
    deleted = same(env, shards, querier, some, "deleted")
    check(any(deleted[name] != want[name] for name in some), "the delete changed answers")
    before = {server: windows(server) for server in [shards.all, *shards.servers]}
    shards.clock.set(shards.clock.off + HOUR)  # the last half hour is sealed while it is asked for
    same(env, shards, querier, some, "sealing")
    wait_until("the last hour is sealed", lambda: all(windows(server) < n for server, n in before.items()), 60)
    same(env, shards, querier, some, "sealed")
    for n, server in enumerate(shards.servers):
        server.kill() if n % 2 else server.terminate(60)
        server.restart()
        same(env, shards, querier, {name: q for k, (name, q) in enumerate(some.items()) if LONG or k % SHARDS == n}, f"restarted-{n}")
    querier.terminate()
    querier.restart()
    same(env, shards, querier, some, "anew")


# ---- kills ----

KILLS, ASKERS = 40 if LONG else 8, 4
TIMEOUT, HANGS = 10, 60  # of a call to a server, and after how many seconds an answer counts as one that never comes


class Outages:
    """When which server was away: from before its kill until it was ready again, and a moment more."""

    def __init__(self):
        self.lock, self.spans = threading.Lock(), []

    def begin(self, server):
        with self.lock:
            self.spans.append([server.url, time.monotonic(), float("inf")])
            return self.spans[-1]

    def end(self, span):
        with self.lock:
            span[2] = time.monotonic()

    def at(self, begin, end):
        """URLs of the servers that were away in a part of that time."""
        with self.lock:
            return {url for url, b, e in self.spans if b <= end and begin <= e}


class Asker(threading.Thread):
    """Asks at random until it is told to stop. What is wrong is in .wrong."""

    def __init__(self, querier, want, asked, outages, seed):
        super().__init__(daemon=True)
        self.querier, self.want, self.asked, self.outages, self.rng = querier, want, asked, outages, random.Random(seed)
        self.stop, self.wrong, self.whole, self.partial = threading.Event(), [], 0, 0

    def run(self):
        names = sorted(self.asked)
        while not self.stop.is_set():
            name = self.rng.choice(names)
            begin = time.monotonic()
            try:
                got = ask(self.querier, *self.asked[name])
            except OSError as e:
                got = (0, "", str(e).encode())
            self.judge(name, got, begin, time.monotonic())

    def judge(self, name, got, begin, end):
        away = self.outages.at(begin, end)
        if got == self.want[name]:
            self.whole += 1
            problem = None
        else:
            problem = self.problem(got, away)
            self.partial += 1
        if end - begin > HANGS * patience():
            problem = f"took {end - begin:.1f} s"
        if problem:
            self.wrong.append(f"{name}: {problem}; away then: {sorted(away)}")

    @staticmethod
    def problem(got, away):
        """Of an answer that is not the whole one: why it should not be, or None."""
        status, _, body = got
        if status != 200:
            return f"HTTP {status} {body[:300]}"
        warnings = json.loads(body).get("warnings", [])
        named = {w.split(": ", 1)[0].removeprefix("server ") for w in warnings if w.startswith("server http")}
        if not named:
            return f"differs without a warning that names a server: {body[:100]} ... {body[-200:]}"
        return f"warns of servers that were not away: {warnings}" if named - away else None


def kill_one(server, outages, rng):
    span = outages.begin(server)
    server.kill()
    time.sleep(rng.choice((0, 0, 0.5)))
    server.restart()
    outages.end(span)


@slow
def test_kills(env):
    shards = Shards(env)
    querier, rng, outages = shards.querier(timeout=f"{TIMEOUT}s"), random.Random(int(os.environ.get("PYRRHA_SEED", "1"))), Outages()
    asked = {name: q for name, q in questions(shards, shards.function()).items() if not q[1] and is_json(q[0]) and not name.startswith(("bench", "3."))}  # a day is for quiet machines
    want = ask_all(querier, asked)
    compare(env, "without kills", ask_all(shards.all, asked), want)
    askers = [Asker(querier, want, asked, outages, n) for n in range(ASKERS)]
    for a in askers:
        a.start()
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.2, 3))
        kill_one(rng.choice(shards.servers), outages, rng)
    time.sleep(2)
    for a in askers:
        a.stop.set()
    for a in askers:
        a.join(HANGS * patience())
        check(not a.is_alive(), "an answer hangs")
    whole, partial, wrong = sum(a.whole for a in askers), sum(a.partial for a in askers), [w for a in askers for w in a.wrong]
    print(f"{KILLS} kills, {whole} whole answers, {partial} with a warning")
    check(not wrong, f"{len(wrong)} of {whole + partial} answers are wrong: " + "\n".join(wrong[:5]))
    check(partial and whole, "some answers lack a server, some do not")
    check(querier.alive(), querier.text()[-1000:])
    compare(env, "after all", want, ask_all(querier, asked))


def is_json(link):
    """Whether the answer has a place for warnings, and nothing volatile."""
    params = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
    return params.get("format", [""])[0] in ("", "flamegraph", "json") and "stats" not in params
