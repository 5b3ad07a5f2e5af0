# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes in a real kube-apiserver (kube_real.py): it accepts them strictly, without a
warning, in any order. The real server and agent run with the rights of their ServiceAccounts; the API server made the tokens. There are no
controllers and no kubelet: the test makes the pods of the templates and starts their programs with their arguments."""
import base64
import datetime
import itertools
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse

from harness import LONG, Echo, Process, Skip, check, echo_command, free_port, http_get, wait_until
from kube_real import TOKEN, KubeReal
from test_agent_labels import Group
from test_manifests import DIR, container, documents, kubernetes, make_secret, mistakes, only

CLUSTER = {"v1": ("Namespace", "Node"), "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding"),
           "scheduling.k8s.io/v1": ("PriorityClass",), "apiextensions.k8s.io/v1": ("CustomResourceDefinition",)}
PLURALS = {"networkpolicy": "networkpolicies", "priorityclass": "priorityclasses"}
BASE = ("server.yml", "agent.yml", "crds.yml", "secret")


class Cluster(KubeReal):
    """Requests about objects, strict ones, that keep warnings."""

    def strictly(self, method, path, body=None, ask="?fieldValidation=Strict"):
        c = self.connect()
        try:
            c.request(method, path + ask, None if body is None else json.dumps(body),
                      {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, r.headers.get_all("Warning") or [], r.read()
        finally:
            c.close()

    @staticmethod
    def path(d, name=True):
        kind = d["kind"].lower()
        at = "/api/v1" if d["apiVersion"] == "v1" else "/apis/" + d["apiVersion"]
        if d["kind"] not in CLUSTER.get(d["apiVersion"], ()):
            at += "/namespaces/" + d["metadata"]["namespace"]
        return f"{at}/{PLURALS.get(kind, kind + 's')}" + ("/" + d["metadata"]["name"] if name else "")

    def create(self, d):
        status, warnings, body = self.strictly("POST", self.path(d, False), d)
        check(status == 201 and not warnings, f"{d['kind']} {d['metadata']['name']}: {status} {warnings} {body[:600]}")
        return json.loads(body)

    def remove(self, docs):
        for d in reversed(docs):
            if d["kind"] == "Namespace":  # nobody is there to empty it; the test has
                name = d["metadata"]["name"]
                self.strictly("DELETE", self.path(d))
                self.strictly("PUT", self.path(d) + "/finalize", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                                                                "spec": {"finalizers": []}})
            else:
                self.strictly("DELETE", self.path(d))
        for d in docs:
            wait_until(f"{d['kind']} is gone", lambda d=d: self.strictly("GET", self.path(d))[0] == 404, 30)

    def kubectl(self, *args, **more):
        return subprocess.run(["kubectl", "--kubeconfig", self.kubeconfig, "--cache-dir", self.env.path("kubectl"), *args], capture_output=True,
                              text=True, timeout=120, **more)

    def wait_for_kind(self):
        wait_until("our kind is served", lambda: self.strictly("GET", "/apis/pyrrha.dev/v1alpha1/profilescrapeconfigs")[0] == 200, 30)


def files():
    """name -> objects of the files of the folder, and of the Secret."""
    if not kubernetes:
        raise Skip("python3-yaml is not installed")
    return {f: kubernetes.load(make_secret().stdout) if f == "secret" else documents(f) for f in BASE}


def test_every_order(env):
    """Objects one by one, each of the 24 orders of the files with PYRRHA_LONG=1, else each file first once; what is wrong is refused;
    the same by kubectl."""
    kube, all_of = Cluster(env), files()
    example = documents("example/shop.yml")
    for order in list(itertools.permutations(BASE))[::1 if LONG else 7]:
        made = {}
        for d in (d for f in order for d in all_of[f]):
            if kube.path(d) not in made:  # the namespaces of the Secret are those of the files
                made[kube.path(d)] = d
                kube.create(d)
        kube.wait_for_kind()
        if order == BASE:
            for d in example:
                kube.create(d)
            what_is_wrong(kube)
            kube.remove(example)
        kube.remove(list(made.values()))
    if shutil.which("kubectl"):
        by_kubectl(env, kube, all_of)
    else:
        print("# no kubectl here")


def what_is_wrong(kube):
    """What the test without a cluster refuses is refused here."""
    for what, d in mistakes():
        if "namespace" in d["metadata"] or d["kind"] == "CustomResourceDefinition":
            d["metadata"]["name"] += "-x" if d["kind"] != "CustomResourceDefinition" else ""
            status, _, body = kube.strictly("POST", kube.path(d, False), d, "?fieldValidation=Strict&dryRun=All")
            check(400 <= status < 500 and status != 409, f"{what}: {status} {body[:300]}")


def by_kubectl(env, kube, all_of):
    secret = env.path("secret.yml", make_secret().stdout)
    paths = {f: secret if f == "secret" else os.path.join(DIR, f) for f in BASE}
    docs = list({kube.path(d): d for f in BASE for d in all_of[f]}.values())

    def apply(path):
        out = kube.kubectl("apply", "--validate=strict", "-f", path)
        check(out.returncode == 0 and not out.stderr, f"{path}: {out.stdout}\n{out.stderr}")
        return out.stdout

    for order in (BASE, tuple(reversed(BASE)), None):
        for path in [paths[f] for f in order] if order else [DIR, secret]:
            apply(path)
        kube.wait_for_kind()
        apply(os.path.join(DIR, "example"))
        again = apply(DIR) + apply(os.path.join(DIR, "example")) + apply(secret)
        # A list of claims always looks changed to kubectl, because the server fills it in.
        check(not [line for line in again.splitlines() if not line.endswith(" unchanged") and not line.startswith("statefulset")], again)
        live = json.loads(kube.strictly("GET", kube.path(only("StatefulSet")))[2])
        check(live["metadata"]["generation"] == 1, "the same again changes nothing")
        if order is None:
            explained(kube)
        kube.remove(docs + documents("example/shop.yml"))


def explained(kube):
    def explain(of):
        return kube.kubectl("explain", "profilescrapeconfig." + of).stdout
    out = wait_until("the kind is explained", lambda: explain("spec") if "selector" in explain("spec") else None, 30)
    check("Pods of this namespace" in out, out)
    out = explain("spec.scrapeConfig.profilingConfig.pprofConfig")
    check("Profile types by name" in out and "Where it is served" in explain("spec.scrapeConfig.profilingConfig.pprofConfig.path"), out)
    out = kube.kubectl("get", "profilescrapeconfig", "-n", "pyrrha-example").stdout
    check(re.search(r"NAME +PORT +INTERVAL +AGE\nshop +pprof +15s ", out), out)


# ---- running ----

def token_of(kube, namespace, name):
    status, _, body = kube.strictly("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
                                    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
    check(status == 201, body)
    return json.loads(body)["status"]["token"]


def allowed(kube, token, namespace):
    """What RBAC allows to that token there: (group, resource, verb) of it alone, without what every account may."""
    c = kube.connect()
    c.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json.dumps(
        {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}),
        {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    status = json.loads(c.getresponse().read())["status"]
    c.close()
    found = {(g, r, v) for rule in status["resourceRules"] for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}
    return {x for x in found if x[0] not in ("authorization.k8s.io", "authentication.k8s.io")}


def rights(kube, accounts):
    both = {(g, r, v) for g, r in (("", "pods"), ("pyrrha.dev", "profilescrapeconfigs"), ("parca.ricoberger.de", "parcascrapeconfigs")) for v in ("list", "watch")}
    wanted = {"pyrrha": both, "pyrrha-agent": {("", r, v) for r in ("pods", "nodes") for v in ("list", "watch")}}
    for name, token in accounts.items():
        for namespace in ("pyrrha", "pyrrha-agent", "pyrrha-example", "kube-system"):
            found = allowed(kube, token, namespace)
            check(found == wanted[name], f"{name} in {namespace}: {sorted(found ^ wanted[name])}")


def make_pod(kube, d, name, node, port):
    """As its controller would, on that node; it runs here. The uid that it was given."""
    t, where = d["spec"]["template"], d["metadata"]["namespace"]
    spec = json.loads(json.dumps({**t["spec"], "nodeName": node}))
    spec["containers"][0]["ports"][0]["containerPort"] = port
    there = {m["name"] for m in spec["containers"][0].get("volumeMounts", ())}
    for v in d["spec"].get("volumeClaimTemplates", ()):
        spec.setdefault("volumes", []).append({"name": v["metadata"]["name"], "persistentVolumeClaim": {"claimName": v["metadata"]["name"] + "-" + name}})
    check(there == {v["name"] for v in spec.get("volumes", ())}, "every mount has a volume")
    pod = kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": where, "labels": t["metadata"]["labels"]}, "spec": spec})
    running = base64.b16encode(os.urandom(32)).decode().lower()
    c = spec["containers"][0]
    pod["status"] = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "hostIP": "127.0.0.1",
                     "conditions": [{"type": "Ready", "status": "True"}],
                     "containerStatuses": [{"name": c["name"], "image": c["image"], "imageID": "", "ready": True, "restartCount": 0,
                                            "containerID": "containerd://" + running, "state": {"running": {"startedAt": None}}}]}
    status, warnings, body = kube.strictly("PUT", kube.path(pod) + "/status", pod)
    check(status == 200 and not warnings, f"{name}: {warnings} {body[:600]}")
    return f"/kubepods/burstable/pod{pod['metadata']['uid']}/{running}"


def put(folder, files):
    """As a kubelet: a new folder beside the old one, and a link that is swapped."""
    new = f"..{len(os.listdir(folder)) if os.path.isdir(folder) else 0}"
    os.makedirs(os.path.join(folder, new))
    for name, text in files.items():
        with open(os.path.join(folder, new, name), "w", encoding="utf-8") as f:
            f.write(text)
        if not os.path.islink(os.path.join(folder, name)):
            os.symlink("..data/" + name, os.path.join(folder, name))
    os.symlink(new, os.path.join(folder, "..tmp"))
    os.rename(os.path.join(folder, "..tmp"), os.path.join(folder, "..data"))


class InPod(Process):
    """A program as in a pod of the API server: arguments of its container, files of its volumes, the account's token where pods have it."""

    def __init__(self, env, kube, d, program, token, secret, port, env_more=()):
        c, self.port, self.url = container(d), port, f"http://127.0.0.1:{port}"
        spec = d["spec"]["template"]["spec"]
        self.moved = {}  # a path of the manifest -> one of this test
        for m in c["volumeMounts"]:
            self.moved[m["mountPath"]] = env.path(program + "-" + m["name"])
            os.makedirs(self.moved[m["mountPath"]], exist_ok=True)
        for v in spec["volumes"]:
            folder = env.path(program + "-" + v["name"])
            if "secret" in v:
                self.web, self.keys = folder, [i["key"] for i in v["secret"].get("items", ())] or list(secret)
                self.log_in_by(secret)
            elif "configMap" in v and not v["configMap"].get("optional"):
                put(folder, {k: self.here(text) for k, text in only("ConfigMap", v["configMap"]["name"])["data"].items()})
        account = env.path(program + "-account")
        with open(env.path("ca.crt"), encoding="utf-8") as f:
            put(account, {"token": token, "namespace": d["metadata"]["namespace"], "ca.crt": f.read()})
        into = "/run/secrets/kubernetes.io/serviceaccount"
        script = f'mount -t tmpfs none /run && mkdir -p {into} && mount --bind "$0" {into} && exec "$@"'
        args = [self.here(a).replace("$(NODE_NAME)", "node-1") for a in c["args"]]
        address = ["env", "KUBERNETES_SERVICE_HOST=127.0.0.1", f"KUBERNETES_SERVICE_PORT={kube.port}", *env_more]
        super().__init__(env, program, ["unshare", "-m", "--propagation", "private", "sh", "-c", script, account, *address, env.program(program), *args])

    def log_in_by(self, secret):
        put(self.web, {k: base64.b64decode(secret[k]).decode() for k in self.keys})

    def here(self, text):
        """With this test's folders and port for the pod's."""
        for path in sorted(self.moved, key=len, reverse=True):
            text = text.replace(path, self.moved[path])
        return re.sub(r"(?<=[:=])(:|localhost:)707[01]\b|(?<=')localhost:707[01]\b", lambda m: re.sub(r"707[01]", str(self.port), m[0]), text)


def test_run_with_their_rights(env):
    """From the manifests to profiles: the server finds agents and objects, the agent knows pods, and neither may do more."""
    if os.geteuid() != 0:
        raise Skip("mounts, and the agent's programs, need root")
    kube, docs, echo = Cluster(env), files(), Echo(env)
    login = make_secret()
    password = re.search(r"password: (\S+)", login.stderr)[1]
    docs["secret"] = kubernetes.load(login.stdout)
    for d in {kube.path(d): d for f in BASE for d in docs[f]}.values():
        kube.create(d)
    kube.wait_for_kind()
    for d in documents("example/shop.yml"):
        kube.create(d)
    kube.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"kubernetes.io/os": "linux"}}})
    accounts = {n: token_of(kube, n, n) for n in ("pyrrha", "pyrrha-agent")}
    rights(kube, accounts)

    secrets = data_of(docs["secret"])
    stateful, daemon = only("StatefulSet"), only("DaemonSet")
    ports = free_port(), free_port()
    make_pod(kube, stateful, "pyrrha-0", "node-1", ports[0])
    make_pod(kube, daemon, "pyrrha-agent-x7k2p", "node-1", ports[1])
    shop = make_pod(kube, only("Deployment"), "shop-5d9f-abcde", "node-1", int(echo.address.rsplit(":", 1)[1]))
    group = Group(env, shop)
    group.start("in-pod", echo_command(env))

    agent = InPod(env, kube, daemon, "pyrrha-agent", accounts["pyrrha-agent"], secrets["pyrrha-agent"], ports[1],
                  env_more=["TMPDIR=" + env.dir])
    server = InPod(env, kube, stateful, "pyrrha", accounts["pyrrha"], secrets["pyrrha"], ports[0])
    for program in (agent, server):
        def ready(program=program):
            check(program.alive(), program.text()[-2000:])
            return http_get(program.url + "/-/ready")[0] == 200
        wait_until("ready, without a login", ready, 60)
        check(http_get(program.url + "/-/healthy")[0] == 200, "healthy, without a login")
        for path in ("/metrics", "/", "/debug/pprof/"):
            check(http_get(program.url + path)[0] == 401, f"{program.name}{path} without a login")
        check(http_get(program.url + "/metrics", headers=basic("admin", password))[0] == 200, "with it")
        check(http_get(program.url + "/metrics", headers=basic("admin", password + "x"))[0] == 401, "with another")
    ask = Asker(server.url, basic("admin", password))

    jobs = {"agent", "pyrrha", "pyrrha-example/shop"}
    wait_until("targets of all jobs are up", lambda: {t["scrapePool"] for t in ask.targets() if t["health"] == "up"} >= jobs, 90)
    instances = {t["labels"]["instance"] for t in ask.targets() if t["scrapePool"] == "agent"}
    check(instances == {"node-1"}, f"the agent's instance is its node: {instances}")
    wait_until("the application's own profile", lambda: ask.value('count(cpu{job="pyrrha-example/shop",node="node-1"})'), 60)
    whole = 'on_cpu{namespace="pyrrha-example",pod="shop-5d9f-abcde",container="shop",app="shop",comm="echoserver"}'
    wait_until("the agent's, with the pod's labels", lambda: ask.value(f"count({whole})"), 90)
    metrics = http_get(agent.url + "/metrics", headers=basic("admin", password))[2].decode()
    check(re.search(r"^pyrrha_agent_kubernetes_problems_total 0$", metrics, re.M), "the agent may all it needs")
    metrics = http_get(server.url + "/metrics", headers=basic("admin", password))[2].decode()
    failing = re.findall(r"^pyrrha_(?:sd_failed_configs|scrape_objects_sources_failing|scrape_objects_bad)\b\S* (\S+)$", metrics, re.M)
    check(len(failing) >= 3 and set(failing) == {"0"}, f"the server may all it needs: {failing}")
    down = [t for t in ask.targets() if t["health"] == "down"]
    check(not down, f"{down}")
    for program in (agent, server):
        bad = [line for line in program.text().splitlines() if re.search(r"level=(warn|error)|Forbidden|HTTP 40[13]", line) and not re.search(
            "without tls_server_config|a login failed", line)]
        check(not bad, "\n".join(bad[:5]))
    another_login(agent, server, ask)


def data_of(docs):
    return {d["metadata"]["namespace"]: d["data"] for d in docs if d["kind"] == "Secret"}


def another_login(agent, server, ask):
    """make-secret again: everybody takes it without a restart."""
    login, old = make_secret(), ask.headers
    new = basic("admin", re.search(r"password: (\S+)", login.stderr)[1])
    for namespace, program in (("pyrrha-agent", agent), ("pyrrha", server)):
        program.log_in_by(data_of(kubernetes.load(login.stdout))[namespace])
        wait_until("the new password", lambda program=program: http_get(program.url + "/metrics", headers=new)[0] == 200, 40)
        check(http_get(program.url + "/metrics", headers=old)[0] == 401, "the old one is good no more")
    ask.headers, begin = new, time.time()

    def scraped():
        rows = [t for t in ask.targets() if t["scrapePool"] in ("agent", "pyrrha") and t["health"] != "unknown"]
        return rows and all(t["health"] == "up" and datetime.datetime.fromisoformat(t["lastScrape"].replace("Z", "+00:00")).timestamp() > begin for t in rows)
    wait_until("targets are scraped with the new token", scraped, 60)


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Asker:
    """The API of a server behind a login."""

    def __init__(self, url, headers):
        self.url, self.headers = url, headers

    def get(self, path, query=""):
        status, _, body = http_get(f"{self.url}/api/v1/{path}" + ("?query=" + urllib.parse.quote(query) if query else ""), headers=self.headers)
        check(status == 200, f"{path} {query}: {status} {body[:300]}")
        return json.loads(body)["data"]

    def targets(self):
        return self.get("targets")["activeTargets"]

    def value(self, query):
        found = self.get("query", query)["result"]
        return float(found[0]["value"][1]) if found else None
