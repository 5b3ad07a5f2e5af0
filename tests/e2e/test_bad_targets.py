# SPDX-License-Identifier: Apache-2.0
"""Targets with bad manners: each shows its own error, and the good one keeps its schedule."""
import gzip
import os
import re
import time

from harness import Echo, HttpServer, Server, answer, check, gzip_bomb, http_get, wait_until

SECONDS = 6
CONFIG = """
scrape_configs:
  - job_name: all
    scrape_interval: 1s
    scrape_timeout: 2s
    profiling_config:
      pprof_config:
        process_cpu: {enabled: false}
        block: {enabled: false}
        mutex: {enabled: false}
        goroutine: {enabled: false}
    static_configs:
"""


def hang(handler):
    time.sleep(600)


def truncated_body(real):
    def do(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(real)))
        handler.end_headers()
        handler.wfile.write(real[:len(real) // 2])
        handler.close_connection = True
    return do


def bad_targets(real):
    """name -> (what it does, what its error has to say)"""
    bomb = gzip_bomb(600)
    half = gzip.compress(gzip.decompress(real)[:-100])
    return {
        "hang": (hang, r"time"),
        "error500": (lambda h: answer(h, 500, b"the database is on fire\n"), r"500"),
        "garbage": (lambda h: answer(h, 200, os.urandom(5000)), r"pprof|profile|decode|format|wire|field"),
        "page": (lambda h: answer(h, 200, b"<html><body>welcome</body></html>"), r"pprof|profile|decode|format|wire|field"),
        "empty": (lambda h: answer(h, 200, b""), r"empty|no sample type|bytes"),
        "bomb": (lambda h: answer(h, 200, bomb), r"limit|larger|large|exceed|more than|big"),
        "cut": (truncated_body(real), r"cut short|truncat"),
        "cutgzip": (lambda h: answer(h, 200, real[:-20]), r"gzip|truncat|ended|end of|corrupt|deflate"),
        "cutproto": (lambda h: answer(h, 200, half), r"truncat|past|ends|length|wire|end of|field|profile"),
    }


def test_each_bad_target_shows_its_own_error(env):
    echo = Echo(env)
    real = http_get(f"http://{echo.address}/debug/pprof/allocs")[2]
    bad = bad_targets(real)
    config = CONFIG + f"      - targets: ['{echo.address}']\n        labels: {{kind: good}}\n"
    for kind, (do, _) in bad.items():
        config += f"      - targets: ['{HttpServer(env, do).address}']\n        labels: {{kind: {kind}}}\n"
    server = Server(env, config)
    begin = time.time()
    wait_until("an error of each bad target", lambda: not set(bad) - set(errors_of(server)), 30)
    errors = {}
    for kind, (_, pattern) in bad.items():
        # Every second a bomb keeps a decoder busy for longer than that; in between a target says that it is left out.
        errors[kind] = wait_until(f"the error of {kind} is like {pattern}", lambda k=kind, p=pattern: like(errors_of(server)[k], p))
        wait_until(f"up of {kind} is 0", lambda k=kind: server.value(f'up{{kind="{k}"}}') == 0)
    check(len(set(errors.values())) >= len(errors) - 2, f"the errors do not tell the targets apart: {errors}")
    time.sleep(max(0, begin + SECONDS - time.time()))
    # A machine that stood still delays everybody for once; a bad target that delays the good one does so all the time.
    wait_until("the good target keeps its schedule", lambda: good_keeps_its_schedule(server), 60)
    check(server.alive(), "the server ended")


def errors_of(server):
    return {t["labels"]["kind"]: t["lastError"] for t in server.targets() if t["lastError"]}


def like(error, pattern):
    check(re.search(pattern, error, re.I), f"it is {error!r}")
    return error


def good_keeps_its_schedule(server):
    check(server.value('up{kind="good"}') == 1, "up of the good target")
    stamps = [t for s in server.query(f'up{{kind="good"}}[{SECONDS - 2}s]')["result"] for t, _ in s["values"]]
    check(len(stamps) >= SECONDS - 4, f"{len(stamps)} scrapes of the good target in {SECONDS - 2} s")
    gaps = [b - a for a, b in zip(stamps, stamps[1:])]
    check(max(gaps) < 1.9, f"the good target was delayed: {gaps}")
    return True


def test_a_target_that_comes_back_is_up_again(env):
    state = {"fail": True}
    echo = Echo(env)
    real = http_get(f"http://{echo.address}/debug/pprof/allocs")[2]
    target = HttpServer(env, lambda h: answer(h, 500, b"not yet") if state["fail"] else answer(h, 200, real))
    server = Server(env, CONFIG + f"      - targets: ['{target.address}']\n")
    wait_until("it is down", lambda: server.value("up") == 0)
    state["fail"] = False
    wait_until("it is up", lambda: server.value("up") == 1)
    wait_until("its error is gone", lambda: [t["lastError"] for t in server.targets()] == [""])


def test_a_type_that_is_not_served_lowers_only_its_own(env):
    """A 404 on a type that the job did not name: no error, no profile_up, and up stays 1."""
    echo = Echo(env)
    real = http_get(f"http://{echo.address}/debug/pprof/allocs")[2]
    target = HttpServer(env, lambda h: answer(h, 200, real) if "/allocs" in h.path else answer(h, 404, b"no such profile"))
    server = Server(env, "scrape_configs:\n  - job_name: j\n    scrape_interval: 1s\n    static_configs:\n"
                         f"      - targets: ['{target.address}']\n")
    wait_until("mutex is said not to be served", lambda: [t.get("note") for t in server.targets() if t["profile"] == "mutex"] ==
               ["not served there (HTTP status 404): no such profile"])
    wait_until("profile_up of memory is 1", lambda: server.value('profile_up{profile="memory"}') == 1)
    wait_until("up is 1", lambda: server.value("up") == 1)
    check(server.value('count(profile_up{profile="mutex"})') is None, "there is a profile_up")
    check(all(t["lastError"] == "" for t in server.targets()), f"{server.targets()}")
