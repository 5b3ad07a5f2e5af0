# SPDX-License-Identifier: Apache-2.0
"""Lives of real servers whose days go to an S3 through a proxy that spoils requests and answers. Profiles are imported, floats are pushed and
scraped, rows are deleted over HTTP; a server is killed at a moment that dice choose, and now and then its disk is lost: the next one begins with an
empty directory and the same id. After each start what was acknowledged is there if the disk is, what was in a generation is there in any case, each
row once, and nothing that was deleted is back. In the end the bucket is whole, and has nothing that no generation names.

PYRRHA_LONG=1: sixty lives, PYRRHA_SEED: others."""
import gzip
import http.client
import json
import os
import random
import shutil
import threading
import time

import remote_write
from harness import Clock, Echo, LONG, Process, Server, Skip, check, http_get, run, slow, wait_until
from object_stores import BUCKET, Versitygw
from pprof_file import message
from s3_proxy import S3Proxy
from test_bucket import NOTHING, bucket, reload, s3_section, scraping

FLAGS = ["--web.enable-admin-api", "--web.enable-remote-write-receiver"]
SEED = int(os.environ.get("PYRRHA_SEED", "41"))
FAULTS = 0.05  # of the requests; each has five attempts
HOUR = 3600

ACKED = "acknowledged"  # it is on this disk
UP = "up"               # it is in a generation, too
MAYBE = "maybe"         # the server died before it answered: it is there or not, and the next look tells
HIDDEN = "hidden"       # deleted on this disk; the bucket may not know
GONE = "gone"           # deleted, and the bucket has the delete


def profile(end, value):
    """A pprof file of three stacks: 3 x value of CPU."""
    out = bytearray(message((1, message((1, 1), (2, 2)))))
    for i in range(3):
        out += message((5, message((1, i + 1), (2, 4 + i), (3, 4 + i))), (4, message((1, i + 1), (4, message((1, i + 1), (2, 7))))))
        out += message((2, message((1, i + 1), (2, value))))
    for text in ("", "cpu", "nanoseconds", "/bin/lives", "main.a", "main.b", "main.c"):
        out += message((6, text.encode()))
    return gzip.compress(bytes(out + message((9, (end - 10) * 10**9), (10, 10 * 10**9), (11, message((1, 1), (2, 2))), (12, 1))))


class Row:
    def __init__(self, value, state, sealed=False):
        self.value, self.state, self.sealed, self.before = value, state, sealed, state


class Died(Exception):
    """The server was killed meanwhile."""


class Lives:
    """A server with an id, and what it has to have: .rows, {(kind, name, ms): Row}."""

    def __init__(self, env, id_, proxy, seed, echo=None):
        self.env, self.id, self.proxy, self.dice = env, id_, proxy, random.Random(seed)
        self.rows, self.scraped, self.rounds, self.lost, self.count = {}, set(), 0, False, {}
        where = s3_section(proxy.port, "  seal_interval: 1m\n  grace: 1h\n").replace("shop-1", id_)
        self.quiet = NOTHING + where
        self.config = (scraping(echo) if echo else NOTHING) + where
        self.storage, self.server = env.path(id_ + "-data"), None
        self.up_to = 0

    def noted(self, what):
        self.count[what] = self.count.get(what, 0) + 1

    def fail(self, text):
        raise AssertionError(f"{self.id}, life {self.rounds}: {text}")

    # -- what it gets --

    def a_time(self):
        """In the hours from 30 to 2 before now, in ms."""
        return int(time.time() - self.dice.uniform(2, 30) * HOUR) * 1000

    def imports(self):
        """Profiles come into the directory while no server has it: sealed."""
        folder = self.env.path(f"{self.id}-files-{self.rounds}")
        made = {}
        for i in range(self.dice.randrange(1, 5)):
            name, at, value = f"{self.rounds}-{i}", self.a_time(), self.dice.randrange(1, 10**9)
            os.makedirs(os.path.join(folder, "job=lives", "of=" + name))
            with open(os.path.join(folder, "job=lives", "of=" + name, f"{at // 1000}.pb.gz"), "wb") as f:
                f.write(profile(at // 1000, value))
            made["profile", name, at] = 3 * value / 1e9
        status, out = run([self.env.program("pyrtool"), "tsdb", "import", self.storage, folder, "--output=json"])
        if status or json.loads(out)["bad"]:
            self.fail(f"import: {out}")
        shutil.rmtree(folder)
        self.rows.update({k: Row(v, ACKED, True) for k, v in made.items()})
        self.noted("imports")

    def push(self):
        """A series with its own stamps, a few minutes long."""
        name, at = f"{self.rounds}-{self.dice.randrange(10**9)}", self.a_time()
        samples = [(at + 60000 * i, float(self.dice.randrange(10**6))) for i in range(self.dice.randrange(1, 6))]
        keys = [("float", name, t) for t, _ in samples]
        self.rows.update({("float", name, t): Row(v, MAYBE) for t, v in samples})
        status, text = self.asked(lambda: remote_write.post(self.server.url, [({"__name__": "pushed", "job": "lives", "of": name}, samples)]))
        if status != 204:
            self.fail(f"remote-write: {status} {text}")
        for k in keys:
            self.rows[k].state = self.rows[k].before = ACKED
        self.noted("pushes")

    def delete(self):
        """One series or some minutes of all."""
        candidates = [k for k, r in self.rows.items() if r.state in (ACKED, UP)]
        if not candidates:
            return
        kind, name, t = self.dice.choice(candidates)
        wide = self.dice.random() < 0.3
        after, until = (t - 20 * 60000, t + 10 * 60000) if wide else (t - 1, t)
        hit = [k for k, r in self.rows.items() if r.state in (ACKED, UP) and after < k[2] <= until and (wide or k[1] == name)]
        for k in hit:
            self.rows[k].before, self.rows[k].state = self.rows[k].state, MAYBE
        link = self.server.link("/api/v1/admin/tsdb/delete_series", **{
            "match[]": '{job="lives"}' if wide else f'{{job="lives",of="{name}"}}', "start": f"{(after + 1) / 1000:.3f}", "end": f"{until / 1000:.3f}"})
        status, _, body = self.asked(lambda: http_get(link, data=b""))
        if status not in (200, 204):
            self.fail(f"delete: {status} {body}")
        for k in hit:
            self.rows[k].state = GONE if status == 204 else HIDDEN
        self.noted("deletes" if status == 204 else "deletes that follow")

    def asked(self, request):
        try:
            return request()
        except (OSError, http.client.HTTPException) as e:
            if self.dying.is_set():
                raise Died() from e
            raise

    # -- what it has --

    def found(self):
        data = self.server.query('{job="lives"}[40h]', time=f"{time.time():.3f}")["result"]
        rows = {}
        for s in data:
            kind = "float" if s["metric"]["__name__"] == "pushed" else "profile"
            for t, v in s["values"]:
                key = kind, s["metric"]["of"], round(t * 1000)
                if key in rows:
                    self.fail(f"{key} is there twice")
                rows[key] = float(v)
        return rows

    def look(self):
        """After a start: each row against what is known of it."""
        found = self.found()
        for key, value in found.items():
            row = self.rows.get(key)
            if not row:
                self.fail(f"{key} was never written")
            if abs(value - row.value) > 1e-6:
                self.fail(f"{key} is {value}, not {row.value}")
            if row.state == GONE or row.state == HIDDEN and not self.lost:
                self.fail(f"{key} was deleted ({row.state}) and is back")
            if self.lost:
                row.state = UP
            elif row.state == MAYBE:
                row.state = UP if row.before == UP else ACKED
        for key, row in list(self.rows.items()):
            if key in found or row.state in (GONE, HIDDEN):
                continue
            if row.state == UP or row.state == ACKED and not self.lost:
                self.fail(f"{key}, which is {row.state}{', on a disk that was lost' if self.lost else ''}, is lost")
            if row.state == MAYBE and row.before in (ACKED, UP):
                row.state = HIDDEN
            else:
                del self.rows[key]
        if self.lost:
            for row in self.rows.values():
                row.state = GONE if row.state == HIDDEN else row.state
                row.sealed = True
        self.look_scraped()
        self.lost = False

    def look_scraped(self):
        data = self.server.query('{job="shop"}[2h]', time=f"{time.time():.3f}")["result"]
        values = [(tuple(sorted(s["metric"].items())), t) for s in data for t, _ in s["values"]]
        have = set(values)
        if len(have) != len(values):
            self.fail("scraped rows are there twice")
        must = {x for x in self.scraped if not self.lost or x[1] <= self.up_to}
        if must - have:
            self.fail(f"{len(must - have)} of {len(must)} scraped rows are lost: {sorted(must - have)[:3]}, up to {self.up_to}")
        self.scraped = have

    def mark_up(self):
        """What is sealed and in no generation is said to wait. True: nothing waits, all is up."""
        state = bucket(self.server)
        if state["state"] != "writing" or state["waiting"]["parts"] or state["lastError"]:
            return False
        all_of_it = self.server.api("status/tsdb")["storage"]["windows"] == 0
        for row in self.rows.values():
            if row.state == ACKED and (row.sealed or all_of_it):
                row.state = UP
            elif row.state == HIDDEN and not state["waiting"]["deletes"]:
                row.state = GONE
        return all_of_it

    # -- lives --

    def start(self):
        self.rounds += 1
        self.dying = threading.Event()
        if self.lost and self.server and self.dice.random() < 0.5:  # it dies while it comes back
            Process.__init__(self.server, self.env, self.id, self.server.argv)
            time.sleep(self.dice.uniform(0, 1.5))
            self.server.kill()
            self.noted("deaths on the way back")
        for attempt in range(5):  # an empty directory needs its bucket
            try:
                if self.server:
                    self.server.restart()
                else:
                    self.server = Server(self.env, self.config, FLAGS, name=self.id)
                break
            except AssertionError:
                if not self.lost or self.server is None or self.server.alive() or attempt == 4:
                    raise
        if self.lost:
            wait_until("all days are back", self.is_back, 120)
        self.look()

    def is_back(self):
        m = self.server.metrics()
        state = bucket(self.server)
        if state["id"] != self.id:
            self.fail(f"the empty directory goes on as {state['id']}: {state['why']}; {self.server.text()[-1500:]}")
        return m["pyrrha_tsdb_bucket_writes"] == 1 and m["pyrrha_tsdb_bucket_absent_days"] == 0

    def live(self, seconds, wanted=None):
        """Until it is killed, after so many seconds, or when `wanted` is true and at most after them."""
        def kill():
            self.dying.set()
            self.server.kill()
        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            while not self.dying.is_set():
                what = self.dice.random()
                if wanted:
                    if self.asked(wanted):
                        break
                    time.sleep(0.3)
                elif what < 0.5:
                    self.push()
                elif what < 0.6:
                    self.delete()
                else:
                    self.asked(self.mark_up)
                    time.sleep(self.dice.uniform(0, 1))
        except Died:
            pass
        finally:
            reached = not self.dying.is_set()
            timer.cancel()
            kill()
            timer.join()
        return reached

    def newest_up(self):
        """Up to when scraped rows are in generations for sure: a scrape may have come half when its hour was sealed."""
        status, out = run([self.env.program("pyrtool"), "bucket", "ls", "--config.file=" + self.server.config, "--id=" + self.id, "--output=json"])
        if status:
            return 0
        days = [d for s in json.loads(out) for d in s["days"] if d.get("maxTime")]
        return max([d["maxTime"] / 1000 for d in days] or [0]) - 20

    def lose(self):
        self.up_to = self.newest_up()
        shutil.rmtree(self.storage)
        self.lost = True
        self.noted("disks lost")

    def end(self):
        """All goes up, comes back to an empty disk, and is right in the bucket."""
        self.start()
        if self.config != self.quiet:
            reload(self.server, self.quiet)
        if not self.live(600, self.mark_up):
            self.fail(f"not all goes up: {bucket(self.server)}")
        self.lose()
        self.start()
        status, _ = self.server.terminate(20)
        if status:
            self.fail(f"exit status {status}")

    def later(self, clock, directory):
        """Two hours later, which is more than the grace time. Over the store's directory: the store's own clock cannot be set."""
        class Later(Server):
            under = clock.under
        config = f"{NOTHING}object_storage:\n  server_id: {self.id}\n  bucket: {{type: FILESYSTEM, prefix: e2e, config: {{directory: {directory}}}}}\n  grace: 1h\n"
        self.server = Later(self.env, config, FLAGS, name=self.id)

    def orphans(self):
        """Objects that no newest generation names."""
        status, out = run([self.env.program("pyrtool"), "bucket", "stats", "--config.file=" + self.server.config, "--id=" + self.id, "--output=json"])
        check(status == 0, out)
        stats = json.loads(out)
        return stats["orphans"]["objects"] + stats["oldGenerations"]["objects"]

    def verify(self):
        status, out = run([self.env.program("pyrtool"), "bucket", "verify", "--deep", "--config.file=" + self.server.config, "--id=" + self.id])
        check(status == 0, f"{self.id}: {out}")


@slow
def test_a_few_lives(env):
    store = Versitygw(env)
    proxy = S3Proxy(env, store.port, seed=SEED, share=FAULTS)
    lives = Lives(env, "shop-1", proxy, SEED)
    lives.imports()
    lives.start()
    lives.live(2)
    lives.imports()
    lives.start()
    wait_until("what was imported is up", lambda: lives.mark_up() or all(r.state in (UP, GONE) for r in lives.rows.values() if r.sealed), 90)
    lives.push()
    lives.delete()
    lives.live(1)
    lives.lose()
    lives.start()
    lives.delete()
    lives.live(2)
    lives.start()
    lives.live(0.5)
    lives.lose()
    lives.start()
    check(lives.server.terminate(20)[0] == 0, "exit status")
    lives.verify()
    print(f"# {lives.count}, {len(lives.rows)} rows; {proxy.requests} requests, {dict(proxy.count)}")


def many(lives, rounds, failed):
    """Lives of one id."""
    try:
        lives.imports()
        for _ in range(rounds):
            lives.start()
            kind = lives.dice.random()
            if kind < 0.35:
                lives.live(lives.dice.uniform(0, 5))
            elif kind < 0.6:
                lives.live(lives.dice.uniform(5, 60))
            else:
                lives.live(lives.dice.uniform(0, 5))
                lives.start()
                lives.live(150, lives.mark_up)
            if lives.dice.random() < 0.35:
                lives.lose()
            elif lives.dice.random() < 0.4:
                lives.imports()
        if not lives.lost:
            lives.end()
        else:
            lives.start()
            lives.live(1)
            lives.end()
    except Exception as e:  # a thread's end is seen nowhere else
        failed.append(f"{lives.id}: {e!r}")


@slow
def test_many_lives(env):
    if not LONG:
        raise Skip("some twenty minutes: PYRRHA_LONG=1")
    store = Versitygw(env)
    proxy = S3Proxy(env, store.port, seed=SEED, share=FAULTS)
    failed = []
    some = [Lives(env, f"shop-{i}", proxy, SEED * 100 + i) for i in range(5)] + [Lives(env, "shop-5", proxy, SEED, Echo(env))]
    threads = [threading.Thread(target=many, args=(x, 10, failed)) for x in some]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"# {sum(x.rounds for x in some)} lives, {sum(len(x.rows) for x in some)} rows, {[x.count for x in some]}; {proxy.requests} requests, {dict(proxy.count)}")
    check(not failed, "; ".join(failed))
    for x in some:
        x.verify()
    clock = Clock(env, "pyrrha")
    clock.set(2 * HOUR)
    before = {x.id: x.orphans() for x in some}
    for x in some:
        x.later(clock, env.path(f"buckets/{BUCKET}"))
    wait_until("nothing is left that no generation names", lambda: time.sleep(5) or not sum(x.orphans() for x in some), 1200)  # they look twelve minutes after their start
    print(f"# orphans: {before}, and then none")
    for x in some:
        check(bucket(x.server)["id"] == x.id, bucket(x.server))
        check(x.server.terminate(20)[0] == 0, "exit status")
        x.verify()


# ---- two servers of one id ----

def writers(servers):
    return [s.name for s in servers if bucket(s)["state"] == "writing" and bucket(s)["id"] == "shop-1"]


@slow
def test_two_servers_by_turns_and_together(env):
    """Exactly one writes under the id, the other one says why it does not; an old copy of the disk takes an id of its own and touches nothing."""
    if not LONG:
        raise Skip("some minutes: PYRRHA_LONG=1")
    store = Versitygw(env)
    proxy = S3Proxy(env, store.port, seed=SEED, share=FAULTS)
    first, second = Lives(env, "shop-1", proxy, 1), Lives(env, "shop-1", proxy, 2)
    second.storage = env.path("second-data")
    first.imports()
    first.start()
    first.push()
    wait_until("all of it is up", first.mark_up, 240)
    # Together.
    second.server = Server(env, second.config, FLAGS, name="second")
    wait_until("the first one stops writing", lambda: bucket(first.server)["state"] == "stopped", 120)
    check("another process has" in bucket(first.server)["why"] and "does not write to its bucket any more" in first.server.text(), bucket(first.server))
    check(writers([first.server, second.server]) == ["second"], "exactly one writes")
    second.rows = {k: Row(r.value, UP, True) for k, r in first.rows.items()}
    second.lost = True
    wait_until("the second one has all", second.is_back, 60)
    second.look()
    for turn in (first, second):  # each pushes what the other one does not know
        turn.rounds += 10 * (turn is second)
        turn.dying = threading.Event()
        turn.push()
    wait_until("the second one puts", second.mark_up, 240)
    # By turns: the first one comes again, with a disk that is not the newest.
    for x in (second, first):
        check(x.server.terminate(20)[0] == 0, "exit status")
    shutil.copytree(second.storage, env.path("copy"))
    first.server.restart()
    own = wait_until("it has an id of its own", lambda: bucket(first.server)["state"] == "writing" and bucket(first.server)["id"], 60)
    check(own.startswith("shop-1-"), own)
    first.look()
    second.server.restart()
    wait_until("the second one goes on", lambda: writers([second.server]) == ["second"], 60)
    second.look()
    wait_until("the first one puts all under its own id", first.mark_up, 240)
    second.dying = threading.Event()
    second.push()
    wait_until("the second one puts more", second.mark_up, 240)
    for x in (second, first):
        check(x.server.terminate(20)[0] == 0, "exit status")
    # An old copy of its disk returns.
    os.rename(second.storage, env.path("away"))
    os.rename(env.path("copy"), second.storage)
    second.server.restart()
    another = wait_until("the copy has an id of its own", lambda: bucket(second.server)["state"] == "writing" and bucket(second.server)["id"], 60)
    check(another.startswith("shop-1-") and another != own, another)
    wait_until("it puts all under that", lambda: bucket(second.server)["waiting"]["parts"] == 0, 240)
    check(second.server.terminate(20)[0] == 0, "exit status")
    # What the id has is still all that the second one put.
    shutil.rmtree(second.storage)
    second.lost = True
    second.start()
    check(second.server.terminate(20)[0] == 0, "exit status")
    for second.id in ("shop-1", own, another):
        second.verify()
