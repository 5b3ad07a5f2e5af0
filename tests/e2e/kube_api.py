# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes API server for tests: HTTPS, a token, lists in pages, watches. It answers what a test puts in, in the
shapes that a kube-apiserver 1.30 answered; nothing of it is Kubernetes."""
import json
import os
import queue
import ssl
import threading
import urllib.parse

from harness import _Listener, _Quiet

# Of nobody: made for these tests, good for 127.0.0.1.
PEM = """-----BEGIN EC PRIVATE KEY-----
MHcCAQEEICqh8Qs6o64suIiHyXqFLnQq4xIwNSVs0qJVP/bDbpvMoAoGCCqGSM49
AwEHoUQDQgAES90yuc9JFsyUz9UyO4jkvBEWEL8Xrncp5cpj01HCAG+jZHSwOld5
7X1URegA3p5L0TY8PjW42ak7CLCqTwnyag==
-----END EC PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBnDCCAUKgAwIBAgIUXiqpKgdOBkGudqRuU760BXEHJI0wCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPa3ViZXJuZXRlcy10ZXN0MCAXDTI2MTEyMTEzMDIyN1oYDzIx
MjYxMDI4MTMwMjI3WjAaMRgwFgYDVQQDDA9rdWJlcm5ldGVzLXRlc3QwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAARL3TK5z0kWzJTP1TI7iOS8ERYQvxeudynlymPT
UcIAb6NkdLA6V3ntfVRF6ADenkvRNjw+NbjZqTsIsKpPCfJqo2QwYjAdBgNVHQ4E
FgQUBcSbDQdRMGkXNUdhHCwGorLs3BIwHwYDVR0jBBgwFoAUBcSbDQdRMGkXNUdh
HCwGorLs3BIwDwYDVR0RBAgwBocEfwAAATAPBgNVHRMBAf8EBTADAQH/MAoGCCqG
SM49BAMCA0gAMEUCIHEAUaLcfRddA80i34ayhkmeJ3CuCSdEf3nDAfwSms4eAiEA
2kdOAeU8YMs2lLb2RC3AKZnFwEmO2CCcw/7HsJ1kcAk=
-----END CERTIFICATE-----
"""


def pod(name, uid, container_id, labels=None, version="1", container="app", image="registry/echo:1"):
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version, "labels": labels or {},
                     "annotations": {"team": "blue"},
                     "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "echo-5d9", "controller": True}]},
        "spec": {"nodeName": "n1", "containers": [{"name": container, "image": image}]},
        "status": {"phase": "Running", "podIP": "10.1.0.7", "hostIP": "10.0.0.1",
                   "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": container, "containerID": "containerd://" + container_id,
                                          "image": "registry/echo@sha256:0", "ready": True}]},
    }


class KubeApi:
    """pods: what a list answers. say(...) goes to whoever watches pods. requests: (path, query) of all."""

    def __init__(self, env):
        self.pods, self.token, self.requests = [], "first", []
        self.watchers, self.lock = [], threading.Lock()
        api = self

        class Handler(_Quiet):
            def do_GET(self):
                api.answer(self)

        self.server = _Listener(("127.0.0.1", 0), Handler)
        pem = env.path("kube.pem", PEM)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        env.at_end(self.close)
        self.token_file = env.path("token", self.token)
        self.kubeconfig = env.path("kubeconfig", json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://" + self.address, "certificate-authority": "kube.pem"}}],
            "users": [{"name": "u", "user": {"tokenFile": "token"}}]}))

    def close(self):
        self.hang_up()
        self.server.shutdown()
        self.server.server_close()

    def rotate(self, token):
        """Another token counts from now on."""
        with open(self.token_file + ".new", "w", encoding="utf-8") as f:
            f.write(token)
        os.rename(self.token_file + ".new", self.token_file)
        self.token = token

    def say(self, kind, item):
        self._tell(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def hang_up(self, last=b""):
        """Every watch ends, after these bytes."""
        self._tell(last)
        self._tell(None)

    def _tell(self, what):
        with self.lock:
            for q in self.watchers:
                q.put(what)
            if what is None:
                self.watchers.clear()

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        with self.lock:
            self.requests.append((path, query))
        if handler.headers.get("Authorization") != "Bearer " + self.token:
            return self.send(handler, 401, {"kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401})
        if path == "/api/v1/nodes":
            items = [{"metadata": {"name": "n1", "resourceVersion": "1", "labels": {"topology.kubernetes.io/zone": "z1"}}}]
            items = [n for n in items if "metadata.name=" + n["metadata"]["name"] == query.get("fieldSelector")]
        else:
            items = self.pods
        if "watch" in query:
            return self.watch(handler, path)
        begin, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
        meta = {"resourceVersion": "10"}
        if begin + limit < len(items):
            meta["continue"] = str(begin + limit)
        return self.send(handler, 200, {"kind": "List", "metadata": meta, "items": items[begin:begin + limit]})

    @staticmethod
    def send(handler, status, body):
        text = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def watch(self, handler, path):
        q = queue.Queue()
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if path == "/api/v1/pods":
            with self.lock:
                self.watchers.append(q)
        while True:
            try:
                line = q.get(timeout=1)
            except queue.Empty:
                line = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "10"}}}).encode() + b"\n"
            if line is None:
                handler.close_connection = True
                return handler.connection.close()
            if line:
                try:
                    handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                except OSError:
                    return None
