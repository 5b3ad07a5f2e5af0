# SPDX-License-Identifier: Apache-2.0
"""The source files that the lint programs read, and C text without its comments and strings."""
import argparse
import os
import re
import subprocess
import sys

GENERATED = re.compile(r"(\.pb-c\.[ch]|\.skel\.h|(^|/)vmlinux\.h|(^|/)package-lock\.json|(^|/)go\.sum|"
                       r"^configure|^aclocal\.m4|^config\.h\.in|(^|/)Makefile\.in)$")
NOT_OURS = {".git", "node_modules", "autom4te.cache", "build-aux", "m4", "__pycache__", "dist", "prebuilt"}


def root():
    """--root DIR, else the source tree that `make check` names, else the one this file lies in."""
    p = argparse.ArgumentParser()
    p.add_argument("--root", default=os.environ.get("top_srcdir") or os.path.join(os.path.dirname(__file__), "..", ".."))
    return os.path.abspath(p.parse_args().root)


def git_files(top):
    """Paths relative to top that git knows or would add; None: this is no clone."""
    if not os.path.exists(os.path.join(top, ".git")):
        return None
    out = subprocess.run(["git", "-C", top, "ls-files", "-z", "-co", "--exclude-standard"], capture_output=True)
    if out.returncode != 0:
        return None
    return [n for n in sorted(set(out.stdout.decode().split("\0")) - {""}) if os.path.isfile(os.path.join(top, n))]


def files(top):
    """Paths relative to top: what git knows or would add; in an unpacked tarball everything that was not built."""
    names = git_files(top)
    if names is not None:
        return [n for n in names if not GENERATED.search(n)]
    found = []
    for d, dirs, names in os.walk(top):
        built = d != top and os.path.exists(os.path.join(d, "config.status"))
        dirs[:] = [] if built else sorted(n for n in dirs if n not in NOT_OURS)
        found += [] if built else [os.path.relpath(os.path.join(d, n), top) for n in sorted(names)]
    return [n for n in found if not GENERATED.search(n) and not os.path.islink(os.path.join(top, n))]


def read(top, name):
    with open(os.path.join(top, name), encoding="utf-8", errors="replace") as f:
        return f.read()


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """C text with comments and literals blanked; line numbers stay."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return _TOKEN.sub(blank, text)


def uncommented(text):
    """C text with comments blanked, literals as they are."""
    return _TOKEN.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", " ", m.group(0)), text)


def finish(what, problems):
    """Prints what was found and ends the program: 1 if anything was."""
    for p in problems:
        print(p)
    print(f"{what}: {len(problems)} problem(s)" if problems else f"{what}: clean")
    sys.exit(1 if problems else 0)
