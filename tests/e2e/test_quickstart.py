# SPDX-License-Identifier: Apache-2.0
"""./quickstart as a stranger runs it, in the build directory that is there."""
import contextlib
import json
import os
import re
import signal
import shutil
import socket
import subprocess
import time
import urllib.parse

from harness import Process, Skip, TOP, check, free_port, http_get, run, slow, wait_until


def argv(env, *more):
    env.program("pyrrha"), env.echoserver()
    return [os.path.join(TOP, "quickstart"), "--build", env.build, "--data", env.path("data"), *more]


def members(group):
    """Names of the living processes of a process group."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if rest.split()[0] != "Z" and int(rest.split()[2]) == group:
            found.append(name)
    return found


@slow
def test_once_ends_with_a_flame_graph(env):
    """On another port than it was told, because that one is taken; it is also the one that the demo program would have."""
    begin, port = time.monotonic(), 7171
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):   # who has it already will do
            held.enter_context(socket.create_server(("127.0.0.1", port)))
        status, out = run(argv(env, "--once", "--port", str(port)), seconds=180)
    check(status == 0 and f"Port {port} is taken" in out, f"{status}: {out}")
    check("main.fibonacciHandler" in out and "go tool pprof" in out, out)
    print(f"# ./quickstart --once took {time.monotonic() - begin:.1f} s")


def with_another_agent(env, script):
    """A build directory where make has nothing to do: its agent is that script, all else is real."""
    build = env.path("build")
    os.makedirs(os.path.join(build, "tests"))
    env.path("build/Makefile", "all:\n")
    os.symlink(env.program("pyrrha"), os.path.join(build, "pyrrha"))
    os.chmod(shutil.copy(env.path("agent", script), os.path.join(build, "pyrrha-agent")), 0o755)
    return [os.path.join(TOP, "quickstart"), "--build", build, "--data", env.path("data"), "--once", "--port", str(free_port())]


@slow
def test_a_slow_check_of_the_agent(env):
    """On a slow machine it took 22 s, and the agent was said not to run."""
    agent = env.program("pyrrha-agent")
    if os.geteuid() != 0 or subprocess.run([agent, "--check"], capture_output=True).returncode != 0:
        raise Skip("the agent does not run here")
    status, out = run(with_another_agent(env, f'#!/bin/sh\n[ "$1" != --check ] || sleep 22\nexec {agent} "$@"\n'), 180)
    check(status == 0 and "the agent         profiles every process of this host" in out, out)


@slow
def test_a_check_of_the_agent_that_hangs(env):
    """It is stopped, and the log says how far it came. All else runs."""
    if os.geteuid() != 0:
        raise Skip("the agent needs root")
    patient = shutil.which("timeout")
    os.makedirs(env.path("bin"))
    os.chmod(shutil.copy(env.path("timeout", f'#!/bin/sh\nshift\nexec {patient} 1 "$@"\n'), env.path("bin")), 0o755)
    argv = with_another_agent(env, "#!/bin/sh\necho 'ok   kernel'\nexec sleep 600\n")
    status, out = run(argv, 180, env=dict(os.environ, PATH=env.path("bin") + os.pathsep + os.environ["PATH"]))
    log = env.path("data/agent-check.log")
    check(status == 0 and re.search(rf"the agent         does not run: its check took more than \d+ s; {re.escape(log)} says how far it came", out), out)
    with open(log, encoding="utf-8") as f:
        check(f.read() == "ok   kernel\n", "its log")


def on_cpu_of_the_container(port):
    """The demo program's functions in a profile that it had no part in, by process and container."""
    url = f"http://127.0.0.1:{port}/api/v1/query?"
    def ask(**params):
        return http_get(url + urllib.parse.urlencode(params))[2].decode()
    rows = json.loads(ask(query='sum by (comm, container)(rate(on_cpu<container="echoserver">[30s]))'))["data"]["result"]
    stacks = ask(query='merge(on_cpu<container="echoserver">[1m])', format="folded")
    return [r["metric"] for r in rows] == [{"comm": "echoserver", "container": "echoserver"}] and "main.fibonacci" in stacks


def names_python(port):
    """The Python program's functions, which the agent read from outside."""
    stacks = http_get(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
        {"query": 'merge(on_cpu<comm="python-demo">[5m])', "format": "folded"}))[2].decode()
    return re.search(r"<module>;.*\bmain;.*\breport;.*\bprimes\b", stacks)


def rate(port, counter):
    """Of a counter that Pyrrha or its agent has; None while there is none."""
    rows = json.loads(http_get(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
        {"query": f"rate({counter}[1m])"}))[2])["data"]["result"]
    check(len(rows) <= 1, f"{rows}")
    return float(rows[0]["value"][1]) if rows else None


def alerts(port):
    """States of the alert on the demo program."""
    return [a["state"] for a in json.loads(http_get(f"http://127.0.0.1:{port}/api/v1/alerts")[2])["data"]["alerts"]
            if a["labels"]["alertname"] == "FibonacciEatsCPU" and a["labels"]["function"] == "main.fibonacciHandler"]


@slow
def test_ctrl_c_stops_everything(env):
    port = free_port()
    q = Process(env, "quickstart", argv(env, "--port", str(port)), start_new_session=True)
    wait_until("quickstart is up", lambda: "Ctrl-C stops" in q.text() or not q.alive(), 90)
    check(q.alive(), q.text())
    check(re.search(rf"http://127\.0\.0\.1:{port}/", q.text()), f"no URL in: {q.text()}")
    if 'on_cpu<container="echoserver">' in q.text():
        wait_until("the demo program's container, seen from outside", lambda: on_cpu_of_the_container(port), 60)
        if "a Python program" in q.text():
            wait_until("the Python program's functions", lambda: names_python(port), 90)
        wait_until("a rate of the agent's counters", lambda: rate(port, "pyrrha_agent_samples_total"), 60)
    wait_until("the demo program's alert fires", lambda: "firing" in alerts(port), 60)
    wait_until("a rate of Pyrrha's own", lambda: rate(port, "pyrrha_appended_samples_total"), 60)
    group = os.getpgid(q.p.pid)
    os.killpg(group, signal.SIGINT)
    check(q.p.wait(20) == 0, q.text())
    check(not members(group), f"still there: {members(group)}")

