# SPDX-License-Identifier: Apache-2.0
"""A queue of remote-write, read by what docs/format/remote.md says of it and by nothing else."""
import os
import re

from reader import mix
from rocks import xxh3
from values import Bad, Bytes, unfolded

ALL = (1 << 64) - 1


class Segment:
    """.samples: [(offset of the block, index in it, labels, ms, bits)]"""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        head = Bytes(data[:40])
        if head.take(8) != b"pyrrhaq1":
            raise Bad(f"{path}: no segment")
        self.sequence, self.number, self.before = head.u64(), head.u64(), head.u64()
        if head.u64() != xxh3(data[:32]) or int(re.fullmatch(r"(\d{10,})\.segment", os.path.basename(path))[1]) != self.sequence:
            raise Bad(f"{path}: its header")
        self.series, self.samples, self.last, complete, rest = [], [], self.number, True, Bytes(data)
        rest.take(40)
        while rest.left():
            at = rest.at
            if rest.u32() != 0xb10cf10a:
                raise Bad(f"{path}: no block at {at}")
            size, checksum = rest.u32(), rest.u64()
            payload = rest.take(size)
            if checksum != xxh3(payload, mix(self.sequence) + at & ALL):
                raise Bad(f"{path}: the block at {at} fails its checksum")
            self.last, complete = self.block(at, Bytes(payload))
        if not complete:
            raise Bad(f"{path}: it ends within a commit")

    def block(self, at, b):
        number, flags, first = b.varint(), b.u8(), b.varint()
        if flags > 1 or first != len(self.series) or number < self.last:
            raise Bad(f"block at {at}: flags {flags}, {first} series before, number {number}")
        for _ in range(b.varint()):
            self.series.append(tuple((b.take(b.varint()).decode(), b.take(b.varint()).decode()) for _ in range(b.varint())))
        t = 0
        for i in range(b.varint()):
            series = self.series[b.varint()]
            t += unfolded(b.varint())
            self.samples.append((at, i, series, t, b.u64()))
        if b.left():
            raise Bad(f"block at {at}: {b.left()} bytes more")
        return number, flags & 1


class Queue:
    """.waiting: [(labels, ms, bits)] of what was not sent; .under_way: how many of them were about to be, .parts: by how many requests."""

    def __init__(self, path):
        names = sorted(n for n in os.listdir(path) if n.endswith(".segment"))
        segments = [Segment(os.path.join(path, n)) for n in names]
        if set(os.listdir(path)) - set(names) - {"position", "position.new"}:
            raise Bad(f"{path}: {os.listdir(path)}")
        for a, b in zip(segments, segments[1:]):
            if b.before != a.before + len(a.samples) or b.number != a.last:
                raise Bad(f"segment {b.sequence}: {b.before} samples before it, number {b.number}")
        self.last = segments[-1].last
        samples = [(s.sequence, *x) for s in segments for x in s.samples]
        at, until, self.parts = (0, 0, 0, segments[0].before), (0, 0, 0, segments[0].before), 0
        if os.path.exists(os.path.join(path, "position")):
            with open(os.path.join(path, "position"), encoding="ascii") as f:
                text = f.read()
            m = re.fullmatch(r"(pyrrha-remote-position 1\nat (\d+) (\d+) (\d+) (\d+)\nuntil (\d+) (\d+) (\d+) (\d+) parts (\d+)\n)checksum ([0-9a-f]{16})\n", text)
            if not m or int(m[11], 16) != xxh3(m[1].encode()):
                raise Bad(f"{path}/position: {text}")
            at, until, self.parts = tuple(map(int, m.group(2, 3, 4, 5))), tuple(map(int, m.group(6, 7, 8, 9))), int(m[10])
        for place in (at, until):
            if place[3] - segments[0].before != sum(s[:3] < place[:3] for s in samples):
                raise Bad(f"{path}/position: {place}")
        self.waiting = [s[3:] for s in samples if s[:3] >= at[:3]]
        self.under_way = until[3] - at[3]
