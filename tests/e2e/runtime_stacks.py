# SPDX-License-Identifier: Apache-2.0
"""Interpreters of this machine, programs that know which stacks they have (tests/fixtures/runtimes), and whether an agent's profile has no
others."""
import bisect
import glob
import json
import os
import re
import shutil
import signal
import subprocess

from harness import LONG, RUN, TOP, Process, Skip, check, http_get, wait_until
from pprof_file import Profile

FIXTURES = os.path.join(TOP, "tests", "fixtures", "runtimes")


class Interpreter:
    def __init__(self, path, version, test):
        self.path, self.version = path, version
        # Its processes' name, which alone is sampled: other tests, and other runs of them, are Python, too, and may run at the same time.
        whose = "" if path.startswith("/usr/bin/") else "p" if "/.pyenv/" in path else "o"
        self.comm = "rt_%s%d%d%s%03d" % (test, *version[:2], whose, RUN % 1000)
        self.what = f"{path} ({'.'.join(map(str, version))})"


def pythons(test):
    """The Pythons of this machine, the system's first, and those that $PYRRHA_PYTHONS names, between colons; each file once. test: a short name
    of it."""
    names = ["/usr/bin/python3", *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))),
             *(p for n in range(6, 16) for p in [shutil.which(f"python3.{n}")] if p), *filter(None, os.environ.get("PYRRHA_PYTHONS", "").split(":"))]
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


def python_greenlet(env, python):
    """A folder with the module greenlet; "" where there is none, and it cannot be installed or this is no long run."""
    said = subprocess.run([python.path, "-c", "import greenlet, os; print(os.path.dirname(os.path.dirname(greenlet.__file__)))"],
                          capture_output=True, text=True, check=False)
    if said.returncode == 0:
        return said.stdout.strip()
    folder = env.path(f"greenlet-{python.comm}")
    if LONG and subprocess.run([python.path, "-m", "pip", "install", "-q", "--only-binary", ":all:", "--target", folder, "greenlet"],
                               stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return folder
    print(f"{python.what}: without greenlet")
    return ""


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
        self.between, self.below, self.deep, self.green = said["between"], said["below"], said["deep"], said["green"]
        self.also_between = ()

    def has(self, stack):
        ids = tuple(self.ids.get(f, -1) for f in stack)
        # Making a generator begins to run it.
        return ids in self.stacks or (len(ids) > 1 and stack[0] in self.made and ids[1:] in self.stacks)

    def begins_so(self, stack):
        """Whether these are the innermost frames of a true stack."""
        wanted = tuple(self.ids.get(f, -1) for f in stack)
        at = bisect.bisect_left(self.ordered, wanted)
        return at < len(self.ordered) and self.ordered[at][:len(wanted)] == wanted


def begin_python_stacks(env, python):
    """(process, the file it will say its stacks in): it finds them out now."""
    said = env.path(f"stacks-{python.comm}.json")
    modules = {"extension": python_extension(env, python), "greenlet": python_greenlet(env, python)}
    return python_program(env, python, "python_stacks.py", said, *(f"--{name}={folder}" for name, folder in modules.items() if folder)), said


def stop_those_ready(begun):
    """Whether all have found out their stacks; those that have wait, so that they take no time from the others. begun: [(python, process)]."""
    for python, p in begun:
        check(p.alive(), f"{python.what} ended: {p.text()[-2000:]}")
        if "ready" in p.text():
            os.kill(p.p.pid, signal.SIGSTOP)
    return all("ready" in p.text() for _, p in begun)


def start_python_stacks(env, pythons_wanted):
    """[(python, process, its TrueStacks)] once all are at their work."""
    begun = [(python, *begin_python_stacks(env, python)) for python in pythons_wanted]
    wait_until("the programs know their stacks", lambda: stop_those_ready([b[:2] for b in begun]), 240)
    for _, p, _ in begun:
        os.kill(p.p.pid, signal.SIGCONT)
    return [(python, p, TrueStacks(said)) for python, p, said in begun]


class Sampled:
    """Stacks of one process name in a profile (its bytes, or itself): each a list of (kind, name, file, line), leaf first, with its count of
    samples. comm None: of all. kind: native, kernel, mark, or the runtime's name."""

    def __init__(self, data, comm, runtime):
        p = data if isinstance(data, Profile) else Profile(data)
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


def pull_all(agent, seconds):
    """What the agent samples from now on, of all processes, by their names and runtimes."""
    status, _, body = http_get(f"{agent}/debug/pprof/profile?seconds={seconds}&by=comm,runtime", timeout=seconds * 2 + 120)
    check(status == 200, f"HTTP {status}: {body[:300]!r}")
    return Profile(body)


def pull(agent, comm, seconds, runtime):
    return Sampled(pull_all(agent, seconds), comm, runtime)


class Verdict:
    """What profiles of a program showed, summed up."""

    ENOUGH = 3000  # samples, of which one is in native code that was called

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
        right = self.true.begins_so(frames) if marks else self.has(stack, frames)
        if not right:
            key = tuple(stack)
            self.wrong[key] = self.wrong.get(key, 0) + n
        elif deep:
            self.deep += n
        elif marks and not self.is_whole_with_mark(frames):
            self.cut += n
        else:
            self.whole += n
        self.look_between(stack, n)

    def has(self, stack, frames):
        return self.true.has(frames)

    def is_whole_with_mark(self, frames):
        """Whether only what is below the runtime's frames is missing, and cannot be known."""
        return False

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
                        if not natives & {native, *self.true.also_between}:
                            self.misplaced[tuple(stack)] = self.misplaced.get(tuple(stack), 0) + n
                for native, caller in self.true.below if inner is None else ():
                    self.below += n if native in natives and caller == name else 0
                inner, natives = name, set()

    def share_whole(self):
        """Of what can be: not of stacks of more frames than there is room for."""
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
        if self.true.between and self.samples >= self.ENOUGH:
            check(self.between > 0 and self.below > 0, f"{what}: no sample through the extension: {self.text()}")


class PythonVerdict(Verdict):
    """Greenlets have stacks of their own: below their first frame is what another one has left on the native stack. While they are switched the
    native stack is neither one's, for microseconds."""

    ENOUGH = 500
    THREAD_BEGINS = {"clone3", "__clone3", "clone", "__clone", "start_thread"}
    CLEARS = {"_PyEvalFrameClearAndPop", "_PyEval_FrameClearAndPop"}  # of 3.12, and later
    SWITCHES = re.compile(r"\b(slp_switch|g_switchstack|g_switchstack_success)\b")

    def __init__(self, true):
        super().__init__(true, "python")
        self.empty = self.switching = self.loopless = 0

    def take_stack(self, stack, n):
        if self.true.green and self.is_switching(stack):
            self.samples += n
            self.switching += n
            return
        super().take_stack(stack, n)
        kinds = {f[0] for f in stack}
        self.empty += 0 if "python" in kinds else n
        if "python" in kinds and "mark" not in kinds and not any(f[1] == "_PyEval_EvalFrameDefault" for f in stack):
            self.loopless += n

    def is_switching(self, stack):
        """Whether greenlet's own code that switches runs: it is called by the innermost function of Python."""
        for kind, name, _, _ in stack:
            if kind == "python" or name == "_PyEval_EvalFrameDefault":
                return False
            if self.SWITCHES.search(name):
                return True
        return False

    def has(self, stack, frames):
        return super().has(stack, frames) if frames else self.is_empty(stack)

    @staticmethod
    def is_empty(stack):
        """Whether there is no frame: in a thread that does not run the interpreter yet, or not any more, or where the thread's first function or
        a greenlet begins or ends. While the interpreter clears its last frame, that has left the chain already."""
        names = [name for kind, name, _, _ in stack if kind == "native"]
        begins = next((i for i, name in enumerate(names) if re.search(r"\bg_initialstub\b", name)), None)
        nameless = re.search(r"\+0x[0-9a-f]+$", names[-1]) if names else None  # a C library without symbols
        if begins is None and names and not nameless and names[-1] not in PythonVerdict.THREAD_BEGINS:
            return False
        loops = [i for i in range(1, len(names) if begins is None else begins) if names[i] == "_PyEval_EvalFrameDefault"]
        return not loops or (len(loops) == 1 and names[loops[0] - 1] in PythonVerdict.CLEARS)

    def is_whole_with_mark(self, frames):
        return bool(frames) and frames[-1][0] in self.true.green and self.true.has(frames)

    def share_whole(self):
        return self.whole / max(1, self.samples - self.deep - self.switching)

    def text(self):
        return f"{super().text()}; {self.empty} without a frame, {self.switching} between greenlets"

    def judge(self, what, least_whole):
        super().judge(what, least_whole)
        check(self.empty <= 5 + 0.03 * self.samples, f"{what}: {self.empty} of {self.samples} samples have no frame")
        check(not self.loopless, f"{what}: {self.loopless} samples have frames of Python, and no interpreter's loop by its name")
        check(self.switching <= 5 + 0.03 * self.samples, f"{what}: {self.switching} of {self.samples} samples between greenlets")
