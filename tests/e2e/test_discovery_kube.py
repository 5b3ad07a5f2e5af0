# SPDX-License-Identifier: Apache-2.0
"""kubernetes_sd_configs: the real server against an API server of these tests. What it discovers is compared with what the
discovery of Prometheus 3.14 made of the same objects by the same configuration; and the API server has bad days."""
import json
import os
import re
import shutil

from harness import LONG, Server, Skip, check, http_get, run, slow, wait_until
from kube_api import KubeApi

ROLES = ("node", "service", "pod", "endpoints", "endpointslice", "ingress")
ALL = "attach_metadata: {node: true, namespace: true, deployment: true, job: true, cronjob: true}"
# Jobs: name, role, what else the item says.
ITEMS = [(role, role, "") for role in ROLES] + [(role + "-attached", role, ALL) for role in ROLES] + [
    ("pod-of-node", "pod", "attach_metadata: {node: true}, selectors: [{role: node, label: '!node-role.kubernetes.io/worker'}]"),
    ("pod-selected", "pod", "selectors: [{role: pod, label: 'app in (web,x),!z', field: 'status.phase!=Succeeded,status.phase!=Failed'}]"),
    ("pod-of-other", "pod", "namespaces: {names: [other, missing, other]}"),
    ("service-selected", "service", "selectors: [{role: service, field: metadata.name=web}]"),
    ("slice-of-selected", "endpointslice", "selectors: [{role: pod, field: metadata.name=web-1}, {role: service, label: none}], attach_metadata: {job: true}"),
]
# What Prometheus's own discovery (3.14) told of fill(), by configuration: targets without "__meta_kubernetes_", "~" for it.
EXPECTED = os.path.join(os.path.dirname(__file__), "kube_sd_expected.json")


def config(api, items=ITEMS):
    """All targets are dropped: nothing of this is there to be scraped."""
    return "scrape_configs:\n" + "".join(f"""- job_name: {name}
  relabel_configs: [{{action: drop}}]
  kubernetes_sd_configs:
  - {{role: {role}, kubeconfig_file: {api.kubeconfig}{', ' + more if more else ''}}}
""" for name, role, more in items)


def short(labels):
    """One target as a line; what every job adds is left out."""
    kept = {k.replace("__meta_kubernetes_", "~"): v for k, v in labels.items() if v and (k.startswith("__meta_") or k in ("__address__", "instance"))}
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def discovered(server):
    """{job: sorted lines of targets}; equal ones, one for each profile type, count once."""
    data, found = server.api("targets"), {}
    for t in data["activeTargets"] + data["droppedTargets"]:
        found.setdefault(t["discoveredLabels"]["job"], set()).add(short(t["discoveredLabels"]))
    return {job: sorted(lines) for job, lines in found.items()}


def same(server, expected, seconds=30):
    def probe():
        found = discovered(server)
        for job, want in expected.items():
            have = found.get(job, [])
            differ = "\n".join(["- " + t for t in want if t not in have] + ["+ " + t for t in have if t not in want])
            check(not differ, f"{job}: not as expected (-: missing; +: too many)\n{differ}")
        return True
    wait_until("what is discovered is what Prometheus discovers", probe, seconds)


FAST = ["--scrape.discovery-reload-interval=100ms"]


def metric(server, name):
    """The sum of it over its labels that are given."""
    text = http_get(server.url + "/metrics")[2].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def owner(kind, name):
    return [{"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "u", "controller": True}]


def port(number, name=None, protocol="TCP"):
    return {"containerPort": number, "protocol": protocol, **({"name": name} if name else {})}


def app_pod(name, ip, node="n1", owners=(), namespace="default", init=None, **more):
    """A pod with two containers, of which one has no ports."""
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": "uid-" + name, "ownerReferences": list(owners),
                     "labels": {"app": "web", "app.kubernetes.io/name": "wéb", "empty": ""},
                     "annotations": {"prometheus.io/scrape": "true", "note": 'line\n"quoted" \\'}, "managedFields": [{"manager": "x"}]},
        "spec": {"nodeName": node, "containers": [
            {"name": "app", "image": "registry/app:1", "ports": [port(8080, "http"), port(9090), port(53, "dns", "UDP")]},
            {"name": "side", "image": "registry/side@sha256:0"}],
            "initContainers": init or []},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": "side", "containerID": "containerd://b" + name}, {"name": "app", "containerID": "containerd://a" + name}],
                   **more}}


def fill(api):
    """Of everything something, also what is odd."""
    api.put("namespaces", {"metadata": {"name": "default", "labels": {"team": "blue"}, "annotations": {"cost/center": "7"}}},
            {"metadata": {"name": "other"}})
    api.put("nodes",
            {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1", "node-role.kubernetes.io/worker": ""},
                          "annotations": {"a": "b"}}, "spec": {"providerID": "aws:///i-1"},
             "status": {"addresses": [{"type": "Hostname", "address": "n1.local"}, {"type": "InternalIP", "address": "10.0.0.1"},
                                      {"type": "InternalIP", "address": "fd00::1"}, {"type": "ExternalIP", "address": "4.4.4.4"}],
                        "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "Unknown"}],
                        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}},
            {"metadata": {"name": "n2"}, "status": {"addresses": [{"type": "ExternalDNS", "address": "n2.example.org"}, {"type": "InternalIP", "address": "fd00::2"}]}},
            {"metadata": {"name": "no-address"}})
    api.put("pods",
            app_pod("web-1", "10.1.0.1", owners=owner("ReplicaSet", "web-5d9"), init=[{"name": "init", "image": "init:1", "ports": [port(7000)]}],
                    initContainerStatuses=[{"name": "init", "containerID": "containerd://i"}]),
            app_pod("web-2", "fd00::12", node="n2", owners=owner("ReplicaSet", "web-5d9"), phase="Failed", conditions=[]),
            app_pod("host", "10.0.0.1", owners=owner("DaemonSet", "agent")),
            app_pod("backup-28-x", "10.1.0.3", owners=owner("Job", "backup-28"), phase="Succeeded"),
            app_pod("lost", "10.1.0.4", node="n9"), app_pod("pending", "", node=""), app_pod("web-1", "10.2.0.1", namespace="other"),
            {"metadata": {"name": "bare", "namespace": "other"}, "spec": {"containers": [{"name": "c"}]}, "status": {"podIP": "10.2.0.2"}})
    api.put("replicasets", {"metadata": {"name": "web-5d9", "ownerReferences": owner("Deployment", "web")}})
    api.put("jobs", {"metadata": {"name": "backup-28", "ownerReferences": owner("CronJob", "backup")}})
    http = {"name": "http", "port": 80, "protocol": "TCP"}
    api.put("services",
            {"metadata": {"name": "web", "labels": {"app": "web"}, "annotations": {"x/y": "z"}},
             "spec": {"type": "ClusterIP", "clusterIP": "10.9.0.1", "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"],
                      "ports": [http, {"port": 53, "protocol": "UDP"}]}},
            {"metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.9.0.2", "loadBalancerIP": "1.1.1.1", "ports": [http]},
             "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}, {"ip": "3.3.3.3"}]}}},
            {"metadata": {"name": "out"}, "spec": {"type": "ExternalName", "externalName": "example.org", "ports": [http]}},
            {"metadata": {"name": "headless", "namespace": "other"}, "spec": {"type": "ClusterIP", "clusterIP": "None"}})

    def ref(kind, name, namespace="default"):
        return {"kind": kind, "name": name, "namespace": namespace, "uid": "u"}
    api.put("endpoints",
            {"metadata": {"name": "web", "labels": {"l": "v"}}, "subsets": [
                {"addresses": [{"ip": "10.1.0.1", "nodeName": "n1", "hostname": "h", "targetRef": ref("Pod", "web-1")},
                               {"ip": "10.1.0.9", "targetRef": ref("Pod", "gone")}, {"ip": "1.2.3.4"}],
                 "notReadyAddresses": [{"ip": "fd00::12", "nodeName": "n2", "targetRef": ref("Pod", "web-2")}],
                 "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"port": 5, "protocol": "UDP"}]},
                {"addresses": [{"ip": "10.0.0.1", "targetRef": ref("Node", "n1", "")}], "ports": [{"port": 10250, "protocol": "TCP"}]}]},
            {"metadata": {"name": "none", "namespace": "other"}})
    api.put("endpointslices",
            {"metadata": {"name": "web-abc", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
             "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": True, "serving": True, "terminating": False}, "nodeName": "n1",
                            "hostname": "h", "zone": "z1", "targetRef": ref("Pod", "web-1")},
                           {"addresses": ["10.1.0.3"], "conditions": {"ready": False, "serving": False, "terminating": True}, "targetRef": ref("Pod", "backup-28-x")},
                           {"addresses": ["10.0.0.1"], "conditions": {}, "targetRef": ref("Node", "n2", ""), "deprecatedTopology": {"a/b": "c"}}],
             "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}, {"name": "", "port": 9090, "protocol": "UDP"}]},
            {"metadata": {"name": "web-six", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv6",
             "endpoints": [{"addresses": ["fd00::11"]}], "ports": [http]},
            {"metadata": {"name": "names", "namespace": "other"}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.example.org"]}], "ports": [{"name": "x"}]})
    api.put("ingresses",
            {"metadata": {"name": "front", "labels": {"l": "v"}, "annotations": {"kubernetes.io/ingress.class": "nginx"}}, "spec": {
                "ingressClassName": "nginx", "tls": [{"hosts": ["*.example.org", "plain.org"]}],
                "rules": [{"host": "a.example.org", "http": {"paths": [{"path": "/x", "pathType": "Prefix"}, {"path": "", "pathType": "Prefix"}]}},
                          {"host": "b.a.example.org", "http": {"paths": [{"path": "/y", "pathType": "Exact"}]}}, {"host": "plain.org"},
                          {"http": {"paths": [{"path": "/z", "pathType": "Prefix"}]}}]}})


# ---- tests ----

def test_labels_of_all_roles(env):
    """Every label of every target is Prometheus 3.14's, for each role; one watch serves all jobs that want the same objects.
    Debian's 2.42 is built without this discovery: the file was made by a program around 3.14's package discovery/kubernetes."""
    api = KubeApi(env)
    fill(api)
    with open(EXPECTED, encoding="utf-8") as f:
        # 3.14.0 has the address that was asked for; Prometheus after it, as we, those that were given
        expected = json.loads(f.read().replace('\\"~service_loadbalancer_ip\\": \\"1.1.1.1\\"', '\\"~service_loadbalancer_ip\\": \\"2.2.2.2,3.3.3.3\\"'))
    check(set(expected) == {name for name, _, _ in ITEMS}, "kube_sd_expected.json is of other jobs")
    server = Server(env, config(api), FAST)
    same(server, expected)
    # pods: of all namespaces, selected, of one node's name, of two namespaces; not one for each of the 13 jobs that need them
    wait_until("the watches", lambda: api.watching("pods") == 5 and api.watching("nodes") == 2, 30)
    check(api.watching("services") == 3 and api.watching("replicasets") == 1, f"{api.watching('services')} {api.watching('replicasets')}")


def by_name(server, job):
    """{name of the pod: its targets}"""
    found = {}
    for line in discovered(server).get(job, ()):
        labels = json.loads(line)
        found.setdefault(labels["~pod_name"], []).append(labels)
    return found


def test_life_of_objects(env):
    """Added, changed, deleted: told within a moment; a change of a node is told of its pods, nothing else is made again."""
    api = KubeApi(env)
    fill(api)
    server = Server(env, config(api, [("pods", "pod", ALL)]), FAST)
    before = wait_until("the pods", lambda: by_name(server, "pods"), 30)
    check("lost" not in before and "pending" not in before, f"a pod without node or address: {list(before)}")
    api.put("pods", app_pod("new", "10.1.0.50"))
    wait_until("one is added", lambda: "new" in by_name(server, "pods"), 30)
    api.put("pods", app_pod("new", "10.1.0.51"))
    wait_until("it changes", lambda: by_name(server, "pods")["new"][0]["~pod_ip"] == "10.1.0.51", 30)
    api.put("nodes", {"metadata": {"name": "n9", "labels": {"fresh": "yes"}}})
    wait_until("its node comes", lambda: by_name(server, "pods")["lost"][0]["~node_label_fresh"] == "yes", 30)
    updates = metric(server, "pyrrha_sd_updates_total")
    api.put("nodes", {"metadata": {"name": "n2", "labels": {"other": "now"}}})
    wait_until("a node changes", lambda: by_name(server, "pods")["web-2"][0].get("~node_label_other") == "now", 30)
    check(metric(server, "pyrrha_sd_updates_total") == updates + 1, "one pod is on that node, and only its group is told again")
    api.delete("pods", "new")
    wait_until("it is gone", lambda: "new" not in by_name(server, "pods"), 30)
    check(metric(server, 'pyrrha_sd_kubernetes_events_total{role="pod",event="delete"}') == 1, "the deletion is counted")


def test_nothing_before_all_lists(env):
    """Of pods with labels of their namespaces nothing is told before the namespaces were read; the source has a problem meanwhile."""
    api = KubeApi(env)
    fill(api)
    api.forbidden.add("namespaces")
    server = Server(env, config(api, [("pods", "pod", "attach_metadata: {namespace: true}"), ("plain", "pod", "")]), FAST)
    wait_until("the other job's pods", lambda: by_name(server, "plain"), 30)
    wait_until("the problem", lambda: metric(server, 'pyrrha_sd_failed_configs{mechanism="kubernetes",role="pod"}') == 1, 30)
    check("namespaces is forbidden" in server.text(), "the log does not say what is forbidden")
    check(not by_name(server, "pods") and not metric(server, 'pyrrha_sd_discovered_targets{name="pods"'), "told before the namespaces are there")
    api.forbidden.clear()
    pods = wait_until("the pods", lambda: by_name(server, "pods"), 60)
    check(pods["host"][0]["~namespace_label_team"] == "blue", f"{pods['host'][0]}")
    wait_until("no problem", lambda: metric(server, "pyrrha_sd_failed_configs") == 0, 30)


def test_bad_days(env):
    """While the API server is away all stays; what changed meanwhile is told, once it is back: with another certificate and token,
    after compaction, after a 410 in the middle of a watch, expired continue tokens and a torn event."""
    api = KubeApi(env)
    fill(api)
    server = Server(env, config(api, [("pods", "pod", ""), ("slices", "endpointslice", "")]), FAST)
    before = wait_until("the pods", lambda: by_name(server, "pods"), 30)
    wait_until("the slices", lambda: discovered(server).get("slices"), 30)

    def changes(text, what, number):
        old, new = f"day-{number - 1}", f"day-{number}"
        if old in api_names():
            api.delete("pods", old)
        api.put("pods", app_pod(new, f"10.7.0.{number}"))
        what()

        def probe():
            now = by_name(server, "pods")
            return new in now and old not in now and set(before) <= set(now)
        wait_until("after " + text, probe, 60)

    def api_names():
        return {name for _, name in api.objects["pods"]}

    wait_until("watches", lambda: api.watching("pods"), 30)
    api.stop()
    wait_until("the problem", lambda: metric(server, "pyrrha_sd_failed_configs") > 0, 30)
    check(set(by_name(server, "pods")) == set(before) and discovered(server).get("slices"), "what was there is gone with the API server")
    api.rotate("second")
    changes("a restart with compaction, another token and certificate", lambda: api.start(compacted=True, other_ca=True), 1)
    changes("a 410 as an event", api.gone, 2)
    changes("a torn event", lambda: api.hang_up(b'{"type":"MODIFIED","object":{"meta'), 3)
    changes("a restart", api.restart, 4)
    wait_until("no problem", lambda: metric(server, "pyrrha_sd_failed_configs") == 0, 60)


def resident(server):
    with open(f"/proc/{server.p.pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) << 10


@slow
def test_many_pods(env):
    """Pods in number, of which one job keeps few and another none: 20,000 may cost 128 MiB in all."""
    count = 20000 if LONG else 4000
    api = KubeApi(env)
    api.put("nodes", *[{"metadata": {"name": f"n{i}"}} for i in range(50)])
    api.put("pods", *[app_pod(f"web-{i}", f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", node=f"n{i % 50}", owners=owner("ReplicaSet", "web-5d9"))
                      for i in range(count)])
    server = Server(env, "scrape_configs: []\n", ["--web.enable-lifecycle", *FAST])
    before = resident(server)
    node = "attach_metadata: {node: true}"
    keep = "{action: keep, source_labels: [__meta_kubernetes_pod_name, __meta_kubernetes_pod_container_port_name], regex: 'web-1;http'}"
    server.configure(config(api, [("few", "pod", node)]).replace("{action: drop}", keep) + config(api, [("none", "pod", node)]).split("\n", 1)[1])
    check(http_get(server.url + "/-/reload", data=b"")[0] == 200, "reload")
    for job in ("none", "few"):
        wait_until("all pods", lambda job=job: metric(server, f'pyrrha_sd_discovered_targets{{name="{job}"') == 4 * count, 120)
    wait_until("the one that is kept", lambda: server.api("targets", state="active")["activeTargets"], 60)
    more, room = resident(server) - before, (128 << 20) * count // 20000 + (16 << 20) * (not LONG)
    check(api.lists("/api/v1/pods") == 1, "the same list was read twice")
    if not sanitized(env):
        check(more < room, f"{count} pods take {more >> 20} MiB, not less than {room >> 20}")


def sanitized(env):
    with open(env.program("pyrrha"), "rb") as f:
        text = f.read()
    return b"__asan_init" in text or b"__tsan_init" in text


def test_as_a_pod(env):
    """In a pod: the service account's token and CA, each rotated, and own_namespace."""
    api = KubeApi(env)
    fill(api)
    env.path("namespace", "other\n")
    account = "/run/secrets/kubernetes.io/serviceaccount"
    words = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs none /run && mkdir -p {account} && mount --bind "{env.dir}" {account} && exec "$@"', "sh")
    if not shutil.which("unshare") or run([*words, "true"])[0] or os.path.realpath("/var/run") != "/run":
        raise Skip("no mount namespace of one's own")

    class Pod(Server):
        under = (*words, "env", "KUBERNETES_SERVICE_HOST=127.0.0.1", f"KUBERNETES_SERVICE_PORT={api.port}")
    server = Pod(env, config(api, [("own", "pod", "namespaces: {own_namespace: true}"), ("both", "pod", "namespaces: {own_namespace: true, names: [other, default]}"),
                                   ("nodes", "node", "namespaces: {own_namespace: true}")]).replace(f", kubeconfig_file: {api.kubeconfig}", ""), FAST)
    own = {"web-1", "bare"}
    wait_until("the pods of its namespace", lambda: set(by_name(server, "own")) == own, 30)
    wait_until("of two namespaces", lambda: {"web-2", "bare"} <= set(by_name(server, "both")), 30)
    wait_until("the nodes", lambda: len(discovered(server).get("nodes", ())) == 2, 30)
    check(api.lists("/api/v1/pods") == 0 and api.lists("/api/v1/namespaces/other/pods") == 1, "other pods than those of its namespaces were asked for")
    api.rotate("second")
    api.restart(other_ca=True)
    api.put("pods", app_pod("late", "10.2.0.9", namespace="other"))
    wait_until("what came after both were rotated", lambda: set(by_name(server, "own")) == own | {"late"}, 60)
