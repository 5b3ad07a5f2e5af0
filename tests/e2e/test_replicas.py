# SPDX-License-Identifier: Apache-2.0
"""Two servers, and two jobs of one, on targets that give one CPU profile at a time: real programs in Go."""
import signal
import time

from harness import Echo, LONG, Server, check, slow, wait_until

# seconds asked, interval, how many of these
ASKED, INTERVAL, WINDOWS = (4, 10, 60) if LONG else (1, 4, 5)


def job(name, address, seconds=ASKED, more=""):
    quiet = ", ".join(f"{t}: {{enabled: false}}" for t in ("memory", "block", "goroutine", "mutex"))
    return f"""
- job_name: {name}
  scrape_interval: {INTERVAL}s
  static_configs: [{{targets: ['{address}']}}]
  profiling_config: {{pprof_config: {{{quiet}, process_cpu: {{enabled: true, seconds: {seconds}}}}}}}
{more}"""


def config(*jobs, top=""):
    return top + "scrape_configs:" + "".join(jobs)


def got(server, job, at):
    """How many profiles the job has of the last WINDOWS intervals."""
    return server.value(f'sum(count_over_time(cpu{{job="{job}"}}[{WINDOWS * INTERVAL}s]))', time=at) or 0


def errors(server):
    return [t["lastError"] for t in server.targets() if t["lastError"]]


@slow
def test_nobody_loses_windows(env):
    shared, meets, twice = (Echo(env, load=1, name=f"echo-{i}") for i in range(3))
    # The second server has other jobs, labels and names.
    one = Server(env, config(job("go", shared.address)), ["--scrape.replica=0/2"], name="one")
    two = Server(env, config(job("a", "127.0.0.1:1"), job("other", shared.address, more="  relabel_configs: [{target_label: replica, replacement: b}]"),
                             top="global: {external_labels: {replica: b}}\n"), ["--scrape.replica=1/2"], name="two")
    alike = [Server(env, config(job("go", meets.address)), name=f"alike-{i}") for i in range(2)]
    jobs = Server(env, config(job("first", twice.address), job("second", twice.address)), name="jobs")

    named = wait_until("one of two servers that meet says why it gets nothing", lambda: errors(alike[0]) + errors(alike[1]), 60)
    for text in ("cpu profiling already in use", "another server", "--scrape.replica", "go tool pprof"):
        check(text in named[0], f"{text!r} is not in {named[0]!r}")
    wait_until("both jobs of one server are answered", lambda: all(jobs.value(f'cpu{{job="{j}"}}') for j in ("first", "second")), 60)
    begin = time.time()
    while time.time() < begin + WINDOWS * INTERVAL + 1:
        for s in (one, two):
            check(not [e for e in errors(s) if "already" in e], f"{s.name}: {errors(s)}")
        time.sleep(1)
    at = time.time()
    counts = {"one": got(one, "go", at), "two": got(two, "other", at), "first": got(jobs, "first", at), "second": got(jobs, "second", at)}
    met = sum(got(s, "go", at) for s in alike)
    print(f"windows of {WINDOWS}: {counts}; without the flag both together {met}")
    for name, n in counts.items():
        check(n >= min(0.95 * WINDOWS, WINDOWS - 1), f"{name}: {n} of {WINDOWS} windows")
    check(met <= 1.2 * WINDOWS, f"without the flag both got theirs: {met} of {WINDOWS} each")
    merged_is_as_each(jobs, at)


def merged_is_as_each(server, at):
    """The two jobs took turns. With replica_labels, which a reload brings, they are one series of the same rate."""
    rate = f"rate(cpu[{WINDOWS * INTERVAL}s])"
    apart = [float(r["value"][1]) for r in server.query(rate, time=at)["result"]]
    check(len(apart) == 2, f"{apart}")
    check(server.query("mine", time=at)["result"] == [], "an alias before it is there")
    with open(server.config, encoding="utf-8") as f:
        text = f.read()
    server.configure("replica_labels: [job]\naliases: {mine: 'process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta'}\n" + text)
    server.p.send_signal(signal.SIGHUP)
    one = wait_until("replica_labels count", lambda: [float(r["value"][1]) for r in server.query(rate.replace("cpu", "mine"), time=at)["result"]])
    check(len(one) == 1 and min(apart) * 0.9 <= one[0] <= max(apart) * 1.1, f"{one} of {apart}")
    named = server.query(rate.replace("cpu", 'cpu{job=~".+"}'), time=at)["result"]
    check(len(named) == 2, f"who names the label gets both: {named}")
    check(len(server.api("series", **{"match[]": "mine"})) == 2, "match[] knows the alias")


def test_what_does_not_fit_is_warned_of(env):
    """At load, with the place; of a type that fits, and without the flag, nothing is said."""
    text = config(job("tight", "127.0.0.1:1", seconds=INTERVAL // 2), job("fits", "127.0.0.1:1", seconds=1))
    server = Server(env, text, ["--scrape.replica=0/2"])
    warned = [line for line in server.text().splitlines() if "do not fit side by side" in line]
    check(len(warned) == 1 and f"pyrrha.yml:5:" in warned[0] and "process_cpu" in warned[0], f"{warned}\n{server.text()}")
    server = Server(env, text, name="alone")
    check("side by side" not in server.text(), server.text())
