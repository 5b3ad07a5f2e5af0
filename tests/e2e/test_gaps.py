# SPDX-License-Identifier: Apache-2.0
"""A server that was away gets from an agent what it missed: two servers on one agent have the same, to the nanosecond."""
import os
import threading
import time
import urllib.parse

from harness import HttpServer, LONG, Process, Server, answer, check, http_get, slow, wait_until
from pprof_file import Profile
from test_agent import c_program, start_agent

# Works a tenth of its time, so that it is on and off the CPU, and leaves the machine to other tests.
WORKS_AND_WAITS = """
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
static long cpu_ns(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
__attribute__((noinline)) void works(long until) { while (cpu_ns() < until) for (int i = 0; i < 1000; i++) sink += i * 7ul; }
__attribute__((noinline)) void waits(void) { usleep(45000); sink++; }
int main(void) { for (;;) { works(cpu_ns() + 5000000); waits(); } }
"""

CONFIG = """
global: {scrape_interval: 10s}
scrape_configs:
  - job_name: agent
    profiling_config: {preset: agent}
    static_configs: [{targets: ['%s'], labels: {instance: host}}]
"""
HEADERS = ("Content-Type", "X-Pyrrha-Boot", "X-Pyrrha-Covered", "X-Pyrrha-Windows", "X-Pyrrha-Finished", "X-Pyrrha-Next")


class Between(HttpServer):
    """Stands between a server and the agent. after(n) is called when the n-th piece of on_cpu was delivered."""

    def __init__(self, env, agent):
        self.upstream, self.asked, self.delivered, self.after, self.lock = agent, [], 0, None, threading.Lock()
        super().__init__(env, self.forward)

    def forward(self, handler):
        status, headers, body = http_get(self.upstream + handler.path, timeout=60)
        url = urllib.parse.urlsplit(handler.path)
        answer(handler, status, body, [(h, headers[h]) for h in HEADERS if headers.get(h)])
        with self.lock:
            self.asked.append((time.time(), status, url.path, urllib.parse.parse_qs(url.query), headers.get("X-Pyrrha-Windows")))
            if status != 200 or not url.path.endswith("/profile"):
                return
            self.delivered += 1
            if self.after:
                self.after(self.delivered)


def said(server, t, name, window):
    """What a server answers about the time before t: every stack of the fixtures with its labels, by function, file and line; the
    totals of the whole host; and the numbers of every series that are not zero. The host's stacks are left out: the lines of a large
    program are known only after its debug information was read, so a later query has more of them."""
    def stacks(selector):
        p = Profile(server.get("/api/v1/query", format="pprof", query=f"merge({selector})", time=t))
        return [(kind, p.stacks(kind)) for kind, _ in p.types]
    select, ours = (f'{name}{{job="agent"{more}}}[{window}s]' for more in ("", ',comm=~"gap[01]_.*|short"'))
    out = {("merge", kind): rows for kind, rows in stacks(ours)}
    for kind, rows in stacks(select):
        out["labels", kind] = sums = {}
        for (_, labels), value in rows.items():
            sums[labels] = sums.get(labels, 0) + value
    for f in ("increase", "rate"):
        result = server.query(f"{f}({select})", time=t)["result"]
        out[f] = {tuple(sorted(r["metric"].items())): r["value"][1] for r in result if float(r["value"][1])}
    return out


def differences(a, b, times, window):
    """Lines of text, none if both say the same."""
    out = []
    for t in times:
        for name in ("on_cpu", "off_cpu"):
            x, y = said(a, t, name, window), said(b, t, name, window)
            for what in x:
                d = [(k, x[what].get(k), y[what].get(k)) for k in {**x[what], **y[what]} if x[what].get(k) != y[what].get(k)]
                if d:
                    out.append(f"{t} {name} {what}: {len(d)} of {len(x[what])} differ: {str(d[0])[-250:]}")
    return out


def windows_lost(server):
    return sum(v for k, v in server.metrics().items() if k.startswith("pyrrha_target_windows_lost_total"))


@slow
def test_two_servers_one_agent(env):
    """One server is killed, stays away for a while (PYRRHA_LONG: five minutes), and is killed again while it catches up."""
    away = 300 if LONG else 25
    works = [f"gap{i}_{os.getpid()}"[:15] for i in range(2)]
    agent = start_agent(env, "--off-cpu", "--max-cost=0.05", "--history.max-bytes=256MiB", only=[] if LONG else [*works, "short"])
    between = Between(env, agent)
    for comm in works:
        Process(env, comm, [c_program(env, comm, WORKS_AND_WAITS)])
    one = Server(env, CONFIG % agent.split("//")[1], name="one")
    two = Server(env, CONFIG % between.address, name="two")
    for s in (one, two):
        for name in ("on_cpu", "off_cpu"):  # each has a cursor of its own: a server that has none yet begins with the present
            wait_until(f"both have {name}", lambda s=s, name=name: s.value('count(%s{job="agent",comm=~"gap[01]_.*"})' % name) == 2, 60)
    from_s = (int(time.time()) // 10 + 1) * 10  # what is stamped later both have
    two.kill()
    short_lived = Process(env, "short", [c_program(env, "short", WORKS_AND_WAITS)])  # what only ran in the gap
    time.sleep(away / 2)
    short_lived.kill()
    time.sleep(away / 2)
    killed = threading.Event()

    def kill_at(n):
        if n == between.delivered_before + (8 if LONG else 1):
            two.kill()
            killed.set()
    between.delivered_before = between.delivered
    between.after = kill_at
    two.restart()
    check(killed.wait(60), f"the server did not catch up: {between.asked[-5:]}")
    between.after = None
    time.sleep(1)
    back = time.time()
    two.restart()
    to_s = (int(time.time()) // 10 + 1) * 10
    window = 60 if LONG else 30
    times = list(range(from_s + window, to_s + 1, 10))
    left = []

    def equal():
        left[:] = differences(one, two, times[-1:], window) or differences(one, two, times, window)
        return not left
    try:
        wait_until("both have the same", equal, 90)
    except AssertionError:
        print("\n".join(left[:12]))
        raise
    finally:
        print(f"away for {away} s, {len(times)} times {window} s compared, the same {time.time() - back:.1f} s after the last start; asked since: "
              f"{sum(a[0] > back for a in between.asked)}")
    total = one.value(f'sum(increase(on_cpu{{job="agent"}}[{away}s]))', time=from_s + away)
    check(total and total > away / 40, f"{total} CPU seconds in {away} s")  # a busy machine leaves the demo program little
    check(windows_lost(one) == windows_lost(two) == 0, f"{windows_lost(one)}, {windows_lost(two)} windows lost")
    for s in (one, two):
        m = s.metrics()
        check(not m.get("pyrrha_target_profile_timestamps_replaced_total"), "stamps were replaced")
        check(not m.get("pyrrha_target_scrapes_sample_duplicate_timestamp_total"), "something came twice")
    # at most four beside a regular scrape
    for _, i in [(a[0], i) for i, a in enumerate(between.asked)]:
        near = [a for a in between.asked if a[2].endswith("/profile") and 0 <= a[0] - between.asked[i][0] < 8]
        check(len(near) <= 10, f"{len(near)} requests within 8 s")
