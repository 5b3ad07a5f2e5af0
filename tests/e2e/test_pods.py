# SPDX-License-Identifier: Apache-2.0
"""The images, run as the manifests of deploy/kubernetes say, without a cluster: by runc, with their capabilities, mounts, limits and
login. The agent names the functions of a program, the server keeps its data over a restart. Needs root, eBPF, buildah and runc."""
import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse

import pod
from harness import Process, Skip, TOP, check, slow, wait_until
from oci import image
from pod import Network, Pod, find, manifests
from test_agent import C_FIXTURE, c_program, start_agent


def login(env):
    """(objects of make-secret, the password that it told)"""
    p = subprocess.run([os.path.join(TOP, "deploy", "kubernetes", "make-secret")], capture_output=True, text=True)
    if p.returncode and "no tool for bcrypt" in p.stderr:
        raise Skip(p.stderr)
    check(p.returncode == 0, p.stderr)
    return [d for d in pod.yaml.safe_load_all(p.stdout) if d], p.stderr.split("password: ")[1].split()[0]


def without_a_cluster(config_map):
    """The same configuration with the discovery replaced: the agents' job has the one that it would find, with its labels."""
    config = pod.yaml.safe_load(config_map["data"]["pyrrha.yml"])
    config["global"]["scrape_interval"] = "2s"
    config.pop("kubernetes_scrape_configs")
    job = next(j for j in config["scrape_configs"] if "kubernetes_sd_configs" in j)
    job.pop("kubernetes_sd_configs")
    meta = {"pod_container_port_name": "http", "pod_phase": "Running", "pod_node_name": "node-1"}
    job["static_configs"] = [{"targets": ["127.0.0.1:7071"], "labels": {"__meta_kubernetes_" + k: v for k, v in meta.items()}}]
    return {**config_map, "data": {"pyrrha.yml": pod.yaml.safe_dump(config)}}


def capability_bits(names):
    with open("/usr/include/linux/capability.h") as f:
        number = {line.split()[1]: int(line.split()[2]) for line in f if line.startswith("#define CAP_") and line.split()[2:3] and line.split()[2].isdigit()}
    return sum(1 << number[n] for n in names)


class Cluster:
    """What the test has in the place of one: the objects, the images, a network, the login."""

    def __init__(self, env):
        self.env, self.network = env, Network(env)
        self.documents = manifests("server.yml", "agent.yml")
        secrets, self.password = login(env)
        self.documents = [without_a_cluster(d) if d["kind"] == "ConfigMap" and d["metadata"]["name"] == "pyrrha" else d for d in self.documents]
        self.objects = self.documents + secrets

    def pod(self, kind, name, image_kind, under=Pod, **values):
        workload = find(self.documents, kind, name)
        namespace = workload["metadata"]["namespace"]
        made = image(self.env, image_kind)
        root = made.unpack(self.env, "root-" + image_kind)
        return under(self.env, workload, made, root, self.network, [o for o in self.objects if o["metadata"].get("namespace") == namespace], values)


def check_rights(p, uid, seccomp):
    """What the kernel says of the process: who it is, its capabilities, and that it cannot get more."""
    status = p.status()
    wanted = capability_bits(p.config()["process"]["capabilities"]["effective"])
    check(status["Uid"].split()[0] == str(uid), f"{p.name}: {status['Uid']}")
    check(int(status["CapEff"], 16) == wanted and int(status["CapBnd"], 16) & ~wanted == 0, f"{p.name}: {status['CapEff']} {status['CapBnd']}, not {wanted:x}")
    check(status["NoNewPrivs"] == "1" and status["Seccomp"] == seccomp, f"{p.name}: {status['NoNewPrivs']} {status['Seccomp']}")
    with open(f"/proc/{p.pid()}/mountinfo") as f:
        rows = [line.split() for line in f]
    writable = {r[4] for r in rows if "rw" in r[5].split(",") and not r[4].startswith(("/proc", "/dev", "/sys"))}
    mounted = {m["mountPath"] for m in p.container["volumeMounts"] if not m.get("readOnly")}
    check(writable == mounted, f"{p.name} can write to {writable}, the manifest says {mounted}")


@slow
def test_as_in_a_cluster(env):
    start_agent(env)  # the rights to run at all
    env.agent.kill()
    c = Cluster(env)
    agent = c.pod("DaemonSet", "pyrrha-agent", "agent", **{"spec.nodeName": "node-1"}).start()
    server = c.pod("StatefulSet", "pyrrha", "server").start()
    check_rights(agent, 0, "0")
    check_rights(server, 65532, "2")
    Process(env, "fixture", [c_program(env, "pod_fixture", C_FIXTURE)])

    basic = {"Authorization": "Basic " + base64.b64encode(f"admin:{c.password}".encode()).decode()}

    def folded(**more):
        query = {"query": 'merge(on_cpu{comm="pod_fixture",instance="node-1"}[10m])', "format": "folded", **more}
        status, _, body = c.network.get(server.url + "/api/v1/query?" + urllib.parse.urlencode(query), basic)
        check(status == 200, f"{status} {body}")
        return body.decode()

    for url in (server.url + "/api/v1/targets", agent.url + "/debug/pprof/profile?seconds=1"):
        check(c.network.get(url)[0] == 401, f"{url} asks for no login")
    check(c.network.get(agent.url + "/metrics", basic)[0] == 200, "people log in to the agent, too")
    wait_until("the server has the fixture's stacks", lambda: "main;agent_middle;agent_leaf" in folded(), 240)
    agent.stop()
    time.sleep(0.5)
    moment = time.time()
    before = folded(time=moment)
    server.stop()
    left = sorted(os.listdir(server.rootfs))
    server.start()
    check(folded(time=moment) == before, "the server's data is another after its restart")
    check(sorted(os.listdir(server.rootfs)) == left, "something was written to the image")
    server.stop()


def filter_of_unit(name):
    """The system calls that a unit's SystemCallFilter allows, as a seccomp profile."""
    if not shutil.which("systemd-analyze"):
        raise Skip("no systemd-analyze")

    def calls(group):
        said = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True).stdout
        names = [line.split("#")[0].strip() for line in said.splitlines()[1:]]
        return {c for n in names if n for c in (calls(n) if n[0] == "@" else {n})}
    with open(os.path.join(TOP, "deploy", name)) as f:
        rows = re.findall(r"^SystemCallFilter=(~?)(.*)$", f.read(), re.M)
    allowed = calls("@default")
    for minus, groups in rows:
        named = {c for g in groups.split() for c in calls(g)}
        allowed = allowed - named if minus else allowed | named
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [{"names": sorted(allowed | {"execve"}), "action": "SCMP_ACT_ALLOW"}]}


class UnderUnit(Pod):
    """The server's pod with the system calls of its systemd unit."""

    def config(self):
        config = super().config()
        config["linux"]["seccomp"] = filter_of_unit("pyrrha.service")
        return config


@slow
def test_calls_of_the_unit(env):
    """The server works, scrapes and stops with what its unit lets it call."""
    c = Cluster(env)
    server = c.pod("StatefulSet", "pyrrha", "server", under=UnderUnit).start()
    basic = {"Authorization": "Basic " + base64.b64encode(f"admin:{c.password}".encode()).decode()}
    url = server.url + "/api/v1/query?" + urllib.parse.urlencode({"query": 'up{job=~"pyr+ha"}'})
    wait_until("it scrapes itself", lambda: json.loads(c.network.get(url, basic)[2])["data"]["result"][0:1], 120)
    server.stop()
