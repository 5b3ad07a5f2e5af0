#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Reads a storage directory by what docs/format/ says of it, and by nothing else: the second opinion on what the programs
write and answer. Nothing is changed in the directory, which no server may have open.

Everything is decoded, whether it is asked for or not, and what is kept twice is compared: sums of rollups and aggregates
with the profiles that they sum up. What the documents do not explain is counted in bytes and said."""
import argparse
import json
import os
import re
import sys

import rocks
import values
from values import Bad, Bytes

LOST = b"(lost)"
LEVEL_MS = {0: 3600000, 1: 21600000, 2: 86400000}
DAY_MS = 86400000
KINDS = ("header", "symbols", "index", "totals", "rollup", "detail", "floats", "detail", "detail", "names")
VERSIONS = {"header": 2, "symbols": 2, "index": 2, "rollup": 2, "detail": 2}
AGGREGATE = 1 << 31
ALL = (1 << 64) - 1
STALE = 0x7ff0000000000002
NOTES = b"\xfenotes\0\0"


class Symbols:
    """The dictionary of a partition: a list per table, an element per id."""

    EMPTY = {1: b"", 5: None, 6: 0, 7: [], 8: (0, 0)}
    FILLER = {1: LOST, 2: None, 3: None, 4: None, 5: {"parent": 0, "location": None}, 6: 0, 7: [], 8: (0, 0), 9: None}

    def __init__(self):
        self.tables = {t: [] for t in values.TABLES}
        for t, entry in self.EMPTY.items():
            self.tables[t].append(entry)
        self.named = {}

    def add(self, sections):
        for table, first, entries in sections:
            rows = self.tables[table]
            rows += [self.FILLER[table]] * (first - len(rows))
            rows += entries[len(rows) - first:] if first <= len(rows) else []

    def string(self, n):
        return self.tables[1][n].decode(errors="replace")

    def locations(self, stack):
        """From the leaf to the root."""
        node, out = self.tables[6][stack], []
        while node:
            n = self.tables[5][node]
            out.append(self.named.get(n["location"], n["location"]))
            node = n["parent"]
        return out

    def frames(self, location):
        """As pprof has them, innermost first: (function, file, line), or (build id or file, offset in it) without a name."""
        l = self.tables[4][location] if location is not None else None
        if not l:
            return [(LOST.decode(), "", 0)]
        out = []
        for function, line, _column in l["lines"]:
            if function >= 0:
                f = self.tables[3][function]
                out.append((self.string(f["name"]), self.string(f["file"]), line))
        if out:
            return out
        m = self.tables[2][l["mapping"]] if l["mapping"] >= 0 else None
        return [(self.string(m["build_id"]) or self.string(m["file"]), l["address"] + m["offset"]) if m else ("", l["address"])]

    def stack(self, n):
        return tuple(f for l in self.locations(n) for f in self.frames(l))

    def label_set(self, n):
        out = []
        for label in self.tables[7][n]:
            out.append((self.string(label[0]), self.string(label[1]) if len(label) == 2 else label[1]))
        return tuple(sorted(out, key=str))

    def column(self, n):
        stack, labels = self.tables[8][n]
        return self.stack(stack), self.label_set(labels)

    def series(self, n):
        """Its labels as the API has them."""
        s = self.tables[9][n]
        labels = {self.string(k): self.string(v) for k, v in s["labels"]}
        if s["type"]:
            labels["__name__"] = ":".join(self.string(x) for x in s["type"]) + (":delta" if s["delta"] else "")
        return labels


class Report:
    """What could not be explained, and how much was read."""

    def __init__(self):
        self.bytes, self.unexplained, self.problems, self.compared = 0, 0, [], 0

    def problem(self, where, what, n=0):
        self.unexplained += n
        self.problems.append(f"{where}: {what}" + (f" ({n} bytes)" if n else ""))

    def read(self, where, data, decode, *more):
        """What decode makes of all of data; None if it does not."""
        b = data if isinstance(data, Bytes) else Bytes(data)
        try:
            out = decode(b, *more)
        except (Bad, IndexError, StopIteration) as e:
            self.problem(where, repr(e), b.left() or len(b.data))
            return None
        if b.left():
            self.problem(where, "more than the documents say", b.left())
        return out


def add_to(sums, more):
    for c, v in more.items():
        sums[c] = sums.get(c, 0) + v


def text_file(report, path, first_line, until=None):
    """{word: value} of the small files, and what stands from the line `until` on."""
    with open(path, encoding="ascii") as f:
        text = f.read()
    at = text.find(f"\n{until}\n") + 1 if until else 0
    text, rest = (text[:at], text[at:]) if at else (text, "")
    lines = text.split("\n")
    if lines[0] != first_line or lines[-1] != "":
        report.problem(path, f"its first line is {lines[0]!r}, not {first_line!r}", len(lines[0]))
    return dict(line.split(" ", 1) for line in lines[1:-1]), rest


def summed_text(report, where, text, first_line, known):
    """The lines of a text between its first one and its checksum."""
    body, _, checksum = text.rpartition("checksum ")
    lines = body.split("\n")
    if lines[0] != first_line or lines[-1] != "" or not re.fullmatch("[0-9a-f]{16}\n", checksum) or int(checksum, 16) != rocks.xxh3(body.encode()):
        report.problem(where, f"{lines[0]!r}, checksum {checksum!r}", 1)
    for line in lines[1:-1]:
        if not re.fullmatch(known, line):
            report.problem(where, f"a line {line!r}", len(line))
    return lines[1:-1]


def summed(report, path, first_line, known):
    with open(path, encoding="ascii") as f:
        return summed_text(report, path, f.read(), first_line, known)


class Extents:
    """What head.marks says of the records of the log."""

    def __init__(self, report, path, text):
        self.rows, self.facts, self.seen = [], {}, 0
        known = r"seen \d+|rows day \d+ records \d+ to \d+ stamps -?\d+ to -?\d+|facts day \d+ count \d+ last \d+"
        for line in summed_text(report, path, text, "pyrrha-head-extents 1", known):
            numbers = [int(n) for n in re.findall(r"-?\d+", line)]
            if line.startswith("seen"):
                self.seen, = numbers
            elif line.startswith("rows"):
                self.rows.append(numbers)
            else:
                self.facts[numbers[0]] = numbers[1:]

    def compare(self, report, log, first):
        """Every row lies in a run of its day; facts are as many as it says."""
        for number, kind, day, content in log.records:
            stamps = [p["stamp"] for p in content] if kind == 1 else [t for _, t, _ in content] if kind == 4 else []
            for t in stamps:
                if first <= number <= self.seen and not any(d == day and a <= number <= b and lo <= t <= hi for d, a, b, lo, hi in self.rows):
                    report.problem("head.marks", f"record {number} of day {day} with the stamp {t} is in no run", 1)
        for day, (count, last) in self.facts.items():
            there = sum(1 for number, kind, d, _ in log.records if (kind, d) == (3, day) and number <= last)
            if there < count:
                report.problem("head.marks", f"{count} facts of day {day}, the log has {there}", 1)


class Log:
    """The head log: its records by number, without those that are void, and its notes."""

    PAYLOADS = {1: values.samples, 2: values.symbols, 3: values.fact, 4: values.head_floats}

    def __init__(self, report, path, first, dropped):
        self.records, self.gone, self.notes = [], {}, {}  # [(number, kind, day, content)]; key: (number, stamp, content)
        for key, value in rocks.rows(path):
            report.bytes += len(key) + len(value)
            if len(key) == 13 and key[0] == 0xff:
                self.mark(report, key, value)
            elif key.startswith(NOTES) and len(key) > len(NOTES):
                self.note(report, key, value)
            elif len(key) == 8:
                self.record(report, int.from_bytes(key, "big"), value)
            else:
                report.problem("head", f"a key {key.hex()}", len(key) + len(value))
        self.records = [r for r in self.records if r[0] > max(self.gone.get(r[2], 0), dropped(r[2])) and (r[0] >= first or r[1] == 3)]

    def mark(self, report, key, value):
        if not value:
            return  # taken back
        if rocks.xxh3(key) != int.from_bytes(value, "big"):
            report.problem("head", f"the value of the key {key.hex()}", len(value))
        day, number = int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:], "big")
        self.gone[day] = max(number, self.gone.get(day, 0))

    def note(self, report, key, value):
        if len(value) < 24 or rocks.xxh3(value[:-8], rocks.xxh3(key)) != int.from_bytes(value[-8:], "big"):
            return report.problem("head", f"the note {key!r}", len(value))
        number, stamp, content = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big"), value[16:-8]
        if content:
            self.notes[key[len(NOTES):]] = number, stamp, content
        return None

    def record(self, report, number, value):
        where = f"head record {number}"
        try:
            version, b = values.opened(value, number)
        except Bad as e:
            return report.problem(where, str(e), len(value))
        kind, day = b.u8(), b.u32()
        if version != 1 or kind not in self.PAYLOADS:
            return report.problem(where, f"version {version}, kind {kind}", len(value))
        content = report.read(f"{where} of kind {kind}", b, self.PAYLOADS[kind])
        if content is not None and not (kind == 3 and content["fact"] == "void"):
            self.records.append((number, kind, day, content))
            if content and kind == 3 and content["fact"] == "gone":
                self.gone[day] = max(number, self.gone.get(day, 0))
        return None

    def of(self, day, kind):
        return [(number, content) for number, k, d, content in self.records if (d, k) == (day, kind)]


class Part:
    """A part of a window: values by kind, series and stream."""

    def __init__(self, partition, level, window, number):
        self.level, self.window, self.number = level, window, number
        self.where = f"{partition} level {level} window {window} part {number}"
        self.values, self.streams = {}, set()

    def add(self, report, kind, series, stream, key, value):
        name = KINDS[kind] if kind < len(KINDS) else None
        where = f"{self.where} {name} of {series:#x} stream {stream}"
        if not name or (kind < 3 or kind == 9) and series or kind == 9 and self.level != 2 or stream not in {5: (0, 1, 2), 7: (1,), 8: (2,)}.get(kind, (0,)):
            return report.problem(where, "no such key", len(key) + len(value))
        try:
            version, b = values.opened(value, rocks.xxh3(key))
        except Bad as e:
            return report.problem(where, str(e), len(value))
        if not 1 <= version <= VERSIONS.get(name, 1):
            return report.problem(where, f"version {version}", len(value))
        self.values[name, series, stream] = version, b
        self.streams |= {(kind, stream)} if name == "detail" else set()
        return None

    def decode(self, report):
        """All of it, then the multiples, then what the details are the details of."""
        version = self.values.get(("header", 0, 0), (0, None))[0]
        if self.streams - ({(5, 0), (7, 1), (8, 2)} if values.saw("header version", version) > 1 else {(5, 0), (5, 1), (5, 2)}):
            report.problem(self.where, f"detail in {sorted(self.streams)} with a header of version {version}", 1)
        for (name, series, stream), (version, b) in self.values.items():
            if name != "detail":
                decode = {"symbols": lambda b, v: values.symbols(b) if v == 1 else values.packed_symbols(b)}.get(name) or getattr(values, name)
                self.values[name, series, stream] = report.read(f"{self.where} {name} of {series:#x}", b, decode, version)
        self.header, self.symbols, self.index = (self.values.get((k, 0, 0)) for k in KINDS[:3])
        self.series = {s["id"]: s for s in self.index["series"]} if self.index else {}
        details = {s for name, s, _ in self.values if name == "detail"}
        for series in details:
            self.share_places(report, series)
        for series in details:
            self.read_detail(report, series)
        self.profiles = {s: self.read_profiles(report, s) for name, s, _ in list(self.values) if name == "totals"}

    def share_places(self, report, series):
        """Streams 0 and 1 of a series that says which other one has them."""
        where, (version, b) = f"{self.where} detail of {series:#x}", self.values.get(("detail", series, 0), (0, None))
        if values.saw("detail version", version) < 2:
            return
        of = b.varint()
        if b.left() or ("detail", series, 1) in self.values or self.values.get(("detail", of, 0), (0,))[0] != 1:
            report.problem(where, f"its places are said to be those of {of:#x}", 1)
        for i in (0, 1):
            if ("detail", of, i) in self.values:
                self.values["detail", series, i] = 1, Bytes(self.values["detail", of, i][1].data)

    def read_detail(self, report, series):
        where, streams = f"{self.where} detail of {series:#x}", [self.values.pop(("detail", series, i), (0, None))[1] for i in range(3)]
        sums = (self.values.get(("rollup", series, 0)) or {}).get("sums")
        if None in streams or sums is None:
            return report.problem(where, "without all its streams or its rollup", sum(len(b.data) for b in streams if b))

        def all_of(_whole):
            return values.detail(*streams, sums)
        columns = report.read(where, Bytes(b""), all_of)
        for b in streams:
            if b.left():
                report.problem(where, "more than the documents say", b.left())
        self.values["detail", series, 0] = columns or []
        return None

    def whole(self, name, series):
        """The value, a multiple worked out: (value, factor)."""
        v, factor = self.values.get((name, series, 0)), 1
        while v and "of" in v:
            factor, series = factor * v["factor"], v["of"]
            v = self.values.get((name, series, 0))
        return v, series, factor

    def rollup(self, series):
        """column -> sum."""
        v, _, factor = self.whole("rollup", series)
        return {c: s * factor for c, s in zip(v["columns"], v["sums"])} if v else {}

    def read_profiles(self, report, series):
        """[{stamp, total, stale, interval ..., columns: {column: value}}], ascending by stamp."""
        t, base, factor = self.whole("totals", series)
        if not t:
            report.problem(f"{self.where} {series:#x}", f"a multiple of {base:#x}, which is not there")
            return []
        stale = set(t["stale"])
        out = [{"stamp": t["stamp"][i], "total": t["total"][i] * factor, "stale": i in stale, "columns": {},
                **{k: t[k][i] for k in ("interval", "asked", "duration", "period", "cover")}} for i in range(len(t["stamp"]))]
        columns = (self.values.get(("rollup", base, 0)) or {}).get("columns", [])
        for column, places in zip(columns, self.values.get(("detail", base, 0), [])):
            for place, v in places.items():
                out[place]["columns"][column] = v * factor
        return out


class Partition:
    """A day: its symbols, its parts, and its rows of the head log."""

    def __init__(self, report, day, path, log):
        self.day, self.parts, self.symbols = day, {}, Symbols()
        for key, value in rocks.rows(path) if path else []:
            report.bytes += len(key) + len(value)
            self.value(report, key, value)
        for p in self.parts.values():
            p.decode(report)
        for p in sorted(self.of_level(0), key=self.order):
            if p.symbols is not None:
                self.symbols.add(p.symbols)
        for _, sections in log.of(day, 2):
            self.symbols.add(sections)
        self.facts = log.of(day, 3)
        for _, f in self.facts:
            if f["fact"] == "names":
                self.symbols.named.update(f["pairs"])
        self.counted = self.choose()
        self.series = {}  # id -> {stamp: profile, or bits of a float}
        self.from_parts()
        self.from_log(log)

    @staticmethod
    def order(p):
        return p.header["origin"] if p.header and p.header["origin"] is not None else p.number, p.number

    def of_level(self, level):
        return [p for p in self.parts.values() if p.level == level]

    def value(self, report, key, value):
        if len(key) != 15:
            return report.problem(f"{self.day}", f"a key {key.hex()}", len(key) + len(value))
        b = Bytes(key)
        level, window, number, kind, series, stream = b.u8(), b.u32(), b.u32(), b.u8(), b.u32(), b.u8()
        if level not in LEVEL_MS:
            return report.problem(f"{self.day}", f"level {level}", len(key) + len(value))
        at = level, window, number
        if at not in self.parts:
            self.parts[at] = Part(self.day, *at)
        return self.parts[at].add(report, kind, series, stream, key, value)

    def choose(self):
        """The parts of hours that count."""
        def instead(q, p):
            return q.window == p.window and q.number > p.number and (self.order(q)[0] == self.order(p)[0] or
                                                                    {p.number, self.order(p)[0]} & set(q.header["parts"]))
        hours = self.of_level(0)
        return [p for p in hours if not any(instead(q, p) for q in hours)]

    def deletes(self):
        return [(n, f) for n, f in self.facts if f["fact"] == "delete"]

    def put(self, series, stamp, row):
        self.series.setdefault(series, {}).setdefault(stamp, row)

    def from_parts(self):
        for p in sorted(self.counted, key=lambda p: p.number):
            masks = [f for _, f in self.deletes() if p.number < f["part"]]
            for series, rows in self.rows_of(p):
                for stamp, row in rows:
                    if not values.saw("masked", any(series in f["series"] and f["after"] < stamp <= f["until"] for f in masks)):
                        self.put(series, stamp, row)

    @staticmethod
    def rows_of(p):
        for series in p.series:
            if ("floats", series, 0) in p.values:
                yield series, p.values["floats", series, 0] or []
            else:
                yield series, [(r["stamp"], r) for r in p.profiles.get(series, [])]

    def from_log(self, log):
        sealed = {}
        for p in self.of_level(0):
            sealed[p.window] = max(p.header["last"], sealed.get(p.window, 0))
        for number, stamp, series, row in self.log_rows(log):
            if number <= sealed.get((stamp - 1) // LEVEL_MS[0], 0):
                continue
            if not any(number < n and series in f["series"] and f["after"] < stamp <= f["until"] for n, f in self.deletes()):
                self.put(series, stamp, row)

    def log_rows(self, log):
        """(number of the record, stamp, series, row)."""
        for number, profiles in log.of(self.day, 1):
            for p in profiles:
                for i, series in enumerate(p["series"]):
                    row = {"stamp": p["stamp"], "stale": bool(p["flags"]), "total": 0, "columns": {}, "duration": 0, "period": 0}
                    if not p["flags"]:
                        row.update(total=sum(p["values"][i]), columns=dict(zip(p["columns"], p["values"][i])),
                                   **{k: p[k] for k in ("cover", "duration", "period", "interval", "asked")})
                    yield number, p["stamp"], series, row
        for number, rows in log.of(self.day, 4):
            for series, stamp, bits in rows:
                yield number, stamp, series, bits

    # What is kept twice.

    def compare(self, report):
        for p in self.parts.values():
            self.compare_index(report, p)
            for series in {s for name, s, _ in p.values if name == "rollup"}:
                if p.level == 0:
                    self.compare_rollup(report, p, series)
            if p.level:
                self.compare_hours(report, p)
            else:
                self.compare_aggregates(report, p)

    def compare_index(self, report, p):
        begin = p.window * LEVEL_MS[p.level]
        for series, s in p.series.items():
            stamps = [t for t, _ in p.values.get(("floats", series, 0)) or []] or [r["stamp"] for r in p.profiles.get(series, [])]
            report.compared += 1
            if p.level == 0 and (not stamps or (min(stamps) - begin, max(stamps) - begin) != (s["first"], s["last"])):
                report.problem(p.where, f"index of {series}: {s} of {stamps[:1]} to {stamps[-1:]}")

    @staticmethod
    def compare_rollup(report, p, series):
        sums = {}
        for r in p.profiles.get(series, []):
            report.compared += 1
            if sum(r["columns"].values()) != r["total"]:
                report.problem(p.where, f"{series:#x} at {r['stamp']}: {r['total']} is not the sum of its columns")
            add_to(sums, r["columns"])
        if sums != p.rollup(series):
            report.problem(p.where, f"rollup of {series:#x} is not the sum of its profiles")

    def compare_hours(self, report, p):
        """The rollup p and the hours that it sums up, if they all are there."""
        hours = [q for q in self.of_level(0) if q.number in p.header["parts"]]
        if [q.number for q in sorted(hours, key=lambda q: (q.window, q.number))] != p.header["parts"]:
            return
        sums, begin = {}, p.window * LEVEL_MS[p.level]
        for q in hours:
            for series, s in q.series.items():
                of = sums.setdefault(series, {"sum": {}, "entries": 0, "stamps": [], "floats": s["floats"]})
                add_to(of["sum"], q.rollup(series))
                of["entries"] += len(q.rollup(series))
                of["stamps"] += [s[k] + q.window * LEVEL_MS[0] - begin for k in ("first", "last")]
        for series, of in sums.items():
            report.compared += 1
            if of["floats"] or series not in p.series:
                if not of["floats"] and 2 * len(of["sum"]) <= of["entries"]:
                    report.problem(p.where, f"series {series} is left out, though its sums have at most half of its hours' entries")
            elif p.rollup(series) != of["sum"]:
                report.problem(p.where, f"rollup of {series} is not the sum of the hours'")
            elif (min(of["stamps"]), max(of["stamps"])) != (p.series[series]["first"], p.series[series]["last"]):
                report.problem(p.where, f"index of {series} is not that of its hours")
        if set(p.series) - {series for series, of in sums.items() if not of["floats"]}:
            report.problem(p.where, "it has series that its hours do not have")
        self.compare_sums_of_aggregates(report, p)

    @staticmethod
    def compare_sums_of_aggregates(report, p):
        of = {}
        for series, s in p.series.items():
            if s["aggregate"] >= 0:
                add_to(of.setdefault(s["aggregate"], {}), p.rollup(series))
        for a, sums in of.items():
            report.compared += 1
            if ("rollup", AGGREGATE | a, 0) not in p.values or p.rollup(AGGREGATE | a) != {c: v for c, v in sums.items() if v}:
                report.problem(p.where, f"rollup of aggregate {a} is not the sum of its series'")

    @staticmethod
    def compare_aggregates(report, p):
        for a in range(p.index["aggregates"] if p.index else 0):
            members, minutes = [s for s in p.series if p.series[s]["aggregate"] == a], {}
            for series in members:
                for r in p.profiles.get(series, []):
                        add_to(minutes.setdefault(-(-r["stamp"] // 60000) * 60000, {}), r["columns"])
            report.compared += 1
            mine = {r["stamp"]: r["columns"] for r in p.profiles.get(AGGREGATE | a, [])}
            if {t: m for t, m in minutes.items() if m} != {t: m for t, m in mine.items() if m}:
                report.problem(p.where, f"aggregate {a} is not the sum of {members} by minutes")


class Storage:
    """All of a directory. .rows: [(labels, [(stamp, row)], partition)]."""

    TOP = re.compile(r"version|lock|head(\.(marks|end|holes|holes\.copy|whole|scratch|new|bad-.*))?|dropped|clock|snapshot|partitions|remote|snapshots|queries\.active|"
                     r"(version|head\.marks|head\.holes|head\.holes\.copy|dropped|clock|snapshot)\.new")

    def __init__(self, path):
        self.report = r = Report()
        with open(os.path.join(path, "version"), encoding="ascii") as f:
            version = re.fullmatch(r"(pyrrha-tsdb ([1-5])\n)(?:checksum ([0-9a-f]{16})\n)?", f.read())
        if not version or (version[3] and int(version[3], 16) != rocks.xxh3(version[1].encode())):
            raise Bad(f"{path}/version is of no format that is written down")
        self.version, self.partitions = int(version[2]), []
        for name in sorted(os.listdir(path)):
            if not self.TOP.fullmatch(name):
                r.problem(path, f"{name}: a name that the documents do not have", 1)
        self.first, self.synced, self.extents, self.end, self.holes = 0, 0, None, None, []
        self.until = self.until_record = 0  # of days that end by then, records numbered so far are void
        self.days = {}  # of these too
        self.marks(path)
        head = [os.path.join(path, name) for name in ("head.whole", "head") if os.path.isdir(os.path.join(path, name))][0]
        self.log, folder = Log(r, head, self.first, self.dropped), os.path.join(path, "partitions")
        days = {int(n) for n in os.listdir(folder) if self.day_counts(folder, n)} | {d for _, _, d, _ in self.log.records}
        for day in sorted(days):
            p = os.path.join(folder, str(day))
            if self.dropped(day) != ALL:
                there = os.path.isdir(p) and self.day_counts(folder, str(day))
                self.partitions.append(Partition(r, day, p if there else None, self.log))
        for p in self.partitions:
            p.compare(r)
        if self.extents:
            self.extents.compare(r, self.log, self.first)
        if self.end and self.end.seen > max([self.synced] + [number for number, _, _, _ in self.log.records]):
            r.problem("head.end", f"records up to {self.end.seen}; the log ends before", 1)

    def marks(self, path):
        r, name = self.report, os.path.join(path, "head.marks")
        if os.path.exists(name):
            m, extents = text_file(r, name, "pyrrha-head-marks 1", "pyrrha-head-extents 1")
            self.extents = Extents(r, name, extents) if extents else None
            self.first, self.synced = int(m["first"]), int(m["synced"])
            both = int(m["synced"]).to_bytes(8, "little") + int(m["first"]).to_bytes(8, "little")
            if m.keys() != {"synced", "first", "checksum"} or int(m["checksum"], 16) != rocks.xxh3(both):
                r.problem(name, f"{m}", 1)
        name = os.path.join(path, "head.end")
        if os.path.exists(name):
            with open(name, encoding="ascii") as f:
                text = re.sub(r"(?s)(\nchecksum [0-9a-f]{16}\n).*", r"\1", f.read())  # what follows is of a longer text before
            self.end = Extents(r, name, text)
        name = os.path.join(path, "dropped")
        if os.path.exists(name):
            self.read_dropped(name)
        texts = [self.read_holes(os.path.join(path, n)) for n in ("head.holes", "head.holes.copy")]
        if texts[0] != texts[1]:
            r.problem(path, f"head.holes is {texts[0]!r}, its copy {texts[1]!r}", 1)
        name = os.path.join(path, "snapshot")
        if os.path.exists(name):
            summed(r, name, "pyrrha-snapshot 1", r"state (?:finished|unfinished)|made \d+|record \d+")
        name = os.path.join(path, "clock")
        if os.path.exists(name):
            with open(name, "rb") as f:
                text, _, checksum = f.read().partition(b"checksum ")
            if int(checksum, 16) != rocks.xxh3(text):
                r.problem(name, f"{text} {checksum}", 1)

    def read_holes(self, name):
        if not os.path.exists(name):
            return None
        lines = summed(self.report, name, "pyrrha-head-holes 1", r"records \d+ to \d+ after -?\d+ until -?\d+ found \d+")
        self.holes = [tuple(int(n) for n in re.findall(r"-?\d+", line)) for line in lines]
        return lines

    def read_dropped(self, name):
        with open(name, encoding="ascii") as f:
            lines = [line.split() for line in f.read().splitlines()]
        if lines[0] == ["pyrrha-dropped", "1"]:
            m = dict(lines[1:])
            self.until, self.until_record = int(m["until"]), ALL
            if "checksum" in m and int(m["checksum"], 16) != mix(self.until ^ 0x64726f70706564):
                self.report.problem(name, f"{m}", 1)
            return
        (_, until, _, record), days, checksum = lines[1], lines[2:-1], 0
        self.until, self.until_record = int(until), int(record)
        self.days = {int(day): int(record) for _, day, _, record in days}
        for a, b in [(self.until, self.until_record), *self.days.items()]:
            checksum = mix(mix(checksum ^ a) ^ b)
        if lines[0] != ["pyrrha-dropped", "2"] or lines[-1] != ["checksum", f"{checksum:016x}"]:
            self.report.problem(name, f"{lines}", 1)

    def dropped(self, day):
        """The last record of a day that is void."""
        return max(self.until_record if (day + 1) * DAY_MS <= self.until else 0, self.days.get(day, 0))

    def day_counts(self, folder, name):
        if re.fullmatch(r"\d+\.(gone|new|bad-.*)", name):
            return False
        if not name.isdigit():
            self.report.problem(folder, f"{name}: a name that the documents do not have", 1)
            return False
        mark = os.path.join(folder, name, "deleted")
        if not os.path.exists(mark):
            return True
        return max(self.log.gone.get(int(name), 0), self.dropped(int(name))) < int(text_file(self.report, mark, "pyrrha-deleted 2")[0]["from"])

    def select(self, matches=lambda labels: True, after_ms=-1 << 62, until_ms=1 << 62):
        """{labels as a sorted tuple: [(stamp, row, partition)]}, ascending by stamp."""
        out = {}
        for p in self.partitions:
            for series in sorted(p.series):
                labels = p.symbols.series(series)
                rows = [(t, row, p) for t, row in sorted(p.series[series].items()) if after_ms < t <= until_ms]
                if rows and matches(labels):
                    out.setdefault(tuple(sorted(labels.items())), []).extend(rows)
        return out


def merged(rows):
    """(stack, sample labels) -> sum, of one series' rows or several's, without those that are zero."""
    ids, out = {}, {}
    for _, row, p in rows:
        for c, v in row["columns"].items():
            ids[p, c] = ids.get((p, c), 0) + v
    for (p, c), v in ids.items():
        key = p.symbols.column(c)
        out[key] = out.get(key, 0) + v
    return {k: v for k, v in out.items() if v}


def mix(x):
    """splitmix64's, the checksum of `dropped`."""
    x = x + 0x9e3779b97f4a7c15 & (1 << 64) - 1
    for shift, by in ((30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb)):
        x = (x ^ x >> shift) * by & (1 << 64) - 1
    return x ^ x >> 31


def selector(text):
    """A function of labels: name{a="b",c!="d",e=~"f",g!~"h"}."""
    m = re.fullmatch(r"\s*([\w:]*)\s*(?:\{(.*)\})?\s*", text, re.S)
    terms = re.findall(r'\s*(\w+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*(?:,|$)', m[2] or "") if m else None
    if terms is None:
        raise SystemExit(f"{text}: no selector")
    terms = [(k, how, json.loads(v)) for k, how, v in terms] + ([("__name__", "=", m[1])] if m[1] else [])

    def one(labels, k, how, v):
        has = labels.get(k, "")
        return (bool(re.fullmatch(v, has)) if "~" in how else has == v) != how.startswith("!")
    return lambda labels: all(one(labels, *t) for t in terms)


def folded(frames):
    return ";".join(f[0] if len(f) == 3 else f"{f[1]:#x}" for f in reversed(frames))


def answer(labels, rows):
    """What is printed of a series."""
    out = {"labels": dict(labels), "samples": [], "merged": []}
    for t, row, _ in rows:
        if isinstance(row, int):
            out["samples"].append([t, "stale" if row == STALE else repr(values.double(row))])
        else:
            out["samples"].append([t, "stale" if row["stale"] else row["total"]])
    profiles = [r for r in rows if not isinstance(r[1], int)]
    out["total"] = sum(row["total"] for _, row, _ in profiles)
    for (frames, sample_labels), v in sorted(merged(profiles).items(), key=lambda x: (-abs(x[1]), str(x[0]))):
        out["merged"].append([folded(frames), dict(sample_labels), v])
    return out


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("directory")
    a.add_argument("--match", default="{}", help="a selector: name{label=\"value\"}")
    a.add_argument("--start", type=float, default=-1e15, help="Unix seconds, excluded")
    a.add_argument("--end", type=float, default=1e15, help="Unix seconds, included")
    args = a.parse_args()
    s = Storage(args.directory)
    for labels, rows in sorted(s.select(selector(args.match), int(args.start * 1000), int(args.end * 1000)).items()):
        print(json.dumps(answer(labels, rows)))
    r = s.report
    for p in r.problems:
        print(p, file=sys.stderr)
    print(f"format {s.version}: {r.bytes} bytes of keys and values, {r.unexplained} that the documents do not explain, "
          f"{r.compared} sums compared, {len(r.problems)} problem(s)", file=sys.stderr)
    return 1 if r.problems else 0


if __name__ == "__main__":
    sys.exit(main())
