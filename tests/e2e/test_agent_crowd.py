# SPDX-License-Identifier: Apache-2.0
"""The agent with its default flags on a whole crowded host: a load of fifty and more on two CPUs, hundreds of different files, of which twenty start
each second. Only with PYRRHA_LONG (fifteen minutes) or PYRRHA_CROWD_SECONDS, because nothing else gets the CPUs meanwhile."""
import collections
import glob
import os
import re
import shutil
import subprocess
import threading
import time

from harness import LONG, Skip, check, chromium, http_get
from pprof_file import Profile
from test_agent import start_agent
from test_agent_mix import counters

SECONDS = int(os.environ.get("PYRRHA_CROWD_SECONDS", "900" if LONG else "0"))
EACH = 30                            # of a profile
STARTS = 20                          # programs a second
BUSY = 20                            # static programs for each CPU, each of a build-id of its own
NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"

STATIC = r"""
#include <map>
#include <regex>
#include <sstream>
#include <string>
static std::string words(int n) { std::ostringstream o; for (int i = 0; i < n; i++) o << 'w' << i * 7919 % 500 << ' '; return o.str(); }
static size_t count(const std::string &s) { std::map<std::string, int> m; std::istringstream in(s); std::string w; while (in >> w) m[w]++; return m.size(); }
static size_t search(const std::string &s) { std::regex r("w1[0-9]+ w[2-4]"); return std::distance(std::sregex_iterator(s.begin(), s.end(), r), std::sregex_iterator()); }
int main() { volatile size_t n = 0; for (;;) { std::string s = words(500); n = n + count(s) + search(s); } }
"""
NODE = """
function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) }
function g(k) { const m = new Map(); for (let i = 0; i < 2000; i++) m.set('k' + i * k % 977, i); return [...m.keys()].sort().join('').length }
let s = 0; setInterval(() => { for (let i = 0; i < 20; i++) s += f(18) + g(i) + JSON.stringify([s]).length }, 1)
"""
PYTHON = """
import hashlib, json
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def work(i):
    d = {str(k): k * i for k in range(500)}
    return len(json.dumps(sorted(d, key=lambda k: d[k] % 97)))
i = 0
while True:
    i += 1
    fib(14), work(i), hashlib.sha256(b"x" * 5000).digest()
"""
JAVA = """
import java.util.*;
public class Crowd {
  static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  static int maps(int k) { Map<String, Integer> m = new HashMap<>(); for (int i = 0; i < 3000; i++) m.merge("k" + i * k % 977, i, Integer::sum);
    List<String> l = new ArrayList<>(m.keySet()); Collections.sort(l); return String.join("", l).length(); }
  public static void main(String[] a) { long s = 0; for (int i = 0;; i++) s += fib(20) + maps(i); }
}
"""
PAGE = """<div id=d></div><script>let i = 0; setInterval(() => { let t = ''; for (let k = 0; k < 300; k++) t += '<b>' + i * k + '</b>';
document.getElementById('d').innerHTML = t; i++; document.body.offsetHeight }, 5)</script>"""


class Crowd:
    def __init__(self, env):
        self.env, self.all, self.files, self.stop = env, [], set(), False
        self.texts = {name: self.write(name, text) for name, text in
                      (("w.js", NODE), ("w.py", PYTHON), ("Crowd.java", JAVA), ("p.html", PAGE), ("w.cc", STATIC))}
        env.at_end(self.end)

    def write(self, name, text):
        with open(self.env.path(name), "w") as f:
            f.write(text)
        return self.env.path(name)

    def start(self, *argv, **more):
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                             cwd=self.env.dir, **more)
        self.all.append(p)
        return p

    def static_programs(self, n):
        first = self.env.path("static")
        subprocess.run(["g++", "-O2", "-static", "-o", first, self.texts["w.cc"]], check=True)
        with open(first, "rb") as f:
            code = f.read()
        at = code.index(NOTE) + len(NOTE)
        for i in range(n):
            path = self.env.path(f"static{i}")
            with open(path, "wb") as f:
                f.write(code[:at] + os.urandom(20) + code[at + 20:])
            os.chmod(path, 0o755)
            self.start(path)

    def settle(self):
        self.static_programs(BUSY * os.cpu_count())
        javas = sorted(glob.glob("/usr/lib/jvm/*/bin/java"))
        if shutil.which("javac") and javas:
            subprocess.run(["javac", "--release", "11", "-d", self.env.dir, self.texts["Crowd.java"]], check=True, stderr=subprocess.DEVNULL)
            for i in range(3):
                self.start(javas[i % len(javas)], "-Xmx64m", "-cp", self.env.dir, "Crowd")
        for _ in range(5):
            self.start("python3", self.texts["w.py"])
            if shutil.which("node"):
                self.start("node", self.texts["w.js"])
        if chromium():
            self.start(chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
                       "--user-data-dir=" + self.env.path("browser"), "file://" + self.texts["p.html"])
        for _ in range(2):
            self.start("sh", "-c", f"while :; do g++ -O2 -c {self.texts['w.cc']} -o /dev/null; done")

    def storm(self):
        """Every program of /usr/bin says its version, again and again."""
        programs = []
        for path in sorted(glob.glob("/usr/bin/*")):
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    programs += [path] if f.read(4) == b"\x7fELF" else []
        running, n, begun = [], 0, time.monotonic()
        while not self.stop:
            now = time.monotonic()
            for p, since in running:
                if p.poll() is None and now - since > 3:
                    os.killpg(p.pid, 9)
            running = [(p, since) for p, since in running if p.poll() is None]
            if len(running) >= STARTS or n >= (now - begun) * STARTS:
                time.sleep(0.02)
                continue
            path = programs[n % len(programs)]
            n += 1
            self.files.add(path)
            running.append((subprocess.Popen([path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                             start_new_session=True, cwd="/tmp", user="nobody", env={"PATH": "/usr/bin:/bin", "TERM": "dumb"}), now))
        self.all += [p for p, _ in running]

    def end(self):
        self.stop = True
        for p in self.all:
            try:
                os.killpg(p.pid, 9)
            except ProcessLookupError:
                pass
            p.wait()


class Looks(threading.Thread):
    """Asks for /metrics every second. Its own priority is not what is measured."""

    def __init__(self, agent):
        super().__init__(daemon=True)
        self.agent, self.took, self.stop = agent, [], False

    def run(self):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        while not self.stop:
            begun = time.monotonic()
            http_get(f"{self.agent}/metrics", timeout=120)
            self.took.append(time.monotonic() - begun)
            time.sleep(1)


def busy():
    with open("/proc/stat") as f:
        n = [int(x) for x in f.readline().split()[1:9]]
    return (sum(n) - n[3] - n[4]) / os.sysconf("SC_CLK_TCK")


def used(pid):
    with open(f"/proc/{pid}/stat") as f:
        n = f.read().rsplit(")", 1)[1].split()
    return (int(n[11]) + int(n[12])) / os.sysconf("SC_CLK_TCK")


def test_crowd(env):
    if not SECONDS:
        raise Skip("the whole machine is needed: PYRRHA_LONG=1, or PYRRHA_CROWD_SECONDS=60")
    agent = start_agent(env, "--names-wait=1s", before=["setsid", "--wait"])
    with open(f"/proc/{env.agent.p.pid}/task/{env.agent.p.pid}/children") as f:
        pid = int((f.read().split() or [env.agent.p.pid])[0])
    crowd = Crowd(env)
    crowd.settle()
    storm = threading.Thread(target=crowd.storm, daemon=True)
    storm.start()
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    env.at_end(lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)))
    time.sleep(20)                   # what the figures below leave out
    looks = Looks(agent)
    looks.start()
    before, cost, begun = counters(agent), used(pid), time.monotonic()
    all_of, cut, why, late, told, real = collections.Counter(), collections.Counter(), collections.Counter(), [], 0, 0
    while time.monotonic() - begun < SECONDS:
        start, at = busy(), time.monotonic()
        status, _, body = http_get(f"{agent}/debug/pprof/profile?seconds={EACH}", timeout=EACH + 120)
        took = time.monotonic() - at
        check(status == 200, f"HTTP {status}")
        late.append(took - EACH)
        real += (busy() - start) * EACH / took
        for (frames, labels), v in Profile(body).stacks("cpu").items():
            name = re.sub(r"\d+$", "", dict(labels).get("comm", "?"))
            marks = {f[0] for f in frames if re.match(r"\[(truncated|lost)", f[0])}
            told += v / 1e9
            all_of[name] += v / 1e9
            cut[name] += v / 1e9 if marks else 0
            for m in marks:
                why[m] += v / 1e9
    took, after, cost = time.monotonic() - begun, counters(agent), used(pid) - cost
    looks.stop = crowd.stop = True
    with open(f"/proc/{pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024
    load, metrics = os.getloadavg()[0], sorted(looks.took)
    sampling = after["pyrrha_agent_sampling_seconds_total"] - before["pyrrha_agent_sampling_seconds_total"]
    share = (cost + sampling) / took / os.cpu_count()
    whole = 1 - sum(cut.values()) / told
    maps = after["pyrrha_agent_kernel_map_bytes"] / 1e6
    print(f"load {load:.0f}, {len(crowd.files)} files of /usr/bin: {whole:.1%} of the stacks are whole, {told:.1f} s of {real:.1f}; cost {share:.2%} of "
          f"the host; {rss:.0f} MB resident, maps {maps:.1f} MB; profiles late by {max(late):.1f} s at most; /metrics {metrics[len(metrics) // 2]:.2f} s, "
          f"99 % {metrics[int(len(metrics) * .99)]:.2f}")
    print("  " + ", ".join(f"{n} {v:.1f} s, {1 - cut[n] / v:.0%}" for n, v in all_of.most_common(12)), dict(why.most_common(6)))
    check(whole >= 0.97, f"{whole:.1%} of the stacks are whole: {dict(why)}")
    check(abs(told / real - 1) < 0.03, f"{told:.1f} s, where the CPUs were busy for {real:.1f}")
    lost = after["pyrrha_agent_lost_records_total"] - before["pyrrha_agent_lost_records_total"]
    check(lost == 0, f"{lost:.0f} records of processes are lost")
    check(rss <= 90 and maps <= 40, f"{rss:.0f} MB resident, maps {maps:.1f} MB")
    check(max(late) <= 5, f"a profile was late by {max(late):.1f} s")
