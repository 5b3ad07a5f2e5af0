# SPDX-License-Identifier: Apache-2.0
"""Which language runtimes are known and wanted: --check, the label `runtime`, --runtimes, and programs that live shortly. Needs root and
eBPF."""
import glob
import os
import re
import subprocess

from harness import Process, Skip, check, http_get, slow, wait_until
from pprof_file import sample_labels
from test_agent import profile, share_with, start_agent

SPIN = """
import time
def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
def middle(until):
    while time.time() < until:
        leaf(20000)
def outer(seconds):
    middle(time.time() + seconds)
"""


def python():
    """The system's interpreter: its path, comm and version."""
    for path in sorted(glob.glob("/usr/bin/python3.*")):
        found = re.fullmatch(r"/usr/bin/(python(3\.\d+))", path)
        if found and 6 <= int(found.group(2).split(".")[1]) <= 13:
            return path, found.group(1), found.group(2)
    raise Skip("no /usr/bin/python3.6 to 3.13")


def spin(env, seconds):
    program = env.path("spin.py", SPIN + f"outer({seconds})\n")
    return [python()[0], program]


def test_check_lists_runtimes(env):
    """--check counts the processes of each runtime."""
    path, _, version = python()
    start_agent(env)             # or skips
    for i in range(2):
        Process(env, f"sleeper{i}", [path, "-c", "import time; time.sleep(600)"])

    def listed():
        said = subprocess.run([env.program("pyrrha-agent"), "--check"], capture_output=True, text=True).stdout
        # A line for each file that is this version: other programs may have their own (a debugger's library).
        lines = re.findall(rf"^ok +cpython{re.escape(version)} \(--runtimes=python\): \S+, (\d+) process", said, re.M)
        return any(int(processes) >= 2 for processes in lines)
    wait_until("--check lists both", listed, 30)


def labels_of(env):
    """The values of the label `runtime` in the last profile."""
    with open(os.path.join(env.dir, "profile.pb.gz"), "rb") as f:
        return sample_labels(f.read()).get("runtime", set())


@slow
def test_label_and_flag(env):
    """A process has the label of its runtime, and frames; the label alone if the runtime was switched off."""
    _, comm, version = python()
    Process(env, "spin", spin(env, 600))
    agent = start_agent(env, "--runtimes=-hotspot", only=[comm])

    def named():
        stacks, _ = profile(env, agent, 2, f'{{comm="{comm}"}}')
        return share_with(stacks, "^<module>$", "^outer$", "^middle$") > 0.9
    wait_until("the program's functions are named", named, 60)
    check(labels_of(env) == {f"cpython{version}"}, labels_of(env))
    body = http_get(agent + "/metrics")[2].decode()
    check(re.search(r'^pyrrha_agent_runtime_processes\{runtime="python"\} [1-9]', body, re.M), "no process of CPython is counted")
    env.agent.kill()
    agent = start_agent(env, "--runtimes=-python", only=[comm])

    def labelled():
        stacks, _ = profile(env, agent, 2, f'{{comm="{comm}"}}')
        return share_with(stacks, "^outer$") == 0 and labels_of(env) == {f"cpython{version}"}
    wait_until("the process has its label, and no frames of a runtime that was switched off", labelled, 20)


def test_wrong_names_are_refused(env):
    said = subprocess.run([env.program("pyrrha-agent"), "--runtimes=cobol"], capture_output=True, text=True)
    check(said.returncode == 2 and '--runtimes: "cobol"' in said.stderr, said)


@slow
def test_short_programs(env):
    """Programs of 0.3 s one after the other: nearly all of their time is in their own functions, from the first one's first samples on."""
    _, comm, _ = python()
    agent = start_agent(env, "--max-cost=1", "--frequency=97", only=[comm])
    runner = Process(env, "runner", ["sh", "-c", "while :; do " + " ".join(spin(env, 0.3)) + "; done"])
    stacks, _ = profile(env, agent, 15, f'{{comm="{comm}"}}')
    runner.kill()
    in_eval = [s for s in stacks if any("_PyEval_EvalFrameDefault" in f for f in s[0])]
    every = sum(v for _, v in in_eval)
    lacking = [s for s in in_eval if not share_with([s], "^(<module>|outer|_find_and_load)$")]
    named = 1 - sum(v for _, v in lacking) / every
    print(f"{named:.1%} of {every / 1e9:.1f} s of short programs have their functions")
    check(every > 1e9, f"only {every / 1e9:.1f} s were seen")
    check(named >= 0.9, f"{named:.1%}; without: {lacking[:5]}")
