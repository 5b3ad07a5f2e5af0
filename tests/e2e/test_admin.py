# SPDX-License-Identifier: Apache-2.0
"""The admin API on the real server: what is deleted is hidden at once, after a crash and after its space came back; a
snapshot is a data directory; nothing of it without the flag."""
import json
import os
import shutil
import signal
import tarfile
import threading
import time

import remote_write
from harness import TOP, Echo, HttpServer, Server, answer, check, http_get, run, scrape_config, wait_until

FLAGS = ["--web.enable-admin-api", "--web.enable-remote-write-receiver"]
NOTHING = "global:\n  scrape_interval: 5s\n"


def admin(server, path, **params):
    """(status, body) of a POST below /api/v1/admin/tsdb/."""
    status, _, body = http_get(server.link("/api/v1/admin/tsdb/" + path, **params), data=b"")
    return status, body


def write(server, series):
    status, body = remote_write.post(server.url, series)
    check(status == 204, f"remote-write: {status} {body}")


def values(server, query, at):
    """{pod: [values]} of a range selector."""
    return {s["metric"].get("pod", ""): [float(v) for _, v in s["values"]] for s in server.query(query, time=f"{at:.3f}")["result"]}


def fill(server, now):
    """Three pods, a value a minute over the last half hour; the value is the minute."""
    for pod in "abc":
        write(server, [({"__name__": "size", "pod": pod, "namespace": "dev" if pod == "a" else "prod"},
                        [((now - 60 * m) * 1000, m) for m in range(30, 0, -1)])])


def expect(server, now, want, when):
    got = values(server, "size[40m]", now)
    check(got == want, f"{when}: {got} instead of {want}")


def test_delete_series(env):
    server, now = Server(env, NOTHING, flags=FLAGS), int(time.time())
    fill(server, now)
    minutes = [float(m) for m in range(30, 0, -1)]
    expect(server, now, {"a": minutes, "b": minutes, "c": minutes}, "as written")
    check(admin(server, "delete_series", **{"match[]": 'size{pod="a"}'}) == (204, b""), "no 204 for a whole series")
    status, body = admin(server, "delete_series", **{"match[]": 'size{pod=~"b|nobody"}', "start": now - 20 * 60, "end": now - 11 * 60})
    check((status, body) == (204, b""), f"a range: {status} {body}")
    want = {"b": [m for m in minutes if m > 20 or m < 11], "c": minutes}
    expect(server, now, want, "deleted")
    check(server.api("label/pod/values") == ["b", "c"], "a pod of which nothing is left is still listed")
    check(server.metrics()["pyrrha_tsdb_deletes_total"] == 2, "pyrrha_tsdb_deletes_total")
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    server.restart()
    expect(server, now, want, "after a crash")
    check(admin(server, "clean_tombstones") == (204, b""), "clean_tombstones")
    expect(server, now, want, "cleaned")
    write(server, [({"__name__": "size", "pod": "b", "namespace": "prod"}, [((now - 15 * 60) * 1000, 99)])])
    want["b"] = [m for m in minutes if m > 20] + [99.0] + [m for m in minutes if m < 11]
    expect(server, now, want, "written again")
    server.terminate()
    server.restart()
    expect(server, now, want, "after a restart")


def test_delete_profiles(env):
    server = Server(env, scrape_config([Echo(env).address]), flags=FLAGS)
    cpu = '{__name__=~"process_cpu:.*",job="echoserver"}'
    stacks = lambda at: server.get("/api/v1/query", query='merge(cpu{job="echoserver"}[5m])', format="folded", time=f"{at:.3f}").strip()
    up = lambda at: server.query('up{job="echoserver"}[5m]', time=f"{at:.3f}")["result"]
    at = wait_until("stacks", lambda: (t := time.time()) and stacks(t) and up(t) and t, 60)

    def gone():  # one that was on its way may come after the delete: again
        status, body = admin(server, "delete_series", **{"match[]": cpu, "end": f"{at:.3f}"})
        check(status == 204, f"{status} {body}")
        return not server.query(f"{cpu}[5m]", time=f"{at:.3f}")["result"] and not stacks(at)
    wait_until("what was deleted is not found", gone)
    check(up(at), "what was not meant is gone too")
    wait_until("new profiles come in", lambda: server.query(f"{cpu}[5m]", time=f"{time.time():.3f}")["result"], 60)


RULES = NOTHING + """storage:
  retention:
    - selector: '{namespace="dev"}'
      time: 10m
"""


def test_retention_by_selector(env):
    server, now = Server(env, NOTHING, flags=[*FLAGS, "--web.enable-lifecycle"]), int(time.time())
    fill(server, now)
    minutes = [float(m) for m in range(30, 0, -1)]
    expect(server, now, {"a": minutes, "b": minutes, "c": minutes}, "without a rule")
    server.configure(RULES)
    check(http_get(server.link("/-/reload"), data=b"")[0] == 200, "reload")
    got = values(server, "size[40m]", now)
    check(got["b"] == minutes and got["c"] == minutes, f"the others: {got}")
    left = got["a"]
    check(5 <= len(left) <= 10 and left == minutes[-len(left):], f"10 minutes of pod a: {left}")
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    server.argv.append('--storage.tsdb.retention.selector={pod="b"}: 1m')
    server.restart()
    got = values(server, "size[40m]", now)
    check(got["a"] in (left[i:] for i in range(len(left))) and len(got.get("b", [])) <= 1 and got["c"] == minutes, f"and a flag: {got}")


def test_retention_errors(env):
    for text, line, words in (("storage:\n  retention:\n    - selector: '{a='\n      time: 2d\n", 3, "storage.retention[0].selector"),
                              ("storage:\n  retention:\n    - selector: '{}'\n      time: 2d\n", 3, "storage.retention[0].selector"),
                              ("storage:\n  retention:\n    - time: 2d\n", 3, "selector"),
                              ("storage:\n  retention:\n    - selector: up\n      time: soon\n", 4, "time"),
                              ("storage:\n  retentoin: []\n", 2, "retentoin")):
        path = env.path("c.yml", text)
        status, out = run([env.program("pyrrha"), f"--config.file={path}", "--config.check"])
        check(status != 0 and f"{path}:{line}:" in out and words in out, f"{text!r}: {status} {out}")
    path = env.path("c.yml", RULES)
    status, out = run([env.program("pyrrha"), f"--config.file={path}", "--config.check"])
    check(status == 0 and "10m" in out, f"{status} {out}")
    for flag in ("2d", '{a="b"}: x', '{a="b": 2d', '{a="b"}: 1s'):
        status, out = run([env.program("pyrrha"), f"--storage.tsdb.retention.selector={flag}", "--config.check"])
        check(status == 2 and "--storage.tsdb.retention.selector" in out, f"{flag}: {status} {out}")


def test_errors(env):
    server = Server(env, NOTHING)
    for path in ("delete_series", "clean_tombstones", "snapshot"):
        status, body = admin(server, path, **{"match[]": "up"})
        check(status == 503 and b"admin APIs disabled" in body, f"without the flag {path}: {status} {body}")
    server.terminate()
    server.argv.append("--web.enable-admin-api")
    server.restart()
    for params, text in (({}, "no match[] parameter provided"), ({"match[]": "up{"}, "match[]"), ({"match[]": "up", "start": "x"}, '\\"start\\"'),
                         ({"match[]": "up", "start": 5, "end": 4}, "end timestamp")):
        status, body = admin(server, "delete_series", **params)
        check(status == 400 and text in body.decode(), f"{params}: {status} {body}")
    check(http_get(server.link("/api/v1/admin/tsdb/delete_series", **{"match[]": "up"}))[0] == 405, "GET deletes")
    status, _, _ = http_get(server.link("/api/v1/admin/tsdb/clean_tombstones"), data=b"", headers={"Sec-Fetch-Site": "cross-site"})
    check(status == 403, f"a page of another site: {status}")


def test_snapshot(env):
    server, now = Server(env, NOTHING, flags=FLAGS), int(time.time())
    fill(server, now)
    admin(server, "delete_series", **{"match[]": 'size{pod="a"}'})
    status, body = admin(server, "snapshot")
    check(status == 200, f"{status} {body}")
    name = json.loads(body)["data"]["name"]
    admin(server, "delete_series", **{"match[]": "size"})
    copy = os.path.join(server.storage, "snapshots", name)
    check(os.path.isfile(os.path.join(copy, "version")), f"no {copy}/version")
    shutil.copytree(copy, os.path.join(env.dir, "other-data"))
    other = Server(env, NOTHING, name="other")
    minutes = [float(m) for m in range(30, 0, -1)]
    expect(other, now, {"b": minutes, "c": minutes}, "the snapshot")
    expect(server, now, {}, "the original")


def test_tsdb_status(env):
    server, now = Server(env, NOTHING, flags=FLAGS), int(time.time())
    fill(server, now)
    s = server.api("status/tsdb")
    check(s["headStats"]["numSeries"] == 3, f"{s['headStats']}")
    check(s["seriesCountByMetricName"] == [{"name": "size", "value": 3}], f"{s['seriesCountByMetricName']}")
    check({"name": "pod", "value": 3} in s["labelValueCountByLabelName"], f"{s['labelValueCountByLabelName']}")
    check({"name": "namespace=prod", "value": 2} in s["seriesCountByLabelValuePair"], f"{s['seriesCountByLabelValuePair']}")
    check(s["storage"]["partitions"] in (1, 2) and s["storage"]["memory"]["head"] > 0, f"{s['storage']}")
    check(len(server.api("status/tsdb", limit=1)["seriesCountByLabelValuePair"]) == 1, "limit=1")
    two = server.api("status/tsdb", limit=2)["seriesCountByLabelValuePair"]
    check(two == [{"name": "__name__=size", "value": 3}, {"name": "namespace=prod", "value": 2}], f"the two largest: {two}")
    check(http_get(server.link("/api/v1/status/tsdb", limit=0))[0] == 400, "limit=0")


def fixture(env, name):
    """A storage directory that an earlier program wrote."""
    path = env.path(name)
    with tarfile.open(os.path.join(TOP, "tests", "fixtures", "tsdb-format-1.tar.gz")) as tar:
        tar.extractall(path)
    return path


class Asker(threading.Thread):
    """Queries over everything, one after the other."""

    def __init__(self, server, at):
        super().__init__(daemon=True)
        self.link = server.link("/api/v1/query", query='merge({__name__=~".+:.+"}[3d])', time=at, format="flamegraph")
        self.over, self.asked = threading.Event(), 0

    def run(self):
        while not self.over.is_set():
            try:
                http_get(self.link)
                self.asked += 1
            except OSError:
                time.sleep(0.05)


def test_clean_under_queries(env):
    """Space comes back while three clients ask without a pause, within the time of a call; and a stop cuts it short."""
    path = os.path.join(env.dir, "pyrrha-data")
    os.makedirs(path)
    with tarfile.open(os.path.join(TOP, "tests", "fixtures", "tsdb-format-4.tar.gz")) as tar:
        tar.extractall(path)
    if not os.path.exists(os.path.join(path, "version")):
        inner = os.path.join(path, os.listdir(path)[0])
        os.rename(inner, path + ".x")
        os.rmdir(path)
        os.rename(path + ".x", path)
    server = Server(env, NOTHING, flags=[*FLAGS, "--storage.tsdb.retention.time=0"])
    at = server.api("status/tsdb")["headStats"]["maxTime"] / 1000
    askers = [Asker(server, at) for _ in range(3)]
    for a in askers:
        a.start()
    wait_until("all three ask", lambda: all(a.asked for a in askers))
    check(admin(server, "delete_series", **{"match[]": '{__name__=~".+",pod=~".*[13579]"}'})[0] == 204, "delete_series")
    begin = time.monotonic()
    check(admin(server, "clean_tombstones") == (204, b""), "clean_tombstones")
    check(time.monotonic() - begin < 58, f"it took {time.monotonic() - begin:.1f} s")
    wait_until("all masks are gone", lambda: server.metrics()["pyrrha_tsdb_masks"] == 0)
    check(admin(server, "delete_series", **{"match[]": '{__name__=~".+"}'})[0] == 204, "delete_series")
    got = []
    t = threading.Thread(target=lambda: got.append(admin(server, "clean_tombstones")), daemon=True)
    t.start()
    status, seconds = server.terminate(5)
    check(status == 0, f"it ended with {status}: {server.text()[-500:]}")
    for a in askers:
        a.over.set()
    server.restart()
    check(server.query('count({__name__=~".+:.+"})', time=at)["result"] == [], "what was deleted is there again")
    check(admin(server, "clean_tombstones") == (204, b""), "clean_tombstones after the restart")
    print(f"# stopped in {seconds:.1f} s")


def tool(env, *words):
    return run([env.program("pyrtool"), "tsdb", *words])


def content(directory):
    """name -> bytes of every file."""
    files = {}
    for d, _, names in os.walk(directory):
        for n in names:
            with open(os.path.join(d, n), "rb") as f:
                files[os.path.relpath(os.path.join(d, n), directory)] = f.read()
    return files


def dumped(env, directory, *more):
    status, out = tool(env, "dump", directory, *more)
    check(status == 0, out)
    return sorted(out.splitlines())


def test_tool_reads(env):
    data = fixture(env, "data")
    before = content(data)
    status, out = tool(env, "verify", data)
    check(status == 0 and "2 partitions" in out and "0 problem(s)" in out, f"verify: {status} {out}")
    status, out = tool(env, "stats", data, "--output=json")
    stats = json.loads(out)
    check(status == 0 and stats["samples"] == 3224 and len(stats["parts"]) == 16 and stats["topSeries"][0]["bytes"] > 0, out)
    check(tool(env, "stats", data)[0] == 0, "stats as text")
    lines = dumped(env, data, "--match", 'up{job="test"}', "--end", "2023-11-15T00:10:00.001Z")
    check(lines == ['up{job="test"} 1 1700007000001'], f"{lines}")
    lines = dumped(env, data, "--match", '{pod="labelled"}', "--output=json")
    check(all(json.loads(line)["labels"]["pod"] == "labelled" for line in lines) and len(lines) == 4, f"{lines}")
    check(content(data) == before, "looking changed the directory")
    check(tool(env, "verify", env.path("nothing"))[0] == 1, "no directory")
    status, out = tool(env, "stats")
    check(status == 2 and "storage directory" in out, out)


def test_tool_finds_damage(env):
    data = fixture(env, "data")
    day = os.path.join(data, "partitions", "19676")
    big = max((n for n in os.listdir(day) if n.endswith(".sst")), key=lambda n: os.path.getsize(os.path.join(day, n)))
    with open(os.path.join(day, big), "r+b") as f:
        f.seek(os.path.getsize(os.path.join(day, big)) // 2)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 0x55]))
    status, out = tool(env, "verify", data)
    check(status == 1 and "19676" in out and " 0 problem(s)" not in out, f"{status} {out}")
    status, out = tool(env, "verify", data, "--output=json")
    check(status == 1 and json.loads(out[out.index('{"problems"'):])["problemCount"] > 0, out)


def test_tool_round_trip(env):
    data, files, again = fixture(env, "data"), env.path("files"), env.path("again")
    status, out = tool(env, "export", data, "-o", files)
    check(status == 0 and "194 files" in out, out)
    status, out = tool(env, "import", again, files, "--output=json")
    check(status == 0 and json.loads(out)["profiles"] == 194, out)
    profiles = ("--match", '{pod!=""}', "--stacks")
    check([x for x in dumped(env, data, *profiles) if " stale " not in x] == dumped(env, again, *profiles), "what was imported is not what was exported")
    status, out = tool(env, "import", again, files, "--output=json")
    check(status == 0 and json.loads(out)["profiles"] == 0 and json.loads(out)["duplicates"] > 194, f"twice: {out}")
    check(tool(env, "verify", again)[0] == 0, "verify after import")
    merged = env.path("merged.pb.gz")
    status, out = tool(env, "export", data, "--merge", "--match", '{pod=~"pod-.*"}', "--end", "1700010000", "-o", merged)
    check(status == 0, out)
    status, out = run([env.program("pyrtool"), "top", merged, "--n=1"])
    check(status == 0 and "main." in out, out)
    status, out = tool(env, "import", again, env.path("bad.pb.gz", "no profile"), "--label=a=b")
    check(status == 1 and "bad.pb.gz" in out, out)


def test_tool_beside_a_server(env):
    server = Server(env, NOTHING)
    for words in (("stats",), ("verify",), ("import", env.dir)):
        status, out = tool(env, words[0], server.storage, *words[1:])
        check(status == 1 and f"process {server.p.pid}, pyrrha" in out, f"{words}: {status} {out}")


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def message(*fields):
    """A protobuf message of (number, int or bytes)."""
    return b"".join(varint(k << 3) + varint(v) if isinstance(v, int) else varint(k << 3 | 2) + varint(len(v)) + v for k, v in fields)


def cpu_profile(named, now=None):
    """One stack of two functions of a binary that is known by its build id, with their names or without."""
    strings = ["", "cpu", "nanoseconds", "/bin/late", "c0ffee", "main.late", "main.caller"]
    line = lambda f: [(4, message((1, f), (2, 7)))] if named else []
    now = now or time.time_ns()
    return message((1, message((1, 1), (2, 2))), (2, message((1, b"\x01\x02"), (2, varint(50000000)))),
                   (3, message((1, 1), (2, 0x1000), (3, 0x9000), (5, 3), (6, 4))),
                   (4, message((1, 1), (2, 1), (3, 0x1100), *line(1))), (4, message((1, 2), (2, 1), (3, 0x1200), *line(2))),
                   (5, message((1, 1), (2, 5))), (5, message((1, 2), (2, 6))), *((6, s.encode()) for s in strings),
                   (9, now - 1000000000), (10, 1000000000), (11, message((1, 1), (2, 2))), (12, 10000000))


def test_late_names_of_sealed_windows(env):
    """What was sealed without names, today and days ago, has them once a profile with names has come."""
    old, path = int(time.time()) - 5 * 86400, os.path.join(env.dir, "pyrrha-data")
    stamps = [old, int(time.time()) - 30]
    files = [env.path(f"{t}.pb", cpu_profile(False, t * 10**9)) for t in stamps]
    status, out = tool(env, "import", path, *files, "--label=job=sealed")
    check(status == 0, out)
    status, out = tool(env, "stats", path, "--output=json")
    check(status == 0 and sum(p["samples"] for p in json.loads(out)["parts"] if p["hours"] == 1) == 2, f"not sealed: {out}")
    status, out = tool(env, "dump", path, "--stacks")
    check(status == 0 and "0x" in out and "main.late" not in out, f"it has names from the start: {out}")
    target = HttpServer(env, lambda h: answer(h, 200, cpu_profile(True)) if "/profile" in h.path else answer(h, 404, b"none"))
    server = Server(env, f"""
scrape_configs:
  - job_name: late
    scrape_interval: 1s
    static_configs: [{{targets: ["{target.address}"]}}]
""")
    merged = 'merge(cpu{job="sealed"}[1m])'
    folded = lambda t: server.get("/api/v1/query", query=merged, format="folded", time=t).strip()
    share = lambda t: server.value(f'share({merged}, {{function="main.late"}})', time=t)
    for t in stamps:
        wait_until(f"{t}: names", lambda t=t: folded(t) == b"main.caller;main.late 50000000", 60)
        check(share(t) == 1, f"{t}: a filter by function does not find it: {share(t)}")
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    server.restart()
    for t in stamps:
        check(folded(t) == b"main.caller;main.late 50000000" and share(t) == 1, f"{t}: after a crash: {folded(t)} {share(t)}")


def test_late_names(env):
    """A binary without symbols is scraped; later another target knows its functions."""
    def target(named):
        return HttpServer(env, lambda h: answer(h, 200, cpu_profile(named())) if "/profile" in h.path else answer(h, 404, b"none"))
    known = []
    a, b = target(lambda: False), target(lambda: bool(known))
    server = Server(env, f"""
scrape_configs:
  - job_name: late
    scrape_interval: 1s
    static_configs: [{{targets: ["{a.address}", "{b.address}"]}}]
""")
    folded = lambda at: server.get("/api/v1/query", query=f'merge(cpu{{instance="{a.address}"}}[5m])', format="folded", time=f"{at:.3f}")
    at = wait_until("profiles without names", lambda: (t := time.time()) and folded(t).strip() and t, 30)
    check(b"main.late" not in folded(at), "it has names from the start")
    share = f'share(merge(cpu{{instance="{a.address}"}}[5m]), {{function="main.late"}})'
    check(not server.value(share, time=f"{at:.3f}"), "main.late is found before anybody knows it")
    known.append(True)
    wait_until("what was stored has names", lambda: b"main.caller;main.late " in folded(at), 60)
    check(server.value(share, time=f"{at:.3f}") == 1, "a filter by function does not find it")
    check(server.metrics()["pyrrha_tsdb_late_names_total"] >= 2, "pyrrha_tsdb_late_names_total")
    before = folded(at)
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    server.restart()
    check(folded(at) == before and server.value(share, time=f"{at:.3f}") == 1, "after a crash they are gone")
