# SPDX-License-Identifier: Apache-2.0
"""A querier with three good servers and a bad one: late, of another kind, lying, endless. The answer has what the three have, in time, and a warning that names the fourth."""
import os
import time

from harness import HttpServer, Server, answer, check, gzip_bomb, http_get, patience, slow, wait_until
from test_fleet import MINE, address, asked, querier_config, status_of, values

MOST_GROWTH = 300 << 20


class Relay(HttpServer):
    """Stands before a server. .answer(handler, status, type, body) sends what the server answered, or something else."""

    def __init__(self, env, upstream):
        self.upstream, self.answer, self.delay = upstream, self.forward, 0
        super().__init__(env, self.relay)
        self.url = "http://" + self.address

    def relay(self, handler):
        question = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        time.sleep(self.delay)
        status, headers, body = http_get(self.upstream.url + handler.path, data=question, headers={"Content-Type": handler.headers["Content-Type"]})
        check(status == 200, f"{status} {body}")
        self.answer(handler, status, headers["Content-Type"], body)

    @staticmethod
    def forward(handler, status, kind, body):
        answer(handler, status, body, [("Content-Type", kind)])


def three_and(env, timeout="20s"):
    """(querier, relay before the fourth server)"""
    env.path("mine.yml", MINE)
    servers = [Server(env, f"global: {{external_labels: {{region: r{i}}}}}\nrule_files: [mine.yml]\n", name=f"server-{i}") for i in range(4)]
    relay = Relay(env, servers[3])
    config = querier_config(*map(address, servers[:3]), relay.address).replace("timeout: 5s", f"timeout: {timeout}")
    querier = Server(env, config, name="querier")
    wait_until("all four answer", lambda: values(querier, "count(mine)") == {(): 4})
    return querier, relay


def without_the_fourth(querier, relay, what, **params):
    """Asks; checks that the answer is that of three servers, and returns the warning."""
    data, warnings = asked(querier, "query", query="count(mine)", **params)
    check([r["value"][1] for r in data["result"]] == ["3"], f"{what}: {data}")
    check(len(warnings) == 1 and warnings[0].startswith(f"server {relay.url}: "), f"{what}: {warnings}")
    return warnings[0]


# ---- late ----

@slow
def test_a_late_server(env):
    querier, relay = three_and(env)
    relay.delay = 2
    begin = time.monotonic()
    warning = without_the_fourth(querier, relay, "late", timeout="1s")
    took = time.monotonic() - begin
    print(f"with timeout=1s: {took:.2f} s")
    check("did not answer within" in warning or "time" in warning, warning)
    check(took < 1.9 * patience(), f"the others' answer came after {took:.2f} s")
    check(values(querier, "count(mine)") == {(): 4}, "without a timeout the answer is whole")
    check(status_of(querier, relay)["lastDuration"] >= 2, f"{status_of(querier, relay)}")


# ---- bad answers ----

def garbage(handler, status, kind, body):
    answer(handler, 200, os.urandom(5000), [("Content-Type", kind)])


def empty(handler, status, kind, body):
    answer(handler, 200, b"", [("Content-Type", kind)])


def a_page(handler, status, kind, body):
    answer(handler, 200, b"<html><body>Welcome to nginx!</body></html>", [("Content-Type", "text/html")])


def older(handler, status, kind, body):
    answer(handler, 404, b"404 page not found\n", [("Content-Type", "text/plain")])


def broken(handler, status, kind, body):
    answer(handler, 500, b"internal error\n", [("Content-Type", "text/plain")])


def flipped(handler, status, kind, body):
    middle = len(body) // 2
    answer(handler, 200, body[:middle] + bytes([body[middle] ^ 0x55]) + body[middle + 1:], [("Content-Type", kind)])


def cut(handler, status, kind, body):
    """Fewer bytes than its length says."""
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[:len(body) // 2])


def half(handler, status, kind, body):
    """The first half, as if it were all."""
    answer(handler, 200, body[:len(body) // 2], [("Content-Type", kind)])


def gone(handler, status, kind, body):
    handler.close_connection = True


def endless(handler, status, kind, body, length=None):
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    if length:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()
    handler.wfile.write(body[:len(body) // 2])
    zeros = bytes(1 << 20)
    while True:  # until the querier closes the connection
        handler.wfile.write(zeros)


def gigantic(handler, status, kind, body):
    endless(handler, status, kind, body, 1 << 40)


_BOMB = []


def packed(handler, status, kind, body):
    """Zeros that nobody asked to be packed."""
    answer(handler, 200, _BOMB[0], [("Content-Type", kind), ("Content-Encoding", "gzip")])


BAD = {garbage: "", empty: "", a_page: "text/html", older: "404", broken: "500", flipped: "", cut: "", half: "", gone: "", endless: "", gigantic: "", packed: ""}


def peak(querier):
    """The most memory that was resident, in bytes."""
    with open(f"/proc/{querier.p.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM:"))


@slow
def test_bad_answers(env):
    _BOMB.append(gzip_bomb(300))
    querier, relay = three_and(env)
    before = peak(querier)
    for bad, word in BAD.items():
        relay.answer = bad
        begin = time.monotonic()
        warning = without_the_fourth(querier, relay, bad.__name__)
        print(f"{bad.__name__}: {time.monotonic() - begin:.2f} s, {(peak(querier) - before) >> 20} MB: {warning}")
        check(word in warning, f"{bad.__name__}: {warning}")
        status, _, body = http_get(querier.link("/api/v1/query", query="count(mine)", partial_response="refuse"))
        check(status == 503 and relay.url in body.decode(), f"{bad.__name__}: {status} {body}")
        check(status_of(querier, relay)["health"] == "down" and status_of(querier, relay)["lastError"], f"{status_of(querier, relay)}")
    check(peak(querier) - before < MOST_GROWTH, f"the querier grew by {(peak(querier) - before) >> 20} MB")
    relay.answer = relay.forward
    check(values(querier, "count(mine)") == {(): 4}, "when it is good again, nothing is left of it")
