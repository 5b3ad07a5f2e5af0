# SPDX-License-Identifier: Apache-2.0
"""The way of the tutorial in a headless Chromium, and a query without typing: page_explore.mjs. Beside a real echoserver, and an agent
where there may be one, thousands of containers are profiled, which only count."""
import time

from harness import Echo, HttpServer, patience, Server, Skip, answer, check, echo_command, in_the_browser, need_a_browser, slow, wait_until
from pprof_file import message
from test_agent import start_agent
from test_agent_labels import Group

PAGES, CONTAINERS = 3, 900


def host_profile(page):
    """What an agent of a host of idle containers would say: a millisecond of each."""
    strings = ["", "cpu", "nanoseconds", "container", "comm", "idle", "main.wait", *(f"many-{page}-{i:04}" for i in range(CONTAINERS))]
    samples = [(2, message((1, b"\x01"), (2, b"\xc0\x84\x3d"), (3, message((1, 3), (2, 7 + i))), (3, message((1, 4), (2, 5))))) for i in range(CONTAINERS)]
    return message((1, message((1, 1), (2, 2))), *samples, (4, message((1, 1), (4, message((1, 1))))), (5, message((1, 1), (2, 6), (3, 6))),
                   *((6, s.encode()) for s in strings), (9, time.time_ns() - 10**9), (10, 10**9), (11, message((1, 1), (2, 2))), (12, 10**7))


def serve_hosts(env):
    def do(handler):
        page = handler.path.strip("/").split("/")[0]
        answer(handler, 200, host_profile(page)) if page.isdigit() else answer(handler, 404, b"")
    return HttpServer(env, do).address


def real_agent(env):
    """An agent that sees the echoserver in a container, as a pod of Kubernetes would be; its address, and why there is none."""
    try:
        group = Group(env, "/lxc/echo-page-explore")
        rules = env.path("agent.yml", """
relabel_configs:
  - {source_labels: [container], regex: echo-page-explore, target_label: pod, replacement: echoserver-7d9}
  - {source_labels: [container], regex: echo-page-explore, target_label: container, replacement: echoserver}
  - {source_labels: [container], regex: '', action: drop}
""")
        group.start("echo", echo_command(env, 6))
        return start_agent(env, "--config.file=" + rules).split("//")[1], ""
    except Skip as why:
        return None, str(why)


@slow
def test_without_typing(env):
    need_a_browser(env)
    echo, hosts = Echo(env).address, serve_hosts(env)
    agent, why = real_agent(env)
    pages = "".join(f"""
  - job_name: hosts-{i}
    profiling_config: {{preset: agent, path_prefix: /{i}, pprof_config: {{off_cpu: {{enabled: false}}}}}}
    static_configs: [{{targets: ['{hosts}']}}]""" for i in range(PAGES))
    server = Server(env, f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: echoserver
    static_configs: [{{targets: ['{echo}'], labels: {{container: echoserver, pod: echoserver-7d9}}}}]{pages}
""" + (f"""
  - job_name: agent
    profiling_config: {{preset: agent, pprof_config: {{off_cpu: {{enabled: false}}}}}}
    static_configs: [{{targets: ['{agent}']}}]
""" if agent else ""))
    waiting = Server(env, """
scrape_configs:
  - job_name: away
    scrape_interval: 1s
    static_configs: [{targets: ['127.0.0.1:9']}]
  - job_name: nobody
    file_sd_configs: [{files: [/nowhere/*.yml]}]
""", name="waiting")
    print(f"# {why}: without an agent" if why else "# with an agent")
    wait_until("all containers", lambda: server.value('count(count by (container)(on_cpu{container=~"many.*"}))') == PAGES * CONTAINERS, 90)
    if agent:
        mine = 'on_cpu{container="echoserver", pod="echoserver-7d9"}'
        wait_until("the container, several times", lambda: (server.value(f"count_over_time({mine}[5m])") or 0) >= 8, 90)
    wait_until("the echoserver", lambda: server.value('count(cpu{container="echoserver"})') and server.value("count(heap_inuse_space)"), 90)
    check(server.value("count(on_cpu)") >= PAGES * CONTAINERS, "few series")
    in_the_browser(env, "page_explore.mjs", server.url, waiting.url, env.dir, seconds=400, PYRRHA_AGENT="1" if agent else "", PYRRHA_PATIENCE=str(patience()))
