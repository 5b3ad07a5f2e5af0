# SPDX-License-Identifier: Apache-2.0
"""Java's frames in the agent's profiles are true: real virtual machines run a program of which each call is known. PYRRHA_JAVA: the programs to
run, separated by colons, else those that are installed. PYRRHA_LONG: all of them, 20,000 samples each, and 4,000 with other compilers and collectors."""
from harness import LONG, check
from java_stacks import javas, start_closed
from runtime_stacks import Verdict, pull
from test_agent import start_agent

SAMPLES = 20000 if LONG else 500
FLAGS = [["-Xint"], ["-XX:TieredStopAtLevel=1"], ["-XX:-TieredCompilation"], ["-XX:+UseZGC"], ["-XX:-Inline"], ["-XX:+UseSerialGC"]]


def of_java(sampled):
    """Without the virtual machine's own threads: compilers, collectors."""
    sampled.stacks = [(s, n) for s, n in sampled.stacks if any(f[0] in ("hotspot", "mark") for f in s)]
    return sampled


def closed_set(env, agent, java, flags, samples, seconds, least_whole):
    p, calls = start_closed(env, java, *flags)
    verdict = Verdict(calls, "hotspot")
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


def test_java_stacks_are_true(env):
    found = javas("true")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[j.comm for j in found])
    for java in found if LONG else found[:1]:
        closed_set(env, agent, java, [], SAMPLES, 10 if LONG else 2, 0.98)
    for java, flags in [(java, flags) for flags in FLAGS for java in found] if LONG else []:
        closed_set(env, agent, java, flags, SAMPLES // 5, 5, 0.98)
