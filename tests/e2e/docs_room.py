# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a page: in namespaces of its own, above all files of the machine, without a network but loopback (tests/docs/room.sh). The
programs of the build are on PATH, and stand-ins (tests/docs/stand-ins) for what a room has not: systemd, Docker, a cluster, the right to change the
kernel. Needs root and overlayfs."""
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import time

from docs_pages import STAND_INS
from harness import TOP, Skip, check, patience, run, wait_until

HERE = os.path.join(TOP, "tests", "docs")
READER = "/srv/reader"
# Without these a page's test is skipped; any other unknown command is an error of the page.
OPTIONAL = "go promtool nginx grafana-server buildah docker-compose htpasswd jq openssl curl git gcc cc java node python3 npm systemd-analyze".split()
NEEDED_BY = {"docker": ["/usr/bin/docker-compose"], "docker-compose": ["/usr/bin/docker-compose"], "systemctl": ["/usr/bin/systemd-analyze"],
             "systemd-analyze": ["/usr/bin/systemd-analyze"]}  # of stand-ins
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


def need_rooms():
    if os.geteuid() != 0:
        raise Skip("a room for the commands of a page needs root")
    for program in ("unshare", "ip", "pivot_root"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise Skip("no " + program)
    code, said = run(["unshare", "-n", "-m", "sh", "-c", "d=$(mktemp -d) && mount -t tmpfs x $d && mkdir $d/u $d/w $d/r && "
                      "mount -t overlay x -o lowerdir=/,upperdir=$d/u,workdir=$d/w $d/r; s=$?; umount -l $d; rmdir $d; exit $s"])
    if code:
        raise Skip("no namespaces, or no overlayfs: " + said.strip()[-200:])


def complete(text):
    """Whether a shell has all of a command: quotes, loops and here-documents are closed."""
    for m in re.finditer(r"<<(-?)\s*(['\"]?)(\w+)\2", text):
        blanks = r"[ \t]*" if m.group(1) else ""
        if not re.search(f"^{blanks}{m.group(3)}$", text[m.end():], re.M):
            return False
    return not text.endswith("\\") and subprocess.run(["bash", "-n"], input=text + "\n", text=True, capture_output=True).returncode == 0


def script(fence):
    """The commands of a fence as the shell reads them: each is followed by a look at its status, and preceded by its place."""
    lines, part, begin = [], [], 0
    if fence.marks.get("setup"):
        lines += [f"told_at='{fence.where} (setup)'", fence.marks["setup"], 'told_status "${PIPESTATUS[@]}"']
    for number, line in enumerate(fence.body, fence.line + 1):
        begin = begin if part else number
        part.append(line)
        if not "".join(part).strip():
            part = []
        elif complete("\n".join(part)):
            lines += [f"told_at='{fence.page}:{begin}'", *part, 'told_status "${PIPESTATUS[@]}"']
            part = []
    check(not part, f"{fence.page}:{begin}: this command has no end")
    return "\n".join(lines) + "\n"


def pattern(line):
    """A line of shown output, loosely. A number alone, such as an HTTP status, is meant as it is."""
    if re.fullmatch(r"\d+", line.strip()):
        return rf"^{line.strip()}$"
    text = re.sub(r"\s+", " ", line.strip().replace("…", "..."))
    parts = re.findall(r"\.\.\.| |\b[0-9a-f]{16,}\b|\d[\d.,:]*|[^\d .]+?(?=[\d .]|\b[0-9a-f]{16,}\b|$)|\.", text)
    return "".join(r"\s*" if p == " " else ".*" if p == "..." else r"[0-9a-f]+" if re.fullmatch("[0-9a-f]{16,}", p) else
                   r"[\d.,:]+" if p[0].isdigit() else re.escape(p) for p in parts)


def missing_line(shown, printed):
    """The first line of what a page shows that was not printed after those before it; None if all were."""
    lines = iter(re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines())
    for line in shown:
        if line.strip() not in ("", "...", "…") and not any(re.search(pattern(line), printed_line) for printed_line in lines):
            return line
    return None


class Room:
    def __init__(self, env, fences):
        need_rooms()
        self.env, self.fences, self.number, self.background = env, fences, 0, {}
        marks = {k: v for f in reversed(fences) for k, v in f.marks.items()}
        self.demo = [a for f in fences for a in f.marks.get("demo", "").split(",") if a]
        self.told = env.path("told")
        os.makedirs(self.told)
        self.path = self.programs()
        self.need()
        folder = TOP if marks.get("at") == "source" else READER
        addresses = sorted({a.rsplit(":", 1)[0] for a in self.demo} - {"127.0.0.1", "localhost"})
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)  # what is left behind becomes a child of this process
        env.at_end(self.end_all)
        self.log = open(env.path("room.log"), "wb")
        self.shell = subprocess.Popen(["unshare", "-n", "-m", "--propagation", "private", "bash", os.path.join(HERE, "room.sh"), env.dir, TOP, env.build, folder, *addresses],
                                      stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, env=self.variables(), start_new_session=True)
        self.say(f". {TOP}/tests/docs/shell.sh")
        for i, address in enumerate(self.demo):
            env.echoserver()
            self.say(f"setsid {TOP}/build/tests/echoserver -listen {address} -load 2 -pause 60ms >/run/told/demo{i}.log 2>&1 </dev/null &")
            wait_until("the demo program listens", lambda i=i: self.shell.poll() is not None or "listening on " in self.read(f"demo{i}.log"), 60)

    def programs(self):
        """The words of PATH: stand-ins first, then our programs without all else that a build directory has."""
        own = self.env.path("bin")
        os.makedirs(own)
        for name in ("pyrrha", "pyrrha-agent", "pyrtool"):
            self.env.program(name)
            os.symlink(os.path.join(TOP, "build", name), os.path.join(own, name))
        tools = os.path.join(self.env.build, "tools/usr/bin")
        go = os.path.dirname(shutil.which("go") or "/usr/bin/go")
        return [os.path.join(HERE, "stand-ins"), own, tools, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", go]

    def need(self):
        for f in self.fences:
            for name in f.programs():
                for wanted in NEEDED_BY.get(name, [name] if name in OPTIONAL else ()):
                    if not shutil.which(wanted, path=":".join(self.path)):
                        raise Skip("no " + wanted)
        if any("pyrrha-agent" in " ".join(f.body) and "kubectl" not in " ".join(f.body) for f in self.fences):
            code, said = run([self.env.program("pyrrha-agent"), "--check"])
            if code and re.search(r"Operation not permitted|Permission denied", said):
                raise Skip("the agent does not run here: " + said)

    def variables(self):
        """The environment of the reader's shell."""
        go = {}
        if shutil.which("go"):
            go = json.loads(subprocess.run(["go", "env", "-json", "GOCACHE", "GOMODCACHE"], capture_output=True, check=True).stdout)
        return dict(PATH=":".join(self.path), HOME=READER, LANG="C.UTF-8", TERM="dumb", PAGER="cat", USER="reader", SOURCE=TOP, BUILD=self.env.build, PORT1="21001", PORT2="21002", PORT3="21003",
                    GOTOOLCHAIN="local", GOPROXY="off", GOFLAGS="-mod=readonly", **go)

    def say(self, line):
        try:
            self.shell.stdin.write(line.encode() + b"\n")
            self.shell.stdin.flush()
        except BrokenPipeError:
            pass  # the shell has ended; whoever waits for it says so

    def read(self, name):
        try:
            with open(os.path.join(self.told, name), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def wait(self, name, fence, seconds):
        """(status, place) that the shell wrote."""
        def ended():
            return self.read(name).endswith("\n") or self.shell.poll() is not None
        try:
            wait_until("", ended, seconds)
        except AssertionError:
            raise AssertionError(f"{fence.where}: not done within {seconds * patience():.0f} s; it printed: {self.output()[-2000:]}") from None
        status, _, place = self.read(name).strip().partition(" ")
        check(status, f"{fence.where}: the shell has ended: {self.output()[-2000:]}{open(self.log.name, errors='replace').read()[-2000:]}")
        return int(status), place

    def output(self):
        return self.read(f"{self.number}.out")

    def run(self, fence):
        """A fence, when its turn has come."""
        if "file" in fence.marks:
            self.write_file(fence)
        elif fence.is_shell:
            self.run_commands(fence)

    def begin(self, text):
        self.number += 1
        with open(os.path.join(self.told, f"{self.number}.sh"), "w", encoding="utf-8") as f:
            f.write(text)
        return self.number

    def write_file(self, fence):
        name, body = fence.marks["file"], "\n".join(fence.body)
        self.begin(f"told_at='{fence.where}'\nmkdir -p \"$(dirname '{name}')\"\ncat >'{name}' <<'END_OF_{self.number}'\n{body}\nEND_OF_{self.number}\n")
        self.say(f"told_run {self.number}")
        status, place = self.wait(f"{self.number}.status", fence, 60)
        check(status == 0, f"{place}: {self.output()}")

    def run_commands(self, fence):
        n, seconds = self.begin(script(fence)), 1200 if "slow" in fence.marks else 120
        if "background" in fence.marks:
            self.background[n] = fence
            self.say(f"told_apart {n} &")
            for port in fence.marks["background"].split(",") if fence.marks["background"] else ():
                self.say(f"told_wait {n} {port} {int(600 * patience())}")
                status, _ = self.wait(f"{n}.port", fence, 90)
                check(status == 0, f"{fence.where}: nobody listens on port {port}; it printed: {self.output()[-2000:]}")
                os.unlink(os.path.join(self.told, f"{n}.port"))
            return
        if "retry" not in fence.marks:
            self.say(f"told_run {n}")
            status, place = self.wait(f"{n}.status", fence, seconds)
            check(status == 0, f"{place}: exit status {status}; it printed: {self.output()[-3000:]}")
            self.compare(fence)
            return
        begin = time.monotonic()
        while True:
            self.say(f"set +e; told_apart {n}; set -e")
            status, place = self.wait(f"{n}.status", fence, seconds)
            try:
                check(status == 0, f"{place}: exit status {status}, for {time.monotonic() - begin:.0f} s; it printed: {self.output()[-3000:]}")
                self.compare(fence)
                return
            except AssertionError:
                if time.monotonic() - begin > 150 * patience():
                    raise
            os.unlink(os.path.join(self.told, f"{n}.status"))
            time.sleep(1)

    def finish(self):
        """What runs in the background for a reader still does, or has ended well."""
        for n, fence in self.background.items():
            ended = self.read(f"{n}.status")
            check(ended.split(" ")[0] in ("", "0"), f"{fence.where}: ended with {ended.strip()}; it printed: {self.read(f'{n}.out')[-3000:]}")

    def compare(self, fence):
        for shown in self.fences:
            if shown.after is fence:
                line = missing_line(shown.body, self.output())
                check(line is None, f"{shown.where}: this line is not printed: {line!r}; it printed: {self.output()[-3000:]}")

    def end_all(self):
        """No process of the room is left, whatever session it made for itself: orphans have become children of this process."""
        with contextlib.suppress(BrokenPipeError):
            self.shell.stdin.close()
        self.log.close()
        for _ in range(1000):
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
                left = f.read().split()
            if not left:
                return
            for pid in map(int, left):
                kill_below(pid)
            while True:
                try:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        break
                except ChildProcessError:
                    return
            time.sleep(0.02)
        raise AssertionError(f"processes of the room do not end: {left}")


def kill_below(pid):
    """A process and all below it; what it begins meanwhile becomes ours."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                for child in f.read().split():
                    kill_below(int(child))
        os.kill(pid, signal.SIGKILL)
    except (OSError, ProcessLookupError):
        pass


def stands_in(fence):
    """Whether a stand-in does what a command of this fence says."""
    return bool(fence.programs() & STAND_INS)
