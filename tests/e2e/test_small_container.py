# SPDX-License-Identifier: Apache-2.0
"""A server in a small container, and clients that ask for its worst answers: it makes them, a few at a time, or refuses them with what to ask
instead; it is never ended by the kernel, small queries do not wait for large ones, and it stops when it is told to."""
import gzip
import json
import os
import random
import resource
import threading
import time
import urllib.parse
import http.client
import struct

from harness import HttpServer, answer, check, http_get, run, slow, wait_until
import remote_write
from pprof_file import _encoded, fields, message
from test_memory import MIB, in_group

STACKS, DEPTH, FUNCTIONS, INSTANCES = 7000, 16, 1000, 200
PART = ("some", '{instance=~"i1."}', 10)
WORST = "merge by (instance)(cpu[1h])"
FORMATS = ("pprof", "json", "flamegraph", "svg", "speedscope", "folded", "dot")


def profile(end):
    """A small file that is a large answer: stacks of functions drawn at random, 10 ms each."""
    dice = random.Random(1)
    out = bytearray(message((1, message((1, 1), (2, 2))), (3, message((1, 1), (2, 0x400000), (3, 0x4000000), (5, 3)))))
    for i in range(FUNCTIONS):
        out += message((5, message((1, i + 1), (2, 4 + i), (3, 4 + i), (4, 3))))
        out += message((4, message((1, i + 1), (2, 1), (3, 0x400000 + 16 * i), (4, message((1, i + 1), (2, 7))))))
    for _ in range(STACKS):
        out += message((2, message((1, b"".join(_encoded(dice.randrange(FUNCTIONS) + 1) for _ in range(DEPTH))), (2, _encoded(10_000_000)))))
    for text in ("", "cpu", "nanoseconds", "/bin/service", *(f"main.function{i}" for i in range(FUNCTIONS))):
        out += message((6, text.encode()))
    return gzip.compress(bytes(out + message((9, (end - 10) * 10**9), (10, 10 * 10**9), (11, message((1, 1), (2, 2))), (12, 10_000_000))))


def loaded(env, limit, flags=(), config="scrape_configs: []\n", make=profile, instances=INSTANCES):
    """A server in a group of so many bytes, with the profile for all instances; .asked is a time to ask at."""
    end = int(time.time()) // 3600 * 3600 - 5400
    data = make(end)
    for i in range(instances):
        folder = os.path.join(env.dir, "files", "job=big", f"instance=i{i}")
        os.makedirs(folder)
        with open(os.path.join(folder, f"{end}.pb.gz"), "wb") as f:
            f.write(data)
    status, out = run([env.program("pyrtool"), "tsdb", "import", os.path.join(env.dir, "pyrrha-data"), os.path.join(env.dir, "files"), "--output=json"])
    check(status == 0 and json.loads(out)["bad"] == 0, out)
    server = in_group(env, limit, ["--storage.tsdb.retention.time=0", *flags], config)
    server.asked = end + 60
    return server


def ask(server, query, **params):
    """(status, body, seconds)"""
    begin = time.monotonic()
    status, _, body = http_get(server.link("/api/v1/query", query=query, time=server.asked, **params), headers=server.headers, timeout=300)
    return status, body, time.monotonic() - begin


class Clients:
    """Each asks for the worst answer in one format, a time or until told to stop."""

    def __init__(self, server, formats, again=False):
        self.answers, self.again, self.server = [], again, server
        self.threads = [threading.Thread(target=self.ask, args=(f,)) for f in formats]
        for t in self.threads:
            t.start()

    def ask(self, format_):
        """Keeps (format, status, bytes, seconds until the answer began, the beginning of a refusal): reading a large one takes this program long."""
        path = self.server.link("/api/v1/query", query=WORST, time=self.server.asked, format=format_)[len(self.server.url):]
        while True:
            try:
                c, begin = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300), time.monotonic()
                c.request("GET", path, headers=self.server.headers or {})
                r = c.getresponse()
                seconds, body = time.monotonic() - begin, r.read()
                c.close()
                self.answers.append((format_, r.status, len(body), seconds, b"" if r.status == 200 else body[:300]))
            except (OSError, http.client.HTTPException) as e:
                self.answers.append((format_, 0, 0, 0, repr(e)))
                return
            if not self.again:
                return

    def at_work(self):
        return any(t.is_alive() for t in self.threads)

    def wait(self):
        self.again = False
        for t in self.threads:
            t.join()
        return self.answers


def at_work(server):
    return server.metrics()["pyrrha_http_requests_in_flight"]


@slow
def test_worst_answers(env):
    """Every answer is complete, whatever its size; small queries are answered beside six of them."""
    server = loaded(env, 512 * MIB)
    status, body, _ = ask(server, WORST, format="pprof")
    check(status == 200, f"{status} {body[:300]}")
    plain = gzip.decompress(body)
    check(sum(k == 2 for k, _ in fields(plain)) == STACKS * INSTANCES, "each stack of each instance is a sample")
    check(sum(k == 4 for k, _ in fields(plain)) == FUNCTIONS, "of one table of locations")
    status, body, _ = ask(server, 'merge by (instance)(cpu{instance=~"i1.?"}[1h])', format="json")
    check(status == 200 and [p["total"] for p in json.loads(body)["data"]["profiles"]] == [STACKS * 10**7] * 11, f"{status} {body[:300]}")
    for f in FORMATS:
        status, body, _ = ask(server, WORST, format=f)
        check(status == 200 and len(body) > 1000, f"{f}: {status} {body[:300]}")
    clients, small = Clients(server, ("pprof", "json") * 3), []
    while clients.at_work():
        for query in ('sum(cpu{instance="i1"})', 'count(cpu)'):
            status, body, seconds = ask(server, query)
            check(status == 200, f"{query}: {status} {body}")
            small.append(seconds)
    answers = clients.wait()
    check(server.alive() and all(a[1] == 200 for a in answers), f"{[a[:2] + a[3:] for a in answers]} {server.text()[-1000:]}")
    check(max(small) < max(a[3] for a in answers) / 2, f"a small query waited for large ones: {max(small)} s; {answers}")


def cpu_seconds(server):
    return server.metrics()["process_cpu_seconds_total"]


def leave(server, formats, after=0.0):
    """Clients leave when the server has worked for so many CPU seconds; how many more it takes until it is not at work any more."""
    connections, before = [], cpu_seconds(server)
    for f in formats:
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        c.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": WORST, "time": server.asked, "format": f}))
        connections.append(c)
    wait_until("they are at work", lambda: at_work(server) >= 1 and cpu_seconds(server) - before >= after, 60)
    for c in connections:
        c.close()
    before = cpu_seconds(server)
    wait_until("nobody is at work", lambda: at_work(server) <= 1, 60)  # but the request that asks
    return cpu_seconds(server) - before


def times_out_while_it_is_made(server):
    """The time-out is long enough to read the profiles, however slow the machine is, and too short to make the answer of them."""
    ms = 200
    while True:
        status, body, _ = ask(server, WORST, format="pprof", timeout=f"{ms}ms")
        check(status == 503 and (b"timed out" in body or b"longer than its timeout" in body), f"{ms} ms: {status} {body[:300]}")
        if b"while its answer was made" in body:
            return
        ms = ms * 3 // 2


def test_clients_that_leave_and_an_end(env):
    """Nobody is left at work for a client that left; a time-out ends what is being made; SIGTERM, too."""
    server = loaded(env, 512 * MIB)
    before = cpu_seconds(server)
    status, body, _ = ask(server, WORST, format="pprof")
    check(status == 200, f"{status} {body[:300]}")
    one = cpu_seconds(server) - before
    used = leave(server, ["pprof"] * 6), leave(server, ["pprof"] * 6, one / 4)  # before answers are made, and meanwhile
    print(f"# one answer takes {one:.2f} s of CPU; after clients had left it took {used[0]:.2f} and {used[1]:.2f} s")
    check(max(used) < one, f"{used} s of CPU for clients that left; one answer takes {one} s")
    leave(server, FORMATS[:6])
    times_out_while_it_is_made(server)
    clients = Clients(server, ("pprof", "json") * 3, again=True)
    wait_until("they are at work", lambda: at_work(server) >= 3, 60)
    before, lived = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_seconds(server)
    status, seconds = server.terminate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    clients.wait()
    check(status == 0, f"status {status} after {seconds} s: {server.text()[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - lived
    print(f"# after SIGTERM it took {used:.2f} s of CPU")
    check(used < one, f"{used} s of CPU after SIGTERM, which ends answers; one takes {one} s")


def recursion(end, stacks=4000, depth=4000):
    """Ordinary names, and a program that recurses: each line of folded text has 60 kB."""
    dice = random.Random(2)
    base = b"".join(_encoded(dice.randrange(FUNCTIONS) + 1) for _ in range(depth))
    out = bytearray(message((1, message((1, 1), (2, 2))), (3, message((1, 1), (2, 0x400000), (3, 0x4000000), (5, 3)))))
    for i in range(FUNCTIONS):
        out += message((5, message((1, i + 1), (2, 4 + i), (3, 4 + i), (4, 3))))
        out += message((4, message((1, i + 1), (2, 1), (3, 0x400000 + 16 * i), (4, message((1, i + 1), (2, 7))))))
    for _ in range(stacks):
        leaves = b"".join(_encoded(dice.randrange(FUNCTIONS) + 1) for _ in range(20))
        out += message((2, message((1, leaves + base), (2, _encoded(10_000_000)))))
    for text in ("", "cpu", "nanoseconds", "/bin/service", *(f"main.function{i}" for i in range(FUNCTIONS))):
        out += message((6, text.encode()))
    return gzip.compress(bytes(out + message((9, (end - 10) * 10**9), (10, 10 * 10**9), (11, message((1, 1), (2, 2))), (12, 10_000_000))))


@slow
def test_long_texts(env):
    """Deep stacks, labels that are long, and calls that make them longer: what one step of an answer writes may be much."""
    body = "".join(f'big{{l="{"<" * 60000}{i}"}} 1\n' for i in range(10)).encode()
    target = HttpServer(env, lambda h: answer(h, 200, body, [("Content-Type", "text/plain; version=0.0.4")]))
    config = "scrape_configs:\n" + "".join(f"  - {{job_name: j{i}, scrape_interval: 5s, metrics_path: /metrics, static_configs: [{{targets: ['{target.address}']}}]}}\n"
                                            for i in range(8))
    server = loaded(env, 256 * MIB, config=config, make=recursion, instances=1)
    for f in FORMATS:
        status, text, _ = ask(server, "merge(cpu[1h])", format=f)
        check(status == 200, f"{f}: {status} {text[:300]} {server.text()[-300:]}")
    longer = 'label_replace(vector(1), "a", "%s", "", "")' % ("x" * 1000)
    for _ in range(4):
        longer = "label_join(%s, %s)" % (longer, ", ".join(['"a"', '""'] + ['"a"'] * 40))
    status, text, _ = ask(server, longer)
    check(status == 422 and b"would be longer" in text, f"{status} {text[:300]} {server.text()[-300:]}")
    wait_until("series are there", lambda: server.value("count(last_over_time(big[10m]))") == 80, 120)  # not all targets find room each time
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(http_get(server.link("/api/v1/series", **{"match[]": "big"}), timeout=120)[0])) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(answers == [200] * 10 and server.alive(), f"{answers} {server.text()[-300:]}")
    check(server.terminate()[0] == 0, server.text()[-300:])


def repeated(unit, n):
    """A snappy block of n times 48 bytes of the same: 1.5 MB of it are 24 MB."""
    tag = bytes([(48 - 1) << 2 | 2]) + struct.pack("<H", 48)
    return remote_write._varint(48 * n) + bytes([(48 - 1) << 2]) + unit * (48 // len(unit)) + tag * (n - 1)


def test_small_messages_that_are_large(env):
    """Of remote-write: empty series and samples, two bytes each, which become structs."""
    server = in_group(env, 256 * MIB, ["--web.enable-remote-write-receiver"])
    for unit in (b"\x0a\x00", b"\x0a\x02\x12\x00"):
        body, statuses = repeated(unit, 500_000), []

        def send():
            statuses.append(http_get(server.link("/api/v1/write"), data=body, headers=remote_write.HEADERS)[0])
        threads = [threading.Thread(target=send) for _ in range(10)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(set(statuses) <= {413, 503} and server.alive(), f"{statuses} {server.text()[-300:]}")
    now = int(time.time() * 1000)
    status, text = remote_write.post(server.url, [({"__name__": "m", "i": str(i)}, [(now, 1.0)]) for i in range(5000)])
    check(status == 204, f"an ordinary message: {status} {text}")


def test_selectors_that_find_the_same(env):
    """Long labels and many series, found by each of many selectors: what is found once is held once."""
    server = in_group(env, 256 * MIB, ["--web.enable-remote-write-receiver"])
    now = int(time.time() * 1000)
    for k in range(10):
        long_ones = [({"__name__": "long", "l": f"{k}-{i}-" + "x" * 40000}, [(now, 1.0)]) for i in range(50)]
        many = [({"__name__": "many", "i": f"{k}-{i}"}, [(now, 1.0)]) for i in range(1500)]
        for series in (long_ones, many):
            status, text = remote_write.post(server.url, series)
            check(status == 204, f"{status} {text}")
    same = '{__name__!=""}'
    status, _, body = http_get(server.link("/api/v1/label/l/values", **{"match[]": [same] * 60, "limit": 10}), timeout=120)
    check(status == 200 and len(json.loads(body)["data"]) == 10, f"{status} {body[:300]} {server.text()[-300:]}")
    status, _, body = http_get(server.link("/api/v1/series", **{"match[]": [same] * 200, "limit": 10}), timeout=120)
    check(status == 200 and len(json.loads(body)["data"]) == 10 and server.alive(), f"{status} {body[:300]} {server.text()[-300:]}")
