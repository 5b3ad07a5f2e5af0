# SPDX-License-Identifier: Apache-2.0
"""What the agent leaves out in the kernel: control groups made by hand, processes, names. Needs root and eBPF."""
import concurrent.futures
import os

from harness import Process, Skip, check, http_get, slow, wait_until
from test_agent import c_program, start_agent
from test_offcpu import folded, metric

# Uses some of a CPU, so that many at once leave room for the agent on a small machine.
BURNER = """
#include <time.h>
volatile unsigned long sink;
int main(void)
{
    struct timespec nap = { 0, 5000000 };
    for (;;) {
        for (int i = 0; i < 1000000; i++) sink += i * 7ul;
        nanosleep(&nap, NULL);
    }
}
"""
KEPT, DROP, NAME = ([f"{test}_{who}" for who in ("in", "out", "late")] for test in ("kept", "drop", "name"))


def hierarchy():
    """Where control groups are made here: the memory controller's hierarchy, or the unified one."""
    with open("/proc/cgroups") as f:
        v1 = any(line.split()[0] == "memory" and line.split()[1] != "0" for line in f)
    with open("/proc/self/mountinfo") as f:
        for line in f:
            head, tail = line.split(" - ")
            kind, _, options = tail.split()[:3]
            if kind == "cgroup" and "memory" in options.split(",") if v1 else kind == "cgroup2":
                return head.split()[4]
    raise Skip("no control groups are mounted")


class Group:
    """A control group below one of ours, gone at the test's end."""

    def __init__(self, env, path):
        self.path, self.root = f"/pyrrha-{os.getpid()}/{path}", hierarchy()
        try:
            self.make(env)
        except PermissionError as e:
            raise Skip(f"control groups cannot be made here: {e}") from None

    def make(self, env):
        full = self.root
        for part in self.path.strip("/").split("/"):
            full = os.path.join(full, part)
            if not os.path.isdir(full):
                os.mkdir(full)
                env.at_end(lambda d=full: self.remove(d))

    @staticmethod
    def remove(path):
        try:
            os.rmdir(path)
        except OSError:
            pass

    def add(self, process):
        with open(self.root + self.path + "/cgroup.procs", "w") as f:
            f.write(str(process.p.pid))


def burn(env, name, group=None):
    """A program that burns CPU, in that group."""
    p = Process(env, name, [c_program(env, name, BURNER)])
    if group:
        group.add(p)
    return p


def names(env, agent, programs, path="profile"):
    """Which of these programs are in a profile. (Other tests run at the same time: each has names of its own.)"""
    def pull(name):
        status, _, body = http_get(f"{agent}/debug/pprof/{path}?seconds=1&match[]=%7Bcomm=%22{name}%22%7D", timeout=60)
        check(status == 200, f"HTTP {status}: {body[:300]!r}")
        return body

    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        return {name for name, body in zip(programs, pool.map(pull, programs)) if folded(env, body)}


def wait_for_names(env, agent, programs, want):
    def are_there():
        got = names(env, agent, programs)
        check(got == want, f"{got}, not {want}")
        return True
    wait_until("the programs are there", are_there)


def filtered(agent, by):
    return metric(agent, f'pyrrha_agent_filtered_samples_total{{by="{by}"}}')


def test_cgroup_kept(env):
    """Only a group and what is below it, also if it is made after the start; the rest is not even unwound."""
    kept, inner, other = Group(env, "kept"), Group(env, "kept/inner/most"), Group(env, "other")
    late = f"/pyrrha-{os.getpid()}/late"
    agent = start_agent(env, f"--filter-cgroup={kept.path}", f"--filter-cgroup={late}", "--frequency=97", "--max-cost=1")
    burn(env, "kept_out", other)
    wait_until("samples are left out", lambda: filtered(agent, "cgroup") > 10)
    check(metric(agent, "pyrrha_agent_samples_total") == 0, "what is left out was sampled")
    check(metric(agent, "pyrrha_agent_frames_total") == 0, "what is left out was unwound")
    burn(env, "kept_in", inner)
    burn(env, "kept_late", Group(env, "late"))
    wait_for_names(env, agent, KEPT, {"kept_in", "kept_late"})
    check(metric(agent, 'pyrrha_agent_filters{by="cgroup"}') == 2, "two entries")


@slow
def test_cgroup_dropped(env):
    """All but a group; a group in it may be kept all the same."""
    drop, kept = Group(env, "drop"), Group(env, "drop/but")
    agent = start_agent(env, f"--filter-cgroup=!{drop.path}", "--frequency=97", "--max-cost=1", "--off-cpu")
    burn(env, "drop_out", drop)
    burn(env, "drop_in")
    wait_until("samples are left out", lambda: filtered(agent, "cgroup") > 10)
    wait_for_names(env, agent, DROP, {"drop_in"})
    check("drop_out" not in names(env, agent, DROP, "offcpu"), "its waits are left out, too")
    burn(env, "drop_late", kept)
    before = filtered(agent, "cgroup")
    wait_until("the group below is left out, too", lambda: filtered(agent, "cgroup") > before + 10)
    check(names(env, agent, DROP) == {"drop_in"}, "only the one in no such group")


@slow
def test_process_and_name(env):
    """By process and by name, kept and dropped; all kinds must be passed."""
    out = burn(env, "name_out")
    burn(env, "name_in")
    burn(env, "name_late")
    agent = start_agent(env, f"--filter-pid=!{out.p.pid}", "--filter-comm=name_in", "--filter-comm=name_out",
                        "--frequency=97", "--max-cost=1")
    wait_for_names(env, agent, NAME, {"name_in"})
    check(filtered(agent, "pid") > 0 and filtered(agent, "comm") > 0, "both kinds count")


def test_bad_values(env):
    """A value that cannot be one ends the start."""
    for flag, words in (("--filter-cgroup=nginx.service", "is not a path"), ("--filter-pid=none", "is not the number"),
                        ("--filter-comm=a-name-that-is-too-long", "15 bytes")):
        p = Process(env, "bad", [env.program("pyrrha-agent"), "--web.listen-address=127.0.0.1:0", flag])
        p.p.wait(60)
        if "CAP_BPF" in p.text() or "pid namespace" in p.text():
            raise Skip("eBPF is not permitted here")
        check(p.p.returncode != 0 and words in p.text(), f"{flag}: {p.text()}")
