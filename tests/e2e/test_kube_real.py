# SPDX-License-Identifier: Apache-2.0
"""kubernetes_sd_configs against a real kube-apiserver with etcd (kube_real.py): many pods, and its bad days. PYRRHA_LONG=1: 20,000 pods."""
import os
import signal
import time

from harness import LONG, Server, check, http_get, wait_until
from kube_real import KubeReal, pod

PODS = int(os.environ.get("PYRRHA_PODS") or (20000 if LONG else 500))


def metric(server, name):
    """The sum of it over its labels."""
    text = http_get(server.url + "/metrics")[2].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def rss_mb(server):
    with open(f"/proc/{server.p.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


def config(kube):
    return f"""scrape_configs:
- job_name: pods
  relabel_configs: [{{action: drop}}]
  kubernetes_sd_configs:
  - {{role: pod, kubeconfig_file: {kube.kubeconfig}}}
- job_name: not-installed
  relabel_configs: [{{action: drop}}]
  kubernetes_sd_configs:
  - {{role: ingress, namespaces: {{names: [nowhere]}}, kubeconfig_file: {kube.kubeconfig}}}
"""


def targets(server):
    return metric(server, "pyrrha_sd_discovered_targets")


def test_many_pods_and_bad_days(env):
    kube = KubeReal(env)
    server = Server(env, config(kube))
    begin = time.monotonic()
    kube.put_pods(pod(f"web-{i}", i) for i in range(PODS))
    print(f"# {PODS} pods made in {time.monotonic() - begin:.0f} s")
    wait_until("all pods are known by watching", lambda: targets(server) == PODS, 60)
    server.terminate()
    begin, base = time.monotonic(), rss_of_none(env)
    server.restart()
    wait_until("all pods are known by listing", lambda: targets(server) == PODS, 60)
    print(f"# listed after {time.monotonic() - begin:.1f} s, {rss_mb(server):.0f} MB; without any {base:.0f} MB")
    check(rss_mb(server) - base < 128, "20,000 pods fit into 128 MB")

    # A stalled server: noticed within 30 s, and nothing is lost.
    failures = metric(server, "pyrrha_sd_kubernetes_failures_total")
    kube.server.p.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    wait_until("silence is noticed", lambda: metric(server, "pyrrha_sd_kubernetes_failures_total") > failures, 35)
    print(f"# silence was noticed after {time.monotonic() - begin:.1f} s")
    check(targets(server) == PODS, "what was known stays")
    kube.server.p.send_signal(signal.SIGCONT)
    kube.delete_pod("web-0")
    wait_until("a change after the silence", lambda: targets(server) == PODS - 1, 90)

    # It dies; while nobody looks, pods come and go, and the store forgets; then it is back with another CA.
    kube.server.kill()
    wait_until("it is gone", lambda: metric(server, "pyrrha_sd_kubernetes_failures_total") > failures + 1, 60)
    os.kill(server.p.pid, signal.SIGSTOP)
    kube.new_ca()
    kube.start()
    kube.delete_pod("web-1")
    kube.delete_pod("web-2")
    kube.put_pods([pod("straggler", PODS)])
    kube.compact()
    kube.server.kill()
    kube.start()
    os.kill(server.p.pid, signal.SIGCONT)

    def known():
        text = http_get(server.url + "/api/v1/targets?state=dropped&job=pods&search=straggler")[2].decode()
        return targets(server) == PODS - 2 and '"straggler"' in text
    wait_until("no change is lost over a restart with compaction and another CA", known, 120)
    check(server.alive(), "it lives")


def rss_of_none(env):
    """Memory of a server that discovers nothing."""
    server = Server(env, "scrape_configs: []\n", name="empty")
    time.sleep(1)
    mb = rss_mb(server)
    server.terminate()
    return mb
