# SPDX-License-Identifier: Apache-2.0
"""The agent in a pid namespace of its own, as on a node that is a container (kind, k3d, minikube): what is in it, and in namespaces inside of it, is
profiled as on a host; what is outside has one frame, with its CPU time."""
import os
import shutil
import time

from harness import Process, Skip, check, wait_until
from test_agent import c_program, profile, run, share_with, start_agent

BUSY = """
#include <stdio.h>
volatile unsigned long x;
__attribute__((noinline)) void %(name)s_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) x += i * i; }
__attribute__((noinline)) void %(name)s_middle(void) { %(name)s_leaf(1000000); x++; }
int main(void) { for (;;) { %(name)s_middle(); x++; } }
"""
OUTSIDE = "[process outside of the agent's pid namespace]"
SECONDS = 8


def spent(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def child_of(p):
    """The process that unshare runs."""
    with open(f"/proc/{p.p.pid}/task/{p.p.pid}/children") as f:
        return f.read().split()[0]


def test_inside_and_outside(env):
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        raise Skip("no unshare, no nsenter")
    own = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    agent = start_agent(env, "--frequency=97", "--max-cost=1", before=own)
    node = ["nsenter", "-t", child_of(env.agent), "-p", "-m"]
    programs = {name: c_program(env, name, BUSY % {"name": name}) for name in ("inner", "deeper", "outer")}
    run(env, "inner", [*node, programs["inner"]])
    run(env, "deeper", [*node, *own, programs["deeper"]])
    outer = run(env, "outer", [programs["outer"]])
    time.sleep(2)
    before = spent(outer.p.pid), time.monotonic()
    stacks, _ = profile(env, agent, SECONDS)
    used = (spent(outer.p.pid) - before[0]) * SECONDS / (time.monotonic() - before[1])
    for name in ("inner", "deeper"):
        its, _ = profile(env, agent, 4, f'{{comm="{name}"}}')
        share = share_with(its, "main", f"{name}_middle", f"{name}_leaf")
        check(share > 0.95, f"{name}: {share:.1%} of its stacks are whole: {its[:3]}")
    check(not any("outer_leaf" in f for frames, _ in stacks for f in frames), "a process outside is taken for one of those inside")
    outside = sum(v for frames, v in stacks if frames == [OUTSIDE]) / 1e9
    check(outside > 0.8 * used, f"{outside:.2f} s outside, where one process used {used:.2f} s")
    text = env.agent.text()
    check("those of a pid namespace, not the host's" in text, text[:2000])
    waits = Process(env, "check", [*own, env.program("pyrrha-agent"), "--check"])
    wait_until("--check has ended", lambda: not waits.alive(), 60)
    check("those of a pid namespace" in waits.text(), waits.text())
