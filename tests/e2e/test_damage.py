# SPDX-License-Identifier: Apache-2.0
"""One flipped bit in a file of the storage: the server starts, answers with what is whole, says what is not, and keeps the file."""
import glob
import json
import os
import random
import signal
import time

from harness import Echo, Server, check, run, scrape_config, wait_until
from test_format import DAY, Stamper, made

HOURS, PODS, EACH = 3, 8, 6
NAME = "process_cpu:samples:count:cpu:nanoseconds:delta"


def flip(path, at, bit=3):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1 << bit]))


def sealed(env, path):
    """Three hours of eight pods, as the importer seals them."""
    dice = random.Random(7)
    for hour in range(HOURS):
        for pod in range(PODS):
            folder = os.path.join(env.dir, "files", "job=shop", f"pod={pod}")
            os.makedirs(folder, exist_ok=True)
            for i in range(EACH):
                t = DAY + 3600 * hour + 600 * i + 60 + pod
                stacks = [([f"f{dice.randrange(300)}" for _ in range(8)] + ["main"], (n, n * 10000000)) for n in range(1, 150)]
                with open(os.path.join(folder, f"{t}.pb"), "wb") as f:
                    f.write(Stamper(made(stacks)).until(t))
    status, out = run([env.program("pyrtool"), "tsdb", "import", path, os.path.join(env.dir, "files"), "--output=json"])
    check(status == 0 and json.loads(out)["bad"] == 0, out)


def ask(server, hour):
    """The value of each pod in an hour, and the warnings."""
    answer = json.loads(server.get("/api/v1/query", query=f'total(merge by (pod) ({NAME}{{job="shop"}}[1h]))', time=DAY + 3600 * (hour + 1)))
    check(answer["status"] == "success", answer)
    return {r["metric"]["pod"]: r["value"][1] for r in answer["data"]["result"]}, answer.get("warnings", [])


def test_a_flipped_bit_in_a_sealed_part(env):
    path = os.path.join(env.dir, "pyrrha-data")
    sealed(env, path)
    flags = ["--storage.tsdb.retention.time=0"]
    server = Server(env, scrape_config([]), flags)
    whole = [ask(server, h) for h in range(HOURS)]
    check(all(len(values) == PODS and not warnings for values, warnings in whole), whole)
    folder, = glob.glob(os.path.join(path, "partitions", "[0-9]*"))
    files = sorted(f for f in glob.glob(os.path.join(folder, "*.sst")))
    check(len(files) >= HOURS, files)
    server.terminate()
    flip(files[0], 40)  # header and index of the first
    flip(files[1], os.path.getsize(files[1]) - 30)  # footer of the second: RocksDB does not open it
    flip(files[2], os.path.getsize(files[2]) // 4)  # data of the third
    server.restart()
    harmed = 0
    for hour in range(HOURS):
        values, warnings = ask(server, hour)
        full = whole[hour][0]
        check(all(full[pod] == v for pod, v in values.items()), f"hour {hour}: {values} of {full}")
        check(values == full or any("is damaged" in w for w in warnings), f"hour {hour}: {values} of {full}, and the warnings are {warnings}")
        harmed += values != full
    check(harmed < HOURS, "header, symbols and footer cost no values")
    check("(lost)" not in server.get("/api/v1/query", query=f'merge({NAME}{{job="shop"}}[3h])', format="folded", time=DAY + 3600 * HOURS).decode(),
          "names are lost that the next part repeats")
    metrics = server.metrics()
    check(not harmed or metrics["pyrrha_tsdb_lost_records_total"] >= 1, metrics["pyrrha_tsdb_lost_records_total"])
    check(glob.glob(folder + ".bad-*/*.sst"), f"no damaged file is kept aside: {os.listdir(os.path.dirname(folder))}")
    before = [ask(server, h) for h in range(HOURS)]
    server.terminate()
    server.restart()
    check([ask(server, h) for h in range(HOURS)] == before, "another start answers otherwise")


def warned(server, window, time_s):
    answer = json.loads(server.get("/api/v1/query", query=f"count_over_time(up[{window}])", time=time_s))
    return any("is damaged" in w for w in answer.get("warnings", []))


def test_a_flipped_bit_in_the_head_log(env):
    begun = time.time()
    server = Server(env, scrape_config([Echo(env).address]))
    head = os.path.join(server.storage, "head")

    def written_since(commits):
        """The number of the last record, once so many commits more were made."""
        before = server.metrics().get("pyrrha_tsdb_commit_duration_seconds_count", 0)
        return wait_until("profiles", lambda: (m := server.metrics()).get("pyrrha_appended_profiles_total", 0) > 20 and
                          m["pyrrha_tsdb_commit_duration_seconds_count"] > before + commits and m["pyrrha_tsdb_last_record"], 40)
    # A damaged commit loses all of its records. The first commit has the most bytes, because it holds the names of functions.
    written_since(2)
    log = max(glob.glob(os.path.join(head, "*.log")), key=os.path.getsize)
    before = os.path.getsize(log)
    written = written_since(2)
    server.p.send_signal(signal.SIGKILL)
    server.p.wait()
    crashed = time.time()
    size = os.path.getsize(log)
    check(size > before > 1000, (before, size))
    flip(log, (before + size) // 2)
    server.restart()
    metrics = server.metrics()
    check(1 <= metrics["pyrrha_tsdb_lost_records_total"] < written, f"{metrics['pyrrha_tsdb_lost_records_total']} of {written} records")
    check("pyrrha_tsdb_lost_symbols_total" in metrics, "lost names are counted apart")
    check(metrics["pyrrha_tsdb_holes"] >= 1, "it is not known what was lost")
    check(warned(server, f"{int(crashed - begun) + 120}s", crashed), "no answer says that something is missing")
    check(not warned(server, "1h", begun - 2 * 86400), "an answer about another day says so")
    kept = glob.glob(head + ".bad-*/*.log")
    check(len(kept) == 1 and os.path.getsize(kept[0]) == size, kept)
    wait_until("it scrapes on", lambda: (server.value('count_over_time(up{job="echoserver"}[1m])', time=time.time()) or 0) > 3, 30)
    # The same of a table, which the start made of the log.
    server.terminate()
    tables = [f for f in glob.glob(os.path.join(head, "*.sst")) if os.path.getsize(f) > 8000]
    check(tables, os.listdir(head))
    flip(tables[0], os.path.getsize(tables[0]) // 3)
    server.restart()
    check(server.metrics()["pyrrha_tsdb_lost_records_total"] >= 1, "a damaged block of a table is not counted")
    check(glob.glob(head + ".bad-*/*.sst"), "the damaged table is not kept aside")
    wait_until("it scrapes on", lambda: server.value('up{job="echoserver"}', time=time.time()) == 1, 30)
    # Also after another start.
    server.terminate()
    server.restart()
    check(warned(server, f"{int(crashed - begun) + 120}s", crashed) and server.metrics()["pyrrha_tsdb_holes"] >= 1, "it is forgotten")
