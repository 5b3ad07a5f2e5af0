# SPDX-License-Identifier: Apache-2.0
"""Sealed days in object storage: what the server says of the section, a disk that is lost and comes back from the bucket, a disk that
returns when another one has gone on, a bucket that is away."""
import os
import shutil

from harness import Server, check, free_port, http_get, run, wait_until

NOTHING = "scrape_configs: []\n"


def section(directory, more=""):
    return f"object_storage:\n  server_id: shop-1\n  bucket: {{type: FILESYSTEM, config: {{directory: {directory}}}}}\n{more}"


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
