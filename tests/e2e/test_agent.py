# SPDX-License-Identifier: Apache-2.0
"""The agent on this host's real kernel: real programs, whose stacks are known. Needs root and eBPF."""
import os
import re
import shutil
import subprocess
import time
import urllib.parse

import pprof_file
from harness import Echo, LONG, Process, Server, Skip, check, echo_command, free_port, http_get, slow, wait_until

# Works a quarter of its time, 4 ms or so at a time, and leaves the rest to other tests.
C_FIXTURE = """
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline, noclone)) void agent_leaf(int n) { for (int i = 0; i < n; i++) sink += i * 7ul; }
__attribute__((noinline, noclone)) void agent_middle(int n) { char room[300]; __asm__ volatile("" :: "r"(room) : "memory"); agent_leaf(n); sink++; }
int main(void) { for (;; usleep(12000)) agent_middle(2000000); }
"""

SIGNAL_FIXTURE = """
#include <signal.h>
volatile unsigned long sink;
static void agent_handler(int s) { for (;;) sink++; }
int main(void) { signal(SIGUSR1, agent_handler); return raise(SIGUSR1); }
"""

NODE_FIXTURE = """
function agentFib(n) { return n < 2 ? n : agentFib(n - 1) + agentFib(n - 2); }
function agentLoop() { let s = 0; for (;;) s += agentFib(24); }
agentLoop();
"""

JAVA_FIXTURE = """
public class AgentFib {
    static int agentFib(int n) { return n < 2 ? n : agentFib(n - 1) + agentFib(n - 2); }
    static int agentLoop() { int s = 0; for (;;) s += agentFib(24); }
    public static void main(String[] a) { System.out.println(agentLoop()); }
}
"""


def start_agent(env, *flags, only=(), before=(), is_ready=lambda address: http_get(f"http://{address}/-/ready")[0] == 200):
    """Its URL. only: the processes that it samples, by name; what else runs here costs nothing then. before: what starts it."""
    if os.geteuid() != 0:
        raise Skip("the agent's programs need root")
    address = f"127.0.0.1:{free_port()}"
    own = ["env", f"CACHE_DIRECTORY={env.path('agent-kept')}"]  # nothing is kept from test to test
    # Answers have all names, however busy the machine is.
    env.agent = Process(env, "pyrrha-agent", [*own, *before, env.program("pyrrha-agent"), f"--web.listen-address={address}",
                                              "--names-wait=1m", *(f"--filter-comm={c}" for c in only), *flags])
    wait_until("the agent is ready, or has ended", lambda: not env.agent.alive() or is_ready(address), 60)
    if not env.agent.alive():
        said = subprocess.run([env.program("pyrrha-agent"), "--check"], capture_output=True, text=True).stdout
        if re.search(r"no +BPF programs load.*(Operation not permitted|Permission denied)", said):
            raise Skip("eBPF is not permitted here: " + said)
        raise AssertionError(f"the agent has ended:\n{env.agent.text()}\n--check says:\n{said}")
    return f"http://{address}"


def run(env, name, argv, **more):
    return Process(env, name, argv, **more)


def c_program(env, name, text, *flags):
    path = os.path.join(env.dir, name)
    with open(path + ".c", "w") as f:
        f.write(text)
    subprocess.run(["cc", "-O2", "-fomit-frame-pointer", *flags, "-o", path, path + ".c"], check=True)
    return path


def profile(env, agent, seconds, selector="", more="", file="profile"):
    """Folded stacks of a pulled profile: [(frames root first, nanoseconds)]."""
    query = f"seconds={seconds}" + (f"&match[]={urllib.parse.quote(selector)}" if selector else "") + more
    status, headers, body = http_get(f"{agent}/debug/pprof/profile?{query}", timeout=seconds + 60)
    check(status == 200, f"HTTP {status}: {body[:300]!r}")
    path = os.path.join(env.dir, file + ".pb.gz")
    with open(path, "wb") as f:
        f.write(body)
    text = subprocess.run([env.program("pyrtool"), "folded", path], capture_output=True, text=True, check=True).stdout
    stacks = []
    for line in text.splitlines():
        frames, value = line.rsplit(" ", 1)
        stacks.append((frames.split(";"), int(value)))
    return stacks, headers


def share_with(stacks, *wanted):
    """The share of the value whose stacks hold these frames in this order, as regular expressions."""
    def holds(frames):
        at = 0
        for f in frames:
            if at < len(wanted) and re.search(wanted[at], f):
                at += 1
        return at == len(wanted)
    total = sum(v for _, v in stacks)
    check(total > 0, "the profile is empty")
    return sum(v for f, v in stacks if holds(f)) / total


def wait_for_share(env, agent, what, selector, least, *wanted, among=None):
    """Pulls until `least` of the time is in stacks that hold these frames in order. On a busy machine a program takes a
    while to get past its start, and two seconds may have few samples of it."""
    said = []

    def probe():
        stacks, _ = profile(env, agent, 2, selector)
        said[:] = stacks = [s for s in stacks if not among or any(among in f for f in s[0])]
        return share_with(stacks, *wanted) > least
    try:
        wait_until(what, probe, 60)
    except AssertionError as e:
        raise AssertionError(f"{e}; the last profile: {said[:8]}") from None


def test_c_without_frame_pointers(env):
    agent = start_agent(env, only=["fix_plain", "fix_pie", "fix_static", "fix_fp"])
    for name, flags in (("fix_plain", []), ("fix_pie", ["-fPIE", "-pie"]), ("fix_static", ["-static"]),
                        ("fix_fp", ["-fno-omit-frame-pointer"])):
        p = run(env, name, [c_program(env, name, C_FIXTURE, *flags)])
        wait_for_share(env, agent, f"_start;main;agent_middle;agent_leaf of {name}", f'{{comm="{name}"}}', 0.95,
                       "^_start$", "^main$", "^agent_middle$", "^agent_leaf$")
        p.kill()


@slow
def test_main_binary(env):
    """The first mapping is the main binary, which pprof shows as File: a program's own if the profile is of that alone; a whole
    host has none."""
    agent = start_agent(env)
    path = c_program(env, "fix_main", C_FIXTURE)
    run(env, "fix_main", [path])

    def main_binary(selector):
        stacks, _ = profile(env, agent, 2, selector)
        with open(os.path.join(env.dir, "profile.pb.gz"), "rb") as f:
            top = list(pprof_file.fields(pprof_file.plain(f.read())))
        strings = [v.decode(errors="replace") for k, v in top if k == 6]
        mappings = [strings[dict(pprof_file.fields(v)).get(5, 0)] for k, v in top if k == 3]
        ids = {dict(pprof_file.fields(v)).get(1, 0) for k, v in top if k == 3}
        used = {dict(pprof_file.fields(v)).get(2, 0) for k, v in top if k == 4} - {0}
        check(used <= ids and stacks, f"{used} of {ids}")
        return mappings and mappings[0], any("agent_leaf" in f for f, _ in stacks)

    wait_until("the program is the main binary", lambda: main_binary('{comm="fix_main"}') == (path, True), 60)
    wait_until("the host has none", lambda: main_binary("") == ("", True), 60)


def test_check_line_by_line(env):
    """--check prints what it knows before it loads the programs, which takes most of its time: who stops it sees how far it came."""
    if os.geteuid() != 0:
        raise Skip("the agent's programs need root")
    begin = time.monotonic()
    with subprocess.Popen([env.program("pyrrha-agent"), "--check"], stdout=subprocess.PIPE, text=True) as p:
        first, early = p.stdout.readline(), time.monotonic() - begin
        rest, took = p.stdout.read(), time.monotonic() - begin
    if not re.search("^ok +BPF programs load", rest, re.M):
        raise Skip("eBPF is not permitted here: " + rest)
    check(re.match("(ok|no) +kernel", first) and early < took / 2, f"{first!r} after {early:.2f} of {took:.2f} s")


def test_signal_handler(env):
    """What a handler returns to has a name, too, although nothing called it."""
    agent = start_agent(env, only=["fix_signal"])
    run(env, "fix_signal", [c_program(env, "fix_signal", SIGNAL_FIXTURE, "-static")])
    wait_for_share(env, agent, "the handler above the trampoline", '{comm="fix_signal"}', 0.9, "^raise$", "^__restore_rt$",
                   "^agent_handler$")


@slow
def test_build_ids_that_lie(env):
    """Two programs that claim the same build-id: each has its own names and stacks, whichever is seen first."""
    agent = start_agent(env, only=["fix_forged", "fix_genuine"])
    for name, more in (("fix_forged", "char much[4000]; __asm__ volatile(\"\" :: \"r\"(much) : \"memory\");"), ("fix_genuine", "")):
        text = C_FIXTURE.replace("agent_", name + "_").replace("sink++; }", "sink++; " + more + " }")
        run(env, name, [c_program(env, name, text, "-Wl,--build-id=0x" + 20 * "5e")])
        wait_for_share(env, agent, f"the stacks of {name}", f'{{comm="{name}"}}', 0.95, "^_start$", "^main$", f"^{name}_middle$",
                       f"^{name}_leaf$")
    stacks, _ = profile(env, agent, 2, '{comm="fix_forged"}')
    check(share_with(stacks, "^_start$", "^main$", "^fix_forged_middle$", "^fix_forged_leaf$") > 0.9, f"names changed: {stacks[:4]}")


def cpu_seconds(pid):
    """What /proc says the process got of the CPUs."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def times_agree(env, agent, processes, cpus, seconds):
    """What a profile of that length has of processes that only compute, against /proc: {comm: pid} on those CPUs."""
    began, before = time.monotonic(), {c: cpu_seconds(p) for c, p in processes.items()}
    stacks, _ = profile(env, agent, seconds, f'{{comm=~"{"|".join(processes)}"}}', "&by=comm")
    after, elapsed = {c: cpu_seconds(p) for c, p in processes.items()}, time.monotonic() - began
    agreed = True
    for comm in processes:
        # The pull ends a little after its window, more so on a busy machine.
        used = (after[comm] - before[comm]) * seconds / elapsed
        seen = sum(v for f, v in stacks if f"{comm}_only" in f) / 1e9
        # A second is 19 samples. Where others want the CPU too, whom they hit is chance: the share that others got counts.
        alone = min(1, used / seconds) if len(processes) == 1 else 0
        allowed = 0.03 + 2 * ((1 - alone) / (19 * used)) ** 0.5
        print(f"{comm} on {len(cpus)} CPUs for {seconds} s: the profile says {seen:.2f} s, /proc {used:.2f} s: {seen / used - 1:+.2%}, "
              f"{allowed:.2%} allowed")
        agreed = agreed and abs(seen / used - 1) <= allowed
    return agreed


@slow
def test_cpu_time_agrees_with_proc(env):
    """One process alone on a CPU, as far as others leave it that, then three on two CPUs."""
    agent = start_agent(env, only=["fix_time", "fix_one", "fix_two", "fix_three"])
    cpus = sorted(os.sched_getaffinity(0))[-2:]

    def start(name, on):
        text = C_FIXTURE.replace("int main(void)", f"__attribute__((noinline)) int {name}_only(void)") \
            .replace(" usleep(12000)", "") + f"int main(void) {{ return {name}_only(); }}\n"
        return run(env, name, [c_program(env, name, text)], preexec_fn=lambda: os.sched_setaffinity(0, on))

    def agree(names, on):
        started = [start(n, on) for n in names]
        processes = {n: p.p.pid for n, p in zip(names, started)}
        # Of so few samples as a busy machine leaves, one time in thirty is beyond twice the root of their number.
        wait_until("profile and /proc agree", lambda: times_agree(env, agent, processes, on, 60 if LONG else 6), 150 if LONG else 60)
        for p in started:
            p.kill()

    agree(["fix_time"], cpus[-1:])
    if len(cpus) == 2:
        agree(["fix_one", "fix_two", "fix_three"], cpus)


def test_go(env):
    agent = start_agent(env, only=["echoserver"])
    Echo(env)
    wait_for_share(env, agent, "the echoserver's handler", '{comm="echoserver"}', 0.2, r"^main\.fibonacciHandler$",
                   r"^main\.fib")


@slow
def test_node(env):
    if not shutil.which("node"):
        raise Skip("no node")
    agent = start_agent(env, only=["node"])
    script = os.path.join(env.dir, "fib.js")
    with open(script, "w") as f:
        f.write(NODE_FIXTURE)
    p = run(env, "node", ["node", "--perf-basic-prof", "--interpreted-frames-native-stack", script])
    wait_for_share(env, agent, "the script's functions", '{comm="node"}', 0.9, "_start", "agentLoop", "agentFib",
                   among="agent")
    os.unlink(f"/tmp/perf-{p.p.pid}.map")


@slow
def test_java(env):
    if not shutil.which("javac") or not shutil.which("jcmd"):
        raise Skip("no JDK")
    agent = start_agent(env, only=["java"])
    with open(os.path.join(env.dir, "AgentFib.java"), "w") as f:
        f.write(JAVA_FIXTURE)
    subprocess.run(["javac", "-d", env.dir, os.path.join(env.dir, "AgentFib.java")], check=True)
    p = run(env, "java", ["java", "-XX:+PreserveFramePointer", "-cp", env.dir, "AgentFib"])

    def map_written():
        done = subprocess.run(["jcmd", str(p.p.pid), "Compiler.perfmap"], capture_output=True, text=True)
        if done.returncode == 0:
            with open(f"/tmp/perf-{p.p.pid}.map") as f:
                return "agentFib" in f.read()
        if "Unknown diagnostic command" in done.stdout + done.stderr:
            raise Skip("this JDK has no Compiler.perfmap")
        return False

    wait_until("the JVM compiled the function and wrote its map", map_written, 60)
    # libc's start_thread has a name only where libc6-dbg is installed.
    wait_for_share(env, agent, "the class's functions", '{comm="java"}', 0.9, r"^(start_thread|libc\.so\.6\+0x[0-9a-f]+)$",
                   "JavaMain", "agentFib", among="agentFib")
    os.unlink(f"/tmp/perf-{p.p.pid}.map")


def test_like_gos_debug_pprof(env):
    agent = start_agent(env)
    status, headers, body = http_get(f"{agent}/debug/pprof/")
    check(status == 200 and b"profile" in body, f"index: {status} {body[:200]!r}")
    status, headers, body = http_get(f"{agent}/debug/pprof/nonsense")
    check(status == 404 and b"Unknown profile" in body and headers["X-Go-Pprof"] == "1", f"{status} {headers} {body!r}")
    status, headers, body = http_get(f"{agent}/debug/pprof/profile?seconds=601")
    check(status == 400 and b"profile duration exceeds" in body, f"{status} {body!r}")
    status, headers, body = http_get(f"{agent}/debug/pprof/profile?seconds=1&match[]=%7Ba")
    check(status == 400 and b"byte" in body, f"{status} {body!r}")
    status, headers, body = http_get(f"{agent}/debug/pprof/cmdline")
    check(status == 200 and b"pyrrha-agent\0--web" in body, f"{body!r}")
    status, headers, body = http_get(f"{agent}/debug/pprof/symbol")
    check(body == b"num_symbols: 1\n", f"{body!r}")
    status, headers, body = http_get(f"{agent}/debug/pprof/profile?seconds=1")
    check(headers["Content-Type"] == "application/octet-stream" and "Content-Encoding" not in headers, f"{headers}")
    check(headers["Content-Disposition"] == 'attachment; filename="profile"', f"{headers}")


def test_go_tool_pprof(env):
    if not shutil.which("go"):
        raise Skip("no go")
    agent = start_agent(env, only=["fix_pprof"])
    run(env, "fix_pprof", [c_program(env, "fix_pprof", C_FIXTURE)])

    def pulled():
        out = subprocess.run(["go", "tool", "pprof", "-top", f"{agent}/debug/pprof/profile?seconds=3"], text=True,
                             capture_output=True, env=dict(os.environ, PPROF_TMPDIR=env.dir, GOTOOLCHAIN="local"))
        check(out.returncode == 0 and "agent_leaf" in out.stdout, out.stdout + out.stderr)
        return True

    wait_until("go tool pprof names the fixture's function", pulled, 60)


@slow
def test_history_tiles(env):
    """Adjacent ranges of the history add up to the whole: nothing twice, nothing lost."""
    agent = start_agent(env, only=["fix_history"])
    run(env, "fix_history", [c_program(env, "fix_history", C_FIXTURE)])
    start = time.time()
    first = (int(start) // 10 + 1) * 10

    def total(lo, hi):
        stacks, _ = profile(env, agent, 1, '{comm="fix_history"}', f"&from={lo}&to={hi}")
        return sum(v for _, v in stacks)

    def second_finished():
        return total(first + 10, first + 20) > 0

    wait_until("the second window is finished", second_finished, 60)
    whole = total(first, first + 20)
    parts = total(first, first + 10) + total(first + 10, first + 20)
    check(whole == parts > 0, f"{whole} ns in one, {parts} ns in two")
    # A window belongs to where it starts, and one that has not ended is in no answer.
    check(total(first, first + 0.001) == total(first, first + 10), "a window that starts in the range is not in it, or not whole")
    status, _, body = http_get(f"{agent}/debug/pprof/profile?from={first + 0.001}&to={first + 10}")
    check(status == 404 and b"no finished window" in body, f"{status} {body[:200]!r}")
    mine = "&match[]=" + urllib.parse.quote('{comm="fix_history"}')
    headers = http_get(f"{agent}/debug/pprof/profile?from={first}&to={2**33}{mine}", timeout=200)[1]
    check(int(headers["X-Pyrrha-Covered"].split("-")[1]) <= time.time() * 1000, f"a window that has not ended: {headers}")


@slow
def test_server_splits_by_process(env):
    """One pull of the host becomes a series per process name; the echoserver is found without its help. It runs under a
    name of its own: the agent sees the echoservers of the tests beside this one as well. The first pull of a busy host
    reads the symbols of all that runs there, which may take longer than a scrape waits."""
    agent = start_agent(env)
    comm = f"echo{os.getpid()}"
    shutil.copy(env.echoserver(), env.path(comm))
    run(env, "echo", echo_command(env, 8, env.path(comm)))
    server = Server(env, f"""
global: {{scrape_interval: 2s, scrape_timeout: 60s}}
scrape_configs:
  - job_name: agent
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}'], labels: {{container: "of the target"}}}}]
  - job_name: plain
    profiling_config:
      pprof_config:
        process_cpu: {{enabled: true}}
        memory: {{enabled: false}}
        goroutine: {{enabled: false}}
        mutex: {{enabled: false}}
        block: {{enabled: false}}
    static_configs: [{{targets: ['{agent.split("//")[1]}']}}]
""")
    mine = f'on_cpu{{comm="{comm}", job="agent"}}'
    wait_until("a series of the echoserver", lambda: server.value(f"count({mine})") == 1, 120)
    wait_until("one series per process name",
               lambda: len(server.query('sum by (comm)(rate(on_cpu{job="agent"}[20s]))')["result"]) > 1, 120)

    def handler_seen():
        text = server.get("/api/v1/query", format="folded", query=f"merge({mine}[5m])").decode()
        check("main.fibonacciHandler" in text, text[:500])
        return True

    wait_until("the echoserver's handler is stored", handler_seen, 120)
    # without the preset it is on_cpu all the same, and never process_cpu
    wait_until("the plain job", lambda: server.value('count(on_cpu{job="plain"})') == 1, 120)
    check(server.value('count({__name__=~"process_cpu.*"})') is None, "nothing of the agent is process_cpu")
    # what told series apart is no longer on the samples; pid is
    server.query(mine)
