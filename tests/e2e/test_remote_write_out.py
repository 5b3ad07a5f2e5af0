# SPDX-License-Identifier: Apache-2.0
"""Remote-write, out: what a receiver has in the end is what the server has, whoever was away or killed meanwhile. Receivers are
Debian's real Prometheus 2.42, and one of this file that refuses, resets and remembers."""
import json
import os
import re
import socket
import struct
import sys
import threading
import time

import remote_write
from harness import LONG, patience, TOP, Echo, HttpServer, Process, Server, Skip, answer, check, free_port, http_get, run, wait_until
from test_promql_oracle import ANY_AGE, Prometheus, tool

WRITE = ["--web.enable-remote-write-receiver"]
FAST = "queue_config: {batch_send_deadline: 200ms, max_backoff: 500ms%s}"


# ---- what is in a request ----

def unsnappy(data):
    """A snappy block with literals and copies."""
    n, shift, i = 0, 0, 0
    while True:
        n |= (data[i] & 127) << shift
        shift, i = shift + 7, i + 1
        if data[i - 1] < 128:
            break
    out = bytearray()
    while i < len(data):
        tag = data[i]
        kind, i = tag & 3, i + 1
        if kind == 0:
            size = tag >> 2
            if size >= 60:
                more = size - 59
                size, i = int.from_bytes(data[i:i + more], "little"), i + more
            out += data[i:i + size + 1]
            i += size + 1
            continue
        size = (tag >> 2 & 7) + 4 if kind == 1 else (tag >> 2) + 1
        wide = {1: 1, 2: 2, 3: 4}[kind]
        offset, i = int.from_bytes(data[i:i + wide], "little") | ((tag >> 5) << 8 if kind == 1 else 0), i + wide
        out += (bytes(out[-offset:]) * (size // offset + 1))[:size]
    check(len(out) == n, f"snappy: {len(out)} bytes of {n}")
    return bytes(out)


def fields(data):
    i = 0

    def varint():
        nonlocal i
        n, shift = 0, 0
        while True:
            n |= (data[i] & 127) << shift
            shift, i = shift + 7, i + 1
            if data[i - 1] < 128:
                return n
    while i < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            i += 8
            yield key >> 3, data[i - 8:i]
        else:
            size = varint()
            i += size
            yield key >> 3, data[i - size:i]


def decode(body):
    """[(labels as pairs, t_ms, bits)]"""
    out = []
    for _, series in fields(unsnappy(body)):
        parts = list(fields(series))
        labels = tuple(tuple(v.decode() for _, v in sorted(fields(v))) for k, v in parts if k == 1)
        for k, v in parts:
            if k == 2:
                sample = dict(fields(v))
                out.append((labels, sample.get(2, 0), struct.unpack("<Q", sample.get(1, bytes(8)))[0]))
    return out


class Receiver(HttpServer):
    """Answers each request as `plan` says (a list, its last for ever): a status, (status, headers), "reset" (before it is read),
    "lost" (taken, and the connection reset before the answer), or a function of the samples."""

    def __init__(self, env, *plan):
        self.plan, self.lock, self.requests = list(plan) or [204], threading.Lock(), []  # (time, verdict, headers, samples)
        self.delay = 0  # of answers
        super().__init__(env, self.do)

    def do(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        samples = decode(body)
        with self.lock:
            what = self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]
            what = what(samples) if callable(what) else what
            self.requests.append((time.monotonic(), what, dict(handler.headers), samples))
        time.sleep(self.delay)
        if what in ("reset", "lost"):
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            handler.connection.close()
            return
        status, headers = what if isinstance(what, tuple) else (what, ())
        answer(handler, status, b"" if status // 100 == 2 else b"no\n", headers)

    def taken(self):
        with self.lock:
            return [samples for _, what, _, samples in self.requests if what in (200, 204, "lost")]


def check_taken(receiver, want, extra=()):
    """Everything, in order within a series, and what came twice came in the same request."""
    series, seen = {}, {}
    requests = receiver.taken()
    for samples in requests:
        repeated = [s in seen for s in samples]
        check(all(repeated) or not any(repeated), f"a request has {sum(repeated)} of {len(samples)} samples for the second time")
        if all(repeated):
            continue
        for s in samples:
            seen[s] = True
            series.setdefault(s[0], []).append(s[1:])
    for labels, points in series.items():
        check([t for t, _ in points] == sorted({t for t, _ in points}), f"{labels}: not in order: {points[:20]}")
    want = {tuple(sorted({**labels, **dict(extra)}.items())): [(t, struct.unpack("<Q", struct.pack("<d", v))[0]) for t, v in points]
            for labels, points in want}
    got = {k: v for k, v in series.items() if k in want}
    for labels, points in want.items():
        check(got.get(labels) == points, f"{labels}: {len(got.get(labels, []))} samples of {len(points)}: {got.get(labels, [])[:5]} / {points[:5]}")
    return series


def hold(port):
    """Nobody listens there, and nobody else may: what is sent to one who is away must not reach another test's receiver."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    return s


def config(receiver, more="", queue=""):
    return (f"global: {{external_labels: {{cluster: eu}}}}\nremote_write:\n- url: http://{receiver}/api/v1/write\n  name: main\n  "
            + FAST % queue + f"\n{more}")


def some_series(begin_ms, n, samples, name="w", step_ms=1000):
    return [({"__name__": name, "i": str(i)}, [(begin_ms + k * step_ms, float(i * 1000 + k)) for k in range(samples)]) for i in range(n)]


def pending(server):
    return sum(v for k, v in server.metrics().items() if k.startswith("pyrrha_remote_storage_samples_pending"))


def dropped(server):
    return {k: v for k, v in server.metrics().items() if re.match(r"pyrrha_remote_storage_samples_(dropped|failed)_total", k) and v}


def wait_sent(server, seconds=30):
    time.sleep(0.5)  # what was just taken in is in the queue
    wait_until("all is sent", lambda: pending(server) == 0, seconds)


# ---- a receiver that refuses, resets and remembers ----

def test_refusals(env):
    now = int(time.time() * 1000) // 1000 * 1000 - 60000
    receiver = Receiver(env, 503, (429, [("Retry-After", "1")]), "reset", "lost", (500, []), 204)
    server = Server(env, config("user:hidden-word@" + receiver.address, "  headers: {X-Tenant: a}\n  write_relabel_configs:\n"
                                "  - {source_labels: [__name__], regex: 'unwanted.*', action: drop}\n  - {regex: private, action: labeldrop}\n"), WRITE)
    want = some_series(now, 20, 30) + [({"__name__": "ends", "private": "x"}, [(now, 1.5), (now + 1000, remote_write.STALE)]),
                                      ({"__name__": "own", "cluster": "us"}, [(now, float("nan"))])]
    for series in (want, [({"__name__": "unwanted_one"}, [(now, 1)])]):
        status, text = remote_write.post(server.url, series)
        check(status == 204, text)
    wait_sent(server)
    want[20] = ({"__name__": "ends"}, want[20][1])
    got = check_taken(receiver, want[:21], {"cluster": "eu"}.items())
    check_taken(receiver, want[21:])
    check(not [k for k in got if "unwanted" in str(k) or "private" in str(k)], "what is dropped is not sent")
    times = [(t, what) for t, what, _, _ in receiver.requests]
    after = next(i for i, (_, what) in enumerate(times) if isinstance(what, tuple) and what[0] == 429)
    check(times[after + 1][0] - times[after][0] >= 0.99, f"Retry-After: {times[after + 1][0] - times[after][0]}")
    bodies = [sorted(map(str, samples)) for _, _, _, samples in receiver.requests[:6]]
    check(all(b == bodies[0] for b in bodies), "a retry repeats the request and nothing else")
    headers = receiver.requests[0][2]
    check((headers["Content-Type"], headers["Content-Encoding"], headers["X-Prometheus-Remote-Write-Version"], headers["X-Tenant"]) ==
          ("application/x-protobuf", "snappy", "0.1.0", "a") and headers["User-Agent"].startswith("pyrrha/"), f"{headers}")
    check(headers["Authorization"].startswith("Basic "), f"{headers}")
    metrics = server.metrics()
    one = f'{{remote_name="main",url="http://<secret>@{receiver.address}/api/v1/write"}}'
    check(metrics["pyrrha_remote_storage_samples_total" + one] == 603, f"{[k for k in metrics if 'remote' in k]}")
    retried = metrics["pyrrha_remote_storage_samples_retried_total" + one] / 603  # a connection that was kept and dies is tried once more by curl itself
    check(retried in (3, 4, 5) and len(receiver.requests) == 6, f"{retried} retries, {len(receiver.requests)} requests")
    check(dropped(server) == {"pyrrha_remote_storage_samples_dropped_total" + one[:-1] + ',reason="dropped_series"}': 1.0}, f"{dropped(server)}")
    shown = server.text() + json.dumps(metrics) + server.get("/api/v1/status/config").decode() + server.get("/metrics").decode()
    check("hidden-word" not in shown, "the password of the URL is shown")
    check(server.text().count("profiles are not sent") == 1, "that profiles are not sent is said once")


def test_one_bad_sample(env):
    """A receiver that refuses a whole request because of one sample loses that one."""
    now = int(time.time() * 1000) // 1000 * 1000 - 60000
    receiver = Receiver(env, lambda samples: 400 if any("poison" in str(labels) for labels, _, _ in samples) else 204)
    server = Server(env, config(receiver.address), WRITE)
    want = some_series(now, 50, 20)
    status, text = remote_write.post(server.url, want + [({"__name__": "poison"}, [(now, 1)])])
    check(status == 204, text)
    wait_sent(server)
    check_taken(receiver, want, {"cluster": "eu"}.items())
    check(list(dropped(server).values()) == [1.0], f"{dropped(server)}")
    receiver.plan = [404]
    status, text = remote_write.post(server.url, some_series(now + 30000, 5, 1))
    wait_until("the refused are counted", lambda: list(dropped(server).values()) == [6.0])
    check(pending(server) == 0, "and not kept")


def test_kills(env):
    """Killed with -9 while it takes in and sends: nothing is missing, and only whole requests come twice."""
    begin = int(time.time() * 1000) // 1000 * 1000 - 600000
    receiver = Receiver(env)
    receiver.delay = 0.6  # what it took is killed before it is answered
    queues = [", max_samples_per_send: 100000", ", max_samples_per_send: 100, max_shards: 3"]
    server = Server(env, config(receiver.address, queue=queues[0]), WRITE)
    want = {}
    for life in range(6 if LONG else 2):
        for k in range(2):
            part = some_series(begin + (life * 2 + k) * 10000, 40, 10)
            status, text = remote_write.post(server.url, part)
            check(status == 204, text)
            for labels, points in part:
                want.setdefault(labels["i"], (labels, []))[1].extend(points)
            if k == 0:
                n = len(receiver.requests)
                wait_until("a request is under way", lambda: len(receiver.requests) > n)
        time.sleep(0.2)  # what came behind it is in its queue
        server.kill()
        server.configure(config(receiver.address, queue=queues[(life + 1) % 2]))
        server.restart()
    wait_sent(server)
    check_taken(receiver, list(want.values()), {"cluster": "eu"}.items())
    check(not dropped(server), f"{dropped(server)}")
    twice = len(receiver.taken()) - len({str(r) for r in receiver.taken()})
    check(twice, "no request came twice: nothing was killed between being taken and being answered")


def test_reload(env):
    now = int(time.time() * 1000) // 1000 * 1000 - 60000
    held, second = hold(0), Receiver(env)
    away = "127.0.0.1:%d" % held.getsockname()[1]
    both = config(away) + f"- {{url: 'http://{second.address}/w', name: second}}\n"
    server = Server(env, both, WRITE)
    folders = lambda: sorted(os.listdir(os.path.join(server.storage, "remote")))
    check(folders() == ["main", "second"], f"{folders()}")
    remote_write.post(server.url, some_series(now, 3, 3))
    wait_until("the one that is away has them in its queue", lambda: pending(server) >= 9)
    first = Receiver(env)
    server.configure(config(first.address, more="  write_relabel_configs: [{target_label: new, replacement: x}]\n"))
    server.p.send_signal(1)
    wait_until("the queue of the one that is gone is removed", lambda: folders() == ["main"])
    wait_sent(server)
    check_taken(first, some_series(now, 3, 3), {"cluster": "eu"}.items())  # labels as when they were taken in
    remote_write.post(server.url, some_series(now + 10000, 3, 1))
    wait_until("new labels are on what is new", lambda: any(("new", "x") in labels for r in first.taken() for labels, _, _ in r))


def test_full_queue(env):
    """The oldest go, and are counted; what comes in is not held up."""
    now = int(time.time() * 1000) // 1000 * 1000 - 600000
    away = Receiver(env, 503)
    server = Server(env, config(away.address, queue=", max_samples_per_send: 50"), WRITE + ["--remote-write.queue-size=1MiB"])
    wide = [({"__name__": "wide", "i": str(i), "text": "x" * 3000}, []) for i in range(200)]
    for k in range(6):
        status, text = remote_write.post(server.url, [(labels, [(now + k * 10000 + j * 1000, 1.0) for j in range(10)]) for labels, _ in wide])
        check(status == 204, text)
        time.sleep(0.4)
    def lost():
        return sum(v for k, v in dropped(server).items() if "queue_full" in k)
    wait_until("some were dropped", lost)
    away.plan = [204]
    wait_sent(server)
    sent = sum(v for k, v in server.metrics().items() if k.startswith("pyrrha_remote_storage_samples_total"))
    check(sent + lost() == 12000, f"{sent} sent, {lost()} dropped of 12000")
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, names in os.walk(os.path.join(server.storage, "remote")) for f in names)
    check(size < 2 << 20, f"{size} bytes on disk")
    check("is full" in server.text(), "it is said")


def test_queue_on_disk(env):
    """It is what docs/format/remote.md says, to a reader that knows nothing else."""
    sys.path.insert(0, os.path.join(TOP, "tests", "format"))
    try:
        import remote
    except OSError as e:
        raise Skip(f"a library cannot be loaded: {e}") from None
    now = int(time.time() * 1000) // 1000 * 1000 - 600000
    receiver = Receiver(env, 204, 503)
    server = Server(env, config(receiver.address, queue=", max_samples_per_send: 70"), WRITE)
    want = set()
    for k in range(3):
        part = some_series(now + k * 20000, 30, 20) + [({"__name__": "ends"}, [(now + k * 20000, 1.5), (now + k * 20000 + 1000, remote_write.STALE)])]
        status, text = remote_write.post(server.url, part)
        check(status == 204, text)
        want |= {(tuple(sorted({**labels, "cluster": "eu"}.items())), t, struct.unpack("<Q", struct.pack("<d", v))[0])
                 for labels, points in part for t, v in points}
        wait_until("a request is under way", lambda: len(receiver.requests) > k + 1)
    check(server.terminate()[0] == 0, "it ends well")
    queue = remote.Queue(os.path.join(server.storage, "remote", "main"))
    taken = {s for r in receiver.taken() for s in r}
    check(len(queue.waiting) == len(want) and set(queue.waiting) == want, f"{len(queue.waiting)} wait, of {len(want)}, {len(taken)} were taken")
    check(queue.under_way == 560 and queue.parts == 8, f"{queue.under_way} were under way in {queue.parts} parts")


# ---- Debian's Prometheus ----

class Receiving(Prometheus):
    """It may be killed and started again on its data."""

    def __init__(self, env):
        self.listens = port = free_port()
        self.env, self.url, self.held = env, f"http://127.0.0.1:{port}", None
        self.argv = [tool(env, "prometheus"), "--config.file=" + env.path("prometheus.yml", "global: {}\n"),
                     "--storage.tsdb.path=" + env.path("prometheus"), "--storage.tsdb.retention.time=100y",
                     f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver", "--log.level=warn"]
        self.start()

    def kill(self):
        status = Process.kill(self)
        self.held = self.held or hold(self.listens)
        return status

    def start(self):
        if self.held:
            self.held.close()
            self.held = None
        Process.__init__(self, self.env, "prometheus", self.argv)
        wait_until("prometheus is ready", lambda: http_get(self.url + "/-/ready")[0] == 200)


def raw(server, names, begin, end):
    """{labels: [(time, value)]} of all series of these names."""
    rows = server.query('{__name__=~"%s"}[%ds]' % (names, end - begin), time=end)["result"]
    return {tuple(sorted((k, v) for k, v in r["metric"].items() if k != "cluster")): [(t, v) for t, v in r["values"]] for r in rows}


def compare(ours, theirs, names, begin, end):
    a, b = raw(ours, names, begin, end), raw(theirs, names, begin, end)
    check(a and set(a) == set(b), f"series: only ours {sorted(set(a) - set(b))[:3]}, only theirs {sorted(set(b) - set(a))[:3]}")
    for labels, points in a.items():
        check([t for t, _ in points] == [t for t, _ in b[labels]],
              f"{labels}: missing there {[t for t, _ in points if t not in dict(b[labels])][:5]}, ours {len(points)}, theirs {len(b[labels])}")
        check(all(x == y or float(x) == float(y) for (_, x), (_, y) in zip(points, b[labels])), f"{labels}: values differ")
    return sum(map(len, a.values()))


def test_rules_arrive(env):
    """Recorded series are in Prometheus; it is away for some seconds, the server killed meanwhile: nothing missing, nothing twice."""
    echo, theirs = Echo(env), Receiving(env)
    env.path("rules.yml", "groups: [{name: a, interval: 1s, rules: [{record: 'job:cpu:rate', expr: 'sum by (job) (rate(cpu[10s]))'},"
             " {record: busy, expr: 'share(rate(cpu[10s]), frames(\"main.*\"))'}, {record: one, expr: '1'}, {alert: Always, expr: 'one > 0'}]}]")
    ours = Server(env, "global: {scrape_interval: 1s, external_labels: {cluster: eu}}\nrule_files: [rules.yml]\n"
                  f"scrape_configs: [{{job_name: echo, static_configs: [{{targets: ['{echo.address}']}}]}}]\n"
                  f"remote_write:\n- url: {theirs.url}/api/v1/write\n  " + FAST % "" + "\n")
    begin = time.time()
    wait_until("recorded series are there", lambda: all(theirs.query(name + '{cluster="eu"}')["result"] for name in ("job:cpu:rate", "busy", "up")))
    theirs.kill()
    time.sleep(30 if LONG else 1)
    ours.kill()
    ours.restart()
    time.sleep(30 if LONG else 1)
    theirs.start()
    end = time.time()
    time.sleep(1.5)
    wait_until("it has caught up", lambda: ours.metrics()[[k for k in ours.metrics() if "highest_sent" in k][0]] > end + 1 and pending(ours) < 100)
    n = compare(ours, theirs, "job:.*|busy|one|ALERTS.*|up|scrape_.*", int(begin) - 60, int(end))
    check(n > 30, f"{n} samples")
    check(not dropped(ours), f"{dropped(ours)}")


def test_two_hours_away(env):
    """Two hours of samples while the receiver is away, and the server killed in between and while it catches up."""
    theirs = Receiving(env)
    ours = Server(env, f"remote_write:\n- url: {theirs.url}/api/v1/write\n  " + FAST % ", max_samples_per_send: 500" + "\n", ANY_AGE)
    begin = int(time.time()) // 60 * 60 - 3 * 3600
    load = lambda a, b: remote_write.load(ours.url, [
        ({"__name__": "away", "i": str(i)}, [(1000 * t, float(t % 977 * (i + 1))) for t in range(begin + a, begin + b, 15)]) for i in range(60)])
    load(0, 600)
    wait_until("the first are there", lambda: theirs.query("count(last_over_time(away[4h]))")["result"])
    wait_sent(ours)
    theirs.kill()
    load(600, 3600)
    ours.kill()
    ours.restart()
    load(3600, 7800)
    wait_until("they wait", lambda: pending(ours) >= 60 * 7200 / 15)
    theirs.start()
    wait_until("it begins to catch up", lambda: pending(ours) < 60 * 7200 / 15)
    ours.kill()
    ours.restart()
    load(7800, 8400)
    wait_sent(ours)
    n = compare(ours, theirs, "away", begin - 60, begin + 8400)
    check(n == 60 * 8400 / 15, f"{n} samples")
    check(not [k for k in dropped(ours) if "dropped" in k], f"{dropped(ours)}")


class OnSmallDisk(Server):
    """Its queues lie on a file system of 2 MiB."""

    def __init__(self, env, *more):
        status, out = run(["unshare", "--mount", "true"])
        if status or os.geteuid():
            raise Skip(f"no mount namespace: {out}")
        queues = env.path("pyrrha-data/remote")
        os.makedirs(queues)
        self.under = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"', queues]
        super().__init__(env, *more)


def test_full_disk(env):
    """It holds up nothing that comes in; and when the receiver takes samples again, all are sent."""
    now = int(time.time() * 1000) // 1000 * 1000 - 600000
    away = Receiver(env, 503)
    server = OnSmallDisk(env, config(away.address), WRITE + ["--remote-write.queue-size=4MiB"])
    for k in range(6):
        begin = time.monotonic()
        status, text = remote_write.post(server.url, [({"__name__": "wide", "i": f"{k}/{i}", "text": "x" * 3000}, [(now, 1.0)]) for i in range(200)])
        check(status == 204 and time.monotonic() - begin < 5 * patience(), f"{status} after {time.monotonic() - begin}: {text}")
        time.sleep(0.3)
    failures = wait_until("the disk is full", lambda: [v for k, v in server.metrics().items() if "queue_write_failures" in k and v])
    check(server.value("count(wide)", time=now / 1000) == 1200, "all of it can be asked for")
    away.plan = [204]
    wait_until("all is sent", lambda: sum(map(len, away.taken())) == 1200)
    check(len({s for r in away.taken() for s in r}) == 1200 and not dropped(server), f"{failures}, {dropped(server)}")
    check("cannot be written" in server.text() and "can be written again" in server.text(), "both is said")
