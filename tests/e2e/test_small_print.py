# SPDX-License-Identifier: Apache-2.0
"""Prometheus's small print: the same odd requests to Debian's real Prometheus 2.42 and to ours; and what Prometheus 3 has that
2.42 has not."""
import json
import urllib.parse

from harness import Server, check, http_get, run, scrape_config
from test_promql_oracle import ANY_AGE, BEGIN, both
import remote_write
import test_values

T = BEGIN + 600


def series(t):
    """One series of a sample each 15 s up to t, and one that ends a minute before."""
    return [({"__name__": "m", "job": "a"}, [(1000 * (t - 15 * i), float(i)) for i in range(40, -1, -1)]),
            ({"__name__": "ended", "job": "b"}, [(1000 * (t - 60 - 15 * i), 1.0) for i in range(30, -1, -1)])]


def asked(server, path, data=None, headers=None):
    """(status, errorType or None, data or error text)."""
    status, got, body = http_get(server.url + "/api/v1/" + path, data=data, headers=headers or {})
    check(got["Content-Type"].split(";")[0] == "application/json", f"{path}: {status} {got['Content-Type']} {body[:200]}")
    answer = json.loads(body)
    check((status == 200) == (answer["status"] == "success"), f"{path}: {status} {body[:200]}")
    return status, answer.get("errorType"), answer["data"] if status == 200 else answer["error"]


def multipart(**fields):
    parts = "".join(f'--xYzZY\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items())
    return (parts + "--xYzZY--\r\n").encode(), {"Content-Type": "multipart/form-data; boundary=xYzZY"}


# path, and what to compare: "all" that is said, or "error": that it is one of that kind
SAME = [
    ("query?query=m&time=T&lookback_delta=-1", "all"), ("query?query=m&time=T&lookback_delta=0", "all"),
    ("query?query=m&time=T&lookback_delta=-100000", "all"),
    ("query?query=m&timeout=0", "error"), ("query?query=m&timeout=-1", "error"), ("query?query=m&timeout=-1s", "all"),
    ("query?query=m(&timeout=0", "error"), ("query_range?query=m&start=1&end=2&step=1&timeout=0", "error"),
    ("query_range?query=m&start=10&end=5&step=1", "all"), ("query_exemplars?query=m&start=10&end=5", "all"),
    ("series?match[]=m&start=T&end=B", "all"), ("series?match[]=m&start=2&end=1", "all"),
    ("labels?start=T&end=B", "all"), ("label/job/values?start=T&end=B", "all"), ("label/job/values?start=2&end=1", "all"),
    ("query?query=%zz", "error"), ("series?match[]=%zz", "error"), ("query?query=m&timeout=x", "all"), ("query?query=m&time=x", "error"),
]
FORMS = [
    ("query", {"query": "m + 1", "time": T}), ("query_range", {"query": "m", "start": T - 60, "end": T, "step": "15"}),
    ("query?query=2&time=5", {"query": "m"}), ("query?time=5", {"query": "1 +"}),
]
# what is counted; 2.42 has no samplesRead
COUNTED = ["m", "m[1m]", "m + m", "count_over_time(m[1m])", "count_over_time({job=~\"a|b\"}[1m])", "rate(m[5m]) + m", "1", "sum(ended)",
           "m @ T", "max_over_time(m[2m:30s])", "sum(rate(m[1m])) by (job)", "absent_over_time(m[1m])", "count_over_time(m[1m] @ T)",
           "timestamp(m)", "-m", "topk(1, m)", "m offset 1m", "m unless ended"]


def test_as_prometheus_2_42(env):
    ours, theirs = both(env)
    for server in (ours, theirs):
        remote_write.load(server.url, series(T))
    bad = []
    for path, what in SAME:
        path = path.replace("=T", f"={T}").replace("=B", f"={T - 300}")
        a, b = asked(ours, path), asked(theirs, path)
        if a != b if what == "all" else a[:2] != b[:2]:
            bad.append(f"{path}: ours {a}, theirs {b}")
    for path, fields in FORMS:
        data, headers = multipart(**fields)
        a, b = (asked(s, path, data, headers) for s in (ours, theirs))
        if a != b if a[0] == 200 else a[:2] != b[:2]:
            bad.append(f"multipart {path} {fields}: ours {a}, theirs {b}")
    for query in COUNTED:
        query = query.replace("@ T", f"@ {T}.1")  # 2.42's ranges are closed on the left
        for path, when in (("query", {"time": T + 1.5}), ("query_range", {"start": T - 128, "end": T + 2, "step": 10})):
            if path == "query_range" and query == "m[1m]":
                continue
            a, b = (s.api(path, query=query, stats="true", **when)["stats"] for s in (ours, theirs))
            if a["samples"]["totalQueryableSamples"] != b["samples"]["totalQueryableSamples"]:
                bad.append(f"{path} {query}: ours {a['samples']}, theirs {b['samples']}")
            if set(a["timings"]) != set(b["timings"]):
                bad.append(f"timings: ours {a['timings']}, theirs {b['timings']}")
    check(not bad, "\n".join(bad))


def test_as_prometheus_3(env):
    server = Server(env, scrape_config([]), ANY_AGE)
    remote_write.load(server.url, series(T))
    read = lambda path, query, **more: server.api(path, query=query, stats="true", **more)["stats"]["samples"]["samplesRead"]
    span = {"start": T - 120, "end": T, "step": 15}  # nine steps
    for query, instant, ranged in (("m", 1, 9), ("count_over_time(m[1m])", 4, 4 + 8), ("count_over_time(m[15s])", 1, 9),
                                   ("max_over_time(m[1m:15s])", 4, 12), (f"m @ {T}", 1, 1), (f"count_over_time(m[1m] @ {T})", 4, 4), ("1", 0, 0)):
        got = read("query", query, time=T), read("query_range", query, **span)
        check(got == (instant, ranged), f"{query}: samplesRead {got}, expected {(instant, ranged)}")
    answer = json.loads(server.get("/api/v1/query", query="1", stats="1"))
    check(answer["warnings"] == ['value "1" for parameter "stats" is deprecated and will be rejected in the next major release, '
                                 'use "true" or "all"'] and "stats" in answer["data"], str(answer))
    check("warnings" not in json.loads(server.get("/api/v1/query", query="1", stats="all")), "stats=all")
    for path in ("query?query=m&limit=-1", "query?query=m&limit=x", "series?match[]=m&limit=-1", "labels?limit=-1",
                 "query?query=m&lookback_delta=x", "query?query=m&limit=-1&format=json", "query?query=m&timeout=x&format=flamegraph"):
        check(asked(server, path)[:2] == (400, "bad_data"), f"{path}: {asked(server, path)}")
    for more in ({"timeout": "0"}, {"timeout": "-1"}, {"timeout": "-0.5"}):
        for form in ("json", "flamegraph", "speedscope", "prometheus"):
            status, kind, text = asked(server, "query?" + urllib.parse.urlencode({"query": "m", "format": form, **more}))
            check((status, kind) == (503, "timeout") and "query queue" in text, f"{form} {more}: {status} {text}")
        for form in ("pprof", "folded", "svg", "dot"):
            status, headers, body = http_get(server.link("/api/v1/query", query="m", format=form, **more))
            check(status == 503 and headers["X-Go-Pprof"] == "1" and b"timed out" in body, f"{form} {more}: {status} {body}")
    features = server.api("features")
    check({"api", "prometheus", "promql", "promql_functions", "promql_operators"} <= set(features), str(list(features)))
    check(all(isinstance(v, bool) for names in features.values() for v in names.values()), "features are true or false")
    check(features["promql_functions"]["rate"] and features["promql_operators"]["sum"] and not features["api"]["admin"], str(features))
    check(server.api("notifications") == [], "nothing is wrong")
    check(http_get(server.url + "/api/v1/notifications/live")[0] == 204, "no stream of them")


def test_blocks_are_the_sealed_parts(env):
    """And a notification of a configuration that could not be read."""
    server = test_values.filled(env, "--web.enable-lifecycle")
    blocks = server.api("status/tsdb/blocks")["blocks"]
    check(blocks and all(len(b["ulid"]) == 26 and b["minTime"] <= 1000 * test_values.T < b["maxTime"] and b["compaction"]["level"] >= 1
              and b["stats"]["numSamples"] > 0 and b["version"] == 1 for b in blocks), str(blocks))
    check(len({b["ulid"] for b in blocks}) == len(blocks), str(blocks))
    server.configure("nonsense: 1\n")
    http_get(server.url + "/-/reload", data=b"")
    told = server.api("notifications")
    check(len(told) == 1 and told[0]["text"] == "Configuration reload has failed." and told[0]["active"] is True, str(told))


def test_features_that_are_turned_on(env):
    """What is experimental in Prometheus's language: refused by name, or as there."""
    off = Server(env, scrape_config([]), ANY_AGE, name="off")
    on = Server(env, scrape_config([]), [*ANY_AGE, "--enable-feature=promql-binop-fill-modifiers,promql-extended-range-selectors",
                                         "--enable-feature=promql-experimental-functions"])
    remote_write.load(on.url, series(T))
    for query, feature, value in (("sum(m) + fill(7) sum(nothing)", "promql-binop-fill-modifiers", 7),
                                  ("delta(m[1m] anchored)", "promql-extended-range-selectors", -4),
                                  (f"m offset -100s smoothed @ {T}", "promql-extended-range-selectors", 0),
                                  ('count(info(m, {__name__="ended"}))', "promql-experimental-functions", 1)):
        for path in ("query", "format_query", "parse_query"):
            status, kind, text = asked(off, path + "?" + urllib.parse.urlencode({"query": query}))
            check((status, kind) == (400, "bad_data") and f"--enable-feature={feature}" in text, f"{path} {query}: {status} {text}")
        check(on.value(query, time=T) == value, f"{query}: {on.value(query, time=T)}")
    features = on.api("features")
    check(all(features["promql"][x] for x in ("fill", "fill_left", "fill_right", "anchored", "smoothed")), str(features["promql"]))
    check("info" in features["promql_functions"] and "info" not in off.api("features")["promql_functions"], "info")
    check(not off.api("features")["promql"]["fill"], "features that are off")
    status, out = run([env.program("pyrrha"), "--enable-feature=nonsense"])
    check(status == 2 and 'there is no "nonsense"' in out, f"{status} {out}")
