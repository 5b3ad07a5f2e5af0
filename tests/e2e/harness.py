# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests stand on: the real pyrrha and the real demo program on free ports of
127.0.0.1. Also a proxy that keeps what is scraped through it, and a target with bad manners. Nothing here knows a test."""
import contextlib
import fcntl
import gzip
import http.client
import http.server
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LONG = bool(os.environ.get("PYRRHA_LONG"))
# Sanitizers and a shared machine make everything slower; deadlines that only guard against hanging are stretched.
PATIENCE = float(os.environ.get("PYRRHA_PATIENCE", "1"))


def share_of_others():
    """How many threads want each processor, at least one. A time that a quiet machine needs is multiplied by it."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def patience():
    """How many times as long a wait may be on this host now: beyond a load of four for each processor in proportion to the load."""
    return PATIENCE * max(1.0, share_of_others() / 4)


def slow(test):
    """Marks a test that only the tiers --all and --long of ./check run."""
    test.slow = True
    return test


def is_slow(test):
    return getattr(test, "slow", False)


class Skip(Exception):
    """This test cannot run here; the text says why."""


def check(truth, text):
    """assert with a text that says what was expected and what came."""
    if not truth:
        raise AssertionError(text)


_PORTS = random.sample(range(20700, 20900), 200)
_PORTS_TAKEN = multiprocessing.Value("I", 0)  # by all tests of a run: each has a process of its own


def free_port():
    """A port below those that the kernel gives to outgoing connections, so that none of them takes it away."""
    for _ in _PORTS:
        with _PORTS_TAKEN, socket.socket() as s:
            try:
                _PORTS_TAKEN.value += 1
                port = _PORTS[_PORTS_TAKEN.value % len(_PORTS)]
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Skip("no free port from 20700 to 20899")


def wait_until(what, probe, seconds=30):
    """Calls probe until it gives something true, which is returned. An exception counts as not yet."""
    begin, last = time.monotonic(), None
    while True:
        try:
            last = probe()
            if last:
                return last
        except (OSError, http.client.HTTPException, ApiError, AssertionError, KeyError, ValueError) as e:
            last = e
        if time.monotonic() - begin > seconds * patience():
            raise AssertionError(f"{what}: not within {time.monotonic() - begin:.0f} s; at last: {last!r}")
        time.sleep(0.1)


RUN = os.getpid()  # of the runner, also in the processes of its tests


@contextlib.contextmanager
def alone(env, name):
    """While it holds, no other test of this build directory is where that name is: each has a process of its own."""
    os.makedirs(os.path.join(env.build, "e2e"), exist_ok=True)
    with open(os.path.join(env.build, "e2e", name + ".lock"), "w", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {body[:300]!r}")
        self.status, self.body = status, body


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def http_get(url, data=None, headers=None, timeout=60):
    """(status, headers, body) of any answer."""
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with _OPENER.open(request, timeout=timeout) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


class Process:
    """A program with its output in a file; it is gone when the test ends, and what it started with it if it has a session of its own."""
    headers = None  # of each request to it, if it serves HTTP: a login

    def __init__(self, env, name, argv, **more):
        self.session = more.get("start_new_session")
        self.name, self.log = name, os.path.join(env.dir, name + ".log")
        with open(self.log, "ab") as log:
            self.p = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=env.dir, **more)
        env.at_end(self.kill)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def alive(self):
        return self.p.poll() is None

    def kill(self):
        if self.alive():
            if self.session:
                os.killpg(self.p.pid, signal.SIGKILL)
            self.p.kill()
        return self.p.wait(120)

    def terminate(self, seconds=10):
        """SIGTERM; (exit status, seconds it took). Longer than allowed is a failure."""
        begin = time.monotonic()
        self.p.send_signal(signal.SIGTERM)
        try:
            status = self.p.wait(seconds * patience())
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds * patience():.0f} s of SIGTERM") from None
        return status, time.monotonic() - begin


def echo_command(env, load=4, program=None):
    """The words that start the demo program. Each of its clients takes 0.03 of a processor: tests that run beside each other have one each."""
    return [program or env.echoserver(), "-listen", "127.0.0.1:0", "-load", str(load), "-pause", "60ms"]


class Echo(Process):
    """The demo program; .address is HOST:PORT."""

    def __init__(self, env, load=4, name="echoserver"):
        super().__init__(env, name, echo_command(env, load))
        first = wait_until("the echoserver listens", lambda: self.text().startswith("listening on ") and self.text())
        self.address = first.split("\n")[0].split("//")[1]


class Server(Process):
    """pyrrha with a configuration of its own. Kept over restarts: port, storage, configuration."""

    def __init__(self, env, config, flags=(), name="pyrrha", port=None, wait=True):
        self.env, self.flags = env, list(flags)
        self.config = os.path.join(env.dir, name + ".yml")
        self.storage = os.path.join(env.dir, name + "-data")
        self.configure(config)
        self.start_on(name, port or free_port())
        if not wait:
            return
        try:
            self.wait_ready()
        except AssertionError:
            if port or "Address already in use" not in self.text():
                raise
            self.start_on(name, free_port())  # someone else's test took it in between
            self.wait_ready()

    under = ()  # words before the program: what it runs under

    def start_on(self, name, port):
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.argv = [*self.under, self.env.program("pyrrha"), "--config.file=" + self.config, "--storage.path=" + self.storage,
                     f"--web.listen-address=127.0.0.1:{port}", *self.flags]
        super().__init__(self.env, name, self.argv)

    def configure(self, config):
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(config)

    def wait_ready(self, seconds=120):
        def probe():
            if not self.alive():
                raise SystemExit(f"pyrrha ended with status {self.p.returncode}: {self.text()[-2000:]}")
            return http_get(self.url + "/-/ready")[0] == 200
        try:
            wait_until("pyrrha is ready", probe, seconds)
        except SystemExit as e:
            raise AssertionError(str(e)) from None

    def restart(self):
        Process.__init__(self, self.env, self.name, self.argv)
        self.wait_ready()

    def get(self, path, **params):
        """Body of a GET that has to succeed."""
        status, _, body = http_get(self.link(path, **params), headers=self.headers)
        if status != 200:
            raise ApiError(status, body)
        return body

    def link(self, path, **params):
        pairs = [(k.rstrip("_"), v) for k, vs in params.items() for v in (vs if isinstance(vs, list) else [vs])]
        return self.url + path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")

    def api(self, path, **params):
        """data of an answer of the API that has to be a success."""
        answer = json.loads(self.get("/api/v1/" + path, **params))
        check(answer["status"] == "success", f"/api/v1/{path}: {answer}")
        return answer["data"]

    def query(self, query, **params):
        return self.api("query", query=query, **params)

    def value(self, query, **params):
        """The one number of an instant query, None if it is empty."""
        data = self.query(query, **params)
        if data["resultType"] == "scalar":
            return float(data["result"][1])
        check(len(data["result"]) <= 1, f"{query}: more than one element: {data['result']}")
        return float(data["result"][0]["value"][1]) if data["result"] else None

    def metrics(self):
        """name{labels} -> number of /metrics."""
        rows = {}
        for line in self.get("/metrics").decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                rows[name] = float(value)
        return rows

    def targets(self):
        return self.api("targets", state="active")["activeTargets"]


class _Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # a peer that went away is no news here


class HttpServer:
    """A server of this process on a free port; do(handler) answers a GET or a POST."""

    def __init__(self, env, do):
        class Handler(_Quiet):
            def do_GET(self):
                do(self)
            do_POST = do_GET
        self.server = _Listener(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        env.at_end(self.close)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def answer(handler, status, body, headers=()):
    handler.send_response(status)
    for k, v in headers:
        handler.send_header(k, v)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


class Proxy(HttpServer):
    """Stands before a target and keeps every body it delivered whole. After close_gate() it answers 503."""

    def __init__(self, env, upstream):
        self.upstream, self.open = upstream, True
        self.kept, self.lock = {}, threading.Lock()
        super().__init__(env, self.forward)

    def forward(self, handler):
        if not self.open:
            return answer(handler, 503, b"closed\n")
        status, headers, body = http_get(f"http://{self.upstream}{handler.path}", timeout=120)
        if not self.open:
            return answer(handler, 503, b"closed\n")
        with self.lock:
            if status == 200:
                self.kept.setdefault(urllib.parse.urlsplit(handler.path).path, []).append(body)
        return answer(handler, status, body, [("Content-Type", headers.get("Content-Type", "text/plain"))])

    def close_gate(self):
        with self.lock:
            self.open = False

    def open_gate(self):
        with self.lock:
            self.open = True

    def bodies(self, path):
        with self.lock:
            return list(self.kept.get(path, []))


def gzip_bomb(megabytes):
    """A gzip file of zeros, packed without holding them."""
    pack = gzip.zlib.compressobj(9, gzip.zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join(pack.compress(zeros) for _ in range(megabytes)) + pack.flush()


class Env:
    """One test: its directory, what it started, the programs of the build."""

    def __init__(self, build, directory):
        self.build, self.dir = os.path.abspath(build), directory
        self.undo = []
        os.makedirs(directory, exist_ok=True)

    def at_end(self, f):
        self.undo.append(f)

    def close(self):
        while self.undo:
            try:
                self.undo.pop()()
            except (OSError, subprocess.SubprocessError) as e:
                print(f"# {e}")

    def program(self, name):
        path = os.path.join(self.build, name)
        if not os.access(path, os.X_OK):
            raise Skip(f"{name} is not built")
        return path

    def echoserver(self):
        path = os.path.join(self.build, "tests", "echoserver")
        if not os.access(path, os.X_OK):
            raise Skip("the echoserver is not built (no go?)")
        return path

    def path(self, name, content=None):
        """A file of this test's directory, written if content is given."""
        path = os.path.join(self.dir, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content if isinstance(content, bytes) else content.encode())
        return path


_CLOCK = """
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* The wall clock is off by what the file says, in ns. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	static volatile int64_t *off;
	if (!off) {
		int fd = open(getenv("CLOCK_FILE"), O_RDONLY | O_CLOEXEC);
		off = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	int r = (int)syscall(SYS_clock_gettime, id, ts);
	if (r == 0 && id == CLOCK_REALTIME) {
		int64_t t = (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec + *off;
		ts->tv_sec = t / 1000000000;
		ts->tv_nsec = t % 1000000000;
	}
	return r;
}
"""


class Clock:
    """A wall clock of a program's own, which a test sets: .under are words before the program. Time goes on as it does."""

    def __init__(self, env, program):
        # Interposing works for programs without a sanitizer, which wants to be first.
        if b"__asan_init" in subprocess.run(["nm", "-D", env.program(program)], capture_output=True, check=True).stdout:
            raise Skip("a sanitizer's build")
        source, library, self.file = env.path("clock.c", _CLOCK), env.path("clock.so"), env.path("offset", bytes(4096))
        subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-O1", "-o", library, source], check=True)
        self.off, self.under = 0, ("env", "LD_PRELOAD=" + library, "CLOCK_FILE=" + self.file)

    def set(self, seconds):
        """From now on it is off by so much."""
        self.off = seconds
        with open(self.file, "r+b") as f:
            f.write(struct.pack("<q", int(seconds * 10**9)))

    def time(self):
        return time.time() + self.off


def scrape_config(targets, interval="1s", job="echoserver", extra=""):
    """A configuration of one job over these addresses."""
    return f"""
global:
  scrape_interval: {interval}
scrape_configs:
  - job_name: {job}
    profiling_config:
      pprof_config:
        fgprof:
          enabled: true
          path: /debug/fgprof
          delta: true
{extra}
    static_configs:
      - targets: {json.dumps(list(targets))}
"""


def run(argv, seconds=60, **more):
    """A finished program: (status, output and errors together)."""
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)
    try:
        out, _ = p.communicate(timeout=seconds * patience())
    except subprocess.TimeoutExpired:
        p.kill()
        out, _ = p.communicate()
        raise AssertionError(f"{argv}: did not end within {seconds * patience():.0f} s; it said: "
                             f"{out.decode(errors='replace')[-2000:]}") from None
    return p.returncode, out.decode(errors="replace")


def _packages_of_the_page(env):
    return os.path.join(env.build, "web/ui/work/node_modules")


def chromium():
    """The path of Chromium: of the one without windows if it is there, because its own windows cost the other a fifth more. None: there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")


def need_a_browser(env):
    """Skips what needs Chromium, node, and the packages that the page was bundled with."""
    if not chromium() or not shutil.which("node"):
        raise Skip("no node" if chromium() else "no chromium")
    if not os.path.isdir(os.path.join(_packages_of_the_page(env), "playwright-core")):
        raise Skip("no playwright-core: the page was not bundled in this build directory")


def in_the_browser(env, script, *args, seconds, **variables):
    """Runs one of the scripts beside this file that use browser.mjs. What it said is kept in page.log."""
    here = os.path.join(os.path.dirname(_packages_of_the_page(env)), "e2e")  # node resolves packages from where a module really lies
    os.makedirs(here, exist_ok=True)
    for name in (script, "browser.mjs"):  # another test may run it just now: never a half one
        copy = os.path.join(here, f".{name}.{os.getpid()}.{threading.get_ident()}")
        shutil.copy(os.path.join(TOP, "tests/e2e", name), copy)
        os.replace(copy, os.path.join(here, name))
    status, out = run(["node", os.path.join(here, script), *args], seconds=seconds, cwd=env.dir,
                      env=dict(os.environ, CHROMIUM=chromium(), **variables))
    env.path("page.log", out)
    failed = "".join(line + "\n" for line in out.splitlines() if line.startswith("FAIL "))[:1000]  # first: of a verdict ./check shows one line
    check(status == 0, failed + out[-4000:])


def need_a_mounted_root():
    """In a chroot whose / is no mount point nobody can make a root of his own below it (unshare, runc: EINVAL)."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        if not any(line.split()[4] == "/" for line in f):
            raise Skip("/ is no mount point: no container can have a root of its own here")


_NAMED_FROM_OUTSIDE = """
import os, sys
file, links = os.open(sys.argv[1], os.O_RDONLY), os.open("/proc/self/fd", os.O_RDONLY)
os.chroot(sys.argv[2])
print(os.readlink(str(file), dir_fd=links))
"""


def in_a_chroot(env):
    """Whether this is a chroot. There the kernel names a file from outside of a process's root by its path from the machine's
    own root, which does not exist in the chroot. Needs root."""
    status, name = run([sys.executable, "-c", _NAMED_FROM_OUTSIDE, __file__, env.dir])
    check(status == 0, name)
    return name.strip() != os.path.realpath(__file__)
