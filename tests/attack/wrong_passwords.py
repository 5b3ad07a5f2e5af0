#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Clients of many addresses that try one wrong password after the other, each as soon as the last one was answered. Loopback has 16 million
addresses: 127.FIRST.0.1 and on of each network. Prints how many answers had which status."""
import argparse
import base64
import collections
import json
import selectors
import signal
import socket
import time

from half_open import address_of, more_files


def addresses(networks, each, first=10):
    """`each` addresses of each of so many /16 networks, network by network in turns."""
    return [f"127.{first + n}.{i // 250}.{i % 250 + 1}" for i in range(each) for n in range(networks)]


class Client:
    """One connection; a new one when the server closes it."""

    def __init__(self, selector, server, source, answers, ways):
        self.selector, self.server, self.source, self.answers, self.ways, self.tries, self.s = selector, server, source, answers, ways, 0, None
        self.connect()

    def connect(self):
        if self.s:
            self.selector.unregister(self.s)
            self.s.close()
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        self.s.bind((self.source, 0))
        self.s.setblocking(False)
        self.s.connect_ex(self.server)
        self.selector.register(self.s, selectors.EVENT_WRITE, self)

    def ask(self):
        login = self.ways[self.tries % len(self.ways)] or f"alice:{self.source}-{self.tries}"
        word = base64.b64encode(login.encode()).decode()
        self.tries += 1
        try:
            self.s.send(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {word}\r\n\r\n".encode())
            self.selector.modify(self.s, selectors.EVENT_READ, self)
        except OSError:
            self.connect()

    def take(self):
        try:
            got = self.s.recv(1 << 18)
        except OSError:
            got = b""
        if not got:
            self.answers["closed"] += 1
            self.connect()
            return
        if got.startswith(b"HTTP/1.1 "):
            self.answers[got[9:12].decode()] += 1
            self.ask()


def attack(url, seconds, sources, ways=(None,)):
    """A connection from each source. ways: the logins that each tries in turns; None is a wrong one, another each time."""
    selector, answers, end = selectors.DefaultSelector(), collections.Counter(), time.monotonic() + seconds
    server = address_of(url)
    more_files(len(sources))
    for source in sources:
        Client(selector, server, source, answers, ways)
    while time.monotonic() < end:
        for key, event in selector.select(0.2):
            key.data.ask() if event & selectors.EVENT_WRITE else key.data.take()
    return answers


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:7070")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--networks", type=int, default=1)
    p.add_argument("--addresses", type=int, default=1000, help="of each network")
    p.add_argument("--first", type=int, default=10, help="the first network is 127.FIRST")
    p.add_argument("--also", action="append", default=[], help="NAME:PASSWORD that is tried in turns with wrong ones")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: exit(0))
    print(json.dumps(attack(args.url, args.seconds, addresses(args.networks, args.addresses, args.first), (None, *args.also))), flush=True)


if __name__ == "__main__":
    main()
