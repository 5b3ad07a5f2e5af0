# SPDX-License-Identifier: Apache-2.0
"""A pod of a Kubernetes manifest under runc: what a kubelet and containerd make of it (user, capabilities, mounts, limits, seccomp),
from the manifest itself, so that what is tested is what is deployed. Its network is a namespace with nothing but loopback."""
import base64
import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading

from harness import TOP, Process, Skip, check, http_get, need_a_mounted_root, wait_until

try:
    import yaml
except ImportError:
    yaml = None

# What containerd gives to a container that asks for nothing.
DEFAULT_CAPABILITIES = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL
AUDIT_WRITE""".split()
MASKED = """/proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats /proc/sched_debug
/proc/scsi /sys/firmware /sys/devices/virtual/powercap""".split()
READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()
HARD_NOFILE = min(524288, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
SECCOMP = "/usr/share/containers/seccomp.json"  # Debian's golang-github-containers-common, which buildah brings


def manifests(*names):
    """The documents of files in deploy/kubernetes."""
    if yaml is None:
        raise Skip("python3-yaml is not installed")
    documents = []
    for name in names:
        with open(os.path.join(TOP, "deploy", "kubernetes", name), encoding="utf-8") as f:
            documents += [d for d in yaml.safe_load_all(f) if d]
    return documents


def find(documents, kind, name, namespace=None):
    found = [d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name and
             (namespace is None or d["metadata"].get("namespace") == namespace)]
    check(len(found) == 1, f"{kind} {name}: {len(found)}")
    return found[0]


def quantity(text):
    m = re.fullmatch(r"(\d+)(Mi|Gi|Ki)?", str(text))
    return int(m.group(1)) * {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, None: 1}[m.group(2)]


def default_seccomp(capabilities):
    """The runtimes' default profile, for these capabilities."""
    if not os.path.exists(SECCOMP):
        raise Skip("no " + SECCOMP)
    with open(SECCOMP) as f:
        profile = json.load(f)
    rules = []
    for s in profile["syscalls"]:
        includes, excludes = s.get("includes") or {}, s.get("excludes") or {}
        if "arches" in includes and "amd64" not in includes["arches"]:
            continue
        if not all(c in capabilities for c in includes.get("caps", ())) or any(c in capabilities for c in excludes.get("caps", ())):
            continue
        rule = {"names": s["names"], "action": s["action"], "args": s.get("args") or []}
        if s.get("errnoRet") is not None:
            rule["errnoRet"] = s["errnoRet"]
        rules.append(rule)
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile["defaultErrnoRet"],
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "syscalls": rules}


def host_folder(env, path):
    """A folder of the host; if it has none of that name, another one, for nothing is left behind."""
    if not os.path.exists(path):
        path = env.path("host" + path.replace("/", "-"))
        os.makedirs(path, exist_ok=True)
    return path


class Network:
    """A network namespace with loopback alone, as the pods' own is beside a cluster's."""

    UP = ("import fcntl, socket, struct, time; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh22x', b'lo', 1)); "
          "print('up', flush=True); time.sleep(3600)")

    def __init__(self, env):
        if not shutil.which("unshare"):
            raise Skip("no unshare")
        self.holder = Process(env, "network", ["unshare", "-n", sys.executable, "-c", self.UP])
        wait_until("the network namespace has loopback", lambda: "up" in self.holder.text() or check(self.holder.alive(), self.holder.text()))
        self.path = f"/proc/{self.holder.p.pid}/ns/net"

    def get(self, url, headers=None, data=None):
        """http_get from in there: sockets belong to the namespace of the thread that makes them."""
        result = []

        def ask():
            with open(self.path) as f:
                check(ctypes.CDLL(None, use_errno=True).setns(f.fileno(), 0x40000000) == 0, "setns")
            try:
                result.append(http_get(url, data, headers))
            except OSError as e:
                result.append(e)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        if isinstance(result[0], OSError):
            raise result[0]
        return result[0]


class Pod:
    """The first container of a workload. values: what fields of the pod are, by path; objects: ConfigMaps and Secrets of its namespace;
    volumes: paths of those that are there already."""

    def __init__(self, env, workload, image, root, network, objects=(), values=None, volumes=()):
        if not shutil.which("runc"):
            raise Skip("no runc")
        need_a_mounted_root()
        self.env, self.network, self.objects = env, network, objects
        self.values = {"status.podIP": "127.0.0.1", **(values or {})}
        self.namespace, self.name = workload["metadata"]["namespace"], workload["metadata"]["name"]
        self.spec, self.claims = workload["spec"]["template"]["spec"], workload["spec"].get("volumeClaimTemplates", [])
        self.container, self.image, self.rootfs = self.spec["containers"][0], image, root
        check(self.container["image"] == image.tag, f"the manifest wants {self.container['image']}, deploy/image.sh made {image.tag}")
        self.id = f"pyrrha-{os.getpid()}-{self.name}"
        self.state, self.bundle = os.path.join(env.dir, "runc"), os.path.join(env.dir, "bundle-" + self.name)
        self.volumes = {**{v["name"]: self.volume(v) for v in self.spec.get("volumes", [])}, **dict(volumes)}
        for claim in self.claims:
            self.volumes[claim["metadata"]["name"]] = self.folder(claim["metadata"]["name"])
        self.process = None
        env.at_end(self.delete)

    # ---- volumes, as a kubelet makes them ----

    def fs_group(self):
        return self.spec.get("securityContext", {}).get("fsGroup")

    def folder(self, name, mode=0o777):
        path = self.env.path(f"volume-{self.name}-{name}")
        os.makedirs(path, exist_ok=True)
        if self.fs_group() is not None:
            os.chown(path, 0, self.fs_group())
            mode = 0o2775
        os.chmod(path, mode)
        return path

    def volume(self, v):
        """The path of its files; None for an optional one that is not there."""
        if "hostPath" in v:
            return host_folder(self.env, v["hostPath"]["path"])
        if "emptyDir" in v:
            return self.folder(v["name"])
        kind = "ConfigMap" if "configMap" in v else "Secret"
        source = v.get("configMap") or v["secret"]
        name = source.get("name") or source["secretName"]
        found = [o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name]
        if not found:
            check(source.get("optional"), f"there is no {kind} {name}")
            return self.folder(v["name"])
        items = {k: x.encode() if kind == "ConfigMap" else base64.b64decode(x) for k, x in found[0]["data"].items()}
        wanted = {i["key"]: i["path"] for i in source["items"]} if "items" in source else {k: k for k in items}
        path, mode = self.folder(v["name"], 0o755), source.get("defaultMode", 0o644)
        for key, file in wanted.items():
            with open(os.path.join(path, file), "wb") as f:
                f.write(items[key])
            if self.fs_group() is not None:
                os.chown(f.name, 0, self.fs_group())
                mode |= (mode & 0o400) >> 3  # and the group may read
            os.chmod(f.name, mode)
        return path

    # ---- the container, as containerd makes it ----

    def environment(self):
        env = {}
        for pair in self.image.config["config"].get("Env", ()):
            name, env[name] = pair.split("=", 1)
        for e in self.container.get("env", ()):
            env[e["name"]] = e["value"] if "value" in e else self.values[e["valueFrom"]["fieldRef"]["fieldPath"]]
        return env

    def capabilities(self, user):
        asked = self.container.get("securityContext", {}).get("capabilities", {})
        have = set() if "ALL" in asked.get("drop", ()) else set(DEFAULT_CAPABILITIES) - set(asked.get("drop", ()))
        have = sorted("CAP_" + c for c in have | set(asked.get("add", ())))
        active = have if user == 0 else []
        return {"bounding": have, "effective": active, "permitted": active, "inheritable": [], "ambient": []}

    def mounts(self):
        system = [("/proc", "proc", ["nosuid", "noexec", "nodev"]), ("/dev", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
                  ("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
                  ("/dev/shm", "tmpfs", ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
                  ("/dev/mqueue", "mqueue", ["nosuid", "noexec", "nodev"]), ("/sys", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
                  ("/sys/fs/cgroup", "cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"])]
        all_of = [{"destination": d, "type": t, "source": t, "options": o} for d, t, o in system]
        own = {"hosts": "127.0.0.1 localhost login server agent demo\n::1 localhost\n", "resolv.conf": "", "hostname": self.name + "\n"}
        for name, text in own.items():
            all_of.append({"destination": "/etc/" + name, "type": "bind", "source": self.env.path(name + "-" + self.name, text),
                           "options": ["rbind", "rprivate", "ro"]})
        for m in self.container.get("volumeMounts", ()):
            options = ["rbind", "rprivate", "ro" if m.get("readOnly") else "rw"]
            all_of.append({"destination": m["mountPath"], "type": "bind", "source": self.volumes[m["name"]], "options": options})
        return all_of

    def config(self):
        """runc's config.json."""
        security = {**self.spec.get("securityContext", {}), **self.container.get("securityContext", {})}
        uid, gid = (int(x) for x in self.image.config["config"]["User"].split(":"))
        uid, gid = security.get("runAsUser", uid), security.get("runAsGroup", gid)
        check(not security.get("runAsNonRoot") or uid != 0, "runAsNonRoot, but it would be root")
        check(not security.get("privileged"), "a privileged container cannot be tested so")
        env = self.environment()
        inner = self.image.config["config"]
        command, args = self.container.get("command", inner["Entrypoint"]), [] if "command" in self.container else inner.get("Cmd") or []
        args = command + [re.sub(r"\$\((\w+)\)", lambda m: env[m.group(1)], a) for a in self.container.get("args", args)]
        capabilities = self.capabilities(uid)
        # Limits, but not what is requested: as shares beside the processes of this machine, not beside other pods, it would be a fraction.
        limits = {}
        if "resources" in self.container:
            limits["memory"] = {"limit": quantity(self.container["resources"]["limits"]["memory"])}
        namespaces = ["mount", "ipc", "uts"] + ([] if self.spec.get("hostPID") else ["pid"])
        config = {
            "ociVersion": "1.0.2",
            "process": {"terminal": False, "user": {"uid": uid, "gid": gid, "additionalGids": [g for g in [self.fs_group()] if g is not None]},
                        "args": args, "cwd": inner.get("WorkingDir") or "/", "env": [f"{k}={v}" for k, v in env.items()],
                        "capabilities": capabilities, "noNewPrivileges": security.get("allowPrivilegeEscalation") is False,
                        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": HARD_NOFILE, "soft": 1024}]},
            "root": {"path": self.rootfs, "readonly": bool(security.get("readOnlyRootFilesystem"))},
            "hostname": self.name,
            "mounts": self.mounts(),
            "linux": {"cgroupsPath": "/" + self.id, "resources": limits, "maskedPaths": MASKED, "readonlyPaths": READ_ONLY,
                      "namespaces": [{"type": t} for t in namespaces] + [{"type": "network", "path": self.network.path}]},
        }
        seccomp = security.get("seccompProfile", {}).get("type", "Unconfined")
        if seccomp == "RuntimeDefault":
            config["linux"]["seccomp"] = default_seccomp(capabilities["bounding"])
        else:
            check(seccomp == "Unconfined", f"seccomp {seccomp}")
        return config

    def start(self):
        """Runs it until its probes say that it lives and is ready."""
        os.makedirs(self.bundle, exist_ok=True)
        with open(os.path.join(self.bundle, "config.json"), "w") as f:
            json.dump(self.config(), f)
        self.process = Process(self.env, self.name, ["runc", "--root", self.state, "run", "-b", self.bundle, self.id])
        ports = {p["name"]: p["containerPort"] for p in self.container.get("ports", ())}
        for probe in {"livenessProbe", "readinessProbe"} & set(self.container):
            get = self.container[probe]["httpGet"]
            self.url = f"{get['scheme'].lower()}://127.0.0.1:{ports[get['port']]}"
            wait_until(f"{self.name}: its {probe}", lambda: self.probe(get["path"]), 60)
        return self

    def probe(self, path):
        if not self.process.alive():
            text = self.process.text()
            if "msg=" in text and "cgroup" in text.splitlines()[-1]:
                raise Skip("runc cannot run containers here: " + text[-300:])
            raise RuntimeError(f"{self.name} ended: {text[-2000:]}")
        return self.network.get(self.url + path)[0] == 200

    def pid(self):
        said = subprocess.run(["runc", "--root", self.state, "state", self.id], capture_output=True, text=True, check=True)
        return json.loads(said.stdout)["pid"]

    def status(self):
        """/proc/PID/status of its first process."""
        with open(f"/proc/{self.pid()}/status") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)

    def stop(self):
        """As a kubelet does: SIGTERM, and the time that the manifest gives."""
        subprocess.run(["runc", "--root", self.state, "kill", self.id, "TERM"], check=True)
        try:
            status = self.process.p.wait(self.spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end in time") from None
        check(status == 0, f"{self.name} ended with {status}: {self.process.text()[-1000:]}")
        self.delete()

    def delete(self):
        subprocess.run(["runc", "--root", self.state, "delete", "-f", self.id], capture_output=True)
