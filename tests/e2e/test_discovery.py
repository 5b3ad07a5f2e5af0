# SPDX-License-Identifier: Apache-2.0
"""Targets from files and from HTTP servers: they come, change and go; a source that fails keeps what it had."""
import json
import os
import shutil
import signal
import threading
import time

from harness import Echo, HttpServer, Server, answer, check, run, slow, wait_until


def job(name, discovery, more=""):
    return f"""
  - job_name: {name}
    scrape_interval: 1s
    profiling_config: {{pprof_config: {{fgprof: {{enabled: false}}}}}}
    {discovery}
{more}"""


SOON = ["--scrape.discovery-reload-interval=100ms"]


def config(*jobs):
    return "scrape_configs:" + "".join(jobs)


def active(server, pool):
    """Address -> labels before relabelling, of a job's targets."""
    return {t["discoveredLabels"]["__address__"]: t["discoveredLabels"] for t in server.targets() if t["scrapePool"] == pool}


def put(path, groups):
    """As whoever writes such files should: under another name, then renamed."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(groups if isinstance(groups, str) else json.dumps(groups))
    os.rename(path + ".new", path)


def test_targets_come_and_go_with_files(env):
    one, two = Echo(env), Echo(env, name="echo-two")
    folder = os.path.join(env.dir, "sd")
    os.mkdir(folder)
    put(folder + "/a.json", [{"targets": [one.address], "labels": {"team": "a"}}])
    server = Server(env, config(job("files", "file_sd_configs: [{files: ['sd/*.json', 'sd/b.yml']}]")), SOON)
    wait_until("the first is scraped", lambda: server.value('max(up{job="files",team="a"})') == 1)
    check(active(server, "files")[one.address]["__meta_filepath"] == folder + "/a.json", active(server, "files"))
    put(folder + "/b.yml", f"- targets: ['{two.address}']\n")
    wait_until("the second comes", lambda: set(active(server, "files")) == {one.address, two.address})
    check(server.metrics()['pyrrha_sd_discovered_targets{name="files",mechanism="file",role=""}'] == 2, "two are counted")
    put(folder + "/b.yml", "- targets: [1\n")
    wait_until("a bad file is told", lambda: "/sd/b.yml:2:1: " in server.text())
    os.unlink(folder + "/a.json")
    wait_until("only its own targets go with a file", lambda: set(active(server, "files")) == {two.address})
    check(server.metrics()['pyrrha_sd_failed_configs{mechanism="file",role=""}'] == 1, "one source has a problem")
    put(folder + "/b.yml", "[]")
    wait_until("the last goes", lambda: not active(server, "files"))
    wait_until("that is well", lambda: server.metrics()['pyrrha_sd_failed_configs{mechanism="file",role=""}'] == 0)


def test_files_that_a_kubelet_swaps(env):
    folder = os.path.join(env.dir, "volume")
    os.mkdir(folder)

    def swap(version, address):
        os.mkdir(f"{folder}/..{version}")
        with open(f"{folder}/..{version}/targets.yml", "w", encoding="utf-8") as f:
            f.write(f"- targets: ['{address}']\n")
        old = os.path.join(folder, os.readlink(folder + "/..data")) if os.path.islink(folder + "/..data") else None
        os.symlink(f"..{version}", folder + "/..data_tmp")
        os.rename(folder + "/..data_tmp", folder + "/..data")
        if old:
            shutil.rmtree(old)

    swap(1, "127.0.0.1:1")
    os.symlink("..data/targets.yml", folder + "/targets.yml")
    server = Server(env, config(job("volume", "file_sd_configs: [{files: ['volume/*.yml']}]")), SOON)
    for version in (2, 3):
        wait_until("what was there", lambda v=version: set(active(server, "volume")) == {f"127.0.0.1:{v - 1}"})
        swap(version, f"127.0.0.1:{version}")
    wait_until("what is there now", lambda: set(active(server, "volume")) == {"127.0.0.1:3"})


class Source:
    """An HTTP server with a list of targets."""

    def __init__(self, env):
        self.groups, self.mode, self.asked, self.go_on = [], "well", [], threading.Event()
        self.address = HttpServer(env, self.give).address
        env.at_end(self.go_on.set)

    def give(self, handler):
        self.asked.append((handler.path, dict(handler.headers)))
        if self.mode == "hang":
            self.go_on.wait(60)
        body = "not json" if self.mode == "garbage" else json.dumps(self.groups)
        kind = "text/html" if self.mode == "html" else "application/json; charset=utf-8"
        answer(handler, 503 if self.mode == "503" else 200, body.encode(), [("Content-Type", kind)])


@slow
def test_a_server_of_targets(env):
    echo, source = Echo(env), Source(env)
    source.groups = [{"targets": [echo.address], "labels": {"__meta_shop": "x"}}]
    url = f"http://user:pass-word@{source.address}/list?token=to-ken&shop=x"
    server = Server(env, config(job("server", f"http_sd_configs: [{{url: '{url}', refresh_interval: 1s}}]")), SOON)
    wait_until("it is scraped", lambda: server.value('max(up{job="server"})') == 1)
    path, headers = source.asked[0]
    check(path == "/list?token=to-ken&shop=x", path)
    check(headers["Accept"] == "application/json" and headers["X-Prometheus-Refresh-Interval-Seconds"] == "1", headers)
    check(headers["User-Agent"].startswith("pyrrha"), headers)
    check(headers["Authorization"].startswith("Basic "), headers)
    labels = active(server, "server")[echo.address]
    check(labels["__meta_shop"] == "x", labels)
    check(labels["__meta_url"] == f"http://<secret>@{source.address}/list?token=<secret>&shop=x", labels)
    for mode, text in (("503", "the answer is HTTP 503"), ("html", "Content-Type \\\"text/html\\\""), ("garbage", "JSON:"),
                       ("hang", "no answer came")):
        source.mode = mode
        wait_until(f"{mode} is told", lambda t=text: t in server.text())
        check(set(active(server, "server")) == {echo.address}, f"{mode} takes nothing away")
    failures = 'pyrrha_sd_refresh_failures_total{mechanism="http"}'
    wait_until("it fails again and again", lambda: server.metrics()[failures] >= 6)
    check(server.text().count("no answer came") == 1, "what stays as it was is logged once")
    source.mode = "well"
    source.go_on.set()
    source.groups = [{"targets": []}, {"targets": ["127.0.0.1:1"]}]
    wait_until("it works again", lambda: set(active(server, "server")) == {"127.0.0.1:1"})
    source.groups = []
    wait_until("none is left", lambda: not active(server, "server"))
    for secret in ("pass-word", "to-ken"):
        check(secret not in server.text(), f"{secret} is in the log")
        check(secret.encode() not in server.get("/metrics"), f"{secret} is in the metrics")
    source.mode, source.go_on = "hang", threading.Event()
    n = len(source.asked)
    wait_until("it hangs", lambda: len(source.asked) > n)
    begin = time.monotonic()
    server.terminate()
    check(time.monotonic() - begin < 5, "a source that hangs holds up the end")


@slow
def test_ten_thousand_targets_of_a_server(env):
    source = Source(env)
    addresses = [f"127.1.{i // 250}.{i % 250 + 1}:1" for i in range(10000)]
    source.groups = [{"targets": addresses[i:i + 100], "labels": {"group": str(i)}} for i in range(0, 10000, 100)]
    keep = "    relabel_configs: [{source_labels: [__address__], regex: '127\\.1\\.3\\.7:1', action: keep}]\n"
    server = Server(env, config(job("many", f"http_sd_configs: [{{url: 'http://{source.address}', refresh_interval: 500ms}}]",
                                    keep + "    keep_dropped_targets: 10\n")), SOON)
    metric = 'pyrrha_sd_discovered_targets{name="many",mechanism="http",role=""}'
    wait_until("all are there", lambda: server.metrics().get(metric) == 10000)
    wait_until("one is kept", lambda: set(active(server, "many")) == {"127.1.3.7:1"})
    updates = 'pyrrha_sd_updates_total{mechanism="http",role=""}'
    n = len(source.asked)
    wait_until("it is asked again", lambda: len(source.asked) > n + 2)
    check(server.metrics()[updates] == 100, "the same list once more is no news")
    source.groups = source.groups[:50]
    wait_until("half of them", lambda: server.metrics().get(metric) == 5000)


def test_equal_sources_run_once(env):
    source = Source(env)
    source.groups = [{"targets": ["127.0.0.1:1"]}]
    sd = f"http_sd_configs: [{{url: 'http://{source.address}', refresh_interval: 1h}}]"
    server = Server(env, config(job("a", sd), job("b", sd)), SOON)
    wait_until("both have it", lambda: active(server, "a") and active(server, "b"))
    check(len(source.asked) == 1, f"one of them asks: {source.asked}")
    server.configure(config(job("renamed", sd), job("b", sd, "    sample_limit: 5\n")))
    os.kill(server.p.pid, signal.SIGHUP)
    wait_until("the new name has it", lambda: active(server, "renamed") and active(server, "b") and not active(server, "a"))
    check(len(source.asked) == 1, "a reload does not ask again")
    server.configure(config(job("renamed", sd.replace("1h", "2h"))))
    os.kill(server.p.pid, signal.SIGHUP)
    wait_until("another interval is another source", lambda: len(source.asked) == 2)
    source.mode = "503"
    server.configure(config(job("renamed", sd.replace("1h", "2h")), job("new", sd.replace("1h", "2h"))))
    os.kill(server.p.pid, signal.SIGHUP)
    wait_until("who comes later has what is there", lambda: active(server, "new"))
    check(len(source.asked) == 2, "nobody asked")


def test_kinds_that_are_not_built_in(env):
    path = env.path("elsewhere.yml", config(job("x", "outscale_sd_configs: [{region: eu-west-2}]")))
    status, out = run([env.program("pyrrha"), "--config.file=" + path, "--config.check"])
    wanted = f"{path}:5:5: field scrape_configs[0].outscale_sd_configs: this kind of discovery is not built in"
    check(status != 0 and wanted in out and "file_sd_configs" in out, out)
