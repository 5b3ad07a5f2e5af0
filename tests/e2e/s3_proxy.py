# SPDX-License-Identifier: Apache-2.0
"""A proxy before an S3 that spoils requests and answers, by a seeded dice or by a script. Each fault is one that the client must survive: a
status of an overloaded store, a reset before the request arrived or after the answer was made (so that nobody knows whether it took effect),
an answer that comes late or in part, a body that is damaged on its way to the store. Bytes of a good answer are never changed: nothing in S3
would show that, and whoever reads an object holds it against its hash (spoil "flip" does it, for tests of that).

    proxy = S3Proxy(env, port, seed=3, share=0.3)       # three of ten requests have a fault
    proxy.script(["lost", None, ("503", 4)])            # then the next requests: lost, good, four times 503, and the dice again
    proxy.count                                         # {"lost": 1, …}: what was done so far
"""
import collections
import random
import socket
import struct
import threading
import time

# What is thrown, and how often beside the others.
FAULTS = {
    "500": 2, "503": 2, "429": 1,  # the store says so, and does nothing
    "refuse": 1,     # the connection is closed before the request was read
    "reset": 2,      # … and reset, in the middle of its body
    "lost": 4,       # the request is fulfilled, and its answer is dropped
    "lost_500": 2,   # … and replaced: "internal error"
    "cut": 2,        # the answer ends in the middle
    "late": 2,       # it comes after a second
    "damage": 1,     # a bit of the request's body is another
    "busy": 1,       # 409 ConditionalRequestConflict
}
ERROR = {"500": ("500 Internal Server Error", "InternalError"), "503": ("503 Slow Down", "SlowDown"), "429": ("429 Too Many", "TooManyRequests"),
         "busy": ("409 Conflict", "ConditionalRequestConflict"), "lost_500": ("500 Internal Server Error", "InternalError")}


def error(name):
    status, code = ERROR[name]
    body = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>a proxy of tests</Message></Error>"
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


class Gone(Exception):
    """The other side has closed the connection."""


def read_head(s):
    """(head with its empty line, what came after it)"""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            raise Gone()
        data += piece
    at = data.index(b"\r\n\r\n") + 4
    return data[:at], data[at:]


def field(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return b""


def read_body(s, begin, length):
    while len(begin) < length:
        piece = s.recv(min(1 << 20, length - len(begin)))
        if not piece:
            raise Gone()
        begin += piece
    return begin


def reset(s):
    """Ends the connection with a reset, whatever is unsent."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class S3Proxy:
    def __init__(self, env, port, seed=1, share=0.0, faults=None):
        self.target, self.share = port, share
        weights = {name: FAULTS.get(name, 1) for name in faults or FAULTS}
        self.names, self.weights = list(weights), list(weights.values())
        self.dice, self.lock, self.planned = random.Random(seed), threading.Lock(), collections.deque()
        self.count, self.requests = collections.Counter(), 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        env.at_end(self.close)

    def close(self):
        self.listener.close()

    def script(self, steps):
        """Faults of the next requests, in the order of their arrival: a name, None for none, or (name, times)."""
        with self.lock:
            for step in steps:
                name, times = step if isinstance(step, tuple) else (step, 1)
                self.planned.extend([name] * times)

    def fault(self):
        with self.lock:
            self.requests += 1
            if self.planned:
                name = self.planned.popleft()
            else:
                name = self.dice.choices(self.names, self.weights)[0] if self.dice.random() < self.share else None
            if name:
                self.count[name] += 1
            return name, self.dice.random()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with s:
            try:
                s.settimeout(60)
                while self.one(s):
                    pass
            except (OSError, Gone):
                pass

    def one(self, s):
        """A request; whether the connection is still good."""
        head, rest = read_head(s)
        name, where = self.fault()
        length = int(field(head, b"content-length") or 0)
        if name == "refuse":
            return False
        if name in ("500", "503", "429", "busy"):
            s.sendall(error(name))  # before the body was read, as such stores do
            return False
        if name == "reset":
            read_body(s, rest, min(length, int(length * where)))
            reset(s)
            return False
        body = read_body(s, rest, length)
        if name == "damage" and body:
            at = int(where * len(body))
            body = body[:at] + bytes([body[at] ^ 4]) + body[at + 1:]
        answer = self.forward(head, body)
        if name == "lost":
            reset(s)
            return False
        if name == "lost_500":
            answer = error("lost_500")
        if name == "late":
            time.sleep(1)
        if name == "cut":
            s.sendall(answer[:max(1, int(where * len(answer)))])
            return False
        if name == "flip":
            at = answer.index(b"\r\n\r\n") + 4
            if at < len(answer):
                at += int(where * (len(answer) - at))
                answer = answer[:at] + bytes([answer[at] ^ 4]) + answer[at + 1:]
        s.sendall(answer)
        return False

    def forward(self, head, body):
        """The whole answer. The signature covers the Host that the client named, so the head goes on as it is, but for the connection's end."""
        lines = [x for x in head[:-4].split(b"\r\n") if not x.lower().startswith((b"connection:", b"expect:"))]
        with socket.create_connection(("127.0.0.1", self.target), timeout=60) as s:
            s.sendall(b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n" + body)
            answer = b""
            while True:
                piece = s.recv(1 << 20)
                if not piece:
                    return answer
                answer += piece
