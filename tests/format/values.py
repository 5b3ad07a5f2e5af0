# SPDX-License-Identifier: Apache-2.0
"""What docs/format/head.md and partition.md say of values, in Python: bytes in, lists and dicts out. Written from these
pages alone, so that what they leave out is found; nothing here is shared with the programs. Each function reads from a
Bytes; who calls looks whether anything is left of it."""
import collections
import struct

from rocks import xxh3


# Which of the ways to write something occurred: a test wants to have seen all of them.
SEEN = collections.Counter()


def saw(what, of):
    """of, counted as one of the ways to write what."""
    SEEN[f"{what} {of}"] += 1
    return of


class Bad(Exception):
    """These bytes are not what the documents say."""


def unfolded(n):
    return n >> 1 ^ -(n & 1)


class Bytes:
    """A cursor over what is being read."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def left(self):
        return len(self.data) - self.at

    def take(self, n):
        if n > self.left():
            raise Bad(f"{n} bytes wanted at {self.at}, {self.left()} are left")
        self.at += n
        return self.data[self.at - n:self.at]

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return int.from_bytes(self.take(4), "big")

    def u64(self):
        return int.from_bytes(self.take(8), "big")

    def varint(self):
        n = shift = 0
        while True:
            c = self.u8()
            n |= (c & 127) << shift
            shift += 7
            if c < 128:
                return n

    def zigzag(self):
        return unfolded(self.varint())

    def varints(self, n):
        return [self.varint() for _ in range(n)]

    def zigzags(self, n):
        return [self.zigzag() for _ in range(n)]

    def gap_list(self, n):
        return ascending(self.varints(n))


def ascending(gaps):
    """A gap is the distance to the element before, less one; the first is the element itself."""
    out, last = [], -1
    for gap in gaps:
        last += gap + 1
        out.append(last)
    return out


def sums_of(differences):
    out, last = [], 0
    for d in differences:
        last += d
        out.append(last)
    return out


def opened(value, seed):
    """(version, Bytes) of a value whose last 8 bytes are the checksum of the rest."""
    if len(value) < 9:
        raise Bad(f"a value of {len(value)} bytes")
    if xxh3(value[:-8], seed) != int.from_bytes(value[-8:], "big"):
        raise Bad("the checksum is another one")
    return value[0], Bytes(value[1:-8])


# ---- the head log ----

def samples(b):
    """[{series, stamp, stale, cover, ..., columns, values: a list per series}] of a record of samples."""
    out = []
    while b.left():
        series = b.varints(b.varint())
        p = {"series": series, "stamp": b.zigzag(), "flags": b.u8()}
        out.append(p)
        if p["flags"] & ~1:
            raise Bad(f"flags {p['flags']} of a profile")
        saw("log profile", p["flags"])
        if p["flags"]:
            continue
        p.update(cover=b.varint(), duration=b.varint(), period=b.zigzag(), interval=b.varint(), asked=b.varint())
        n = b.varint()
        p["columns"], p["values"] = b.gap_list(n), []
        for _ in series:
            p["values"].append(_sample_values(b, n, p["values"]))
    return out


def _sample_values(b, n, before):
    mode = saw("log values", b.u8())
    if mode == 0:
        return b.varints(n)
    if mode == 1:
        return b.zigzags(n)
    if mode != 2:
        raise Bad(f"mode {mode} of values")
    k, f = b.varint(), b.zigzag()
    return [v * f for v in before[k]]


def _mapping(b, _own):
    return dict(zip(("start", "size", "offset", "file", "build_id", "flags"), b.varints(5) + [b.u8()]))


def _function(b, _own):
    name, system, file = b.varints(3)
    return {"name": name, "system": system, "file": file, "start_line": b.zigzag()}


def _location(b, _own):
    l = {"address": b.varint(), "mapping": b.varint() - 1}
    n = b.varint()
    l["folded"], l["lines"] = n & 1, [(b.varint() - 1, b.zigzag(), b.zigzag()) for _ in range(n >> 1)]
    return l


def _node(b, own):
    return {"parent": own - 1 - b.varint(), "location": b.varint()}


def _label_set(b, _own):
    out = []
    for _ in range(b.varint()):
        key = b.varint()
        saw("label is a number", key & 1)
        out.append((key >> 1, b.zigzag(), b.varint()) if key & 1 else (key >> 1, b.varint()))
    return out


def _series(b, _own):
    kind = saw("series", b.u8())
    s = {"kind": kind & 0x7f, "delta": kind >> 7, "type": b.varints(5) if kind else None}
    s["labels"] = [b.varints(2) for _ in range(b.varint())]
    return s


TABLES = {1: lambda b, _own: b.take(b.varint()), 2: _mapping, 3: _function, 4: _location, 5: _node, 6: lambda b, _own: b.varint(),
          7: _label_set, 8: lambda b, _own: (b.varint(), b.varint()), 9: _series}


def symbols(b):
    """[(table, first id, entries)]."""
    out, last = [], 0
    while b.left():
        table, first, n = b.u8(), b.varint(), b.varint()
        if table not in TABLES or table <= last:
            raise Bad(f"table {table} after table {last}")
        last = saw("symbols", table)
        out.append((table, first, [TABLES[table](b, first + i) for i in range(n)]))
    return out


class Delta(Bytes):
    last = 0

    def varint(self):
        self.last = self.last + self.zigzag_alone() & (1 << 64) - 1
        return self.last

    def zigzag_alone(self):
        return unfolded(Bytes.varint(self))


class Recent(Bytes):
    highest = 0

    def varint(self):
        n = Bytes.varint(self)
        n = self.highest + 2 - n if n else self.highest + 2 + Bytes.varint(self)
        self.highest = max(n, self.highest)
        return n


class Row(Bytes):
    """Reads a row's fields as if they lay one behind the other: each from its stream. order is a row's streams; the last
    `again` of them repeat."""

    def __init__(self, streams, again):
        self.streams, self.again, self.field = streams, again, 0

    def stream(self):
        n = len(self.streams)
        at = self.field if self.field < n else n - self.again + (self.field - n) % self.again
        self.field += 1
        return self.streams[at]

    def varint(self):
        return self.stream().varint()

    def u8(self):
        return self.stream().u8()


# Of a table in columns: the streams, and how many of them are of each line of a location.
COLUMNS = {2: ((Delta, Bytes, Bytes, Delta, Delta, Bytes), 0), 3: ((Delta, Delta, Delta, Bytes), 0),
           4: ((Delta, Delta, Bytes, Delta, Delta, Bytes), 3), 5: ((Bytes, Delta), 0), 6: ((Delta,), 0), 8: ((Delta, Recent), 0)}


def packed_symbols(b):
    """As symbols(), of version 2."""
    out, last = [], 0
    while b.left():
        table, first, n = b.u8(), b.varint(), b.varint()
        if table not in TABLES or table <= last:
            raise Bad(f"table {table} after table {last}")
        last = saw("packed symbols", table)
        kinds, again = COLUMNS.get(table) or {1: ((Bytes, Bytes, Delta), 0), 7: ((Bytes, Bytes, Delta), 0), 9: ((Bytes,), 0)}[table]
        streams = [kind(b.take(b.varint())) for kind in kinds]
        out.append((table, first, list(_packed_rows(table, first, n, streams, again))))
        for i, s in enumerate(streams):
            if s.left():
                raise Bad(f"{s.left()} bytes are left of stream {i} of table {table}")
    return out


def _packed_rows(table, first, n, streams, again):
    if table == 1:
        return (_packed_string(*streams) for _ in range(n))
    if table == 7:
        return _packed_label_sets(n, *streams)
    if table == 9:
        return (_series(streams[0], first + i) for i in range(n))
    return (TABLES[table](Row(streams, again), first + i) for i in range(n))


def _packed_string(lengths, text, numbers):
    n = lengths.varint()
    saw("string is a number", int(n == 0))
    return text.take(n - 1) if n else str(numbers.varint()).encode()


def _packed_label_sets(n, which, templates, values):
    key, known = templates.varint(), []
    saw("key of templates", key & 1)
    for _ in range(n):
        t = which.varint()
        saw("template is known", int(t > 0))
        if not t:
            known.append([_template_label(templates, key) for _ in range(templates.varint())])
        yield [(label[0], values.varint()) if label[1] is None else label for label in known[t - 1 if t else -1]]


def _template_label(b, key):
    k = b.varint()
    if k == key:
        return k >> 1, None
    return (k >> 1, b.zigzag(), b.varint()) if k & 1 else (k >> 1, b.varint())


def fact(b):
    kind = saw("fact", b.u8())
    if kind == 1:
        part, after, until = b.varint(), b.zigzag(), b.zigzag()
        return {"fact": "delete", "part": part, "after": after, "until": until, "series": b.gap_list(b.varint())}
    if kind == 2:
        at, pairs = -1, {}
        for _ in range(b.varint()):
            at += b.varint() + 1
            pairs[at] = b.varint()
        return {"fact": "names", "pairs": pairs}
    if kind in (3, 4):
        return {"fact": {3: "gone", 4: "void"}[kind]}
    raise Bad(f"a fact of type {kind}")


def head_floats(b):
    """[(series, stamp, bits)]."""
    out = []
    while b.left():
        out.append((b.varint(), b.zigzag(), b.u64()))
    return out


# ---- partitions ----

def header(b, _version):
    h = dict(zip(("first", "last", "samples"), b.varints(3)))
    h["parts"] = b.varints(b.varint())
    h["origin"] = b.varint() if b.left() else None
    h["lost"] = b.varint() if b.left() else 0
    return h


def index(b, version):
    out, at = {"series": []}, -1
    for _ in range(b.varint()):
        n = b.varint()
        at += (n >> 1) + 1
        first, length = b.varint(), b.varint()
        out["series"].append({"id": at, "floats": n & 1, "first": first, "last": first + length,
                              "aggregate": b.varint() - 1 if version > 1 else -1})
    out["aggregates"] = b.varint() if version > 1 else 0
    return out


def _multiple(b):
    return {"of": b.varint(), "factor": b.zigzag()}


def _column_of_totals(b, n):
    same = saw("same", b.u8())
    if same > 1:
        raise Bad(f"{same} where 0 or 1 says whether all are the same")
    return [b.zigzag()] * n if same else sums_of(b.zigzags(n))


def totals(b, _version):
    """A list per field, an element per profile."""
    mode = saw("totals", b.u8())
    if mode:
        return _multiple(b)
    n = b.varint()
    t = {name: _column_of_totals(b, n) for name in ("interval", "asked", "duration", "period", "cover")}
    t["stamp"], step = [], t["interval"][0] if n else 0
    for i, d in enumerate(b.zigzags(n)):
        step = step + d if i else step
        t["stamp"].append(t["stamp"][-1] + step if i else d)
    t["total"] = b.zigzags(n)
    t["stale"] = sums_of(b.varints(b.varint()))
    saw("stale markers", int(bool(t["stale"])))
    return t


def _escapes(b):
    return iter(b.varints(b.varint()))


def _unescaped(data, escapes):
    saw("escaped", int(255 in data))
    return [next(escapes) if c == 255 else c for c in data]


def _used_up(*escapes):
    left = sum(len(list(e)) for e in escapes)
    if left:
        raise Bad(f"{left} escapes that nothing stands for")


def rollup(b, version):
    """{columns, sums}."""
    mode = saw("rollup", b.u8())
    if mode == 1:
        return _multiple(b)
    if mode > 2 or mode == 2 and version < 2:
        raise Bad(f"mode {mode} of a rollup of version {version}")
    n = b.varint()
    if mode == 0:
        columns, how = b.gap_list(n), saw("sums", b.u8())
        if how > 1:
            raise Bad(f"sums as {how}")
        return {"columns": columns, "sums": b.zigzags(n) if how else [v + 1 for v in b.varints(n)]}
    gaps, sums = _escapes(b), _escapes(b)
    out = {"columns": ascending(_unescaped(b.take(n), gaps)), "sums": [v + 1 for v in _unescaped(b.take(n), sums)]}
    _used_up(gaps, sums)
    return out


def names(b, version):
    """{stacks: [(frames from the root, labels)], places: [a stack's number + 1 or 0, by column of the day]}. A frame is (binary or None, address, lines)."""
    if b.u8() != saw("names", version):
        raise Bad("names of another version")
    late = b.varint()
    strings = [b"", *(b.take(b.varint()) for _ in range(b.varint()))]
    functions = [None, *((strings[b.varint()], strings[b.varint()], b.zigzag()) for _ in range(b.varint()))]
    locations = []
    for _ in range(b.varint()):
        file, lines = b.varint(), [(functions[b.varint()], b.zigzag()) for _ in range(b.varint())]
        locations.append((strings[file - 1] if file else None, b.varint(), tuple(lines)))
    n, levels = b.varint(), None
    levels = Bytes(b.take(b.varint()))
    path, nodes = [], [()]
    for _ in range(n):
        up = levels.varint()
        if up > len(path):
            raise Bad("a node above the root")
        path[len(path) - up:] = [locations[b.varint()]]
        nodes.append(tuple(path))
    if levels.left():
        raise Bad("more levels than nodes")
    sets = [tuple((strings[b.varint()], strings[b.varint()], strings[b.varint()], b.u8(), b.zigzag()) for _ in range(b.varint())) for _ in range(b.varint())]
    node, stacks, place, places = 0, [], 0, []
    for _ in range(b.varint()):
        node += b.varint()
        stacks.append((nodes[node], sets[b.varint()]))
    for _ in range(b.varint()):
        place += b.zigzag()
        if not 0 <= place <= len(stacks):
            raise Bad(f"place {place} of {len(stacks)} stacks")
        places.append(place)
    return {"late": late, "stacks": stacks, "places": places}


def detail(counts, gaps, values, sums):
    """Per column its {place of the profile: value}; sums are those of the rollup."""
    out = []
    count_escapes, gap_escapes = _escapes(counts), _escapes(counts)
    n = [c + 1 for c in _unescaped(counts.take(len(sums)), count_escapes)]
    places = [ascending(_unescaped(gaps.take(c), gap_escapes)) for c in n]
    mode = saw("detail", values.u8())
    if mode > 2:
        raise Bad(f"mode {mode} of values")
    common = [values.varint() + 1 if mode and c > 1 else 1 for c in n]
    value_escapes = _escapes(values) if mode < 2 else iter(())
    for c, g, total, at in zip(n, common, sums, places):
        if c == 1:
            v = [total]
        elif mode == 2:
            v = [x * g for x in sums_of(values.zigzags(c))]
        elif total == c * g:
            v = [g] * c
        else:
            v = [(x + 1) * g for x in _unescaped(values.take(c), value_escapes)]
        out.append(dict(zip(at, v)))
    _used_up(count_escapes, gap_escapes, value_escapes)
    return out


def floats(b, _version):
    """[(stamp, bits)]."""
    n, stamps, step, last = b.varint(), [], 0, 0
    saw("sealed floats", int(n > 0))
    for i, d in enumerate(b.zigzags(n)):
        step = step + d if i else 0
        stamps.append(stamps[-1] + step if i else d)
    bits = []
    for v in b.varints(n):
        last ^= int.from_bytes(v.to_bytes(8, "big"), "little")
        bits.append(last)
    return list(zip(stamps, bits))


def double(bits):
    return struct.unpack(">d", bits.to_bytes(8, "big"))[0]
