# SPDX-License-Identifier: Apache-2.0
"""Frames of JavaScript in the agent's profiles are true, as in test_runtimes.py: real Nodes run programs whose stacks V8's own debugger has
told. $PYRRHA_NODES: more of them than PATH's, between colons; PYRRHA_LONG: each of them, and ten times as long."""
import os
import time
from collections import Counter

from harness import LONG, check, http_get, wait_until
from node_stacks import NodeVerdict, node_program, nodes, start_node_stacks
from runtime_stacks import Sampled, pull
from test_agent import start_agent
from test_runtimes import mix_agrees, spent_of

SAMPLES = 20000 if LONG else 2000


def warm(agent, node, seconds):
    """Until its functions are known: reading those that it runs first takes the naming thread's share of a CPU for a while."""
    until, quiet = time.time() + 240, 0
    while quiet < (3 if LONG else 1):
        sampled = pull(agent, node.comm, seconds, "v8")
        new = any(f[1] == "[v8: not read yet]" for stack, _ in sampled.stacks for f in stack)
        quiet = quiet + 1 if sampled.count and not new else 0
        check(time.time() < until, f"{node.what}: its functions are not read in 240 s")


def closed_set(env, agent, node, samples, seconds, least_whole):
    """Takes profiles until the program has so many samples."""
    p, true = start_node_stacks(env, node)
    verdict = NodeVerdict(true)
    warm(agent, node, 5 if LONG else 1)
    for _ in range(90):
        verdict.take(pull(agent, node.comm, seconds, "v8"))
        if verdict.samples >= samples:
            break
    check(p.alive(), f"{node.what} ended: {p.text()[-2000:]}")
    p.kill()
    check(verdict.samples >= samples, f"{node.what}: only {verdict.samples} samples")
    verdict.judge(node.what, least_whole)


def test_node_stacks_are_true(env):
    found = nodes("true")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[n.comm for n in found])
    for node in found if LONG else found[:1]:
        closed_set(env, agent, node, SAMPLES, 10 if LONG else 2, 0.995)


def test_node_shares(env):
    """What part of the CPU time each of ten functions has, within 3 % and the scatter of the samples."""
    found = nodes("share")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[n.comm for n in found])
    for node in found if LONG else found[:1]:
        path = env.path(f"mix-{node.comm}.txt")
        p = node_program(env, node, "mix.js", path, flags=["--single-threaded"])
        wait_until(f"{node.what} works", lambda at=path: os.path.exists(at) and len(spent_of(at)) > 5, 60)
        mix_agrees(node, agent, path, 4, "v8")
        p.kill()


def count_named(sampled):
    """(samples in the work of short.js, frames of JavaScript with a name, those without by why). Interpreted code without a frame is one of these."""
    works, named, nameless = 0, 0, Counter()
    for stack, n in sampled.stacks:
        mine = sum(f[0] == "v8" for f in stack)
        bad = [f[1].split("+")[0] for f in stack if f[1].startswith(("[v8:", "[jit]", "[truncated", "[lost"))]
        if not mine and not bad and any(f[1] == "Builtins_InterpreterEntryTrampoline" for f in stack):
            bad = ["no frame"]
        works += n * any(f[:2] == ("v8", "work") for f in stack)
        named += n * mine
        for mark in bad:
            nameless[mark] += n
    return works, named, nameless


def test_short_node_programs(env):
    """A program of a hundred functions that has worked for 0.3 s and is gone has names: they are read while it lives. Each second one compiles
    in the thread that runs it, which then has all of the time that the program counts."""
    found, times = nodes("short"), 100 if LONG else 8
    agent = start_agent(env, "--frequency=97", only=[n.comm for n in found])
    for node in found if LONG else found[:1]:
        begun = time.time()
        for i in range(times):
            p = node_program(env, node, "short.js", flags=["--single-threaded"] if i % 2 else [])
            check(p.p.wait(60) == 0, p.text()[-2000:])

        def counted(node=node, begun=begun):
            status, _, body = http_get(f"{agent}/debug/pprof/profile?from={int(begun) - 1}&to={2**33}&by=comm", timeout=60)
            check(status == 200, f"HTTP {status}: {body[:300]!r}")
            works, named, nameless = count_named(Sampled(body, node.comm, "v8"))
            least, missing = 97 * 0.3 * times / 2, sum(nameless.values())
            text = (f"short programs of {node.what}: {works} samples are named as their work, of {least:.0f} at least; {named} frames named, "
                    f"{missing} not: {dict(nameless)}")
            check(works >= 0.9 * least - 2 * least ** 0.5, text)
            check(named >= 0.9 * (named + missing), text)
            print(text)
            return True
        wait_until("the history has them", counted, 20)
