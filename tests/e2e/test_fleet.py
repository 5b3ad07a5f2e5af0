# SPDX-License-Identifier: Apache-2.0
"""Servers that scrape, and a querier that asks them: real programs. Answers have all of them; without one they say so, or are refused. Logins and TLS between servers."""
import hashlib
import json
import signal
import time

from harness import Echo, Server, check, free_port, http_get, scrape_config, wait_until
from test_web_config import Certificates, Ours, write

ROUND = {"scrape_interval": "1s", "evaluation_interval": "1s"}
RULES = """
groups:
- name: both
  rules:
  - {record: 'region:up', expr: 'count by (region) (up)'}
  - {alert: BothAreUp, expr: 'count(up) >= 2'}
"""


# ---- servers ----

def querier_config(*servers, extra="", more=""):
    """servers: HOST:PORT. extra: keys of the item of query.servers; more: lines of the file."""
    return f"query:\n  timeout: 5s\n  servers:\n  - {{static_configs: [{{targets: {json.dumps(list(servers))}}}]{extra}}}\n{more}"


def address(server):
    return f"127.0.0.1:{server.port}"


def asked(server, path, **params):
    """(data, warnings) of an answer."""
    answer = json.loads(server.get("/api/v1/" + path, **params))
    return answer["data"], answer.get("warnings", [])


def values(server, query, **params):
    """{labels: value} of an instant query that has no warning."""
    data, warnings = asked(server, "query", query=query, **params)
    check(not warnings, f"{query}: {warnings}")
    return {tuple(sorted(r["metric"].items())): float(r["value"][1]) for r in data["result"]}


def region(env, name):
    """A server with an external label and a target of its own."""
    echo = Echo(env, name="echo-" + name)
    config = scrape_config([echo.address]).replace("global:\n", f"global:\n  external_labels: {{region: {name}}}\n", 1)
    return Server(env, config, name=name)


def status_of(querier, server):
    return next(s for s in querier.api("status/servers")["servers"] if s["url"] == server.url)


# ---- two regions ----

def sums(*parts):
    total = {}
    for part in parts:
        for key, v in part.items():
            total[key] = total.get(key, 0) + v
    return total


def check_union(querier, servers, at):
    """What the querier answers is what the servers answer, added up."""
    for query in ("total(merge(cpu[1m]))", "sum(sum_over_time(cpu[1m]))", "count(up)", 'self(merge(cpu[1m]), "file")'):
        got, want = values(querier, query, time=at), sums(*(values(s, query, time=at) for s in servers))
        check(got.keys() == want.keys() and want and all(abs(got[k] - want[k]) <= 1e-9 * abs(want[k]) for k in want), f"{query}: {got}, of the servers {want}")


def check_labels(querier, at):
    regions = {"eu", "us"}
    found = set(querier.api("label/region/values"))
    check(found == regions | {"here"}, f"external labels, and the querier's own of the alert's series: {found}")
    check({"region", "instance", "job"} <= set(querier.api("labels")), "names of labels")
    series = querier.api("series", **{"match[]": "up"})
    check({s["region"] for s in series} == regions and len({s["instance"] for s in series}) == 2, f"{series}")
    rates = values(querier, "sum by (instance, region) (rate(cpu[10s]))", time=at)
    check({dict(k)["region"] for k in rates} == regions, f"a rate by instance: {rates}")
    one = values(querier, 'sum by (region) (count_over_time(cpu{region="us"}[1m]))', time=at)
    check(list(one) == [(("region", "us"),)], f"a matcher selects one server: {one}")
    check(not values(querier, 'up{region="mars"}', time=at), "there is no such region")


def check_graphs(querier, at):
    flame = json.loads(querier.get("/api/v1/query", query="merge(cpu[1m])", time=at, format="flamegraph"))
    one = json.loads(querier.get("/api/v1/query", query='merge(cpu{region="eu"}[1m])', time=at, format="flamegraph"))
    check("fibonacci" in json.dumps(flame), "a flame graph has the demo's functions")
    check(flame != one, "of one region it is another")
    data = querier.api("query_range", query="topk(2, self(merge by (region) (cpu[2s])))", start=at - 6, end=at, step=2)
    check({r["metric"]["region"] for r in data["result"]} <= {"eu", "us"} and data["result"], f"top-k over time: {data}")


def rule(querier, name):
    return next(r for g in querier.api("rules")["groups"] for r in g["rules"] if r["name"] == name)


def firing(querier):
    return [a for a in querier.api("alerts")["alerts"] if a["state"] == "firing"]


def check_rules(querier):
    wait_until("the alert fires", lambda: firing(querier) and values(querier, 'ALERTS{alertstate="firing",region="here"}'))
    wait_until("both regions are recorded", lambda: {dict(k)["region"] for k in values(querier, "region:up")} == {"eu", "us"})


def warned(querier, server, query="count(up)", **params):
    """Warnings of an answer, of which one names the server."""
    _, warnings = asked(querier, "query", query=query, **params)
    return [w for w in warnings if w.startswith(f"server {server.url}: ")]


def check_without(querier, gone, at):
    warnings = warned(querier, gone, "sum(count_over_time(cpu[1m]))", time=at)
    check(len(warnings) == 1 and "is missing from this answer" in warnings[0] and "between" in warnings[0], f"{warnings}")
    rest, _ = asked(querier, "query", query="count by (region) (count_over_time(cpu[1m]))", time=at)
    check([r["metric"] for r in rest["result"]] == [{"region": "eu"}], f"the rest is there: {rest}")
    for path, params in (("query", {"query": "count(up)"}), ("labels", {}), ("series", {"match[]": "up"}), ("profile_types", {}), ("label/job/values", {}),
                         ("frame/function/values", {"match[]": "cpu"}), ("query_range", {"query": "count(up)", "start": at - 5, "end": at, "step": 1})):
        status, _, body = http_get(querier.link("/api/v1/" + path, partial_response="refuse", **params))
        check(status == 503 and gone.url in body.decode(), f"{path} is refused: {status} {body}")
        _, warnings = asked(querier, path, **params)
        check(any(gone.url in w for w in warnings), f"{path} has a warning: {warnings}")
    check(status_of(querier, gone)["health"] == "down" and status_of(querier, gone)["lastError"], f"{status_of(querier, gone)}")
    check(http_get(querier.url + "/-/ready")[0] == 200, "the querier is ready without it")


def check_rules_without(querier, gone):
    since = firing(querier)[0]["activeAt"]
    failed = wait_until("the rule fails", lambda: rule(querier, "BothAreUp")["health"] == "err" and rule(querier, "BothAreUp"))
    check(gone.url in failed["lastError"], f"{failed}")
    time.sleep(1.5)
    check([a["activeAt"] for a in firing(querier)] == [since], "the alert stays")
    return since


def test_two_regions(env):
    eu, us = servers = [region(env, name) for name in ("eu", "us")]
    env.path("rules.yml", RULES)
    own = "global: {external_labels: {region: here}, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
    querier = Server(env, querier_config(address(eu), address(us), more=own), name="querier")
    wait_until("both have profiles", lambda: min(s.value("count(count_over_time(cpu[1m])) and count(rate(cpu[10s]))") or 0 for s in servers))
    wait_until("the querier has both", lambda: len(values(querier, "rate(cpu[10s])")) == 2)
    time.sleep(1)
    at = time.time() - 0.5
    check_rules(querier)
    check_union(querier, servers, at)
    check_labels(querier, at)
    check_graphs(querier, at)
    for s in servers:
        status = status_of(querier, s)
        check(status["health"] == "up" and status["externalLabels"] == {"region": s.name} and status["calls"] > 0 and not status["lastError"], f"{status}")
    us.kill()
    check_without(querier, us, at)
    since = check_rules_without(querier, us)
    us.restart()
    wait_until("it is back: no warning", lambda: values(querier, "count(up)") == {(): 2})
    wait_until("the rule works again", lambda: rule(querier, "BothAreUp")["health"] == "ok")
    check([a["activeAt"] for a in firing(querier)] == [since], "the alert is the one of before")
    check(status_of(querier, us)["health"] == "up" and status_of(querier, us)["failures"] > 0, f"{status_of(querier, us)}")


# ---- around ----

MINE = "groups: [{name: mine, interval: 1s, rules: [{record: mine, expr: vector(1)}]}]\n"


def test_two_that_list_each_other(env):
    """Also themselves, and a third asks both: each series counts once."""
    env.path("mine.yml", MINE)
    ports = {name: free_port() for name in ("a", "b")}
    lists = [f"127.0.0.1:{p}" for p in ports.values()]

    def config(name):
        return querier_config(*lists, more=f"global: {{external_labels: {{region: {name}}}}}\nrule_files: [mine.yml]\n")
    a, b = (Server(env, config(name), name=name, port=port) for name, port in ports.items())
    third = Server(env, querier_config(*lists), name="third")
    for server in (a, b, third):
        wait_until(f"{server.name} has both", lambda s=server: values(s, "count(mine)") == {(): 2})
        check(len(server.api("series", **{"match[]": "mine"})) == 2, "series")
    time.sleep(2)
    at = time.time() - 1
    counts = [values(s, "count_over_time(mine[1m])", time=at) for s in (a, b, third)]
    check(len(counts[0]) == 2 and counts[0] == counts[1] == counts[2], f"{counts}")
    check([s["url"] for s in a.api("status/servers")["servers"]] == [b.url], "who is oneself is not asked")
    calls = status_of(a, b)["calls"]
    for _ in range(5):
        values(third, "count(mine)")
    check(status_of(a, b)["calls"] <= calls + 1, "who is asked by a server asks no other; one call is to see how it is")
    a.configure("global: {external_labels: {region: a}}\nrule_files: [mine.yml]\n")
    a.p.send_signal(signal.SIGHUP)
    wait_until("a reload without servers: only its own", lambda: values(a, "count(mine)") == {(): 1})
    check(values(b, "count(mine)") == {(): 2}, "the other one has both")


# ---- logins ----

def web_config():
    tokens = "".join(f"- {{name: {r}, sha256: {hashlib.sha256(f'token-{r}'.encode()).hexdigest()}, rights: [{r}]}}\n" for r in ("read", "write"))
    return "tls_server_config: {cert_file: server.crt, key_file: server.key}\ntokens:\n" + tokens


def test_tls_and_logins(env):
    certificates = Certificates(env)
    certificates.authority("ca")
    certificates.authority("stranger")
    certificates.signed("server", "ca")
    context = certificates.client()
    env.path("mine.yml", MINE)
    env.path("token", "token-read")
    far = Ours(env, web_config(), name="far", context=context)
    far.configure("rule_files: [mine.yml]\n")
    far.p.send_signal(signal.SIGHUP)
    far.url = f"https://127.0.0.1:{far.port}"

    def config(authority="ca"):
        return querier_config(address(far), extra=f", scheme: https, authorization: {{credentials_file: token}}, tls_config: {{ca_file: {authority}.crt}}")
    querier = Server(env, config(), name="querier")
    wait_until("the login is good", lambda: values(querier, "count(mine)") == {(): 1})
    for token, said in (("token-write", ("the right", "read")), ("nonsense", ("401", "login", "read"))):
        write(env, "token", token)
        warnings = wait_until(f"with {token} a warning", lambda: warned(querier, far))
        check(all(s in warnings[0] for s in said), f"{token}: {warnings}")
        check(token not in json.dumps(querier.api("status/servers")) + warnings[0], "a token is a secret")
        check(status_of(querier, far)["health"] == "down", f"{status_of(querier, far)}")
    write(env, "token", "token-read")
    wait_until("the good token again", lambda: values(querier, "count(mine)") == {(): 1})
    querier.configure(config("stranger"))
    querier.p.send_signal(signal.SIGHUP)
    warnings = wait_until("of a certificate that nobody trusts, a warning", lambda: warned(querier, far))
    check("certificate" in warnings[0], f"{warnings}")
