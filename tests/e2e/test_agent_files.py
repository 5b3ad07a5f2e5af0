# SPDX-License-Identifier: Apache-2.0
"""2,000 different files one after the other, as on a host that builds and tests: the agent's tables stay what they are, and the last programs
are followed as well as the first. Each file has 32 unwind rules of its own, four times as many in all as the set of rules holds. Only with
PYRRHA_LONG (some ten minutes) or PYRRHA_FILES."""
import collections
import concurrent.futures
import math
import os
import subprocess
import threading

from harness import LONG, Skip, check, http_get
from pprof_file import Profile
from test_agent import start_agent
from test_agent_mix import counters

FILES = int(os.environ.get("PYRRHA_FILES", "2000" if LONG else "0"))
COMM = "files_program"
CALLED, OWN = 8, 32                  # functions in a stack; functions with a frame of their own
RULES = 1 << 14                      # RULES_MAX
EACH = 10                            # seconds of a profile

HEAD = """
	.text
	.globl	_start
	.type	_start, @function
_start:
	.cfi_startproc
	.cfi_undefined rip
	call	files_main
	mov	$60, %eax
	xor	%edi, %edi
	syscall
	.cfi_endproc
	.size	_start, .-_start
	.type	files_main, @function
files_main:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	sub	$16, %rsp
1:	call	files_0
	mov	$228, %eax
	mov	$2, %edi
	mov	%rsp, %rsi
	syscall
	cmpq	$0, (%rsp)
	jne	2f
	cmpq	$200000000, 8(%rsp)
	jb	1b
2:	leave
	.cfi_restore rbp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	files_main, .-files_main
	.type	files_leaf, @function
files_leaf:
	.cfi_startproc
	mov	$1000000, %ecx
1:	dec	%ecx
	jnz	1b
	ret
	.cfi_endproc
	.size	files_leaf, .-files_leaf
"""
# Its caller's rbp is in its frame, and is another one while it runs.
FUNCTION = """
	.type	{name}, @function
{name}:
	.cfi_startproc
	sub	${size}, %rsp
	.cfi_def_cfa_offset {size} + 8
	mov	%rbp, {at}(%rsp)
	.cfi_offset rbp, {at} - {size} - 8
	mov	$1, %ebp
	call	{next}
	mov	{at}(%rsp), %rbp
	.cfi_restore rbp
	add	${size}, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	{name}, .-{name}
"""
STACK = ["files_leaf", *(f"files_{i}" for i in reversed(range(CALLED))), "files_main", "_start"]


def frame(i):
    """The size of frame i and where rbp is in it: no two are alike."""
    n = (math.isqrt(8 * i + 1) - 1) // 2
    return (n + 2) * 8, (i - n * (n + 1) // 2) * 8


def make(env, k):
    """Program k, in a folder of its own because the agent tells programs by name."""
    folder = env.path(f"f{k}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, COMM)
    text = HEAD
    for i in range(OWN):
        size, at = frame(k * OWN + i)
        text += FUNCTION.format(name=f"files_{i}", size=size, at=at, next=f"files_{i + 1}" if i + 1 < CALLED else "files_leaf")
    subprocess.run(["as", "-o", path + ".o", "-"], input=text.encode(), check=True)
    subprocess.run(["ld", "--build-id", "--eh-frame-hdr", "-o", path, path + ".o"], check=True)
    os.unlink(path + ".o")
    return path


class Profiles(threading.Thread):
    """Profiles without a gap until they are stopped."""

    def __init__(self, agent):
        super().__init__(daemon=True)
        self.agent, self.stop, self.failed = agent, False, None
        self.whole, self.all, self.why = 0, 0, collections.Counter()

    def run(self):
        try:
            while not self.stop:
                self.take()
        except Exception as e:  # the test says so
            self.failed = e

    def take(self):
        status, _, body = http_get(f"{self.agent}/debug/pprof/profile?seconds={EACH}", timeout=EACH + 120)
        check(status == 200, f"HTTP {status}")
        for (frames, labels), v in Profile(body).stacks("cpu").items():
            if dict(labels).get("comm") != COMM:
                continue
            names = [f[0] for f in frames]
            user = next((i for i, name in enumerate(names) if name in STACK or name.startswith("[")), len(names)) # kernel frames come before
            self.all += v
            if names[user:] == STACK[len(STACK) - len(names) + user:]:
                self.whole += v
            else:
                self.why[names[-1] if names[-1].startswith("[") else ";".join(names[user:])] += v / 1e9


def reading(agent, pid):
    c = counters(agent)
    with open(f"/proc/{pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    return {"rss": rss, **{k: c["pyrrha_agent_" + k] for k in
                           ("images", "unwind_rules", "unwind_rules_freed_total", "unwind_rows", "unwind_chunk_bytes", "kernel_map_bytes",
                            "unwind_tables", "unwind_table_loads_total", "unwind_groups_total", "unwind_table_evictions_total")},
            "errors": {k: v for k, v in c.items() if k.startswith("pyrrha_agent_unwind_table_errors_total")}}


def run_all(paths):
    """One after the other, on each CPU."""
    shells = [subprocess.Popen(["sh", "-c", 'for p; do "$p" || exit 1; done', "sh", *paths[i::os.cpu_count()]]) for i in range(os.cpu_count())]
    check(all([p.wait() == 0 for p in shells]), "a program failed")


def grown_since(a, b):
    """What is more than it should be after 1,333 more files. Images are known for a minute, so their number, and that of their tables, depends on
    the machine; the sweeps leave some 350 tables at most. Names of 60,000 addresses are kept, which is part of the memory."""
    room = {"rss": 6144 + max(0, b["unwind_chunk_bytes"] - a["unwind_chunk_bytes"]) / 1024, "images": 600, "unwind_rules": RULES / 4,
            "unwind_rows": 350 * b["unwind_rows"] / b["unwind_tables"], "unwind_chunk_bytes": 2 << 20, "kernel_map_bytes": 2 << 20}
    return [f"{k} grew from {a[k]:.0f} to {b[k]:.0f}" for k, more in room.items() if b[k] > a[k] + more]


def test_two_thousand_files(env):
    if not FILES:
        raise Skip("takes some ten minutes: PYRRHA_LONG=1, or PYRRHA_FILES=300")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = list(pool.map(lambda k: make(env, k), range(FILES)))
    env.at_end(lambda: [os.unlink(path) for path in paths])
    # History that is full by the time of the first reading: that it grows until then is its purpose.
    # The tables of language runtimes are built whoever runs them, also beside this test.
    agent = start_agent(env, "--history=20s", "--runtimes=none", only=[COMM])
    pid, third, seen = env.agent.p.pid, FILES // 3, [reading(agent, env.agent.p.pid)]
    for n in range(3):
        p = Profiles(agent)
        p.start()
        run_all(paths[n * third:(n + 1) * third])
        seen.append(reading(agent, pid))
        p.stop = True
        p.join()
        check(not p.failed, f"a profile failed: {p.failed!r}")
        whole = p.whole / max(p.all, 1)
        print(f"after {(n + 1) * third} files: {whole:.1%} of {p.all / 1e9:.1f} s are whole stacks; others: {dict(p.why.most_common(6))}")
        print("  " + ", ".join(f"{k} {v:.0f}" for k, v in seen[-1].items() if k != "errors"), seen[-1]["errors"])
    check(whole >= 0.97, f"{whole:.1%} of the last stacks are whole: {dict(p.why)}")
    check(not seen[-1]["errors"], f"{seen[-1]['errors']}")
    for a, b in zip(seen, seen[1:]):
        built = b["unwind_table_loads_total"] - a["unwind_table_loads_total"]
        check(built <= third * 1.05 + 5, f"{built:.0f} tables were built for {third} files")
    if third * OWN > RULES:
        freed = seen[-1]["unwind_rules_freed_total"]
        check(freed >= FILES * OWN - RULES - 64, f"{freed:.0f} rules were freed, of {FILES * OWN}")
        more = grown_since(seen[1], seen[3])
        check(not more, "; ".join(more))
