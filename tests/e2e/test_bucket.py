# SPDX-License-Identifier: Apache-2.0
"""Sealed days in object storage: what the server says of the section, a disk that is lost and comes back from the bucket, a disk that
returns when another one has gone on, a bucket that is away."""
import json
import os
import shutil
import signal
import socket
import time

from harness import Echo, HttpServer, Server, answer, check, free_port, http_get, run, slow, wait_until
from object_stores import ACCESS_KEY, BUCKET, SECRET_KEY, Versitygw

NOTHING = "scrape_configs: []\n"


def section(directory, more=""):
    return f"object_storage:\n  server_id: shop-1\n  bucket: {{type: FILESYSTEM, config: {{directory: {directory}}}}}\n{more}"


def s3_section(port, more="", access_key=ACCESS_KEY, secret_key=SECRET_KEY, keys=""):
    return ("object_storage:\n  server_id: shop-1\n  bucket:\n    type: S3\n    prefix: e2e\n"
            f"    config: {{bucket: {BUCKET}, endpoint: '127.0.0.1:{port}', insecure: true, access_key: {access_key}, secret_key: {secret_key}{keys}}}\n{more}")


def scraping(echo):
    return f"scrape_configs:\n- {{job_name: shop, scrape_interval: 1s, static_configs: [{{targets: ['{echo.address}']}}]}}\n"


def scrapes(server, span):
    """How many scrapes the last `span` has."""
    return server.value(f"count_over_time(up[{span}])", time=time.time()) or 0


def bucket(server):
    return server.api("status/bucket")


# ---- the section ----

def test_the_section_and_its_flag(env):
    config = env.path("c.yml", NOTHING)
    argv = [env.program("pyrrha"), "--storage.path=" + env.path("d"), f"--web.listen-address=127.0.0.1:{free_port()}"]
    status, out = run([*argv, "--config.file=" + config, "--storage.local-retention.time=2d"])
    check(status != 0 and "needs object_storage" in out, f"without a bucket, days that leave the disk would be lost: {status}: {out}")
    with open(config, "w", encoding="utf-8") as f:
        f.write(section("bucket"))
    status, out = run([*argv, "--config.file=" + config, "--storage.local-retention.time=15d"])
    check(status != 0 and "must be less" in out, f"as long as the retention: {status}: {out}")
    status, out = run([*argv, "--config.file=" + config, "--config.check"])
    check(status == 0 and f"object storage: directory {env.path('bucket')}, as server shop-1" in out, f"{status}: {out}")
    check(not os.path.exists(env.path("bucket")), "--config.check makes no directory")


def test_a_reload_says_that_it_needs_a_restart(env):
    def reload(text):
        server.configure(text)
        status, _, body = http_get(server.url + "/-/reload", data=b"")
        return status, body.decode()
    server = Server(env, NOTHING + section(env.path("bucket")), ["--web.enable-lifecycle"])
    check(reload(NOTHING + section(env.path("bucket"))) == (200, ""), "the same again")
    for text in (section(env.path("bucket"), "  seal_interval: 15m\n"), section(env.path("other")), ""):
        status, said = reload(NOTHING + text)
        check(status == 200 and "object_storage has changed" in said and "restart" in said, f"{status}: {said}")
        check([n for n in server.api("notifications") if n["text"] == said.strip()], "the page says it as well")
    check(server.text().count("object_storage has changed") == 3, server.text())
    status, said = reload(NOTHING + section(env.path("bucket"), "  requests: 0\n"))
    check(status == 500 and "requests at once" in said, f"{status}: {said}")
    check(reload(NOTHING + section(env.path("bucket"))) == (200, ""), "as it was at the start")
    check(not server.api("notifications"), "nothing waits")
    check(not os.path.exists(env.path("other")), "the other bucket was not opened")


# ---- a store that does not answer ----

def test_a_silent_store_holds_no_start_up_for_long(env):
    """An empty disk and a store that takes connections and never answers: the server says what it waits for, and begins in half a minute."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        server = Server(env, NOTHING + s3_section(silent.getsockname()[1]), wait=False)

        def waits():
            status, _, body = http_get(server.url + "/-/ready")
            return status == 503 and b"the bucket is asked which days it has" in body
        wait_until("it says what it waits for", waits, 15)
        server.wait_ready(60)
        text = server.text()
        check("asks the bucket which days it has" in text and "so it begins anew" in text and "id=shop-1" in text, text)
        check(bucket(server)["state"] == "unreachable" and bucket(server)["lastError"], bucket(server))
        check(server.terminate(10)[0] == 0, server.text())


# ---- a disk that is lost ----

def answers(server, t):
    """What a client can ask about the minutes before t."""
    span = {"start": t - 600, "end": t}
    types = sorted(x["name"] for x in server.api("profile_types") if x["series"])
    check(types, "there are profiles")
    out = {"series": server.api("series", **{"match[]": '{__name__=~".+"}'}, **span), "labels": server.api("labels", **span),
           "jobs": server.api("label/job/values", **span), "up": server.api("query_range", query="up", step=1, **span)}
    for name in types:
        out[name] = server.get("/api/v1/query", query=f'merge({{__name__="{name}"}}[10m])', time=t, format="folded")
    return out


def reload(server, text):
    server.configure(text)
    server.p.send_signal(signal.SIGHUP)


def lost_disk(env, where):
    """kill -9, and nothing is left of the storage: what was sealed is back, what was not is lost and is said to be."""
    echo = Echo(env)
    server = Server(env, scraping(echo) + where, ["--log.level=debug"])
    wait_until("a dozen scrapes", lambda: scrapes(server, "5m") >= 12, 60)
    reload(server, NOTHING + where)
    wait_until("nothing is scraped any more", lambda: not server.targets())
    time.sleep(1.1)
    t = time.time()
    before = answers(server, t)

    def up():
        b, storage = bucket(server), server.api("status/tsdb")["storage"]
        return b["days"] >= 1 and b["waiting"]["parts"] == 0 and storage["windows"] == 0 and b
    there = wait_until("all of it is sealed and in the bucket", up, 240)
    check(there["state"] == "writing" and there["id"] == "shop-1" and there["lastSuccess"] and not there["lastError"] and there["bytes"] > 1000, there)
    check(answers(server, t) == before, "sealing changed answers")

    reload(server, scraping(echo) + where)
    wait_until("more, which is not sealed", lambda: scrapes(server, "5s") >= 4)
    server.kill()
    shutil.rmtree(server.storage)
    server.restart()
    after = answers(server, t)
    wrong = [k for k in before if before[k] != after.get(k)]
    check(not wrong, f"{wrong[0] if wrong else ''}: {str(before.get(wrong[0] if wrong else ''))[:300]} became {str(after.get(wrong[0] if wrong else ''))[:300]}")
    check("came back from its bucket" in server.text() and "is lost with the disk" in server.text(), "the log says what happened")
    check(bucket(server)["id"] == "shop-1" and bucket(server)["state"] == "writing", bucket(server))

    def lost_is_said():
        said = json.loads(server.get("/api/v1/query", query="count_over_time(up[5m])", time=time.time()))
        return [w for w in said.get("warnings", []) if "is missing from this answer" in w]
    check(lost_is_said(), "an answer about the time between says that data is lost")
    wait_until("it scrapes", lambda: scrapes(server, "3s") >= 2)
    status, seconds = server.terminate(6)
    check(status == 0, f"exit status {status}")
    server.restart()
    check(answers(server, t) == before, "the next start has it too")
    check(lost_is_said(), "and says what is lost")
    return server


@slow
def test_a_lost_disk_comes_back_from_a_directory(env):
    lost_disk(env, section(env.path("bucket"), "  seal_interval: 1m\n"))


@slow
def test_a_lost_disk_comes_back_from_s3(env):
    store = Versitygw(env)
    server = lost_disk(env, s3_section(store.port, "  seal_interval: 1m\n"))
    store.p.send_signal(signal.SIGSTOP)  # it takes connections, and never answers
    try:
        time.sleep(61)  # it asks once a minute whether it is still the only one
        check(scrapes(server, "3s") >= 2, "it scrapes and answers on")
        status, seconds = server.terminate(6)
        check(status == 0, f"exit status {status} after {seconds:.1f} s")
    finally:
        store.p.send_signal(signal.SIGCONT)


# ---- ids ----

def test_an_old_disk_returns(env):
    """Another process went on under its id: the directory takes a new one, and keeps it."""
    echo = Echo(env)
    server = Server(env, scraping(echo) + section(env.path("bucket")))
    wait_until("something is stored", lambda: scrapes(server, "1m") >= 2)
    check(bucket(server)["id"] == "shop-1", bucket(server))
    server.terminate(6)
    os.rename(server.storage, server.storage + ".old")
    server.restart()
    check(bucket(server)["id"] == "shop-1" and bucket(server)["state"] == "writing", "an empty directory goes on as the configured server")
    server.terminate(6)
    shutil.rmtree(server.storage)
    os.rename(server.storage + ".old", server.storage)
    server.restart()
    first = wait_until("it has asked the bucket", lambda: bucket(server)["state"] == "writing" and bucket(server))
    check(first["id"].startswith("shop-1-") and "shop-1" in first["why"], first)
    check("it takes a new one" in server.text() and first["id"] in server.text(), server.text()[-2000:])
    check(scrapes(server, "5m") >= 2, "what it had is there")
    server.terminate(6)
    server.restart()
    wait_until("it has asked again", lambda: bucket(server)["state"] == "writing")
    check(bucket(server)["id"] == first["id"], f"the id stays: {bucket(server)}")
    check(sorted(os.listdir(env.path("bucket"))) == sorted(["shop-1", first["id"]]), os.listdir(env.path("bucket")))


@slow
def test_two_servers_of_one_id(env):
    """The first one stops writing to the bucket, and says why; it scrapes and answers on."""
    echo = Echo(env)
    config = scraping(echo) + section(env.path("bucket"))
    first, second = Server(env, config), Server(env, config, name="second")
    wait_until("the first one stops", lambda: bucket(first)["state"] == "stopped", 90)
    check("shop-1" in bucket(first)["why"] and first.metrics()["pyrrha_tsdb_bucket_writes"] == -1, bucket(first))
    check("does not write to its bucket any more" in first.text(), first.text()[-2000:])
    check(bucket(second)["state"] == "writing" and second.metrics()["pyrrha_tsdb_bucket_writes"] == 1, bucket(second))
    wait_until("the first one scrapes on", lambda: scrapes(first, "3s") >= 2)


# ---- a bucket that is away ----

def test_a_bucket_that_is_away_at_the_start(env):
    echo = Echo(env)
    path = env.path("bucket", "a file, where the directory should be")
    server = Server(env, scraping(echo) + section(path))
    b = bucket(server)
    check(b["state"] == "unreachable" and b["lastError"] and b["lastErrorTime"] and not b["lastSuccess"], b)
    wait_until("it scrapes", lambda: scrapes(server, "1m") >= 2)
    check(server.metrics()["pyrrha_tsdb_bucket_failures_total"] >= 1 and server.metrics()["pyrrha_tsdb_bucket_writes"] == 0, "the metrics say so")
    os.unlink(path)
    os.mkdir(path)  # as if it were mounted
    wait_until("it writes as soon as there is one", lambda: bucket(server)["state"] == "writing", 60)
    check(not bucket(server)["lastError"] and server.metrics()["pyrrha_tsdb_bucket_writes"] == 1, bucket(server))


# ---- secrets ----

SECRETS = {"access_key": "AKFAKEACCESSKEYOFTESTS", "secret_key": "fAkeSecretKeyOfTests0123456789", "session_token": "FAKEsessionTOKENofTESTS"}
PAGES = ("/", "/config", "/status", "/flags", "/metrics", "/api/v1/status/config", "/api/v1/status/bucket", "/api/v1/status/flags", "/api/v1/status/flags/details",
         "/api/v1/status/runtimeinfo", "/api/v1/status/tsdb", "/api/v1/notifications", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap?debug=1")


def spills(text):
    return [s for s in (*SECRETS.values(), "Signature=", "AWS4-HMAC") if s in text]


def nothing_spills(server):
    for page in PAGES:
        _, _, body = http_get(server.url + page)
        check(not spills(body.decode(errors="replace")), f"{page} has {spills(body.decode(errors='replace'))}")
    check(not spills(server.text()), f"the log has {spills(server.text())}: {server.text()[-3000:]}")


def wrong_keys(port, more=""):
    return s3_section(port, more, SECRETS["access_key"], SECRETS["secret_key"], f", session_token: {SECRETS['session_token']}")


def secrets_of(env, port, wanted):
    """A store that refuses: the error is told, and no secret."""
    server = Server(env, NOTHING + wrong_keys(port), ["--log.level=debug", "--web.enable-lifecycle"])
    error = wait_until("an error", lambda: bucket(server)["lastError"], 90)
    check(wanted(error), error)
    nothing_spills(server)
    for broken in (wrong_keys(port).replace("secret_key: ", "secret_key: ' ' # "), wrong_keys(port).replace("e2e", "'a b'"), wrong_keys(port) + "  oops: 1\n",
                   wrong_keys(port).replace("prefix: e2e", "prefix: {x: 1}"), wrong_keys(port).replace("access_key: ", "access_key: 'x y' # ")):
        server.configure(NOTHING + broken)
        status, _, body = http_get(server.url + "/-/reload", data=b"")
        check(status == 500 and not spills(body.decode()), body)
    server.configure(NOTHING + wrong_keys(port, "  requests: 2\n"))
    status, _, body = http_get(server.url + "/-/reload", data=b"")
    check(status == 200 and b"restart" in body and not spills(body.decode()), body)
    nothing_spills(server)
    status, out = run([env.program("pyrrha"), "--config.file=" + server.config, "--config.check"])
    check(status == 0 and "object storage: S3 bucket" in out and not spills(out), out)
    status, _ = server.terminate(6)
    check(status == 0, f"exit status {status}")


def test_secrets_where_nobody_listens(env):
    secrets_of(env, free_port(), lambda e: "127.0.0.1" in e or "connect" in e.lower())


def test_secrets_where_the_store_tells_them(env):
    """As AWS does: the answer to a wrong signature has the key, and what was signed."""
    def refuse(handler):
        said = " ".join(f"{k}: {v}" for k, v in handler.headers.items())
        answer(handler, 403, f"<?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code><Message>{said}</Message><AWSAccessKeyId>{SECRETS['access_key']}</AWSAccessKeyId>"
               f"<StringToSign>AWS4-HMAC-SHA256 {SECRETS['secret_key']}</StringToSign></Error>".encode())
    store = HttpServer(env, refuse)
    secrets_of(env, int(store.address.rsplit(":", 1)[1]), lambda e: "SignatureDoesNotMatch" in e or "403" in e)


def test_a_store_that_never_answers(env):
    """It takes the connection and says nothing: the start ends at once when it is asked to."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        server = Server(env, NOTHING + s3_section(s.getsockname()[1]), wait=False)
        wait_until("it asks the store", lambda: "sealed days go to object storage" in server.text())
        time.sleep(1)
        check(http_get(server.url + "/-/ready")[0] == 503, "it is not ready")
        status, seconds = server.terminate(6)
        check(status == 0, f"exit status {status} after {seconds:.1f} s: {server.text()}")
