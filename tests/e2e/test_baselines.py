# SPDX-License-Identifier: Apache-2.0
"""What a Go program allocated, as increases of what it says in all: over reloads that change labels, relabelling and interval
nothing of it is missing, and of what was allocated while no server ran nothing is claimed; coverage says which is which."""
import json
import signal
import time

from harness import Echo, Server, check, http_get, run, slow, wait_until
from pprof_file import Profile

CONFIG = """
scrape_configs:
  - job_name: echoserver
    scrape_interval: INTERVAL
    profiling_config:
      pprof_config:
        process_cpu: {enabled: false}
        block: {enabled: false}
        mutex: {enabled: false}
        goroutine: {enabled: false}
MORE
    static_configs: [{targets: ["ADDRESS"]LABELS}]
"""


def config(echo, interval="1s", more="", labels=""):
    return CONFIG.replace("INTERVAL", interval).replace("ADDRESS", echo.address).replace("MORE", more).replace("LABELS", labels)


def allocated(echo):
    """All that the program says it allocated until now, in bytes."""
    status, _, body = http_get(f"http://{echo.address}/debug/pprof/heap")
    check(status == 200, f"heap: {status}")
    return sum(Profile(body).stacks("alloc_space").values())


def increases(server, **labels):
    """How many there are."""
    return len(stamps(server, **labels))


def stamps(server, **labels):
    match = "".join(f',{k}="{v}"' for k, v in labels.items())
    return [t for s in server.query(f'heap_alloc_space{{job="echoserver"{match}}}[10m]')["result"] for t, _ in s["values"]]


def dumped(env, server):
    """[(stamp, ms that it covers, bytes)] of a server that has ended."""
    status, out = run([env.program("pyrtool"), "tsdb", "dump", server.storage, "--match", 'memory:alloc_space:bytes:space:bytes', "--stacks",
                       "--output=json"])
    check(status == 0, out[-2000:])
    rows = [r for r in map(json.loads, out.splitlines()) if r["value"] != "stale"]
    return sorted((r["t"], r["duration"], int(r["value"])) for r in rows)


def milliseconds(t):
    return round(float(t) * 1000) if not isinstance(t, int) or t < 10**11 else t


def spans(env, server):
    rows = [(milliseconds(t), d // 1000000, v) for t, d, v in dumped(env, server)]
    check(len(rows) > 3, f"{rows}")
    return [(t - d, t, v) for t, d, v in rows]


@slow
def test_reloads_cost_nothing(env):
    echo = Echo(env)
    before = allocated(echo)
    server = Server(env, config(echo), flags=["--web.enable-lifecycle"])
    wait_until("an increase", lambda: increases(server) >= 1, 20)
    first = allocated(echo)
    changes = (dict(interval="700ms"), dict(labels=", labels: {team: one}"),
               dict(more="    relabel_configs: [{target_label: team, replacement: two}]"),
               dict(more="    metric_relabel_configs: [{target_label: team, replacement: three}]"),
               dict(more="    relabel_configs: [{target_label: team, replacement: four}, {target_label: instance, replacement: me}]"))
    for change in changes:
        since = increases(server)
        server.configure(config(echo, **change))
        check(http_get(server.link("/-/reload"), data=b"")[0] == 200, f"reload {change}")
        wait_until(f"increases after {change}", lambda: increases(server) >= since + 2, 20)
    for team in ("one", "two", "three", "four"):
        check(increases(server, team=team) > 0, f"nothing of team {team}")
    last = allocated(echo)
    since = increases(server)
    wait_until("one more", lambda: increases(server) > since, 20)
    ends = stamps(server)
    lo, hi = min(ends), max(ends)
    covered = server.value(f"sum(coverage(heap_alloc_space[{round((hi - lo) * 1000)}ms]))", time=f"{hi:.3f}")
    check(0 <= covered - 1 < 0.001, f"{covered} of the time from the first stamp to the last is covered, once")
    total = server.value(f"sum(value(increase(heap_alloc_space[{round((hi - lo) * 1000)}ms])))", time=f"{hi:.3f}")
    check(server.terminate()[0] == 0, "the server did not end well")
    after = allocated(echo)
    s = spans(env, server)
    check(all(a[1] == b[0] for a, b in zip(s, s[1:])), f"one begins where the one before ends: {s}")
    want = sum(v for a, b, v in s if a >= lo * 1000 - 0.5 and b <= hi * 1000 + 0.5)
    check(0.999 * want <= total <= 1.002 * want, f"increase {total}, stored are {want}")
    total = sum(v for _, _, v in s)
    check(last - first <= total <= after - before, f"{total} bytes are stored, the program says {last - first} to {after - before}")


def test_what_a_restart_lost_shows(env):
    echo = Echo(env, load=24)  # Go tells what was allocated when it has collected garbage: several times while the server is down
    before = allocated(echo)
    server = Server(env, config(echo))
    wait_until("increases", lambda: increases(server) >= 3, 20)
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    down, missed = time.time(), allocated(echo)
    time.sleep(3)
    up, missed = time.time(), allocated(echo) - missed
    server.restart()
    old = increases(server)
    wait_until("increases after the restart", lambda: increases(server) >= old + 3, 20)
    ends = stamps(server)
    lo, hi = min(ends), max(ends)
    begin = max(t for t in ends if t <= down)
    covered = server.value(f"coverage(heap_alloc_space[{round((hi - lo) * 1000)}ms])", time=f"{hi:.3f}")
    total = server.value(f"value(increase(heap_alloc_space[{round((hi - lo) * 1000)}ms]))", time=f"{hi:.3f}")
    inside = f"[{int((up - begin - 1.05) * 1000)}ms]"  # until the next was due the last one stood for it
    nothing = server.value(f"coverage(heap_alloc_space{inside})", time=f"{up:.3f}")
    check(not nothing, f"{nothing} of the time between the last scrape and the start is said to be covered")
    amount = server.value(f"value(increase(heap_alloc_space{inside}))", time=f"{up:.3f}")
    check(not amount, f"an increase of {amount} in a time that nobody observed")
    server.p.send_signal(signal.SIGTERM)
    server.p.wait()
    after = allocated(echo)
    s = [x for x in spans(env, server) if x[1] <= hi * 1000 + 0.5]
    holes = [(a[1], b[0]) for a, b in zip(s, s[1:]) if a[1] != b[0]]
    check(len(holes) == 1 and holes[0][0] <= down * 1000 and holes[0][1] >= up * 1000, f"one hole, around {down} to {up}: {holes}")
    hole = (holes[0][1] - holes[0][0]) / (hi - lo) / 1000
    check(abs(covered - (1 - hole)) < 0.002, f"coverage {covered}, the hole is {hole} of the range")
    want = sum(v for a, b, v in s if a >= lo * 1000 - 0.5)
    check(abs(total - want) <= 1, f"increase {total}, stored are {want}")
    check(missed > 0 and total <= after - before - missed, f"{total} of {after - before}, of which {missed} were missed")
