#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""A target that invents 40,000 functions, each with a place and a stack of its own, at every scrape, at 127.0.5.N. Whoever
stores them has to keep its dictionary of names within its memory, and the names of other targets.

usage: invent_names.py --url=http://127.0.0.1:7070 --seconds=60 --config-dir=DIR [--targets=1] [--interval=1s]
       invent_names.py --serve --seconds=60 [--targets=1]   only the targets; prints their addresses as JSON"""
import os
import time

from heavy_bodies import Targets, gzipped, message, number, program, read_request, run_against, send

FUNCTIONS = 40000


def invented(n=FUNCTIONS):
    """A gauge of n stacks of one function each, whose values add up to n, with names that nobody had before."""
    prefix, out = os.urandom(8).hex(), [message(1, number(1, 1) + number(2, 2))]
    for i in range(1, n + 1):
        line = number(1, i)
        out.append(message(2, message(1, line[1:]) + message(2, b"\x01")) + message(4, line + message(4, line)) +
                   message(5, line + number(2, i + 2)))
    names = [message(6, s) for s in (b"", b"inuse_space", b"bytes")]
    names += [message(6, f"invented/{prefix}/of/no/program.f{i}".encode()) for i in range(1, n + 1)]
    return gzipped([b"".join(out), b"".join(names), number(9, time.time_ns())])


def inventing_targets(n=1, functions=FUNCTIONS):
    async def answer(i, reader, writer):
        await read_request(reader)
        await send(writer, invented(functions))
    return Targets(n, answer, "127.0.5")


def attack(url, seconds, config_dir, n=1, interval="1s"):
    targets = inventing_targets(n)
    run_against(url, seconds, config_dir, "invent", targets, interval)
    return {"requests": targets.served, "functions": targets.served * FUNCTIONS}


def main():
    program("A target that invents names.", 1, inventing_targets, attack)


if __name__ == "__main__":
    main()
