# SPDX-License-Identifier: Apache-2.0
"""Interpreters of this machine, programs that know which stacks they have (tests/fixtures/runtimes), and whether an agent's profile has no
others."""
import bisect
import glob
import json
import os
import re
import shutil
import subprocess

from harness import TOP, Process, Skip, check, http_get, wait_until
from pprof_file import Profile

FIXTURES = os.path.join(TOP, "tests", "fixtures", "runtimes")


class Interpreter:
    def __init__(self, path, version, test):
        self.path, self.version = path, version
        # Its processes' name, which alone is sampled: other tests are Python, too, and may run at the same time.
        self.comm = "rt_%s%d%d%s" % (test, *version[:2], "" if path.startswith("/usr/bin/") else "p")
        self.what = f"{path} ({'.'.join(map(str, version))})"


def pythons(test):
    """The Pythons of this machine, the system's first; each file once. test: a short name of it."""
    names = ["/usr/bin/python3", *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))),
             *(p for n in range(6, 15) for p in [shutil.which(f"python3.{n}")] if p)]
    found = {}
    for name in names:
        path = os.path.realpath(name)
        if path in found or "/shims/" in path or not os.path.exists(path):
            continue
        said = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:3])"], capture_output=True, text=True, check=False)
        if said.returncode == 0 and re.fullmatch(r"3 \d+ \d+\s*", said.stdout):
            found[path] = Interpreter(path, tuple(map(int, said.stdout.split())), test)
    if not found:
        raise Skip("no Python")
    return list(found.values())


def python_extension(env, python):
    """The folder with the fixture's module, built for that Python; "" where its headers or a compiler are not there."""
    include = subprocess.run([python.path, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"], capture_output=True, text=True,
                             check=True).stdout.strip()
    if not os.path.exists(os.path.join(include, "Python.h")) or not shutil.which("cc"):
        print(f"{python.what}: no Python.h: without an extension")
        return ""
    folder = env.path(f"extension-{python.comm}")
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-I" + include, "-o",
                    os.path.join(folder, "runtimes_extension.so"), os.path.join(FIXTURES, "extension.c")], check=True)
    return folder


def python_program(env, python, script, *args, **more):
    """A fixture at work, under the interpreter's name."""
    link = env.path(python.comm)
    if not os.path.islink(link):
        os.symlink(python.path, link)
    return Process(env, f"{script}-{python.comm}", [link, os.path.join(FIXTURES, script), *args], **more)


class TrueStacks:
    """What a program says of itself: stacks of (function, file, line), leaf first."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            said = json.load(f)
        self.frames = [tuple(f) for f in said["frames"]]
        self.ids = {f: i for i, f in enumerate(self.frames)}
        self.stacks = {tuple(s) for s in said["stacks"]}
        self.ordered = sorted(self.stacks)
        self.made = {tuple(f) for f in said["made"]}
        self.between, self.below, self.deep = said["between"], said["below"], said["deep"]

    def has(self, stack):
        ids = tuple(self.ids.get(f, -1) for f in stack)
        # Making a generator begins to run it.
        return ids in self.stacks or (len(ids) > 1 and stack[0] in self.made and ids[1:] in self.stacks)

    def begins_so(self, stack):
        """Whether these are the innermost frames of a true stack."""
        wanted = tuple(self.ids.get(f, -1) for f in stack)
        at = bisect.bisect_left(self.ordered, wanted)
        return at < len(self.ordered) and self.ordered[at][:len(wanted)] == wanted


def start_python_stacks(env, python):
    """(process, its TrueStacks) once it is at its work."""
    folder, said = python_extension(env, python), env.path(f"stacks-{python.comm}.json")
    p = python_program(env, python, "python_stacks.py", said, *([f"--extension={folder}"] if folder else []))

    def ready():
        check(p.alive(), f"{python.what} ended: {p.text()[-2000:]}")
        return "ready" in p.text()
    wait_until(f"{python.what} knows its stacks", ready, 120)
    return p, TrueStacks(said)


class Sampled:
    """Stacks of one process name in a profile: each a list of (kind, name, file, line), leaf first, with its count of samples. kind: native,
    kernel, mark, or the runtime's name."""

    def __init__(self, data, comm, runtime):
        p = Profile(data)
        types = [t for t, _ in p.types]
        self.stacks, at = [], types.index("samples") if "samples" in types else 0
        for ids, (_, labels, values) in zip(p.stack_ids, p.samples):
            if values[at] and comm in (None, dict(labels).get("comm")):
                self.stacks.append(([f for i in ids for f in self.frames(p, i, runtime)], values[at]))
        self.count = sum(n for _, n in self.stacks)

    @staticmethod
    def frames(p, location, runtime):
        mapping = p.addresses[location][1]
        out = []
        for f in p.locations[location]:
            name, file, line = f if len(f) == 3 else (f"{f[0]}+{f[1]:#x}", "", 0)
            if name.startswith(("[truncated", "[lost", f"[{runtime}:")):
                kind = "mark"
            else:
                kind = {f"[{runtime}]": runtime, "[kernel]": "kernel"}.get(mapping, "native")
            out.append((kind, name, file, line))
        return out


def pull(agent, comm, seconds, runtime):
    status, _, body = http_get(f"{agent}/debug/pprof/profile?seconds={seconds}&by=comm", timeout=seconds * 2 + 120)
    check(status == 200, f"HTTP {status}: {body[:300]!r}")
    return Sampled(body, comm, runtime)


class Verdict:
    """What profiles of a program showed, summed up."""

    def __init__(self, true, runtime):
        self.true, self.runtime = true, runtime
        self.samples = self.deep = self.whole = self.cut = self.nameless = self.between = self.below = 0
        self.wrong, self.misplaced, self.marks = {}, {}, {}

    def take(self, sampled):
        for stack, n in sampled.stacks:
            self.take_stack(stack, n)

    def take_stack(self, stack, n):
        frames = [f[1:] for f in stack if f[0] == self.runtime]
        marks = [f[1] for f in stack if f[0] == "mark"]
        self.samples += n
        for m in marks:
            self.marks[m] = self.marks.get(m, 0) + n
        if any(m.startswith(f"[{self.runtime}:") for m in marks):
            self.nameless += n
            return
        deep = any(f[0] == self.true.deep for f in frames)
        right = self.true.begins_so(frames) if marks else self.true.has(frames)
        if not right:
            key = tuple(stack)
            self.wrong[key] = self.wrong.get(key, 0) + n
        elif deep:
            self.deep += n
        elif marks:
            self.cut += n
        else:
            self.whole += n
        self.look_between(stack, n)

    def look_between(self, stack, n):
        """Native functions stand between the frames of the runtime that they were called by and that they call."""
        inner, natives = None, set()
        for kind, name, _, _ in stack:
            if kind == "native":
                natives.add(name)
            elif kind == self.runtime:
                for callee, native, caller in self.true.between if inner else ():
                    if (callee, caller) == (inner, name):
                        self.between += n
                        if native not in natives:
                            self.misplaced[tuple(stack)] = self.misplaced.get(tuple(stack), 0) + n
                for native, caller in self.true.below if inner is None else ():
                    self.below += n if native in natives and caller == name else 0
                inner, natives = name, set()

    def share_whole(self):
        return self.whole / max(1, self.samples - self.deep)

    def text(self):
        return (f"{self.samples} samples, {sum(self.wrong.values())} outside of the set of {len(self.true.stacks)}, {self.share_whole():.2%} whole, "
                f"{self.deep} too deep, {self.cut} cut, {self.nameless} without a name, {self.between} through native code, "
                f"{sum(self.misplaced.values())} of them misplaced, {self.below} in it; marks: {self.marks}")

    @staticmethod
    def listed(stacks, most=4):
        return "".join(f"\n{n} samples:" + "".join(f"\n    {kind:8} {name} {file}:{line}" for kind, name, file, line in s)
                       for s, n in sorted(stacks.items(), key=lambda x: -x[1])[:most])

    def judge(self, what, least_whole):
        print(f"{what}: {self.text()}", flush=True)
        check(not self.wrong, f"{what}: stacks outside of the true set: {self.text()}{self.listed(self.wrong)}")
        check(not self.misplaced, f"{what}: native frames are not where they were called{self.listed(self.misplaced)}")
        check(self.share_whole() >= least_whole, f"{what}: {self.text()}")
        if self.true.between and self.samples >= 3000:  # one in a hundred is there: a few hundred samples may have none
            check(self.between > 0 and self.below > 0, f"{what}: no sample through the extension: {self.text()}")
