# SPDX-License-Identifier: Apache-2.0
"""The menu of a frame, sharing, pins and files on the page, in a headless Chromium (page_share.mjs); then what the page gave away is used:
the rule by pyrtool check rules, the files by pyrtool."""
import gzip
import os
import shutil
import threading

from harness import Echo, Server, check, http_get, in_the_browser, need_a_browser, run, scrape_config, slow, wait_until

LINKS = "web: {source_links: [{match: '.*/(?P<rest>[^/]+/main\\.go)', url: 'https://git.example.org/{rest}#L{line}', name: repository}]}\n"


def profiles_of(env, echo):
    """What the page is given as files."""
    for name, path in (("before", "profile?seconds=1"), ("after", "profile?seconds=1"), ("heap", "heap")):
        status, _, body = http_get(f"http://{echo.address}/debug/pprof/{path}")
        check(status == 200, f"{path}: {status}")
        with open(os.path.join(env.dir, name + ".pb.gz"), "wb") as f:
            f.write(body)


@slow
def test_in_a_browser(env):
    need_a_browser(env)
    echo, measured = Echo(env), Echo(env, name="measured")
    server = Server(env, scrape_config([echo.address]) + LINKS, ["--web.enable-pins", "--web.enable-admin-api"])
    files = threading.Thread(target=profiles_of, args=(env, measured))
    files.start()
    wait_until("samples", lambda: (server.value("samples(merge(cpu[5m]))") or 0) > 30, 120)
    files.join()
    tool = env.program("pyrtool")
    in_the_browser(env, "page_share.mjs", server.url, env.dir, seconds=400, PYRRHA_TOOLS=os.path.dirname(tool), PYRRHA_GO=shutil.which("go") or "")
    status, text = run([tool, "check", "rules", os.path.join(env.dir, "alert.yml")])
    check(status == 0, f"check rules: {text}")
    for name in ("got", "pinned"):
        status, text = run([tool, "top", os.path.join(env.dir, name + ".pb.gz")])
        check(status == 0 and "main.fibonacci" in text, f"{name}: {text}")
    with open(os.path.join(env.dir, "pinned.pb.gz"), "rb") as f:
        check(b"query: merge(cpu[5m])" in gzip.decompress(f.read()), "a pin does not say its query")
