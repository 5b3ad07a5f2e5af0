# SPDX-License-Identifier: Apache-2.0
"""The page for all who use it, in a headless Chromium: page_people.mjs goes through every view. Its pictures are kept beside its log, in views/."""
import math
import os
import time
import urllib.parse

from harness import Echo, HttpServer, LONG, Server, answer, check, in_the_browser, need_a_browser, slow, wait_until

VIEWS = 33  # of page_people.mjs
RULES = """
groups:
- name: cpu
  rules:
  - {record: 'job:cpu:cores', expr: 'sum by (job) (rate(cpu[1m]))'}
  - {alert: CpuHigh, expr: 'sum by (job) (rate(cpu[1m])) > 0', labels: {severity: page}, annotations: {summary: '{{ $labels.job }} uses {{ $value | humanize }} cores'}}
  - {alert: HeapGrows, expr: 'sum by (job) (heap_inuse_space) > 1', for: 1h}
"""
NONE = "block: {enabled: false}, goroutine: {enabled: false}, mutex: {enabled: false}, memory: {enabled: false}, process_cpu: {enabled: false}"


def pod_stacks(h):
    """What one of the ninety serves: a few stacks, which become more and less with time."""
    n = int(urllib.parse.parse_qs(urllib.parse.urlsplit(h.path).query)["pod"][0])
    size = 4000 / (n + 1) * (1 + 0.3 * math.sin(time.time() / 5 + n))
    answer(h, 200, "".join(f"main;serve{a};github.com/acme/store.(*Cache).get{b} {int(size * (a + 1) / (b + 1)) + 1}\n" for a in range(3) for b in range(4)).encode())


@slow
def test_in_a_browser(env):
    need_a_browser(env)
    many, echo = HttpServer(env, pod_stacks), Echo(env, load=2)
    pods = "".join(f"    - {{targets: ['{many.address}'], labels: {{__param_pod: '{i}', pod: 'checkout-{i:02d}', node: 'node-{i % 7}'}}}}\n" for i in range(90))
    env.path("rules.yml", RULES)
    server = Server(env, f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{env.dir}/rules.yml']
scrape_configs:
  - job_name: echoserver
    static_configs: [{{targets: ['{echo.address}'], labels: {{container: echoserver, pod: echo-1}}}}]
  - job_name: checkout
    scrape_interval: 2s
    profiling_config: {{pprof_config: {{{NONE}, stacks: {{enabled: true, path: /stacks, folded: {{sample_type: requests, unit: count}}}}}}}}
    static_configs:
{pods}
  - job_name: gone
    profiling_config: {{pprof_config: {{{NONE.replace("memory: {enabled: false}, ", "")}}}}}
    static_configs: [{{targets: ['127.0.0.1:9']}}]
  - job_name: dropped
    static_configs: [{{targets: ['127.0.0.1:9']}}]
    relabel_configs: [{{source_labels: [job], regex: dropped, action: drop}}]
""")
    empty = Server(env, "global: {}\n", name="empty")
    waiting = Server(env, "scrape_configs: [{job_name: my-service, scrape_interval: 10m, static_configs: [{targets: ['127.0.0.1:9']}]}]\n", name="waiting")
    wait_until("there is a profile, all ninety are there, and an alert fires", lambda: server.value("sum(count(cpu))") and server.value("count(up == 1)") >= 91
               and any(a["state"] == "firing" for a in server.api("alerts")["alerts"]), 90)
    in_the_browser(env, "page_people.mjs", server.url, empty.url, waiting.url, env.dir, seconds=400)
    check(len(os.listdir(env.path("views"))) >= (4 * VIEWS if LONG else VIEWS), "pictures are missing")
