# SPDX-License-Identifier: Apache-2.0
"""Nodes of this machine, and whether an agent's profile of a program has no other stacks than V8's own debugger says (tests/fixtures/runtimes/v8)."""
import json
import os
import re
import shutil
import subprocess

from harness import Process, Skip, check
from runtime_stacks import FIXTURES, Verdict


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
            last = max(lines)
            while text[last].strip() in ("}", "});"):  # the line behind the last one: there a function returns without a statement
                last += 1
            self.stacks.setdefault(key, set()).update(range(min(lines), last + 1))
            self.begins.update(key[:n] for n in range(1, len(key) + 1))
            self.chains.setdefault(tuple(f[0] for f in key), set()).add(key)
            self.ends.update((key[n][0], *key[n + 1:]) for n in range(1, len(key)))
        self.between = [["onSort", "Builtins_ArrayTimSort", "arrays"]]
        self.below = [["Builtins_ArrayTimSort", "arrays"], ["Builtins_ArrayMap", "arrays"], ["Builtins_StringPrototypeReplace", "strings"],
                      ["Builtins_GeneratorPrototypeNext", "drive"]]
        self.deep, self.also_between = "deep", ()

    @staticmethod
    def in_profiles(name, text, line, version):
        """The name as V8's own profiles (--cpu-prof) have it: none for a method whose name is computed; the class's for what sets its fields."""
        if name == "<instance_members_initializer>" and version[0] >= 22:
            return next(m[1] for n in range(line, 0, -1) for m in [re.match(r"class (\w+)", text[n - 1])] if m)
        return "(anonymous)" if name.startswith("[") else name

    @staticmethod
    def key(stack):
        return (stack[0][:2], *stack[1:])

    def own(self, stack):
        """Without Node's own functions that call the program, or that it calls; and what recursion repeats but once, as the oracle goes but
        two deep. What Node does on its own has none then. Builtins that were inlined (Promise, from Node 26 on) have a name and no file; the
        debugger does not show them."""
        at = [i for i, f in enumerate(stack) if f[0] == "v8" and f[2] == self.file]
        out, repeated = [], []
        for i, f in enumerate(stack):
            if f[0] != "v8":
                out.append(f)
            elif at and at[0] <= i <= at[-1] and (f[2] or f[1][0] == "(") and (f[1] != self.deep or repeated[-2:] != [f, f]):
                repeated.append(f)
                out.append(f)
        return out

    def has(self, stack):
        if not stack or stack[0][2] in self.stacks.get(self.key(stack), ()):
            return True
        # Making a generator begins to run it.
        return self.made.get(stack[0][0]) == stack[0][2] and len(stack) > 1 and self.has(stack[1:])

    @staticmethod
    def no_function_left_out(whole):
        """Whether a stack without a function of the program can be: what the trampolines of calls have called is there, a function or builtin."""
        return all(kind != "native" or name not in ("Builtins_JSEntryTrampoline", "Builtins_InterpreterEntryTrampoline") or
                   whole[i][0] in ("v8", "kernel") or whole[i][1].startswith(("Builtins_", "construct_stub"))
                   for i, (kind, name, _, _) in enumerate(whole[1:]))

    def why_not(self, stack):
        """What V8's tables do not have (docs/runtimes.md): "" if that is not why a stack is outside of the set."""
        if self.key(stack) in self.stacks and stack[0][2] == 0:
            return "no line"
        for key in self.chains.get(tuple(f[0] for f in stack), ()):
            if stack[0][2] in self.stacks[key] and all(f == k or (f[2] == 0 and f[:2] == k[:2]) for f, k in zip(stack[1:], key[1:])):
                return "no line"
        for key in self.chains.get(tuple(f[0] for f in stack), ()):
            if stack[0][2] in self.stacks[key] and all(f == k or f[2] in self.loops for f, k in zip(stack[1:], key[1:])):
                return "loop"
        if all(f[2] for f in stack[1:]) and any((stack[n][0], *stack[n + 1:]) in self.ends for n in range(1, len(stack))):
            return "other place"
        return ""

    # Shares of the samples, beyond two of these.
    MOST = {"no line": 0.003, "loop": 0.01, "other place": 0.001}

    def begins_so(self, stack):
        return not stack or self.key(stack) in self.begins


class NodeVerdict(Verdict):
    def __init__(self, true):
        super().__init__(true, "v8")
        self.excused = {}

    def take_stack(self, stack, n):
        own = self.true.own(stack)
        frames = [f[1:] for f in own if f[0] == "v8"]
        if any(f[0] == "mark" for f in own):
            super().take_stack(own, n)
        elif not frames and not self.true.no_function_left_out(stack):
            self.samples += n
            self.wrong[tuple(stack)] = self.wrong.get(tuple(stack), 0) + n
        elif self.true.has(frames) or not self.true.why_not(frames):
            super().take_stack(own, n)
        else:
            of = self.excused.setdefault(self.true.why_not(frames), {})
            self.samples += n
            self.whole += n
            of[tuple(stack)] = of.get(tuple(stack), 0) + n

    def text(self):
        return super().text() + "".join(f"; {why}: {sum(of.values())}" for why, of in sorted(self.excused.items()))

    def judge(self, what, least_whole):
        super().judge(what, least_whole)
        for why, of in self.excused.items():
            check(sum(of.values()) <= 2 + self.samples * self.true.MOST[why], f"{what}: {why}: {self.text()}{self.listed(of)}")


def start_node_stacks(env, node, *flags):
    """(process, its NodeStacks)."""
    said = env.path(f"stacks-{node.comm}.json")
    if not os.path.exists(said):
        subprocess.run([node.path, "--require", os.path.join(FIXTURES, "v8", "oracle.js"), os.path.join(FIXTURES, "v8", "closed.js")],
                       env={**os.environ, "ORACLE_TO": said}, check=True, timeout=180, stdout=subprocess.DEVNULL)
    return node_program(env, node, "closed.js", "workers", flags=flags), NodeStacks(said, node.version)
