# SPDX-License-Identifier: Apache-2.0
"""Names of what the agent samples: targets that would rather do harm. Needs root and eBPF."""
import bisect
import concurrent.futures
import gzip
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import threading
import time

from harness import Clock, Skip, TOP, check, free_port, http_get, in_a_chroot, need_a_mounted_root, slow, wait_until
from pprof_file import fields
from test_agent import profile, run, start_agent, wait_for_share

FIXTURES = os.path.join(TOP, "tests", "fixtures", "agent")
BUILD_ID = "0x" + "5ec7e7" * 6 + "5e5e"


def hostile_program(env):
    """The program, the library it loads, and one of the same build-id whose function is called decoy."""
    built = os.path.join(env.dir, "built")
    os.makedirs(built)
    cc = ["cc", "-O2", "-g0", "-D_GNU_SOURCE", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-I" + FIXTURES]
    program, library, decoy = (os.path.join(built, n) for n in ("hostile", "liblook.so", "decoy.so"))
    subprocess.run(cc + ["-o", program, os.path.join(FIXTURES, "hostile.c")], check=True)
    for path, name in ((library, "look"), (decoy, "decoy")):
        subprocess.run(cc + ["-shared", "-fPIC", "-DLOOK=" + name, "-Wl,--build-id=" + BUILD_ID, "-o", path,
                             os.path.join(FIXTURES, "look.c")], check=True)
    return program, library, decoy


def absurd(data, change):
    """A library's bytes with its ELF header or section headers changed."""
    data = bytearray(data)
    shoff, = struct.unpack_from("<Q", data, 0x28)
    n, = struct.unpack_from("<H", data, 0x3c)
    if change == "shoff":
        struct.pack_into("<Q", data, 0x28, 2**64 - 64)
    elif change == "sizes":
        for i in range(n):
            struct.pack_into("<Q", data, shoff + 64 * i + 32, 2**63 + 12345)
    elif change == "offsets":
        for i in range(n):
            struct.pack_into("<Q", data, shoff + 64 * i + 24, 2**64 - 8)
    elif change == "links":
        struct.pack_into("<HH", data, 0x3c, 0, 0xffff)
        for i in range(n):
            struct.pack_into("<II", data, shoff + 64 * i + 40, 0xfffffff0, 0xffffffff)
    return bytes(data)


def with_build_id(path, name):
    """A copy of a file with a build-id of its own, so that the agent takes no two for one."""
    new = os.path.join(os.path.dirname(path), f"{name}_{os.path.basename(path)}")
    with open(path, "rb") as f:
        data = f.read()
    old = bytes.fromhex(BUILD_ID[2:])
    check(data.count(old) == 1, "one build-id")
    with open(new, "wb") as f:
        f.write(data.replace(old, hashlib.sha1(name.encode()).digest()))
    return new


class Hostile:
    """A process in a root of its own. plant(path): puts something where in that root the library would be."""

    def __init__(self, env, program, library, name, plant, mode=""):
        self.root = os.path.join(env.dir, "root_" + name)
        for folder in ("proc", "tmp", os.path.dirname(library).lstrip("/")):
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        if plant:
            plant(os.path.join(self.root, library.lstrip("/")))
        self.env, self.comm = env, name
        self.program = os.path.join(env.dir, name)
        shutil.copy(program, self.program)
        self.process = run(env, name, [self.program, library, self.root, *([mode] if mode else [])])
        self.code = int(wait_until(f"{name} runs", self.said, 20), 16)
        self.pid = self.process.p.pid
        self.map = os.path.join(self.root, "tmp", f"perf-{self.pid}.map")

    def said(self):
        check(self.process.alive(), f"{self.comm} ended: {self.process.text()}")
        text = self.process.text()
        return text.strip() if text.endswith("\n") else None

    def names(self, agent, seconds):
        """What its generated code and its library's function are called, each a set; offsets are left out."""
        for _ in range(10):  # a busy machine may not let it run for the length of a pull
            stacks, _ = profile(self.env, agent, seconds, f'{{comm="{self.comm}"}}', file=self.comm)
            below = [f[f.index("main") + 1:] for f, _ in stacks if "main" in f and "usleep" not in f]
            below = [[re.sub(r"\+0x[0-9a-f]+$", "+", f) for f in fs[:2]] for fs in below if len(fs) >= 2]
            if below:
                break
        check(below, f"{self.comm}: no stack goes from main through generated code into the library: {stacks[:6]}")
        return {f[0] for f in below}, {f[1] for f in below}


def pull_all(targets, agent, seconds=2):
    """names() of all at the same time, by their comm."""
    with concurrent.futures.ThreadPoolExecutor(len(targets)) as pool:
        return dict(zip((t.comm for t in targets), pool.map(lambda t: t.names(agent, seconds), targets)))


@slow
def test_hostile_libraries(env):
    """By the kernel's own link the agent has the library that is mapped, whatever is in its place. Without that right it
    goes by names, and finds nothing outside of the target's root, waits for nothing, and believes no nonsense."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    need_a_mounted_root()
    program, library, decoy = hostile_program(env)

    def link(to):
        return lambda path, library, decoy: os.symlink(to(decoy), path)

    def write(change):
        def plant(path, library, decoy):
            with open(library, "rb") as f, open(path, "wb") as to:
                to.write(change(f.read()))
        return plant

    # What is planted, and what an agent that goes by names calls the function: the real library's name if it had to
    # look further; nothing if what was planted passes for the library (same build-id) but has no symbols.
    cases = {
        "h_nothing": (None, "look"),
        "h_outside": (link(lambda d: "../" * 40 + d.lstrip("/")), "look"),
        "h_absolute": (link(lambda d: d), "look"),
        "h_magic": (link(lambda d: "/proc/1/root" + d), "look"),
        "h_magic_exe": (link(lambda d: "/proc/1/exe"), "look"),
        "h_fifo": (lambda path, *_: os.mkfifo(path), "look"),
        "h_folder": (lambda path, *_: os.mkdir(path), "look"),
        "h_short": (write(lambda data: data[:40]), "look"),
        "h_decoy": (lambda path, library, decoy: shutil.copy(decoy, path), "decoy"),
        "h_headers": (write(lambda data: data[:4096]), None),
        "h_shoff": (write(lambda data: absurd(data, "shoff")), None),
        "h_sizes": (write(lambda data: absurd(data, "sizes")), None),
        "h_offsets": (write(lambda data: absurd(data, "offsets")), None),
        "h_links": (write(lambda data: absurd(data, "links")), None),
    }
    targets = []
    for name, (plant, _) in cases.items():
        mine, its = with_build_id(library, name), with_build_id(decoy, name)
        targets.append(Hostile(env, program, mine, name, plant and (lambda path: plant(path, mine, its))))
    by_name = ["setpriv", "--bounding-set=-checkpoint_restore,-sys_admin"]
    agents = [(start_agent(env, "--frequency=97", only=cases), True)]
    if in_a_chroot(env):
        print("# in a chroot: libraries are not looked for by name")
    else:
        agents.append((start_agent(env, "--frequency=97", only=cases, before=by_name), False))
    for agent, by_link in agents:
        for name, (code, look) in pull_all(targets, agent).items():
            expected = "look" if by_link else cases[name][1] or f"{name}_liblook.so+"
            check(code == {"[jit]+"} and look == {expected}, f"{name}, {by_link=}: {code} {look}, not {expected}")


def perfmap_reads(agent):
    """How readings of perf-maps ended, as the agent counts them."""
    text = http_get(agent + "/metrics")[2].decode()
    return {k: int(float(v)) for k, v in re.findall(r'^pyrrha_agent_perfmap_reads_total{result="(\w+)"} (\S+)$', text, re.M)}


@slow
def test_hostile_perfmaps(env):
    """A perf-map gives names if it is a file of the process's own user; whatever else it is costs a count."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    need_a_mounted_root()
    program, library, _ = hostile_program(env)
    ended = threading.Event()
    env.at_end(ended.set)

    def target(name, mode=""):
        return Hostile(env, program, with_build_id(library, name), name, None, mode)

    def put(t, path, line="{:x} 12 jit_code\n"):
        with open(path, "w") as f:
            f.write(line.format(t.code))

    def grow(path):
        while not ended.wait(0.05):
            with open(path, "a") as f:
                f.write("1 1 more\n" * 10000)

    good, prefixed, endless, fifo, link, magic, folder, other, large, absent = all_targets = [
        target("p_" + n) for n in "good prefixed endless fifo link magic folder other large absent".split()]
    put(good, good.map)
    put(prefixed, prefixed.map, "0x{:x} 0x12 jit_code\n")
    put(endless, endless.map)
    threading.Thread(target=grow, args=(endless.map,), daemon=True).start()
    os.mkfifo(fifo.map)
    put(link, link.map + ".real")
    os.symlink(os.path.basename(link.map) + ".real", link.map)
    put(magic, os.path.join(env.dir, "elsewhere"))
    os.symlink("/proc/1/root" + os.path.join(env.dir, "elsewhere"), magic.map)
    os.mkdir(folder.map)
    put(other, other.map)
    os.chown(other.map, 12345, 12345)
    put(large, large.map)
    with open(large.map, "a") as f:
        f.truncate(1 << 40)  # sparse
    expected = {t.comm: {"[jit]+"} for t in all_targets}
    for t in (good, prefixed, endless, large):
        expected[t.comm] = {"jit_code"}
    agent = start_agent(env, "--frequency=97", only=[*expected, "p_silent"])
    for name, (code, look) in pull_all(all_targets, agent).items():
        check(code == expected[name] and look == {"look"},
              f"{name}: {code} {look}, not {expected[name]}; {perfmap_reads(agent)}")
    reads = perfmap_reads(agent)
    # fifo, link, magic, folder
    check(reads["not_regular"] >= 4 and reads["other_owner"] >= 1 and reads["too_large"] >= 1 and reads["absent"] >= 1, str(reads))
    check(reads["failed"] == reads["timeout"] == reads["skipped"] == 0, str(reads))

    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse: a file system that never answers was not tried")
    silent = target("p_silent", "hang")
    for _ in range(2):
        both = pull_all([silent, good], agent)
        check(both == {"p_silent": ({"[jit]+"}, {"look"}), "p_good": ({"jit_code"}, {"look"})}, str(both))
    reads = perfmap_reads(agent)
    check(reads["timeout"] == 1 and reads["skipped"] >= 1, f"it was not waited for exactly once: {reads}")


ODD_PROGRAM = """
#include <sys/prctl.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline, noclone)) void odd_function(void) { for (int i = 0; i < 100000; i++) sink += i; }
int main(void) { prctl(PR_SET_NAME, "odd\\xff\\n\\"\\x01;{}"); for (;;) { odd_function(); sink++; } }
"""


@slow
def test_odd_bytes(env):
    """A thread's name, a function's and a file's that are no UTF-8: the profile's strings are, so that every reader takes it."""
    agent = start_agent(env)
    name = os.fsencode(env.path("odd_")) + b"\xfe\n'$(x)"
    with open(env.path("odd.c"), "w") as f:
        f.write(ODD_PROGRAM)
    subprocess.run(["cc", "-O1", "-Wl,--build-id=uuid", "-o", env.path("odd"), env.path("odd.c")], check=True)
    subprocess.run([b"objcopy", b"--redefine-sym", b"odd_function=odd\xf0\x28_function", os.fsencode(env.path("odd")), name], check=True)
    run(env, "odd", [name])
    wanted = {"odd\ufffd(_function", "odd\ufffd\n\"\x01;{}"}

    def seen():
        status, _, body = http_get(f"{agent}/debug/pprof/profile?seconds=1", timeout=120)
        check(status == 200, f"{status} {body[:200]!r}")
        strings = [v.decode() for k, v in fields(gzip.decompress(body)) if k == 6]  # decode() refuses what is not UTF-8
        check(wanted <= set(strings) and any("odd_\ufffd\n'$(x)" in s for s in strings),
              f"not all of {wanted}: {[s for s in strings if 'odd' in s]}")
        return True

    wait_until("all odd names are there", seen, 60)
    # Metrics and targets are text and JSON whatever runs here.
    check(http_get(agent + "/metrics")[2].decode().endswith("\n"), "metrics")
    json.loads(http_get(agent + "/targets.json")[2])


@slow
def test_a_server_that_stopped_answering(env):
    """Programs run from a file system whose server stops: the program's own, its root, below an overlay. One agent sees them
    start, another one finds them; neither waits, both have all three and everybody else's names."""
    if not os.path.exists("/dev/fuse"):
        raise Skip("no /dev/fuse")
    need_a_mounted_root()
    kernels = os.path.join(TOP, "tests", "kernels")
    silent, program, at = (os.path.join(env.dir, n) for n in ("silent", "program", "at"))
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", silent, os.path.join(kernels, "silent.c")], check=True)
    subprocess.run(["cc", "-O2", "-static", "-fno-omit-frame-pointer", "-o", program, os.path.join(kernels, "silent_program.c")],
                   check=True)
    os.makedirs(at)
    comms = ["s_run", "s_root", "s_over"]
    early = start_agent(env, "--frequency=97", only=[*comms, "s_other"])
    busy = busy_program(env, "s_other")
    run(env, "s_other", [busy])
    server = run(env, "silent", [silent, program, at, "run", comms[0], "chroot", comms[1], "overlay", comms[2]])
    wait_until("the programs run and nobody answers",
               lambda: "silent" in server.text() or check(server.alive(), server.text()), 60)
    for agent in (early, start_agent(env, "--frequency=97", only=[*comms, "s_other"])):
        for comm in comms:
            wait_until(f"samples of {comm}", lambda: profile(env, agent, 1, f'{{comm="{comm}"}}')[0], 60)
        wait_until("names of others", lambda: any("busy_leaf" in f for f, _ in profile(env, agent, 1, '{comm="s_other"}')[0]), 60)


@slow
def test_pprof_endpoints(env):
    """symbol, cmdline, index and errors as Go's net/http/pprof has them."""
    agent = start_agent(env)
    fixture = os.path.join(env.dir, "far.c")
    with open(fixture, "w") as f:
        f.write("volatile long x; __attribute__((noinline)) void far_away(void) { for (int i = 0; i < 100000; i++) x++; }\n"
                "void _start(void) { for (;;) far_away(); }\n")
    program = os.path.join(env.dir, "far")
    # No other program lies at this address.
    subprocess.run(["cc", "-O1", "-nostdlib", "-static", "-no-pie", "-fPIE", "-Wl,-Ttext-segment=0x200000000000", "-o", program,
                    fixture], check=True)
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    far = int(next(line.split()[0] for line in symbols.splitlines() if line.endswith(" far_away")), 16)
    run(env, "far", [program])
    for _ in range(10):
        stacks, _ = profile(env, agent, 1, '{comm="far"}')
        if any("far_away" in frames for frames, _ in stacks):
            break

    def ask(path, data=None):
        status, headers, body = http_get(agent + path, data=data)
        return status, headers, body.decode()

    plain = "text/plain; charset=utf-8"
    line = f"{far + 1:#x} far_away\n"
    for path, data in ((f"/debug/pprof/symbol?{far + 1:#x}", None), ("/debug/pprof/symbol", f"{far + 1:#x}".encode()),
                       (f"/debug/pprof/symbol?0x1+{far + 1}+zz+-1++{2**70}", None)):
        status, headers, text = ask(path, data)
        check((status, text, headers["Content-Type"]) == (200, "num_symbols: 1\n" + line, plain), f"{path} {data}: {status} {text!r}")
        check(headers["X-Content-Type-Options"] == "nosniff", str(headers))
    # In many programs at once: no telling which is meant.
    check(ask("/debug/pprof/symbol?0x1040+0x2000")[2] == "num_symbols: 1\n", ask("/debug/pprof/symbol?0x1040+0x2000")[2])
    status, headers, text = ask("/debug/pprof/cmdline")
    check(text.split("\0")[0].endswith("pyrrha-agent") and text.split("\0")[1].startswith("--web.listen-address=")
          and headers["Content-Type"] == plain, f"{headers} {text!r}")
    status, headers, text = ask("/debug/pprof/nothing")
    check((status, text, headers["X-Go-Pprof"], headers["Content-Type"]) == (404, "Unknown profile\n", "1", plain), f"{headers} {text}")
    status, headers, text = ask("/debug/pprof/profile?seconds=601")
    check((status, text, headers["X-Go-Pprof"]) == (400, "profile duration exceeds server's WriteTimeout\n", "1"), f"{headers} {text}")
    status, headers, text = ask("/debug/pprof")
    check(status == 200 and "<title>/debug/pprof/</title>" in text and headers["Content-Type"] == "text/html; charset=utf-8", text)


@slow
def test_history_cursor(env):
    """Windows are numbered without a gap, and a restart of the agent is another boot."""
    agent = start_agent(env, only=["none"])

    def ask(agent, begin, end):
        status, headers, _ = http_get(f"{agent}/debug/pprof/profile?from={begin}&to={end}")
        return status, headers["X-Pyrrha-Boot"], headers["X-Pyrrha-Windows"], headers["X-Pyrrha-Covered"]

    first = wait_until("a window is finished", lambda: (a := ask(agent, 0, 2**33)) and a[0] == 200 and a, 30)
    last = int(first[2].split("-")[1])
    end = int(first[3].split("-")[1]) // 1000
    check(re.fullmatch("[0-9a-f]{32}", first[1]) and first[2].startswith("1-") and end % 10 == 0, str(first))
    # What starts where the last answer ended is the next window, and nothing of it was in the last answer.
    then = wait_until("the next is", lambda: (a := ask(agent, end, end + 10)) and a[0] == 200 and a, 30)
    check(then[1] == first[1] and then[2] == f"{last + 1}-{last + 1}" and int(then[3].split("-")[0]) == end * 1000, f"{first} {then}")
    missing = ask(agent, 1000, 2000)
    check(missing[0] == 404 and missing[1] == first[1] and missing[2] is None, str(missing))
    check(ask(start_agent(env, only=["none"]), 1000, 2000)[1] != first[1], "a restart has the same boot id")


KERNEL_PROGRAM = """
#include <fcntl.h>
#include <unistd.h>
static char room[1 << 16];
int main(void) { int fd = open("/dev/zero", O_RDONLY); while (read(fd, room, sizeof room) > 0); return 1; }
"""


def located(body):
    """[(function of the outermost line or None, address, mapping)] of a profile's locations; a mapping is (start, limit, offset,
    file, build id)."""
    top = list(fields(gzip.decompress(body)))
    strings = [v.decode() for k, v in top if k == 6]
    functions = {f[1]: strings[f.get(2, 0)] for f in (dict(fields(v)) for k, v in top if k == 5)}
    mappings = {m[1]: (m.get(2, 0), m.get(3, 0), m.get(4, 0), strings[m.get(5, 0)], strings[m.get(6, 0)])
                for m in (dict(fields(v)) for k, v in top if k == 3)}
    out = []
    for k, v in top:
        if k == 4:
            rows = list(fields(v))
            lines = [dict(fields(x)) for n, x in rows if n == 4]
            location = dict((n, x) for n, x in rows if n != 4)
            out.append((functions[lines[-1][1]] if lines else None, location.get(3, 0), mappings.get(location.get(2))))
    return out


def code_segment(path):
    """(start, limit, offset) of the PT_LOAD that is executable, page-aligned as it is mapped."""
    said = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    offset, vaddr, _, _, size = (int(n, 16) for n in re.search(r"LOAD +(\S+) (\S+) (\S+) (\S+) (\S+) R E", said).groups())
    return vaddr & ~4095, (vaddr + size + 4095) & ~4095, offset & ~4095


def test_addresses_and_mappings(env):
    """What a pprof with the file at hand goes by: addresses are those of the ELF file, mappings its segments with its build-id; a
    file without one has brackets, and the kernel's addresses count from _stext."""
    agent = start_agent(env, only=["m_pie", "m_exec", "m_none", "m_kernel"])
    for name, flags in (("m_pie", ["-fPIE", "-pie"]), ("m_exec", ["-no-pie"]), ("m_none", ["-Wl,--build-id=none"])):
        program = busy_program(env, name, *flags)
        symbols = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout
        begin, size = (int(n, 16) for n in re.search(r"^(\S+) (\S+) T busy_leaf$", symbols, re.M).groups())
        mapping = (*code_segment(program), program, build_id_of(program)) if name != "m_none" else \
            (*code_segment(program), f"[{program}]", "")
        run(env, name, [program])

        def right(name=name, begin=begin, size=size, mapping=mapping):
            _, _, body = http_get(f"{agent}/debug/pprof/profile?seconds=1&match[]=%7Bcomm%3D%22{name}%22%7D", timeout=120)
            mine = [x for x in located(body) if x[0] == "busy_leaf"]
            check(mine, "no samples")
            check(all(begin <= at < begin + size and m == mapping for _, at, m in mine), f"{mine}, not in {begin:#x}+{size:#x} of {mapping}")
            return True

        wait_until(f"addresses of {name}", right, 60)
    with open(env.path("m_kernel.c"), "w") as f:
        f.write(KERNEL_PROGRAM)
    subprocess.run(["cc", "-o", env.path("m_kernel"), env.path("m_kernel.c")], check=True)
    run(env, "m_kernel", [env.path("m_kernel")])
    with open("/proc/kallsyms") as f:
        known = sorted((int(x[0], 16), x[2]) for x in (line.split() for line in f) if x[1] in "tTwW")
    stext = next(at for at, name in known if name == "_stext")
    at = [a for a, _ in known]

    def kernel():
        _, _, body = http_get(f"{agent}/debug/pprof/profile?seconds=1&match[]=%7Bcomm%3D%22m_kernel%22%7D", timeout=120)
        mine = [x for x in located(body) if x[2] and x[2][3] == "[kernel]" and x[0] and "[" not in x[0]]  # modules come and go
        check(len(mine) > 3, f"{len(mine)} kernel locations")
        for name, address, m in mine:
            check(m[:3] == (0, 1 << 32, 0), str(m))
            nearest = at[bisect.bisect_right(at, stext + address) - 1]
            names = [n for a, n in known[bisect.bisect_left(at, nearest):bisect.bisect_right(at, nearest)]]
            check(address and name in names, f"{name} at _stext + {address:#x}, where {names} is")
        return True

    wait_until("addresses of the kernel", kernel, 60)


@slow
def test_clock_steps(env):
    """The wall clock is set ahead and back while the agent runs, as it is after a sleep of the machine: profiles have the time
    that it is then, the history has no gap, nothing twice, and windows that begin at tens of seconds of the new time."""
    clock = Clock(env, "pyrrha-agent")
    started = time.monotonic()
    agent = start_agent(env, only=["none"], before=list(clock.under))
    ready = time.monotonic()             # on a busy machine half a minute later

    def ask(query):
        status, headers, body = http_get(f"{agent}/debug/pprof/profile?{query}", timeout=120)
        top = dict((k, v) for k, v in fields(gzip.decompress(body)) if k in (9, 10)) if status == 200 else {}
        covered = [int(t) / 1000 for t in headers["X-Pyrrha-Covered"].split("-")] if status == 200 else None
        numbers = [int(n) for n in (headers["X-Pyrrha-Windows"] or "0-0").split("-")]
        return status, top.get(9, 0) / 1e9, top.get(10, 0) / 1e9, covered, numbers

    off = 0
    for hours in (1, 0):
        off = hours * 3600 + 60 + 9 - int(time.time()) % 10  # a whole window begins soon
        clock.set(off)
        asked = time.time() + off
        _, begin, length, covered, _ = ask("seconds=1")
        check(asked - 0.1 <= begin <= time.time() + off and abs(length - 1) < 0.001, f"{off=}: {begin - asked} s after it was asked for, {length} s")
        check(abs(covered[0] - begin) < 0.001 and abs(covered[1] - begin - 1) < 0.001, f"{off=}: {covered}")
        # The first whole window by the new clock.
        first = int(asked) // 10 * 10 + 10

        def whole(first=first):
            status, begin, length, covered, _ = ask(f"from={first}&to={first + 10}")
            return status == 200 and (begin, length, covered)

        begin, length, covered = wait_until(f"a whole window, {off} s off", whole, 60)
        check(abs(begin - first) < 0.001 and abs(length - 10) < 0.3 and abs(covered[1] - first - 10) < 0.3, f"{off=}: {begin} {length} {covered}")
    # Every window since the start, numbered one after the other; together as long as it was.
    def together():
        _, _, length, covered, numbers = ask(f"from=0&to={2**33}")
        now = time.monotonic()
        check(numbers[0] == 1 and numbers[1] >= 4, f"{numbers}")
        check(now - ready - 25 < length <= now - started and abs(covered[1] - time.time() - off) < 25, f"{length} {now - ready} {now - started} {covered} {time.time()}")
        return True

    wait_until("the history is as long as the agent runs", together, 30)


def build_id_of(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return re.search("Build ID: ([0-9a-f]+)", notes).group(1)


def source_lines(env, agent, comm):
    """(function, file, line) of all locations of a process's profile."""
    profile(env, agent, 1, f'{{comm="{comm}"}}', file="lines")
    with gzip.open(os.path.join(env.dir, "lines.pb.gz")) as f:
        top = list(fields(f.read()))
    strings = [v.decode() for k, v in top if k == 6]
    functions = {}
    for k, v in top:
        if k == 5:
            f = dict(fields(v))
            functions[f[1]] = strings[f.get(2, 0)], os.path.basename(strings[f.get(4, 0)])
    lines = set()
    for k, v in top:
        for k2, line in fields(v) if k == 4 else ():
            if k2 == 4:
                line = dict(fields(line))
                lines.add((*functions[line[1]], line.get(2, 0)))
    return lines


def busy_program(env, name, *flags):
    """A program that is in busy_leaf whenever it works, a quarter of its time; with debug information."""
    path = os.path.join(env.dir, name)
    with open(path + ".c", "w") as f:
        f.write("volatile long x;\nint usleep(unsigned);\n__attribute__((noinline)) void busy_leaf(void)\n{\n\tfor (int i = 0; i < 3000000; i++)\n"
                "\t\tx++;\n}\n\nint main(void)\n{\n\tfor (;; usleep(12000))\n\t\tbusy_leaf();\n}\n")
    subprocess.run(["cc", "-O1", "-g", "-Wl,--build-id=uuid", *flags, "-o", path, path + ".c"], check=True)
    return path


GO_PROGRAM = """package main

import "os"

func inlined(n int) int {
	s := n * len(os.Args)
	for i := 0; i < 1000; i++ {
		s += i ^ s
	}
	return s
}

//go:noinline
func outer(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += inlined(i)
	}
	return s
}

func main() {
	for {
		println(outer(100000))
	}
}
"""


@slow
def test_go_stripped(env):
    """A Go program without symbols and debug information, as most that are shipped: inlined calls and lines are there."""
    if not shutil.which("go"):
        raise Skip("no go")
    with open(env.path("main.go"), "w") as f:
        f.write(GO_PROGRAM)
    program = env.path("go_stripped")
    subprocess.run(["go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, env.path("main.go")], check=True,
                   env=dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", CGO_ENABLED="0"))
    agent = start_agent(env, only=["go_stripped"])
    run(env, "go_stripped", [program])
    wait_for_share(env, agent, "the inlined call", '{comm="go_stripped"}', 0.8, "^main.main$", "^main.outer$", "^main.inlined$")

    def lines_of_all():
        """A profile of a busy machine may have too few samples for all three."""
        lines = source_lines(env, agent, "go_stripped")
        check({line for f, _, line in lines if f == "main.outer"} == {17}, str(lines))
        check({line for f, _, line in lines if f == "main.main"} == {24}, str(lines))
        check({line for f, _, line in lines if f == "main.inlined"} & {7, 8}, str(lines))
        return True
    wait_until("the lines of all three", lines_of_all, 60)


@slow
def test_debuginfod_server(env):
    """Debian's debuginfod-find gets programs that run, if everybody may read them, and nothing without the flag."""
    find = shutil.which("debuginfod-find")
    if not find:
        raise Skip("no debuginfod-find")
    agent = start_agent(env, "--web.enable-debuginfod", only=["b_public", "b_private"])
    program, private = busy_program(env, "b_public"), busy_program(env, "b_private")
    os.chmod(private, 0o700)
    for p in (program, private):
        run(env, os.path.basename(p), [p])

    def ask(kind, build_id, server=agent):
        cache = os.path.join(env.dir, "cache")
        shutil.rmtree(cache, ignore_errors=True)  # it remembers what was not found
        said = subprocess.run([find, kind, build_id], capture_output=True, text=True,
                              env=dict(os.environ, DEBUGINFOD_URLS=server, DEBUGINFOD_CACHE_PATH=cache))
        if said.returncode:
            return None
        with open(said.stdout.strip(), "rb") as f:
            return f.read()

    with open(program, "rb") as f:
        whole = f.read()
    got = wait_until("the program was sampled", lambda: ask("executable", build_id_of(program)), 30)
    check(got == whole, "another executable")
    check(ask("debuginfo", build_id_of(program)) == whole, "another debuginfo")
    for _ in range(10):
        if any("busy_leaf" in f for f, _ in profile(env, agent, 1, '{comm="b_private"}')[0]):
            break
    check(ask("executable", build_id_of(private)) is None and ask("debuginfo", build_id_of(private)) is None,
          "a program that only root may read was served")
    check(ask("executable", "0123456789abcdef") is None, "a program that nobody has was served")
    for path in ("/buildid/../executable", "/buildid/0123/source/etc/passwd", "/buildid/xyz/executable"):
        check(http_get(agent + path)[0] == 404, path)
    check(http_get(f"{start_agent(env, only=['none'])}/buildid/{build_id_of(program)}/executable")[0] == 404, "served without the flag")


@slow
def test_debuginfod_client(env):
    """A stripped program gets its names and lines from a debuginfod server; one that no server has keeps addresses."""
    if not shutil.which("debuginfod"):
        raise Skip("no debuginfod")
    files = os.path.join(env.dir, "files")
    os.makedirs(files)
    # Without the C library, whose debug information may be here, and large: files are read one after the other.
    known, unknown = (busy_program(env, name, "-static") for name in ("d_known", "d_unknown"))
    for p in (known, unknown):
        subprocess.run(["objcopy", "--only-keep-debug", p, p + ".debug"], check=True)
        subprocess.run(["strip", p], check=True)
    os.rename(known + ".debug", os.path.join(files, "known.debug"))
    port = free_port()
    run(env, "debuginfod", ["debuginfod", "-F", "-p", str(port), "-d", os.path.join(env.dir, "debuginfod.sqlite"), files])
    url = f"http://127.0.0.1:{port}"
    wait_until("debuginfod has the file", lambda: http_get(f"{url}/buildid/{build_id_of(known)}/debuginfo")[0] == 200, 60)
    cache = os.path.join(env.dir, "agent-cache")
    os.makedirs(cache)
    agent = start_agent(env, f"--debuginfod-urls={url}", f"--cache-dir={cache}", "--filter-comm=d_known", "--filter-comm=d_unknown")
    for p in (known, unknown):
        run(env, os.path.basename(p), [p])

    def frames(name):
        return {f for fs, _ in profile(env, agent, 1, f'{{comm="{name}"}}')[0] for f in fs}

    wait_until("names of the stripped program", lambda: {"main", "busy_leaf"} <= frames("d_known"), 60)
    lines = wait_until("its lines", lambda: (a := source_lines(env, agent, "d_known")) and ("busy_leaf", "d_known.c", 6) in a and a, 120)
    check(("main", "d_known.c", 12) in lines, str(lines))
    def asked():
        check("busy_leaf" not in frames("d_unknown"), "a name that nobody could know")
        return re.search(r'debuginfod_requests_total{result="absent"} [1-9]', http_get(agent + "/metrics")[2].decode())

    wait_until("the server was asked for the other one", asked, 120)
    check(re.search(r'debuginfod_requests_total{result="found"} [1-9]', http_get(agent + "/metrics")[2].decode()), "none found?")
