# SPDX-License-Identifier: Apache-2.0
"""Jobs from objects of a cluster: the life of both kinds (add, change, break, delete), and what an object cannot reach."""
from harness import Echo, Server, check, http_get, wait_until
from kube_api import KubeApi

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
    api.put(resource, profile_config("pay", {"app": "pay"}, portNumber=int(echo.address.rsplit(":", 1)[1]), job="payments",
                                     profilingConfig=cpu_off))
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
    held = profile_config("pay", {"app": "pay"}, **scrape)
    held["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["parcascrapeconfig.ricoberger.de/finalizer"])
    api.put(resource, held)
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


def test_profile_scrape_config(env):
    """Its life: added, changed, broken, mended, deleted."""
    life(env, "profilescrapeconfigs")


def test_parca_scrape_config(env):
    """The same of Parca's kind."""
    life(env, "parcascrapeconfigs")
