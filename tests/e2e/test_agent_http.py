# SPDX-License-Identifier: Apache-2.0
"""The agent's HTTP side, asked the same as a real Go program, and with as many callers as it takes. Needs root and eBPF."""
import concurrent.futures
import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse

from harness import Echo, patience, Process, Skip, check, http_get, need_a_mounted_root, run, slow, wait_until
from pprof_file import fields, sample_labels
from test_agent import C_FIXTURE, c_program, start_agent
from test_agent_labels import metric

NOWHERE = "0x7fffffff0001"  # no program has code there
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def ask(address, method, path, body=None, headers=None):
    """(status, headers, body) of exactly this request: no redirect is followed, the path is sent as it is."""
    c = http.client.HTTPConnection(address, timeout=120 * patience())
    try:
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        return r.status, r.headers, r.read()
    finally:
        c.close()


# What a program that pulls may send, below /debug/pprof. Go answers to methods that change things as if they were GET, or
# with 405 (from 1.22 on), POST too; the agent serves POST, which pprof uses, and refuses the others.
ALIKE = [
    ("GET", ""), ("GET", "?x=1"), ("HEAD", ""),
    ("GET", "/"), ("GET", "/?debug=1"), ("HEAD", "/"), ("POST", "/"),
    ("GET", "/cmdline"), ("POST", "/cmdline"), ("HEAD", "/cmdline"), ("GET", "/cmdline?x=%zz"),
    ("GET", "/symbol"), ("GET", "/symbol?"), ("GET", "/symbol?" + NOWHERE), ("GET", f"/symbol?{NOWHERE}+{NOWHERE}+"),
    ("GET", f"/symbol?{NOWHERE}%2B{NOWHERE}"), ("GET", "/symbol?%zz"), ("GET", "/symbol?a=b&" + NOWHERE), ("HEAD", "/symbol"),
    ("POST", "/symbol"), ("POST", "/symbol", NOWHERE.encode()), ("POST", "/symbol", b"hello"), ("POST", "/symbol", b"0+%zz", FORM),
    ("POST", "/symbol", b"a" * 4095), ("POST", "/symbol", b"0+" + b"a" * 5000 + b"+0"),
    ("GET", "/nonsense"), ("POST", "/nonsense"), ("HEAD", "/nonsense"), ("GET", "/nonsense/x"), ("GET", "/nonsense?seconds=1"),
    ("GET", "/nonsense?debug=1"), ("GET", "/Profile"), ("GET", "/profile/"), ("GET", "/cmdline/"), ("GET", "/symbol/"),
    ("GET", "/a%2Fb"), ("GET", "//cmdline"), ("GET", "/./cmdline?a=b"), ("GET", "/x/../cmdline"), ("GET", "/../pprof/"),
    ("GET", "/profile?seconds=1"), ("GET", "/profile?seconds=%2B1"), ("GET", "/profile?seconds=01&debug=1&gc=1"),
    ("GET", "/profile?seconds=1&seconds=x"), ("HEAD", "/profile?seconds=1"), ("POST", "/profile?seconds=500", b"seconds=1", FORM),
]


def essence(path, answer):
    """What has to be the same: the body too, where it is not the program's own."""
    status, headers, body = answer
    names = ["Content-Type", "X-Content-Type-Options", "X-Go-Pprof", "Content-Disposition", "Content-Encoding", "Location"]
    headers = dict(headers)
    if status == 301:  # the text of a redirect is read by nobody; where it leads is: ours is relative, for proxies that take a prefix off
        names, body = ["Location"], b""
        headers["Location"] = urllib.parse.urljoin("/debug/pprof" + path, headers["Location"])
    own = path in ("/", "/?debug=1") or path.startswith(("/cmdline", "/profile?"))
    return status, {n: headers.get(n) for n in names}, bool(body) if own else body


def test_like_a_go_program(env):
    go, agent = Echo(env, load=0).address, start_agent(env, only=["echoserver"]).split("//")[1]
    for method, path, *more in ALIKE:
        theirs, ours = (essence(path, ask(a, method, "/debug/pprof" + path, *more)) for a in (go, agent))
        check(ours == theirs, f"{method} {path} {str(more)[:200]}:\nGo    {theirs}\nagent {ours}")
    # Index pages list what there is: each row of the agent's is one that Go has, or is said to be no more.
    rows = [line for line in ask(agent, "GET", "/debug/pprof/")[2].decode().splitlines() if line.startswith("<tr>")]
    check(rows == [f"<tr><td>0</td><td><a href='{n}?debug=1'>{n}</a></td></tr>" for n in ("cmdline", "profile", "self/", "symbol")], f"{rows}")
    theirs = ask(go, "GET", "/debug/pprof/")[2].decode().splitlines()
    check(rows[1] in theirs, f"{theirs}")
    # Go programs with a WriteTimeout of 600 s have these words for it.
    for path in ("profile?seconds=601", "offcpu?seconds=1", "profile?seconds=1&by=" + ",".join("abcdefgh"[i % 8] for i in range(33))):
        status, headers, body = ask(agent, "GET", "/debug/pprof/" + path)
        check(status in (400, 404) and headers["X-Go-Pprof"] == "1" and headers["Content-Disposition"] is None and
              headers["Content-Type"] == "text/plain; charset=utf-8", f"{path}: {status} {headers} {body}")
    # What it is, also for whoever does not look into the profile.
    check(ask(agent, "GET", "/debug/pprof/profile?seconds=1&match[]=%7Bcomm=%22none%22%7D")[1]["X-Pyrrha-Profile"] == "on_cpu", "a header")
    check(ask(agent, "GET", "/debug/pprof/profile?seconds=601")[2] == b"profile duration exceeds server's WriteTimeout\n", "Go's words")
    check(ask(agent, "GET", "/nothing")[0::2] == (404, b"404 page not found\n"), "a page that is not there")
    check(ask(agent, "GET", "//evil.example/..//debug/pprof/")[1]["Location"] == "/debug/pprof/", "a redirect stays on this host")


class Caller:
    """A connection that asked for a profile and waits."""

    def __init__(self, address, query):
        self.query, self.asked_s = query, time.time()
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), 200 * patience())
        self.socket.sendall(f"GET /debug/pprof/profile{query} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())

    def answer(self):
        r = http.client.HTTPResponse(self.socket)
        r.begin()
        body = r.read()
        self.socket.close()
        check(r.status == 200, f"{self.query}: {r.status} {body[:300]}")
        return r.headers, dict(fields(gzip.decompress(body)))


def test_many_callers(env):
    """64 callers at once have a window each, of exactly the length they asked for, from when they asked. The next one is
    turned away until one of them has gone. What is no length is 30 seconds."""
    agent = start_agent(env, only=["none"])
    address = agent.split("//")[1]
    nobody = "&match[]=%7Bcomm=%22none%22%7D"
    odd = ["", "?" + nobody, "?seconds=" + nobody, *(f"?seconds={s}{nobody}" for s in ("0", "-1", "1.5", "abc", "1e1", "0x5", "9" * 20))]
    waiting = "pyrrha_agent_profiles_in_progress"
    # Long enough that none has ended before all are there and the next was turned away; most are not waited for.
    leaving = [Caller(address, f"?seconds=300{nobody}") for _ in range(40)]
    callers = [Caller(address, f"?seconds={25 + i % 5}{nobody}") for i in range(24 - len(odd))]
    callers += [Caller(address, q) for q in odd]
    wait_until("64 wait", lambda: metric(agent, waiting) == 64, 20)
    all_there_s = time.time()
    status, headers, body = ask(address, "GET", "/debug/pprof/profile?seconds=1" + nobody)
    check(status == 503 and b"64" in body and headers["X-Go-Pprof"] == "1" and headers["Retry-After"], f"{status} {headers} {body}")
    check(ask(address, "GET", "/-/healthy")[0] == 200 and ask(address, "GET", "/debug/pprof/symbol?1")[0] == 200, "others are served")
    leaving.pop().socket.close()
    wait_until("the window of one who went is free", lambda: metric(agent, waiting) < 64, 20)
    check(ask(address, "GET", "/debug/pprof/profile?seconds=1" + nobody)[0] == 200, "there is room for another")
    with concurrent.futures.ThreadPoolExecutor(len(callers)) as pool:
        for caller, (headers, top) in zip(callers, pool.map(Caller.answer, callers)):
            asked = urllib.parse.parse_qs(caller.query.strip("?")).get("seconds", ["30"])[0]
            seconds = int(asked) if asked.isdigit() and 0 < int(asked) < 600 else 30
            check(top[10] == seconds * 10**9, f"{caller.query}: {top[10]} ns")
            begin, end = (int(t) / 1000 for t in headers["X-Pyrrha-Covered"].split("-"))
            check(abs(end - begin - seconds) < 0.0015 and abs(top[9] / 1e9 - begin) < 0.0015, f"{caller.query}: {begin} {end} {top[9]}")
            check(caller.asked_s - 0.05 < begin < all_there_s, f"{caller.query}: asked at {caller.asked_s}, began at {begin}")
    check(metric(agent, waiting) == len(leaving), "those of the others are done")
    for caller in leaving:
        caller.socket.close()
    wait_until("nobody waits", lambda: metric(agent, waiting) == 0, 20)


def test_match_and_by(env):
    """match[] chooses processes, several are any of them; by= chooses the labels."""
    agent = start_agent(env, "--node=n1", "--external-label=cluster=c1", only=["by_one", "by_two"])
    names = ["by_one", "by_two"]
    pids = {Process(env, name, [c_program(env, name, C_FIXTURE)]).p.pid for name in names}

    def ask_for(query, seconds=1):
        status, _, body = http_get(f"{agent}/debug/pprof/profile?seconds={seconds}{query}", timeout=200)
        check(status == 200, f"{query}: {status} {body[:300]!r}")
        return sample_labels(body)

    def has(query, keys, comms):
        """On a busy machine a program may get nothing of the CPUs for as long as a profile takes."""
        found = ask_for(query)
        check(set(found) == keys and found.get("comm", comms) == comms, f"{query}: {found}")
        return True

    one, two = ("&match[]=" + urllib.parse.quote(f'{{comm="{n}"}}') for n in names)
    whole = wait_until("both run", lambda: (found := ask_for(one + two, 3)).get("comm") == set(names) and found, 120)
    check(whole["node"] == {"n1"} and whole["cluster"] == {"c1"} and {"exe", "cgroup"} <= set(whole), f"{whole}")
    check({int(p) for p in whole["pid"]} == pids and whole["thread"] == set(names), f"{whole}")
    wait_until("one of them", lambda: has(two, set(whole), {"by_two"}), 120)
    wait_until("match without brackets", lambda: has("&match=" + one.split("=", 1)[1], set(whole), {"by_one"}), 120)
    for by, keys in (("comm", {"comm"}), ("pid", {"pid"}), ("comm,,pid,nonsense", {"comm", "pid"}), ("cluster,thread", {"cluster", "thread"}),
                     ("comm&by=node", {"comm", "node"})):
        wait_until("by=" + by, lambda b=by, k=keys: has(one + "&by=" + b, k, {"by_one"}), 120)


def test_targets_are_json(env):
    """Also where a Host header is none that could be scraped, or one that nobody said is the agent's."""
    agent = start_agent(env, "--web.allowed-host=web-1", "--web.allowed-host=no.port")
    for host in ("[::1]:7071", "web-1:80", "no.port", "a b:1", 'x"y:1', "evil.example:7071", ""):
        status, _, body = http_get(agent + "/targets.json", headers={"Host": host})
        known = host in ("[::1]:7071", "web-1:80", "no.port", "")
        check(status == (200 if known else 403), f"{host}: {status}")
        if not known:
            check(b"--web.allowed-host" in body, f"{body}")
            continue
        for t in json.loads(body):
            want = host if host in ("[::1]:7071", "web-1:80") else agent.split("//")[1]
            check(t["targets"] == [want], f"{host}: {t}")


@slow
def test_refusals(env):
    """What keeps the agent from starting is told with what to do about it, and the exit status says whether it was the flags."""
    start_agent(env)  # the rights to run at all
    taken = next(a for a in env.agent.p.args if a.startswith("--web.listen-address=")).split("=")[1]
    program = env.program("pyrrha-agent")
    local = "--web.listen-address=127.0.0.1:0"
    bad = env.path("bad.yml", "relabel_configs:\n- source_labels: [comm]\n  action: nonsense\n")
    for status, words, *flags in (
            (2, "unknown flag --nonsense; --help", "--nonsense"),
            (2, '"extra": only flags', "extra"),
            (2, '--frequency: "x" is not a number', "--frequency=x"),
            (2, "--frequency: must be from 1 to 1000", "--frequency=0"),
            (2, "--history: must be from 20s to 1h", "--history=1s"),
            (2, '"a" is not name=value', "--external-label=a"),
            (2, "names that begin with __ are internal", "--external-label=__a=b"),
            (1, "can be reached from other machines, and nobody has to log in: listen on 127.0.0.1 or [::1], have users, tokens or required "
                "client certificates of an authority of your own in --web.config.file (TLS alone does not do), or say --web.allow-insecure", "--web.listen-address=0.0.0.0:0"),
            (1, "can be reached from other machines", "--web.listen-address=:0"),
            (1, "can be reached from other machines", "--web.listen-address=[::]:0"),
            (1, "with a port up to 65535", "--web.listen-address=127.0.0.1:65536"),
            (1, f"cannot listen on {taken}: Address already in use", "--web.listen-address=" + taken),
            (1, "bad.yml:3:11: field relabel_configs[0].action", local, "--config.file=" + bad),
            (1, "cannot read " + env.path("none.yml"), local, "--config.file=" + env.path("none.yml")),
            (1, "(--no-kubernetes does without): cannot read", local, "--kubeconfig=" + env.path("none")),
            (1, "--cache-dir: cannot make /proc/none", local, "--cache-dir=/proc/none"),
            (1, "--cache-dir: cannot write in /proc", local, "--cache-dir=/proc")):
        code, said = run([program, *flags])
        check(code == status and words in said, f"{flags}: {code}, {said}")
    # a user without any rights: which are missing, and what each is for
    if shutil.which("setpriv"):
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
        copy = shutil.copy(program, "/tmp/pyrrha-agent-" + str(os.getpid()))  # the build may lie where nobody else may go
        env.at_end(lambda: os.unlink(copy))
        code, said = run([*nobody, copy, local])
        check(code == 1 and "CAP_BPF and CAP_PERFMON" in said, f"{code}, {said}")
        code, said = run([*nobody, copy, "--check"])
        missing = re.findall(r"^no   (CAP_\w+): .", said, re.M)
        check(code == 1 and {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_CHECKPOINT_RESTORE", "CAP_SYSLOG"}
              <= set(missing), f"{code}, {said}")
    if shutil.which("unshare"):
        need_a_mounted_root()
        code, said = run(["unshare", "-p", "-f", program, local])
        check(code == 1 and "/proc is that of another pid namespace" in said and "hostPID: true" in said, f"{code}, {said}")


def test_beyond_loopback_if_allowed(env):
    """The flag that the refusal names does it."""
    start_agent(env)
    other = Process(env, "open", [env.program("pyrrha-agent"), "--web.listen-address=0.0.0.0:0", "--web.allow-insecure"])
    wait_until("it listens", lambda: "address=0.0.0.0:" in other.text() or check(other.alive(), other.text()), 60)
    port = re.search(r"address=0\.0\.0\.0:(\d+)", other.text()).group(1)
    check(ask("127.0.0.1:" + port, "GET", "/-/healthy")[0] == 200, "it answers")
