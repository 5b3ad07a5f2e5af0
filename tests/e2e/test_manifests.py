# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes, without a cluster: against the schemas of Kubernetes, against each other, and against the programs
and their budgets. In a real API server: test_manifests_real.py."""
import base64
import copy
import functools
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

from harness import TOP, Skip, check

sys.path.insert(0, os.path.join(TOP, "tests", "kubernetes"))
try:
    import schema as kubernetes
except ImportError:
    kubernetes = None

DIR = os.path.join(TOP, "deploy", "kubernetes")
FILES = ["server.yml", "agent.yml", "crds.yml", "example/shop.yml"]
UNITS = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "KiB": 1 / 1024, "MiB": 1, "GiB": 1024}


@functools.lru_cache(maxsize=None)
def documents(name):
    """Of a file; not to be changed."""
    if not kubernetes:
        raise Skip("python3-yaml is not installed")
    return kubernetes.load_file(os.path.join(DIR, name))


def everything():
    return [d for f in FILES for d in documents(f)]


def only(kind, name=None, of=None):
    found = [d for d in of or everything() if d["kind"] == kind and name in (None, d["metadata"]["name"])]
    check(len(found) == 1, f"{len(found)} of {kind} {name}")
    return found[0]


def schemas():
    s = kubernetes.Schemas()
    s.add_crd(only("CustomResourceDefinition"))
    return s


def workloads():
    return [d for d in everything() if "template" in d.get("spec", {})]


def container(d):
    return d["spec"]["template"]["spec"]["containers"][0]


def mib(text):
    number, unit = re.match(r"([0-9.]+)([A-Za-z]*)\Z", text).groups()
    return float(number) * UNITS[unit]


def make_secret(*args, stdin="", **env):
    return subprocess.run([os.path.join(DIR, "make-secret"), *args], input=stdin, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **env})


def test_schema(env):
    """Nothing that a server with fieldValidation=Strict would have to say."""
    found = [os.path.relpath(p, DIR) for p in glob.glob(os.path.join(DIR, "**", "*.y*ml"), recursive=True)]
    check(sorted(found) == sorted(FILES), "all manifests are looked at")
    all_of = schemas()
    wrong = [f"{f}: {p}" for f in FILES for d in documents(f) for p in all_of.problems(d)]
    check(not wrong, "\n".join(wrong))
    for v in only("CustomResourceDefinition")["spec"]["versions"]:
        wrong = list(kubernetes.structural(v["schema"]["openAPIV3Schema"]))
        check(not wrong, "\n".join(wrong))
    secret = make_secret()
    check(secret.returncode == 0, secret.stderr)
    wrong = [p for d in kubernetes.load(secret.stdout) for p in all_of.problems(d)]
    check(not wrong, "\n".join(wrong))


def broken(d, path, value):
    """A copy with another value there; None takes it away."""
    d = copy.deepcopy(d)
    at = d
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return d


def test_schema_sees_what_is_wrong(env):
    """Each of these is an error to a real server, too: test_manifests_real.py asks it."""
    all_of = schemas()
    for what, d in mistakes():
        check(all_of.problems(d), f"{what} is not seen")
    for text in ("a: 1\na: 2\n", "spec: {x: 1, x: 1}\n"):
        try:
            kubernetes.load(text)
        except kubernetes.yaml.YAMLError:
            continue
        raise AssertionError(f"a key twice is not seen: {text!r}")


def mistakes():
    server, agent, service, pod = only("StatefulSet"), only("DaemonSet"), only("Service"), ("spec", "template", "spec")
    first = (*pod, "containers", 0)
    example = only("ProfileScrapeConfig")
    return [
        ("an unknown field", broken(server, (*first, "imagePolicy"), "Always")),
        ("an unknown field at the top", broken(server, ("specs",), {})),
        ("an unknown field of a probe", broken(server, (*first, "livenessProbe", "httpGet", "uri"), "/")),
        ("a missing field", broken(agent, ("spec", "selector"), None)),
        ("a missing name of a container", broken(agent, (*first, "name"), None)),
        ("a number for a text", broken(server, (*first, "image"), 5)),
        ("a text for a number", broken(server, ("spec", "replicas"), "one")),
        ("a text for a bool", broken(agent, (*pod, "hostPID"), "true")),
        ("an object for a list", broken(agent, (*first, "args"), {"a": "b"})),
        ("a bad enum", broken(server, (*first, "imagePullPolicy"), "Sometimes")),
        ("a bad enum of AppArmor", broken(agent, (*first, "securityContext", "appArmorProfile", "type"), "Off")),
        ("a bad quantity", broken(agent, (*first, "resources", "limits", "memory"), "384 MB")),
        ("a port too large for its type", broken(service, ("spec", "ports", 0, "port"), 1 << 40)),
        ("a kind that does not exist", broken(server, ("kind",), "StatefulSets")),
        ("a version that does not exist", broken(server, ("apiVersion",), "apps/v1beta2")),
        ("no namespace", broken(agent, ("metadata", "namespace"), None)),
        ("a bad name", broken(agent, ("metadata", "name"), "Pyrrha Agent")),
        ("labels that are no texts", broken(agent, ("metadata", "labels", "n"), 1)),
        ("an unknown field of ours", broken(example, ("spec", "scrapeConfig", "portName"), "http")),
        ("a bad interval of ours", broken(example, ("spec", "scrapeConfig", "interval"), "soon")),
        ("a bad scheme of ours", broken(example, ("spec", "scrapeConfig", "scheme"), "ftp")),
        ("a port of ours out of range", broken(example, ("spec", "scrapeConfig", "portNumber"), 70000)),
        ("a missing selector of ours", broken(example, ("spec", "selector"), None)),
        ("an unknown field of a CRD's schema", broken(only("CustomResourceDefinition"), (
            "spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "propertys"), {})),
    ]


def test_files_apply_in_any_order(env):
    """No file needs another one before it: each that puts something into a namespace makes it first, and no two share one."""
    owner = {}
    for f in FILES:
        made = set()
        for d in documents(f):
            if d["kind"] == "Namespace":
                made.add(d["metadata"]["name"])
                check(owner.setdefault(d["metadata"]["name"], f) == f, f"two files make {d['metadata']['name']}: deleting one deletes the other's")
                for mode in ("enforce", "warn", "audit"):
                    check(f"pod-security.kubernetes.io/{mode}" in d["metadata"]["labels"], f"{f}: {mode}")
            elif "namespace" in d["metadata"]:
                check(d["metadata"]["namespace"] in made, f"{f}: {d['kind']} before its namespace")
            check("/" in f or not d["apiVersion"].startswith("pyrrha.dev"), f"{f}: an object of our kind, which has to be known before")
    # The Secret may come first, and must not take labels off the namespaces.
    out = kubernetes.load(make_secret().stdout)
    for d in out:
        if d["kind"] == "Namespace":
            check(d == only("Namespace", d["metadata"]["name"]), f"{d} is the same in both")
    check([d["kind"] for d in out] == ["Namespace", "Secret"] * 2, str([d["kind"] for d in out]))


def test_references(env):
    """What an object names is there: accounts, roles, volumes, ports, labels."""
    docs = everything() + kubernetes.load(make_secret().stdout)
    there = {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in docs}
    with open(os.path.join(TOP, "configure.ac"), encoding="utf-8") as f:
        version = re.search(r"AC_INIT\(\[pyrrha\], \[([^]]+)\]", f.read())[1]
    for d in workloads():
        where, spec, c = d["metadata"]["namespace"], d["spec"]["template"]["spec"], container(d)
        labels = d["spec"]["template"]["metadata"]["labels"]
        check(d["spec"]["selector"]["matchLabels"].items() <= labels.items(), f"{where}: selector")
        account = spec.get("serviceAccountName")
        check(("ServiceAccount", where, account) in there if account else spec["automountServiceAccountToken"] is False, f"{where}: {account}")
        volumes = {v["name"]: v for v in spec.get("volumes", ())}
        names = set(volumes) | {v["metadata"]["name"] for v in d["spec"].get("volumeClaimTemplates", ())}
        check(names == {m["name"] for m in c.get("volumeMounts", ())}, f"{where}: volumes and mounts")
        for v in volumes.values():
            check("configMap" not in v or v["configMap"].get("optional") or ("ConfigMap", where, v["configMap"]["name"]) in there, str(v))
            check("secret" not in v or ("Secret", where, v["secret"]["secretName"]) in there, str(v))
            for item in v.get("secret", {}).get("items", ()):
                check(item["key"] in only("Secret", of=[x for x in docs if x["metadata"].get("namespace") == where])["data"], str(item))
        ports = {p["name"] for p in c["ports"]}
        for probe in ("readinessProbe", "livenessProbe"):
            check(probe not in c or c[probe]["httpGet"]["port"] in ports, f"{where}: {probe}")
        # Without Never the kubelet asks whoever answers at http://localhost/v2/ for an image that is not on the node.
        check(c["imagePullPolicy"] == "Never" and c["image"].startswith("localhost/") and c["image"].endswith(":" + version), c["image"])
        check(spec["nodeSelector"] == {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}, f"{where}: {spec['nodeSelector']}")
        if "priorityClassName" in spec:
            check(("PriorityClass", None, spec["priorityClassName"]) in there, spec["priorityClassName"])
    for d in docs:
        if d["kind"] == "ClusterRoleBinding":
            check(("ClusterRole", None, d["roleRef"]["name"]) in there, str(d))
            check(all((s["kind"], s["namespace"], s["name"]) in there for s in d["subjects"]), str(d))
        if d["kind"] in ("Service", "NetworkPolicy"):
            wanted = d["spec"].get("selector") or d["spec"]["podSelector"]["matchLabels"]
            check(any(wanted.items() <= w["spec"]["template"]["metadata"]["labels"].items() and w["metadata"]["namespace"] ==
                      d["metadata"]["namespace"] for w in workloads()), f"{d['kind']} {d['metadata']['name']} selects nobody")
    check(only("StatefulSet")["spec"]["serviceName"] == only("Service")["metadata"]["name"], "serviceName")


def test_with_a_registry(env):
    """The kustomization of docs/kubernetes.md: images of a registry, which the kubelet may pull, and nothing else is changed."""
    if not shutil.which("kubectl") or not kubernetes:
        raise Skip("no kubectl, or no python3-yaml")
    with open(os.path.join(TOP, "docs", "kubernetes.md"), encoding="utf-8") as f:
        text = re.search(r"```yaml\n(# kustomization\.yaml .*?)```", f.read(), re.S)[1]
    folder = env.path("registry")
    os.makedirs(folder)
    env.path("registry/kustomization.yaml", text)
    files = FILES[:3]
    for f in files:
        shutil.copy(os.path.join(DIR, f), folder)
    out = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60)
    check(out.returncode == 0 and not out.stderr, out.stderr)
    made = {(d["kind"], d["metadata"]["name"]): d for d in kubernetes.load(out.stdout)}
    wanted = {(d["kind"], d["metadata"]["name"]): copy.deepcopy(d) for f in files for d in documents(f)}
    for d in wanted.values():
        if "template" in d.get("spec", {}):
            container(d)["image"] = container(d)["image"].replace("localhost/", "registry.example.com/")
            container(d)["imagePullPolicy"] = "IfNotPresent"
    for name in wanted.keys() | made.keys():
        check(made.get(name) == wanted.get(name), f"{name}: {made.get(name)}, not {wanted.get(name)}")


def test_rights(env):
    """Discovery lists and watches, and nothing else is allowed to our programs."""
    for d in everything():
        if d["kind"] == "ClusterRole" and not d["metadata"]["name"].startswith("pyrrha-scrape-objects-"):
            for rule in d["rules"]:
                check(rule["verbs"] == ["list", "watch"] and "*" not in rule["resources"] + rule["apiGroups"], f"{d['metadata']['name']}: {rule}")
                check(set(rule["resources"]) <= {"pods", "nodes", "profilescrapeconfigs", "parcascrapeconfigs"}, str(rule))
    for d in workloads():
        c = container(d)["securityContext"]
        check(c["readOnlyRootFilesystem"] and not c["allowPrivilegeEscalation"] and c["capabilities"]["drop"] == ["ALL"], d["metadata"]["name"])
    c = container(only("DaemonSet"))["securityContext"]
    with open(os.path.join(TOP, "deploy", "pyrrha-agent.service"), encoding="utf-8") as f:
        unit = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.M)[1].replace("CAP_", "").split()
    check(c["capabilities"]["add"] == unit, "the capabilities are those of the systemd unit")


def define(name, file):
    """A constant of the agent's sources, in MiB."""
    for path in glob.glob(os.path.join(TOP, "*", file)) + glob.glob(os.path.join(TOP, "*", "*", file)):
        with open(path, encoding="utf-8") as f:
            m = re.search(rf"^#define {name} \D*(\d+)u?\)?(?: << (\d+))?", re.sub(r"\((u?int64_t|size_t|rlim_t)\)", "", f.read()), re.M)
        if m:
            return (int(m[1]) << int(m[2] or 0)) / (1 << 20)
    raise AssertionError(f"no {name} in {file}")


def test_agent_limits(env):
    """The limits are the sums that the comment does, and those of what the sources allow."""
    daemon = only("DaemonSet")
    limits = {k: mib(v) for k, v in container(daemon)["resources"]["limits"].items() if k != "cpu"}
    with open(os.path.join(DIR, "agent.yml"), encoding="utf-8") as f:
        text = f.read()
    parts = [int(n) for n in re.findall(r"^ +# {5}(\d+)  ", text, re.M)]
    total, limit, rest = (int(n) for n in re.search(r"# +=\s(\d+), so (\d+) leaves (\d+)", text).groups())
    check(sum(parts) == total and total + rest == limit == limits["memory"], f"{parts} = {total}; {limit}, {limits}")
    names, events, symbols = define("STRINGS_BYTES_MAX", "symbolize.c"), define("ARENA_MAX", "perf_events.c"), define("SYMBOLS_MAX", "symtab_writer.c")
    check([parts[1], parts[2], parts[4]] == [names, events, define("HELPER_MEMORY", "dwarf_index.c")], f"{parts}")
    check(60 < symbols * 16 * 2 <= parts[3], f"{symbols}")
    with open(os.path.join(TOP, "deploy", "pyrrha-agent.service"), encoding="utf-8") as f:
        check(f"MemoryMax={limit}M\n" in f.read(), "the systemd unit has the same limit")
    volumes = {v["name"]: v for v in daemon["spec"]["template"]["spec"]["volumes"]}
    size = {n: mib(volumes[n]["emptyDir"]["sizeLimit"]) for n in ("cache", "tmp")}
    check(not any("medium" in volumes[n]["emptyDir"] for n in size), "on disk")
    check(size["cache"] >= define("CACHE_BYTES_MAX", "debug_reader.c") + 256, str(size))
    check(size["tmp"] >= define("TABLES_BYTES_MAX", "symbolize.c") + define("PERFMAPS_COPIES_MAX", "perfmaps.c") + 1024, str(size))
    check(limits["ephemeral-storage"] >= sum(size.values()) + 64, f"{limits}, {size}")
    mounts = {m["name"]: m["mountPath"] for m in container(daemon)["volumeMounts"]}
    check({"name": "TMPDIR", "value": mounts["tmp"]} in container(daemon)["env"], "TMPDIR")
    check(f"--cache-dir={mounts['cache']}" in container(daemon)["args"], "--cache-dir")


def help_of(env, program, *flags):
    return subprocess.run([env.program(program), *flags, "--help"], capture_output=True, text=True, timeout=30, check=True).stdout


def test_server_limits(env):
    """The server's budgets are half of its limit of memory, and the comment has their sum."""
    c = container(only("StatefulSet"))
    given = dict(a[2:].split("=", 1) for a in c["args"] if "=" in a)
    limit = mib(c["resources"]["limits"]["memory"])
    flags = ["--%s=%s" % g for g in given.items() if g[0] == "memory" or g[0].endswith(("-memory", ".memory"))]
    help_text = help_of(env, "pyrrha", *flags, *([] if "memory" in given else [f"--memory={limit // 2:.0f}MiB"]))
    budgets = dict(re.findall(r"^  --(\S*-memory|scrape\.memory|query\.memory)=<size>  \(default ([0-9.]+[KMG]iB)\)", help_text, re.M))
    check(len(budgets) >= 7, str(budgets))
    total = sum(mib(given.get(name, default)) for name, default in budgets.items())
    check(total + 400 <= limit and total <= limit / 2, f"{total} MiB and the program, of {limit}")
    with open(os.path.join(DIR, "server.yml"), encoding="utf-8") as f:
        check(f": {total:.0f}." in f.read(), f"the comment says {total:.0f}")
    claim = only("StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
    check(mib(given["storage.tsdb.retention.size"]) <= 0.75 * mib(claim), claim)


def test_flags(env):
    """The programs know the flags, and read a changed ConfigMap."""
    for kind, program in (("StatefulSet", "pyrrha"), ("DaemonSet", "pyrrha-agent")):
        c, text = container(only(kind)), help_of(env, program)
        for arg in c["args"]:
            check(re.search(rf"^  {re.escape(arg.split('=')[0])}\b(?![-.])", text, re.M), f"{program} does not know {arg}")
        port = c["ports"][0]["containerPort"]
        check(f"--web.listen-address=:{port}" in c["args"] and "--config.auto-reload" in c["args"], str(c["args"]))
        check("--web.config.file=/etc/pyrrha-web/web.yml" in c["args"] and "--web.allow-insecure" not in c["args"], str(c["args"]))
        check(not any("subPath" in m for m in c["volumeMounts"]), "a subPath is never swapped")


def test_configuration(env):
    """pyrtool takes the server's file."""
    token = env.path("token", "x")
    text = only("ConfigMap", "pyrrha")["data"]["pyrrha.yml"].replace("/etc/pyrrha-web/token", token)
    out = subprocess.run([env.program("pyrtool"), "check", "config", env.path("pyrrha.yml", text)], capture_output=True, text=True, timeout=30)
    check(out.returncode == 0 and "warning" not in out.stdout + out.stderr, out.stdout + out.stderr)


def test_make_secret(env):
    """Each time another login; the hash is that of the password, the token's that of the token; no tool, no Secret."""
    def look(out):
        secrets = {d["metadata"]["namespace"]: {k: base64.b64decode(v).decode() for k, v in d["data"].items()}
                   for d in kubernetes.load(out.stdout) if d["kind"] == "Secret"}
        check(secrets["pyrrha"]["web.yml"] == secrets["pyrrha-agent"]["web.yml"], "both are the same")
        check(list(secrets["pyrrha-agent"]) == ["web.yml"], "the agents do not have the token")
        return kubernetes.load(secrets["pyrrha"]["web.yml"])[0], secrets["pyrrha"]["token"]

    if not kubernetes:
        raise Skip("python3-yaml is not installed")
    seen = set()
    for _ in range(2):
        out = make_secret()
        check(out.returncode == 0, out.stderr)
        password = re.search(r"login: admin  password: (\S+)", out.stderr)[1]
        web, token = look(out)
        check(password not in out.stdout and len(password) >= 22 and len(token) >= 43, "long, and not in the Secret")
        seen |= {password, token, web["basic_auth_users"]["admin"], web["tokens"][0]["sha256"]}
        check(web["tokens"][0] == {"name": "pyrrha", "rights": ["read"], "sha256": sha256(token)}, str(web))
        check_bcrypt(password, web["basic_auth_users"]["admin"])
        text = only("Secret", of=[d for d in kubernetes.load(out.stdout) if d["metadata"].get("namespace") == "pyrrha-agent"])["data"]["web.yml"]
        said = subprocess.run([env.program("pyrtool"), "check", "web-config", env.path("web.yml", base64.b64decode(text))], capture_output=True,
                              text=True, timeout=30)
        check(said.returncode == 0, said.stdout + said.stderr)
    check(len(seen) == 8, "nothing is the same twice")
    path = env.build + os.pathsep + os.environ["PATH"]
    for tool in ("htpasswd", "python3", "perl", "mkpasswd", "pyrtool"):
        out = make_secret("--user", "alice", "--password-stdin", stdin="it's $a \"long\" one\\\n", PYRRHA_BCRYPT_TOOLS=tool, PATH=path)
        check(out.returncode == 0 or tool != "pyrtool", out.stderr)
        if out.returncode == 0:
            check_bcrypt("it's $a \"long\" one\\", look(out)[0]["basic_auth_users"]["alice"])
            check("one" not in out.stdout + out.stderr, "the password is not shown")
    for bad in (make_secret(PYRRHA_BCRYPT_TOOLS="none"), make_secret("--password-stdin", stdin="short\n"), make_secret("--password-stdin"),
                make_secret("--password-stdin", stdin="x" * 73 + "\n"), make_secret("--user", "a: b"), make_secret("--user", "-a"), make_secret("--users")):
        check(bad.returncode != 0 and not bad.stdout and bad.stderr, f"refused: {bad}")


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def check_bcrypt(password, stored):
    """By perl's crypt, which is that of libxcrypt; Python's goes away."""
    check(re.match(r"\$2[aby]\$10\$[./A-Za-z0-9]{53}\Z", stored), stored)
    out = subprocess.run(["perl", "-e", 'chomp(my @l = <STDIN>); print crypt($l[0], $l[1])'], input=f"{password}\n$2b{stored[3:]}\n",
                         capture_output=True, text=True, timeout=30)
    check(out.stdout[3:] == stored[3:], f"the hash is not that of the password: {out.stdout}")
