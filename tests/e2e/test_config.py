# SPDX-License-Identifier: Apache-2.0
"""Configuration files: Parca's load as they are, mistakes are told with file, line and column."""
import os
import re

from harness import TOP, Echo, Server, check, http_get, run, wait_until

TUTORIAL = """object_storage:
  bucket:
    type: "FILESYSTEM"
    config:
      directory: "./data"

scrape_configs:
  - job_name: "default"
    scrape_interval: "2s"
    scrape_timeout: "10s"
    static_configs:
      - targets: ["127.0.0.1:PORT"]
    profiling_config:
      pprof_config:
        fgprof:
          enabled: true
          path: /debug/fgprof
          delta: true
"""
PLAIN = """object_storage:
  bucket:
    type: "FILESYSTEM"
    config:
      directory: "./data"
grpc_address: ":7070"
http_address: ":7070"
storage_active_memory: 536870912
"""
PROMETHEUS = """global:
  scrape_interval: 15s
  scrape_timeout: 10s
scrape_configs:
  - job_name: app
    static_configs:
      - targets: ["127.0.0.1:9"]
"""


def config_check(env, text, *flags):
    path = env.path("checked.yml", text)
    return (path, *run([env.program("pyrrha"), "--config.file=" + path, "--config.check", *flags]))


def test_the_parca_tutorial_loads_as_it_is(env):
    echo = Echo(env)
    server = Server(env, TUTORIAL.replace("127.0.0.1:PORT", echo.address))
    wait_until("the target is up", lambda: server.value('up{job="default"}') == 1, 40)
    wait_until("fgprof is there", lambda: server.value('value(merge(fgprof_time{job="default"}[5m]))'), 40)
    check("--storage.path" in server.text(), "the warning about object_storage names --storage.path")


def test_parca_plain_server_file_loads(env):
    path, status, out = config_check(env, PLAIN)
    check(status == 0, out)
    for key, ours in (("http_address", "--web.listen-address"), ("grpc_address", "--web.listen-address"),
                      ("object_storage", "--storage.path"), ("storage_active_memory", "storage")):
        line = [x for x in out.splitlines() if key in x]
        check(line and ours in line[0], f"a warning about {key} that names {ours}: {out}")
    Server(env, PLAIN)


def test_object_storage_elsewhere_is_an_error(env):
    path, status, out = config_check(env, PLAIN.replace("FILESYSTEM", "GCS"))
    check(status != 0 and "storage.googleapis.com" in out and re.search(re.escape(path) + r":3:\d+", out), f"{status}: {out}")
    path, status, out = config_check(env, PLAIN.replace("FILESYSTEM", "S3"))
    check(status != 0 and "directory" in out and re.search(re.escape(path) + r":5:\d+", out), f"{status}: {out}")


def test_a_prometheus_file_loads(env):
    path, status, out = config_check(env, PROMETHEUS)
    check(status == 0, out)


def test_mistakes_have_a_place(env):
    for text, line, column, word in (
            ("scrape_configs:\n  - job_name: a\n    scrape_intervall: 1s\n", 3, 5, "scrape_intervall"),
            ("scrape_configs:\n  - job_name: a\n    scrape_interval: soon\n", 3, 22, "soon"),
            ("scrape_configs:\n  - scrape_interval: 1s\n", 2, 5, "job_name"),
            ("scrape_configs:\n  - job_name: a\n  - job_name: a\n", 3, None, "a"),
            ("scrape_configs: {\n", None, None, ""),
            ("nonsense: 1\n", 1, 1, "nonsense")):
        path, status, out = config_check(env, text)
        check(status != 0, f"accepted: {text!r}")
        place = re.escape(path) + f":{line or r'[0-9]+'}:{column or r'[0-9]+'}"
        check(re.search(place, out) and word in out, f"{text!r}: expected {place} and {word!r} in: {out}")


def test_a_missing_file_is_an_error(env):
    status, out = run([env.program("pyrrha"), "--config.file=" + env.path("none.yml"), "--config.check"])
    check(status != 0 and "none.yml" in out and "No such file" in out, f"{status}: {out}")


def test_files_in_deploy_load(env):
    """The server's own, that is: beside them lie files for others, whose documents are of a kind or name services."""
    seen = 0
    for name in sorted(os.listdir(os.path.join(TOP, "deploy"))):
        path = os.path.join(TOP, "deploy", name)
        if not name.endswith(".yml") or re.search(r"^(kind|services):", open(path, encoding="utf-8").read(), re.M):
            continue
        if name.endswith(".rules.yml"):
            status, out = run([env.program("pyrtool"), "check", "rules", path])
        else:
            status, out = run([env.program("pyrrha"), "--config.check", "--config.file=" + path])
            seen += 1
        check(status == 0 and "warn" not in out.lower(), f"{name}: {out}")
    check(seen >= 1, "no configuration in deploy/")


def test_reload(env):
    """SIGHUP and /-/reload: a good file takes over, a bad one changes nothing and is told."""
    import signal
    echo = Echo(env)
    job = lambda name: f"scrape_configs:\n  - job_name: {name}\n    scrape_interval: 1s\n    static_configs:\n      - targets: ['{echo.address}']\n"
    pools = lambda: {t["scrapePool"] for t in server.targets()}
    server = Server(env, job("one"), ["--web.enable-lifecycle"])
    wait_until("job one", lambda: pools() == {"one"})
    server.configure(job("two"))
    server.p.send_signal(signal.SIGHUP)
    wait_until("job two after SIGHUP", lambda: pools() == {"two"})
    server.configure(job("three"))
    check(http_get(server.url + "/-/reload", data=b"")[0] == 200, "POST /-/reload")
    wait_until("job three after POST", lambda: pools() == {"three"})
    server.configure("nonsense: 1\n")
    status, _, body = http_get(server.url + "/-/reload", data=b"")
    check(status >= 400 and b"nonsense" in body and b":1:1" in body, f"{status} {body}")
    check(pools() == {"three"}, "a bad file changed the targets")
    check(server.metrics()["pyrrha_config_last_reload_successful"] == 0, "the failure is in the metrics")
    check(http_get(server.url + "/-/reload")[0] == 405, "GET /-/reload is not allowed")


def test_only_files_are_read(env):
    """A pipe, a directory or nothing where a file was: each is refused at once, the old configuration stays, and SIGTERM ends."""
    import os
    import signal
    echo = Echo(env)
    secret, more = env.path("secret", "s3cr3t"), env.path("more.yml", "")
    job = (f"scrape_config_files: [{env.dir}/more*.yml]\nscrape_configs:\n  - job_name: one\n    scrape_interval: 1s\n"
           f"    basic_auth: {{username: u, password_file: {secret}}}\n"
           f"    static_configs:\n      - targets: ['{echo.address}']\n")
    server = Server(env, job, ["--web.enable-lifecycle"])
    pools = lambda: {t["scrapePool"] for t in server.targets()}
    wait_until("job one", lambda: pools() == {"one"})

    def refused(said):
        status, _, body = http_get(server.url + "/-/reload", data=b"", timeout=20)
        check(status >= 400 and said in body, f"{status} {body}")
        server.p.send_signal(signal.SIGHUP)
        wait_until("SIGHUP is refused as well", lambda: server.text().count("the old one stays") > refused.times)
        refused.times = server.text().count("the old one stays")
        check(pools() == {"one"}, "the targets have changed")
        check(server.metrics()["pyrrha_config_last_reload_successful"] == 0, "the metric says that it was reloaded")
    refused.times = 0

    def instead(path, make, said):
        kept = open(path, "rb").read()
        os.unlink(path)
        make(path)
        refused(said)
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        env.path(os.path.basename(path), kept)

    instead(server.config, os.mkfifo, b"it is a pipe, not a file")
    instead(server.config, os.mkdir, b"it is a directory, not a file")
    instead(server.config, lambda p: env.path(os.path.basename(p), "# soon\n"), b"pyrrha.yml is empty")
    instead(more, os.mkfifo, b"it is a pipe, not a file")
    env.path("more.yml", "scrape_configs: []\n")
    check(http_get(server.url + "/-/reload", data=b"")[0] == 200, "it is good again")
    instead(more, lambda p: env.path("more.yml", ""), b"more.yml (of scrape_config_files) is empty")
    # What scrapes read, each time: the target says so, and nothing waits.
    os.unlink(secret)
    os.mkfifo(secret)
    wait_until("the target says so", lambda: "it is a pipe" in server.targets()[0]["lastError"])
    tls = job.replace("    basic_auth", f"    scheme: https\n    tls_config: {{ca_file: {secret}}}\n    basic_auth").replace(
        f", password_file: {secret}", "")
    server.configure(tls)
    check(http_get(server.url + "/-/reload", data=b"")[0] == 200, "another configuration")
    wait_until("a certificate's file as well", lambda: "tls_config: cannot read" in server.targets()[0]["lastError"] and
               "it is a pipe" in server.targets()[0]["lastError"])
    os.unlink(server.config)
    os.mkfifo(server.config)
    server.p.send_signal(signal.SIGHUP)
    status, _ = server.terminate(6)
    check(status == 0, f"exit status {status}")


def test_reload_needs_the_flag(env):
    server = Server(env, "")
    check(http_get(server.url + "/-/reload", data=b"")[0] == 403, "POST /-/reload without --web.enable-lifecycle")


def test_parcas_flags(env):
    """A command line written for Parca starts the server, which says what is different."""
    server = Server(env, "global: {}\n", flags=["--storage-active-memory=1", "--enable-persistence", "--bearer-token=my-secret",
                                                "--cors-allowed-origins=https://a", "--path-prefix=/parca"], wait=False)
    wait_until("it is ready under Parca's prefix", lambda: http_get(server.url + "/parca/-/ready")[0] == 200)
    said = server.text()
    for flag in ("--storage-active-memory", "--enable-persistence", "--bearer-token"):
        check(f'msg="this flag of Parca does nothing here" flag={flag} instead=' in said, f"{flag}: {said}")
    check("my-secret" not in said and "--cors" not in said, said)


def test_what_cannot_be_done_yet_is_told(env):
    for key in ("symbolizer",):
        path, status, out = config_check(env, f"{key}: []\n")
        check(status == 0 and f"{path}:1:" in out and key in out and "yet" in out, f"{status}: {out}")


def test_names_for_queries(env):
    """aliases and replica_labels: what they are, and what is wrong with them, with the place."""
    _, status, out = config_check(env, "aliases: {rust: 'rust:samples:count:cpu:nanoseconds:delta'}\nreplica_labels: [replica]\n")
    check(status == 0 and "alias: rust is rust:samples" in out and "replica label: replica" in out and "warning" not in out, out)
    for text, place, says in (("aliases: {a b: 'c:d:e:f:g'}", ":1:11: field aliases.a b:", "letters"), ("aliases: []", ":1:10: field aliases:", "a map"),
                              ("aliases: {cpu: 'c:d:e:f:g'}", ":1:11: field aliases.cpu:", "stands for process_cpu"),
                              ("aliases: {mine: 'c:d'}", ":1:17: field aliases.mine:", "is not a profile type"),
                              ("replica_labels: [__name__]", ":1:17: field replica_labels", "cannot tell replicas apart")):
        path, status, out = config_check(env, text)
        check(status != 0 and path + place in out and says in out, f"{text}: {status}: {out}")


def test_files_that_are_not_there(env):
    """Of secrets and certificates: warnings with their place, because they may come later."""
    text = "scrape_configs:\n- job_name: a\n  authorization: {credentials_file: nosuch}\n  tls_config: {ca_file: there}\n"
    env.path("there", "")
    path, status, out = config_check(env, text)
    check(status == 0 and f"{path}:3:37: field scrape_configs[0].authorization.credentials_file:" in out and "No such file" in out, out)
    check("ca_file" not in out, out)
    status, out = run([env.program("pyrtool"), "check", "config", "--syntax-only", path])
    check(status == 0 and "warning" not in out, out)


def test_jobs_in_files_of_their_own(env):
    env.path("jobs-a.yml", "scrape_configs:\n- job_name: other\n")
    path, status, out = config_check(env, "scrape_config_files: ['jobs-*.yml']\nscrape_configs:\n- job_name: own\n")
    check(status == 0 and "own" in out and "other" in out and "warning" not in out, f"{status}: {out}")


def test_remote_write(env):
    good = "remote_write:\n- {url: 'http://u:hidden@a/w', name: main, protobuf_message: prometheus.WriteRequest}\n- {url: 'https://b/w'}\n"
    _, status, out = config_check(env, good)
    check(status == 0 and "remote write: main, to http://<secret>@a/w" in out and "https://b/w" in out and "warning" not in out, out)
    for text, place, says in (
            ("- url: http://a\n  protobuf_message: io.prometheus.write.v2.Request\n", ":3:", "remote-write 2.0 is not built in"),
            ("- {name: a}\n", ":2:", "url"), ("- {url: 'ftp://a'}\n", ":2:", "http://"), ("-\n", ":2:", "a map"),
            ("- {url: 'http://a', name: x}\n- {url: 'http://b', name: x}\n", ":3:", "twice"),
            ("- {url: 'http://a', headers: {Content-Type: x}}\n", ":2:", "set by the client itself"),
            ("- url: http://a\n  queue_config: {max_samples_per_send: 0}\n", ":3:", "above zero"),
            ("- url: http://a\n  queue_config: {min_backoff: 2s, max_backoff: 1s}\n", ":3:", "max_backoff"),
            ("- url: http://a\n  sigv4: {}\n", ":3:", "AWS"), ("- url: http://a\n  sendExemplars: true\n", ":3:3:", "sendExemplars")):
        path, status, out = config_check(env, "remote_write:\n" + text)
        check(status != 0 and path + place in out and says in out, f"{text}: {status}: {out}")
    _, status, out = config_check(env, "remote_write: [{url: 'http://a', send_exemplars: true, metadata_config: {send: true}}]\n")
    check(status == 0 and "no exemplars" in out and "without metadata" in out, out)
