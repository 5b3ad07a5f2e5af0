# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver with its etcd, on loopback, for tests. The programs are named by PYRRHA_KUBE_APISERVER and PYRRHA_ETCD;
without them tests skip. Everyone who has the token may do everything."""
import base64
import http.client
import json
import os
import ssl
import subprocess
import threading
import urllib.request

from harness import Process, Skip, check, free_port, wait_until

TOKEN = "a-token-of-these-tests"


def programs():
    found = os.environ.get("PYRRHA_KUBE_APISERVER", ""), os.environ.get("PYRRHA_ETCD", "")
    if not all(os.access(p, os.X_OK) for p in found):
        raise Skip("PYRRHA_KUBE_APISERVER and PYRRHA_ETCD name no programs")
    return found


class KubeReal:
    """.kubeconfig is a file for clients. The server can be stopped, killed, started again, and given another CA."""

    def __init__(self, env):
        self.env, (self.apiserver, etcd) = env, programs()
        self.port, self.etcd_port, peer = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.etcd = Process(env, "etcd", [
            etcd, "--data-dir", env.path("etcd"), f"--listen-client-urls=http://127.0.0.1:{self.etcd_port}", f"--advertise-client-urls=http://127.0.0.1:{self.etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}", "--quota-backend-bytes=2000000000"])
        env.path("tokens.csv", f'{TOKEN},tester,1,"system:masters"\n')
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.new_ca()
        self.kubeconfig = env.path("kubeconfig", json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://" + self.address, "certificate-authority": "ca.crt"}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}]}))
        self.start()

    def openssl(self, *args):
        subprocess.run(["openssl", *args], cwd=self.env.dir, check=True, capture_output=True, timeout=60)

    def new_ca(self):
        """A CA and a certificate of its own; a client has to read its file again."""
        self.env.path("san", "subjectAltName=IP:127.0.0.1,IP:10.0.0.1,DNS:localhost\n")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.new", "-days", "30", "-subj", "/CN=test-ca")
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=kube-apiserver")
        self.openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.new", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.crt", "-days", "30",
                     "-extfile", "san")
        os.rename(self.env.path("ca.new"), self.env.path("ca.crt"))

    def start(self, seconds=180):
        f = self.env.path
        self.server = Process(self.env, "kube-apiserver", [
            self.apiserver, f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            "--tls-cert-file=" + f("server.crt"), "--tls-private-key-file=" + f("server.key"), "--token-auth-file=" + f("tokens.csv"),
            "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + f("sa.key"),
            "--service-account-signing-key-file=" + f("sa.key"), "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
            "--cert-dir=" + f("certs"), "--endpoint-reconciler-type=none", "--profiling=false", "--max-requests-inflight=1000",
            "--max-mutating-requests-inflight=500"])

        def ready():
            check(self.server.alive(), "kube-apiserver ended: " + self.server.text()[-1500:])
            return self.ask("GET", "/readyz")[0] == 200
        wait_until("kube-apiserver is ready", ready, seconds)

    def connect(self):
        context = ssl.create_default_context(cafile=self.env.path("ca.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)

    @staticmethod
    def ask_on(connection, method, path, body=None):
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
        r = connection.getresponse()
        return r.status, r.read()

    def ask(self, method, path, body=None):
        connection = self.connect()
        try:
            return self.ask_on(connection, method, path, body)
        finally:
            connection.close()

    def put_pods(self, pods, threads=8):
        """Creates them, with their status."""
        todo, lock, wrong = iter(pods), threading.Lock(), []

        def work():
            connection = self.connect()
            while not wrong:
                with lock:
                    pod = next(todo, None)
                if pod is None:
                    break
                path = "/api/v1/namespaces/default/pods"
                status, body = self.ask_on(connection, "POST", path, {k: v for k, v in pod.items() if k != "status"})
                if status == 201:
                    status, body = self.ask_on(connection, "PUT", f"{path}/{pod['metadata']['name']}/status", pod)
                if status not in (200, 201):
                    wrong.append(body)
            connection.close()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        check(not wrong, f"creating a pod: {wrong[:1]}")

    def delete_pod(self, name):
        status, body = self.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        check(status == 200, f"deleting {name}: {body[:300]}")

    def compact(self):
        """The store forgets all but the present."""
        now = int(self._etcd("kv/range", {"key": base64.b64encode(b"\0").decode()})["header"]["revision"])
        self._etcd("kv/compaction", {"revision": str(now), "physical": True})

    def _etcd(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as r:
            return json.loads(r.read())


def pod(name, number, padding=0):
    """With an address of its own, and an annotation of that many bytes."""
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web", "app.kubernetes.io/name": "web", "pod-template-hash": "5d9f"},
                     "annotations": {"note": "x" * padding, "prometheus.io/scrape": "true"}},
        "spec": {"nodeName": f"node-{number % 100}", "automountServiceAccountToken": False,
                 "containers": [{"name": "app", "image": "registry/app:1", "ports": [{"containerPort": 8080, "name": "http"}]}]},
        "status": {"phase": "Running", "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", "hostIP": "10.0.0.1",
                   "podIPs": [{"ip": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}],
                   "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": "app", "containerID": f"containerd://{number:064x}", "image": "registry/app:1", "imageID": "", "ready": True,
                                          "restartCount": 0}]}}
