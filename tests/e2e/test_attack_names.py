# SPDX-License-Identifier: Apache-2.0
"""One target that invents names beside targets that are well: memory stays within its flag, totals stay exact, it is told,
and the others keep their names."""
import os
import sys
import time

from harness import LONG, Server, TOP, check, slow, wait_until
from test_attack_targets import attackers, healthy_targets, miss_none

sys.path.insert(0, os.path.join(TOP, "tests", "attack"))
import heavy_bodies  # noqa: E402

LIMIT = 100000


@slow
def test_invented_names_stay_within_the_budget(env):
    healthy = heavy_bodies.job("healthy", healthy_targets(env), "1s")
    inventor = heavy_bodies.job("inventor", attackers(env, "invent_names", 8 if LONG else 1), "1s", timeout="10s")
    server = Server(env, "scrape_configs:\n" + healthy + inventor,
                    ["--storage.dictionary-memory=64MB", f"--storage.max-target-functions={LIMIT}"])
    other = lambda: server.metrics()["pyrrha_tsdb_target_samples_other_total"]
    wait_until("some become (other)", other, 60)
    time.sleep(60 if LONG else 5)
    wait_until("it goes on", lambda seen=other(): other() > seen, 30)
    notes = wait_until("it is told on the page", lambda: {t["labels"]["job"]: t["note"] for t in server.targets() if t.get("note")})
    check("(other)" in notes.get("inventor", "") and "healthy" not in notes, f"{notes}")
    check("named too much" in server.text(), "the log says nothing")
    # Each scrape adds up to 40,000, named or not; the last ones are (other) nearly as a whole.
    result = server.query('total({__name__=~"memory:inuse_space:.*",job="inventor"})')["result"]
    check({float(r["value"][1]) for r in result} == {40000}, f"{result}")
    other_of = lambda job: server.value('sum(self({__name__=~"memory:.*",job="%s"}, {function="(other)"}))' % job)
    wait_until("the newest is (other)", lambda: other_of("inventor") in (40000, 320000), 30)
    m = server.metrics()
    check(m["pyrrha_tsdb_dictionary_bytes"] <= 64 << 20, f"{m['pyrrha_tsdb_dictionary_bytes'] / 1e6} MB of names")
    # The healthy ones have theirs: none of them has a frame (other).
    wait_until("the healthy miss none", lambda: miss_none(server), 60)
    check(not other_of("healthy"), f"{other_of('healthy')} of the healthy is (other)")
