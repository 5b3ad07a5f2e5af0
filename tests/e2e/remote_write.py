# SPDX-License-Identifier: Apache-2.0
"""A sender of remote-write 1.0 in a few lines: protobuf by hand, and snappy blocks of literals only."""
import struct

from harness import check, http_get

STALE = struct.unpack("<d", struct.pack("<Q", 0x7ff0000000000002))[0]


def _varint(n):
    out = bytearray()
    while True:
        n, low = n >> 7, n & 127
        out.append(low | (128 if n else 0))
        if not n:
            return bytes(out)


def _field(number, payload):
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _double(v):
    # A stale marker is one NaN of many: struct keeps its bits only if it never passes through arithmetic.
    return struct.pack("<d", v)


def message(series):
    """A WriteRequest of [(labels, [(t_ms, value), ...]), ...]."""
    out = bytearray()
    for labels, samples in series:
        ts = bytearray()
        for name in sorted(labels):
            ts += _field(1, _field(1, name.encode()) + _field(2, labels[name].encode()))
        for t_ms, v in samples:
            ts += _field(2, b"\x09" + _double(v) + b"\x10" + _varint(t_ms))
        out += _field(1, bytes(ts))
    return bytes(out)


def snappy(data):
    """A snappy block: its length, then literals of at most 64 KiB."""
    out = bytearray(_varint(len(data)))
    for i in range(0, len(data), 65536):
        part = data[i:i + 65536]
        out += bytes([61 << 2]) + struct.pack("<H", len(part) - 1) + part
    return bytes(out)


HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
           "X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "pyrrha-test"}


def post(url, series, headers=None):
    """(status, text) of one request."""
    status, _, body = http_get(url + "/api/v1/write", data=snappy(message(series)), headers=headers or HEADERS)
    return status, body.decode(errors="replace")


def load(url, series, window_ms=600000):
    """All of it in the order of time, as a real sender would: a receiver refuses what is much older than the newest."""
    begin = min(t for _, samples in series for t, _ in samples)
    end = max(t for _, samples in series for t, _ in samples)
    while begin <= end:
        part = [(labels, [s for s in samples if begin <= s[0] < begin + window_ms]) for labels, samples in series]
        status, text = post(url, [(labels, samples) for labels, samples in part if samples])
        check(status == 204, f"remote-write to {url}: {status} {text}")
        begin += window_ms
