# SPDX-License-Identifier: Apache-2.0
"""Frames of language runtimes in the agent's profiles are true: real interpreters run programs that know each stack they can have. PYRRHA_LONG:
every interpreter of the machine for as long as the system's, and ten minutes beside hostile programs, or PYRRHA_SECONDS."""
import os
import re
import shutil
import subprocess
import time
from collections import Counter

from harness import LONG, Process, RUN, Server, Skip, check, http_get, patience, slow, wait_until
from pprof_file import Profile
from runtime_stacks import FIXTURES, PythonVerdict, Sampled, Verdict, pull, pull_all, python_program, pythons, start_python_stacks
from test_agent import cpu_seconds, start_agent

SAMPLES = 20000 if LONG else PythonVerdict.ENOUGH  # of each interpreter
SECONDS = int(os.environ.get("PYRRHA_SECONDS", 600 if LONG else 8))  # beside hostile programs
LEAST_EACH = 20  # of a stack in each of twenty programs, on average


@slow
def test_python_stacks_are_true(env):
    """All interpreters of the machine at once, until each has its samples: none outside of what its program can have, nearly all whole."""
    found = pythons("true")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[p.comm for p in found])
    left = [(python, p, PythonVerdict(true)) for python, p, true in start_python_stacks(env, found)]
    judged = []
    for _ in range(60):
        profile = pull_all(agent, 10 if LONG else 3)
        for python, p, verdict in left:
            check(p.alive(), f"{python.what} ended: {p.text()[-2000:]}")
            verdict.take(Sampled(profile, python.comm, "python"))
        for one in [x for x in left if x[2].samples >= SAMPLES]:
            one[1].kill()  # the others have its time
            left.remove(one)
            judged.append(one)
        if not left:
            break
    check(not left, f"too few samples: {[(python.what, verdict.samples) for python, _, verdict in left]}")
    faults = []
    for python, _, verdict in judged:
        try:
            verdict.judge(python.what, 0.995)
        except AssertionError as e:
            faults.append(str(e))
    check(not faults, "\n".join(faults))


def spent_of(path):
    """[(Unix time, seconds of each part until then)] of python_mix.py."""
    with open(path, encoding="utf-8") as f:
        rows = [list(map(float, line.split())) for line in f if line.endswith("\n")]
    return [(r[0], r[1:]) for r in rows]


def mix_agrees(python, agent, path, seconds, runtime="python", part="part_%d"):
    """Shares of a profile, against what the program has counted in that time. The first profile that has enough samples must agree."""
    parts, n = [0] * 10, 0
    begun = time.time()
    while n < 4000:
        for stack, count in pull(agent, python.comm, seconds, runtime).stacks:
            names = {f[1] for f in stack if f[0] == runtime}
            for i in range(10):
                if part % i in names:
                    parts[i] += count
                    n += count
        check(time.time() - begun < 120, f"{python.what}: only {n} samples")
    rows = [r for r in spent_of(path) if begun <= r[0] <= time.time()]
    spent = [b - a for a, b in zip(rows[0][1], rows[-1][1])]
    off = [parts[i] / n - spent[i] / sum(spent) for i in range(10)]
    print(f"{python.what}: {n} samples; shares by the program {[round(s / sum(spent), 4) for s in spent]}, by the profile off by "
          f"{[round(d, 4) for d in off]}")
    check(max(map(abs, off)) <= 0.03 + 2 / n ** 0.5, f"{python.what}: shares are off by {off}")


@slow
def test_python_shares(env):
    """What part of the CPU time each of ten functions has, within 3 % and the scatter of the samples."""
    found = pythons("share")
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=[p.comm for p in found])
    for python in found if LONG else found[:1]:
        path = env.path(f"mix-{python.comm}.txt")
        p = python_program(env, python, "python_mix.py", path)
        wait_until(f"{python.what} works", lambda at=path: os.path.exists(at) and spent_of(at), 60)
        mix_agrees(python, agent, path, 4)
        p.kill()


def count_named(sampled):
    """(frames of Python with a name, those without). A sample in the interpreter without any of them counts as one without."""
    named = nameless = 0
    for stack, n in sampled.stacks:
        mine = sum(f[0] == "python" for f in stack)
        marks = sum(f[0] == "mark" and ("[python:" in f[1] or "runtime" in f[1]) for f in stack)
        if not mine and not marks and any(f[1] == "_PyEval_EvalFrameDefault" for f in stack):
            marks = 1
        named, nameless = named + mine * n, nameless + marks * n
    return named, nameless


@slow
def test_short_python_programs(env):
    """A program that has worked for 0.3 s and is gone has names: they are read while it lives."""
    python = pythons("short")[0]
    agent = start_agent(env, only=[python.comm])
    link = env.path(python.comm)
    os.symlink(python.path, link)
    begun = time.time()
    for _ in range(100 if LONG else 20):
        subprocess.run([link, os.path.join(FIXTURES, "python_short.py")], check=True)

    def counted():
        status, _, body = http_get(f"{agent}/debug/pprof/profile?from={int(begun) - 1}&to={2**33}&by=comm", timeout=60)
        check(status == 200, f"HTTP {status}: {body[:300]!r}")
        sampled = Sampled(body, python.comm, "python")
        named, nameless = count_named(sampled)
        marks = {}
        for stack, n in sampled.stacks:
            for f in stack:
                if f[0] == "mark":
                    marks[f[1]] = marks.get(f[1], 0) + n
        print(f"short programs: {sampled.count} samples, {named} frames named, {nameless} not; {marks}")
        check(sampled.count > 50, f"{sampled.count} samples")
        check(named >= 0.9 * (named + nameless), f"{named} frames named, {nameless} not: {marks}")
        return True
    wait_until("the history has them", counted, 30)


HOSTILE = [(minor, how) for minor in (9, 11, 12, 13, 14) for how in ("random", "cycle", "huge", "many", "change", "silent")
           if LONG or minor == 11 or (minor, how) in ((9, "random"), (9, "change"), (12, "random"), (13, "cycle"), (13, "change"),
                                                      (14, "change"))] + [(11, "deaf")]


def hostile_name(minor, how):
    return f"rt_{how}{minor}_{RUN % 1000}"


def start_hostile_pythons(env):
    """Programs that pretend to be CPython, each in its own way; {name: process}."""
    started = {}
    for minor in sorted({minor for minor, _ in HOSTILE}):
        subprocess.run(["cc", "-O2", "-rdynamic", "-pthread", f"-DMINOR={minor}", "-o", env.path(f"hostile{minor}"),
                        os.path.join(FIXTURES, "hostile_python.c")], check=True)
    for minor, how in HOSTILE:
        link = env.path(hostile_name(minor, how))
        os.symlink(env.path(f"hostile{minor}"), link)
        started[os.path.basename(link)] = Process(env, os.path.basename(link), [link, how], preexec_fn=lambda: os.nice(5))
    return started


def rss_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) / 1024


def metrics(agent, prefix):
    text = http_get(f"{agent}/metrics")[2].decode()
    return {m[1]: float(m[2]) for m in re.finditer(rf"^pyrrha_agent_({prefix}\S*) ([0-9.e+-]+)$", text, re.M)}


class Hostile:
    """What was seen of programs that pretend to be CPython: that they are walked, or a test with them proves nothing."""

    def __init__(self, programs):
        self.programs = programs
        self.labels, self.walked = ({name: set() for name in programs} for _ in range(2))

    def take(self, profile):
        for _, labels, _ in profile.samples:
            name = dict(labels).get("comm")
            if name in self.programs:
                self.labels[name].add(dict(labels).get("runtime"))
        for name in self.programs:
            for stack, _ in Sampled(profile, name, "python").stacks:
                for kind, frame, _, _ in stack:
                    if kind == "python" or "[python:" in frame or "frames of the runtime" in frame:
                        self.walked[name].add(frame)

    def unwalked(self):
        return [name for name, p in self.programs.items() if p.alive() and not self.walked[name]]

    def judge(self):
        gone = [name for name, p in self.programs.items()
                if not p.alive() and not (name.startswith(("rt_silent", "rt_deaf")) and p.p.returncode == 2)]
        check(not gone, f"{gone} ended by themselves")
        here = [name for name, p in self.programs.items() if p.alive()]
        expected = {name: f"cpython3.{re.match(r'rt_[a-z]+([0-9]+)_', name)[1]}" for name in here}
        wrong = {name: self.labels[name] for name in here if expected[name] not in self.labels[name]}
        check(not wrong, f"not recognised: {wrong}")
        check(not self.unwalked(), f"no frame was walked of {self.unwalked()}")
        nameless = [name for name in here if name.startswith(("rt_many", "rt_huge", "rt_cycle"))
                    and not any(f.startswith("hostile_") or "over budget" in f for f in self.walked[name])]
        check(not nameless, f"nothing was read of {nameless}: {[self.walked[name] for name in nameless]}")


def shares_by_leaf(stacks):
    """{innermost function of Python: its share}, and how many samples there are."""
    found = Counter()
    for stack, n in stacks:
        found[next((f[1] for f in stack if f[0] == "python"), "")] += n
    every = sum(found.values())
    return {name: n / every for name, n in found.items()}, every


@slow
def test_hostile_pythons(env):
    """Random, cyclic, enormous, changing and silent structures cost the programs that have them their own frames, and the agent no more than any
    load; a program beside them keeps its stacks."""
    if not shutil.which("cc"):
        raise Skip("no compiler")
    python = pythons("host")[0]
    agent = start_agent(env, "--frequency=199", "--max-cost=1", only=[python.comm] + [hostile_name(*of) for of in HOSTILE])
    pid = env.agent.p.pid
    [(_, p, true)] = start_python_stacks(env, [python])
    verdict, most, stacks = PythonVerdict(true), 0, []
    wait_until("its functions are read", lambda: "[python: not read yet]" not in
               {f[1] for stack, _ in pull(agent, python.comm, 2, "python").stacks for f in stack}, 60)
    quiet = pull(agent, python.comm, 60 if LONG else 3, "python")
    hostile = Hostile(start_hostile_pythons(env))
    begun, cpu = time.monotonic(), cpu_seconds(pid)
    while time.monotonic() < begun + SECONDS or hostile.unwalked() and time.monotonic() < begun + 2 * SECONDS * patience():
        profile = pull_all(agent, 6 if LONG else 4)
        hostile.take(profile)
        beside = Sampled(profile, python.comm, "python")
        verdict.take(beside)
        stacks += beside.stacks
        most = max(most, rss_mb(pid))
        if LONG:
            print(f"after {time.monotonic() - begun:.0f} s: {most:.0f} MB, {cpu_seconds(pid) - cpu:.1f} s of CPU", flush=True)
    took = (cpu_seconds(pid) - cpu) / (time.monotonic() - begun)
    (before, n), (after, m) = shares_by_leaf(quiet.stacks), shares_by_leaf(stacks)
    off = max(abs(before.get(name, 0) - after.get(name, 0)) for name in {*before, *after})
    print(f"hostile Pythons: agent {took:.1%} of a CPU at 199 Hz, {most:.0f} MB; {metrics(agent, 'runtime')}; {verdict.text()}; "
          f"shares of the program beside are off by {off:.3f} with {n} and {m} samples")
    check(env.agent.alive() and p.alive(), "the agent or the program beside is gone")
    hostile.judge()
    if hostile.programs[hostile_name(11, "deaf")].alive():
        wait_until("the namer leaves the program behind that does not answer", lambda: "runtime_stuck_readers_total 1" in
                   http_get(f"{agent}/metrics")[2].decode(), 30)
    check(not verdict.wrong and verdict.samples > 100, f"{verdict.text()}{Verdict.listed(verdict.wrong)}")
    check(verdict.share_whole() >= 0.98, verdict.text())
    check(off < 0.03 + 2 / n ** 0.5 + 2 / m ** 0.5, f"the shares of the program beside: {before}, then {after}")
    check(most < 60, f"the agent takes {most:.0f} MB")
    check(took < 0.35, f"the agent takes {took:.1%} of a CPU")


def same_stacks(server, names, least):
    """Stacks of Python that have so many nanoseconds in all, by process, in what the server stored; and the whole profile."""
    def stored(selector):
        return server.get("/api/v1/query", query=f"merge(on_cpu<{selector}>[5m])", format="pprof")
    by_name = {name: Counter() for name in names}
    for name, found in by_name.items():
        for stack, n in Sampled(stored(f'comm="{name}"'), None, "python").stacks:
            if not any(f[0] == "mark" for f in stack):
                found[tuple(f[1:] for f in stack if f[0] == "python")] += n
    every = sum(by_name.values(), Counter())
    return {s for s, n in every.items() if n >= least}, by_name, Profile(stored('comm=~"rt_same.*"'))


@slow
def test_twenty_pythons_are_one(env):
    """Processes that run the same file make the same stacks in the store, and share each of its places."""
    python = pythons("same")[0]
    names = [f"rt_same{i}" for i in range(20)]
    agent = start_agent(env, "--frequency=499", "--max-cost=1", only=names)
    server = Server(env, f"""
global: {{scrape_interval: 2s}}
scrape_configs:
  - job_name: agent
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}']}}]
""")
    for name in names:
        os.symlink(python.path, env.path(name))
        Process(env, name, [env.path(name), os.path.join(FIXTURES, "python_same.py")])
    most = [0]

    def agree():
        most[0] = max(most[0], rss_mb(env.agent.p.pid))
        often, by_name, whole = same_stacks(server, names, 20 * LEAST_EACH * 1e9 / 499)
        missing = [(name, s) for name, found in by_name.items() for s in often if not found[s]]
        check(len(often) >= 5, f"{len(often)} stacks have 400 samples: {sum(sum(f.values()) for f in by_name.values())} in all")
        check(not missing, f"{len(missing)} stacks are missing in processes, such as {missing[:2]}")
        places = [whole.locations[i][0] for i, (address, file) in whole.addresses.items() if file == "[python]"]
        check(len(places) == len(set(places)), f"{len(places)} places of {len(set(places))}")
        check(not any(address for address, file in whole.addresses.values() if file == "[python]"), "a frame of Python has an address")
        print(f"20 Pythons: {len(often)} stacks in each, {len(places)} places, agent {most[0]:.0f} MB")
        return True
    wait_until("all have the same stacks", agree, 90)
    check(most[0] < 60, f"the agent takes {most[0]:.0f} MB")
