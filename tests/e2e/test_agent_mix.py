# SPDX-License-Identifier: Apache-2.0
"""The agent beside what runs on real hosts: a database, a web server, a JVM, Node, compilers, as far as they are
installed. Nearly every stack reaches its bottom, nearly every frame has a name, nothing is lost. PYRRHA_LONG: ten
minutes instead of half of one."""
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import time

from harness import LONG, Process, check, free_port, http_get, slow, wait_until
from pprof_file import Profile
from test_agent import start_agent

SECONDS = 600 if LONG else 30

# What is started here: what else runs on the machine, other tests mostly, is not sampled.
MIX = ["postgres", "pgbench", "nginx", "java", "mix_node", "cc1", "as", "cc", "sh"]

JAVA = """
import java.util.*;
public class Mix {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static int words(Random r) {
        Map<String, Integer> m = new HashMap<>();
        for (int i = 0; i < 2000; i++) m.merge("w" + r.nextInt(500), 1, Integer::sum);
        return m.values().stream().mapToInt(x -> x).max().getAsInt();
    }
    public static void main(String[] a) throws Exception {
        Random r = new Random(1);
        for (long s = 0;; ) { s += fib(18) + words(r); Thread.sleep(2); }
    }
}
"""

NODE = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function words() {
  const m = new Map();
  for (let i = 0; i < 2000; i++) { const k = 'w' + (i * 7919 % 500); m.set(k, (m.get(k) || 0) + 1); }
  return JSON.parse(JSON.stringify([...m])).sort((a, b) => a[1] - b[1]).length;
}
setInterval(() => { fib(18); words(); }, 3);
"""

WGET = """
import http.client, sys, time
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
while True:
    c.request("GET", "/index.html")
    c.getresponse().read()
    time.sleep(0.002)
"""


def nice(user=None):
    def before():
        os.nice(5)
        if user:
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
    return before


def start_postgres(env):
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not folders or not os.path.exists(os.path.join(folders[-1], "pgbench")):
        return None
    user, port = pwd.getpwnam("nobody"), free_port()

    def tool(name):
        return os.path.join(folders[-1], name)

    # Its folder must be the user's own, and every folder above must let the user through.
    base = subprocess.run(["mktemp", "-d", "/tmp/pyrrha-pg.XXXXXX"], capture_output=True, text=True, check=True).stdout.strip()
    env.at_end(lambda: shutil.rmtree(base, ignore_errors=True))
    os.chown(base, user.pw_uid, user.pw_gid)
    more = dict(preexec_fn=nice(user), cwd=base)
    subprocess.run([tool("initdb"), "-D", base + "/data", "-A", "trust", "-N", "--no-locale"], check=True, capture_output=True, **more)
    log = open(os.path.join(env.dir, "postgres.log"), "wb")
    server = subprocess.Popen([tool("postgres"), "-D", base + "/data", "-p", str(port), "-k", base, "-c", "fsync=off",
                               "-c", "listen_addresses="], stdout=log, stderr=log, **more)

    def stop():
        server.terminate()
        server.wait(30)
    env.at_end(stop)
    at = ["-h", base, "-p", str(port), "-U", "nobody", "postgres"]
    wait_until("PostgreSQL takes connections", lambda: subprocess.run([tool("psql"), "-c", "select 1", *at], capture_output=True,
                                                                      check=False, **more).returncode == 0, 60)
    subprocess.run([tool("pgbench"), "-i", "-q", *at], check=True, capture_output=True, **more)
    bench = subprocess.Popen([tool("pgbench"), "-c", "2", "-R", "200", "-T", "100000", *at], stdout=log, stderr=log, **more)
    env.at_end(lambda: (bench.kill(), bench.wait(30)))
    return r"postgres|pgbench"


def start_nginx(env):
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not program:
        return None
    port = free_port()
    with open(os.path.join(env.dir, "index.html"), "w") as f:
        f.write("hello\n" * 2000)
    conf = os.path.join(env.dir, "nginx.conf")
    with open(conf, "w") as f:
        f.write(f"""daemon off; master_process off; pid {env.dir}/nginx.pid; error_log stderr;
events {{}}
http {{ access_log off; gzip on; gzip_types text/html; client_body_temp_path {env.dir}/b; proxy_temp_path {env.dir}/p;
fastcgi_temp_path {env.dir}/f; uwsgi_temp_path {env.dir}/u; scgi_temp_path {env.dir}/s;
server {{ listen 127.0.0.1:{port}; root {env.dir}; }} }}
""")
    Process(env, "nginx", [program, "-c", conf, "-p", env.dir], preexec_fn=nice())
    wait_until("nginx answers", lambda: http_get(f"http://127.0.0.1:{port}/index.html")[0] == 200)
    Process(env, "wget", ["python3", "-c", WGET, str(port)], preexec_fn=nice())
    return r"nginx"


def start_java(env):
    if not shutil.which("javac") or not shutil.which("jcmd"):
        return None
    with open(os.path.join(env.dir, "Mix.java"), "w") as f:
        f.write(JAVA)
    subprocess.run(["javac", "-d", env.dir, os.path.join(env.dir, "Mix.java")], check=True)
    p = Process(env, "java", ["java", "-XX:+PreserveFramePointer", "-Xmx128m", "-cp", env.dir, "Mix"], preexec_fn=nice())
    env.at_end(lambda: os.path.exists(f"/tmp/perf-{p.p.pid}.map") and os.unlink(f"/tmp/perf-{p.p.pid}.map"))
    # Names of what was compiled until then, again and again.
    Process(env, "jcmd", ["sh", "-c", f"while sleep 3; do jcmd {p.p.pid} Compiler.perfmap; done"], preexec_fn=nice())
    return r"java"


def start_node(env):
    if not shutil.which("node"):
        return None
    with open(os.path.join(env.dir, "mix.js"), "w") as f:
        f.write(NODE)
    node = env.path("mix_node")  # a name of its own: the page's tests run node, too, without frame pointers
    os.symlink(shutil.which("node"), node)
    p = Process(env, "node", [node, "--perf-basic-prof", "--interpreted-frames-native-stack", os.path.join(env.dir, "mix.js")],
                preexec_fn=nice())
    env.at_end(lambda: os.path.exists(f"/tmp/perf-{p.p.pid}.map") and os.unlink(f"/tmp/perf-{p.p.pid}.map"))
    return r"mix_node"


def start_compiling(env):
    with open(os.path.join(env.dir, "mix.c"), "w") as f:
        f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
        for i in range(400):
            f.write(f"int f{i}(int n, char *s) {{ int t = {i}; for (int k = 0; k < n; k++) {{ t += s[k] * k; if (t % 7 == {i % 7}) "
                    f"t ^= (int)strlen(s); }} return printf(\"%d %s\", t, s); }}\n")
    os.makedirs(os.path.join(env.dir, "objects"), exist_ok=True)
    for i in range(2):
        Process(env, f"compile{i}", ["sh", "-c", f"while :; do cc -O2 -c -o objects/{i}.o mix.c; done"], preexec_fn=nice())
    return r"cc1|as|cc|sh"


def counters(agent):
    text = http_get(f"{agent}/metrics")[2].decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^(pyrrha_agent_\S+) ([0-9.e+-]+)$", text, re.M)}


def grown(before, after, name):
    return sum(v - before.get(k, 0) for k, v in after.items() if k.split("{")[0] == name)


def has_symbols(path, cache):
    """Whether names of the file's functions are to be had on this machine."""
    if path not in cache:
        said = subprocess.run(["readelf", "-nSW", path], capture_output=True, text=True, check=False).stdout
        build_id = re.search(r"Build ID: (..)(\w+)", said)
        cache[path] = bool(re.search(r" \.(symtab|gopclntab|gnu_debugdata) ", said)) or \
            bool(build_id and os.path.exists(f"/usr/lib/debug/.build-id/{build_id[1]}/{build_id[2]}.debug"))
    return cache[path]


def pull(agent, seconds, comms):
    status, _, body = http_get(f"{agent}/debug/pprof/profile?seconds={seconds}&by=comm", timeout=seconds * 2 + 60)
    check(status == 200, f"HTTP {status}: {body[:300]!r}")
    p = Profile(body)
    wanted = re.compile(f"^({'|'.join(comms)})$")
    return p, {k: v for k, v in p.stacks("cpu").items() if wanted.match(str(dict(k[1]).get("comm", "")))}


def shares(p, stacks):
    """Of the samples those whole, of the frames that can have a name those that do; and what is missing, most first."""
    total = whole = frames = named = 0
    cut, nameless, cache = {}, {}, {}
    for (stack, labels), v in stacks.items():
        total += v
        mark = next((f[0] for f in stack if len(f) == 3 and f[0].startswith(("[truncated", "[lost"))), None)
        if mark:
            what = dict(labels)["comm"], mark, stack[0][0]
            cut[what] = cut.get(what, 0) + v
        else:
            whole += v
        for f in stack:
            if len(f) == 3:
                named, frames = named + v, frames + v
            elif not p.binaries.get(f[0], "").startswith("/") or has_symbols(p.binaries[f[0]], cache):
                frames += v
                what = dict(labels)["comm"], p.binaries.get(f[0], f[0]), hex(f[1])
                nameless[what] = nameless.get(what, 0) + v
    most = lambda d: sorted(((round(100 * v / total, 2), k) for k, v in d.items()), reverse=True)[:12]  # noqa: E731
    return whole / total, named / frames, most(cut), most(nameless)


@slow
def test_live_mix(env):
    agent = start_agent(env, only=MIX)
    parts = [start_postgres(env), start_nginx(env), start_java(env), start_node(env), start_compiling(env)]
    comms = [c for c in parts if c]
    before = counters(agent)
    p, stacks = pull(agent, SECONDS, comms)
    after = counters(agent)
    whole, named, cut, nameless = shares(p, stacks)
    seen = {dict(labels)["comm"] for _, labels in stacks}
    print(f"live mix of {sorted(seen)}: {sum(stacks.values()) / 1e9:.1f} s of CPU time, {whole:.2%} whole, {named:.2%} of frames named")
    print("  cut:", cut)
    print("  nameless:", nameless)
    print("  cost of the agent:", {k: v for k, v in after.items() if "cost_ratio" in k or "chunk_bytes" in k})
    check(sum(stacks.values()) > SECONDS * 1e8, "the mix had a tenth of a CPU at least")
    print("  grown:", {n: grown(before, after, f"pyrrha_agent_{n}_total") for n in (
        "samples", "lost_samples", "lost_records", "bad_records", "throttled", "late_drains")})
    check(whole >= 0.97, f"{whole:.2%} of the time is in stacks that reach their bottom; cut: {cut}")
    check(named >= 0.95, f"{named:.2%} of the frames have a name; without: {nameless}")
    # An agent that was stopped as a whole for seconds, as a virtual machine may be, must count what it lost, no more.
    stopped = grown(before, after, "pyrrha_agent_late_drains_total") > 0
    for name in ("pyrrha_agent_bad_records_total",) if stopped else (
            "pyrrha_agent_lost_samples_total", "pyrrha_agent_lost_records_total", "pyrrha_agent_bad_records_total",
            "pyrrha_agent_throttled_total"):
        check(grown(before, after, name) == 0, f"{name} grew at 19 Hz: {after}")


@slow
def test_losses_are_counted(env):
    """At 997 Hz every sample of the kernel is in the profiles or in a counter."""
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=MIX)
    start_compiling(env)
    start_node(env)
    before = counters(agent)
    p, _ = pull(agent, 60 if LONG else 5, ["x"])
    after = counters(agent)
    taken, lost = grown(before, after, "pyrrha_agent_samples_total"), grown(before, after, "pyrrha_agent_lost_samples_total")
    check(taken > 500, f"{taken} samples at 997 Hz")
    said = sum(v for (stack, _), v in p.stacks("cpu").items() if any(f[0] == "[lost: ring full]" for f in stack))
    print(f"997 Hz: {taken:.0f} samples, {lost:.0f} lost and counted, {said / 1e9:.3f} s as [lost: ring full]")
    check(said == 0 or lost > 0, f"{lost} lost samples, {said} ns of them in the profile")
    check(grown(before, after, "pyrrha_agent_bad_records_total") == 0, f"records could not be read: {after}")


@slow
def test_losses_stand_in_the_profile(env):
    """An agent that is stopped for a while loses samples for want of room: as many as it counts stand in its profiles, each with
    the time of a tick, and nothing else is scaled up for them."""
    agent = start_agent(env, "--frequency=997", "--max-cost=1", only=MIX)
    start_compiling(env)
    name, tries = "pyrrha_agent_lost_samples_total", []

    def lose():
        tries.append(1)
        env.agent.p.send_signal(signal.SIGSTOP)
        try:
            # The kernel goes on sampling: this is what fills its buffers, nothing is waited for. Beside other programs that takes longer.
            time.sleep(6 * len(tries))
        finally:
            env.agent.p.send_signal(signal.SIGCONT)
        return grown({}, counters(agent), name) > 0

    def all_there():
        """Once the window of the last loss is finished, that is."""
        status, _, body = http_get(f"{agent}/debug/pprof/profile?from=0&to={2**33}", timeout=120)
        check(status == 200, f"HTTP {status}: {body[:300]!r}")
        said = sum(v for (stack, _), v in Profile(body).stacks("cpu").items() if any(f[0] == "[lost: ring full]" for f in stack))
        lost = grown({}, counters(agent), name)
        check(abs(said - lost * 1e9 / 997) < 0.01 * said, f"{lost:.0f} samples lost, {said / 1e9:.3f} s in the profiles")
        print(f"stopped for {6 * len(tries)} s: {lost:.0f} samples lost, {said / 1e9:.3f} s as [lost: ring full]")
        return True

    wait_until("buffers fill up", lose, 90)
    wait_until("what was lost stands in the profiles", all_there, 60)
    after = counters(agent)
    check(grown({}, after, "pyrrha_agent_late_drains_total") > 0 and grown({}, after, "pyrrha_agent_bad_records_total") == 0, f"{after}")
