# SPDX-License-Identifier: Apache-2.0
"""Java of this machine, its program whose stacks are a closed set (tests/fixtures/runtimes/hotspot), and what calls what: the bytecode says
which methods a line calls, so each two neighbours of a stack are a call that the program can make, or the stack is wrong."""
import glob
import os
import re
import shutil
import subprocess

from harness import Process, Skip, check, wait_until
from runtime_stacks import FIXTURES

SOURCES = os.path.join(FIXTURES, "hotspot")


class Java:
    def __init__(self, path, version, test):
        self.path, self.version = path, version
        self.comm = "rt_%s%d%s" % (test, version, "" if path.startswith("/usr/") else "p")
        self.what = f"{path} ({version})"


def javas(test):
    """The Java virtual machines of PYRRHA_JAVA (programs, separated by colons), else `java`, and those of /usr/lib/jvm; each file once. test: a
    short name of it."""
    named = [shutil.which(n) for n in os.environ.get("PYRRHA_JAVA", "").split(":") if n]
    check(all(named), f"PYRRHA_JAVA: not all are programs: {os.environ.get('PYRRHA_JAVA')}")
    names = named or [n for n in [shutil.which("java"), *sorted(glob.glob("/usr/lib/jvm/*/bin/java"))] if n]
    if not names or not shutil.which("javac") or not shutil.which("javap"):
        raise Skip("no java, javac and javap")
    found = {}
    for name in names:
        path = os.path.realpath(name)
        said = subprocess.run([path, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
        if path not in found and version:
            found[path] = Java(path, int(version[1]), test)
    check(found, f"none of {names} runs")
    return list(found.values())


SHORT = """import java.nio.file.Files;
import java.nio.file.Paths;

public class Short {
%s
	static long call(int i, int n) {
		switch (i) {
%s
		default: return 0;
		}
	}
	static long spent() throws Exception {
		return Long.parseLong(new String(Files.readAllBytes(Paths.get("/proc/thread-self/schedstat"))).split(" ")[0]);
	}
	static long work(long until) throws Exception {
		long x = 0;
		for (int i = 0; i %% 100 > 0 || spent() < until; i++)
			x += call(i %% 100, 2000);
		return x;
	}
	public static void main(String[] args) throws Exception {
		long before = spent(), x = work(before + 300000000L);
		System.out.println("worked " + (spent() - before) + " " + x);
	}
}
"""
SHORT_METHOD = """	static long short{0}(int n) {{
		long x = {1};
		for (int i = 0; i < n; i++)
			x += x * 31 + {0};
		return x;
	}}
"""


def short_source():
    """A program of a hundred methods that works for 0.3 s, says how many nanoseconds of CPU time that took, and ends."""
    methods = "".join(SHORT_METHOD.format(i, f"short{i - 1}(n / 2)" if i else 1) for i in range(100))
    return SHORT % (methods, "".join(f"\t\tcase {i}: return short{i}(n);\n" for i in range(100)))


def compiled(env, java, name="Closed"):
    """The folder with the fixture's class, for that virtual machine. Newer ones than the compiler run what is made for 11."""
    release = min(java.version, 11)
    folder, source = env.path(f"classes-{release}"), os.path.join(SOURCES, f"{name}.java")
    if not os.path.exists(os.path.join(folder, f"{name}.class")):
        if name == "Short":
            source = env.path("Short.java")
            with open(source, "w", encoding="ascii") as f:
                f.write(short_source())
        subprocess.run(["javac", "--release", str(release), "-nowarn", "-g:source,lines", "-d", folder, source], check=True, capture_output=True)
    return folder


def java_program(env, java, name, *args, flags=(), **more):
    """A fixture at work, under the name of the test's processes."""
    link = env.path(java.comm)
    if not os.path.islink(link):
        os.symlink(java.path, link)
    return Process(env, f"{name}-{java.comm}", [link, *flags, "-cp", compiled(env, java, name), name, *args], **more)


def start_closed(env, java, *flags):
    """(process, what it can call)."""
    folder = compiled(env, java)
    library = os.path.join(folder, "libclosed.so")
    if not os.path.exists(library):
        subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", library,
                        os.path.join(SOURCES, "closed.c")], check=True)
    p = java_program(env, java, "Closed", "2", "3600", flags=[*flags, f"-Dclosed.library={library}", "-Dclosed.deep=300", "-Dclosed.futures=true"])

    def started():
        check(p.alive(), f"{java.what} ended: {p.text()[-2000:]}")
        return "started" in p.text()
    wait_until(f"{java.what} works", started, 120)
    return p, Calls(env, java)


# Methods that the virtual machine calls by itself, at instructions that make, find or throw something.
UPCALL = re.compile(r"(.*\.<clinit>|java\.lang\.invoke\.\w+(\$\w+)*\.\w+|java\.lang\.ClassLoader\.\w+|jdk\.internal\.loader\..*\.loadClass"
                    r"|java\.lang\.\w+(Exception|Error)\.<init>|java\.lang\.Thread\.exit)$")
# Classes that are made while a program runs: their bytecode is in no file.
MADE = re.compile(r"(java\.lang\.invoke\.\w*LambdaForm\$\w+|java\.lang\.invoke\.\w+\$Holder|java\.lang\.invoke\.BoundMethodHandle\$Species_\w+"
                  r"|.*\$\$Lambda(\$\d+)?|.*\$Proxy\d+|.*Generated\w+Accessor\d+|.*\$\$StringConcat|.*\$\$TypeSwitch)$")
BOTTOM = re.compile(r"(java\.lang\.Thread\.run|java\.util\.concurrent\.ForkJoinWorkerThread\.run|Closed\.main"
                    r"|jdk\.internal\.misc\.InnocuousThread\.run|java\.lang\.ref\.\w+\$\w+\.run|java\.lang\.System\.initPhase\d"
                    r"|sun\.launcher\.LauncherHelper\.\w+|.*\.<clinit>|java\.lang\.Thread\.exit)$")
DEEP = "Closed.deep"


class Method:
    def __init__(self):
        self.native, self.lines, self.calls = False, set(), {}  # calls: line -> names of methods; "*": any


def parse_javap(text):
    """{class: {method: Method}} of `javap -c -l -p`."""
    classes, methods, m, code, table = {}, None, None, [], []

    def done():
        if not m:
            return
        for at, name in code:
            line = next((n for start, n in reversed(table) if start <= at), 0)
            m.calls.setdefault(line, set()).add(name)
        m.lines.update(n for _, n in table)
        if not table:
            m.lines.add(0)
    for row in text.splitlines():
        head = re.match(r"(?:[\w-]+ )*(?:class|interface|enum|record) ([\w.$]+)", row)
        sign = re.match(r"  (?! )(.*?)([\w.$]+)\((.*)\).*;$|  (static) \{\};$", row)
        insn = re.match(r" +(\d+): (\w+)(.*)$", row)
        line = re.match(r" +line (\d+): (\d+)$", row)
        if head:
            done()
            m, methods, own = None, classes.setdefault(head[1], {}), head[1]
        elif sign and methods is not None:
            done()
            name = "<clinit>" if sign[4] else "<init>" if sign[2] == own else sign[2]
            m, code, table = methods.setdefault(name, Method()), [], []
            m.native |= " native " in f" {sign[1]}"
        elif line and m:
            table.append((int(line[2]), int(line[1])))
        elif insn and m and insn[2].startswith("invoke"):
            called = re.search(r"// (?:Interface)?Method (?:([\w/$\[;\"]+)\.)?\"?([<>\w$]+)\"?:", insn[3])
            loose = insn[2] == "invokedynamic" or not called or (called[1] or "").startswith(("java/lang/invoke/MethodHandle", "java/lang/invoke/VarHandle"))
            code.append((int(insn[1]), "*" if loose else called[2]))
            code.append((int(insn[1]), called[2] if called else "*"))
    done()
    return classes


class Calls:
    """A program's and its library's calls, by bytecode. The set for a Verdict: has(), begins_so()."""
    deep = DEEP
    # Native code enters Java through a stub.
    between = [[stub, "Java_Closed_jniCall", "Closed.jniCall"] for stub in ("StubRoutines (1)", "StubRoutines (initial stubs)", "StubRoutines (initialstubs)")]
    between.append(["jni_fast_GetIntField", "Java_Closed_jniField", "Closed.jniField"])
    # The first call of a native method looks for it, by code of Java's.
    also_between = ("InterpreterRuntime::prepare_native_call(JavaThread*, Method*)",)
    green = ()
    below = [["Java_Closed_jniBurn", "Closed.jniBurn"]]

    def __init__(self, env, java):
        self.env, self.java, self.classes, self.known = env, java, {}, {}
        self.folder = env.path(f"bytecode-{java.comm}")
        self.stacks = self.classes       # what a Verdict counts

    def want(self, names):
        """Reads the bytecode of these classes, from the virtual machine itself."""
        new = sorted(n for n in names if n not in self.classes and not MADE.match(n))
        if not new:
            return
        os.makedirs(self.folder, exist_ok=True)
        subprocess.run([self.java.path, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", compiled(self.env, self.java, "Bytecode"), "Bytecode",
                        self.folder, *new], check=True, capture_output=True)
        files = [f for f in (os.path.join(self.folder, n + ".class") for n in new) if os.path.exists(f)]
        text = subprocess.run(["javap", "-c", "-l", "-p", *files], capture_output=True, text=True, check=False).stdout if files else ""
        self.classes.update(parse_javap(text))
        for n in new:
            self.classes.setdefault(n, {})

    @staticmethod
    def own(stack):
        """Without stubs, which have no class."""
        return [f for f in stack if "." in f[0] and " " not in f[0]]

    def prepare(self, stacks):
        """Before stacks are asked for: what they need is read at once."""
        self.want({f[1].rpartition(".")[0] for s in stacks for f in s if f[0] == "hotspot" and "." in f[1] and " " not in f[1]})

    def wrong(self, stack, whole):
        """Why the stack cannot be; "" if it can."""
        frames = self.own(stack)
        for i, (name, _, line) in enumerate(frames):
            key = frames[i - 1][0] if i else "", name, line
            if key not in self.known:
                self.known[key] = self.wrong_call(*key)
            if self.known[key]:
                return self.known[key]
        if whole and frames and not BOTTOM.match(frames[-1][0]):
            return f"begins with {frames[-1][0]}"
        return ""

    def wrong_call(self, callee, caller, line):
        class_name, _, name = caller.rpartition(".")
        if MADE.match(class_name):
            return ""
        m = self.classes.get(class_name, {}).get(name)
        if not m:
            return f"no method {caller}"
        if not line and (m.native or not callee):
            return ""                    # compiled code that calls nothing may say nothing of its lines
        if line not in m.lines:
            return f"{caller} has no line {line}"
        if not callee:
            return ""
        called = m.calls.get(line, set())
        if "*" in called or callee.rpartition(".")[2] in called or UPCALL.match(callee):
            return ""
        return f"{caller}:{line} does not call {callee}, but {sorted(called)}"

    def has(self, stack):
        return not self.wrong(stack, True)

    def begins_so(self, stack):
        return not self.wrong(stack, False)
