# SPDX-License-Identifier: Apache-2.0
"""Jobs from objects of a cluster: the life of both kinds (add, change, break, delete), and what an object cannot reach."""
import uuid

from harness import Echo, HttpServer, Server, answer, check, echo_command, http_get, slow, wait_until
from kube_api import KubeApi, NODE
from test_agent import start_agent
from test_agent_labels import Group

FLAGS = ["--web.enable-lifecycle", "--scrape.discovery-reload-interval=1s"]
KINDS = {"profilescrapeconfigs": ("/apis/pyrrha.dev/v1alpha1", "ProfileScrapeConfig"),
         "parcascrapeconfigs": ("/apis/parca.ricoberger.de/v1alpha1", "ParcaScrapeConfig")}
CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 5s}
kubernetes_scrape_configs:
- kubeconfig_file: %s
%s
scrape_configs:
- job_name: shop/taken
"""


def api_with_kinds(env, kinds=KINDS):
    api = KubeApi(env)
    for resource in kinds:
        api.install(resource, *KINDS[resource])
    return api


def pod(name, address, labels, namespace="shop", container="echoserver", port="debug", phase="Running"):
    ip, number = address.rsplit(":", 1)
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": container, "image": "x", "ports": [
                {"name": port, "containerPort": int(number), "protocol": "TCP"}, {"name": "other", "containerPort": 1}]}]},
            "status": {"phase": phase, "podIP": ip, "containerStatuses": [{"name": container, "containerID": "containerd://1"}]}}


def profile_config(name, labels, namespace="shop", selector=None, **scrape):
    scrape = scrape or {"port": "debug"}
    return {"metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": labels} if selector is None else selector, "scrapeConfig": scrape}}


def targets(server, job=None):
    return [t for t in server.targets() if job in (None, t["scrapePool"])]


def up(server, job, n):
    """That so many targets of it are scraped with success."""
    found = {t["labels"]["pod"] for t in targets(server, job) if t["health"] == "up" and "process_cpu" not in t["scrapeUrl"]}
    return len(found) == n


def metric(server, name, **labels):
    text = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return server.metrics().get(f"{name}{{{text}}}" if text else name, 0)


def life(env, resource):
    echo, other = Echo(env), Echo(env, name="other")
    api = api_with_kinds(env)
    server = Server(env, CONFIG % (api.kubeconfig, ""), flags=FLAGS)
    cpu_off = {"pprofConfig": {"process_cpu": {"enabled": False}, "block": {"enabled": False}, "mutex": {"enabled": False}}}
    scrape = {"port": "debug", "interval": "1s", "profilingConfig": cpu_off}
    api.put("pods", pod("cart-1", echo.address, {"app": "cart"}), pod("cart-2", other.address, {"app": "cart", "track": "canary"}),
            pod("done", echo.address, {"app": "cart"}, phase="Succeeded"), pod("pay", echo.address, {"app": "pay"}),
            pod("cart-1", other.address, {"app": "cart"}, namespace="else"))
    # added
    api.put(resource, profile_config("cart", {"app": "cart"}, **scrape))
    wait_until("both pods are scraped", lambda: up(server, "shop/cart", 2))
    labels = [t["labels"] for t in targets(server, "shop/cart")]
    check({l["namespace"] for l in labels} == {"shop"}, labels)
    check({(l["pod"], l["container"], l["endpoint"], l["job"]) for l in labels} ==
          {(p, "echoserver", "debug", "shop/cart") for p in ("cart-1", "cart-2")}, labels)
    wait_until("profiles by container", lambda: any("goroutine" in s["metric"]["__name__"]
               for s in server.query('{container="echoserver",job="shop/cart"}[1m]')["result"]))
    # a pod goes, another object comes: nobody else notices
    begin = {t["scrapeUrl"]: t["lastScrape"] for t in targets(server, "shop/cart")}
    payments = profile_config("pay", {"app": "pay"}, portNumber=int(echo.address.rsplit(":", 1)[1]), job="payments",
                              profilingConfig=cpu_off)
    api.put(resource, payments)
    wait_until("the other object", lambda: up(server, "shop/pay", 1))
    check({t["labels"]["job"] for t in targets(server, "shop/pay")} == {"payments"}, targets(server, "shop/pay"))
    check(set(begin) == {t["scrapeUrl"] for t in targets(server, "shop/cart")}, "targets of shop/cart moved")
    api.put("pods", pod("cart-2", other.address, {"app": "cart", "track": "canary"}, phase="Failed"))
    wait_until("a pod that has finished is left out", lambda: up(server, "shop/cart", 1))
    api.put("pods", pod("cart-2", other.address, {"app": "cart", "track": "canary"}))
    wait_until("and comes back", lambda: up(server, "shop/cart", 2))
    # changed
    api.put(resource, profile_config("cart", None, selector={"matchLabels": {"app": "cart"}, "matchExpressions": [
        {"key": "track", "operator": "NotIn", "values": ["canary"]}]}, relabelConfigs=[
            {"sourceLabels": ["__meta_kubernetes_pod_label_app"], "targetLabel": "app"}], **scrape))
    wait_until("the selector's change", lambda: {(t["labels"]["pod"], t["labels"].get("app")) for t in targets(server, "shop/cart")} ==
               {("cart-1", "cart")})
    # broken: the last good version stays
    api.put(resource, profile_config("cart", {"app": "cart"}, **dict(scrape, interval="1h", timeout="5h")))
    kind = KINDS[resource][1]
    wait_until("it counts as bad", lambda: metric(server, "pyrrha_scrape_objects_bad", kind=kind) == 1)
    check(metric(server, "pyrrha_scrape_objects_refused_total", kind=kind) >= 1, "not counted")
    check(f"{kind} shop/cart: field spec.scrapeConfig.timeout: over an hour" in server.text(), "not in the log")
    check(len(targets(server, "shop/cart")) >= 1 and up(server, "shop/pay", 1), "the last good version is gone")
    shown(server, kind, "shop/cart", "over an hour")
    # a reload changes nothing of that, and one without the section ends it
    server.configure(CONFIG % (api.kubeconfig, "# again"))
    reload(server)
    check(len(targets(server, "shop/cart")) >= 1, "a reload lost the objects' jobs")
    # mended
    api.put(resource, profile_config("cart", {"app": "cart"}, **scrape))
    wait_until("it is good again", lambda: metric(server, "pyrrha_scrape_objects_bad", kind=kind) == 0 and up(server, "shop/cart", 2))
    # the server of a cluster goes away and comes back: what is scraped stays
    api.restart(compacted=True)
    check(up(server, "shop/cart", 2), "a restart of the API server ends jobs")
    # a name that a file has
    api.put(resource, profile_config("taken", {"app": "cart"}, **scrape))
    wait_until("the file's job wins", lambda: "job_name shop/taken is taken by a job of the configuration file" in server.text())
    # being deleted is being gone, whoever holds it; then gone altogether
    payments["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["parcascrapeconfig.ricoberger.de/finalizer"])
    api.put(resource, payments)
    wait_until("an object that is being deleted is gone", lambda: not targets(server, "shop/pay"))
    api.delete(resource, "cart", "shop")
    wait_until("a deleted object is gone", lambda: not targets(server, "shop/cart"))
    # one watch of each kind, one of the pods; nothing was written, that the server would have refused
    check(api.watching(resource) == 1 and api.watching("pods") <= 1, "more than one watch of the same objects")
    check(not [r for r in api.requests if "status" in r[0]], "it asked for a status")
    status, _ = server.terminate()
    check(status == 0, f"ended with {status}")


def reload(server):
    status, _, body = http_get(server.url + "/-/reload", data=b"")
    check(status == 200, f"{status} {body!r}")


def shown(server, kind, job, text):
    found = [s for j in server.api("discovery")["jobs"] if j["scrapePool"] == job and j["targets"] for s in j["sources"]
             if s["kind"] == kind and text in s["error"]]
    check(found, server.api("discovery"))


@slow
def test_profile_scrape_config(env):
    """Its life: added, changed, broken, mended, deleted."""
    life(env, "profilescrapeconfigs")


@slow
def test_parca_scrape_config(env):
    """The same of Parca's kind."""
    life(env, "parcascrapeconfigs")


def test_an_object_gets_no_further(env):
    """Neither to another namespace, nor to a file, nor to another address, whatever rules and answers say."""
    api = api_with_kinds(env)
    asked = []

    def elsewhere(handler):
        asked.append(handler.path)
        answer(handler, 200, b"")
    other = HttpServer(env, elsewhere)
    pod_server = HttpServer(env, lambda h: answer(h, 302, b"", [("Location", f"http://{other.address}/stolen")]))
    api.put("pods", pod("mine", pod_server.address, {"app": "mine", "to": other.address.replace(":", "_")}, namespace="evil"),
            pod("theirs", other.address, {"app": "mine"}, namespace="shop"))
    server = Server(env, CONFIG % (api.kubeconfig, ""), flags=FLAGS)
    rules = {
        "map": [{"action": "labelmap", "regex": "elsewhere", "replacement": "__address__"}],
        "prefix": [{"targetLabel": "__profile_path_prefix__", "replacement": "@" + other.address}],
        "socket": [{"action": "labelmap", "regex": "elsewhere", "replacement": "__unix_socket__"}],
        "fast": [{"targetLabel": "__scrape_interval__", "replacement": "100ms"}],
    }
    for name, rule in rules.items():
        api.put("profilescrapeconfigs", profile_config(name, {"app": "mine"}, "evil", port="debug", relabelConfigs=[
            {"targetLabel": "elsewhere", "replacement": other.address}] + rule))
    api.put("profilescrapeconfigs",
            profile_config("file", {"app": "mine"}, "evil", port="debug", authorization={"credentials_file": "/etc/passwd"}),
            profile_config("address", {"app": "mine"}, "evil", port="debug",
                           relabelConfigs=[{"targetLabel": "__address__", "replacement": other.address}]),
            profile_config("label", {"app": "mine"}, "evil", port="debug", relabelConfigs=[
                {"targetLabel": "namespace", "replacement": "shop"}, {"targetLabel": "__param_x", "replacement": "fine"}]))
    wait_until("two are refused", lambda: metric(server, "pyrrha_scrape_objects_bad", kind="ProfileScrapeConfig") == 2)
    check("field spec.scrapeConfig.authorization: unknown" in server.text(), "not said")

    def tried():
        found = [t for t in targets(server, "evil/label") if t["lastError"]]
        return len(found) >= 4 and found
    found = wait_until("redirects are no answer", tried)
    check({t["labels"]["namespace"] for t in found} == {"evil"} and {t["labels"]["pod"] for t in found} == {"mine"}, found)
    jobs = {j["scrapePool"]: j for j in server.api("discovery")["jobs"]}
    for name in rules:
        check(not targets(server, "evil/" + name), f"{name}: {targets(server, 'evil/' + name)}")
        check(jobs["evil/" + name]["failedProfiles"] > 0, jobs["evil/" + name])
    check([s["error"] for s in jobs["evil/file"]["sources"] if s["error"]], jobs["evil/file"])
    check(not asked, f"asked elsewhere: {asked}")


def test_stop_with_many_namespaces(env):
    """Watches that wait for news end together: a stop waits for one of them and not for each in turn."""
    api = api_with_kinds(env)
    names = [f"n{i}" for i in range(40)]
    for n in names:
        api.put("pods", pod("p", "127.0.0.1:1", {"app": "x"}, n))
        api.put("profilescrapeconfigs", profile_config("o", {"app": "x"}, n, port="debug", interval="10m"))
    config = CONFIG % (api.kubeconfig, "  namespaces: {names: [%s]}" % ", ".join(names))
    server = Server(env, config, flags=FLAGS)
    wait_until("all have a job", lambda: len({t["scrapePool"] for t in targets(server)}) == len(names), 20)
    status, _ = server.terminate()
    check(status == 0, f"ended with {status}\n{server.text()}")


def test_a_source_that_cannot_be_read(env):
    """It is logged once, with its end, and the page says since when."""
    api = api_with_kinds(env)
    kubeconfig = api.kubeconfig
    api.stop()
    server = Server(env, CONFIG % (kubeconfig, ""), flags=FLAGS)

    def failing():
        return [s for j in server.api("discovery")["jobs"] for s in j["sources"]
                if s["kind"] == "kubernetes_scrape_configs" and s["error"]]
    found = wait_until("it is told", failing)
    check(not found[0].get("since", "0001").startswith("0001"), found)
    check(server.text().count("objects cannot be read") == 1, server.text())


@slow
def test_with_the_agent_beside(env):
    """A container's series have the same labels, whether it says them itself or the agent of its node. Needs root and eBPF."""
    uid, container = str(uuid.uuid4()), uuid.uuid4().hex * 2
    process = Group(env, f"/kubepods/burstable/pod{uid}/{container}").start(
        "grouped", echo_command(env, 8))
    address = wait_until("it listens", lambda: "listening on " in process.text() and process.text().split("\n")[0].split("//")[1])
    api = api_with_kinds(env, ["profilescrapeconfigs"])
    api.put("nodes", NODE)
    item = pod("cart-1", address, {"app": "cart"})
    item["metadata"]["uid"] = uid
    item["status"]["containerStatuses"][0]["containerID"] = "containerd://" + container
    api.put("pods", item)
    api.put("profilescrapeconfigs", profile_config("cart", {"app": "cart"}))
    agent = start_agent(env, "--node=n1", f"--kubeconfig={api.kubeconfig}", only=["echoserver"])
    server = Server(env, CONFIG % (api.kubeconfig, "") + "- job_name: agent\n  profiling_config: {preset: agent}\n"
                    "  static_configs: [{targets: ['%s']}]\n" % agent.split("//")[1], flags=FLAGS)

    def both():
        rows = [s["metric"] for s in server.query('{namespace="shop",pod="cart-1",container="echoserver"}[1m]')["result"]]
        names = {(r["job"], r["__name__"].split(":")[0]) for r in rows}
        return {("shop/cart", "process_cpu"), ("agent", "on_cpu")} <= {(j, n) for j, n in names} and names
    try:
        wait_until("native and the agent's series", both, 45)
    except AssertionError as e:
        rows = [s["metric"] for s in server.query('{container="echoserver"}[1m]')["result"]]
        raise AssertionError(f"{e}; {rows}") from None
