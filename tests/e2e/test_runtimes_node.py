# SPDX-License-Identifier: Apache-2.0
"""Frames of JavaScript in the agent's profiles are true, as in test_runtimes.py: real Nodes run programs whose stacks V8's own debugger has
told. $PYRRHA_NODES: more of them than PATH's, between colons; PYRRHA_LONG: each of them, and ten times as long."""
import os
import re
import shutil
import subprocess
import time
from collections import Counter

from harness import LONG, Process, RUN, Skip, check, http_get, slow, wait_until
from node_stacks import NodeVerdict, node_program, nodes, start_node_stacks
from runtime_stacks import FIXTURES, Sampled, Verdict, pull, pull_all
from test_agent import cpu_seconds, start_agent
from test_runtimes import metrics, mix_agrees, rss_mb, spent_of

SAMPLES = 20000 if LONG else 2000
HOSTILE_SECONDS = 600


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


@slow
def test_node_stacks_are_true(env):
    found = nodes("true")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[n.comm for n in found])
    for node in found if LONG else found[:1]:
        closed_set(env, agent, node, SAMPLES, 10 if LONG else 2, 0.995)


def leaves_optimised_code(stack):
    """Of a stack in V8's deoptimizer, whether all is there below it: "" or what is wrong; None: it is none. The functions of deopt.js call the next
    one, of a higher number."""
    at = next((i for i, f in enumerate(stack) if f[1] == "Builtins_DeoptimizationEntry_Eager"), None)
    if at is None or not any("DoComputeOutputFrames" in f[1] for f in stack[:at]):
        return None
    marks = [f[1] for f in stack if f[0] == "mark" and f[1].startswith("[truncated")]
    if any(f[1].startswith("[v8:") for f in stack):  # the program makes functions without end
        return None
    names = [f[1] for f in stack[at + 1:] if f[0] == "v8"]
    mine = names[:names.index("main") + 1] if "main" in names else names
    numbers = [int(n[len("deopt_"):]) for n in mine if n.startswith("deopt_")]
    if marks:
        return marks[0]
    in_order = numbers == list(range(numbers[0], 6)) if numbers else False
    return "" if in_order and mine[len(numbers):] in (["main"], ["change", "main"]) else " < ".join(mine) or "nothing"


@slow
def test_frames_taken_off_the_stack(env):
    """While V8 leaves optimised code the frame of it is not on the stack any more, and the frame pointer leads nowhere."""
    found = nodes("deopt")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[n.comm for n in found])
    for node in found if LONG else found[:1]:
        p = node_program(env, node, "deopt.js")
        seen = Counter()
        until = time.time() + 60
        while sum(seen.values()) < (60 if LONG else 12) and time.time() < until:
            for stack, n in pull(agent, node.comm, 5, "v8").stacks:
                why = leaves_optimised_code(stack)
                if why is not None:
                    seen[why] += n
        p.kill()
        text = f"{node.what}: of {sum(seen.values())} stacks {seen['']} are whole; {dict(seen)}"
        # One or two of a dozen such stacks are cut, on a busy machine some more. Without the unwind rule for these builtins all are.
        check(sum(seen.values()) >= 3 and seen[""] >= 0.75 * sum(seen.values()) - 1, text)
        check(all(not why or why.startswith("[") for why in seen), text)
        print(text)


@slow
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


@slow
def test_short_node_programs(env):
    """A program of a hundred functions that has worked for 0.3 s and is gone has names: they are read while it lives. Each second one compiles
    in the thread that runs it, which then has all of the time that the program counts."""
    found, times = nodes("short"), 100 if LONG else 8
    agent = start_agent(env, "--frequency=97", "--max-cost=1", only=[n.comm for n in found])
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


# Builds of V8 that pretended programs say they are, and the ways of each.
HOSTILE = [(12, how) for how in ("random", "cycle", "huge", "many", "change", "deep", "cover", *(("silent", "deaf") if LONG else ()))] + \
          [(major, how) for major in (9, 14) for how in ("random", "cycle", "huge", "change", "deep") if LONG]


def hostile_name(major, how):
    return f"rt_{how}{major}_{RUN % 1000}"


def start_hostile(env):
    """Programs that pretend to be V8, each in its own way; {name: process}."""
    started = {}
    for major in sorted({major for major, _ in HOSTILE}):
        subprocess.run(["cc", "-O2", "-rdynamic", "-pthread", f"-DMAJOR={major}", "-o", env.path(f"hostile{major}"),
                        os.path.join(FIXTURES, "hostile_v8.c")], check=True)
    for major, how in HOSTILE:
        name = hostile_name(major, how)
        os.symlink(env.path(f"hostile{major}"), env.path(name))
        rest = [] if LONG else ["resting"]  # other tests want the processors, too
        started[name] = Process(env, name, [env.path(name), how, *rest], preexec_fn=lambda: os.nice(5))
    return started


def walked(profile, name):
    """What a hostile program's frames are called: names that it made up, and marks that say why there is none."""
    return {f[1] for stack, _ in Sampled(profile, name, "v8").stacks for f in stack if f[0] == "v8" or f[1].startswith("[v8:")}


@slow
def test_hostile_nodes(env):
    """Random, cyclic, enormous, changing and silent structures cost the programs that have them their own frames, and the agent no more than any
    load; a Node beside them keeps its stacks, and one that begins later gets its names."""
    if not shutil.which("cc"):
        raise Skip("no compiler")
    node, later = nodes("host")[0], nodes("late")[0]
    agent = start_agent(env, "--frequency=199", "--max-cost=1", "--names-wait=2s",  # there is always something that was not read yet
                        only=[node.comm, later.comm, *(hostile_name(*of) for of in HOSTILE)])
    pid = env.agent.p.pid
    p, true = start_node_stacks(env, node)
    warm(agent, node, 1)
    hostile = start_hostile(env)

    def gone():
        return [name for name, h in hostile.items() if not h.alive() and h.p.returncode != 2]

    def taken():
        check(not gone(), f"ended: {gone()}")
        here = sum(h.alive() for h in hostile.values())
        return metrics(agent, "runtime_processes").get('runtime_processes{runtime="v8"}', 0) >= 1 + here
    wait_until("they are taken for V8", taken, 60)
    node_program(env, later, "closed.js")
    begun, cpu, verdict, most = time.monotonic(), cpu_seconds(pid), NodeVerdict(true), 0
    seen = {name: set() for name in [later.comm, *hostile]}
    while time.monotonic() < begun + (HOSTILE_SECONDS if LONG else 8) or verdict.samples < 200 or "fib" not in seen[later.comm]:
        profile = pull_all(agent, 4)
        verdict.take(Sampled(profile, node.comm, "v8"))
        seen = {name: was | walked(profile, name) for name, was in seen.items()}
        most = max(most, rss_mb(pid))
        check(time.monotonic() < begun + HOSTILE_SECONDS + 300, f"only {verdict.samples} samples, and {seen[later.comm]}")
        if LONG:
            print(f"after {time.monotonic() - begun:.0f} s: {most:.0f} MB, {cpu_seconds(pid) - cpu:.1f} s of CPU", flush=True)
    took = (cpu_seconds(pid) - cpu) / (time.monotonic() - begun)
    said = {k: v for k, v in metrics(agent, "runtime").items() if v and "python" not in k and "hotspot" not in k}
    here = [name for name, h in hostile.items() if h.alive()]
    print(f"hostile V8s: agent {took:.1%} of a CPU at 199 Hz, {most:.0f} MB; {said}; {verdict.text()}; "
          f"{ {name: sorted(ascii(f[:16]) for f in seen[name])[:4] for name in here} }")
    check(env.agent.alive() and p.alive() and not gone(), f"the agent, Node, or {gone()} is gone")
    check(all(seen[name] for name in here), f"not walked: {[name for name in here if not seen[name]]}")
    nameless = [name for name in here if re.match("rt_(many|huge|cycle|change)", name) and not any(f.startswith("hostile_") for f in seen[name])]
    check(not nameless, f"no name was read of {nameless}")
    check(not verdict.wrong, f"{verdict.text()}{Verdict.listed(verdict.wrong)}")
    # Of all programs that have functions read each gets its part of the time for that, those of which nothing can be read less.
    check(verdict.nameless <= 0.4 * verdict.samples and verdict.whole >= 0.98 * (verdict.samples - verdict.nameless - verdict.deep), verdict.text())
    check(most < 60, f"the agent takes {most:.0f} MB")
    check(took < 0.35, f"the agent takes {took:.1%} of a CPU")
