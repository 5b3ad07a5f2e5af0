# SPDX-License-Identifier: Apache-2.0
"""The fences of the pages: which are commands of a shell, and what their info strings say about how they are run.

    ```sh test=NAME            the fences of one NAME on a page are run by one shell, in their order
    ```sh norun="REASON"       it is not run, and this is why

A fence of commands has one of both. More words for fences with test=NAME; the first two count on any fence of that NAME:

    at=source                  the shell begins in the folder of the source, where build/ is; without it in an empty one
    demo=ADDRESS:PORT[,...]    the demo program serves profiles there; the address is one of this machine, whatever it is
    setup="COMMANDS"           these run before the fence; a reader does not see them
    background[=PORT]          its commands stay in the foreground for a reader: they run beside the later fences. Waits until the port is open
    retry                      run again, in a shell of its own, until it succeeds: what it asks for takes a while to be there
    slow                       only ./check --all runs this NAME, as all of most pages (QUICK in test_docs.py has the others)

Any other fence with test=NAME file=FILE is written to that file when its turn has come. A fence with the word `check`
after a fence of commands is what these print: each of its lines is among them, in this order. Numbers, long hexadecimal ones too, and blanks may differ; `...`
and `…` stand for anything."""
import os
import re

from harness import TOP

SHELLS = {"sh", "bash", "shell", "console", "zsh", "shell-session", "shellsession"}
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})(.*)$")
MARK = re.compile(r'([a-z]+)(?:=("[^"]*"|\S+))?(?=\s|$)\s*')
KNOWN = {"test", "norun", "at", "demo", "setup", "background", "retry", "slow", "file", "check"}
# What a line of commands begins with: a block without a name that has such a line is a fence of a shell that does not say so.
COMMAND = re.compile(r"^\s*(\$ .*|(sudo|pyrrha|pyrrha-agent|pyrtool|kubectl|docker|docker-compose|podman|systemctl|journalctl|apt-get|apt|git|curl|promtool|make|"
                     r"\./\w\S*|build/\w\S*|deploy/\w\S*|go|cd|cp|mkdir|openssl|npm|autoreconf)( +\S.*)?)$")
STAND_INS = {"docker", "docker-compose", "kubectl", "systemctl", "systemd-analyze", "journalctl", "apt-get", "apt", "sysctl"}
LEFT_OUT = ("tests/fixtures/", "tests/oracle/", ".github/")  # texts of others


class Fence:
    def __init__(self, page, line, info, body):
        self.page, self.line, self.body = page, line, body
        words = info.strip().split(None, 1)
        self.name, rest = (words[0], words[1] if len(words) > 1 else "") if words else ("", "")
        self.marks = {m.group(1): (m.group(2) or "").strip('"') for m in MARK.finditer(rest)}
        self.understood = not MARK.sub("", rest).strip() and not set(self.marks) - KNOWN and "`" not in info  # which ends such a fence for Markdown
        self.after = None  # the fence of commands before it, if it is their output

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def is_shell(self):
        return self.name.lower() in SHELLS

    @property
    def test(self):
        return self.marks.get("test")

    def programs(self):
        """First words of its commands, roughly."""
        text = re.sub(r"\\\n", " ", re.sub(r"(^|\s)#.*", "", self.marks.get("setup", "") + "\n" + "\n".join(self.body)))
        return {w for w in re.findall(r"(?:^|[|;&(]|\bdo\b|\bsudo\b)\s*(?:sudo\s+)?(?:\w+=\S+\s+)*([\w./-]+)", text, re.M)}

    def problem(self):
        """What is wrong with its marks; None if nothing is."""
        if self.is_shell:
            if ("test" in self.marks) == ("norun" in self.marks):
                return "a fence of commands has either test=NAME or norun=\"REASON\" after its name"
            if "norun" in self.marks and len(self.marks["norun"]) < 8:
                return "norun says no reason"
        elif not self.name and any(COMMAND.match(b) for b in self.body):
            return "commands in a block without a name: make it a fence of sh with test=NAME or norun=\"REASON\""
        if self.is_shell and self.name != "sh":
            return f"a fence of commands is called sh, not {self.name}"
        if ("test" in self.marks or "norun" in self.marks or "check" in self.marks) and not self.understood:
            return f"marks that nobody knows: {', '.join(sorted(set(self.marks) - KNOWN)) or 'malformed'}"
        if "check" in self.marks and not self.after:
            return "check: there is no fence before it that is run"
        if self.test is not None and not re.fullmatch(r"[a-z0-9][a-z0-9-]*", self.test):
            return f"test={self.test}: a name is made of small letters, digits and -"
        return None


def fences(page, text):
    """Of one page, also blocks that are indented; in their order."""
    found, opened, indented, before = [], None, [], ""
    for number, line in enumerate(text.split("\n") + [""], 1):
        m = FENCE.match(line)
        if opened:
            start, indent, mark, info, body = opened
            if m and m.group(2).startswith(mark) and not m.group(3).strip():
                found.append(Fence(page, start, info, body))
                opened = None
            else:
                body.append(line[len(indent):] if line.startswith(indent) else line.lstrip())
            continue
        block = re.match(r"^(?:\t| {4,})\S", line) and (indented or not before.strip())
        if m:
            opened = number, m.group(1), m.group(2), m.group(3), []
        elif block:
            indented.append((number, line))
        if indented and not block and line.strip():
            found.append(Fence(page, indented[0][0], "", [b for _, b in indented]))
            indented = []
        before = line
    if opened:
        found.append(Fence(page, opened[0], "unclosed", []))
    last = None
    for f in found:
        if "check" in f.marks:
            f.after = last
        else:
            last = f if f.is_shell and f.test else None
    return found


def pages(top=TOP):
    """Paths of all pages, below the folder of the source."""
    found = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(d for d in folders if d not in ("node_modules", "site", "LICENSES") and not (folder == top and d.startswith("build"))
                            and (d == ".github" or not d.startswith(".")))
        found += [os.path.relpath(os.path.join(folder, n), top) for n in sorted(names) if n.endswith(".md")]
    return [p for p in found if not p.startswith(LEFT_OUT)]


def all_fences(top=TOP):
    for page in pages(top):
        with open(os.path.join(top, page), encoding="utf-8") as f:
            yield from fences(page, f.read())


def page_tests(top=TOP):
    """name of a test -> its fences, in their order."""
    tests = {}
    for f in all_fences(top):
        name = (f.after or f).test
        if name is not None:
            page = re.sub(r"^docs/|\.md$", "", f.page)
            tests.setdefault(re.sub(r"\W", "_", f"{page}_{name}"), []).append(f)
    return tests
