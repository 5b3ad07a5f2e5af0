# SPDX-License-Identifier: Apache-2.0
"""The agent while a thousand processes a second come and go and compilers run: nothing of it grows, no record of a
process is lost. PYRRHA_LONG: an hour."""
import os
import time

from harness import LONG, Process, check, http_get, slow, wait_until
from test_agent import c_program, start_agent
from test_agent_mix import counters, grown, start_compiling

WARM, SECONDS = (660, 3600) if LONG else (24, 8)

# argv[1] times a second, as far as the machine can; says how many there were.
EXECS = r"""
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
extern char **environ;
int main(int argc, char **argv)
{
	struct timespec t;
	long n = 0, rate = strtol(argv[1], NULL, 10);
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (;; n++) {
		pid_t pid;
		char *args[] = { argv[2], NULL };
		if (posix_spawn(&pid, argv[2], NULL, NULL, args, environ))
			return 1;
		waitpid(pid, NULL, 0);
		if (n % 10 == 0) {
			printf("%ld\n", n);
			fflush(stdout);
		}
		t.tv_nsec += 1000000000 / rate;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
}
"""

SHORT = "volatile int x; int main(void) { for (int i = 0; i < 300000; i++) x += i; }\n"


def reading(agent, pid, execs):
    c = counters(agent)
    with open(f"/proc/{pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    lines = execs.text().split()
    return {"rss": rss, "fds": len(os.listdir(f"/proc/{pid}/fd")), "execs": int(lines[-1]) if lines else 0, "at": time.monotonic(),
            "tables": c["pyrrha_agent_unwind_chunk_bytes"] / 1024,
            "cpu": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + c["pyrrha_agent_sampling_seconds_total"],
            "counters": c, **{k: c["pyrrha_agent_" + k] for k in ("processes", "kernel_processes", "images", "kernel_map_bytes")}}


def grown_since(a, b):
    """What is more than it should be. A new program brings its image, with up to four descriptors: the file, its
    symbols, its debug information, and one that waits to be read. It also brings names and unwind tables, which are mapped
    from the kernel and limited there."""
    programs = max(0, b["images"] - a["images"])
    room = {"rss": 4096 + 64 * programs + max(0, b["tables"] - a["tables"]), "fds": 50 + 4 * programs, "images": 300,
            # What is known stays within what runs at a time and a drain or two.
            "processes": 200, "kernel_processes": 50}
    return [f"{k} grew from {a[k]:.0f} to {b[k]:.0f}" for k, more in room.items() if b[k] > a[k] + more]


@slow
def test_churn(env):
    # History that is full by the time of the first reading: that it grows until then is its purpose.
    agent = start_agent(env, *([] if LONG else ["--history=20s"]))
    pid = env.agent.p.pid
    start_compiling(env)
    execs = Process(env, "execs", [c_program(env, "churn_execs", EXECS), "1000", c_program(env, "churn_short", SHORT, "-static")])
    time.sleep(WARM)                 # not to wait for something, but to let it churn
    wait_until("the first processes have come and gone", lambda: len(execs.text().split()) > 1, 60)
    http_get(f"{agent}/debug/pprof/profile?seconds=2")
    a = reading(agent, pid, execs)
    time.sleep(SECONDS)
    seen = []

    def nothing_grew():
        http_get(f"{agent}/debug/pprof/profile?seconds=2")
        seen.append(reading(agent, pid, execs))
        more = grown_since(a, seen[-1])
        check(not more, "; ".join(more))
        return True

    # What others on this machine start between the two readings comes and goes; a leak stays, and grows on.
    try:
        wait_until("what grew goes back", nothing_grew, 120)
    finally:
        b = seen[-1]
        took = b["at"] - a["at"]
        share = (b["cpu"] - a["cpu"]) / took / os.cpu_count()
        print(f"churn: {(b['execs'] - a['execs']) / took:.0f} execs a second and two compilers for {took:.0f} s: {share:.2%} of the host")
        print("  " + ", ".join(f"{k} {a[k]:.0f} -> {b[k]:.0f}" for k in
                               ("rss", "fds", "processes", "kernel_processes", "images", "kernel_map_bytes")))
    check(b["execs"] > a["execs"], "processes came and went")
    stopped = grown(a["counters"], b["counters"], "pyrrha_agent_late_drains_total") > 0  # as a whole, for seconds
    for name in ("bad_records_total",) if stopped else ("lost_records_total", "bad_records_total", "lost_samples_total"):
        check(grown(a["counters"], b["counters"], "pyrrha_agent_" + name) == 0, f"{name}: {b['counters']}")
    check(b["rss"] <= 56 << 10, f"{b['rss']} kB of memory")
    check(b["kernel_map_bytes"] <= 40e6, f"{b['kernel_map_bytes']} bytes of kernel memory")
