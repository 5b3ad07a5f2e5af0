# SPDX-License-Identifier: Apache-2.0
"""Nothing acknowledged is lost: the server is killed while it scrapes, again and again. What a query had returned or
the appended counter had included is there afterwards, and it scrapes on."""
import os
import random
import signal
import subprocess
import time

from harness import Echo, LONG, Server, alone, check, http_get, scrape_config, slow, wait_until
from test_format import explained

KILLS = 100 if LONG else 10
ALL = '{__name__=~".+:.+:.+:.+:.+",job="echoserver"}[1h]'
EVERYTHING = '{job="echoserver"}[1h]'


def rows(server, query, at):
    """Every (series, stamp, value) that a query returns."""
    result = server.query(query, time=f"{at:.3f}")["result"]
    return {(tuple(sorted(s["metric"].items())), t, v) for s in result for t, v in s["values"]}


def profiles(found):
    """Profiles as the counter counts them: the sample types of one scrape are one, but Go's heap has two kinds in it."""
    def part(name):
        return name.split(":")[0] + (name.split(":")[1].split("_")[0] if name.startswith("memory:") else "")
    return {(part(dict(metric)["__name__"]), dict(metric)["instance"], t) for metric, t, _ in found}


def test_kill_9_loses_nothing_acknowledged(env):
    dice = random.Random(20)
    server = Server(env, scrape_config([Echo(env).address, Echo(env, name="echoserver2").address]))
    acknowledged, returned = 0, set()
    for life in range(KILLS):
        before = server.metrics().get("pyrrha_appended_profiles_total", 0)
        wait_until("it scrapes on", lambda b=before: server.metrics().get("pyrrha_appended_profiles_total", 0) > b, 30)
        time.sleep(dice.uniform(0.2, 1.5))
        returned |= rows(server, EVERYTHING, time.time())
        appended = server.metrics()["pyrrha_appended_profiles_total"]
        server.p.send_signal(signal.SIGKILL)
        server.p.wait()
        acknowledged += appended
        server.restart()
        now = rows(server, EVERYTHING, time.time())
        lost = sorted(returned - now)
        check(not lost, f"life {life}: {len(lost)} of {len(returned)} points that a query had returned are gone: {lost[:3]}")
        kept = profiles(rows(server, ALL, time.time()))
        check(len(kept) >= acknowledged, f"life {life}: {acknowledged:.0f} profiles were counted as appended, {len(kept)} are there")
    check(returned, "no query ever returned anything")


def test_a_stack_survives_a_crash(env):
    """Not only numbers: the names in a flame graph are the same after the crash."""
    server = Server(env, scrape_config([Echo(env).address]))
    query = 'merge(cpu{job="echoserver"}[1h])'
    graph = lambda at: server.get("/api/v1/query", query=query, format="folded", time=f"{at:.3f}")
    wait_until("a profile with the handler", lambda: b"main.fibonacciHandler" in graph(time.time()), 40)
    at = time.time()
    time.sleep(3)  # what was being written when `at` passed is in by now
    before = graph(at)
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    server.restart()
    check(graph(at) == before, "the answer about the past changed")


class Faulty(Server):
    """The server under the layer that makes its system calls fail (tests/crash/faults.h) while a file is there."""

    def __init__(self, env, config, faults):
        self.switch = os.path.join(env.dir, "faulty")
        layer = os.path.join(env.build, "faults.so")
        with alone(env, "faults"):
            if not os.path.exists(layer):
                subprocess.run(["make", "-s", "-C", env.build, "faults.so"], check=True)
        asan = os.environ.get("ASAN_OPTIONS", "")
        self.under = ("env", "LD_PRELOAD=" + layer, "FAULTS=" + faults, "FAULTS_WHILE=" + self.switch,
                      "FAULTS_DIR=" + os.path.join(env.dir, "pyrrha-data"),
                      "ASAN_OPTIONS=" + (asan + ":" if asan else "") + "verify_asan_link_order=0")
        super().__init__(env, config)

    def faults(self, on):
        if on:
            with open(self.switch, "w", encoding="utf-8"):
                pass
        else:
            os.unlink(self.switch)

    def count(self, name="pyrrha_appended_profiles_total"):
        return self.metrics().get(name, 0)

    def appends(self, what):
        before = self.count()
        wait_until(what, lambda: self.count() > before, 60)

    def die(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.wait()


def lives_through(env, faults, said):
    """While files fail it says so and answers about the past; when they are good again it scrapes on; and all of that again
    when it is started then."""
    server = Faulty(env, scrape_config([Echo(env).address]), faults)
    server.appends("it scrapes")
    seen = set()
    for again in ("while it ran", "at its start"):
        seen |= rows(server, EVERYTHING, time.time())
        if again == "at its start":
            server.die()
        server.faults(True)
        if again == "at its start":
            server.restart()
        wait_until(f"{again}: a commit fails and is said to", lambda: server.count("pyrrha_tsdb_commit_failures_total") > 0 and
                   said in server.text(), 60)
        missing = seen - rows(server, EVERYTHING, time.time())
        check(not missing, f"{again}: {len(missing)} of {len(seen)} points cannot be asked for while files fail")
        wait_until(f"{again}: all targets are down and say why", lambda: all(
            t["health"] == "down" and "not stored: " in t["lastError"] and said in t["lastError"] for t in server.targets()), 60)
        check(server.count("pyrrha_tsdb_write_failed") == 1, "no metric says that nothing can be written")
        check(http_get(server.url + "/-/ready")[0] == 200, "it is not ready, although it answers queries")
        server.faults(False)
        server.appends(f"{again}: it scrapes on when files are good again")
        wait_until(f"{again}: all targets are up", lambda: all(t["health"] == "up" for t in server.targets()), 60)
        check(server.count("pyrrha_tsdb_write_failed") == 0, "the metric says that nothing can be written")
    seen |= rows(server, EVERYTHING, time.time())
    server.die()
    server.restart()
    missing = seen - rows(server, EVERYTHING, time.time())
    check(not missing, f"{len(missing)} of {len(seen)} points that a query had returned are gone: {sorted(missing)[:3]}")
    check("lost records" not in server.text(), "it says that it lost records: " + server.text()[-2000:])
    server.die()
    explained(server.storage)  # what failed commits leave in the log, too


def test_a_full_disk(env):
    lives_through(env, "space:1:0", "No space left on device")


@slow
def test_a_read_only_disk(env):
    lives_through(env, "readonly:1:0", "Read-only file system")


@slow
def test_a_disk_with_errors(env):
    lives_through(env, "write:1:0,sync:1:0", "Input/output error")
