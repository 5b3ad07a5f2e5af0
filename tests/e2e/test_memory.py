# SPDX-License-Identifier: Apache-2.0
"""Budgets of memory: all of them follow from what the process may use, --memory, and the flags of single ones."""
import re

from harness import Server, check, run
from test_agent_memory import bounded_group

MIB = 1 << 20
PARTS = ("storage.cache-memory", "query.memory", "storage.dictionary-memory", "storage.head-memory", "scrape.memory", "web.answer-memory",
         "storage.queue-memory")
UNITS = {"": 1, "K": 1 << 10, "M": MIB, "G": MIB << 10}


def size(text):
    number, unit = re.fullmatch(r"([0-9.]+)([KMG]?)i?B", text).groups()
    return float(number) * UNITS[unit]


def budgets_of(env, *flags):
    """In MiB, as --help tells what was not given."""
    status, out = run([env.program("pyrrha"), *flags, "--help"])
    check(status == 0, out)
    return {name: size(text) / MIB for name, text in re.findall(r"^  --(\S+)=<size>  \(default (\S+)\)", out, re.M)}


def test_shares(env):
    b = budgets_of(env, "--memory=2GiB")
    check([b[p] for p in PARTS] == [512, 448, 320, 256, 192, 64, 64] and b["query.max-bytes"] == 224, str(b))
    more = budgets_of(env, "--memory=2GiB", "--query.memory=1GiB")
    check(more["query.max-bytes"] == 512 and 1024 + sum(more[p] for p in PARTS if p in more) <= 2048, f"the others have what is left: {more}")
    less = budgets_of(env, "--memory=2GiB", "--storage.cache-memory=64MiB")
    check({p: less[p] for p in PARTS[1:]} == {p: b[p] for p in PARTS[1:]}, f"the others keep theirs: {less}")


def test_few_queries_where_there_is_little(env):
    for flags, most in ((["--memory=4GiB"], "20"), (["--memory=512MiB"], "3"), (["--memory=128MiB"], "1")):
        status, out = run([env.program("pyrrha"), *flags, "--help"])
        check(status == 0 and f"--query.max-concurrency=<n>  (default {most})" in out, f"{flags}: {re.findall('.*max-concurrency.*', out)}")


def test_series_follow_the_memory(env):
    for flags, most in ((["--memory=8GiB"], 1000000), (["--memory=1GiB"], 524288), (["--memory=128MiB"], 65536)):
        status, out = run([env.program("pyrrha"), *flags, "--help"])
        check(status == 0 and f"--storage.max-series=<n>  (default {most})" in out, f"{flags}: {re.findall('.*max-series.*', out)}")


def test_impossible_ones(env):
    program = env.program("pyrrha")
    for flags, words in ((["--memory=100MiB"], "at least 128MiB"),
                         (["--memory=1GiB", "--query.memory=800MiB", "--scrape.memory=300MiB"], "ask for 1.1GiB of memory, --memory is 1.0GiB")):
        status, out = run([program, *flags, "--config.file=" + env.path("c.yml", ""), "--storage.path=" + env.path("d")])
        check(status != 0 and words in out, f"{flags}: {out}")


def in_group(env, limit, flags=(), config="scrape_configs: []\n"):
    group = bounded_group(env, "server", limit)

    class Bounded(Server):
        under = ("sh", "-c", f'echo $$ >{group.root}{group.path}/cgroup.procs && exec "$@"', "sh")

    return Bounded(env, config, flags)


def test_of_a_control_group(env):
    """Half of its limit; what is more than it is told."""
    server = in_group(env, 1024 * MIB)
    flags = server.api("status/flags")
    check(flags["memory"] == "512MiB" and flags["storage.cache-memory"] == "128MiB", str(flags))
    check("memory=512MiB" in server.text() and "level=warn" not in server.text(), server.text())
    server.terminate()
    server = in_group(env, 1024 * MIB, ["--memory=1500MiB"])
    check("the budgets of memory come to 1.5GiB, but the process may use 1.0GiB" in server.text(), server.text())
    server.terminate()
    server = in_group(env, 1024 * MIB, ["--query.memory=700MiB"])
    check(re.search(r"the budgets of memory come to \d+MiB, more than 512MiB", server.text()), server.text())
