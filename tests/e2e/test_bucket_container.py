# SPDX-License-Identifier: Apache-2.0
"""A server in a small container puts a day of the fleet into its bucket, loses its disk and fetches the day back, while it scrapes ordinary targets and
answers: no scrape is late, no answer fails, and the kernel does not end it. PYRRHA_LONG=1: a whole day, in containers of two sizes."""
import os
import shutil
import statistics
import threading
import time

from harness import LONG, Process, Skip, check, http_get, run, slow, wait_until
from object_stores import Versitygw
from test_attack_targets import heavy_bodies, resident
from test_bucket import bucket, s3_section
from test_bucket_days import HOUR, ask_all, compare, of_the_bench
from test_heavy_neighbours import serve, ups
from test_memory import MIB, in_group

INTERVAL = "5s"


class Watch:
    """What the server takes, and how it answers small questions meanwhile."""

    def __init__(self, server, asked):
        self.server, self.asked, self.most, self.took, self.wrong, self.stop = server, asked, 0, [], [], False
        self.began = time.monotonic()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        turn = 0
        while not self.stop:
            self.most = max(self.most, resident(self.server))
            link = self.asked[turn % len(self.asked)]
            begin = time.monotonic()
            try:
                status, _, body = http_get(self.server.url + link, timeout=120)
            except OSError as e:
                status, body = 0, repr(e).encode()
            self.took.append(time.monotonic() - begin)
            if status != 200:
                self.wrong.append((status, link, body[:200]))
            turn += 1
            time.sleep(0.2)

    def end(self, what):
        """The share of scrapes that were good, of those that should have been."""
        self.stop = True
        self.thread.join()
        seconds = time.monotonic() - self.began
        values = [v for of in ups(self.server, "ordinary", max(5, int(seconds))).values() for v in of]
        share = sum(values) / max(20 * (seconds / 5 - 2), len(values), 1)
        took = sorted(self.took)
        print(f"# {what}: {seconds:.1f} s; resident at most {self.most >> 20} MiB; {len(values)} scrapes, {share:.4f} of them good; {len(took)} answers: median "
              f"{statistics.median(took):.3f}, 99 % {took[len(took) * 99 // 100]:.3f}, worst {took[-1]:.3f} s; not answered: {self.wrong[:3]}", flush=True)
        check(not self.wrong, f"{what}: {self.wrong[:5]}")
        return share


def answers(server, newest):
    """About the day: what the bucket has to bring back. None reaches beyond the newest stamp, where a server that came back says what it lost."""
    http = of_the_bench()
    asked = {f"{q} {f}": (server.link("/api/v1/query", query=q, time=str(newest), format=f)[len(server.url):], {}) for q, f in (
        (f"merge by (service) ({http.CPU}[1h])", "folded"), (f"merge({http.CPU}[6h])", "json"), (f"sum by (service) (rate({http.CPU}[1h]))", "json"))}
    return ask_all(server, asked)


def a_day(env, limit, scale, load=0):
    status, out = run([env.program("bench_bucket"), "--dir=" + env.path("pyrrha-data"), "--hours=24", f"--scale={scale}"], seconds=1200)
    check(status == 0, out)
    newest = int(out.splitlines()[-1].split(" ", 1)[0]) // 1000
    store = Versitygw(env)
    http = of_the_bench()
    config = "scrape_configs:\n" + heavy_bodies.job("ordinary", serve(env, "ordinary", 20), INTERVAL, timeout=INTERVAL) + s3_section(store.port)
    asked = ["/api/v1/query?query=sum(up)", "/api/v1/targets?state=active", "/api/v1/status/bucket", "/metrics",
             f"/api/v1/query?query=count({http.CPU})&time={http.T0 + 6 * HOUR}"]
    if load:
        # In the session of the server: the kernel shares the processors among sessions first.
        busy = Process(env, "stress-ng", ["stress-ng", "--cpu", str(load), "--timeout", "600"])
        env.at_end(lambda: busy.terminate(60))
    server = in_group(env, limit, ["--storage.tsdb.retention.time=0"], config)
    watch = Watch(server, asked)
    wait_until("the day is up", lambda: bucket(server)["days"] >= 1 and bucket(server)["waiting"]["parts"] == 0, 600)
    up = bucket(server)
    shares = [watch.end("up")]
    before = answers(server, newest)
    check(all(a[0] == 200 for a in before.values()), str([(name, a[0], a[2][:300]) for name, a in before.items() if a[0] != 200]))
    server.kill()
    shutil.rmtree(server.storage)
    server.restart()
    watch = Watch(server, asked)
    wait_until("the day is back", lambda: bucket(server)["days"] >= 1 and server.metrics()["pyrrha_tsdb_bucket_absent_days"] == 0, 600)
    time.sleep(6)
    shares.append(watch.end("back"))
    check(bucket(server)["id"] == "shop-1" and not bucket(server)["lastError"], bucket(server))
    compare(env, "back", before, answers(server, newest))
    print(f"# {limit >> 20} MiB: {up['days']} days of {up['bytes']} bytes", flush=True)
    check(server.alive(), server.text()[-1000:])
    # Without PYRRHA_LONG this test runs beside others: see test_crowded_container.
    check(min(shares) >= (1 if LONG and not load else 0.99), f"scrapes that were in time: {shares}")
    status, seconds = server.terminate()
    check(status == 0, f"status {status} after {seconds:.1f} s")


@slow
def test_in_256_mb(env):
    a_day(env, 256 * MIB, float(os.environ.get("PYRRHA_SCALE", "1" if LONG else "0.05")))


@slow
def test_in_512_mb(env):
    if not LONG:
        raise Skip("only with PYRRHA_LONG=1")
    a_day(env, 512 * MIB, 1)


@slow
def test_on_a_busy_host(env):
    """Sixty other programs want the processors."""
    if not os.environ.get("PYRRHA_LOAD"):
        raise Skip("nothing else gets the processors meanwhile: PYRRHA_LOAD=60")
    if not shutil.which("stress-ng"):
        raise Skip("no stress-ng")
    a_day(env, 512 * MIB, 0.1, int(os.environ["PYRRHA_LOAD"]))
