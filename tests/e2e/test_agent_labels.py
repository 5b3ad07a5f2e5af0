# SPDX-License-Identifier: Apache-2.0
"""Who it was: the agent's relabelling rules on real processes. Needs root and eBPF."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
import uuid

from harness import Process, Server, Skip, TOP, check, echo_command, http_get, in_the_browser, need_a_browser, run, slow, wait_until
from kube_api import KubeApi, NODE, pod
from pprof_file import Profile, sample_labels
from test_agent import C_FIXTURE, c_program, profile, share_with, start_agent
from test_promql_oracle import Prometheus

RULES = """
relabel_configs:
  - {source_labels: [comm], regex: fix_drop, action: drop}
  - {source_labels: [__meta_process_executable_compiler], target_label: compiler}
  - {source_labels: [__meta_process_language, __meta_process_executable_static], separator: /, target_label: kind}
  - {source_labels: [__meta_process_cmdline], regex: '.* tenant=(\\w+)', target_label: tenant}
  - {action: labeldrop, regex: exe_build_id}
"""




def metric(agent, name):
    body = http_get(agent + "/metrics")[2].decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", body, re.M)
    return float(found.group(1)) if found else 0.0


def test_rules_decide(env):
    """Labels of rules are on samples, dropped processes are not in profiles, and SIGHUP brings other rules."""
    config = env.path("agent.yml", RULES)
    agent = start_agent(env, f"--config.file={config}", "--external-label=cluster=c1", "--node=n1", "--web.enable-lifecycle",
                        only=["fix_keep", "fix_drop"])
    process = next(f.__self__ for f in env.undo if getattr(getattr(f, "__self__", None), "name", "") == "pyrrha-agent")
    Process(env, "keep", [c_program(env, "fix_keep", C_FIXTURE, "-static"), "x", "tenant=blue"])
    Process(env, "drop", [c_program(env, "fix_drop", C_FIXTURE)])
    whole = '{compiler=~"GCC [0-9.]+", kind="c/true", tenant="blue", node="n1", cluster="c1", comm="fix_keep", exe_build_id=""}'
    wait_until("the labels of the rules", lambda: profile(env, agent, 1, whole)[0], 30)
    wait_until("something counted as dropped", lambda: metric(agent, "pyrrha_agent_dropped_samples_total") > 0, 30)
    check(not profile(env, agent, 1, '{comm="fix_drop"}')[0], "a dropped process is in the profile")
    # a file that does not load changes nothing
    env.path("agent.yml", "relabel_configs:\n- {action: nonsense}\n")
    status, _, body = http_get(agent + "/-/reload", data=b"")
    check(status == 500 and b"agent.yml:2:" in body, f"{status} {body!r}")
    check(metric(agent, "pyrrha_agent_config_last_reload_successful") == 0, "a failed reload looks like a success")
    check(not profile(env, agent, 1, '{comm="fix_drop"}')[0], "the old rules are gone")
    # the other way round
    env.path("agent.yml", "relabel_configs:\n- {source_labels: [comm], regex: fix_keep, action: drop}\n")
    process.p.send_signal(signal.SIGHUP)
    wait_until("the new rules", lambda: profile(env, agent, 1, '{comm="fix_drop"}')[0], 30)
    check(not profile(env, agent, 1, '{comm="fix_keep"}')[0], "a dropped process is in the profile")
    check(metric(agent, "pyrrha_agent_config_last_reload_successful") == 1, "a reload that worked looks like a failure")


@slow
def test_what_rules_see_of_a_process(env):
    """Every label of a process that a parca-agent has, with its value; kernel threads have few."""
    config = env.path("agent.yml", "relabel_configs:\n- {action: labelmap, regex: '__meta_(process.+|system.+|agent.+)', replacement: m_$1}\n")
    program = c_program(env, "fix_meta", C_FIXTURE, "-static")
    p = Process(env, "meta", [program, "with", "arguments"])
    subprocess.run(["strip", "-o", env.path("fix_bare"), program], check=True)
    Process(env, "bare", [env.path("fix_bare")])
    agent = start_agent(env, f"--config.file={config}", "--node=n1", only=["fix_meta", "fix_bare"])

    def labels(comm):
        query = urllib.parse.quote(f'{{comm="{comm}"}}')
        found = sample_labels(http_get(f"{agent}/debug/pprof/profile?seconds=1&match[]={query}", timeout=200)[2])
        return {k[2:]: next(iter(v)) for k, v in found.items() if k.startswith("m_") and len(v) == 1}

    found = wait_until("the labels", lambda: labels("fix_meta"), 60)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    compiler = found.pop("process_executable_compiler", "")
    with open("/proc/%d/cgroup" % p.p.pid) as f:
        check(found.pop("process_cgroup") in f.read(), "the control group")
    check(found == {
        "process_pid": str(p.p.pid), "process_ppid": str(os.getpid()), "process_comm": "fix_meta", "process_kernel_thread": "false",
        "process_cmdline": program + " with arguments", "process_executable_name": "fix_meta", "process_executable_path": program,
        "process_executable_build_id": re.search("Build ID: ([0-9a-f]+)", notes).group(1), "process_executable_static": "true",
        "process_executable_stripped": "false", "process_language": "c", "process_language_version": compiler.split()[-1], "process_jit": "false",
        "system_kernel_release": os.uname().release, "system_kernel_machine": os.uname().machine, "system_node": "n1",
        "agent_revision": run([env.program("pyrrha-agent"), "--version"])[1].split()[-1]}, f"{found}")
    check(re.fullmatch("GCC [0-9.]+", compiler), compiler)
    bare = wait_until("those of the stripped one", lambda: labels("fix_bare"), 60)
    check(bare["process_executable_stripped"] == "true" and bare["process_executable_build_id"] == found["process_executable_build_id"],
          f"{bare}")


LEADER_FIXTURE = """
#include <pthread.h>
#include <sys/prctl.h>
static void *helper(void *arg) { prctl(PR_SET_NAME, "lead_helper"); for (volatile int i = 0;; i++); return arg; }
int main(void)
{
    pthread_t t;
    pthread_create(&t, NULL, helper, NULL);
    prctl(PR_SET_NAME, "lead_renamed");
    for (volatile int i = 0;; i++);
}
"""


@slow
def test_comm_is_the_group_leaders(env):
    """Threads of any name are their process's, whose comm is the leader's, also where it renamed itself."""
    program = c_program(env, "lead_first", LEADER_FIXTURE, "-pthread")
    early = Process(env, "early", [program])
    agent = start_agent(env, only=["lead_first", "lead_renamed", "lead_helper"])
    late = Process(env, "late", [program])

    def labels(selector):
        query = urllib.parse.quote(selector)
        return sample_labels(http_get(f"{agent}/debug/pprof/profile?seconds=1&match[]={query}", timeout=200)[2])

    def both():
        found = labels('{comm="lead_renamed"}')
        return found.get("thread") == {"lead_renamed", "lead_helper"} and found["pid"] == {str(early.p.pid), str(late.p.pid)}
    wait_until("both threads of both processes under one name", both, 60)
    check(not labels('{comm="lead_helper"}'), "a thread's name is the process's")
    wait_until("nothing more under the program's name", lambda: not labels('{comm="lead_first"}'), 30)


def test_a_bad_file_stops_the_start(env):
    config = env.path("agent.yml", "relabel_configs:\n- {source_labels: [comm], action: keep, regexp: x}\n")
    start_agent(env)  # the rights to run at all
    said = subprocess.run([env.program("pyrrha-agent"), f"--config.file={config}", "--web.listen-address=127.0.0.1:0"],
                          capture_output=True, text=True, timeout=60)
    check(said.returncode == 1 and "agent.yml:2:" in said.stderr and "regexp" in said.stderr, said.stderr)


class Group:
    """A control group made by hand, in the hierarchy that the agent looks at; start(argv) runs a program in it."""

    def __init__(self, env, path):
        v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        base = "/sys/fs/cgroup" if v2 else "/sys/fs/cgroup/memory"
        if os.geteuid() != 0 or not os.path.isdir(base):
            raise Skip("no control groups can be made here")
        self.env, self.dir = env, base + path
        wait_until("the control group", self.make, 10)
        env.at_end(lambda: self.remove(base))

    def make(self):
        try:
            os.makedirs(self.dir, exist_ok=True)
        except FileNotFoundError:
            return False  # another test took a parent away in between
        except OSError as e:
            raise Skip(f"no control group {self.dir}: {e}") from None
        return True

    def remove(self, base):
        """Its own directory, once its processes have ended; parents that nobody else uses."""
        for _ in range(100):
            try:
                os.rmdir(self.dir)
                break
            except OSError:
                time.sleep(0.1)
        at = os.path.dirname(self.dir)
        while at != base:
            try:
                os.rmdir(at)
            except OSError:
                break
            at = os.path.dirname(at)

    def start(self, name, argv):
        return Process(self.env, name, ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', self.dir, *argv])


@slow
def test_pod_labels_from_the_api_server(env):
    """Labels of the pod and its node are labels of samples; a rotated token, a torn watch and a change do not matter."""
    uid, container = str(uuid.uuid4()), uuid.uuid4().hex * 2
    api = KubeApi(env)
    api.put("nodes", NODE)
    api.put("pods", *[pod(f"other-{i}", str(uuid.uuid4()), uuid.uuid4().hex * 2) for i in range(120)])  # more than a page
    api.put("pods", pod("web-1", uid, container, {"app.kubernetes.io/name": "echo"}))
    config = env.path("agent.yml", """
relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_label_app_kubernetes_io_name], target_label: app}
  - {source_labels: [__meta_kubernetes_pod_controller_kind, __meta_kubernetes_pod_controller_name], target_label: owner}
  - {source_labels: [__meta_kubernetes_node_label_topology_kubernetes_io_zone], target_label: zone}
  - {source_labels: [__meta_kubernetes_pod_container_image], target_label: image}
""")
    Group(env, f"/kubepods/burstable/pod{uid}/{container}").start("pod", [c_program(env, "fix_pod", C_FIXTURE)])
    agent = start_agent(env, f"--config.file={config}", "--node=n1", f"--kubeconfig={api.kubeconfig}", only=["fix_pod"])
    whole = '{app="%s", owner="ReplicaSet;echo-5d9", zone="z1", pod="web-1", namespace="default", container="app", image="registry/echo:1"}'
    wait_until("the pod's labels", lambda: profile(env, agent, 1, whole % "echo")[0], 60)
    check(metric(agent, "pyrrha_agent_kubernetes_pods") == 121, "not all pods of the list are known")
    check(all(q.get("fieldSelector") == "spec.nodeName=n1" for p, q in api.requests if p == "/api/v1/pods"), f"{api.requests}")
    api.rotate("second")
    api.hang_up(b'{"type":"MODIFIED","object":{"meta')
    wait_until("a watch with the new token", lambda: api.watching("pods"), 60)
    api.put("pods", pod("web-1", uid, container, {"app.kubernetes.io/name": "other"}))
    wait_until("the pod's new label", lambda: profile(env, agent, 1, whole % "other")[0], 60)
    lists = api.lists("/api/v1/pods")
    check(lists == 1, f"listed {lists} times: a torn watch goes on where it was")


BRIEF_FIXTURE = """
#include <time.h>
int main(void) { while (clock() < CLOCKS_PER_SEC / 25) ; }
"""


class BriefPod:
    """A pod whose programs run for 40 ms of CPU: one in its container, one in its sandbox, before the API server knows the id of either. It is
    a Deployment's, a CronJob's (which has ended when its container's id is told), a deleted one, or a static one."""

    def __init__(self, env, api, i):
        self.api, self.kind, self.name = api, ("deployed", "cron", "deleted", "static")[i % 4], f"tick-{i}"
        self.workload = {"cron": f"cron{i}", "static": self.name}.get(self.kind, "echo")
        self.own_uid = str(uuid.uuid4())
        self.uid = uuid.uuid4().hex if self.kind == "static" else self.own_uid
        self.name += "-n1" if self.kind == "static" else ""
        self.id = uuid.uuid4().hex * 2
        self.dirs = [Group(env, f"/kubepods/burstable/pod{self.uid}/{c}").dir for c in (uuid.uuid4().hex * 2, self.id)]
        self.programs = []

    def object(self, container_id, phase):
        o = pod(self.name, self.own_uid, container_id, {"pod-template-hash": "5d9"} if self.workload == "echo" else {})
        o["status"]["phase"] = phase
        if not container_id:
            o["status"]["containerStatuses"][0].pop("containerID")
        owner = {"cron": ("Job", self.workload + "-29384756"), "static": ("Node", "n1")}.get(self.kind)
        if owner:
            o["metadata"]["ownerReferences"][0].update(kind=owner[0], name=owner[1])
        if self.kind == "static":
            o["metadata"]["annotations"] = {"kubernetes.io/config.hash": self.uid, "kubernetes.io/config.mirror": self.uid}
        return o

    def start(self, program):
        if self.kind != "static":  # of which the API server hears when it runs
            self.api.put("pods", self.object("", "Pending"))
        self.programs = [subprocess.Popen(["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$1"', d, program]) for d in self.dirs]

    def tell(self):
        self.api.put("pods", self.object(self.id, "Succeeded" if self.kind == "cron" else "Running"))
        if self.kind == "deleted":
            self.api.delete("pods", self.name)


@slow
def test_containers_that_are_named_late(env):
    """Of 100 pod starts no sample is labelled with the id of a container, though each id is told a second or three after the program has
    run; whoever keeps named containers only loses none of it, and no window is told twice."""
    api = KubeApi(env)
    api.put("nodes", NODE)
    config = env.path("agent.yml", "relabel_configs:\n- {source_labels: [container], regex: app|POD, action: keep}\n")
    program = c_program(env, "fix_brief", BRIEF_FIXTURE)
    agent = start_agent(env, f"--config.file={config}", "--node=n1", f"--kubeconfig={api.kubeconfig}", "--frequency=499", "--max-cost=1",
                        only=["fix_brief"])
    wait_until("a watch of the pods", lambda: api.watching("pods"), 30)
    pods, cursor, found = [BriefPod(env, api, i) for i in range(100)], [int(time.time()) * 1000 - 20000], []

    def read():
        status, headers, body = http_get(f"{agent}/debug/pprof/profile?from={cursor[0] / 1000}&to={2**33}", timeout=60)
        if status == 200:
            cursor[0] = int(headers["X-Pyrrha-Covered"].split("-")[1])
            found.extend((dict(labels), values[-1]) for _, labels, values in Profile(body).samples)
        return int(headers["X-Pyrrha-Finished"])
    begin, waiting = time.monotonic(), []
    for i, p in enumerate(pods):
        time.sleep(max(0.0, begin + i / 10 - time.monotonic()))
        p.start(program)
        waiting.append((time.monotonic() + 1 + 2 * (i % 3 == 0), p))
        while waiting and waiting[0][0] <= time.monotonic():
            waiting.pop(0)[1].tell()
        if i % 5 == 0:
            read()
    for when, p in waiting:
        time.sleep(max(0.0, when - time.monotonic()))
        p.tell()
    usage = [os.wait4(child.pid, 0)[2] for p in pods for child in p.programs]
    end_ms = time.time() * 1000
    wait_until("the windows of all of it", lambda: read() > end_ms, 60)
    by_pod = {}
    for labels, _ in found:
        if "comm" in labels:
            by_pod.setdefault(labels.get("pod"), set()).add((labels.get("container"), labels.get("workload"), labels["pod_uid"]))
    wrong = {k: v for k, v in by_pod.items() if any(c not in ("app", "POD") for c, _, _ in v)}
    check(not wrong, f"{len(wrong)} pods with other containers: {list(wrong.items())[:5]}")
    missing = [p.name for p in pods if by_pod.get(p.name) != {(c, p.workload, p.uid) for c in ("app", "POD")}]
    check(not missing, f"{len(missing)} of 100: {[(n, by_pod.get(n)) for n in missing[:5]]}")
    used = sum(u.ru_utime + u.ru_stime for u in usage)
    sampled = sum(v for labels, v in found if "comm" in labels) / 1e9
    check(0.6 < sampled / used < 1.3, f"{sampled:.2f} s sampled of {used:.2f}")


@slow
def test_a_node_of_another_name(env):
    """Who runs the agent under a name that the cluster does not know is told, once."""
    api = KubeApi(env)
    api.put("nodes", NODE)
    agent = start_agent(env, "--node=n2", f"--kubeconfig={api.kubeconfig}")
    wait_until("the warning", lambda: "metadata.name=n2: say its name with --node" in env.agent.text(), 30)
    check(metric(agent, "pyrrha_agent_kubernetes_problems_total") >= 1, "it counts")
    # rights that are missing, and stay so: said once, counted each time
    api.token = "nobody's"
    api.hang_up()
    wait_until("refusals", lambda: metric(agent, "pyrrha_agent_kubernetes_problems_total") >= 4, 60)
    refused = [line for line in env.agent.text().splitlines() if "is the token valid" in line and "/pods" in line]
    check(len(refused) == 1 and "/api/v1/pods: HTTP 401: Unauthorized" in refused[0], f"{refused}")


def targets(agent):
    status, headers, body = http_get(agent + "/targets.json")
    check(status == 200 and headers["Content-Type"] == "application/json", f"{status} {headers}")
    return {t["labels"]["container"]: t for t in json.loads(body)}


@slow
def test_targets_for_prometheus(env):
    """/targets.json, read by the real Prometheus: one target per container, whose URL pulls that container alone."""
    name, container = "db" + uuid.uuid4().hex[:6], uuid.uuid4().hex * 2
    config = env.path("agent.yml", """
relabel_configs:
  - {source_labels: [__meta_lxc_container_id], regex: 'secret.*', action: drop}
  - {source_labels: [__meta_lxc_container_id], target_label: lxc}
  - {source_labels: [comm], target_label: only_of_the_process}
""")
    program = c_program(env, "fix_target", C_FIXTURE)
    Group(env, f"/lxc/{name}").start("lxc", [program])
    Group(env, f"/lxc/secret{name}").start("secret", [program])
    Group(env, f"/docker/{container}").start("docker", [program])
    agent = start_agent(env, f"--config.file={config}", "--node=n1", "--external-label=cluster=c1", only=["fix_target"])
    found = wait_until("both targets", lambda: {name, container[:12]} <= set(targets(agent)) and targets(agent), 30)
    check("secret" + name not in found, "a dropped container is a target")
    labels = found[name]["labels"]
    check(labels["lxc"] == name and labels["cluster"] == "c1" and "only_of_the_process" not in labels and
          not any(k.startswith("__meta") for k in labels), f"{labels}")
    theirs = Prometheus(env, f"""
scrape_configs:
  - job_name: agents
    scrape_interval: 1h
    http_sd_configs: [{{url: '{agent}/targets.json'}}]
""")

    def discovered():
        return {t["labels"]["container"]: t for t in theirs.api("targets", state="active")["activeTargets"]}
    active = wait_until("Prometheus has the targets", lambda: name in discovered() and discovered(), 60)
    url = active[name]["scrapeUrl"]
    check(url.startswith(agent + "/debug/pprof/profile?"), url)
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    check(query == {"match": [f'{{container="{name}"}}']}, f"{query}")
    more = "&match=" + urllib.parse.quote(query["match"][0])

    def shares():
        mine = profile(env, agent, 2, more=more)[0]  # of a busy machine, a single sample or none
        share = share_with(mine, "^main$", "^agent_middle$") if mine else 0
        return share > 0.9 or check(False, f"{share:.1%} of the target's profile is the container's: {mine[:4]}")
    wait_until("a profile of the target", shares, 60)


@slow
def test_series_of_rules_and_containers(env):
    """A label that a rule sets tells series apart in the server, without a word about it there; and the container's own
    label is found although the agent's target has one, too."""
    name = "echo" + uuid.uuid4().hex[:6]
    config = env.path("agent.yml", f"""
relabel_configs:
  - {{source_labels: [__meta_lxc_container_id], regex: '{name}', target_label: team, replacement: blue}}
""")
    Group(env, f"/lxc/{name}").start("echo", echo_command(env))
    agent = start_agent(env, f"--config.file={config}", "--external-label=cluster=c1", only=["echoserver"])
    server = Server(env, f"""
global: {{scrape_interval: 2s}}
scrape_configs:
  - job_name: agent
    metrics_path: /metrics
    profiling_config: {{preset: agent}}
    static_configs: [{{targets: ['{agent.split("//")[1]}'], labels: {{container: "the agent's", team: none}}}}]
""")
    wait_until("the series", lambda: server.value('count(on_cpu{team="blue", cluster="c1", comm="echoserver"})') == 1, 60)
    wait_until("a rate of the agent's counters", lambda: server.value("rate(pyrrha_agent_samples_total[30s])"), 30)
    found = wait_until("the container", lambda: server.query(f'on_cpu<container="{name}">')["result"], 60)
    check(found[0]["metric"]["container"] == name, f"{found[0]['metric']}")

    def stacks():
        text = server.get("/api/v1/query", format="folded", query=f'merge(on_cpu<container="{name}">[1m])').decode()
        return "main.fibonacciHandler" in text
    wait_until("its functions", stacks, 60)
    rows = server.query(f'sum by (comm, container)(rate(on_cpu<container="{name}">[30s]))')["result"]
    check([r["metric"] for r in rows] == [{"comm": "echoserver", "container": name}], f"{rows}")
    on_the_page(env, server, name)


def on_the_page(env, server, container):
    """The same in a browser, where there is one."""
    try:
        need_a_browser(env)
    except Skip as why:
        print(f"# {why}: the page was not looked at")
        return
    in_the_browser(env, "page_agent.mjs", server.url, env.dir, container, "echoserver", "main.fibonacciHandler", seconds=180)


@slow
def test_dropped_containers_are_not_sampled(env):
    """What a rule says of a whole container the kernel does: it is left out before it is unwound, and comes back when
    the rule or what is known of the container changes. A container below it is another one."""
    name, inner = "drop" + uuid.uuid4().hex[:6], uuid.uuid4().hex * 2
    drop = f"relabel_configs:\n- {{source_labels: [container], regex: '{name}', action: drop}}\n"
    config = env.path("agent.yml", drop)
    program = c_program(env, "fix_dropped", C_FIXTURE)
    group = Group(env, f"/lxc/{name}")
    Group(env, f"/lxc/{name}/docker/{inner}").start("inner", [program])
    group.start("outer", [program])
    agent = start_agent(env, f"--config.file={config}", "--web.enable-lifecycle", only=["fix_dropped"])
    filters = 'pyrrha_agent_filters{by="cgroup"}'
    wait_until("the kernel's filter", lambda: metric(agent, filters) == 1, 30)
    begin = metric(agent, "pyrrha_agent_dropped_samples_total")
    wait_until("ticks left out by the kernel", lambda: metric(agent, 'pyrrha_agent_filtered_samples_total{by="cgroup"}') > 5, 30)
    dropped = metric(agent, "pyrrha_agent_dropped_samples_total") - begin
    check(dropped <= 5, f"{dropped} samples were unwound to be dropped")
    check(not profile(env, agent, 1, f'{{container="{name}"}}')[0], "a dropped container is in the profile")
    wait_until("the inner container", lambda: profile(env, agent, 1, f'{{container_id="{inner}"}}')[0], 30)
    # by a label of single processes the kernel is not asked
    for text, there in ((drop.replace("[container]", "[comm]").replace(name, "fix_dropped"), False), (drop, True)):
        env.path("agent.yml", text)
        check(http_get(agent + "/-/reload", data=b"")[0] == 200, "the rules do not load")
        wait_until("filters after " + text, lambda: metric(agent, filters) == there, 30)
        check(not profile(env, agent, 1, f'{{container="{name}"}}')[0], "a dropped container is in the profile")
    env.path("agent.yml", "relabel_configs: []\n")
    check(http_get(agent + "/-/reload", data=b"")[0] == 200, "the rules do not load")
    wait_until("no filter", lambda: metric(agent, filters) == 0, 30)
    wait_until("the container is back", lambda: profile(env, agent, 1, f'{{container="{name}"}}')[0], 30)
