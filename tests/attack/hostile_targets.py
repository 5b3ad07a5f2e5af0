#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""200 targets that mean harm: bombs, hangs, redirects, drips and lies, each kind several times, at 127.0.3.N. A server that
scrapes them has to stay within its memory and to keep its other targets' schedule.

usage: hostile_targets.py --url=http://127.0.0.1:7070 --seconds=60 --config-dir=DIR [--targets=200] [--interval=1s]
       hostile_targets.py --serve --seconds=60 [--targets=200]   only the targets; prints their addresses as JSON"""
import asyncio
import os
import zlib

import heavy_bodies
from heavy_bodies import Targets, gzipped, message, number, read_request, send, tables, varint

SAMPLE = message(2, message(1, b"\x01") + message(2, b"\x01"))


def bomb(megabytes, wbits=31):
    pack = zlib.compressobj(1, zlib.DEFLATED, wbits)
    zeros = bytes(1 << 20)
    return b"".join(pack.compress(zeros) for _ in range(megabytes)) + pack.flush()


def lying_size(body, says):
    """The size that a gzip member names at its end."""
    return body[:-4] + says.to_bytes(4, "little")


class Kinds:
    """One coroutine per kind of malice; those whose name begins with _ are none."""

    def __init__(self):
        self._good = gzipped([tables(1), SAMPLE])
        self._bomb = bomb(300)
        self._small_bombs = bomb(1) * 64
        self._bytes, self._line = os.urandom(1 << 20), b""
        self._strings = gzipped([tables(1), SAMPLE, message(6, b"") * 1000000])
        self._labels = gzipped([tables(1), message(2, message(1, b"\x01") + message(2, b"\x01") +
                                                      message(3, number(1, 1) + number(3, 5)) * 200) * 20000])
        self._deep = gzipped([tables(1), message(2, message(1, b"\x01" * 4096) + message(2, b"\x01")) * 5000])
        self._sparse = gzipped([tables(1), b"".join(message(4, number(1, (i * 0x9E3779B97F4A7C15) % (1 << 64) or 1))
                                                    for i in range(50000)), SAMPLE])
        self._members, self._isize = gzipped([b""]) * 200000, lying_size(bomb(100), 5)
        self._twice = zlib.compress(self._bomb)

    def _all(self):
        return [getattr(self, n) for n in sorted(dir(self)) if not n.startswith("_")]

    # ---- bombs ----
    async def bomb_pprof(self, r, w):
        await send(w, self._bomb)

    async def bomb_encoding(self, r, w):
        await send(w, self._bomb, headers=b"Content-Encoding: gzip\r\n")

    async def bomb_twice(self, r, w):
        await send(w, self._twice, headers=b"Content-Encoding: deflate\r\n")

    async def bomb_members(self, r, w):
        await send(w, self._small_bombs)

    async def empty_members(self, r, w):
        await send(w, self._members)

    async def bomb_strings(self, r, w):
        await send(w, self._strings)

    async def endless(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(2000):
            w.write(self._bytes)
            await w.drain()

    async def endless_chunks(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2000000):
            w.write(b"1\r\nx\r\n" * 1000)
            await w.drain()

    # ---- hangs ----
    async def no_answer(self, r, w):
        await asyncio.sleep(600)

    async def no_body(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        await asyncio.sleep(600)

    async def half_a_line(self, r, w):
        w.write(b"HTTP/1.1 20")
        await asyncio.sleep(600)

    async def closes_at_once(self, r, w):
        w.transport.abort()

    async def resets_within(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + self._bytes[:5000])
        await w.drain()
        w.transport.abort()

    # ---- redirects ----
    async def redirect_loop(self, r, w):
        await send(w, b"", 302, b"Location: /again\r\n")

    async def redirect_growing(self, r, w):
        path = self._line.split()[1]
        await send(w, b"", 302, b"Location: " + path[:20000] + path[:20000] + b"x\r\n")

    async def redirect_file(self, r, w):
        await send(w, b"", 302, b"Location: file:///etc/passwd\r\n")

    async def redirect_nowhere(self, r, w):
        await send(w, b"", 307, b"Location: http://127.0.0.1:1/\r\n")

    # ---- drips ----
    async def drip_headers(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\n")
        for i in range(600):
            w.write(b"X-%d: y\r\n" % i)
            await w.drain()
            await asyncio.sleep(0.5)

    async def drip_bytes(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for i in range(1200):
            w.write(b"x")
            await w.drain()
            await asyncio.sleep(0.2)

    async def drip_megabytes(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(600):
            w.write(self._bytes)
            await w.drain()
            await asyncio.sleep(0.1)

    # ---- lies ----
    async def too_long(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n" + self._good)

    async def too_short(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + self._good)

    async def negative_length(self, r, w):
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + self._good)

    async def many_headers(self, r, w):
        await send(w, self._good, headers=b"X: " + b"y" * 200 + b"\r\n" + b"Z: 1\r\n" * 20000)

    async def long_header(self, r, w):
        await send(w, self._good, headers=b"X: " + b"y" * 3000000 + b"\r\n")

    async def status_999(self, r, w):
        await send(w, self._bytes, 999)

    async def status_500_large(self, r, w):
        await send(w, self._bytes * 40, 500)

    async def garbage(self, r, w):
        await send(w, self._bytes)

    async def not_http(self, r, w):
        w.write(self._bytes[:10000])

    async def isize_small(self, r, w):
        await send(w, self._isize)

    async def isize_large(self, r, w):
        await send(w, lying_size(self._good, 0xffffffff))

    async def from_the_future(self, r, w):
        await send(w, gzipped([tables(1, (1 << 63) - 1, number(10, (1 << 63) - 1)), SAMPLE]))

    async def from_the_past(self, r, w):
        await send(w, gzipped([tables(1, 1, number(10, (1 << 64) - 5)), SAMPLE]))

    async def largest_values(self, r, w):
        await send(w, gzipped([tables(1)] + [message(2, message(1, b"\x01") + message(2, varint((1 << 63) - 1)))] * 100))

    async def other_names(self, r, w):
        new = os.urandom(8).hex().encode()
        await send(w, gzipped([b"".join([message(1, number(1, 1) + number(2, 2)), message(6, b""),
                                                        message(6, b"type" + new), message(6, b"unit" + new)])]))

    async def labels_galore(self, r, w):
        await send(w, self._labels)

    async def deepest(self, r, w):
        await send(w, self._deep)

    async def evil_expression(self, r, w):
        evil = b"(.*)*(.*)*(.*)*x$"
        await send(w, gzipped([tables(1, extra=message(6, evil) + number(7, 4)), SAMPLE]))

    async def types_galore(self, r, w):
        types = [(1, 2)] * 64
        await send(w, gzipped([tables(1, types=types), message(2, message(1, b"\x01") + message(2, b"\x01" * 64))]))

    async def sparse_ids(self, r, w):
        await send(w, self._sparse)


def hostile_targets(n=200):
    kinds = Kinds()
    every = kinds._all()

    async def answer(i, reader, writer):
        head = await read_request(reader)
        kinds._line = head.split(b"\r\n")[0]
        await every[i % len(every)](reader, writer)
        await writer.drain()
    return Targets(n, answer, "127.0.3")


def attack(url, seconds, config_dir, n=200, interval="1s"):
    targets = hostile_targets(n)
    heavy_bodies.run_against(url, seconds, config_dir, "hostile", targets, interval)
    return {"requests": targets.served}


def main():
    heavy_bodies.program("Targets that mean harm.", 200, hostile_targets, attack)


if __name__ == "__main__":
    main()
