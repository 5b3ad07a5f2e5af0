# SPDX-License-Identifier: Apache-2.0
"""Targets that hurt beside targets that are well: the well ones miss nothing, and memory stays within its flags."""
import json
import os
import sys
import threading
import time

from harness import LONG, Process, Server, TOP, check, http_get, share_of_others, slow, wait_until

ATTACKS = os.path.join(TOP, "tests", "attack")
sys.path.insert(0, ATTACKS)
import heavy_bodies  # noqa: E402

HEALTHY = """
import sys, time
sys.path.insert(0, sys.argv[1])
from heavy_bodies import *
body = gzipped([tables(20), message(2, message(1, bytes([1, 2, 3])) + message(2, bytes([1]))) * 500])
async def answer(i, reader, writer):
    await read_request(reader)
    await send(writer, body)
print(json.dumps(Targets(20, answer, "127.0.4").addresses), flush=True)
time.sleep(600)
"""


def addresses(process):
    return json.loads(wait_until(process.name + " listens", lambda: process.text().endswith("]\n") and process.text(), 60))


def healthy_targets(env):
    return addresses(Process(env, "healthy", [sys.executable, "-B", "-c", HEALTHY, ATTACKS]))


def attackers(env, name, n):
    return addresses(Process(env, name, [sys.executable, "-B", os.path.join(ATTACKS, name + ".py"), "--serve", "--seconds=600",
                                         f"--targets={n}"]))


def miss_none(server, seconds=8):
    """In the last seconds each of the 20 had a scrape a second, and it was up."""
    series = server.query(f'up{{job="healthy"}}[{seconds}s]')["result"]
    check(len(series) == 20, f"up of {len(series)} healthy targets")
    for s in series:
        values = [float(v) for _, v in s["values"]]
        check(len(values) >= seconds - 1, f"{len(values)} scrapes in {seconds} s of {s['metric']}")
        check(min(values) == 1, f"it was down: {s}")
    return True


def reasons(server, job):
    return {t["lastError"] for t in server.targets() if t["labels"]["job"] == job and t["lastError"]}


def resident(server):
    with open(f"/proc/{server.p.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


@slow
def test_heavy_bodies_hold_nobody_up(env):
    healthy = heavy_bodies.job("healthy", healthy_targets(env), "1s")
    heavy = heavy_bodies.job("heavy", attackers(env, "heavy_bodies", 16), "1s")
    server = Server(env, "scrape_configs:\n" + healthy + heavy)
    wait_until("heavy ones are dropped, which is told", lambda: server.metrics()["pyrrha_target_scrapes_dropped_total"] > 5, 60)
    wait_until("its reason is shown", lambda: any("dropped here" in r for r in reasons(server, "heavy")))
    wait_until("a dropped one is down", lambda: server.value('min(up{job="heavy"})') == 0)
    time.sleep(30 if LONG else 3)
    wait_until("the healthy miss none", lambda: miss_none(server), 60)
    check(server.metrics()["pyrrha_target_memory_bytes"] <= server.metrics()["pyrrha_target_memory_limit_bytes"], "over the budget")
    ends_in_time(server)


def ends_in_time(server):
    """SIGTERM while bodies are decoded and queries run."""
    def ask():
        while server.alive():
            try:
                http_get(server.link("/api/v1/query_range", query='sum by (instance) ({job="heavy"}[5m])', start=time.time() - 300,
                                     end=time.time(), step=1), timeout=10)
            except OSError:
                time.sleep(0.1)
    for _ in range(8):
        threading.Thread(target=ask, daemon=True).start()
    time.sleep(2)
    status, seconds = server.terminate(30)
    print(f"# SIGTERM under load took {seconds:.1f} s, exit status {status}")
    # After five seconds the program ends whatever still runs.
    check(seconds < 5 + 0.5 * share_of_others(), f"SIGTERM took {seconds:.1f} s")
    server.restart()
    check(server.query('up{job="healthy"}[5m]')["result"], "what was stored is gone")


@slow
def test_hostile_targets_stay_within_the_budget(env):
    healthy = heavy_bodies.job("healthy", healthy_targets(env), "1s")
    hostile = heavy_bodies.job("hostile", attackers(env, "hostile_targets", 200), "1s", timeout="5s")
    server = Server(env, "scrape_configs:\n" + healthy + hostile, ["--scrape.memory=64MB"])
    before, most = resident(server), 0
    deadline = time.monotonic() + (120 if LONG else 12)
    while time.monotonic() < deadline:
        most = max(most, resident(server))
        time.sleep(0.1)
    used = server.metrics()
    check(used["pyrrha_target_memory_bytes"] <= used["pyrrha_target_memory_limit_bytes"], f"over the budget: {used}")
    print(f"# resident: {before >> 20} MB before, at most {most >> 20}")
    check(most - before < 400 << 20, f"{most >> 20} MB resident, {before >> 20} before")
    wait_until("the healthy miss none", lambda: miss_none(server), 60)
    check(server.alive(), "the server ended")
