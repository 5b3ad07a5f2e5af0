# SPDX-License-Identifier: Apache-2.0
"""Profiles as large as the largest that are met: random walks through a program of many functions, whose names look like those of
a Go program. The same seed is the same program; another round draws other values for its stacks."""
import bisect
import itertools
import random

from pprof_file import _encoded, message

WORDS = ("alloc batch block buffer cache chunk client codec commit config conn cursor decode digest entry encode event field filter flush frame "
         "group handle header index iter label limit list lock merge meta node page parse path peer plan pool proto query queue range read record "
         "region render reply retry route scan schema seal select series shard sign slot sort span stage state store stream table task token trace "
         "tree update value vector watch window worker write").split()
HOSTS = ("github.com/acme/%s", "github.com/example-org/%s", "google.golang.org/%s", "go.opentelemetry.io/%s", "example.com/internal/%s", "%s")


def names(n, dice):
    """(function, file, line of its start) of n functions in packages of about twenty."""
    out = []
    while len(out) < n:
        package = dice.choice(HOSTS) % "/".join(dice.sample(WORDS, dice.randint(1, 3)))
        types, files = dice.sample(WORDS, 3), dice.sample(WORDS, 4)
        for _ in range(dice.randint(5, 35)):
            verb = dice.choice(WORDS) + dice.choice(WORDS).capitalize()
            form = dice.choice(("%s.(*%s).%s", "%s.%s.%s", "%s.%s%s", "%s.%s%s.func1"))
            out.append((form % (package, dice.choice(types).capitalize(), verb.capitalize()), f"/go/src/{package}/{dice.choice(files)}.go", dice.randint(10, 1500)))
    return out[:n]


class Program:
    """stacks: lists of functions from the root on, whose distinct beginnings are `nodes`."""

    def __init__(self, nodes, functions, seed=1):
        dice = random.Random(seed)
        self.functions = names(functions, dice)
        callees = [[dice.randrange(functions) for _ in range(dice.randint(2, 9))] for _ in range(functions)]
        weights = [list(itertools.accumulate(1 / (i + 1) ** 1.5 for i in range(len(c)))) for c in callees]
        self.stacks, tree, self.nodes = [[dice.randrange(functions)]], {}, 0
        while self.nodes < nodes:
            # most stacks leave an earlier one near its end
            before = dice.choice(self.stacks)
            stack = before[:max(1, len(before) - int(dice.expovariate(0.45)))]
            while len(stack) < 80:
                w = weights[stack[-1]]
                stack.append(callees[stack[-1]][bisect.bisect(w, dice.random() * w[-1])])
                if dice.random() < 0.4:
                    break
            at = tree
            for f in stack:
                if f not in at:
                    at[f] = {}
                    self.nodes += 1
                at = at[f]
            self.stacks.append(stack)

    def profile(self, end_ns, round_=0, seconds=10, type_=("cpu", "nanoseconds"), unit=10_000_000, line=3):
        """A pprof file of what ran before that time: of each stack a few samples of `unit`, more of some."""
        dice = random.Random(round_ + 77)
        texts = [""]
        index = {"": 0}

        def text(s):
            if s not in index:
                index[s] = len(texts)
                texts.append(s)
            return index[s]

        period = message((1, text("cpu")), (2, text("nanoseconds")))
        out = bytearray(message((1, message((1, text(type_[0])), (2, text(type_[1]))))))
        out += message((3, message((1, 1), (2, 0x400000), (3, 0x4000000), (5, text("/usr/bin/service")))))
        for i, (name, file, start) in enumerate(self.functions):
            out += message((5, message((1, i + 1), (2, text(name)), (3, text(name)), (4, text(file)), (5, start))))
            for k in range(line):  # a function is left at some of its lines
                out += message((4, message((1, i * line + k + 1), (2, 1), (3, 0x400000 + (i * line + k) * 16), (4, message((1, i + 1), (2, start + 2 + 7 * k))))))
        place = [_encoded(i + 1) for i in range(len(self.functions) * line)]
        length = [_encoded(i) for i in range(1000)]
        parts = []
        for n, stack in enumerate(self.stacks):
            places = b"".join([place[f * line + (n + d) % line] for d, f in enumerate(stack)][::-1])
            value = _encoded(unit * int(dice.paretovariate(1.2)))
            both = b"".join((b"\x0a", length[len(places)], places, b"\x12", length[len(value)], value))
            parts += (b"\x12", length[len(both)], both)
        out += b"".join(parts)
        for t in texts:
            out += message((6, t.encode()))
        out += message((9, end_ns - seconds * 10**9), (10, seconds * 10**9), (11, period), (12, 10_000_000))
        return bytes(out)
