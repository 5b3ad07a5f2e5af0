# SPDX-License-Identifier: Apache-2.0
"""Text metrics beside Debian's real Prometheus 2.42: one server gives both the same answers, scrape by scrape, and what both
store is compared sample by sample, stale markers included. An answer of a scrape is known by the time of its `up`, which is
each server's own; timestamps that stand in a text are the same for both."""
import gzip
import json
import re
import shutil
import threading
import time

from harness import HttpServer, Server, Skip, answer, check, http_get, wait_until
from raw_samples import of_prometheus, of_pyrrha
from test_agent import start_agent
from test_promql_oracle import Prometheus

TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Recorded:
    """Gives each client the answers of each path in order, then the last one for ever. answers: path -> [(status, type, body)]."""

    def __init__(self, env, answers):
        self.answers, self.lock, self.given = answers, threading.Lock(), {}
        self.wrong = []
        self.address = HttpServer(env, self.give).address

    def give(self, handler):
        client, _, path = handler.path.lstrip("/").partition("/")
        answers = self.answers["/" + path]
        with self.lock:
            n = self.given.get((client, path), 0)
            self.given[client, path] = n + 1
        if "version=0.0.4" not in handler.headers.get("Accept", "") or not handler.headers.get("X-Prometheus-Scrape-Timeout-Seconds"):
            self.wrong.append(dict(handler.headers))
        status, kind, body = answers[min(n, len(answers) - 1)]
        headers = [("Content-Type", kind)] if kind else []
        if "gzip" in handler.headers.get("Accept-Encoding", "") and n % 2:
            headers.append(("Content-Encoding", "gzip"))
            body = gzip.compress(body)
        answer(handler, status, body, headers)

    def done(self, client):
        with self.lock:
            return all(self.given.get((client, p.lstrip("/")), 0) > len(a) for p, a in self.answers.items())


def jobs(recorded, client, extra):
    """One job per path; instance is the same for both clients."""
    text = ["global: {scrape_interval: 400ms, scrape_timeout: 400ms, evaluation_interval: 1h}", "scrape_configs:"]
    for path in recorded.answers:
        name = path.lstrip("/")
        text += [f"- job_name: {name}", f"  metrics_path: /{client}{path}", *("  " + line for line in extra.get(name, [])),
                 f"  static_configs: [{{targets: ['{recorded.address}'], labels: {{instance: {name}, target: {name}, zone: a}}}}]"]
    return "\n".join(text) + "\n"


def in_scrapes(rows, counts, explicit):
    """Times become the number of the scrape whose `up` has them. Samples of scrapes beyond the script are left out, and values
    that are the clock's."""
    number = {}
    for key, samples in rows.items():
        labels = dict(key)
        if labels["__name__"] == "up":
            number[labels["target"]] = {t: i for i, (t, _) in enumerate(samples)}
    out = {}
    for key, samples in rows.items():
        labels = dict(key)
        job = labels["target"]
        for t, v in samples:
            n = number.get(job, {}).get(t)
            if n is None:
                check(t in explicit, f"{labels}: a sample at {t}, which is neither a scrape's time nor a text's")
            elif n >= counts[job]:
                continue
            if labels["__name__"] == "scrape_duration_seconds" and v != "stale":
                v = "some time"
            out.setdefault(key, []).append((f"at {t}" if n is None else n, v))
    return out


def without_markers(rows, job):
    """Of a scrape that is over sample_limit 2.42 takes what it read until then for seen: of these it ends none, and of what it
    left out it ends what never began. Ours is a scrape that brings nothing. How many series began in it they count differently."""
    kept = {}
    for key, samples in rows.items():
        labels = dict(key)
        if labels["target"] == job:
            samples = [s for s in samples if s[1] != "stale" and labels["__name__"] != "scrape_series_added"]
        if samples:
            kept[key] = samples
    return kept


def compare(env, answers, extra=None, explicit=(), ends_otherwise=None):
    recorded = Recorded(env, answers)
    begin = int(time.time() * 1000) - 3600000
    theirs = Prometheus(env, jobs(recorded, "theirs", extra or {}))
    ours = Server(env, jobs(recorded, "ours", extra or {}))
    wait_until("both have had all answers", lambda: recorded.done("ours") and recorded.done("theirs"), 60)
    time.sleep(1)
    ours.terminate(30)
    counts = {p.lstrip("/"): len(a) for p, a in answers.items()}
    a = in_scrapes(of_pyrrha(env, ours.storage), counts, explicit)
    b = in_scrapes(of_prometheus(theirs.url, begin, begin + 7200000), counts, explicit)
    a, b = without_markers(a, ends_otherwise), without_markers(b, ends_otherwise)
    check(not recorded.wrong, f"the headers of a request: {recorded.wrong[:1]}")
    check(set(a) == set(b), f"only ours: {sorted(set(a) - set(b))[:5]}; only theirs: {sorted(set(b) - set(a))[:5]}")
    for key in sorted(a):
        check(a[key] == b[key], f"{dict(key)}:\n  ours {a[key]}\ntheirs {b[key]}")
    return a


def ok(body):
    return 200, TEXT, body if isinstance(body, bytes) else body.encode()


FAILED = (500, TEXT, b"a 1\n")
BROKEN = ok("this is {not} of the format\n")


def without(body, prefix):
    return b"".join(line for line in body.splitlines(True) if not line.startswith(prefix))


def play(bodies, prefix):
    """Four recordings of one program: series vanish and come back, the target fails, breaks, is empty, and comes back."""
    b = [ok(x) for x in bodies]
    return [b[0], b[1], ok(without(bodies[1], prefix)), b[2], FAILED, FAILED, b[2], BROKEN, b[3], ok(b""), b[3], b[0],
            ok(without(bodies[0], prefix))]


def record(urls):
    bodies = []
    for _ in range(4):
        bodies.append({name: http_get(url + "/metrics")[2] for name, url in urls.items()})
        time.sleep(0.3)
    return {name: [b[name] for b in bodies] for name in urls}


def test_programs(env):
    """/metrics of Prometheus, of the server and of the agent."""
    config = "scrape_configs: [{job_name: p, scrape_interval: 1s, metrics_path: /metrics, static_configs: [{targets: ['%s']}]}]\n"
    real = Prometheus(env, config % "127.0.0.1:1")
    own = Server(env, config % real.url[7:], name="own")
    urls = {"prometheus": real.url, "pyrrha": own.url}
    try:
        urls["agent"] = start_agent(env)
    except Skip:
        pass
    wait_until("it has scraped", lambda: own.value('up{job="p"}') == 1)
    bodies = record(urls)
    for p in (real, own):
        p.terminate(30)
    shutil.rmtree(env.path("prometheus"))  # what it scraped itself is none of the recordings
    prefixes = {"prometheus": b"go_gc", "pyrrha": b"pyrrha_http", "agent": b"pyrrha_agent_b"}
    rows = compare(env, {"/" + name: play(bodies[name], prefixes[name]) for name in urls})
    check(len(rows) > 500, f"{len(rows)} series")
    check(sum(1 for samples in rows.values() for _, v in samples if v == "stale") > 1500, "markers")


def odd_texts(now):
    """What the format allows, and what breaks it, scrape by scrape."""
    soon, late = now + 2000, now + 3600000
    first = f"""# HELP odd_total Text with \\\\ and \\n in it.
# TYPE odd_total counter
odd_total{{a="x",}} 1
odd_total{{b="y" , a="x"}} 2 {now - 60000}
odd_total{{a="quote \\" backslash \\\\ line \\n other \\x",job="mine",exported_job="too"}} 3
odd_total{{zone="",instance="i"}} +Inf
# a comment
#TYPE odd_total nonsense

odd:values{{v="nan"}} NaN
odd:values{{v="neg"}}\t-Inf
odd:values{{v="dec"}} .5
odd:values{{v="exp"}} 1.25e-7
odd:values{{v="long"}} 0.1000000000000000055511151231257827
odd:values{{v="int"}} 18446744073709551615
odd:values{{v="tiny"}} 4.9e-324
odd:values{{v="none"}} 1e-400
stamped{{s="past"}} 1 {now - 30000}
stamped{{s="future"}} 1 {soon}
stamped{{s="too_far"}} 1 {late}
twice 1
twice 2
unicode{{l="ä\u20ac\U0001f600"}} 1
untyped_at_the_end 7"""
    second = first.replace("odd_total{a=\"x\",} 1\n", "").replace(f"{now - 30000}", f"{now - 20000}").replace("twice 1\n", "")
    third = f"stamped{{s=\"past\"}} 5 {now - 25000}\nstamped{{s=\"past\"}} 6 {now - 20000}\nstamped{{s=\"past\"}} 7 {now - 10000}\nstamped{{s=\"past\"}} 8 {now - 9000}\n" \
            "odd_total{a=\"x\"} 9\n"
    wrong = ["a 1 2 3\n", "a{b=c} 1\n", "a 1e999\n", "a 0x10\n", "9a 1\n", "a{b=\"1\",b=\"2\"} 1\n", "a 1\r\n", "# TYPE a thing\n", "a{__name__=\"b\"} 1\n"]
    return [ok(first), ok(second), ok(third), ok(first)] + [x for w in wrong for x in (ok(w), ok("a 1\n"))], \
        {now - 60000, now - 30000, now - 20000, now - 10000, now - 9000, now - 25000, soon, late}


def test_generated(env):
    """Odd names, labels, escapes, values and timestamps; honor_labels, honor_timestamps, relabelling, limits."""
    now = int(time.time() * 1000)
    odd, explicit = odd_texts(now)
    few = [ok("".join(f"m{{n=\"{i}\"}} {k}\n" for i in range(k))) for k in (3, 5, 6, 4, 8, 2)]
    labels = [ok("m{job=\"theirs\",zone=\"\",instance=\"x\",le=\"1\"} 1\nn{exported_job=\"y\",job=\"z\"} 2\ngone_a 1\ngone_b{drop=\"yes\"} 2\n"),
              ok("n{exported_job=\"y\",job=\"z\"} 3\ngone_a 1\n"), FAILED, ok("m{le=\"1\",job=\"theirs\"} 4\n")]
    sized = [ok("x 1\n" * n) for n in (1, 24, 25, 26, 2)]
    rules = ["metric_relabel_configs:", "- {source_labels: [__name__], regex: gone_a, action: drop}", "- {regex: drop, action: labeldrop}",
             "- {source_labels: [n], target_label: __name__, regex: '(.+)', replacement: 'renamed_$1'}"]
    answers = {"/odd": odd, "/untimed": odd[:4], "/tracked": odd[:4], "/limited": few, "/labels": labels, "/honored": labels,
               "/relabelled": labels + few, "/long": labels, "/sized": sized}
    extra = {"untimed": ["honor_timestamps: false"], "limited": ["sample_limit: 5"], "honored": ["honor_labels: true"], "relabelled": rules,
             "long": ["label_limit: 5"], "sized": ["body_size_limit: 100B"]}
    del answers["/tracked"]  # a key that 2.42 does not have; a unit test has it
    rows = compare(env, answers, extra, explicit, ends_otherwise="limited")
    names = {dict(key)["__name__"] for key in rows}
    check({"odd:values", "stamped", "renamed_0", "m"} <= names, str(names))


def sorted_rows(rows):
    return sorted(rows, key=lambda r: json.dumps(r, sort_keys=True))


def test_metadata(env):
    """What metrics say of themselves, as both servers tell of it; and for how long of what is gone."""
    first = ("# HELP a_total two \\\\ \\n lines \\x \\\" end\n# TYPE a_total counter\na_total 1\n# TYPE b untyped\n# HELP c Only\thelp. \n"
             "# TYPE h histogram\nh_bucket{le=\"1\"} 1\n# TYPE s summary\n# HELP  spaced   far\n# HELP empty \n# HELP empty2\n# UNIT a_total seconds\n"
             "# TYPE a_total counter\n# TYPE changed gauge\n# HELP changed one\n# HELP changed two\n")
    second = "# HELP a_total another\n# TYPE changed counter\n# HELP o x\na_total 1\n"
    last = "# TYPE last gauge\nlast 1\n"
    answers = {"/one": [ok(first)], "/two": [ok(first), ok(second)], "/three": [ok(first), FAILED],
               "/four": [ok(first)] * 2 + [ok(last)] * 13}
    recorded = Recorded(env, answers)
    theirs = Prometheus(env, jobs(recorded, "theirs", {}))
    ours = Server(env, jobs(recorded, "ours", {}))
    wait_until("both have had all answers", lambda: recorded.done("ours") and recorded.done("theirs"), 60)

    def data(url, path):
        status, _, body = http_get(url + "/api/v1/" + path)
        check(status == 200, f"{path}: {status} {body[:200]}")
        return json.loads(body)["data"]

    own = {"up", "profile_up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_body_size_bytes",
           "scrape_samples_post_metric_relabeling", "scrape_series_added"}
    for path in ("metadata", "metadata?metric=a_total", "metadata?metric=none"):
        a, b = data(ours.url, path), data(theirs.url, path)
        a = {k: sorted_rows(v) for k, v in a.items() if k not in own}
        b = {k: sorted_rows(v) for k, v in b.items()}
        check(a == b, f"{path}:\n  ours {a}\ntheirs {b}")
    check(len(data(ours.url, "metadata?metric=a_total&limit_per_metric=1")["a_total"]) == 1, "limit_per_metric")
    for path in ("", "?metric=a_total", "?match_target=%7Bjob%3D%22two%22%7D", "?match_target=%7Bjob%3D~%22f.*%7Cthree%22%7D",
                 "?match_target=%7Bjob%3D%22none%22%7D", "?metric=last"):
        a, b = (sorted_rows(data(s.url, "targets/metadata" + path)) for s in (ours, theirs))
        check(a == b and (a or "none" in path), f"targets/metadata{path}:\n  ours {a}\ntheirs {b}")
    four = {r["metric"] for r in data(ours.url, "targets/metadata?match_target=%7Bjob%3D%22four%22%7D")}
    check(four == {"last"}, f"what is gone: {four}")
    check(http_get(ours.url + "/api/v1/targets/metadata?match_target=%7B")[0] == 400, "a selector that is none")


def test_ends_over_a_kill(env):
    """What vanishes while the server is down has no end: the look-back shows it, and then no more. What is there ends as ever."""
    text = {"/here": "here 1\nsome{x=\"1\"} 1\nsome{x=\"2\"} 1\n", "/away": "away 1\n"}
    target = HttpServer(env, lambda h: answer(h, 200, text[h.path].encode(), [("Content-Type", TEXT)]))
    job = "- {job_name: %s, metrics_path: /%s, static_configs: [{targets: ['" + target.address + "']}]}\n"
    config = "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n"
    server = Server(env, config + job % ("here", "here") + job % ("away", "away"), flags=["--query.lookback-delta=10s"])
    wait_until("all is there", lambda: server.value("count(here or away or some)") == 4)
    server.kill()
    text["/here"] = "here 1\nsome{x=\"1\"} 1\n"
    server.configure(config + job % ("here", "here"))
    server.restart()
    ready = time.time()
    wait_until("it is scraped again", lambda: server.value("timestamp(here)") > ready)
    check(server.value("away") == 1 and server.value("count(some)") == 2, "what vanished meanwhile is shown for the look-back")
    text["/here"] = "here 1\n"
    wait_until("what ends while it is scraped is gone at once", lambda: server.value('some{x="1"}') is None, 4)
    wait_until("the look-back is over", lambda: server.value("count(away or some)") is None, 20)
    server.terminate(30)
    rows = {dict(k)["__name__"] + dict(k).get("x", ""): v for k, v in of_pyrrha(env, server.storage).items()}
    ends = {k: sum(v == "stale" for _, v in rows[k]) for k in ("here", "some1", "some2", "away")}
    check(ends == {"here": 0, "some1": 1, "some2": 0, "away": 0}, f"markers: {ends}")
