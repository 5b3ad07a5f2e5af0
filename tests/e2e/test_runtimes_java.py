# SPDX-License-Identifier: Apache-2.0
"""Java's frames in the agent's profiles are true: real virtual machines run a program of which each call is known. PYRRHA_JAVA: the programs to
run, separated by colons, else those that are installed. PYRRHA_LONG: all of them, 20,000 samples each, and 4,000 with other compilers and collectors."""
import os
import re
import shutil
import subprocess
import time

from harness import LONG, Process, Skip, check, http_get, slow, wait_until
from java_stacks import Calls, java_program, javas, start_closed
from runtime_stacks import FIXTURES, Sampled, Verdict, pull, pull_all
from test_agent import cpu_seconds, start_agent
from test_runtimes import metrics, mix_agrees, rss_mb, spent_of

SAMPLES = 20000 if LONG else 500
FLAGS = [["-Xint"], ["-XX:TieredStopAtLevel=1"], ["-XX:-TieredCompilation"], ["-XX:-Inline"], ["-XX:+UseSerialGC"], ["-XX:+UseParallelGC"],
         ["-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"], ["-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"],
         ["-XX:-UseCompressedOops"], ["-XX:+PreserveFramePointer"], ["-XX:ReservedCodeCacheSize=1g"], ["-XX:-SegmentedCodeCache"]]


def of_java(sampled):
    """Without the virtual machine's own threads: compilers, collectors."""
    sampled.stacks = [(s, n) for s, n in sampled.stacks if any(f[0] in ("hotspot", "mark") for f in s)]
    return sampled


def closed_set(env, agent, java, flags, samples, seconds, least_whole):
    p, calls = start_closed(env, java, *flags)
    verdict = Verdict(calls, "hotspot")
    pull(agent, java.comm, 1, "hotspot")  # until the unwind table of the virtual machine is there
    for _ in range(100):
        sampled = of_java(pull(agent, java.comm, seconds, "hotspot"))
        calls.prepare([s for s, _ in sampled.stacks])
        verdict.take(sampled)
        if verdict.samples >= samples:
            break
    p.kill()
    what = " ".join([java.what, *flags])
    for stack in list(verdict.wrong)[:6]:
        print(f"{what}: {calls.wrong([f[1:] for f in stack if f[0] == 'hotspot'], True)}")
    check(verdict.samples >= samples, f"{what}: only {verdict.samples} samples")
    verdict.judge(what, least_whole)


@slow
def test_java_stacks_are_true(env):
    found = javas("true")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[j.comm for j in found])
    for java in found if LONG else found[:1]:
        closed_set(env, agent, java, [], SAMPLES, 10 if LONG else 2, 0.98)


@slow
def test_java_stacks_with_flags(env):
    """The same with other compilers, collectors and code caches."""
    if not LONG:
        raise Skip("PYRRHA_LONG=1")
    found = javas("flag")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[j.comm for j in found])
    for java, flags in [(java, flags) for java in found for flags in FLAGS]:
        if subprocess.run([java.path, *flags, "-version"], capture_output=True, check=False).returncode:
            print(f"{java.what} has no {flags[-1]}")
            continue
        closed_set(env, agent, java, flags, SAMPLES // 5, 5, 0.98)


BARRIER = re.compile(r"StubRoutines \(continuation ?stubs\)")


def halves(stack):
    """What of a virtual thread is on its carrier's stack, and the carrier's frames: those between are in the heap."""
    at = next((i for i, f in enumerate(stack) if BARRIER.match(f[1])), len(stack))
    return [[f[1:] for f in part if f[0] == "hotspot"] for part in (stack[:at], stack[at + 1:])]


def names_are_read(sampled):
    return sampled.count > 0 and not any(f[1] == "[hotspot: not read yet]" for stack, _ in sampled.stacks for f in stack)


@slow
def test_virtual_threads(env):
    """A virtual thread's stack goes on with its carrier's frames, also where some of its own are not on it."""
    found = [j for j in javas("virt") if j.version >= 21]
    if not found:
        raise Skip("no Java of 21 or later")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[j.comm for j in found])
    for java in found if LONG else found[:1]:
        p = java_program(env, java, "Virtual", "3600")
        wait_until(f"{java.what} works", lambda p=p: "started" in p.text(), 120)
        wait_until(f"{java.what}: its names are read", lambda java=java: names_are_read(of_java(pull(agent, java.comm, 2, "hotspot"))), 120)
        calls, samples, behind, cut, wrong = Calls(env, java), 0, 0, 0, {}
        while samples < (10000 if LONG else 400) or not behind:
            stacks = [s for s in of_java(pull(agent, java.comm, 2, "hotspot")).stacks if any(f[1].startswith("Virtual.") for f in s[0])]
            calls.prepare([s for s, _ in stacks])
            for stack, n in stacks:
                inner, carrier = halves(stack)
                marks = any(f[0] == "mark" for f in stack)
                samples, behind, cut = samples + n, behind + n * bool(carrier), cut + n * marks
                why = calls.wrong(inner, False) or calls.wrong(carrier, bool(carrier) and not marks)
                if carrier and carrier[0][0] != "jdk.internal.vm.Continuation.run":
                    why = f"{carrier[0][0]} runs no virtual thread"
                if why:
                    wrong[why] = wrong.get(why, 0) + n
        p.kill()
        text = f"virtual threads of {java.what}: {samples} samples, {behind} with frames in the heap, {cut} cut, wrong: {wrong}"
        print(text)
        check(not wrong and cut <= 0.02 * samples + 5, text)


@slow
def test_java_shares(env):
    """What part of the CPU time each of ten methods has, within 3 % and the scatter of the samples."""
    found = javas("share")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[j.comm for j in found])
    for java in found if LONG else found[:1]:
        path = env.path(f"mix-{java.comm}.txt")
        p = java_program(env, java, "Mix", path)
        # Its first turns are interpreted, and compiled by other threads.
        wait_until(f"{java.what} works", lambda at=path: os.path.exists(at) and len(spent_of(at)) > 20, 120)
        mix_agrees(java, agent, path, 4, "hotspot", "Mix.part%d")
        p.kill()


@slow
def test_short_java_programs(env):
    """Programs that do 0.3 s of work and are gone have names: they are read while they live. Samples of the work, all of whose frames are
    named, against what the programs say that it took."""
    found = javas("short")
    agent = start_agent(env, "--frequency=97", only=[j.comm for j in found])
    for java in found if LONG else found[:1]:
        begun, worked = time.time(), 0
        for _ in range(100 if LONG else 8):
            p = java_program(env, java, "Short")
            check(p.p.wait(60) == 0, p.text()[-2000:])
        worked = sum(map(int, re.findall(r"^worked (\d+)", p.text(), re.M))) / 1e9

        def counted(java=java, begun=begun, worked=worked):
            status, _, body = http_get(f"{agent}/debug/pprof/profile?from={int(begun) - 1}&to={2**33}&by=comm", timeout=60)
            check(status == 200, f"HTTP {status}: {body[:300]!r}")
            marks, named, unnamed = {}, 0, 0
            for stack, n in Sampled(body, java.comm, "hotspot").stacks:
                mine = any(f[1] == "Short.work" for f in stack)
                bad = [f[1] for f in stack if f[1].startswith(("[hotspot:", "[jit]"))]
                named, unnamed = named + n * (mine and not bad), unnamed + n * (mine and bool(bad))
                for m in {m.split("+")[0] for m in bad}:
                    marks[m] = marks.get(m, 0) + n
            share = named / (97 * worked)
            text = (f"short programs of {java.what}: {named} of {97 * worked:.0f} samples of their work are named ({share:.1%}), "
                    f"{unnamed} have frames that are not; from their start on: {marks}; naming took "
                    f"{metrics(agent, 'runtime_naming').get('runtime_naming_seconds_total', 0):.2f} s of CPU time")
            check(share >= 0.9 - 2 / (97 * worked) ** 0.5 and named >= 9 * unnamed, text)
            print(text)
            return True
        wait_until("the history has them", counted, 20)


HOSTILE = ["random", "cycle", "huge", "many", "change"]


def start_hostile(env):
    """Programs that pretend to be HotSpot, each in its own way; {name: process}."""
    program = env.path("hostile_hotspot")
    subprocess.run(["cc", "-O2", "-rdynamic", "-pthread", "-o", program, os.path.join(FIXTURES, "hostile_hotspot.c")], check=True)
    started = {}
    for how in HOSTILE:
        link = env.path(f"rt_hs_{how}")
        os.symlink(program, link)
        rest = [] if LONG else ["resting"]  # other tests want the processors, too
        started[f"rt_hs_{how}"] = Process(env, f"rt_hs_{how}", [link, how, *rest], preexec_fn=lambda: os.nice(5))
    return started


def walked(profile, name):
    """What a hostile program's frames are called: names that it made up, and marks that say why there is none."""
    return {f[1] for stack, _ in Sampled(profile, name, "hotspot").stacks for f in stack
            if f[0] == "hotspot" or f[1].startswith(("[hotspot:", "[truncated: bad frame"))}


@slow
def test_hostile_java(env):
    """Random, cyclic, enormous and changing structures cost the programs that have them their own frames, and the agent no more than any load; a
    program beside them keeps its stacks."""
    if not shutil.which("cc"):
        raise Skip("no compiler")
    java = javas("host")[0]
    agent = start_agent(env, "--frequency=199", "--max-cost=1", only=[java.comm, *(f"rt_hs_{how}" for how in HOSTILE)])
    pid = env.agent.p.pid
    p, calls = start_closed(env, java)
    hostile = start_hostile(env)

    def taken():
        check(all(h.alive() for h in hostile.values()), f"ended: {[name for name, h in hostile.items() if not h.alive()]}")
        return metrics(agent, "runtime_processes").get('runtime_processes{runtime="hotspot"}', 0) >= 1 + len(HOSTILE)
    wait_until("they are taken for HotSpot", taken, 60)
    # As long as there is room for its names.
    wait_until("made up names are read", lambda: any(re.match(r"pretended.Class\.hostile_\d", f)
                                                     for f in walked(pull_all(agent, 1), "rt_hs_many")), 30)
    begun, cpu, verdict, most, seen = time.monotonic(), cpu_seconds(pid), Verdict(calls, "hotspot"), 0, {name: set() for name in hostile}
    while time.monotonic() < begun + (600 if LONG else 8) or verdict.samples < 200:
        profile = pull_all(agent, 4)
        sampled = of_java(Sampled(profile, java.comm, "hotspot"))
        calls.prepare([s for s, _ in sampled.stacks])
        verdict.take(sampled)
        seen = {name: was | walked(profile, name) for name, was in seen.items()}
        most = max(most, rss_mb(pid))
        check(time.monotonic() < begun + 900, f"only {verdict.samples} samples")
    took = (cpu_seconds(pid) - cpu) / (time.monotonic() - begun)
    said = {k: v for k, v in metrics(agent, "runtime").items() if v and "python" not in k and "v8" not in k}
    print(f"hostile HotSpots: agent {took:.1%} of a CPU at 199 Hz, {most:.0f} MB; {said}; {verdict.text()}; "
          f"{ {name: sorted(s)[:4] for name, s in seen.items()} }")
    check(env.agent.alive() and p.alive() and all(h.alive() for h in hostile.values()), "the agent or a program is gone")
    check(all(seen.values()), f"not walked: {[name for name, s in seen.items() if not s]}")
    check(not verdict.wrong, f"{verdict.text()}{Verdict.listed(verdict.wrong)}")
    check(verdict.share_whole() >= 0.98, verdict.text())
    check(most < 60, f"the agent takes {most:.0f} MB")
    check(took < 0.35, f"the agent takes {took:.1%} of a CPU")
