# SPDX-License-Identifier: Apache-2.0
"""What the API answers about the demo program: profile types, formats that agree, labels, series, clients."""
import gzip
import json
import shutil
import time

from harness import Echo, Server, Skip, check, http_get, run, scrape_config, wait_until

NINE = {
    "Fgprof Samples Total", "Fgprof Samples Time Total", "Goroutine Created Total", "Memory Allocated Objects Total",
    "Memory Allocated Bytes Total", "Memory In-Use Objects", "Memory In-Use Bytes", "Process CPU Nanoseconds",
    "Process CPU Samples",
}
CPU = 'merge(cpu{job="echoserver"}[5m])'


def scraped(env, **more):
    """A server that has scraped the demo program: a flame graph has its handler in it."""
    echo = Echo(env)
    server = Server(env, scrape_config([echo.address]), **more)
    wait_until("a CPU profile with the handler", lambda: b"main.fibonacciHandler" in folded(server), 40)
    return server, echo


def folded(server, query=CPU, **more):
    return server.get("/api/v1/query", query=query, format="folded", **more)


def test_nine_types_under_their_plain_names(env):
    server, _ = scraped(env)

    def names():
        found = {row["title"]: row["name"] for row in server.api("profile_types")}
        return not NINE - set(found) and found
    found = wait_until("the nine types of the Parca tutorial", names)
    check(found["Process CPU Nanoseconds"] == "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", str(found))
    check(found["Memory In-Use Bytes"] == "memory:inuse_space:bytes:space:bytes", str(found))
    for title in NINE:
        wait_until(title + " can be queried", lambda t=title: server.query(found[t])["result"])


def test_formats_agree(env):
    """One instant, five formats, one number."""
    server, _ = scraped(env)
    at = server.value("time()")
    time.sleep(2)  # what was being written at that moment is in by now
    ask = lambda f: server.get("/api/v1/query", query=CPU, time=f"{at:.3f}", format=f)
    lines = [line.rsplit(" ", 1) for line in ask("folded").decode().splitlines() if line]
    total = sum(int(v) for _, v in lines)
    check(total > 0 and any("main.fibonacciHandler" in s for s, _ in lines), f"folded: {lines[:3]}")
    flame = json.loads(ask("flamegraph"))["data"]
    check(flame["nodes"]["total"][0] == total == flame["total"], f"flame graph {flame['nodes']['total'][0]}, folded {total}")
    check(sum(flame["nodes"]["self"]) == total, "the selfs of a flame graph add up to its total")
    names = [flame["strings"][flame["frames"]["name"][i]] for i in flame["nodes"]["frame"]]
    check("main.fibonacciHandler" in names, "the flame graph has no main.fibonacciHandler")
    check(names[0] == "total" and flame["nodes"]["depth"][0] == 0, "node 0 is the root")
    check(flame["unit"] == "nanoseconds", flame["unit"])
    seconds = server.value(f"value({CPU})", time=f"{at:.3f}")
    check(abs(seconds * 1e9 - total) < 1, f"value() says {seconds} s, folded {total} ns")
    raw = ask("pprof")
    check(raw[:2] == b"\x1f\x8b" and gzip.decompress(raw), "pprof is gzipped")
    check(json.loads(ask("json"))["status"] == "success", "format=json")


def test_functions_of_the_selected_profiles(env):
    server, _ = scraped(env)
    ask = lambda key, **more: server.api(f"frame/{key}/values", **more)
    names = ask("function", **{"match[]": 'cpu{job="echoserver"}'})
    check("main.fibonacciHandler" in names and len(set(names)) == len(names), str(names[:20]))
    found = ask("function", **{"match[]": 'cpu{job="echoserver"}', "search": "FIBONACCIh"})
    check(found == ["main.fibonacciHandler"], str(found))
    check(ask("function", **{"match[]": 'cpu{job="other"}'}) == [], "functions of no profile")
    check(any(f.endswith("main.go") for f in ask("file", **{"match[]": "cpu"})), "no main.go among the files")
    check(any("echoserver" in b for b in ask("binary", **{"match[]": "cpu"})), "no echoserver among the binaries")
    # both types at once, and what only the second has
    both = ask("function", **{"match[]": '{job="echoserver"}'})
    check(set(names) <= set(both), f"missing: {set(names) - set(both)}")


EXAMPLES = """
cpu<job="echoserver">
merge by (instance)(cpu[5m])
sum by (job)(rate(cpu[5m]))
topk(10, self(merge(rate(cpu{job="echoserver"}[5m]))))
total(rate(cpu{job="echoserver"}[5m]), {function="main.fibonacciHandler"})
share(merge(cpu{job="echoserver"}[5m]), {function="main.fibonacciHandler"}) > 0.1
topk(20, self(focus(merge(cpu[5m]), "fibonacci"), "line"))
hide(ignore(merge(cpu[5m]), "runtime.mcall"), "^runtime")
callers(merge(cpu[5m]), {function="main.fibonacci"})
diff(merge(cpu[5m]), merge(cpu[5m] offset 1s), "share")
trim(collapse(merge(cpu[5m]), "recursion"), 0.01)
samples(merge by (job)(cpu[5m]))
coverage(cpu[5m])
"""


def test_the_language_answers(env):
    """What the documentation shows: each example has an answer that is a number, and profiles have a flame graph."""
    server, _ = scraped(env)
    time.sleep(2)
    for query in EXAMPLES.strip().splitlines():
        result = server.query(query)["result"]
        check(result and all(r["value"][1] != "NaN" for r in result), f"{query}: {result}")
    for query in ("hide(merge(cpu[5m]), \"^runtime\")", "invert(merge(cpu[5m]))", "merge by (job)(heap_inuse_space[5m])"):
        check(json.loads(server.get("/api/v1/query", query=query, format="flamegraph"))["data"]["total"] > 0, query)


def test_an_unknown_format_is_an_error(env):
    server = Server(env, scrape_config([]))
    status, _, body = http_get(server.link("/api/v1/query", query="cpu", format="nonsense"))
    answer = json.loads(body)
    check(status == 400 and answer["status"] == "error" and answer["errorType"] == "bad_data", f"{status} {body}")


def test_errors_for_pprof_are_text(env):
    server = Server(env, scrape_config([]))
    status, headers, body = http_get(server.link("/api/v1/query", query="merge(cpu[", format="pprof"))
    check(status == 400 and headers["X-Go-Pprof"] == "1" and headers["Content-Type"].startswith("text/plain"),
          f"{status} {headers}")
    check(b"parse error" in body, str(body))


def test_labels_series_and_targets(env):
    server, echo = scraped(env)
    check({"__name__", "job", "instance"} <= set(server.api("labels")), str(server.api("labels")))
    check(server.api("label/job/values") == ["echoserver"], str(server.api("label/job/values")))
    series = server.api("series", **{"match[]": "cpu"})
    check([s["instance"] for s in series] == [echo.address], str(series))
    check(series[0]["__name__"] == "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", str(series))
    wait_until("every type of the target is up", lambda: {t["health"] for t in server.targets()} == {"up"})
    check(not [t for t in server.targets() if t["lastError"]], str(server.targets()))
    check(server.api("status/buildinfo")["version"], "buildinfo has a version")
    check(server.api("status/flags")["web.listen-address"].endswith(str(server.port)), "flags")


def test_up_and_the_scrape_series(env):
    server, _ = scraped(env)
    wait_until("up", lambda: server.value("up") == 1)
    types = {r["metric"]["profile"]: r["value"][1] for r in server.query("profile_up")["result"]}
    check({"process_cpu", "memory", "goroutine", "mutex", "block", "fgprof"} <= set(types), str(types))
    check(set(types.values()) == {"1"}, str(types))
    for name in ("scrape_duration_seconds", "scrape_samples_scraped", "scrape_body_size_bytes"):
        check(server.value(name + '{profile="memory"}') > 0, name)


def test_range_query_and_both_spellings(env):
    server, _ = scraped(env)
    end = server.value("time()")
    ask = lambda q: server.api("query_range", query=q, start=end - 30, end=end, step=5)
    both = [ask('sum by (job)(rate(cpu{job="echoserver"}[30s]))'), ask('sum by (job)(rate(cpu<job="echoserver">[30s]))')]
    check(both[0] == both[1] and both[0]["resultType"] == "matrix", str(both))
    check(both[0]["result"][0]["metric"] == {"job": "echoserver"}, str(both[0]))


def test_promtool_is_a_client(env):
    if not shutil.which("promtool"):
        raise Skip("no promtool (Debian's package prometheus has it)")
    server, echo = scraped(env)
    wait_until("up", lambda: server.value("up") == 1)
    status, out = run(["promtool", "query", "instant", server.url, "up"])
    check(status == 0 and echo.address in out and "=> 1 @" in out, f"{status}: {out}")
    status, out = run(["promtool", "query", "instant", server.url, 'sum by (job)(rate(cpu{job="echoserver"}[1m]))'])
    check(status == 0 and '{job="echoserver"} =>' in out, f"{status}: {out}")
    now = int(time.time()) + 5  # steps are whole seconds: one lies after the first scrape
    status, out = run(["promtool", "query", "range", f"--start={now - 60}", f"--end={now}", server.url, "up"])
    check(status == 0 and "up{" in out, f"{status}: {out}")
    status, out = run(["promtool", "query", "labels", server.url, "job"])
    check(status == 0 and out.strip() == "echoserver", f"{status}: {out}")
    status, out = run(["promtool", "query", "series", "--match=up", server.url])
    check(status == 0 and echo.address in out, f"{status}: {out}")


# What Prometheus's own Go client (client_golang, which promtool is made of) and Grafana's data source read of each answer:
# {field: type}, [of each element], or a type. A number where they expect text, or the reverse, is an error to them.
CLIENTS_READ = {
    "status/buildinfo": {"version": str, "revision": str, "branch": str, "buildUser": str, "buildDate": str, "goVersion": str},
    "status/runtimeinfo": {"startTime": str, "CWD": str, "reloadConfigSuccess": bool, "lastConfigTime": str,
                           "GOMAXPROCS": int, "storageRetention": str},
    "status/tsdb": {"headStats": {"numSeries": int, "numLabelPairs": int, "chunkCount": int, "minTime": int, "maxTime": int},
                    "seriesCountByMetricName": [{"name": str, "value": int}],
                    "labelValueCountByLabelName": [{"name": str, "value": int}],
                    "memoryInBytesByLabelName": [{"name": str, "value": int}],
                    "seriesCountByLabelValuePair": [{"name": str, "value": int}]},
    "status/walreplay": {"min": int, "max": int, "current": int},
    "status/config": {"yaml": str},
    "rules": {"groups": [dict]},
    "alerts": {"alerts": [dict]},
    "alertmanagers": {"activeAlertmanagers": [dict], "droppedAlertmanagers": [dict]},
    "targets": {"activeTargets": [{"discoveredLabels": dict, "labels": dict, "scrapePool": str, "scrapeUrl": str,
                                   "globalUrl": str, "lastError": str, "lastScrape": str, "lastScrapeDuration": (int, float),
                                   "health": str}],
                "droppedTargets": [dict]},
    "targets/metadata": [dict],
    "query_exemplars?query=up&start=0&end=1": [dict],
    "labels": [str],
    "label/__name__/values": [str],
    "series?match[]=up": [dict],
    "format_query?query=up": str,
}


def misread(data, want, where):
    """What such a client would stumble over."""
    if isinstance(want, list):
        if not isinstance(data, list):
            return [f"{where} is no list"]
        return [m for x in data for m in misread(x, want[0], where + "[]")]
    if isinstance(want, dict):
        missing = [f"{where} has no {k}" for k in want if k not in data]
        return missing or [m for k, w in want.items() for m in misread(data[k], w, f"{where}.{k}")]
    good = isinstance(data, want) and not (want is int and isinstance(data, bool))
    return [] if good else [f"{where} is {data!r}"]


def test_what_clients_of_prometheus_read(env):
    server, _ = scraped(env)
    wait_until("up", lambda: server.value("up") == 1)
    bad = []
    for path, want in CLIENTS_READ.items():
        status, headers, body = http_get(server.url + "/api/v1/" + path)
        check(status == 200 and headers["Content-Type"].startswith("application/json"), f"{path}: {status} {body[:200]}")
        bad += misread(json.loads(body)["data"], want, path)
    check(not bad, "\n".join(bad))
    check("features" not in server.api("status/buildinfo"), "Grafana takes a server with features for another product")
    values = server.api("metadata")["up"]
    check(set(values[0]) == {"type", "help", "unit"}, str(values))
    # everything that the client asks by POST first
    for path, form in (("query", "query=1%2B1"), ("query_range", "query=1&start=0&end=1&step=1"), ("labels", "match%5B%5D=up"),
                       ("series", "match%5B%5D=up"), ("query_exemplars", "query=up"), ("format_query", "query=up"),
                       ("parse_query", "query=up")):
        status, _, body = http_get(f"{server.url}/api/v1/{path}", data=form.encode(),
                                   headers={"Content-Type": "application/x-www-form-urlencoded"})
        check(status == 200 and json.loads(body)["status"] == "success", f"POST {path}: {status} {body[:200]}")


def test_metrics_are_well_formed(env):
    server, _ = scraped(env)
    m = server.metrics()
    check(m.get("pyrrha_appended_profiles_total", 0) > 0, "pyrrha_appended_profiles_total")
    check(any(k.startswith("pyrrha_build_info{") for k in m), "pyrrha_build_info")
    if shutil.which("promtool"):
        text = env.path("metrics.txt", server.get("/metrics"))
        with open(text, "rb") as f:
            import subprocess
            p = subprocess.run(["promtool", "check", "metrics"], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        errors = [line for line in p.stdout.decode().splitlines() if "error" in line.lower()]
        check(p.returncode in (0, 3) and not errors, p.stdout.decode())


def test_the_page_is_served(env):
    server = Server(env, scrape_config([]))
    body = server.get("/")
    check(b"<html" in body.lower() and b"Pyrrha" in body, str(body[:200]))
    status, headers, _ = http_get(server.url + "/")
    check("default-src" in headers.get("Content-Security-Policy", ""), f"no content security policy: {headers}")
    for path in ("/-/healthy", "/-/ready"):
        check(http_get(server.url + path)[0] == 200, path)
    check(http_get(server.url + "/no-such-thing")[0] == 404, "a path that does not exist is a 404")
