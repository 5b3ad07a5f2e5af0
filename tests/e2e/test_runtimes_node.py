# SPDX-License-Identifier: Apache-2.0
"""Frames of JavaScript in the agent's profiles are true, as in test_runtimes.py: real Nodes run programs whose stacks V8's own debugger has
told. $PYRRHA_NODES: more of them than PATH's, between colons; PYRRHA_LONG: each of them, and ten times as long."""
import time

from harness import LONG, check
from node_stacks import NodeVerdict, nodes, start_node_stacks
from runtime_stacks import pull
from test_agent import start_agent

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
