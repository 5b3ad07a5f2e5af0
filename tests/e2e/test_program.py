# SPDX-License-Identifier: Apache-2.0
"""The program as a program: flags, addresses, signals, logs, two of it on one directory."""
import http.client
import json
import os
import re
import socket
import threading
import time

from harness import Echo, Process, Server, Skip, check, free_port, http_get, run, scrape_config, wait_until

FLAGS = ("config.file", "config.check", "storage.path", "web.listen-address", "web.allow-insecure", "web.enable-lifecycle",
         "web.external-url", "web.route-prefix", "log.level", "log.format")


def test_help_and_version(env):
    program = env.program("pyrrha")
    status, out = run([program, "--help"])
    check(status == 0 and all("--" + f in out for f in FLAGS), f"{status}: {out}")
    check(all(len(line) <= 120 for line in out.splitlines()), "lines of --help fit a terminal")
    status, out = run([program, "--version"])
    check(status == 0 and "pyrrha" in out.lower() and any(c.isdigit() for c in out), out)


# What people rely on without a flag: Prometheus's where it has the same, and what docs/install.md sizes a machine by.
DEFAULTS = {"pyrrha": {"config.file": "pyrrha.yml", "storage.path": "data", "storage.tsdb.retention.time": "15d", "storage.tsdb.retention.size": "0B",
                       "storage.commit-interval": "20ms", "scrape.discovery-reload-interval": "5s",
                       "web.listen-address": "127.0.0.1:7070", "web.max-connections": "512", "web.read-timeout": "5m", "query.timeout": "2m",
                       "query.log-slower-than": "10s"},
            "pyrrha-agent": {"frequency": "19", "history": "10m", "history.max-bytes": "8.0MiB", "kernel-stacks": "true", "runtimes": "all",
                             "off-cpu-threshold": "1ms", "max-cost": "0.01", "kubernetes": "true", "names-wait": "1s"}}


def test_defaults(env):
    for program, wanted in DEFAULTS.items():
        status, out = run([env.program(program), "--help"])
        check(status == 0, out)
        told = dict(re.findall(r"^  --(\S+?)(?:=<[^>]*>)?  \(default (\S+)\)", out, re.M))
        wrong = {flag: (told.get(flag), value) for flag, value in wanted.items() if told.get(flag) != value}
        check(not wrong, f"{program}, what it tells and what was wanted: {wrong}")


def test_wrong_flags_are_told(env):
    program, config = env.program("pyrrha"), env.path("c.yml", "")
    for argv, word in ((["--no-such-flag"], "no-such-flag"), (["--log.level=loud"], "loud"), (["stray"], "stray"),
                       (["--web.listen-address=nonsense"], "nonsense"), (["--storage.head-memory=1000B"], "at least 1MiB"),
                       (["--storage.commit-interval=2m"], "--storage.commit-interval"), (["--storage.max-series=0"], "--storage.max-series"),
                       *((["--scrape.replica=" + v], "one has 0/2, the other 1/2") for v in ("1", "2/2", "-1/2", "a/b", "0/0", "0/101", "0/2/3"))):
        status, out = run([program, "--config.file=" + config, "--storage.path=" + env.path("d"), *argv])
        check(status != 0 and word in out and len(out) < 2000, f"{argv}: {status}: {out}")


def test_beyond_loopback_only_when_asked(env):
    program, config = env.program("pyrrha"), env.path("c.yml", "")
    status, out = run([program, "--config.file=" + config, "--storage.path=" + env.path("d"),
                       f"--web.listen-address=0.0.0.0:{free_port()}"])
    check(status != 0 and "--web.allow-insecure" in out, f"{status}: {out}")
    port = free_port()
    p = Process(env, "open", [program, "--config.file=" + config, "--storage.path=" + env.path("d"),
                              f"--web.listen-address=0.0.0.0:{port}", "--web.allow-insecure"])
    wait_until("it listens", lambda: http_get(f"http://127.0.0.1:{port}/-/ready")[0] == 200)
    check(p.terminate()[0] == 0, p.text())


def test_ipv6(env):
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            port = s.getsockname()[1]
    except OSError:
        raise Skip("no IPv6 here") from None
    Process(env, "six", [env.program("pyrrha"), "--config.file=" + env.path("c.yml", ""), "--storage.path=" + env.path("d"),
                         f"--web.listen-address=[::1]:{port}"])
    wait_until("it listens on ::1", lambda: http_get(f"http://[::1]:{port}/-/ready")[0] == 200)


def test_sigterm_ends_in_time_and_keeps_everything(env):
    """While it scrapes, with a hanging target, an idle client and one in the middle of a request."""
    silent = socket.create_server(("127.0.0.1", 0))
    env.at_end(silent.close)
    echo = Echo(env)
    server = Server(env, scrape_config([echo.address, "127.0.0.1:%d" % silent.getsockname()[1]]))
    wait_until("profiles", lambda: server.metrics().get("pyrrha_appended_profiles_total", 0) > 5)
    idle = http.client.HTTPConnection("127.0.0.1", server.port)
    idle.request("GET", "/-/ready")
    idle.getresponse().read()
    half = socket.create_connection(("127.0.0.1", server.port))
    half.sendall(b"GET /api/v1/query?query=up HTTP/1.1\r\nHost: x\r\n")
    before = server.query('{job="echoserver"}[1h]')["result"]
    status, seconds = server.terminate(10)
    check(status == 0, f"exit status {status}: {server.text()[-1000:]}")
    print(f"# SIGTERM took {seconds:.1f} s")
    server.restart()
    after = {json.dumps(s["metric"], sort_keys=True): s["values"] for s in server.query('{job="echoserver"}[1h]')["result"]}
    for s in before:
        key = json.dumps(s["metric"], sort_keys=True)
        check(after.get(key, [])[:len(s["values"])] == s["values"], f"after a clean stop {key} differs")


def test_one_process_per_directory(env):
    server = Server(env, "")
    status, out = run([env.program("pyrrha"), "--config.file=" + server.config, "--storage.path=" + server.storage,
                       f"--web.listen-address=127.0.0.1:{free_port()}"])
    check(status != 0 and ("lock" in out.lower() or "another" in out.lower()), f"{status}: {out}")
    check(http_get(server.url + "/-/ready")[0] == 200, "the first one lives")


def test_a_taken_port_is_told(env):
    server = Server(env, "")
    status, out = run([env.program("pyrrha"), "--config.file=" + server.config, "--storage.path=" + env.path("other"),
                       f"--web.listen-address=127.0.0.1:{server.port}"])
    check(status != 0 and str(server.port) in out, f"{status}: {out}")


def test_logs(env):
    server = Server(env, "", ["--log.format=json", "--log.level=debug"])
    status, _ = server.terminate()
    lines = [json.loads(x) for x in server.text().splitlines() if x]
    check(status == 0 and lines and all({"level", "msg"} <= set(x) for x in lines), f"{status}: {lines[:2]}")
    plain = Server(env, "", name="plain")
    plain.terminate()
    check(all("level=" in x and "msg=" in x for x in plain.text().splitlines() if x), plain.text())


def test_route_prefix_and_external_url(env):
    server = Server(env, "", ["--web.external-url=http://example.org/pyrrha/"], wait=False)
    wait_until("it is ready below its prefix", lambda: http_get(server.url + "/pyrrha/-/ready")[0] == 200)
    check(http_get(server.url + "/pyrrha/api/v1/query?query=1")[0] == 200, "the API below the prefix")
    check(http_get(server.url + "/api/v1/query?query=1")[0] == 404, "nothing of it without the prefix")


def test_many_clients_at_once(env):
    """Forty clients with forty queries each; every answer is whole."""
    server = Server(env, scrape_config([Echo(env).address]))
    wait_until("up", lambda: server.value("up") == 1)
    right, wrong = [], []

    def client():
        for _ in range(40):
            try:
                status, _, body = http_get(server.link("/api/v1/query", query="count(up)"))
                value = [r["value"][1] for r in json.loads(body)["data"]["result"]]
                (right if (status, value) == (200, ["1"]) else wrong).append((status, body[:200]))
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                wrong.append(repr(e))
    threads = [threading.Thread(target=client) for _ in range(40)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"# 1600 queries in {time.monotonic() - begin:.1f} s")
    check(not wrong and len(right) == 1600, f"{len(right)} right and {len(wrong)} wrong answers, the first: {wrong[:1]}")
    check(os.path.isdir(server.storage), "the storage is where the flag says")
