# SPDX-License-Identifier: Apache-2.0
"""profile.proto in a few lines: as much of it as it takes to compare two files stack by stack."""
import gzip
import re


def _varint(b, i):
    n = shift = 0
    while True:
        c = b[i]
        i += 1
        n |= (c & 127) << shift
        shift += 7
        if c < 128:
            return n, i


def fields(b):
    """(number, value) of a message: int, or bytes."""
    i = 0
    while i < len(b):
        key, i = _varint(b, i)
        if key & 7 == 0:
            v, i = _varint(b, i)
        elif key & 7 == 2:
            n, i = _varint(b, i)
            v, i = b[i:i + n], i + n
        else:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, v


def _signed(v):
    return v - (1 << 64) if v >= 1 << 63 else v


def _numbers(v):
    """Of a repeated field, packed or not."""
    out, i = [], 0
    if isinstance(v, int):
        return [v]
    while i < len(v):
        n, i = _varint(v, i)
        out.append(n)
    return out


def plain(data):
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _encoded(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def _field(number, v):
    return _encoded(number << 3) + _encoded(v) if isinstance(v, int) else _encoded(number << 3 | 2) + _encoded(len(v)) + v


def message(*pairs):
    """A message of (number, int or bytes)."""
    return b"".join(_field(k, v) for k, v in pairs)


def sample_labels(data):
    """{key: values} of the labels of all samples."""
    top = list(fields(plain(data)))
    strings, found = [v.decode() for k, v in top if k == 6], {}
    for label in (dict(fields(v)) for k, sample in top if k == 2 for kind, v in fields(sample) if kind == 3):
        found.setdefault(strings[label[1]], set()).add(strings[label[2]] if 2 in label else label.get(3, 0))
    return found


def stamped(data, end_ns):
    """The same profile, measured until then."""
    out, duration = bytearray(), 0
    for number, v in fields(plain(data)):
        duration = v if number == 10 else duration
        if number != 9:
            out += _field(number, v)
    return bytes(out) + _field(9, end_ns - duration)


def stripped(data):
    """The same profile before it was symbolised: without functions and lines, and no mapping says that it has them."""
    out = bytearray()
    for number, v in fields(plain(data)):
        if number in (3, 4):
            v = b"".join(_field(n, x) for n, x in fields(v) if n < (7 if number == 3 else 4))
        if number != 5:
            out += _field(number, v)
    return bytes(out)


class Profile:
    """types: [(type, unit)]; samples: [(frames, labels, values)], leaf first; a frame is (function, file, line), or
    (build id or file, offset) where there is no name. addresses: that of each location, and its mapping's file;
    stack_ids: the locations of each sample."""

    def __init__(self, data):
        rows = {}
        for number, v in fields(plain(data)):
            rows.setdefault(number, []).append(v)
        self.strings = [s.decode(errors="replace") for s in rows.get(6, [])]
        self.types = [self._pair(v) for v in rows.get(1, [])]
        self.functions = {}
        for v in rows.get(5, []):
            f = dict(fields(v))
            self.functions[f[1]] = (self.strings[f.get(2, 0)], self.strings[f.get(4, 0)])
        mappings = {f[1]: f for f in (dict(fields(v)) for v in rows.get(3, []))}
        # what stands for the binary in frames without a name -> its file
        self.binaries = {self.strings[m.get(6, 0)] or self.strings[m.get(5, 0)]: self.strings[m.get(5, 0)]
                         for m in mappings.values()}
        self.addresses = {}
        self.locations = dict(self._location(v, mappings) for v in rows.get(4, []))
        self.stack_ids = []
        self.samples = [self._sample(v) for v in rows.get(2, [])]

    def _pair(self, v):
        f = dict(fields(v))
        return self.strings[f.get(1, 0)], self.strings[f.get(2, 0)]

    def _location(self, v, mappings):
        rows = list(fields(v))
        f = dict(rows)
        lines = [dict(fields(line)) for number, line in rows if number == 4]
        frames = [(*self.functions.get(line.get(1, 0), ("", "")), _signed(line.get(2, 0))) for line in lines if line.get(1)]
        m = mappings.get(f.get(2, 0), {})
        self.addresses[f[1]] = f.get(3, 0), self.strings[m.get(5, 0)]
        if not frames:
            binary = self.strings[m.get(6, 0)] or self.strings[m.get(5, 0)]
            frames = [(binary, f.get(3, 0) - m.get(2, 0) + m.get(4, 0))]
        return f[1], frames

    def _sample(self, v):
        locations, values, labels = [], [], []
        for number, x in fields(v):
            if number == 1:
                locations += _numbers(x)
            elif number == 2:
                values += [_signed(n) for n in _numbers(x)]
            elif number == 3:
                f = dict(fields(x))
                labels.append((self.strings[f.get(1, 0)], self.strings[f[2]] if f.get(2) else _signed(f.get(3, 0))))
        self.stack_ids.append(locations)
        return tuple(frame for l in locations for frame in self.locations[l]), tuple(sorted(labels, key=str)), values

    def index(self, name):
        return [t for t, _ in self.types].index(name)

    def stacks(self, name=None, labels=True):
        """(frames, labels) -> sum of one type, without those that are zero."""
        out, i = {}, self.index(name) if name else 0
        for frames, l, values in self.samples:
            key = frames, l if labels else ()
            out[key] = out.get(key, 0) + values[i]
        return {k: v for k, v in out.items() if v}

    def names(self, name):
        """Functions by what passes through them, most first."""
        total = {}
        for (frames, _), v in self.stacks(name).items():
            for f in {f[0] for f in frames if len(f) == 3}:
                total[f] = total.get(f, 0) + abs(v)
        return sorted(total, key=lambda f: (-total[f], f))


def escaped(name):
    """The name as an expression that matches nothing else."""
    return "^" + re.sub(r"([^\w/ :-])", r"\\\1", name) + "$"


def made(types, stacks, time_ns=0, duration_ns=0, comments=()):
    """A profile: types are (type, unit), stacks (names, leaf first; values). Each function has one location."""
    strings, functions, out = {"": 0}, {}, []

    def text(s):
        return strings.setdefault(s, len(strings))

    def packed(numbers):
        return b"".join(_encoded(n) for n in numbers)
    for kind, unit in types:
        out.append(_field(1, _field(1, text(kind)) + _field(2, text(unit))))
    for names, values in stacks:
        ids = [functions.setdefault(name, len(functions) + 1) for name in names]
        out.append(_field(2, _field(1, packed(ids)) + _field(2, packed(values))))
    for name, i in functions.items():
        out.append(_field(4, _field(1, i) + _field(4, _field(1, i) + _field(2, 1))))
        out.append(_field(5, _field(1, i) + _field(2, text(name)) + _field(3, text(name)) + _field(4, text("made.go"))))
    out += [_field(9, time_ns)] * bool(time_ns) + [_field(10, duration_ns)] * bool(duration_ns)
    out += [_field(13, text(c)) for c in comments]
    return b"".join(out + [_field(6, s.encode()) for s in strings])
