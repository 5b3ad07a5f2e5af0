# SPDX-License-Identifier: Apache-2.0
"""What a server does with queries that nobody waits for, and with those it died over."""
import http.client
import json
import urllib.parse

from harness import Server, check, http_get, wait_until

# Minutes of work without any data.
LONG_QUERY = "count_over_time(quantile_over_time(0.5, vector(1)[1h:1s])[1h:1ms])"


def begin(server, query):
    """A connection on which a query was asked; its answer is not waited for."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
    return connection


def queries_at_work(server):
    text = http_get(server.url + "/metrics")[2].decode()
    return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("pyrrha_engine_queries ")]


def test_a_client_that_leaves_gives_its_place_back(env):
    server = Server(env, "", ["--query.max-concurrency=1"])
    left = begin(server, LONG_QUERY)
    wait_until("the query is at work", lambda: queries_at_work(server) == [1.0], 60)
    left.close()
    wait_until("its place is free", lambda: queries_at_work(server) == [0.0], 60)
    status, _, body = http_get(server.url + "/api/v1/query?query=1")
    check(status == 200, f"{status} {body}")


def test_a_full_queue_names_the_flag(env):
    server = Server(env, "", ["--query.max-concurrency=1"])
    busy = begin(server, LONG_QUERY)
    wait_until("the query is at work", lambda: queries_at_work(server) == [1.0], 60)
    status, _, body = http_get(server.url + "/api/v1/query?timeout=1s&" + urllib.parse.urlencode({"query": LONG_QUERY}))
    answer = json.loads(body)
    check(status == 503 and answer["errorType"] == "timeout" and "--query.max-concurrency" in answer["error"], str(answer))
    busy.close()


def test_queries_at_a_crash_are_told(env):
    server = Server(env, "")
    busy = begin(server, LONG_QUERY)
    wait_until("the query is at work", lambda: queries_at_work(server) == [1.0], 60)
    server.kill()
    busy.close()
    server.restart()
    check(LONG_QUERY in server.text(), "the log names what was running: " + server.text()[-2000:])
    server.terminate()
    server.restart()
    check(server.text().count("when the server last ended without notice") == 1, "only once, and not after a clean end")


def test_a_slow_query_is_logged(env):
    ask = "/api/v1/query?" + urllib.parse.urlencode({"query": "count_over_time(vector(1)[1h:10ms])"})
    server = Server(env, "", ["--query.log-slower-than=1ms"])
    status, _, body = http_get(server.url + ask)
    check(status == 200, f"{status} {body}")
    wait_until("the log names the query", lambda: 'msg="slow query" query=count_over_time(vector(1)[1h:10ms])' in server.text(), 30)
    server.terminate()
    server = Server(env, "", ["--query.log-slower-than=0"])
    http_get(server.url + ask)
    server.terminate()
    check(server.text().count("slow query") == 1, "none are asked for the second time: " + server.text())


def test_memory_of_queries_is_given_back(env):
    server = Server(env, "")
    status, _, body = http_get(server.url + "/api/v1/query?" + urllib.parse.urlencode({"query": "self(merge(cpu[5m]))"}))
    check(status == 200, f"{status} {body}")
    text = http_get(server.url + "/metrics")[2].decode()
    check("\npyrrha_engine_query_bytes 0\n" in text, text)


def test_stages_of_an_answer(env):
    """Server-Timing says where the time went, of answers of every form; it has no word on what asked nothing of the storage."""
    server = Server(env, "")
    for path in ("query?query=vector(1)", "query_range?query=vector(1)&start=0&end=1000&step=1", "query?query=cpu&format=flamegraph"):
        status, headers, _ = http_get(server.url + "/api/v1/" + path)
        stages = dict(s.split(";dur=") for s in headers["Server-Timing"].split(", "))
        check(status == 200 and list(stages) == ["queue", "read", "eval", "encode", "compress"], f"{status} {headers}")
        check(all(float(ms) >= 0 for ms in stages.values()) and sum(map(float, stages.values())) > 0, str(stages))
    for path in ("labels", "query?query=("):
        check("Server-Timing" not in http_get(server.url + "/api/v1/" + path)[1], path)
