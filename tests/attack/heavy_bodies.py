#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Targets that serve valid but heavy profiles: small to send, a second and more to decode. Each has an address of its own,
127.0.2.N, and serves the same for every path. They hurt a server that scrapes them beside others.

As a program it puts a job over these targets into a file of the server's scrape_config_files, asks the server to reload
(--web.enable-lifecycle), and takes both back after the given time.

usage: heavy_bodies.py --url=http://127.0.0.1:7070 --seconds=60 --config-dir=DIR [--targets=16] [--interval=1s]
       heavy_bodies.py --serve --seconds=60 [--targets=16]   only the targets; prints their addresses as JSON"""
import argparse
import asyncio
import json
import os
import threading
import time
import urllib.request
import zlib


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def tables(n, time_ns=0, extra=b"", types=((1, 2),)):
    """All of a profile but its samples: n locations, each a function of its own."""
    strings = ["", "cpu", "nanoseconds"] + [f"heavy.f{i}" for i in range(1, n + 1)]
    out = [message(1, number(1, t) + number(2, u)) for t, u in types]
    for i in range(1, n + 1):
        out.append(message(4, number(1, i) + message(4, number(1, i) + number(2, i))))
        out.append(message(5, number(1, i) + number(2, i + 2)))
    out += [message(6, s.encode()) for s in strings]
    return b"".join(out) + message(11, number(1, 1) + number(2, 2)) + number(12, 10000000) + number(9, time_ns or time.time_ns()) + extra


def gzipped(parts):
    pack = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(pack.compress(p) for p in parts) + pack.flush()


def many_samples(n=1500000):
    """The same thousand stacks over and over: 60 MB that compress to some hundred kilobytes."""
    block = b"".join(message(2, message(1, bytes((i * k) % 127 + 1 for k in range(1, 25))) + message(2, b"\x01"))
                     for i in range(1000))
    return gzipped([tables(127)] + [block] * (n // 1000))


def different_stacks(n=60000, depth=100):
    """No two stacks are the same."""
    ids = bytes(i % 127 + 1 for i in range(256))
    random = os.urandom(n * depth).translate(ids)
    head, tail = b"\x12" + varint(depth + 5) + b"\x0a" + varint(depth), b"\x12\x01\x01"
    return gzipped([tables(127), b"".join(head + random[i * depth:(i + 1) * depth] + tail for i in range(n))])


class Targets:
    """n addresses on one port, served from a thread. answer(i, reader, writer) is a coroutine that serves target i."""

    def __init__(self, n, answer, net="127.0.2"):
        self.hosts = [f"{net}.{i}" for i in range(1, n + 1)]
        self.answer, self.loop, self.served = answer, asyncio.new_event_loop(), 0
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()
        self.addresses = [f"{h}:{self.port}" for h in self.hosts]

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda loop, context: None)  # peers that go away are no news
        first = self.loop.run_until_complete(asyncio.start_server(self._serve, self.hosts[0], 0, backlog=1000))
        self.port = first.sockets[0].getsockname()[1]
        self.servers = [first]
        for h in self.hosts[1:]:
            self.servers.append(self.loop.run_until_complete(asyncio.start_server(self._serve, h, self.port, backlog=1000)))
        started.set()
        self.loop.run_forever()

    async def _serve(self, reader, writer):
        self.served += 1
        try:
            i = int(writer.get_extra_info("sockname")[0].split(".")[3]) - 1
            await self.answer(i, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def close(self):
        def stop():
            for s in self.servers:
                s.close()
            for t in asyncio.all_tasks(self.loop):
                t.cancel()
            self.loop.call_later(0.1, self.loop.stop)
        self.loop.call_soon_threadsafe(stop)
        self.thread.join(5)


async def read_request(reader):
    return await reader.readuntil(b"\r\n\r\n")


async def send(writer, body, status=200, headers=b""):
    writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" % (status, len(body), headers))
    writer.write(body)
    await writer.drain()


def heavy_targets(n=16):
    bodies = [many_samples(), different_stacks(), many_samples(800000), different_stacks(20000, 126)]

    async def answer(i, reader, writer):
        await read_request(reader)
        await send(writer, bodies[i % len(bodies)])
    return Targets(n, answer)


def job(name, addresses, interval, types="{memory: {path: /allocs}}", timeout="2s"):
    """A scrape job over the addresses that asks for these types only."""
    off = "".join(f"        {t}: {{enabled: false}}\n" for t in ("memory", "block", "mutex", "goroutine", "process_cpu") if t not in types)
    return (f"  - job_name: {name}\n    scrape_interval: {interval}\n    scrape_timeout: {timeout}\n    profiling_config:\n"
            f"      pprof_config:\n{off}        {types.strip('{}')}}}\n    static_configs:\n      - targets: {addresses}\n")


def reload(url):
    urllib.request.urlopen(urllib.request.Request(url + "/-/reload", method="POST"), timeout=30).close()


def run_against(url, seconds, config_dir, name, targets, interval):
    """The targets as a job of the server for so long."""
    path = os.path.join(config_dir, name + ".yml")
    try:
        with open(path, "w", encoding="utf-8") as f:
            f.write("scrape_configs:\n" + job(name, targets.addresses, interval))
        reload(url)
        time.sleep(seconds)
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write("scrape_configs: []\n")
        reload(url)
        targets.close()


def attack(url, seconds, config_dir, n=16, interval="1s"):
    targets = heavy_targets(n)
    run_against(url, seconds, config_dir, "heavy", targets, interval)
    return {"requests": targets.served}


def program(what, n, targets, attack_it):
    """The command line of an attack that consists of targets."""
    p = argparse.ArgumentParser(description=what)
    p.add_argument("--url")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--config-dir", help="a folder of the server's scrape_config_files: DIR/*.yml")
    p.add_argument("--targets", type=int, default=n)
    p.add_argument("--interval", default="1s")
    p.add_argument("--serve", action="store_true")
    a = p.parse_args()
    if a.serve:
        print(json.dumps(targets(a.targets).addresses), flush=True)
        time.sleep(a.seconds)
    elif not a.url or not a.config_dir:
        p.error("--url and --config-dir are needed, or --serve")
    else:
        print(attack_it(a.url, a.seconds, a.config_dir, a.targets, a.interval))


def main():
    program("Targets that serve valid but heavy profiles.", 16, heavy_targets, attack)


if __name__ == "__main__":
    main()
