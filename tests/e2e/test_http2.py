# SPDX-License-Identifier: Apache-2.0
"""A target that speaks HTTP/2, as servers in Go do with TLS, and whose connection hangs: the next scrape makes a new one."""
import os
import shutil
import subprocess

from harness import Server, Skip, TOP, check, wait_until

CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: h2
  scheme: https
  metrics_path: /metrics
  tls_config: {insecure_skip_verify: true}
  static_configs: [{targets: ['%s']}]
"""


def test_a_hanging_connection(env):
    if not shutil.which("go"):
        raise Skip("there is no go")
    program = env.path("http2")
    subprocess.run(["go", "build", "-buildvcs=false", "-o", program, "."], cwd=os.path.join(TOP, "tests", "fixtures", "http2"),
                   env=dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="-mod=readonly"), check=True)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        try:
            server = Server(env, CONFIG % target.stdout.readline().strip())
            wait_until("it is scraped by HTTP/2", lambda: server.value("protocol") == 2)
            wait_until("all scrapes share a connection", lambda: server.value("count_over_time(connections[10s]) > 2") and server.value("connections") == 1)
            target.stdin.write("freeze\n")
            target.stdin.flush()
            wait_until("a scrape hangs", lambda: server.value("min_over_time(up[1m])") == 0)
            wait_until("another connection is made", lambda: server.value("up") == 1 and server.value("connections") == 2)
            check(server.value("protocol") == 2, "the new connection has another protocol")
        finally:
            target.kill()
