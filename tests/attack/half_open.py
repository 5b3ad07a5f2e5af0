#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Connections that never become a request: opened by the thousand, some with the beginning of a request, left for a moment
and closed all at once."""
import argparse
import resource
import socket
import time
import urllib.parse

BEGINNINGS = (b"", b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n", b"", b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab")


def address_of(url):
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port


def more_files(n):
    """As many descriptors as that, or as the system allows; returned is how many connections that leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = n + 200 if hard == resource.RLIM_INFINITY else min(n + 200, hard)
    if soft < want:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, hard))
    return min(n, want - 200)


def open_some(address, n, beginnings=BEGINNINGS, source="127.0.0.1"):
    """n connections; those that the server does not take at once are still on their way."""
    opened = []
    for i in range(n):
        s = socket.socket()
        s.setblocking(False)
        s.bind((source, 0))
        s.connect_ex(address)
        opened.append(s)
    for i, s in enumerate(opened):
        try:
            s.send(beginnings[i % len(beginnings)])
        except OSError:
            pass  # closed by the server already
    return opened


def close_all(opened):
    for s in opened:
        s.close()


def attack(url, seconds, connections=2000, hold=1.0, pause=8.0):
    """Rounds until the time is over; how many connections were opened. The pause leaves the system its ports."""
    address, end, done = address_of(url), time.monotonic() + seconds, 0
    connections = more_files(connections)
    while time.monotonic() < end:
        opened = open_some(address, connections)
        time.sleep(min(hold, max(0, end - time.monotonic())))
        close_all(opened)
        done += len(opened)
        time.sleep(min(pause, max(0, end - time.monotonic())))
    return done


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:7070")
    p.add_argument("--seconds", type=float, default=60)
    args = p.parse_args()
    print(attack(args.url, args.seconds), "connections opened")


if __name__ == "__main__":
    main()
