# SPDX-License-Identifier: Apache-2.0
"""Code objects of every shape, told on standard output for code_test.c, which reads them from outside while this program waits:
S SIZE-OF-THE-TYPE; for each, C ADDRESS FIRST-LINE NAME FILE (hex); L OFFSET LINE for each instruction (0: it has none); E."""
import asyncio
import dis
import gc
import inspect
import json
import os
import sys
import types

SOURCE = '''
def plain(a, b=2, *c, d=4, **e):
    x = a + b

    return x * d
def decorate(f):
    return f
class Spam:
    """A docstring."""
    attribute = [i * i for i in range(4)
                 if i]
    def method(self):
        def inner():
            return lambda y: (
                y +
                self.attribute[0])
        return inner
    @property
    @decorate
    def decorated(self):
        return {k: v
                for k, v in zip("ab", "cd")}
    class Nested:
        @staticmethod
        def deep(x):
            try:
                return x(
                    1,
                    2,
                )
            except (ValueError, TypeError) as e:
                raise RuntimeError from e
            finally:
                print(
                    "done")
async def coroutine(z):
    async with z as y:
        async for i in y:
            await i
        return [j async for j in y if await j]
def generator():
    while True:
        got = yield
        if not got:
            continue
        yield from (
            t for t in got)
%s = lambda: 0
def %s():
    return 1; return 2
'''


def long_function(gap):
    """Lines apart by more than what a byte says, forwards and, in its last statement, backwards."""
    lines = ["def long_%d(a):" % gap]
    for i in range(400):
        lines += ["    a = a + %d" % i] + [""] * (gap if i % 50 == 49 else 0)
    lines += ["    return a.b(" + "\n" * gap + "        a.c(a" + "\n" * (gap + 1) + "), a)"]
    return "\n".join(lines)


def wide_function():
    """Instructions of one line that take more bytes than a byte says."""
    return "def wide(a):\n    return (" + " + ".join("a[%d].b" % i for i in range(500)) + ")\nwide_2 = lambda a: [" + ", ".join(
        "a(%d)" % i for i in range(900)) + "]"


class Text(str):
    """Not compact, as far as there is such a thing."""


def collect(code, seen, found):
    if id(code) in seen:
        return
    seen.add(id(code))
    found.append(code)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            collect(c, seen, found)


def lines_of(code):
    """The line of each unit of two bytes; where a function begins without one, its first."""
    lines, begun = {}, False
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            begun = begun or line is not None
            for at in range(start, end, 2):
                lines[at] = (line or 0) if begun else code.co_firstlineno
        return lines
    starts, line = dict(dis.findlinestarts(code)), code.co_firstlineno
    for at in range(0, len(code.co_code), 2):
        line = starts.get(at, line)
        lines[at] = line
    return lines


def hexed(s):
    return "".join("\ufffd" if 0xd800 <= ord(c) < 0xe000 or ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 else c for c in s).encode().hex() or "-"


def main():
    out, seen, found = [], set(), []
    for names, name in ((("other", "last"), "plain.py"), (("\xe9t\xe9", "na\xefve"), "caf\xe9.py"), (("\u540d\u524d", "\u03b1"), "\u540d.py"),
                        (("\U00020000", "x\U0002a6d6"), "\U0001f40d.py"), (("p", "q"), os.fsdecode(b"bytes\xff.py")), (("r", "s"), ""), (("t", "u"), "\x1b[2J\n\x9b.py")):
        collect(compile(SOURCE % names, name, "exec"), seen, found)
    for gap in (0, 1, 127, 128, 129, 255, 256, 300, 1000, 40000):
        collect(compile(long_function(gap), "/long/%d.py" % gap, "exec"), seen, found)
    collect(compile(wide_function(), "/wide.py", "exec"), seen, found)
    collect(compile("1", "/" + "d" * 4000, "eval"), seen, found)
    if hasattr(types.CodeType, "replace"):
        collect(found[0].replace(co_filename=Text("/sub/class.py"), co_firstlineno=7), seen, found)
        collect(found[0].replace(co_filename=Text("/sub/\u540d.py"), co_firstlineno=1 << 30), seen, found)
    for f in gc.get_objects():
        if isinstance(f, types.FunctionType):
            collect(f.__code__, seen, found)
    out.append("S %d" % types.CodeType.__basicsize__)
    for code in found:
        name = getattr(code, "co_qualname", code.co_name)
        out.append("C %d %d %s %s" % (id(code), code.co_firstlineno, hexed(name), hexed(code.co_filename)))
        out += ["L %d %d" % item for item in sorted(lines_of(code).items())]
    out.append("E\n")
    sys.stdout.write("\n".join(out))
    sys.stdout.flush()
    sys.stdin.read()
    return found, asyncio, inspect, json


main()
