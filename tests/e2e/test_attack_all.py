# SPDX-License-Identifier: Apache-2.0
"""Every program of tests/attack at once, beside twenty healthy targets and a person who asks. With PYRRHA_LONG for an hour
(PYRRHA_ATTACK_SECONDS sets another time). The healthy miss no scrape, the person is answered, memory stays within the
flags, and after a kill at the end everything that was acknowledged is there."""
import collections
import glob
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

from harness import Echo, LONG, patience, Server, Skip, TOP, check, http_get, slow, wait_until

SECONDS = int(os.environ.get("PYRRHA_ATTACK_SECONDS", "3600" if LONG else "0"))
HEALTHY = 20
INTERVAL = 5
MB = 1 << 20
# What --storage.*-memory, --scrape.memory and --query.memory add up to, and what is not under a flag: the program, its
# threads' stacks, RocksDB's own, connections, the allocator's slack.
BEYOND_FLAGS = 400 * MB
CONFIG = """
scrape_config_files: ['%s/*.yml']
scrape_configs:
  - job_name: healthy
    scrape_interval: %ds
    profiling_config:
      pprof_config:
        process_cpu: {enabled: false}
        mutex: {enabled: false}
        block: {enabled: false}
        memory: {path: /debug/pprof/allocs}
    static_configs:
%s
"""
QUERIES = ('sum(rate(heap_alloc_space{job="healthy"}[1m]))', 'up{job="healthy"}',
           'topk(5, self(merge(heap_inuse_space{job="healthy"}[1m])))')


def attacks():
    return sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(TOP, "tests", "attack", "*.py")))


class Person(threading.Thread):
    """Asks a question every second, as somebody before the page does."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.took, self.bad, self.over = server, collections.defaultdict(list), collections.Counter(), threading.Event()

    def ask(self, what, link):
        begin = time.monotonic()
        try:
            status = http_get(link, timeout=120)[0]
        except OSError as e:
            status = repr(e)[:80]
        self.took[what].append(time.monotonic() - begin)
        if status != 200:
            self.bad[f"{what}: {status}"] += 1

    def run(self):
        n = 0
        while not self.over.wait(1):
            q = QUERIES[n % len(QUERIES)]
            n += 1
            self.ask("query", self.server.link("/api/v1/query", query=q))
            self.ask("flame", self.server.link("/api/v1/query", query='merge(heap_alloc_space{job="healthy"}[5m])', format="flamegraph", width=4800))
            for path in ("/metrics", "/-/healthy", "/api/v1/targets"):
                self.ask(path, self.server.url + path)


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


def allowed_memory(server):
    """What the flags add up to; of those that follow from the machine, what the server made of them."""
    flags = server.api("status/flags")
    sizes = {k: v for k, v in flags.items() if k.endswith("memory") and k != "memory" and v}
    units = {"KB": 1 << 10, "KiB": 1 << 10, "MB": MB, "MiB": MB, "GB": MB << 10, "GiB": MB << 10, "B": 1}
    total = 0
    for text in sizes.values():
        number, unit = text.rstrip("BKMGi"), text.lstrip("0123456789.")
        total += int(float(number) * units.get(unit, 1))
    return total + BEYOND_FLAGS, sizes


def start_attacks(env, server, directory, seconds):
    """One program each; all stop by themselves."""
    running = {}
    for name in attacks():
        argv = [sys.executable, "-B", os.path.join(TOP, "tests", "attack", name + ".py"), "--url=" + server.url, f"--seconds={seconds}"]
        with open(os.path.join(TOP, "tests", "attack", name + ".py"), encoding="utf-8") as f:
            if "--config-dir" in f.read():
                argv.append("--config-dir=" + directory)
        log = open(os.path.join(env.dir, f"attack-{name}.log"), "wb")
        running[name] = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=env.dir)
        env.at_end(running[name].kill)
    return running


def missed_scrapes(server, begin, end):
    """Of the healthy targets: those with gaps, and those that were down."""
    window = int(end - begin)
    found = []
    for s in server.query(f'up{{job="healthy"}}[{window}s]', time=end)["result"]:
        stamps = [t for t, _ in s["values"]]
        down = sum(v != "1" for _, v in s["values"])
        gaps = [b - a for a, b in zip([begin] + stamps, stamps + [end])]
        if down or max(gaps) > 2 * INTERVAL:
            found.append(f"{s['metric'].get('n')}: {len(stamps)} scrapes, {down} down, longest gap {max(gaps):.1f} s")
    return found


def counts(server, at, window):
    return {s["metric"]["__name__"] + s["metric"].get("n", ""): s["value"][1]
            for name in ("heap_alloc_space", "heap_inuse_space", "goroutines")
            for s in server.query(f'label_replace(count_over_time({name}{{job="healthy"}}[{window}s]), "__name__", "{name}", "", "")', time=at)["result"]}


@slow
def test_all_at_once(env):
    if not SECONDS:
        raise Skip("an hour: with PYRRHA_LONG, or PYRRHA_ATTACK_SECONDS=60")
    directory = os.path.join(env.dir, "jobs")
    os.makedirs(directory, exist_ok=True)
    echoes = [Echo(env, load=1, name=f"echo{i}") for i in range(4)]
    targets = "".join(f"      - targets: ['{echoes[i % len(echoes)].address}']\n        labels: {{n: '{i}'}}\n" for i in range(HEALTHY))
    server = Server(env, CONFIG % (directory, INTERVAL, targets), ["--web.enable-lifecycle"])
    wait_until("the healthy targets are up", lambda: server.value('sum(up{job="healthy"})') == HEALTHY, 60)
    begin = time.time()
    running = start_attacks(env, server, directory, SECONDS)
    person = Person(server)
    person.start()
    peak, ended = 0, {}
    limit, flags = allowed_memory(server)
    while time.time() < begin + SECONDS:
        time.sleep(1)
        check(server.alive(), f"the server ended with {server.p.poll()} after {time.time() - begin:.0f} s")
        peak = max(peak, memory_of(server.p.pid))
        for name, p in running.items():
            if name not in ended and p.poll() is not None:
                ended[name] = (p.returncode, int(time.time() - begin))
    for name, p in running.items():
        try:
            p.wait(60 * patience())
        except subprocess.TimeoutExpired:
            p.kill()
    person.over.set()
    person.join(150)
    at = int(time.time()) - 2 * INTERVAL
    report = [f"{what}: {len(t)} asked, median {sorted(t)[len(t) // 2]:.3f} s, longest {max(t):.1f} s" for what, t in person.took.items()]
    report += [f"not answered: {k} ({v} times)" for k, v in person.bad.items()]
    report += [f"memory: {peak / MB:.0f} MB at most, {limit / MB:.0f} allowed by {flags}", f"attacks that ended early: {ended}"]
    missed = missed_scrapes(server, begin, at)
    window = int(at - begin)
    before = counts(server, at, window)
    server.p.send_signal(signal.SIGKILL)
    server.p.wait(30)
    for e in os.listdir(directory):
        os.unlink(os.path.join(directory, e))
    server.restart()
    after = counts(server, at, window)
    report += [f"missed: {m}" for m in missed] + [f"series counted: {len(before)}, {'all' if before == after else 'not all'} there after the kill"]
    env.path("report.txt", "\n".join(report) + "\n")
    print("# " + "\n# ".join(report))
    check(before and before == after, f"acknowledged profiles are gone: {set(before.items()) ^ set(after.items())}")
    check(not missed, f"healthy targets missed scrapes: {missed}")
    check(peak <= limit, f"{peak / MB:.0f} MB resident, {limit / MB:.0f} are allowed: {flags}")
    answered = sum(len(t) for t in person.took.values())
    check(sum(person.bad.values()) <= answered / 100, f"of {answered} questions these were not answered: {dict(person.bad)}")
    # 1 is a program's own word that an answer took long: what others do meanwhile is not its to know.
    check(all(code in (0, 1) for code, _ in ended.values()), f"attacks that failed: {ended}")
