# SPDX-License-Identifier: Apache-2.0
"""Lines of a program with a great deal of debug information, in a control group with little memory. Needs root and eBPF."""
import os
import re
import subprocess

from harness import LONG, Skip, check, http_get, slow, wait_until
from test_agent import profile, run, start_agent
from test_agent_filter import Group
from test_agent_symbols import source_lines

FUNCTIONS = 500
# Copies of a unit of 0.9 MB, and the memory: less than the unit and the manifest allow, or in proportion.
COPIES, MEMORY = (450, 256 << 20) if LONG else (80, 62 << 20)
MAIN = """volatile long x;
static inline __attribute__((always_inline)) void big_inlined(int n) { for (int i = 0; i < n; i++) x += i; }
__attribute__((noinline)) void big_leaf(void)
{
	big_inlined(100000);
}
void _start(void) { for (;;) big_leaf(); }
"""


def unit_text():
    lines = ["volatile long sink;"]
    for i in range(FUNCTIONS):
        lines += [f"struct s{i} {{ int a{i}; long b{i}; struct s{max(i - 1, 0)} *p{i}; }};",
                  f"static inline __attribute__((always_inline)) long in{i}(struct s{i} *s, int n)", "{", "\tlong r = s->b%d;" % i,
                  "\tfor (int k = 0; k < n; k++)", f"\t\tr += s->a{i} * k;", "\treturn r;", "}",
                  f"void out{i}(struct s{i} *s)", "{", f"\tsink += in{i}(s, {i});", f"\tsink += in{i}(s + 1, 3);", "}"]
    return "\n".join(lines) + "\n"


def large_program(env, name):
    """A program that is always in big_leaf."""
    cc = ["cc", "-g", "-gz=none", "-O1"]
    for source, text in (("unit.c", unit_text()), ("main.c", MAIN)):
        with open(env.path(source), "w") as f:
            f.write(text)
        subprocess.run([*cc, "-c", "-o", env.path(source + ".o"), env.path(source)], check=True)
    copies = []
    for i in range(COPIES):
        copies.append(env.path(f"copy{i}.o"))
        subprocess.run(["objcopy", f"--prefix-symbols=p{i}_", env.path("unit.c.o"), copies[-1]], check=True)
    subprocess.run([*cc, "-nostdlib", "-static", "-Wl,--build-id=uuid", "-o", env.path(name), env.path("main.c.o"), *copies], check=True)
    for path in copies:
        os.unlink(path)
    return env.path(name)


def bounded_group(env, name, limit):
    group = Group(env, name)
    for file in ("memory.limit_in_bytes", "memory.max"):
        path = group.root + group.path + "/" + file
        if os.path.exists(path):
            with open(path, "w") as f:
                f.write(str(limit))
            return group
    raise Skip("no memory controller for groups of our own")


def reads(agent):
    text = http_get(agent + "/metrics")[2].decode()
    return {k: int(float(v)) for k, v in re.findall(r'^pyrrha_agent_debug_info_reads_total{result="(\w+)"} (\S+)$', text, re.M)}


@slow
def test_large_debug_information(env):
    """All lines and inlined calls, nothing killed, and after a restart they are there at once."""
    group = bounded_group(env, "memory", MEMORY)
    program = large_program(env, "big")
    folder = env.path("cache")
    flags = [f"--cache-dir={folder}", "--filter-comm=big", "--max-cost=1"]
    in_group = ["sh", "-c", f'echo $$ >{group.root}{group.path}/cgroup.procs && exec "$@"', "sh"]
    agent = start_agent(env, *flags, before=[*in_group, "env", f"TMPDIR={env.dir}"])
    run(env, "big", [program])

    def has_lines():
        lines = source_lines(env, agent, "big")
        return {("big_leaf", "main.c", 5), ("big_inlined", "main.c", 2)} <= lines and lines

    wait_until("lines of the large program", has_lines, 300 if LONG else 120)
    check(reads(agent)["failed"] == 0 and reads(agent)["partly"] == 0 and reads(agent)["read"] >= 1, str(reads(agent)))
    check(any(n.endswith(".dwarf") for n in os.listdir(folder)), "the index is kept")
    env.agent.terminate()
    agent = start_agent(env, *flags)

    def at_once():
        profile(env, agent, 1, '{comm="big"}')
        return reads(agent).get("kept")

    wait_until("the index is taken from where it is kept", at_once, 60)
    check(has_lines() and reads(agent).get("read", 0) == 0, str(reads(agent)))
