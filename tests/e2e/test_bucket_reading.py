# SPDX-License-Identifier: Apache-2.0
"""Days that are in the bucket alone: a server whose disk has the newest day, and another server that reads the bucket, answer as the one that had them all,
byte by byte: from a cold cache, a warm one, one of which half is gone, and while the owner rewrites days. The questions and the days are those of test_bucket_days.py."""
import json
import os
import shutil
import time

from harness import LONG, Skip, check, http_get, slow, wait_until
from test_bucket_days import DAY, Days, ask_all, compare, is_back, metric, of_the_bench, questions


def is_here(server, days):
    """All that local retention wants is on the disk."""
    return metric(server, "absent_days") == days


def lose_half(cache):
    """Files of a cache are removed, cut off, or have a byte changed, one after the other; one of four stays as it is."""
    names = sorted(os.path.join(path, name) for path, _, names in os.walk(cache) for name in names)
    check(len(names) > 20, f"{len(names)} files in {cache}")
    for n, name in enumerate(names):
        if n % 4 == 1:
            os.unlink(name)
        elif n % 4 == 2:
            os.truncate(name, os.path.getsize(name) // 2)
        elif n % 4 == 3 and os.path.getsize(name):
            with open(name, "r+b") as f:
                f.seek(os.path.getsize(name) // 2)
                byte = f.read(1)
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte[0] ^ 1]))


def read_by_another_server(env, d, asked, before, owner):
    keys = "\n  read: all"

    def start(name):
        s = d.server(name, env.path("reader"), id_="reader", keys=keys)
        wait_until("it knows the owner's days", lambda: metric(s, "other_days") == metric(owner, "days"), 120)
        return s

    reader = start("reader")
    compare(env, "another-server", before, ask_all(reader, asked))
    check(metric(reader, "other_servers") == 1 and metric(reader, "days") == 0, "whose days are read")
    check(reader.terminate(60)[0] == 0, reader.text())
    lose_half(env.path("reader/bucket/cache"))
    reader = start("reader-half")
    compare(env, "half-evicted", before, ask_all(reader, asked))
    check(reader.terminate(60)[0] == 0, reader.text())
    # The owner deletes rows of days that are in the bucket alone, and fetches, rewrites and puts these days while the other server is asked.
    gone = {"match[]": '{service="service-1",node="node-0"}', "start": str(d.newest - 6 * DAY), "end": str(d.newest - 4 * DAY - 3600)}
    status, _, body = http_get(owner.link("/api/v1/admin/tsdb/delete_series", **gone), data=b"")
    check(status == 204, f"{status}: {body}")
    reader = start("reader-amid")
    puts = metric(owner, "generations_total")
    amid = ask_all(reader, asked)
    compare(env, "amid-deletes", ask_all(owner, asked), amid)
    wait_until("the owner has rewritten the days", lambda: metric(owner, "generations_total") > puts, 300)
    time.sleep(70)  # it looks once a minute
    compare(env, "after-deletes", amid, ask_all(reader, asked))
    check(reader.terminate(60)[0] == 0, reader.text())
    shutil.rmtree(env.path("reader"))


def totals_take_no_request(d, server, http):
    """Windows that end on whole hours of days whose rows nobody has deleted: the generations say what they come to."""
    cpu, end, before = http.CPU, d.newest // DAY * DAY - 2 * DAY, metric(server, "reads_total")
    graph, values = {"start": end - DAY + 3600, "end": end, "step": 3600}, []
    for query in ("merge by (service) (%s[1h])", "sum by (service) (sum_over_time(%s[1h]))"):
        status, _, body = http_get(server.link("/api/v1/query_range", query=query % cpu, **graph))
        check(status == 200, f"{status}: {body}")
        check(metric(server, "reads_total") == before, f"{query}: {metric(server, 'reads_total') - before} requests")
        values.append([(s["metric"], s["values"]) for s in json.loads(body)["data"]["result"]])
    check(len(values[0]) > 1 and len(values[0][0][1]) == 24 and values[0] == values[1], f"merge and sum_over_time: {str(values[0])[:300]}, {str(values[1])[:300]}")


@slow
def test_answers_are_the_same(env):
    if not LONG and not os.environ.get("PYRRHA_BUCKET_DAYS"):
        raise Skip("minutes of CPU: runs with PYRRHA_LONG=1, or with PYRRHA_BUCKET_DAYS=1 for fewer questions")
    days = 8
    d = Days(env, f"--days={days}", *([] if LONG else ["--every=60"]))
    asked = questions(days, d.newest, d.function)
    first = d.server("first", d.storage)
    wait_until("it writes to the bucket", lambda: is_back(first))
    gone = {"match[]": '{service="service-3",node="node-0"}', "start": str(d.newest - 5 * DAY), "end": str(d.newest - 4 * DAY)}
    status, _, body = http_get(first.link("/api/v1/admin/tsdb/delete_series", **gone), data=b"")
    check(status == 204, f"{status}: {body}")
    before = ask_all(first, asked)
    wait_until("it has put what it rewrote", lambda: metric(first, "waiting_parts") == 0, 300)
    check(first.terminate(60)[0] == 0, first.text())
    shutil.rmtree(d.storage)

    small = ["--storage.local-retention.time=1d"]
    second = d.server("second", env.path("small"), options=small)
    wait_until("the newest days are back", lambda: metric(second, "absent_days") <= days - 2, 300)
    absent = metric(second, "absent_days")
    check(absent >= days - 3, f"{absent} of {days} days are in the bucket alone")
    totals_take_no_request(d, second, of_the_bench())
    begin = time.monotonic()
    compare(env, "cold", before, ask_all(second, asked))
    cold = time.monotonic() - begin
    reads, read_bytes = metric(second, "reads_total"), metric(second, "read_bytes_total")
    begin = time.monotonic()
    compare(env, "warm", before, ask_all(second, asked))
    warm = time.monotonic() - begin
    # A day that is rewritten without deleted rows meanwhile has a new generation, and is read again.
    check(metric(second, "reads_total") < reads * 1.5, "what was read once is read again")
    check(metric(second, "absent_days") == absent, "days came back by themselves")
    check(second.terminate(60)[0] == 0, second.text())

    again = d.server("again", env.path("small"), options=small)
    wait_until("it writes to the bucket", lambda: metric(again, "writes") == 1)
    compare(env, "restarted", before, ask_all(again, asked))
    check(metric(again, "read_bytes_total") < read_bytes / 20, "the cache did not survive the restart")
    read_by_another_server(env, d, asked, before, again)
    check(again.terminate(60)[0] == 0, again.text())
    env.path("figures", f"{len(asked)} questions; {absent:.0f} days in the bucket alone; cold {cold:.1f} s, warm {warm:.1f} s; {reads:.0f} requests, {read_bytes / 1e6:.1f} MB\n")
    for name in ("bucket", "small"):
        shutil.rmtree(env.path(name))
