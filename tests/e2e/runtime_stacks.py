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

    def has(self, stack, whole):
        """whole: with the native frames."""
        ids = tuple(self.ids.get(f, -1) for f in stack)
        # Making a generator begins to run it.
        return ids in self.stacks or (len(ids) > 1 and stack[0] in self.made and ids[1:] in self.stacks)

    def own(self, frames):
        """Those of a profile's frames that are compared."""
        return frames

    def why_not(self, stack):
        """Why a stack that is not in the set is none of the walk's: "" if it is one."""
        return ""

    MOST = {}

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


class Node:
    def __init__(self, path, version, test):
        self.path, self.version = path, version
        self.comm = "rt_%s_js%d" % (test, version[0])
        self.what = f"{path} ({'.'.join(map(str, version))})"


def nodes(test):
    """The Nodes of this machine: of PATH, and those that $PYRRHA_NODES names, between colons; each major version once. test: a short name of it."""
    found = {}
    for name in [shutil.which("node"), *os.environ.get("PYRRHA_NODES", "").split(":")]:
        if not name or not os.path.exists(name):
            continue
        path = os.path.realpath(name)
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)\s*", said)
        if version and not any(n.version[0] == int(version[1]) for n in found.values()):
            found[path] = Node(path, tuple(map(int, version.groups())), test)
    if not found:
        raise Skip("no node")
    return list(found.values())


def node_program(env, node, script, *args, flags=(), **more):
    """A fixture at work, under the node's name."""
    link = env.path(node.comm)
    if not os.path.islink(link):
        os.symlink(node.path, link)
    folder = os.path.join(FIXTURES, "v8")
    return Process(env, f"{script}-{node.comm}", [link, *flags, "--require", os.path.join(folder, "named.js"), os.path.join(folder, script), *args],
                   **more)


class NodeStacks:
    """As TrueStacks, of what oracle.js says. The innermost function may be at any of its lines."""

    def __init__(self, path, version):
        with open(path, encoding="utf-8") as f:
            said = json.load(f)
        self.file = next(f[1] for f in said["frames"] if f[0] == "work")
        with open(self.file, encoding="utf-8") as f:
            text = f.read().split("\n")
        self.made = {m[1]: n for n, line in enumerate(text, 1) for m in [re.match(r"(?:async )?function\* (\w+)", line)] if m}
        self.loops = {n for n, line in enumerate(text, 1) if re.match(r" *for \(", line)} if version[0] >= 22 else set()
        frames = [(self.in_profiles(name, text, line, version), file, line) for name, file, line in said["frames"]]
        self.stacks, self.begins, self.chains, self.ends = {}, set(), {}, set()
        for ids, lines in zip(said["stacks"], said["lines"]):
            key = self.key([frames[i] for i in ids])
            self.stacks.setdefault(key, set()).update(lines)
            self.begins.update(key[:n] for n in range(1, len(key) + 1))
            self.chains.setdefault(tuple(f[0] for f in key), set()).add(key)
            self.ends.update((key[n][0], *key[n + 1:]) for n in range(1, len(key)))
        self.between = [["onSort", "Builtins_ArrayTimSort", "arrays"]]
        self.below, self.deep = [], "deep"

    @staticmethod
    def in_profiles(name, text, line, version):
        """The name as V8's own profiles (--cpu-prof) have it: none for a method whose name is computed; the class's for what sets its fields."""
        if name == "<instance_members_initializer>" and version[0] >= 22:
            return next(m[1] for n in range(line, 0, -1) for m in [re.match(r"class (\w+)", text[n - 1])] if m)
        return "(anonymous)" if name.startswith("[") else name

    @staticmethod
    def key(stack):
        return (stack[0][:2], *stack[1:])

    def own(self, frames):
        """Without Node's own functions that call the program, or that it calls; and what recursion repeats but once, as the oracle goes but
        two deep. What Node does on its own is [] then."""
        at = [i for i, f in enumerate(frames) if f[1] == self.file]
        out = []
        for f in frames[at[0]:at[-1] + 1] if at else ():
            if f[0] != self.deep or out[-2:] != [f, f]:
                out.append(f)
        return out

    def has(self, stack, whole):
        if not stack:
            return self.no_function_left_out(whole)
        if stack[0][2] in self.stacks.get(self.key(stack), ()):
            return True
        # Making a generator begins to run it.
        return self.made.get(stack[0][0]) == stack[0][2] and len(stack) > 1 and self.has(stack[1:], whole)

    @staticmethod
    def no_function_left_out(whole):
        """Whether a stack without a function of the program can be: what the trampolines of calls have called is there, a function or builtin."""
        return all(kind != "native" or name not in ("Builtins_JSEntryTrampoline", "Builtins_InterpreterEntryTrampoline") or
                   whole[i][0] == "v8" or whole[i][1].startswith(("Builtins_", "construct_stub"))
                   for i, (kind, name, _, _) in enumerate(whole[1:]))

    def why_not(self, stack):
        """What V8's tables do not have (docs/runtimes.md): "" if that is not why a stack is outside of the set."""
        if self.key(stack) in self.stacks and stack[0][2] == 0:
            return "no line"
        for key in self.chains.get(tuple(f[0] for f in stack), ()):
            if stack[0][2] in self.stacks[key] and all(f == k or f[2] in self.loops for f, k in zip(stack[1:], key[1:])):
                return "loop"
        if all(f[2] for f in stack[1:]) and any((stack[n][0], *stack[n + 1:]) in self.ends for n in range(1, len(stack))):
            return "other place"
        return ""

    # Shares of the samples, beyond two of these.
    MOST = {"no line": 0.005, "loop": 0.01, "other place": 0.002}

    def begins_so(self, stack):
        return not stack or self.key(stack) in self.begins


def start_node_stacks(env, node, *flags):
    """(process, its NodeStacks)."""
    said = env.path(f"stacks-{node.comm}.json")
    if not os.path.exists(said):
        subprocess.run([node.path, "--require", os.path.join(FIXTURES, "v8", "oracle.js"), os.path.join(FIXTURES, "v8", "closed.js")],
                       env={**os.environ, "ORACLE_TO": said}, check=True, timeout=180, stdout=subprocess.DEVNULL)
    return node_program(env, node, "closed.js", "workers", flags=flags), NodeStacks(said, node.version)


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
        self.wrong, self.misplaced, self.marks, self.excused = {}, {}, {}, {}

    def take(self, sampled):
        for stack, n in sampled.stacks:
            self.take_stack(stack, n)

    def take_stack(self, stack, n):
        frames = self.true.own([f[1:] for f in stack if f[0] == self.runtime])
        marks = [f[1] for f in stack if f[0] == "mark"]
        self.samples += n
        for m in marks:
            self.marks[m] = self.marks.get(m, 0) + n
        if any(m.startswith(f"[{self.runtime}:") for m in marks):
            self.nameless += n
            return
        deep = any(f[0] == self.true.deep for f in frames)
        right = self.true.begins_so(frames) if marks else self.true.has(frames, stack)
        why_not = "" if right or marks else self.true.why_not(frames)
        if why_not:
            key = tuple(stack)
            of = self.excused.setdefault(why_not, {})
            of[key] = of.get(key, 0) + n
        elif not right:
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
        """Of those without a mark: lines that a runtime's own tables do not have cut no stack."""
        return (self.whole + sum(sum(of.values()) for of in self.excused.values())) / max(1, self.samples - self.deep)

    def text(self):
        return (f"{self.samples} samples, {sum(self.wrong.values())} outside of the set of {len(self.true.stacks)}, {self.share_whole():.2%} whole, "
                f"{self.deep} too deep, {self.cut} cut, {self.nameless} without a name, {self.between} through native code, "
                f"{sum(self.misplaced.values())} of them misplaced, {self.below} in it; marks: {self.marks}" +
                "".join(f"; {why}: {sum(of.values())}" for why, of in sorted(self.excused.items())))

    @staticmethod
    def listed(stacks, most=4):
        return "".join(f"\n{n} samples:" + "".join(f"\n    {kind:8} {name} {file}:{line}" for kind, name, file, line in s)
                       for s, n in sorted(stacks.items(), key=lambda x: -x[1])[:most])

    def judge(self, what, least_whole):
        print(f"{what}: {self.text()}", flush=True)
        check(not self.wrong, f"{what}: stacks outside of the true set: {self.text()}{self.listed(self.wrong)}")
        for why, of in self.excused.items():
            check(sum(of.values()) <= 2 + self.samples * self.true.MOST[why], f"{what}: {why}: {self.text()}{self.listed(of)}")
        check(not self.misplaced, f"{what}: native frames are not where they were called{self.listed(self.misplaced)}")
        check(self.share_whole() >= least_whole, f"{what}: {self.text()}")
        if self.true.between and self.samples >= 3000:  # one in a hundred is there: a few hundred samples may have none
            check(self.between > 0 and self.below > 0, f"{what}: no sample through the extension: {self.text()}")
