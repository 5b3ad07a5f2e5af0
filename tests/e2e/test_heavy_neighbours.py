# SPDX-License-Identifier: Apache-2.0
"""Ordinary targets beside heavy ones, in a small control group. The ordinary bodies have a real size: tiny ones always find room."""
import json
import os
import sys
import time

from harness import LONG, Process, check, slow, wait_until
from test_attack_targets import ATTACKS, attackers, heavy_bodies, resident
from test_memory import MIB, in_group

SECONDS = 300 if LONG else 20


def pace():
    """How many times longer work takes here than its processor time, as other programs use the machine: 1 to 4. Time limits of scrapes are of the
    wall clock, and to wait for memory means to wait for the work of others."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - wall < 0.5:
        pass
    return max(1, min(4, round((time.monotonic() - wall) / max(0.01, time.process_time() - cpu))))


def serve(env, kind, n, name=None):
    process = Process(env, name or kind, [sys.executable, "-B", os.path.join(ATTACKS, "real_sizes.py"), kind, f"--targets={n}", "--seconds=3600"])
    return json.loads(wait_until(kind + " listens", lambda: process.text().endswith("]\n") and process.text(), 60))


def metrics_job(name, addresses, interval):
    return (f"  - job_name: {name}\n    scrape_interval: {interval}\n    scrape_timeout: {interval}\n    metrics_path: /metrics\n"
            f"    static_configs:\n      - targets: {addresses}\n")


def ups(server, job, seconds):
    """The values of `up` in the last seconds, by instance."""
    return {s["metric"]["instance"]: [float(v) for _, v in s["values"]] for s in server.query(f'up{{job="{job}"}}[{seconds}s]')["result"]}


def watch(server, seconds=SECONDS):
    """For so long: share of good scrapes of the ordinary and the heavy ones; the largest resident set."""
    most, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        most = max(most, resident(server))
        time.sleep(0.2)
    share = {}
    for job in ("ordinary", "heavy"):
        all_ = [v for values in ups(server, job, int(seconds)).values() for v in values]
        share[job] = sum(all_) / max(1, len(all_)), len(all_)
    used = server.metrics()
    counts = {k[len("pyrrha_target_"):]: int(v) for k, v in used.items() if k.startswith("pyrrha_target_scrapes_") and v and "{" not in k}
    print(f"# ordinary {share['ordinary']}, heavy {share['heavy']}, resident {most >> 20} MiB\n# {counts}")
    for job in ("ordinary", "heavy"):
        print(f"# {job}: {sorted({t['lastError'] for t in server.targets() if t['labels']['job'] == job})}")
    check(used["pyrrha_target_memory_bytes"] <= used["pyrrha_target_memory_limit_bytes"], "over the budget")
    return share


def beside(env, limit, kind, n, flags=()):
    slower = pace()
    interval = f"{2 * slower}s"
    ordinary = heavy_bodies.job("ordinary", serve(env, "ordinary", 20), interval)
    heavy = serve(env, kind, n)
    job = metrics_job("heavy", heavy, interval) if kind in ("metrics", "slow") else heavy_bodies.job("heavy", heavy, interval)
    server = in_group(env, limit, flags, "scrape_configs:\n" + ordinary + job)
    server.slower = slower
    return server


def all_are_up(server, seconds):
    seconds *= getattr(server, "slower", 1)  # as many scrapes as on a machine of one's own
    share = watch(server, seconds)
    check(share["ordinary"][0] == 1, f"ordinary targets were down beside heavy ones: {share}")
    check(len(ups(server, "ordinary", seconds)) == 20, "not all were scraped")


def test_heavy_metrics(env):
    server = beside(env, 512 * MIB, "metrics", 10)
    wait_until("all are scraped", lambda: len(ups(server, "ordinary", 10)) == 20)
    all_are_up(server, SECONDS)


@slow
def test_hostile_targets(env):
    """As test_attack_targets has them, in a container, beside ordinary targets of real size."""
    ordinary = heavy_bodies.job("ordinary", serve(env, "ordinary", 20), "2s")
    hostile = heavy_bodies.job("heavy", attackers(env, "hostile_targets", 75), "2s", timeout="5s")
    server = in_group(env, 700 * MIB, (), "scrape_configs:\n" + ordinary + hostile)
    wait_until("all are scraped", lambda: len(ups(server, "ordinary", 10)) == 20)
    all_are_up(server, SECONDS)


@slow
def test_very_small_group(env):
    server = beside(env, 256 * MIB, "metrics", 10)
    wait_until("all are scraped", lambda: len(ups(server, "ordinary", 10)) == 20)
    all_are_up(server, SECONDS)


@slow
def test_slow_bodies(env):
    """They hold their memory until the time is over."""
    server = beside(env, 512 * MIB, "slow", 20)
    wait_until("all are scraped", lambda: len(ups(server, "ordinary", 10)) == 20)
    all_are_up(server, SECONDS)


@slow
def test_every_sort(env):
    """Metrics, profiles of 60,000 and 200,000 stacks, bodies that never end, and profiles that are small to send."""
    server = beside(env, 512 * MIB, "mixed", 25)
    wait_until("all are scraped", lambda: len(ups(server, "ordinary", 10)) == 20)
    all_are_up(server, SECONDS)


@slow
def test_enough_memory(env):
    """Then the heavy ones are scraped, too."""
    server = beside(env, 1024 * MIB, "metrics", 5, ["--memory=800MiB", "--scrape.memory=250MiB"])

    def all_good():
        heavy = ups(server, "heavy", 10)
        return len(heavy) == 5 and all(values[-1] == 1 for values in heavy.values())

    wait_until("the heavy ones are up", all_good, 60)
    all_are_up(server, 10)
    check(server.metrics()["pyrrha_target_scrapes_evicted_total"] == 0, "some were evicted")
