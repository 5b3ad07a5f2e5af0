#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Targets that serve bodies of real size: ordinary ones, a profile of 2,500 stacks in 134 kB, at 127.0.4.N; and large ones, valid but
more than their share of a small server's memory. The same body for every path; `metrics` are text, so their path is /metrics.

usage: real_sizes.py KIND [--targets=20] [--seconds=600]    prints their addresses as JSON
  ordinary   134 kB, 2,500 stacks
  metrics    2.4 MB of text, 27,000 series each target's own
  stacks     200,000 stacks, 10 MB compressed
  slow       the metrics, in pieces: all but the last within a second, the last one never
  mixed      all of them but the ordinary one, and bombs, one after the other"""
import argparse
import asyncio
import gzip
import json
import os
import sys
import time

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(TOP, "tests", "attack"), os.path.join(TOP, "tests", "e2e")]
from heavy_bodies import Targets, different_stacks, many_samples, read_request  # noqa: E402
from large_profile import Program  # noqa: E402

NETS = {"ordinary": "127.0.4", "metrics": "127.0.5", "stacks": "127.0.6", "slow": "127.0.7", "mixed": "127.0.8"}


def ordinary():
    """Cumulative, as a Go program's heap."""
    return gzip.compress(Program(3600, 2600).profile(time.time_ns(), seconds=0, type_=("alloc_space", "bytes")), 6)


def metrics(n=27000):
    lines = []
    for i in range(n):
        if i % 1000 == 0:
            lines.append(f"# HELP requests_{i // 1000}_total Requests of the service, by path and status.\n# TYPE requests_{i // 1000}_total counter\n")
        lines.append(f'requests_{i // 1000}_total{{path="/api/v1/things/{i}",method="GET",status="200",zone="a{i % 7}"}} {i * 17}\n')
    return "".join(lines).encode()


def stacks(n=200000):
    return different_stacks(n, 30)


async def send(writer, kind, body, pause=False):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (kind, len(body)))
    at = 0
    while pause and at + 300000 < len(body):
        writer.write(body[at:at + 300000])
        await writer.drain()
        await asyncio.sleep(0.1)
        at += 300000
    if pause:
        await asyncio.sleep(600)
    writer.write(body[at:])
    await writer.drain()


def targets(kind, n):
    text, binary = b"text/plain; version=0.0.4", b"application/octet-stream"
    bodies = {"ordinary": lambda: [(binary, ordinary(), False)], "metrics": lambda: [(text, metrics(), False)],
              "stacks": lambda: [(binary, stacks(), False)], "slow": lambda: [(text, metrics(), True)]}
    bodies["mixed"] = lambda: [(text, metrics(), False), (binary, stacks(), False), (text, metrics(), True), (binary, many_samples(), False),
                               (binary, stacks(60000), False)]
    served = bodies[kind]()

    async def answer(i, reader, writer):
        await read_request(reader)
        await send(writer, *served[i % len(served)])
    return Targets(n, answer, NETS[kind])


def main():
    p = argparse.ArgumentParser(description="Targets with bodies of real size.")
    p.add_argument("kind", choices=sorted(NETS))
    p.add_argument("--targets", type=int, default=20)
    p.add_argument("--seconds", type=float, default=600)
    a = p.parse_args()
    print(json.dumps(targets(a.kind, a.targets).addresses), flush=True)
    time.sleep(a.seconds)


if __name__ == "__main__":
    main()
