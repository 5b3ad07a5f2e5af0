# SPDX-License-Identifier: Apache-2.0
"""--web.config.file: the same requests get the same status as from Debian's prometheus. The files that it names are replaced while
requests come. Jobs with fields of their own scrape targets that require a certificate or a token."""
import base64
import http.client
import itertools
import json
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time

from harness import patience, Process, Server, Skip, check, free_port, run, wait_until
from test_agent import start_agent
from test_promql_oracle import tool

ALICE = "$2b$04$VgC47UCEbpmNfGzRI4xRVO7proVowVLvrK.qp1UVwStVkJV2An7jy"  # of alice-pw
BOB = "$2b$04$5Qxy5EflapdqTwGATYPahe7PL63xtWampBCddIq9Dvu/OtgRZ/jiC"  # of bob-pw
REFUSED = "no TLS"  # the handshake failed


def basic(name, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


class Certificates:
    """Certificates of one test, as files: NAME.crt and NAME.key."""

    def __init__(self, env):
        self.dir = env.dir
        if not shutil.which("openssl"):
            raise Skip("no openssl")

    def path(self, name):
        return os.path.join(self.dir, name)

    def openssl(self, *argv):
        p = subprocess.run(["openssl", *argv], capture_output=True, text=True, cwd=self.dir, timeout=60)
        check(p.returncode == 0, p.stderr)

    def key(self, name, subject):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key", "-subj", "/CN=" + subject]

    def authority(self, name):
        self.openssl("req", "-x509", *self.key(name, name), "-out", name + ".crt", "-days", "2")

    def signed(self, name, authority, sans="DNS:localhost,IP:127.0.0.1", days=2):
        """By that authority; the names are those a server or a client may be known by."""
        self.openssl("req", *self.key(name, name), "-out", name + ".csr")
        with open(self.path(name + ".ext"), "w", encoding="utf-8") as f:
            f.write(f"subjectAltName={sans}\n")
        self.openssl("x509", "-req", "-in", name + ".csr", "-CA", authority + ".crt", "-CAkey", authority + ".key", "-CAcreateserial",
                     "-out", name + ".crt", "-days", str(days), "-extfile", name + ".ext")

    def client(self, name=None, trust="ca", versions=None, ciphers=None):
        """A context that trusts an authority (file, or several of them) and may have a certificate."""
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for t in [trust] if isinstance(trust, str) else trust:
            c.load_verify_locations(self.path(t + ".crt"))
        if name:
            c.load_cert_chain(self.path(name + ".crt"), self.path(name + ".key"))
        if versions:
            c.minimum_version = c.maximum_version = versions
        if ciphers:
            c.set_ciphers(ciphers + ":@SECLEVEL=0")
        return c


def ask(port, path="/metrics", context=None, headers=None):
    """(status, headers) of a GET on a connection of its own; status REFUSED if there was none."""
    c = (http.client.HTTPSConnection("localhost", port, context=context, timeout=30 * patience()) if context else
         http.client.HTTPConnection("127.0.0.1", port, timeout=30 * patience()))
    try:
        c.request("GET", path, headers=headers or {})
        r = c.getresponse()
        r.read()
        return r.status, r.headers
    except (ssl.SSLError, ConnectionResetError, http.client.RemoteDisconnected, BrokenPipeError):
        return REFUSED, {}
    finally:
        c.close()


def write(env, name, text):
    """As an editor does: whole, or not at all."""
    env.path(name + ".new", text)
    os.rename(env.path(name + ".new"), env.path(name))


class Ours(Server):
    """pyrrha with a web configuration; ready without a login."""

    def __init__(self, env, text, name="ours", context=None, flags=()):
        self.web, self.context = name + "-web.yml", context
        write(env, self.web, text)
        super().__init__(env, "scrape_configs: []\n", flags=["--web.config.file=" + env.path(self.web), *flags], name=name, wait=False)
        wait_until("pyrrha is ready", lambda: ask(self.port, "/-/ready", context)[0] == 200)

    def reconfigure(self, text, words="the web configuration was read again"):
        """Writes another file; returns once it counts, or was found to be bad."""
        before = self.text().count(words)
        write(self.env, self.web, text)
        wait_until(words, lambda: self.text().count(words) > before, 20)


class Theirs(Process):
    def __init__(self, env, text, name="theirs", context=None):
        self.env, self.web, self.port = env, name + "-web.yml", free_port()
        write(env, self.web, text)
        super().__init__(env, name, [tool(env, "prometheus"), "--config.file=" + env.path("prometheus.yml", ""), "--log.level=warn",
                                     "--storage.tsdb.path=" + env.path(name + "-data"), f"--web.listen-address=127.0.0.1:{self.port}",
                                     "--web.config.file=" + env.path(self.web)])
        wait_until("prometheus is ready", lambda: ask(self.port, "/-/ready", context)[0] == 200)

    def reconfigure(self, text):
        write(self.env, self.web, text)  # it reads it for each request


FEW = ("/metrics", "/-/healthy")
MANY = (*FEW, "/api/v1/query?query=1", "/api/v1/nonsense")
PROBES = ("/-/healthy", "/-/ready")


def compare(what, ours, theirs, askers, paths=FEW):
    """Each asker (context, headers), by name, gets the same status of both; a handshake that they refuse is a 401 of ours where it
    is about the client's certificate. Answers ours by (asker, path)."""
    got = {}
    for (name, (context, headers)), path in itertools.product(askers.items(), paths):
        (a, ha), (b, hb) = (ask(p.port, path, context, headers) for p in (ours, theirs))
        got[name, path] = a
        if path in PROBES and b in (401, REFUSED) and a == 200:
            continue  # ours answer probes in any case
        if b == REFUSED and a == 401 and ha["WWW-Authenticate"] == "Certificate":
            continue
        check(a == b, f"{what}: {name} {path}: ours {a}, theirs {b}")
        if b == 401:
            check(ha["WWW-Authenticate"] == hb["WWW-Authenticate"] == "Basic", f"{what}: {dict(ha)}")
    return got


def test_plain_like_prometheus(env):
    nobody, alice = (None, {}), (None, basic("alice", "alice-pw"))
    askers = {"nobody": nobody, "alice": alice, "wrong": (None, basic("alice", "bob-pw")), "unknown": (None, basic("eve", "alice-pw")),
              "malformed": (None, {"Authorization": "Basic !"}), "token": (None, {"Authorization": "Bearer x"})}
    ours, theirs = Ours(env, ""), Theirs(env, "")
    compare("an empty file", ours, theirs, askers, MANY)
    headers = {"X-Frame-Options": "sameorigin", "X-Content-Type-Options": "nosniff", "X-XSS-Protection": "1",
               "Strict-Transport-Security": "max-age=31536000", "Content-Security-Policy": "frame-ancestors 'self'"}
    for p in (ours, theirs):
        p.reconfigure("http_server_config:\n  headers:\n" + "".join(f"    {k}: \"{v}\"\n" for k, v in headers.items()))
    compare("headers", ours, theirs, {"nobody": nobody})
    for path in ("/", "/metrics", "/api/v1/nonsense"):
        for p in (ours, theirs):
            said = ask(p.port, path)[1]
            check({k: said.get_all(k) for k in headers} == {k: [v] for k, v in headers.items()}, f"{path}: {said}")
    for p in (ours, theirs):
        p.reconfigure(f"basic_auth_users: {{alice: {ALICE}, bob: {BOB}}}\n")
    got = compare("users", ours, theirs, askers, MANY)
    check(got["alice", "/metrics"] == 200 and got["wrong", "/metrics"] == 401, f"{got}")
    ours.reconfigure("", "the web configuration is wrong")  # emptied first by who writes it: who was kept out still is
    check([ask(ours.port)[0], ask(ours.port, headers=basic("alice", "alice-pw"))[0]] == [401, 200], "an empty file opens nothing")
    # What 2.42 does not know: twenty requests at once and no more; probes are not counted.
    ours.reconfigure("rate_limit: {interval: 1h, burst: 20}\n")
    check([ask(ours.port)[0] for _ in range(22)] == [200] * 20 + [429] * 2, "the rate is limited")
    check(all(ask(ours.port, p)[0] == 200 for p in PROBES), "probes are not")


TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def test_tls_like_prometheus(env):
    make = Certificates(env)
    for authority in ("ca", "stranger"):
        make.authority(authority)
    make.signed("server", "ca")
    make.signed("good", "ca", "DNS:scraper.example.org,URI:spiffe://example.org/scraper")
    make.signed("other", "ca", "DNS:other.example.org")
    make.signed("bad", "stranger", "DNS:scraper.example.org")
    make.signed("old", "ca", days=-1)
    client = make.client
    ours, theirs = (cls(env, TLS, context=client()) for cls in (Ours, Theirs))
    askers = {n or "none": (client(n), {}) for n in (None, "good", "bad", "old")}

    def both(text, who=askers):
        for p in (ours, theirs):
            p.reconfigure(text)
        return compare(text, ours, theirs, who)

    plain = {"plain": (None, {})}
    compare("TLS", ours, theirs, {**askers, **plain}, MANY)  # a request without TLS is told so, with 400
    for words, refused in (("NoClientCert", []), ("RequestClientCert", []), ("RequireAnyClientCert", ["none"]),
                           ("VerifyClientCertIfGiven", ["bad", "old"]), ("RequireAndVerifyClientCert", ["none", "bad", "old"])):
        ca = "  client_ca_file: ca.crt\n" if "Verify" in words else ""
        got = both(TLS + f"  client_auth_type: {words}\n{ca}")
        for name in askers:
            check(got[name, "/metrics"] == (401 if name in refused else 200), f"{words}: {name}: {got}")
            check(got[name, "/-/healthy"] == 200, f"{words}: probes need none: {got}")
    got = both(TLS + f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\nbasic_auth_users: {{alice: {ALICE}}}\n",
               {f"{n} {u}": (client(n), h) for n in (None, "good") for u, h in (("nobody", {}), ("alice", basic("alice", "alice-pw")))})
    check([got[n, "/metrics"] for n in ("None alice", "good nobody", "good alice")] == [401, 401, 200], f"both are needed: {got}")
    versions = {str(v): (client(versions=v), {}) for v in (V12, V13)}
    got = both(TLS + "  max_version: TLS12\n", versions)
    check(got[str(V12), "/metrics"] == 200 and got[str(V13), "/metrics"] == REFUSED, f"{got}")
    got = both(TLS + "  min_version: TLS13\n", versions)
    check(got[str(V12), "/metrics"] == REFUSED and got[str(V13), "/metrics"] == 200, f"{got}")
    ciphers = {n: (client(versions=V12, ciphers=n), {}) for n in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
                                                               "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-SHA")}
    got = both(TLS + "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "
               "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]\n", {**ciphers, **versions})
    check([got[n, "/metrics"] for n in ciphers] == [200, REFUSED, REFUSED, 200], f"those of the list, and no others: {got}")
    for p in (ours, theirs):
        p.reconfigure(TLS + "  curve_preferences: [CurveP384]\n")
    for group, fine in (("P-384", True), ("X25519", False)):
        for p in (ours, theirs):
            said = subprocess.run(["openssl", "s_client", "-groups", group, "-connect", f"localhost:{p.port}"], capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=30 * patience())
            check((b"BEGIN CERTIFICATE" in said.stdout) == fine, f"{group} at {p.name}: {said.stdout[-500:]}")
    # What 2.42 does not know: everything inline, and names of clients.
    inline = {k: "|\n    " + open(make.path(n), encoding="utf-8").read().replace("\n", "\n    ") + "\n"
              for k, n in (("cert", "server.crt"), ("key", "server.key"), ("client_ca", "ca.crt"))}
    for san in ("scraper.example.org", "spiffe://example.org/scraper"):
        ours.reconfigure("tls_server_config:\n" + "".join(f"  {k}: {v}" for k, v in inline.items()) +
                         f"  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: ['{san}']\n")
        check([ask(ours.port, context=client(n))[0] for n in ("good", "other", "bad", None)] == [200, 401, 401, 401], f"{san}")


def test_old_tls_is_refused(env):
    make = Certificates(env)
    make.authority("ca")
    make.signed("server", "ca")
    ours = Ours(env, TLS, context=make.client())

    def shakes(version):
        p = subprocess.run(["openssl", "s_client", version, "-cipher", "ALL:@SECLEVEL=0", "-connect", f"localhost:{ours.port}"],
                           capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30 * patience())
        return "BEGIN CERTIFICATE" in p.stdout

    check([shakes(v) for v in ("-tls1", "-tls1_1", "-tls1_2")] == [False, False, True], "without a word")
    ours.reconfigure(TLS + "  min_version: TLS11\n")  # else it might be the client that refuses
    check([shakes(v) for v in ("-tls1", "-tls1_1", "-tls1_2")] == [False, True, True], "if it is wanted")


class Load:
    """Asks all the time, half of it on connections that stay open; every answer but 200 is kept."""

    def __init__(self, port, context, headers):
        self.port, self.context, self.headers = port, context, headers
        self.n, self.failed, self.stop = 0, [], False
        self.threads = [threading.Thread(target=self.run, args=(i % 2 == 0,)) for i in range(4)]
        for t in self.threads:
            t.start()

    def run(self, stays):
        c, made = None, None
        while not self.stop:
            context, headers = self.context, self.headers
            try:
                if c is None or not stays or made is not context:
                    if c:
                        c.close()
                    c, made = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=30 * patience()), context
                c.request("GET", "/api/v1/query?query=1", headers=next(headers))
                r = c.getresponse()
                body = r.read()
                if r.status != 200:
                    self.failed.append((r.status, body))
            except (OSError, http.client.HTTPException) as e:
                self.failed.append(repr(e))
                c = None
            self.n += 1
            time.sleep(0.005)

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join()


def on(connection, headers):
    connection.request("GET", "/metrics", headers=headers)
    r = connection.getresponse()
    return r.status, r.read()


def served_by(port, context):
    """The subject of the server's certificate."""
    c = http.client.HTTPSConnection("localhost", port, context=context, timeout=30 * patience())
    try:
        c.connect()
        return dict(x[0] for x in c.sock.getpeercert()["subject"])["commonName"]
    finally:
        c.close()


def exchange_config(ca, users, tokens):
    return (TLS + f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {ca}\nbasic_auth_users: {json.dumps(users)}\n"
            "tokens:\n" + "".join(f"- {{name: {t}, token_file: {t}, rights: [read]}}\n" for t in tokens))


class Headers:
    """Logins in turn; thread-safe."""

    def __init__(self, *headers):
        self.turn = itertools.cycle(headers)

    def __next__(self):
        return next(self.turn)


def bearer(token):
    return {"Authorization": "Bearer " + token}


def test_exchanged_under_load(env):
    make = Certificates(env)
    for n in ("ca", "ca2", "clients", "clients2"):
        make.authority(n)
    make.signed("first", "ca")
    make.signed("second", "ca2")
    make.signed("c1", "clients")
    make.signed("c2", "clients2")

    def mount(name):
        """As a kubelet does: server.crt is a link to ..data/server.crt, and ..data one to a folder, which is exchanged whole."""
        os.mkdir(env.path("v-" + name))
        for end in (".crt", ".key"):
            shutil.copy(make.path(name + end), env.path(f"v-{name}/server{end}"))
            if not os.path.islink(env.path("server" + end)):
                os.symlink("..data/server" + end, env.path("server" + end))
        os.symlink("v-" + name, env.path("..new"))
        os.rename(env.path("..new"), env.path("..data"))

    mount("first")
    env.path("t1", "the-first-token-of-them\n")
    env.path("t2", "the-second-token-of-them\n")
    env.path("both.crt", open(make.path("clients.crt"), encoding="utf-8").read() + open(make.path("clients2.crt"), encoding="utf-8").read())
    trust = ["ca", "ca2"]
    c1, c2 = make.client("c1", trust), make.client("c2", trust)
    alice, bob = basic("alice", "alice-pw"), basic("bob", "bob-pw")
    t1, t2 = bearer("the-first-token-of-them"), bearer("the-second-token-of-them")
    ours = Ours(env, exchange_config("clients.crt", {"alice": ALICE}, ["t1"]), context=c1)
    asks = lambda context, headers: ask(ours.port, "/api/v1/query?query=1", context, headers)[0]  # noqa: E731
    check([asks(c1, alice), asks(c1, t1), asks(c2, alice), asks(c1, bob), asks(c1, t2)] == [200, 200, 401, 401, 401], "before")
    load = Load(ours.port, c1, Headers(alice, t1))
    try:
        # The new beside the old, clients change, the old goes.
        ours.reconfigure(exchange_config("both.crt", {"alice": ALICE, "bob": BOB}, ["t1", "t2"]))
        check([asks(c, h) for c in (c1, c2) for h in (alice, bob, t1, t2)] == [200] * 8, "both")
        load.context, load.headers = c2, Headers(bob, t2)
        time.sleep(0.3)
        check(served_by(ours.port, c2) == "first", "the first certificate")
        mount("second")  # what the file names, not the file
        wait_until("the second certificate", lambda: served_by(ours.port, c2) == "second")
        kept = http.client.HTTPSConnection("localhost", ours.port, context=c1, timeout=30 * patience())
        check(on(kept, bob)[0] == 200, "a connection that stays")
        ours.reconfigure(exchange_config("clients2.crt", {"bob": BOB}, ["t2"]))
        status, body = on(kept, bob)
        check(status == 401 and b"not trusted" in body, f"its authority is gone: {status} {body}")
        check([asks(c2, h) for h in (bob, t2, alice, t1)] == [200, 200, 401, 401], "after")
        check(asks(c1, bob) == 401, "an authority that is gone")
        # What is bad, or cannot be, changes nothing and is counted.
        for text in ("tls_server_config: {cert_file: nothere.crt, key_file: server.key}\n", f"basic_auth_users: {{bob: {BOB}}}\n"):
            ours.reconfigure(text, "the web configuration is wrong")
        check(asks(c2, bob) == 200, "what was there is kept")
        n = load.n
        wait_until("requests after all of it", lambda: load.n > n + 20)
    finally:
        load.end()
    check(not load.failed and load.n > 100, f"{len(load.failed)} of {load.n} failed: {load.failed[:3]}")
    metrics = run(["curl", "-sS", "--cacert", make.path("ca2.crt"), "--cert", make.path("c2.crt"), "--key", make.path("c2.key"), "-u", "bob:bob-pw",
                   f"https://localhost:{ours.port}/metrics"])[1]
    check("pyrrha_web_config_last_reload_successful 0\n" in metrics and "pyrrha_web_config_reload_failures_total 2\n" in metrics, metrics[:2000])
    # An address that others can reach cannot lose its login.
    check("nobody has to log in" in run([env.program("pyrrha"), "--config.file=" + env.path("ours.yml"), "--storage.path=" + env.path("none"),
                                         "--web.listen-address=:0", "--web.config.file=" + env.path("tls-only.yml", TLS)])[1], "TLS is no login")


SCRAPE = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: it
  metrics_path: /metrics
  scheme: https
  tls_config: {{ca_file: ca.crt, cert_file: client.crt, key_file: client.key, server_name: localhost}}
  {login}
  static_configs: [{{targets: ['{address}']}}]
"""


def scrapes(scraper, address, login, up):
    """Reconfigures it to the one job; up is what comes of it."""
    scraper.configure(SCRAPE.format(address=address, login=login))
    scraper.p.send_signal(signal.SIGHUP)

    def settled():
        pools = [t for t in scraper.targets() if address in t["scrapeUrl"]]
        return pools and all(t["health"] == ("up" if up else "down") for t in pools) and pools
    return wait_until(f"{address} {login} is {'up' if up else 'down'}", settled)


def test_jobs_log_in_to_a_server(env):
    """By a certificate and a token, both wanted."""
    make = Certificates(env)
    make.authority("ca")
    make.signed("server", "ca")
    make.signed("client", "ca")
    env.path("token", "a-token-for-the-scraper\n")
    tls = TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
    ours = Ours(env, tls + "tokens: [{name: scraper, token_file: token, rights: [read]}]\n", context=make.client())
    address = f"127.0.0.1:{ours.port}"
    scraper = Server(env, "scrape_configs: []\n")
    scrapes(scraper, address, "authorization: {credentials_file: token}", True)
    down = scrapes(scraper, address, "", False)
    check(all("401" in t["lastError"] for t in down), f"{down}")


def test_jobs_log_in_to_an_agent(env):
    make = Certificates(env)
    make.authority("ca")
    make.signed("server", "ca")
    make.signed("client", "ca")
    text = (TLS + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
            f"basic_auth_users: {{alice: {ALICE}, bob: {BOB}}}\nuser_rights: {{bob: [admin]}}\n")
    write(env, "agent-web.yml", text)
    agent = start_agent(env, "--web.config.file=" + env.path("agent-web.yml"),
                        is_ready=lambda address: ask(int(address.split(":")[1]), "/-/ready", make.client())[0] == 200).split("//")[1]
    scraper = Server(env, "scrape_configs: []\n")
    for name, up in (("alice", True), ("bob", False)):
        login = f"basic_auth: {{username: {name}, password: {name}-pw}}"
        found = scrapes(scraper, agent, login, up)
        check(up or all("403" in t["lastError"] for t in found), f"{name}: {found}")
    path = "/debug/pprof/profile?seconds=1&match[]=%7Bcomm=%22none%22%7D"
    got = [ask(int(agent.split(":")[1]), path, make.client(c), h)[0] for c in ("client", None) for h in (basic("alice", "alice-pw"), {})]
    check(got == [200, 401, 401, 401], f"its profiles: {got}")
