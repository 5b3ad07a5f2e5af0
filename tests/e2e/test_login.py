# SPDX-License-Identifier: Apache-2.0
"""Who may ask what: each route of both programs without a login and with each right; what wrong passwords get; that the programs
people use log in; that no answer shows the user info of a URL."""
import argparse
import base64
import hashlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from harness import (Echo, patience, Process, Server, TOP, check, free_port, http_get, in_the_browser, need_a_browser, run, scrape_config,
                     slow, wait_until)
from test_agent import start_agent
from test_promql_oracle import tool
from test_web_config import Certificates, Ours

ALICE = "$2b$04$VgC47UCEbpmNfGzRI4xRVO7proVowVLvrK.qp1UVwStVkJV2An7jy"  # of alice-pw
BOB = "$2b$04$5Qxy5EflapdqTwGATYPahe7PL63xtWampBCddIq9Dvu/OtgRZ/jiC"  # of bob-pw
SLOW = "$2b$09$abcdefghijklmnopqrstuug8oEQEyZZop3j8eGXPRnchEf9ItekYK"  # of slow-pw; 30 ms, which can be told from noise
RIGHTS = ("read", "write", "admin")
NOT_YOURS = b'it has not the right "'


def basic(name, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def bearer(token):
    return {"Authorization": "Bearer " + token}


def tokens():
    """One with each right, whose name is its right."""
    return "tokens:\n" + "".join(f"- {{name: {r}, sha256: {hashlib.sha256(f'token-{r}'.encode()).hexdigest()}, rights: [{r}]}}\n" for r in RIGHTS)


LOGINS = f"basic_auth_users: {{alice: {ALICE}, bob: {BOB}}}\nuser_rights: {{bob: [read]}}\n" + tokens()


def ask(port, path="/metrics", headers=None, method="GET", body=None, source=None, host="127.0.0.1"):
    """(status, headers, body) on a connection of its own."""
    c = http.client.HTTPConnection(host, port, timeout=60 * patience(), source_address=source and (source, 0))
    try:
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


def guarded(env, config="scrape_configs: []\n", web=LOGINS, flags=(), name="pyrrha"):
    file = env.path(name + "-web.yml", web)
    return Server(env, config, flags=["--web.config.file=" + file, *flags], name=name)


# ---- the routes ----

ROW = re.compile(r'^\t\{ (API )?"([^"]*)", ((?:HTTPD_\w+(?: \| )?)+), HTTPD_RIGHT_(\w+), \w+', re.M)


SLOW_PATH = re.compile("/(profile|offcpu|heap|allocs)$")


def routes(file):
    """(path, methods, right) of each row of the table in a source file."""
    with open(os.path.join(TOP, file), encoding="utf-8") as f:
        table = f.read().split("struct httpd_route routes[] = {\n")[1].split("\n};")[0]
    rows = [("/api/v1/" + path if api else path, [m[6:] for m in methods.split(" | ")], right.lower())
            for api, path, methods, right in ROW.findall(table)]
    rows = [(p, ["GET", "POST", "PUT", "DELETE"] if m == ["ANY"] else m, r) for p, m, r in rows]
    check(len(rows) == len(re.findall(r"^\t\{ ", table, re.M)) and len(rows) > 10, f"{file}: {len(rows)} rows were understood")
    return rows


def walk(port, rows, open_paths, last=()):
    """Each row with no login and with each right; those that end the program last."""
    wrong = []
    for method, path in (("OPTIONS", "/metrics"), ("GET", "/nothing/here"), ("PROPFIND", "/metrics"), ("POST", "/-/ready"), ("GET", "/%zz")):
        if ask(port, path, method=method)[0] != 401:
            wrong.append(f"{method} {path} without a login: {ask(port, path, method=method)[0]}")
    for path, methods, right in sorted(rows, key=lambda r: r[0] in last):
        asked = re.sub(r"\{[^}]*\}", "x", path) + "?seconds=1"
        for method in methods + (["HEAD"] if "GET" in methods else []):
            status, headers, _ = ask(port, asked, method=method)
            is_open = path in open_paths and method in ("GET", "HEAD")
            if (status == 401) == is_open or (status == 401 and headers["WWW-Authenticate"] != "Basic"):
                wrong.append(f"{method} {path} without a login: {status}")
            for r in RIGHTS:
                if r == right and ((path in last and method != methods[-1]) or (SLOW_PATH.search(path) and method != methods[0])):
                    continue  # it would end the program, or take a second each
                status, _, body = ask(port, asked, bearer("token-" + r), method)
                let_in = status not in (401, 429) and (status != 403 or (NOT_YOURS not in body and method != "HEAD"))
                if let_in != (right in (r, "none_needed")):
                    wrong.append(f"{method} {path} with {r}: {status} {body[:100]}")
    check(not wrong, "\n".join(wrong))
    check({p for p, _, r in rows if r == "none_needed"} == set(open_paths), "what needs no login")


def test_routes_of_the_server(env):
    server = guarded(env, flags=["--web.enable-lifecycle", "--web.enable-admin-api", "--web.enable-remote-write-receiver"])
    rows = routes("web/web.c")
    walk(server.port, rows, ["/-/healthy", "/-/ready"], last=["/-/quit"])
    wait_until("it was told to quit", lambda: not server.alive(), 20)
    with open(os.path.join(TOP, "docs", "http-api.md"), encoding="utf-8") as f:
        said = dict(re.findall(r"^\| `(none|read|write|admin)` \| (.*) \|$", f.read(), re.M))
    for path, _, right in rows:
        if right != "read":
            check(path in said[{"none_needed": "none", "read_write": "write"}.get(right, right)], f"docs/http-api.md does not say that {path} needs {right}")


def test_routes_of_the_agent(env):
    agent = start_agent(env, "--web.config.file=" + env.path("web.yml", LOGINS), "--web.enable-lifecycle", "--web.enable-debuginfod", only=["none"])
    walk(int(agent.rsplit(":", 1)[1]), routes("agent/serve/serve.c"), ["/-/healthy", "/-/ready", "/healthy"])


def test_agent_on_several_addresses(env):
    """As the server: the flag may be repeated, also as parca-agent calls it."""
    more = [free_port(), free_port()]
    agent = start_agent(env, f"--web.listen-address=127.0.0.2:{more[0]}", f"--http-address=[::1]:{more[1]}", only=["none"])
    check(http_get(agent + "/-/healthy")[0] == 200, "the first")
    check(ask(more[0], "/-/healthy", host="127.0.0.2")[0] == 200, "the second")
    check(ask(more[1], "/-/healthy", host="::1")[0] == 200, "the third")
    check(env.agent.text().count("msg=listening") == 3, env.agent.text())


# ---- wrong passwords ----

def refused(server, headers):
    text = ask(server.port, "/metrics", headers)[2]
    return {m[0]: float(m[1]) for m in re.findall(r'pyrrha_http_logins_refused_total\{reason="(\w+)"\} (\S+)', text.decode())}


def test_ten_failures(env):
    """An address waits after them; who is known there does not. What is logged has no password."""
    server = guarded(env)
    alice = basic("alice", "alice-pw")
    check(ask(server.port, headers=alice)[0] == 200, "alice")
    got = [ask(server.port, headers=basic("alice", f"wrong-{i}"), source="127.0.0.1")[0] for i in range(12)]
    check(got == [401] * 10 + [429] * 2, f"{got}")
    status, headers, _ = ask(server.port, headers=basic("bob", "bob-pw"))
    check(status == 429 and 1 <= int(headers["Retry-After"]) <= 60, f"one who is not known there: {status} {headers}")
    check(ask(server.port, headers=bearer("token-read"))[0] == 429, "a token that is not known there")
    check(ask(server.port, headers=alice)[0] == 200, "alice is known")
    check(ask(server.port, headers=basic("bob", "bob-pw"), source="127.0.0.9")[0] == 200, "another address does not wait")
    counted = refused(server, alice)
    check(counted["password"] == 10 and counted["waits"] == 4, f"{counted}")
    log = server.text()
    check("wrong-" not in log and "token-" not in log and basic("alice", "wrong-1")["Authorization"][6:] not in log, log)
    check(log.count('what=password user=alice') == 10 and "address=127.0.0.1" in log, log)


def test_a_new_token(env):
    """A server scrapes with the old token for a while, and makes nobody at its address wait. The new token counts from the next scrape on."""
    target, token, alice = guarded(env, name="target"), env.path("token", "token-of-before"), basic("alice", "alice-pw")
    check(ask(target.port, headers=alice)[0] == 200, "alice")
    off = ", ".join(f"{what}: {{enabled: false}}" for what in ("goroutine", "mutex", "block"))  # a C program has none
    scraper = Server(env, f"scrape_configs: [{{job_name: t, scrape_interval: 1s, metrics_path: /metrics, profiling_config: {{pprof_config: {{{off}}}}}, "
                          f"authorization: {{credentials_file: {token}}}, static_configs: [{{targets: ['127.0.0.1:{target.port}']}}]}}]\n", name="scraper")
    wait_until("it was refused many times", lambda: sum(refused(target, alice).values()) >= 20, 60)
    counted = refused(target, alice)
    check(counted["token"] >= 20 and not counted.get("waits"), f"{counted}")
    check(target.text().count("a login failed") <= 2, target.text())
    check(ask(target.port, headers=basic("bob", "bob-pw"))[0] == 200, "one who is not known there")
    env.path("token", "token-read")
    wait_until("its scrapes succeed", lambda: [t["health"] for t in scraper.targets()] == ["up"] * 3, 20)


def checking_ns(server):
    """CPU time of the thread that checks passwords."""
    tasks = f"/proc/{server.p.pid}/task"
    for t in os.listdir(tasks):
        with open(f"{tasks}/{t}/comm", encoding="utf-8") as f:
            if f.read() == "httpd-login\n":
                with open(f"{tasks}/{t}/schedstat", encoding="utf-8") as stat:
                    return int(stat.read().split()[0])
    return 0


def test_the_same_time(env):
    """For a right password, a wrong one and a name that is none, from addresses that nothing is known of. What is compared is CPU
    time: that of the wall says nothing on a busy machine."""
    server = guarded(env, web=f"basic_auth_users: {{slow: {SLOW}, other: {SLOW}}}\n")
    rounds, took = 60 if os.environ.get("PYRRHA_LONG") else 8, {"right": [], "wrong": [], "nobody": []}
    logins = {"right": basic("slow", "slow-pw"), "wrong": basic("slow", "slow-pW"), "nobody": basic("slow1", "slow-pw")}
    for i in range(rounds):
        for k, (what, headers) in enumerate(logins.items()):
            before = checking_ns(server)
            status = ask(server.port, "/version", headers, source=f"127.1.{i + 1}.{k + 1}")[0]
            took[what].append(checking_ns(server) - before)
            check(status == (200 if what == "right" else 401), f"{what}: {status}")
    middle = {what: statistics.median(t) for what, t in took.items()}
    print({what: f"{m / 1e6:.1f} ms" for what, m in middle.items()})
    check(max(middle.values()) < 1.25 * min(middle.values()) and min(middle.values()) > 5e6, f"{middle} ns")


FLOOD = """
import base64, socket, sys, time
port, path, seconds, least = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
s, n, begin = socket.create_connection(("127.0.0.1", port)), 0, time.monotonic()
while time.monotonic() < begin + seconds or n < least:
    words = [base64.b64encode(f"alice:{n + i}".encode()).decode() for i in range(10)]
    s.sendall("".join(f"GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Basic {w}\\r\\n\\r\\n" for w in words).encode())
    answers = 0
    while answers < 10:
        answers += s.recv(65536).count(b"HTTP/1.1 ")
    n += 10
    time.sleep(max(begin + n / 1000 - time.monotonic(), 0))
print(n)
"""


def queries_under(env, server, headers, flooded, path, seconds):
    """Seconds that each query took while another program asks 1,000 times a second. It goes on until it has asked a tenth of that: a
    busy machine runs it now and then."""
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(flooded.port), path, str(seconds), str(int(100 * seconds))],
                             stdout=subprocess.DEVNULL)
    env.at_end(flood.kill)
    took, c = [], http.client.HTTPConnection("127.0.0.1", server.port, timeout=60 * patience())
    while flood.poll() is None:
        begin = time.perf_counter()
        c.request("GET", "/api/v1/query?query=count_over_time(vector(1)%5B20h:1s%5D)", headers=headers)
        r = c.getresponse()
        body = r.read()
        check(r.status == 200, f"{r.status} {body[:200]}")
        took.append(time.perf_counter() - begin)
    c.close()
    check(flood.wait() == 0, "the flood failed")
    return took


def cpu_s(server):
    with open(f"/proc/{server.p.pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@slow
def test_a_thousand_wrong_logins_a_second(env):
    """They slow a query down no more than as many requests to a server beside it do, which take the same of the machine: in one
    of a dozen rounds, as others use the machine too. And they take less than a tenth of one CPU."""
    server, beside = guarded(env), Server(env, "scrape_configs: []\n", name="beside")
    alice, seconds = basic("alice", "alice-pw"), 5 if os.environ.get("PYRRHA_LONG") else 0.5
    queries_under(env, server, alice, beside, "/-/healthy", 0.2)
    ratios = []
    while len(ratios) < 12 and min(ratios, default=2) >= 1.1:
        without = statistics.median(queries_under(env, server, alice, beside, "/-/healthy", seconds))
        ratios.append(statistics.median(queries_under(env, server, alice, server, "/metrics", seconds)) / without)
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(server.port), "/metrics", "1", "1000"], stdout=subprocess.PIPE)
    env.at_end(flood.kill)
    before, n = cpu_s(server), int(flood.communicate()[0])
    each = (cpu_s(server) - before) / n
    counted = refused(server, alice)
    check(counted["password"] == 10 and counted["waits"] > n, f"they wait, unchecked: {counted}")
    print(f"a query takes {', '.join(f'{r:.2f}' for r in ratios)} times as long; a wrong login takes {each * 1e6:.0f} us of CPU")
    check(min(ratios) < 1.1 and each < 100e-6, f"{ratios}, {each} s")


def flood(env, server, networks, each, seconds=600):
    """tests/attack/wrong_passwords.py against the server, until the test ends; returns once the server refuses some."""
    program = os.path.join(TOP, "tests", "attack", "wrong_passwords.py")
    p = subprocess.Popen([sys.executable, program, "--url", server.url, "--seconds", str(seconds), "--networks", str(networks), "--addresses", str(each)])
    env.at_end(p.kill)
    wait_until("more wait than may", lambda: refused(server, bearer("token-read")).get("busy", 0) > 100, 60)
    return p


def enters(server, headers, source):
    """Seconds until somebody is in, beside a flood. Tokens and health do not wait for anything."""
    begin = time.monotonic()
    status, _, body = ask(server.port, "/version", headers, source=source)
    took = time.monotonic() - begin
    check(status == 200, f"from {source}: {status} {body[:200]} after {took:.1f} s")
    check(ask(server.port, "/version", bearer("token-read"), source=source)[0] == 200, "a token")
    check(ask(server.port, "/-/healthy")[0] == 200, "health")
    return took


FLOODED = f"basic_auth_users: {{slow: {SLOW}, alice: {SLOW}}}\n" + tokens()


def test_a_flood_of_one_network(env):
    """Of a thousand addresses: whoever comes from another network gets in, each time, and soon."""
    server = guarded(env, web=FLOODED)
    p = flood(env, server, 1, 1000)  # twice as many as there are connections
    took = [enters(server, basic("slow", "slow-pw"), f"127.2.0.{i}") for i in range(1, 10)]
    check(p.poll() is None, "the flood is over")
    print("from another network:", ", ".join(f"{t:.2f}" for t in took), "s")
    check(statistics.median(took) < 5 * patience(), f"{took}")


def test_a_flood_of_all_networks(env):
    """Of 240: who was there before gets in, also once the password was changed."""
    server = guarded(env, web=FLOODED.replace(SLOW, BOB))
    check(ask(server.port, "/version", basic("slow", "bob-pw"), source="127.2.0.1")[0] == 200, "before")
    p = flood(env, server, 240, 2)
    env.path("pyrrha-web.yml", FLOODED)
    wait_until("the new password counts", lambda: "the web configuration was read again" in server.text(), 60)
    took = [enters(server, basic("slow", "slow-pw"), "127.2.0.1")]
    check(p.poll() is None, "the flood is over")
    print(f"from a proven address: {took[0]:.2f} s")


# ---- those who log in ----

def test_programs_log_in(env):
    """curl, promtool, go tool pprof, pyrtool, and what Grafana's data source sends."""
    server = guarded(env)
    port, at = server.port, f"127.0.0.1:{server.port}"
    for argv, status in ((["-u", "alice:alice-pw"], "200"), (["-u", "bob:bob-pw"], "200"), ([], "401"),
                         (["-H", "Authorization: Bearer token-read"], "200"), (["-u", "bob:bob-pw", "-X", "POST"], "403")):
        path = "/-/reload" if "POST" in argv else "/api/v1/query?query=1"
        _, said = run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *argv, server.url + path])
        check(said == status, f"curl {argv}: {said}")
    login = env.path("http.yml", "basic_auth: {username: bob, password: bob-pw}\n")
    with_token = env.path("token.yml", "authorization: {credentials: token-read}\n")
    promtool = os.environ.get("PYRRHA_PROMTOOL")  # Debian's 2.42 takes no file
    logins = [[f"--http.config.file={file}", server.url] for file in (login, with_token)] if promtool else [[f"http://bob:bob-pw@{at}"]]
    for argv in logins:
        status, said = run([promtool or tool(env, "promtool"), "query", "instant", *argv, "1+1"])
        check(status == 0 and "2 @" in said, f"promtool: {said}")
    for file in (login, with_token):
        status, said = run([env.program("pyrtool"), "query", "instant", f"--http.config.file={file}", server.url, "1+1"])
        check(status == 0 and "2" in said, f"pyrtool: {said}")
    status, said = run(["go", "tool", "pprof", "-top", f"http://bob:bob-pw@{at}/debug/pprof/profile?seconds=1"], 60)
    check(status == 0 and "Type: cpu" in said, f"go tool pprof: {said}")
    status, said = run(["go", "tool", "pprof", "-top", f"http://bob:no@{at}/debug/pprof/profile?seconds=1"], 60)
    check("401" in said, f"go tool pprof with a wrong password: {said}")
    # Grafana: queries are POSTed as forms, labels asked for with GET, resources through its own user agent.
    for who in (basic("bob", "bob-pw"), bearer("token-read")):
        headers = dict(who, **{"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Grafana/10.4.2", "X-Grafana-Org-Id": "1"})
        for path, body in (("query", "query=1%2B1&time=1700000000"), ("query_range", "query=vector(1)&start=0&end=60&step=15"),
                           ("labels", "start=0&end=60"), ("series", "match%5B%5D=up&start=0&end=60")):
            status, _, answer = ask(port, "/api/v1/" + path, headers, "POST", body)
            check(status == 200 and json.loads(answer)["status"] == "success", f"{path}: {status} {answer[:200]}")
        for path in ("status/buildinfo", "label/__name__/values", "metadata", "rules"):
            check(ask(port, "/api/v1/" + path, who)[0] == 200, path)


def test_programs_log_in_under_tls(env):
    """go tool pprof as its users call it where a certificate is the server's own, curl, pyrtool."""
    make = Certificates(env)
    make.authority("ca")
    make.signed("server", "ca")
    server = Ours(env, "tls_server_config: {cert_file: server.crt, key_file: server.key}\n" + LOGINS, context=make.client())
    status, said = run(["go", "tool", "pprof", "-top", f"https+insecure://bob:bob-pw@localhost:{server.port}/debug/pprof/profile?seconds=1"], 60)
    check(status == 0 and "Type: cpu" in said, f"go tool pprof: {said}")
    _, said = run(["curl", "-s", "--cacert", make.path("ca.crt"), "-u", "bob:bob-pw", "-o", "/dev/null", "-w", "%{http_code}",
                   f"https://localhost:{server.port}/metrics"])
    check(said == "200", f"curl: {said}")
    login = env.path("http.yml", "basic_auth: {username: bob, password: bob-pw}\ntls_config: {ca_file: ca.crt}\n")
    status, said = run([env.program("pyrtool"), "query", "instant", f"--http.config.file={login}", f"https://localhost:{server.port}", "1+1"])
    check(status == 0 and "2" in said, f"pyrtool: {said}")


@slow
def test_the_page_logs_in(env):
    """The browser asks for a password, and what the page fetches goes along with it."""
    need_a_browser(env)
    server = guarded(env, scrape_config([Echo(env).address]))
    wait_until("a profile", lambda: b'"title"' in ask(server.port, "/api/v1/profile_types", bearer("token-read"))[2], 40)
    in_the_browser(env, "page_login.mjs", server.url, env.dir, "bob", "bob-pw", seconds=120)


# ---- behind a proxy ----

NGINX = """
daemon off; pid {dir}/nginx.pid; error_log stderr; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {{ listen 127.0.0.1:{port}; location /pyrrha/ {{ proxy_pass http://127.0.0.1:{server}{strip}; }} }}
}}
"""


def nginx(env, server, strip):
    """Debian's, before the server with the prefix /pyrrha; its URL. strip: the server does not see the prefix."""
    program, port = tool(env, "nginx", package="nginx", folder="sbin"), free_port()
    config = env.path(f"nginx-{port}.conf", NGINX.format(dir=env.dir, port=port, server=server.port, strip="/" if strip else ""))
    Process(env, f"nginx-{port}", [program, "-c", config, "-e", "stderr"])
    wait_until("nginx is ready", lambda: http_get(f"http://127.0.0.1:{port}/pyrrha/-/ready")[0] == 200)
    return f"http://127.0.0.1:{port}/pyrrha"


def followed(url, headers=None, data=None):
    """(status, last address, body), redirects followed as a browser does."""
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return r.status, r.url, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.url, e.read()


@slow
def test_behind_nginx(env):
    """With a path prefix, that it takes off or not, with --web.external-url and without, and with a login."""
    web = "--web.config.file=" + env.path("web.yml", LOGINS)
    ways = [("kept, external URL", False, lambda at: [f"--web.external-url={at}"]), ("kept", False, lambda at: ["--web.route-prefix=/pyrrha"]),
            ("taken off, external URL", True, lambda at: [f"--web.external-url={at}", "--web.route-prefix=/"]), ("taken off", True, lambda at: [])]
    long = '"' + "x" * 50000 + '"'
    who = basic("bob", "bob-pw")
    for i, (what, strip, flags) in enumerate(ways):
        server = Server(env, "scrape_configs: []\n", flags=[web, *flags("http://profiles.example.org/pyrrha/")], name=f"server{i}", wait=False)
        ready = "" if strip else "/pyrrha"
        wait_until("it is ready", lambda s=server, r=ready: http_get(s.url + r + "/-/ready")[0] == 200)
        at = nginx(env, server, strip)
        check(followed(at + "/")[0] == 401, f"{what}: without a login")
        for path in ("", "/", "/targets", "/graph"):
            status, url, body = followed(at + path, who)
            check(status == 200 and url.startswith(at), f"{what}: {path}: {status} {url}")
            base = urllib.parse.urljoin(url, re.search(rb'<base href="([^"]*)"', body)[1].decode())
            scripts = re.findall(rb'(?:src|href)="([^"]+\.(?:js|css))"', body)
            check(scripts, f"{what}: {body[:500]}")
            for s in scripts:
                check(followed(urllib.parse.urljoin(base, s.decode()), who)[0] == 200, f"{what}: {path}: {base} {s}")
        form = dict(who, **{"Content-Type": "application/x-www-form-urlencoded"})
        status, _, body = followed(at + "/api/v1/query", form, b"query=" + long.encode())
        check(status == 200 and json.loads(body)["data"]["result"][1] == "x" * 50000, f"{what}: a long query as a form: {status} {body[:200]}")
        short = "%2B".join(["1"] * 1500)
        check(followed(at + "/api/v1/query?query=" + short, who)[0] == 200, f"{what}: of 6,000 bytes in the address")
        check(followed(at + "/api/v1/query?query=1", basic("bob", "no"))[0] == 401, f"{what}: a wrong password")
        check(followed(at + "/debug/pprof", who)[1] == at + "/debug/pprof/", f"{what}: a redirect")


@slow
def test_agent_behind_nginx(env):
    agent = start_agent(env, only=["none"])
    at = nginx(env, argparse.Namespace(port=int(agent.rsplit(":", 1)[1])), True)
    for path in ("/", "/debug/pprof", "/debug/pprof/"):
        status, url, _ = followed(at + path)
        check(status == 200 and url == at + "/debug/pprof/", f"{path}: {status} {url}")
    check(followed(at + "/debug/pprof/profile?seconds=1")[0] == 200, "a profile")


# ---- what is shown ----

HIDDEN = """
scrape_configs:
- job_name: paths
  proxy_url: http://me:hunter2@127.0.0.1:1
  static_configs: [{targets: ['127.0.0.1:1'], labels: {__from: 'http://me:hunter2@h/x', __to: 'http://me:hunter2@h/y'}}]
- job_name: http
  http_sd_configs: [{url: 'http://me:hunter2@127.0.0.1:1/x'}]
- job_name: docker
  docker_sd_configs: [{host: 'http://127.0.0.1:1', basic_auth: {username: me, password: hunter2}}]
- job_name: kube
  kubernetes_sd_configs: [{role: pod, api_server: 'https://me:hunter2@127.0.0.1:1'}]
"""


def test_no_user_info_is_shown(env):
    """Of no answer that reads, and not in the log."""
    server = Server(env, HIDDEN, flags=["--web.external-url=http://me:hunter2@example.org/", "--log.level=debug"])
    wait_until("discovery failed", lambda: server.text().count("err=") > 2, 20)
    time.sleep(1)
    shown = [f"{path}: {body}" for path, methods, right in routes("web/web.c") if right in ("read", "none_needed") and "GET" in methods
             for body in [http_get(server.url + re.sub(r"\{[^}]*\}", "x", path) + "?seconds=1&scrapePool=paths")[2]] if b"hunter2" in body]
    check(not shown, "\n".join(s[:2000] for s in shown))
    check("hunter2" not in server.text(), server.text())
    flags = json.loads(http_get(server.url + "/api/v1/status/flags")[2])["data"]
    check(flags["web.external-url"] == "http://<secret>@example.org/", f"{flags}")
    for argv in (["query", "instant", "http://me:hunter2@127.0.0.1:1", "1"], ["check", "config", env.path("pyrrha.yml")],
                 ["check", "service-discovery", env.path("pyrrha.yml"), "paths"]):
        _, said = run([env.program("pyrtool"), *argv])
        check("hunter2" not in said, f"pyrtool {argv}: {said}")
