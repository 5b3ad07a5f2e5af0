# SPDX-License-Identifier: Apache-2.0
"""The pages around the profiles in a headless Chromium: targets with each class of error and what to do about it, discovery, status,
agents (a real one, where it runs), the language with every example run."""
import os
import ssl
import subprocess
import time

from harness import Echo, HttpServer, Server, Skip, answer, check, free_port, in_the_browser, need_a_browser, slow, wait_until
from test_agent import start_agent

JOB = """
  - job_name: {name}
    {more}
    profiling_config: {{pprof_config: {{process_cpu: {{enabled: false}}, goroutine: {{enabled: false}}, mutex: {{enabled: false}}, block: {{enabled: false}}}}}}
    static_configs: [{{targets: ['{address}']}}]
"""
# What was found and is dropped; what changes labels; a source that is not there.
DISCOVERY = """
  - job_name: dropped
    static_configs: [{targets: ['127.0.0.1:9'], labels: {tier: test}}]
    relabel_configs: [{source_labels: [tier], regex: test, action: drop}]
  - job_name: no-file
    file_sd_configs: [{files: [no-such-file.json]}]
"""
RELABEL = "    relabel_configs: [{target_label: team, replacement: core}]"


def tls_server(env):
    """HTTPS with a certificate that nobody knows."""
    key, cert = env.path("key.pem"), env.path("cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost"], check=True, capture_output=True)
    server = HttpServer(env, lambda h: answer(h, 200, b""))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True, do_handshake_on_connect=False)
    return server.address


def bad_jobs(env, echo):
    """(job, its address, what its configuration says besides)"""
    def status(code, text=b""):
        return HttpServer(env, lambda h: answer(h, code, text)).address
    plain = status(200, b"<html>welcome</html>")
    return [
        ("refused", f"127.0.0.1:{free_port()}", ""), ("timeout", HttpServer(env, lambda h: time.sleep(20)).address, "scrape_timeout: 500ms"),
        ("login", status(401), ""), ("forbidden", status(403), ""), ("missing", status(404), ""), ("trouble", status(503, b"on fire"), ""),
        ("tls", tls_server(env), "scheme: https"), ("no-tls", plain, "scheme: https"), ("page", plain, ""),
        ("large", echo, "body_size_limit: 100B"), ("many", echo, "sample_limit: 1"), ("name", "no-such-name.invalid:6060", ""),
        ("empty", status(200, b""), ""), ("metrics", status(200, b"# HELP up x\n# TYPE up gauge\nup 1\n"), ""),
    ]


def config(bad, echo, agent):
    text = "global: {scrape_interval: 1s}\nscrape_configs:\n"
    text += f"  - job_name: echoserver\n{RELABEL}\n    static_configs: [{{targets: ['{echo}'], labels: {{zone: a}}}}]\n"
    for name, address, more in bad:
        text += JOB.format(name=name, address=address, more=more or "scheme: http")
    if agent:
        for name, more in (("agent", "metrics_path: /metrics"), ("blind", "relabel_configs: [{target_label: instance, replacement: blind.example:7071}]")):
            text += f"  - job_name: {name}\n    {more}\n    profiling_config: {{preset: agent}}\n    static_configs: [{{targets: ['{agent}']}}]\n"
    return text + DISCOVERY


@slow
def test_in_a_browser(env):
    need_a_browser(env)
    echo = Echo(env, load=2).address
    try:
        agent = start_agent(env).split("//")[1]
    except Skip as e:
        print(f"# without an agent: {e}")
        agent = ""
    bad = bad_jobs(env, echo)
    bucket = f"object_storage: {{server_id: shop-1, bucket: {{type: FILESYSTEM, config: {{directory: {env.path('bucket')}}}}}}}\n"
    server, empty = Server(env, config(bad, echo, agent) + bucket), Server(env, "global: {}\n", name="empty")
    names = [name for name, _, _ in bad]
    wait_until("all targets were asked", lambda: {t["scrapePool"] for t in server.targets() if t["lastError"] or t.get("note")} >= set(names), 90)
    wait_until("a profile", lambda: server.value("count(cpu)"), 90)
    if agent:
        wait_until("the agent's metrics", lambda: server.value("increase(pyrrha_agent_samples_total[1h])"), 90)
    in_the_browser(env, "page_around.mjs", server.url, empty.url, env.dir, ",".join(names), agent, seconds=400)


def test_every_example_runs(env):
    """Each function of the language, as the server lists it, by its example: over one time and over a range."""
    server = Server(env, f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: e, static_configs: [{{targets: ['{Echo(env).address}']}}]}}]\n")
    wait_until("a profile", lambda: server.value("count(cpu)"), 90)
    functions = server.api("functions")
    check(len(functions) > 120 and all(f["example"] and f["returns"] for f in functions), functions)
    now = time.time()
    for f in functions:
        answer_of = server.query(f["example"])
        check(f["name"] in f["example"], f)
        if f["returns"] == "scalar":
            check(answer_of["resultType"] == "scalar" or f["name"] != f["example"].split("(")[0], f)
        server.api("query_range", query=f["example"], start=now - 60, end=now, step=15)
