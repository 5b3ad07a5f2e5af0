# SPDX-License-Identifier: Apache-2.0
"""The server under a wall clock that is wrong for a while: nothing that is stored goes, everything is stored on, and it is told."""
import itertools
import re
import time

from harness import Clock, HttpServer, LONG, Server, answer, check, wait_until
from pprof_file import made

DAY = 86400
CONFIG = """
scrape_configs:
  - job_name: made
    scrape_interval: 1s
    profiling_config:
      pprof_config:
        process_cpu: {enabled: false}
        block: {enabled: false}
        mutex: {enabled: false}
    static_configs:
      - targets: ['%s']
"""
REPORTS = ["up", "profile_up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_body_size_bytes"]
PROFILES = ['{__name__=~"goroutine:.*"}', '{__name__=~"memory:alloc_space:.*"}']


def target(env):
    """Gauges, and counts that only grow."""
    n = itertools.count(1)

    def do(handler):
        if "/goroutine" in handler.path:
            return answer(handler, 200, made([("goroutine", "count")], [(["main.wait", "main.main"], [3])]))
        if "/heap" in handler.path or "/allocs" in handler.path:
            i = next(n)
            return answer(handler, 200, made([("alloc_space", "bytes"), ("inuse_space", "bytes")],
                                             [(["main.make", "main.main"], [1000 * i, 500])]))
        return answer(handler, 404, b"no such profile\n")
    return HttpServer(env, do).address


class Stepped(Server):
    def __init__(self, env, config, flags=()):
        self.clock = Clock(env, "pyrrha")
        self.under = self.clock.under
        super().__init__(env, config, flags)

    def counts(self, after, until, reports=True):
        """{what: samples in (after, until]}, by the wall clock."""
        seconds = max(1, int(until - after))
        floats = {name: f"count_over_time({name}[{seconds}s])" for name in REPORTS if reports}
        profiles = {name: f"count_over_time({name}[{seconds}s])" for name in PROFILES}
        out = {}
        for name, query in {**floats, **profiles}.items():
            result = self.query(query, time=f"{until:.3f}")["result"]
            out[name] = max((float(r["value"][1]) for r in result), default=0)
        return out

    def goes_on(self, what, seconds=4):
        """From now on all of it has samples of the time that it is now."""
        begin = self.clock.time()

        def probe():
            n = self.counts(begin, self.clock.time())
            return all(v >= seconds - 1 for v in n.values()) or check(False, f"{n}")
        wait_until(what, probe, seconds + 20)

    def steps(self):
        return self.metrics()["pyrrha_tsdb_clock_steps_total"]


def test_an_hour_ahead_and_back(env):
    server = Stepped(env, CONFIG % target(env))
    server.goes_on("it is scraped")
    for n, hours in enumerate((1, 0, -1, 0)):
        server.clock.set(hours * 3600)
        server.goes_on(f"it is scraped, {hours} h off")
        wait_until("the step is counted", lambda n=n: server.steps() == n + 1)
    check("the clock was set" in server.text() and "step_s=3600" in server.text(), f"the log says nothing of it: {server.text()}")
    m = server.metrics()
    check(abs(m["pyrrha_tsdb_clock_last_step_seconds"] - 3600) < 1, f"{m['pyrrha_tsdb_clock_last_step_seconds']}")
    check(3000 < m["pyrrha_tsdb_retention_waits_seconds"] <= 3600, f"{m['pyrrha_tsdb_retention_waits_seconds']}")
    info = server.api("status/runtimeinfo")
    check(info["clockSteps"] == 4 and re.match(r"(1h|59m59s|1h1s) ahead, to 2", info["lastClockStep"]) and info["retentionWaits"], f"{info}")

def there(server, begin, until):
    return server.counts(begin, until)


def test_twenty_days_ahead(env):
    """Longer than retention: for seconds, over a restart, and back."""
    server = Stepped(env, CONFIG % target(env), ["--storage.tsdb.retention.time=15d"])
    begin = server.clock.time() - 1
    server.goes_on("it is scraped")
    until = server.clock.time()
    time.sleep(2)  # scrapes that began before that end, and their commits come
    before = there(server, begin, until)
    check(all(before.values()), f"{before}")
    server.clock.set(20 * DAY)
    server.goes_on("it is scraped, 20 days ahead")
    if LONG:
        time.sleep(70)  # retention looks once a minute
    check(there(server, begin, until) == before, f"{there(server, begin, until)}, there was {before}")
    # A restart under the wrong clock, at which retention looks at once.
    check(server.terminate()[0] == 0, "it did not end well")
    server.restart()
    server.goes_on("it is scraped, 20 days ahead, after a restart")
    check(there(server, begin, until) == before, f"after a restart: {there(server, begin, until)}, there was {before}")
    server.clock.set(0)
    server.goes_on("it is scraped, the clock being right again")
    check(server.steps() == 1, "the step back was not counted")
    # And after a restart, with what is stored of the days that are not yet.
    check(server.terminate()[0] == 0, "it did not end well")
    server.restart()
    server.goes_on("it is scraped after another restart")
    check(there(server, begin, until) == before, f"at last: {there(server, begin, until)}, there was {before}")
    check("ahead of the clock" in server.text(), "nothing is said of what is stored of days to come")


def test_twenty_days_back(env):
    server = Stepped(env, CONFIG % target(env), ["--storage.tsdb.retention.time=15d"])
    begin = server.clock.time() - 1
    server.goes_on("it is scraped")
    until = server.clock.time()
    time.sleep(2)  # scrapes that began before that end, and their commits come
    before = there(server, begin, until)
    server.clock.set(-20 * DAY)
    server.goes_on("it is scraped, 20 days back")
    check(server.terminate()[0] == 0, "it did not end well")
    server.restart()
    server.goes_on("it is scraped, 20 days back, after a restart")
    server.clock.set(0)
    server.goes_on("it is scraped, the clock being right again")
    check(there(server, begin, until) == before, f"{there(server, begin, until)}, there was {before}")


def test_a_scrape_across_a_step_back(env):
    """A scrape that began before the clock was set back by days: the next one is not days away."""
    gate = {"slow": False}

    def do(handler):
        if "/goroutine" not in handler.path:
            return answer(handler, 404, b"no such profile\n")
        if gate["slow"]:
            time.sleep(1.5)
        return answer(handler, 200, made([("goroutine", "count")], [(["main.main"], [3])]))
    server = Stepped(env, (CONFIG % HttpServer(env, do).address).replace("scrape_interval: 1s", "scrape_interval: 2s")
                     .replace("block: {", "memory: {enabled: false}\n        block: {"))
    count = lambda: server.metrics()["pyrrha_target_scrapes_total"]
    wait_until("it is scraped", lambda: count() > 0)
    gate["slow"] = True
    time.sleep(2)
    wait_until("a scrape is under way", lambda: server.metrics()["pyrrha_target_scrapes_running"] > 0)
    server.clock.set(-20 * DAY)
    time.sleep(1)
    gate["slow"], n = False, count()
    wait_until("it is scraped on", lambda: count() >= n + 3, 20)
