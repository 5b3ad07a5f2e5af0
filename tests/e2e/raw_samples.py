# SPDX-License-Identifier: Apache-2.0
"""All samples of a server as they are stored, stale markers included: {labels: [(t_ms, value or "stale")]}."""
import json
import struct

from harness import check, http_get, run
from remote_write import HEADERS, _field, _varint, snappy

STALE_BITS = 0x7ff0000000000002


def spelled(bits):
    return "stale" if bits == STALE_BITS else repr(struct.unpack("<d", struct.pack("<Q", bits))[0])


def of_pyrrha(env, storage):
    """From its directory, which no server uses."""
    status, text = run([env.program("pyrtool"), "tsdb", "dump", "--output=json", storage], 60)
    check(status == 0, text)
    rows = {}
    for line in text.splitlines():
        if line.startswith("{"):
            p = json.loads(line)
            value = p["value"] if p["value"] == "stale" else repr(float(p["value"]))
            rows.setdefault(tuple(sorted(p["labels"].items())), []).append((p["t"], value))
    return {k: sorted(v) for k, v in rows.items()}


def unsnappy(data):
    """A snappy block."""
    size, at = _number(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            n = tag >> 2
            if n >= 60:
                more = n - 59
                n = int.from_bytes(data[at:at + more], "little")
                at += more
            out += data[at:at + n + 1]
            at += n + 1
            continue
        if tag & 3 == 1:
            n, back = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at]
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            n, back = (tag >> 2) + 1, int.from_bytes(data[at:at + width], "little")
            at += width
        for _ in range(n):
            out.append(out[-back])
    check(len(out) == size, f"snappy: {len(out)} bytes instead of {size}")
    return bytes(out)


def _number(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return n, at


def _fields(data):
    """(number, value) of a message: numbers, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        if tag & 7 == 0:
            value, at = _number(data, at)
        elif tag & 7 == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        else:
            size, at = _number(data, at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def of_prometheus(url, begin_ms, end_ms):
    """Over remote read, of all series with a job."""
    matcher = b"\x08\x02" + _field(2, b"job") + _field(3, b".+")
    query = b"\x08" + _varint(begin_ms) + b"\x10" + _varint(end_ms) + _field(3, matcher)
    status, _, body = http_get(url + "/api/v1/read", data=snappy(_field(1, query)), headers=HEADERS)
    check(status == 200, f"remote read: {status} {body[:200]}")
    rows = {}
    for _, result in _fields(unsnappy(body)):
        for _, series in _fields(result):
            labels, samples = {}, []
            for number, part in _fields(series):
                values = dict(_fields(part))
                if number == 1:
                    labels[values[1].decode()] = values.get(2, b"").decode()
                else:
                    samples.append((values.get(2, 0), spelled(values.get(1, 0))))
            rows[tuple(sorted(labels.items()))] = sorted(samples)
    return rows
