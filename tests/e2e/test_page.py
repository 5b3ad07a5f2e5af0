# SPDX-License-Identifier: Apache-2.0
"""The page in a headless Chromium: page.mjs opens it, runs a query, clicks a frame and checks what it sees. Its
screenshots are kept beside its log."""
import os
import shutil

from harness import TOP, Echo, Server, Skip, check, run, scrape_config, wait_until
from test_api import NINE

# Found, and dropped by the first rule.
DROPPED = """
  - job_name: dropped
    static_configs: [{targets: ['127.0.0.1:9']}]
    relabel_configs: [{source_labels: [job], regex: dropped, action: drop}]
"""


def test_in_a_browser(env):
    script, modules = os.path.join(TOP, "tests/e2e/page.mjs"), os.path.join(env.build, "web/ui/work/node_modules")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not chromium or not shutil.which("node"):
        raise Skip("no chromium" if not chromium else "no node")
    if not os.path.isdir(os.path.join(modules, "playwright-core")):
        raise Skip("no playwright-core: the page was not bundled in this build directory")
    server = Server(env, scrape_config([Echo(env).address]) + DROPPED)
    wait_until("all nine types", lambda: not NINE - {row["title"] for row in server.api("profile_types")}, 40)
    # Node resolves packages from where a module really lies, so the script goes beside them.
    here = os.path.join(os.path.dirname(modules), "e2e")
    os.makedirs(here, exist_ok=True)
    shutil.copy(script, here)
    status, out = run(["node", os.path.join(here, "page.mjs"), server.url, env.dir], seconds=400, cwd=env.dir,
                      env=dict(os.environ, PYRRHA_URL=server.url, PYRRHA_OUT=env.dir, PYRRHA_DROPPED="1", CHROMIUM=chromium))
    env.path("page.log", out)
    check(status == 0, out[-4000:])
    shots = [f for f in os.listdir(env.dir) if f.endswith(".png")]
    check(shots, "no screenshot was left in " + env.dir)
