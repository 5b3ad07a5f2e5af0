# SPDX-License-Identifier: Apache-2.0
"""deploy/compose.yml: docker-compose takes it, and what it starts works, run by runc: the login is made, nobody gets in without it, and
the server has profiles of the demo. Needs root, eBPF, buildah and runc for the latter, no daemon."""
import base64
import json
import os
import re
import shutil
import urllib.parse

import pod
from harness import Skip, TOP, check, run, slow, wait_until
from oci import image
from pod import Network, Pod, host_folder
from test_agent import start_agent

FILE = os.path.join(TOP, "deploy", "compose.yml")
PORTS = {"server": 7070, "agent": 7071}


def services():
    if pod.yaml is None:
        raise Skip("python3-yaml is not installed")
    with open(FILE) as f:
        return pod.yaml.safe_load(f)


def test_docker_compose_takes_it(env):
    if not shutil.which("docker-compose"):
        raise Skip("no docker-compose")
    code, said = run(["docker-compose", "-f", FILE, "config"])
    check(code == 0 and set(pod.yaml.safe_load(said)["services"]) == {"login", "server", "agent", "demo"}, said)


def test_nothing_is_open(env):
    """No password stands anywhere, no port is open to others, no container can do more than it has to."""
    config = services()
    for path in (FILE, os.path.join(TOP, "deploy", "compose", "pyrrha.yml")):
        with open(path) as f:
            text = re.sub(r"#.*", "", f.read())
        check(not re.search(r"password|\$2[aby]\$|allow-insecure|privileged: true", text), f"{path} has a login of its own")
    for name, s in config["services"].items():
        check(s["read_only"] and s["cap_drop"] == ["ALL"] and "no-new-privileges:true" in s["security_opt"], f"{name}: {s}")
        check(all(p.startswith("127.0.0.1:") for p in s.get("ports", ())), f"{name}: {s.get('ports')}")
        check("cap_add" not in s or name == "agent", f"{name}: {s.get('cap_add')}")
        check(s["pull_policy"] == "never", f"{name}: a missing image is asked of whoever answers at http://localhost/v2/")
    for name in PORTS:
        s = config["services"][name]
        check("--web.config.file=/etc/pyrrha-web/web.yml" in s["command"], f"{name}: {s['command']}")
        check(s["depends_on"]["login"]["condition"] == "service_completed_successfully", f"{name} does not wait for the login")


class Compose:
    """What docker would make of the file: volumes that all share, a network in which all find each other, a pod of each service."""

    def __init__(self, env):
        self.env, self.config, self.network, self.roots = env, services(), Network(env), {}

    def volume(self, text, root):
        """(path, read only). A new volume gets its owner from the image."""
        source, inside, *options = text.split(":")
        if source[0] in "./":
            path = host_folder(self.env, os.path.normpath(os.path.join(TOP, "deploy", source)))
        else:
            path = self.env.path("volume-" + source)
            if not os.path.exists(path):
                os.makedirs(path)
                owner = os.stat(root + inside) if os.path.exists(root + inside) else os.stat("/")
                os.chown(path, owner.st_uid, owner.st_gid)
        return path, "ro" in options

    def pod(self, name):
        s, kinds = self.config["services"][name], {"login": "server"}
        kind = kinds.get(name, name)
        made = image(self.env, kind)
        if kind not in self.roots:
            self.roots[kind] = made.unpack(self.env, "root-" + kind)
        volumes, mounts = {}, []
        for i, text in enumerate(s.get("volumes", ())):
            volumes[f"v{i}"], read_only = self.volume(text, self.roots[kind])
            mounts.append({"name": f"v{i}", "mountPath": text.split(":")[1], "readOnly": read_only})
        seccomp = "Unconfined" if "seccomp:unconfined" in s["security_opt"] else "RuntimeDefault"
        command = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", a) for a in s.get("command", ())]
        container = {"image": s["image"], "args": command, "volumeMounts": mounts, "securityContext": {
            "readOnlyRootFilesystem": s["read_only"], "allowPrivilegeEscalation": "no-new-privileges:true" not in s["security_opt"],
            "capabilities": {"drop": s["cap_drop"], "add": s.get("cap_add", [])}, "seccompProfile": {"type": seccomp}}}
        if "entrypoint" in s:
            container["command"] = s["entrypoint"]
        if name in PORTS:
            container["ports"] = [{"name": "http", "containerPort": PORTS[name]}]
            container["readinessProbe"] = {"httpGet": {"path": "/-/ready", "port": "http", "scheme": "HTTP"}}
        spec = {"containers": [container], "hostPID": s.get("pid") == "host", "terminationGracePeriodSeconds": 30}
        workload = {"metadata": {"namespace": "compose", "name": name}, "spec": {"template": {"spec": spec}}}
        return Pod(self.env, workload, made, self.roots[kind], self.network, volumes=volumes)


@slow
def test_first_start(env):
    """docker compose up -d, the password from the log, and profiles of the demo; at the second start the login stays."""
    start_agent(env)  # the rights to run at all
    env.agent.kill()
    c = Compose(env)
    for again in (False, True):
        login = c.pod("login").start()
        check(login.process.p.wait(240) == 0, login.process.text())
        check(("password: " not in login.process.text().splitlines()[-1]) == again, login.process.text())
    user, password = re.search(r"login: (\S+)  password: (\S+)", login.process.text()).groups()
    for name in ("demo", "agent"):
        c.pod(name).start()
    server = c.pod("server").start()
    basic = {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
    for url in (server.url + "/api/v1/targets", "http://127.0.0.1:7071/debug/pprof/"):
        for headers, status in ((None, 401), ({"Authorization": "Basic " + base64.b64encode(b"admin:admin").decode()}, 401), (basic, 200)):
            check(c.network.get(url, headers)[0] == status, f"{url} {headers} is not {status}")

    def ask(query):
        status, _, body = c.network.get(server.url + "/api/v1/query?" + urllib.parse.urlencode({"query": query}), basic)
        check(status == 200, f"{status} {body}")
        return json.loads(body)["data"]["result"]
    for query in ('up == 1 and up{job="demo"}', 'up == 1 and up{job="agent"}', 'up == 1 and up{job="pyrrha"}', 'heap_inuse_space{job="demo"}'):
        wait_until(query, lambda: ask(query), 240)
    server.stop()
