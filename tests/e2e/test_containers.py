# SPDX-License-Identifier: Apache-2.0
"""Containers, started by the real runc, in control groups of the shapes that Docker, containerd and CRI-O make: the agent
tells whose CPU it is from outside. Needs root, eBPF and runc."""
import json
import os
import shutil
import subprocess
import uuid

from harness import Process, Server, Skip, check, need_a_mounted_root, slow, wait_until
from test_agent import C_FIXTURE, c_program, profile, start_agent, wait_for_share

# One of each run: other tests may have containers of their own at the same time.
ID = uuid.uuid4().hex * 2
POD = str(uuid.uuid4())


def shapes(container):
    return {
        "docker": f"/docker/{container}",
        "containerd": f"/kubepods/burstable/pod{POD}/{container}",
        "crio": f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-{container}.scope",
    }


class Container(Process):
    """One static program in a root of its own, under runc, in a control group of our choice."""

    def __init__(self, env, name, program, cgroup):
        if not shutil.which("runc"):
            raise Skip("no runc")
        need_a_mounted_root()
        self.id, bundle = f"pyrrha-{os.getpid()}-{name}", os.path.join(env.dir, "bundle-" + name)
        self.root = os.path.join(env.dir, "runc")
        os.makedirs(os.path.join(bundle, "rootfs", "proc"))
        os.makedirs(os.path.join(bundle, "rootfs", "tmp"))
        shutil.copy(program, os.path.join(bundle, "rootfs", "app"))
        config = {
            "ociVersion": "1.0.2",
            "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["/app"], "cwd": "/", "env": ["PATH=/"]},
            "root": {"path": "rootfs", "readonly": False},
            "hostname": name,
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"cgroupsPath": cgroup, "namespaces": [{"type": t} for t in ("pid", "mount", "uts", "ipc")]},
        }
        with open(os.path.join(bundle, "config.json"), "w") as f:
            json.dump(config, f)
        env.at_end(lambda: subprocess.run(["runc", "--root", self.root, "delete", "-f", self.id], capture_output=True))
        super().__init__(env, "runc-" + name, ["runc", "--root", self.root, "run", "-b", bundle, self.id])
        self.wait_running()

    def wait_running(self):
        def running():
            if not self.alive():
                return True
            said = subprocess.run(["runc", "--root", self.root, "state", self.id], capture_output=True, text=True)
            return said.returncode == 0 and json.loads(said.stdout)["status"] == "running"
        wait_until("runc runs the container", running, 30)
        if not self.alive():
            text = self.text()
            if "cgroup" in text or "permission" in text or "not permitted" in text:
                raise Skip("runc cannot run containers here: " + text[-300:])
            raise AssertionError("runc: " + text)


def test_runtimes(env):
    """Each shape of control group: stacks and container of a chrooted, pid-namespaced process."""
    agent = start_agent(env, only=["app"])
    for name, cgroup in shapes(ID).items():
        c = Container(env, name, c_program(env, "ctr_" + name, C_FIXTURE, "-static"), cgroup)
        wait_for_share(env, agent, f"stacks of {name}", f'{{container_id="{ID}"}}', 0.9, "^_start$", "^main$", "^agent_middle$", "^agent_leaf$")
        if name != "docker":
            wait_until(f"{name}: samples by pod_uid", lambda: profile(env, agent, 1, f'{{pod_uid="{POD}"}}')[0], 60)
        subprocess.run(["runc", "--root", c.root, "delete", "-f", c.id], capture_output=True)
        c.kill()


@slow
def test_container_label_wins(env):
    """on_cpu<container="…"> finds the container although the agent's own target has a container label, too."""
    agent = start_agent(env, only=["app"])
    container = uuid.uuid4().hex * 2
    Container(env, "echo", c_program(env, "ctr_echo", C_FIXTURE, "-static"), shapes(container)["docker"])
    server = Server(env, f"""
global: {{scrape_interval: 2s, scrape_timeout: 60s}}
scrape_configs:
  - job_name: agent
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}'], labels: {{container: "agent"}}}}]
""")
    query = f'on_cpu<container="{container[:12]}">'
    wait_until("the container's series", lambda: server.query(query)["result"], 120)
    text = server.get("/api/v1/query", format="folded", query=f"merge({query[:-1]}>[1m])").decode()
    check("main;agent_middle;agent_leaf" in text, text[:500])
