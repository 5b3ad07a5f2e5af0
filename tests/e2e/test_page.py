# SPDX-License-Identifier: Apache-2.0
"""The page in a headless Chromium: page.mjs opens it, runs a query, clicks a frame and checks what it sees. Its
screenshots are kept beside its log."""
import os

from harness import Echo, Server, check, in_the_browser, need_a_browser, scrape_config, wait_until
from test_api import NINE

# Found, and dropped by the first rule.
DROPPED = """
  - job_name: dropped
    static_configs: [{targets: ['127.0.0.1:9']}]
    relabel_configs: [{source_labels: [job], regex: dropped, action: drop}]
"""


def test_in_a_browser(env):
    need_a_browser(env)
    server = Server(env, scrape_config([Echo(env).address]) + DROPPED)
    wait_until("all nine types", lambda: not NINE - {row["title"] for row in server.api("profile_types")}, 90)
    in_the_browser(env, "page.mjs", server.url, env.dir, seconds=400, PYRRHA_DROPPED="1")
    shots = [f for f in os.listdir(env.dir) if f.endswith(".png")]
    check(shots, "no screenshot was left in " + env.dir)
