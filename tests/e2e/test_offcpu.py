# SPDX-License-Identifier: Apache-2.0
"""Off-CPU profiles against programs that know how long they waited. Needs root and eBPF."""
import os
import subprocess
import threading
import time
import urllib.parse

from harness import LONG, Process, Server, Skip, check, http_get, slow, wait_until
from pprof_file import Profile
from test_agent import c_program, share_with, start_agent

# Waits in three ways, each for some time that it measures itself (what passes, less the CPU time it gets: a busy machine
# must not make a difference), and prints the sums: name, nanoseconds, waits.
WAITER = """
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define KEEP __attribute__((noinline, noclone))
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;
static int fds[2], rounds;
static long wait_ns, sum;
static long read_clock(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
/* To ask for CPU time is a system call, so that a switch is likely there: both calls lie inside of what is measured. */
#define MEASURE(what) do { \\
    long from = read_clock(CLOCK_MONOTONIC), cpu = read_clock(CLOCK_THREAD_CPUTIME_ID); \\
    what; \\
    cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu; \\
    sum += read_clock(CLOCK_MONOTONIC) - from - cpu; \\
} while (0)
static void nap(void) { struct timespec t = { wait_ns / 1000000000, wait_ns % 1000000000 }; nanosleep(&t, NULL); }
KEEP void wait_sleep(void) { MEASURE(nap()); }
KEEP void wait_lock(void) { MEASURE(pthread_mutex_lock(&m)); pthread_mutex_unlock(&m); }
KEEP void wait_pipe(void) { char c; MEASURE(if (read(fds[0], &c, 1) != 1) exit(1)); }
static void *other(void *arg)
{
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&m);
        pthread_barrier_wait(&turn);
        nap();
        pthread_mutex_unlock(&m);
        pthread_barrier_wait(&turn);
    }
    for (int i = 0; i < rounds; i++) {
        pthread_barrier_wait(&turn);
        nap();
        if (write(fds[1], "x", 1) != 1) exit(1);
        pthread_barrier_wait(&turn);
    }
    return NULL;
}
static void run(const char *name, void (*wait)(void), int meet)
{
    sum = 0;
    for (int i = 0; i < rounds; i++) {
        if (meet) pthread_barrier_wait(&turn);
        wait();
        if (meet) pthread_barrier_wait(&turn);
    }
    printf("%s %ld %d\\n", name, sum, rounds);
}
int main(int argc, char **argv)
{
    pthread_t t;
    rounds = atoi(argv[1]);
    wait_ns = atol(argv[2]) * 1000;
    if (pipe(fds)) return 1;
    pthread_barrier_init(&turn, NULL, 2);
    run("wait_sleep", wait_sleep, 0);
    pthread_create(&t, NULL, other, NULL);
    run("wait_lock", wait_lock, 1);
    run("wait_pipe", wait_pipe, 1);
    pthread_join(t, NULL);
    return 0;
}
"""


# Two processes that want the same CPU: each waits only while the other has it.
RIVALS = """
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline, noclone)) void spin(void)
{
    for (volatile int i = 0; i < 100000000; i++) ; /* a fifth of a second or so, without a system call */
}
int main(void)
{
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET(sched_getcpu(), &s);
    sched_setaffinity(0, sizeof s, &s);
    fork();
    spin();
    wait(NULL);
    return 0;
}
"""

# Sleeps 10 ms at a time on a CPU that a real-time process takes for 40 ms soon after: it is woken, and gets no CPU. Prints
# how long it was off the CPU in all, how often, and how much of that the kernel counts as waiting for one.
WOKEN = """
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static long read_clock(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }
static void nap(long ms) { struct timespec t = { 0, ms * 1000000 }; nanosleep(&t, NULL); }
static long delay(void)
{
    long ran, waited = -1;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (!f || fscanf(f, "%ld %ld", &ran, &waited) != 2) waited = -1;
    if (f) fclose(f);
    return waited;
}
__attribute__((noinline, noclone)) void wait_woken(void) { nap(10); __asm__ volatile("" ::: "memory"); }
int main(int argc, char **argv)
{
    int turn[2], rounds = atoi(argv[1]);
    long sum = 0, waited = 0;
    cpu_set_t s;
    if (pipe(turn)) return 1;
    CPU_ZERO(&s);
    CPU_SET(sched_getcpu(), &s);
    sched_setaffinity(0, sizeof s, &s);
    pid_t hog = fork();
    if (hog == 0) {
        struct sched_param p = { .sched_priority = 1 };
        char c;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sched_setscheduler(0, SCHED_FIFO, &p)) return 2;
        while (read(turn[0], &c, 1) == 1) {
            nap(3);
            for (long end = read_clock(CLOCK_MONOTONIC) + 40000000; read_clock(CLOCK_MONOTONIC) < end;) ;
        }
        _exit(0);
    }
    for (int i = 0; i < rounds; i++) {
        if (write(turn[1], "x", 1) != 1) return 1;
        long from = read_clock(CLOCK_MONOTONIC), cpu = read_clock(CLOCK_THREAD_CPUTIME_ID), before = delay();
        wait_woken();
        waited += delay() - before;
        cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
        sum += read_clock(CLOCK_MONOTONIC) - from - cpu;
    }
    printf("%ld %d %ld\\n", sum, rounds, waited);
    kill(hog, SIGKILL);
    return 0;
}
"""

# A pair of processes on each CPU that hand a byte to and fro for so many seconds: hundreds of thousands of switches a second.
PAIRS = """
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void pass(int from, int to) { char c; while (read(from, &c, 1) == 1 && write(to, &c, 1) == 1) ; _exit(0); }
int main(int argc, char **argv)
{
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
        int there[2], back[2];
        cpu_set_t s;
        if (pipe(there) || pipe(back)) return 1;
        CPU_ZERO(&s);
        CPU_SET(cpu, &s);
        for (int k = 0; k < 2; k++) {
            if (fork()) continue;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            sched_setaffinity(0, sizeof s, &s);
            if (k) pass(there[0], back[1]);
            if (write(there[1], "x", 1) != 1) _exit(1);
            pass(back[0], there[1]);
        }
    }
    sleep(atoi(argv[1]));
    return 0;
}
"""


def metric(agent, name):
    """The sum of a metric's values."""
    text = http_get(f"{agent}/metrics")[2].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith(name + " ") or line.startswith(name + "{"))


def while_profiled(env, agent, argv, selector, path="offcpu"):
    """Runs the program within a window: what it printed, and the window's stacks. A machine too busy to run it in one
    window gets a longer one."""
    for seconds in (4, 12, 36):
        got = []
        pull = threading.Thread(target=lambda: got.append(
            http_get(f"{agent}/debug/pprof/{path}?seconds={seconds}&match[]={urllib.parse.quote(selector)}", timeout=200)))
        pull.start()
        wait_until("the window is open", lambda: metric(agent, "pyrrha_agent_profiles_in_progress") == 1)
        p = Process(env, f"waits-{seconds}-{time.monotonic_ns()}", argv)  # a log of its own
        p.p.wait(120)
        inside = pull.is_alive()
        pull.join()
        check(p.p.returncode == 0, p.text())
        status, _, body = got[0]
        check(status == 200, f"HTTP {status}: {body[:300]!r}")
        if inside:
            return p.text(), folded(env, body)
    raise AssertionError("the program did not end within any window")


def folded(env, body):
    path = os.path.join(env.dir, "offcpu.pb.gz")
    with open(path, "wb") as f:
        f.write(body)
    text = subprocess.run([env.program("pyrtool"), "folded", path], capture_output=True, text=True, check=True).stdout
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in text.splitlines()]


def test_agrees_with_the_program(env):
    """Sleeping, waiting for a lock, reading a pipe: the time that the program measures, below the function that waits."""
    agent = start_agent(env, "--off-cpu", "--max-cost=1", only=["fix_wait"])
    waiter = c_program(env, "fix_wait", WAITER, "-pthread")
    for _ in range(3):  # what a full ring lost is nobody's, so that it would be missing here
        full = 'pyrrha_agent_off_cpu_lost_total{reason="ring_full"}'
        before = metric(agent, full)
        text, stacks = while_profiled(env, agent, [waiter, "20", "20000"], '{comm="fix_wait"}')
        sums = {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}
        near = all(abs(sum(v for f, v in stacks if name in f) - ns) <= 0.03 * ns for name, ns in sums.items())
        if metric(agent, full) == before and near:  # the first wait of a process may be over before a busy agent knows it
            break
    lost = sum(v for f, v in stacks if f[0].startswith("[lost"))
    for line in text.splitlines():
        name, ns = line.split()[0], int(line.split()[1])
        seen = sum(v for f, v in stacks if name in f)
        print(f"{name}: the program measured {ns / 1e6:.1f} ms, the profile says {seen / 1e6:.1f} ms ({seen / ns - 1:+.1%})")
        below = [s for s in stacks if name in s[0]]
        check(abs(seen - ns) <= 0.03 * ns + lost, f"{name}: {ns} ns measured, {seen} ns seen, {lost} ns without a stack; "
              f"{below} {[x for x in http_get(agent + '/metrics')[2].decode().splitlines() if 'lost_total' in x]}")
        if name != "wait_lock":  # how pthread_mutex_lock calls the kernel is not ours to say
            share = share_with(below, "^_start$", "^main$", "^run", f"^{name}$")
            check(share > 0.95, f"{name}: {share:.1%} in order: {below[:4]}")


@slow
def test_preempted(env):
    """Who is made to give way in user mode has the stack of user mode, and where threads are switched on it."""
    agent = start_agent(env, "--off-cpu", "--max-cost=1", only=["fix_rival"])
    _, stacks = while_profiled(env, agent, [c_program(env, "fix_rival", RIVALS)], '{comm="fix_rival"}')
    own = [(f, v) for f, v in stacks if "spin" in f]
    all_ns = sum(v for _, v in own)
    right = sum(v for f, v in own if f[f.index("spin") + 1:] == ["__schedule"] and f.index("main") < f.index("spin"))
    print(f"{all_ns / 1e9:.2f} s, {right / max(all_ns, 1):.1%} of it as expected")
    check(all_ns >= 0.03e9, f"two that want one CPU for so long waited {all_ns} ns: {stacks[:6]}")
    check(right >= 0.8 * all_ns, f"{right} of {all_ns} ns: {own[:6]}")


def by_state(body, function):
    """{state: (waits, ns)} of the stacks with that function."""
    out = {}
    for frames, labels, values in Profile(body).samples:
        if any(f[0] == function for f in frames):
            state = dict(labels).get("state")
            n, ns = out.get(state, (0, 0))
            out[state] = n + values[0], ns + values[1]
    return out


@slow
def test_states(env):
    """What a thread waits for: woken, and without a CPU, it is runnable, as long as the kernel says; before, blocked."""
    agent = start_agent(env, "--off-cpu", "--max-cost=1", only=["fix_woken"])
    rounds = 40
    text, _ = while_profiled(env, agent, [c_program(env, "fix_woken", WOKEN), str(rounds)], '{comm="fix_woken"}')
    with open(os.path.join(env.dir, "offcpu.pb.gz"), "rb") as f:
        states = by_state(f.read(), "wait_woken")
    ns, _, runnable = map(int, text.split())
    got = {k: v[1] / 1e6 for k, v in states.items()}
    print(f"off the CPU for {ns / 1e6:.1f} ms, of that {runnable / 1e6:.1f} ms runnable; the profile says {got}")
    if runnable < 10_000_000 * rounds:
        raise Skip("the kernel does not give real-time processes the CPU at once here")
    check(set(states) == {"runnable", "blocked"}, f"{states}")
    seen = states["runnable"][1] + states["blocked"][1]  # the first waits may come before the program's names
    check(0.8 * ns <= seen <= 1.02 * ns, f"{ns} ns, {states}")
    check(abs(states["runnable"][1] / seen - runnable / ns) <= 0.04, f"{runnable} of {ns} ns, {states}")
    # A busy machine interrupts some more often, and some not at all.
    check(0.5 * rounds <= sum(n for n, _ in states.values()) <= 1.5 * rounds, f"each wait counts once: {states}")


@slow
def test_without_stacks(env):
    """Waits that there is no budget for have no stack, but are all there, up to the last one of a thread that ends."""
    agent = start_agent(env, "--off-cpu", "--max-cost=0.0004", only=["fix_bare"])
    waiter = c_program(env, "fix_bare", WAITER, "-pthread")
    text, stacks = while_profiled(env, agent, [waiter, "20", "20000"], '{comm="fix_bare"}')
    ns = {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}
    want = ns["wait_sleep"] + 2 * ns["wait_lock"] + 2 * ns["wait_pipe"]  # the other thread sleeps meanwhile
    seen = sum(v for _, v in stacks)
    bare = sum(v for f, v in stacks if f[0].startswith("[lost: stack over budget"))
    print(f"{seen / want - 1:+.1%} of the time that passed, {bare / seen:.0%} of it without a stack")
    check(seen >= 0.95 * want, f"{seen} ns of at least {want}: {stacks[:6]}")


@slow
def test_threshold(env):
    """Shorter waits are in no profile, and counted."""
    agent = start_agent(env, "--off-cpu", "--off-cpu-threshold=500ms", "--max-cost=1", only=["fix_short"])
    waiter = c_program(env, "fix_short", WAITER, "-pthread")
    before = metric(agent, "pyrrha_agent_off_cpu_short_seconds_total")
    text, stacks = while_profiled(env, agent, [waiter, "50", "1000"], '{comm="fix_short"}')
    own = sum(v for f, v in stacks if any(name in f for name in ("wait_sleep", "wait_pipe")))
    check(own == 0 or min(v for _, v in stacks) >= 5e8, f"waits of 1 ms are profiled: {stacks[:4]}")
    wait_until("short waits are counted", lambda: metric(agent, "pyrrha_agent_off_cpu_short_seconds_total") - before >= 0.14)


@slow
def test_costs_are_limited(env):
    """Stacks have a budget; where the whole is too costly all the same, less is done."""
    agent = start_agent(env, "--off-cpu", "--max-cost=0.00001", "--frequency=97")
    wait_until("stacks go over the budget",
               lambda: metric(agent, 'pyrrha_agent_off_cpu_lost_total{reason="over_budget"}') > 0)
    waits = metric(agent, "pyrrha_agent_off_cpu_stacks_total")
    wait_until("fewer samples or waits are taken", lambda: metric(agent, "pyrrha_agent_frequency_hertz") < 97 or
               metric(agent, "pyrrha_agent_off_cpu_step") > 0, 60)
    check(metric(agent, "pyrrha_agent_off_cpu_switches_total") > 4 * waits, "few stacks are taken")
    if metric(agent, "pyrrha_agent_off_cpu_step") > 0:
        check(metric(agent, "pyrrha_agent_off_cpu_threshold_seconds") >= 0.002, "the threshold goes up")
    server = Server(env, f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: agent
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}']}}]
""")
    wait_until("the server says so", lambda: any("--max-cost" in t.get("note", "") for t in server.targets()), 30)


@slow
def test_recovers(env):
    """A minute of very many switches: off-CPU gives way and is back two minutes later, as far as the limit has room, and
    on-CPU keeps its frequency. Ten minutes in all."""
    if not LONG:
        raise Skip("ten minutes: PYRRHA_LONG=1 (short: pacer_test)")
    agent = start_agent(env, "--off-cpu")
    begun, seen = time.monotonic(), []

    def look(until):
        while time.monotonic() - begun < until:
            now = [metric(agent, "pyrrha_agent_" + name) for name in ("frequency_hertz", "off_cpu_step", "cost_ratio")]
            seen.append((time.monotonic() - begun, *now))
            check(now[0] == 19, f"the frequency was lowered: {seen[-9:]}")
            # As a scraper would: what answers cost counts.
            for path in ("profile", "offcpu"):
                http_get(f"{agent}/debug/pprof/{path}?from={time.time() - 20:.0f}&to={time.time():.0f}")
            time.sleep(5)
        return seen[-1][2]

    def held_back():
        """By its own figures: one step up would not fit into the limit. So it is on a machine that others keep busy."""
        itself, samples, timing, stacks = (metric(agent, f'pyrrha_agent_cost_part_ratio{{part="{p}"}}') for p in
                                           ("agent", "samples", "off_cpu_timing", "off_cpu_stacks"))
        return timing + 2 * stacks > 0.8 * max(0.01 - itself - samples, 0.0025)

    before = look(90)
    pairs = Process(env, "pairs", [c_program(env, "fix_pairs", PAIRS), "60"])
    most = max(look(150), *(step for _, _, step, _ in seen))
    pairs.p.wait(60)
    after = look(275)
    held = after > before and held_back()
    print(f"step {before:.0f}, at most {most:.0f} under load, {after:.0f} two minutes later{', held back by others' if held else ''}")
    check(most > before, f"the load was none: {seen}")
    check(after <= before or held, f"not back after two minutes: {seen}")
    last = look(600)
    print(f"step {last:.0f} at last; cost at most {max(c for *_, c in seen):.2%}")
    check(last <= before or held_back(), f"not settled: {seen}")


def test_off_by_default(env):
    """404 with advice, and the preset takes no harm from it."""
    agent = start_agent(env, only=["pyrrha"])
    status, headers, body = http_get(f"{agent}/debug/pprof/offcpu?seconds=1")
    check(status == 404 and b"--off-cpu" in body and headers["X-Go-Pprof"] == "1", f"{status} {headers} {body!r}")
    check(b"offcpu" not in http_get(f"{agent}/debug/pprof/")[2], "the index lists what there is")
    server = Server(env, f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: agent
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}']}}]
""")
    wait_until("off_cpu is said to be off", lambda: [t.get("note") for t in server.targets() if t["profile"] == "off_cpu"] ==
               ["not served there (HTTP status 404): off-CPU profiles are off: start the agent with --off-cpu"], 40)
    wait_until("on_cpu is there", lambda: server.value('profile_up{job="agent", profile="on_cpu"}') == 1, 40)
    wait_until("the target is up", lambda: server.value('up{job="agent"}') == 1, 40)
    check(server.value('min_over_time(up{job="agent"}[5m])') == 1, "it was never down")
    check(server.value('count(profile_up{profile="off_cpu"})') is None, "nothing is told of what is off by design")
    check(all(t["lastError"] == "" for t in server.targets()), f"{server.targets()}")


@slow
def test_server(env):
    """The preset scrapes waits as off_cpu; a plain job that asks for the path gets off_cpu as well."""
    comm = f"fix_s{os.getpid()}"  # other runs of this test have theirs
    # On a busy host the budget for stacks goes to others: not what is tested here.
    agent = start_agent(env, "--off-cpu", "--max-cost=1", only=[comm])
    waiter = c_program(env, comm, WAITER, "-pthread")
    server = Server(env, f"""
global: {{scrape_interval: 2s, scrape_timeout: 60s}}
scrape_configs:
  - job_name: agent
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}']}}]
  - job_name: plain
    profiling_config:
      pprof_config:
        process_cpu: {{enabled: true, path: /debug/pprof/offcpu}}
        memory: {{enabled: false}}
        goroutine: {{enabled: false}}
        mutex: {{enabled: false}}
        block: {{enabled: false}}
    static_configs: [{{targets: ['{agent.split("//")[1]}']}}]
""")
    Process(env, "fix_scraped", [waiter, "100000", "20000"])
    mine = f'off_cpu{{comm="{comm}", job="agent"}}'
    wait_until("its series", lambda: server.value(f"count({mine})") == 1, 120)
    query = f"merge({mine}[5m])"
    wait_until("its stacks", lambda: b"main;run;wait_sleep" in server.get("/api/v1/query", format="folded", query=query), 120)
    for state, least, most in (("blocked", 0.5, 1), ("runnable", 0, 0.5)):
        share = f'value(where(merge({mine}[5m]), {{state="{state}"}})) / value(merge({mine}[5m]))'
        got = server.value(share)
        print(f"{state}: {got}")
        check(least <= (got or 0) <= most, f"{state}: {got}")
    wait_until("the plain job", lambda: server.value('count(off_cpu{job="plain"})') == 1, 120)
    check(server.value('count({__name__=~"process_cpu.*"})') is None, "nothing of the agent is process_cpu")
