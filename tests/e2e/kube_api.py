# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes API server for tests, which does what a kube-apiserver 1.35 does where that matters to who lists and watches:

* a list at resourceVersion=0 comes whole, whatever limit says; another in pages, as it was when the first page was asked for
* continue tokens expire (410); a watch from a version that was compacted is a 410 within a 200
* watches go on from a version, with bookmarks, or begin with all there is (sendInitialEvents)
* label and field selectors filter both, also what enters and leaves them
* kinds that are not installed are 404, what is forbidden is 403, another token is 401
* it can restart (with or without what it remembers), go silent, and change its token and its certificate

Nothing of it is Kubernetes."""
import base64
import bisect
import gzip
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse

from harness import _Listener, _Quiet

# Of nobody: made for these tests, good for 127.0.0.1.
PEMS = ("""-----BEGIN EC PRIVATE KEY-----
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
""", """-----BEGIN EC PRIVATE KEY-----
MHcCAQEEILuA89sJTlIy1oW7PnghruL9Cs0b5587lL+HD+evg/CFoAoGCCqGSM49
AwEHoUQDQgAE3qWvz0DWyJxyR46VShNwrrcDwh4WPchSzqJgfdO6UGD/LyiYn2y2
4gi9/rM+g1syr/05fHz+OUXKB6KLWMuIkQ==
-----END EC PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBnTCCAUKgAwIBAgIULbI1H6GevdNmagYBn9BevT9ahEQwCgYIKoZIzj0EAwIw
GjEYMBYGA1UEAwwPa3ViZXJuZXRlcy10ZXN0MCAXDTI2MTEyMjE3MzQxM1oYDzIx
MjYxMDI5MTczNDEzWjAaMRgwFgYDVQQDDA9rdWJlcm5ldGVzLXRlc3QwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAATepa/PQNbInHJHjpVKE3CutwPCHhY9yFLOomB9
07pQYP8vKJifbLbiCL3+sz6DWzKv/Tl8fP45RcoHootYy4iRo2QwYjAdBgNVHQ4E
FgQUH4rxq8js1CE0GUYLWsQGLRFMzPgwHwYDVR0jBBgwFoAUH4rxq8js1CE0GUYL
WsQGLRFMzPgwDwYDVR0RBAgwBocEfwAAATAPBgNVHRMBAf8EBTADAQH/MAoGCCqG
SM49BAMCA0kAMEYCIQDKYVShYu4nfzqRmhmcy/PkgiPIsOTufn8zuKpkVkoWfgIh
ALjmDeKnoQbdQFtwSTADU3v1EzyF5T8LNUEGQCUjRCzB
-----END CERTIFICATE-----
""")

# resource: (group, kind, namespaced)
RESOURCES = {
    "nodes": ("/api/v1", "Node", False), "namespaces": ("/api/v1", "Namespace", False), "pods": ("/api/v1", "Pod", True),
    "services": ("/api/v1", "Service", True), "endpoints": ("/api/v1", "Endpoints", True),
    "endpointslices": ("/apis/discovery.k8s.io/v1", "EndpointSlice", True),
    "ingresses": ("/apis/networking.k8s.io/v1", "Ingress", True), "replicasets": ("/apis/apps/v1", "ReplicaSet", True),
    "jobs": ("/apis/batch/v1", "Job", True),
}
# Fields that selectors may name, besides those of the metadata.
FIELDS = {
    "pods": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
             "status.phase", "status.podIP", "status.nominatedNodeName"),
    "nodes": ("spec.unschedulable",), "namespaces": ("status.phase",), "services": ("spec.clusterIP", "spec.type"),
    "replicasets": ("status.replicas",), "jobs": ("status.successful",),
}


NODE = {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}],
                   "conditions": [{"type": "Ready", "status": "True"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}}


def pod(name, uid, container_id, labels=None, container="app", image="registry/echo:1"):
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels or {},
                     "annotations": {"team": "blue"},
                     "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "echo-5d9", "controller": True}]},
        "spec": {"nodeName": "n1", "containers": [{"name": container, "image": image}]},
        "status": {"phase": "Running", "podIP": "10.1.0.7", "hostIP": "10.0.0.1",
                   "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": container, "containerID": "containerd://" + container_id,
                                          "image": "registry/echo@sha256:0", "ready": True}]},
    }


# ---- selectors ----

class BadSelector(Exception):
    pass


def label_selector(text):
    """A function of an object's labels."""
    terms = []
    for term in re.findall(r"(?:[^,(]|\([^)]*\))+", text or ""):
        t = term.strip()
        m = re.fullmatch(r"(!?)\s*([\w./-]+)\s*(?:(==|=|!=|\bin\b|\bnotin\b|<|>)\s*(.*))?", t)
        if not m:
            raise BadSelector(f"unable to parse requirement: {t}")
        terms.append((m[1], m[2], m[3], m[4] or ""))

    def matches(labels):
        return all(_term(labels, *t) for t in terms)
    return matches


def _term(labels, absent, key, op, value):
    have = labels.get(key)
    values = [v.strip() for v in value.strip("()").split(",")]
    if not op:
        return (have is None) == bool(absent)
    if op in ("<", ">"):
        return have is not None and have.isdigit() and (int(have) < int(value) if op == "<" else int(have) > int(value))
    inside = have is not None and have in values
    return inside if op in ("=", "==", "in") else not inside


def field_selector(text, resource):
    """A function of an object."""
    terms = []
    for term in filter(None, (text or "").split(",")):
        m = re.fullmatch(r"([\w.]+)(==|=|!=)(.*)", term)
        if not m:
            raise BadSelector(f"invalid selector: '{text}'; can't understand '{term}'")
        if m[1] not in ("metadata.name", "metadata.namespace", *FIELDS.get(resource, ())):
            raise BadSelector(f"field label not supported: {m[1]}")
        terms.append((m[1].split("."), m[2] == "!=", m[3]))

    def value(item, path):
        for key in path:
            item = item.get(key, {}) if isinstance(item, dict) else {}
        return item if isinstance(item, str) else str(item).lower() if item != {} else ""

    def matches(item):
        return all((value(item, path) == want) != negated for path, negated, want in terms)
    return matches


class _Secure(_Listener):
    """Handshakes in the connection's own thread; knows its connections, so that it can end them."""
    allow_reuse_address = True

    def __init__(self, address, handler, context):
        self.open, self.context = set(), context
        super().__init__(address, handler)

    def process_request_thread(self, request, client_address):
        try:
            request = self.context.wrap_socket(request, server_side=True)
        except OSError:
            return self.shutdown_request(request)
        self.open.add(request)
        try:
            return super().process_request_thread(request, client_address)
        finally:
            self.open.discard(request)

    def drop(self):
        """Every connection breaks off."""
        for s in list(self.open):
            try:
                socket.socket.shutdown(s, socket.SHUT_RDWR)
            except OSError:
                pass


class _Object:
    def __init__(self, item, version):
        self.item = dict(item)
        self.item["metadata"] = dict(item["metadata"], resourceVersion=str(version))
        self.text = json.dumps(self.item).encode()

    @property
    def labels(self):
        return self.item["metadata"].get("labels") or {}


class KubeApi:
    """put() and delete() change objects; requests: (path, query) of all that was asked."""

    def __init__(self, env):
        self.token, self.requests = "first", []
        self.resources = dict(RESOURCES)
        self.forbidden = set()          # resources
        self.silent = False             # nothing is answered, and no watch says anything
        self.bookmark_seconds = 1
        self.compress_from = 128 << 10  # bytes of a list
        self.objects = {}               # resource -> {(namespace, name): _Object}
        self.log = []                   # (version, resource, before, after): _Object or None
        self.version, self.compacted = 100, 100
        self.snapshots = {}             # continue token -> (items that are left, version)
        self.watches = []               # those that run: a dict each
        self.moved = threading.Condition()
        self.env, self.generation, self.last_words = env, 0, b""
        self.token_file = env.path("token", self.token)
        self.ca_file = env.path("ca.crt", "")
        self.pem, self.port, self.server = 0, 0, None
        self._start()
        env.at_end(self.stop)
        self.kubeconfig = env.path("kubeconfig", json.dumps({
            "apiVersion": "v1", "kind": "Config",
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority": "ca.crt"}}],
            "users": [{"name": "u", "user": {"tokenFile": "token"}}]}))

    # ---- the server ----

    def _start(self):
        api = self

        class Handler(_Quiet):
            def do_GET(self):
                try:
                    api.answer(self)
                except OSError:
                    self.close_connection = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.env.path(f"kube-{self.pem}.pem", PEMS[self.pem]))
        self._replace(self.ca_file, PEMS[self.pem][PEMS[self.pem].index("-----BEGIN CERT"):])
        self.server = _Secure(("127.0.0.1", self.port), Handler, context)
        self.port = self.server.server_address[1]
        self.address, self.url = f"127.0.0.1:{self.port}", f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def _replace(path, text):
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def stop(self):
        if not self.server:
            return
        with self.moved:
            self.generation += 1
            self.moved.notify_all()
        self.server.shutdown()
        self.server.drop()
        self.server.server_close()
        self.server = None

    def start(self, compacted=False, other_ca=False):
        """On the same port. compacted: what happened before is not told any more. other_ca: another certificate, by another CA,
        whose file is replaced."""
        if compacted:
            self.compact()
        self.pem ^= other_ca
        self._start()

    def restart(self, **how):
        self.stop()
        self.start(**how)

    def rotate(self, token):
        """Another token counts from now on."""
        self._replace(self.token_file, token)
        self.token = token

    def hang_up(self, last=b""):
        """Every watch ends, after these bytes."""
        with self.moved:
            self.generation, self.last_words = self.generation + 1, last
            self.moved.notify_all()

    def compact(self):
        """Watches that begin from a version before now, and all continue tokens, are too old."""
        with self.moved:
            self.compacted = self.version
            self.snapshots.clear()

    def gone(self):
        """Watches that run get a 410 as an event."""
        self.compact()
        with self.moved:
            for w in self.watches:
                w["gone"] = True
            self.moved.notify_all()

    # ---- objects ----

    def install(self, resource, group, kind, namespaced=True):
        with self.moved:
            self.resources[resource] = (group, kind, namespaced)

    def put(self, resource, *items):
        with self.moved:
            group, kind, namespaced = self.resources[resource]
            known = self.objects.setdefault(resource, {})
            for item in items:
                meta = item["metadata"]
                if namespaced:
                    meta.setdefault("namespace", "default")
                meta.setdefault("uid", f"uid-{resource}-{meta['name']}")
                key = (meta.get("namespace", ""), meta["name"])
                self.version += 1
                item = {"apiVersion": re.sub("/apis?/", "", group), "kind": kind, **item}
                now = _Object(item, self.version)
                self.log.append((self.version, resource, known.get(key), now))
                known[key] = now
            self.moved.notify_all()

    def delete(self, resource, name, namespace="default"):
        with self.moved:
            before = self.objects[resource].pop((namespace if self.resources[resource][2] else "", name))
            self.version += 1
            # What a watcher gets is the object as it was, at the version of its end.
            self.log.append((self.version, resource, _Object(before.item, self.version), None))
            self.moved.notify_all()

    def watching(self, resource):
        """How many watch it."""
        with self.moved:
            return len([w for w in self.watches if w["resource"] == resource])

    def lists(self, path):
        """How often a list was begun; watches and further pages do not count."""
        return len([1 for p, q in self.requests if p == path and "watch" not in q and "continue" not in q])

    # ---- answers ----

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        with self.moved:
            self.requests.append((path, query))
            generation = self.generation
        while self.silent and generation == self.generation:
            time.sleep(0.05)
        if handler.headers.get("Authorization") != "Bearer " + self.token:
            return self.refuse(handler, 401, "Unauthorized", "Unauthorized")
        resource, namespace = self._resource(path)
        if not resource:
            return self.refuse(handler, 404, "NotFound", "the server could not find the requested resource")
        if resource in self.forbidden:
            return self.refuse(handler, 403, "Forbidden", f'{resource} is forbidden: User "u" cannot list resource "{resource}"')
        try:
            by_label = label_selector(query.get("labelSelector"))
            by_field = field_selector(query.get("fieldSelector"), resource)
        except BadSelector as e:
            return self.refuse(handler, 400, "BadRequest", str(e))

        def selected(o):
            return o is not None and namespace in (None, o.item["metadata"].get("namespace")) and by_label(o.labels) and by_field(o.item)
        if query.get("watch") in ("1", "true"):
            return self.watch(handler, resource, query, selected, generation)
        return self.list(handler, resource, query, selected)

    def _resource(self, path):
        """(resource, namespace or None)"""
        for name, (group, _, namespaced) in list(self.resources.items()):
            m = re.fullmatch(re.escape(group) + r"(?:/namespaces/([^/]+))?/" + name, path)
            if m and (namespaced or not m[1]):
                return name, m[1]
        return None, None

    @staticmethod
    def refuse(handler, status, reason, message):
        KubeApi.send(handler, status, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
                                                  "reason": reason, "code": status}).encode())

    @staticmethod
    def send(handler, status, text, compress=False):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        if compress:
            text = gzip.compress(text, 1)
            handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def list(self, handler, resource, query, selected):
        limit, token = int(query.get("limit", "0")), query.get("continue")
        with self.moved:
            if token:
                if token not in self.snapshots:
                    return self.refuse(handler, 410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
                items, version = self.snapshots[token]
            else:
                items = [o for _, o in sorted(self.objects.get(resource, {}).items()) if selected(o)]
                version = self.version
            more = ""
            if limit and len(items) > limit and query.get("resourceVersion") != "0":
                more = base64.urlsafe_b64encode(f"{resource} {version} {len(items)} {len(self.requests)}".encode()).decode()
                self.snapshots[more] = (items[limit:], version)
                items = items[:limit]
        meta = {"resourceVersion": str(version)}
        if more:
            meta["continue"] = more
        group, kind, _ = self.resources[resource]
        head = json.dumps({"kind": kind + "List", "apiVersion": re.sub("/apis?/", "", group), "metadata": meta})[:-1]
        text = head.encode() + b', "items": [' + b",".join(o.text for o in items) + b"]}\n"
        return self.send(handler, 200, text, len(text) > self.compress_from and "gzip" in handler.headers.get("Accept-Encoding", ""))

    def _since(self, version, resource):
        at = bisect.bisect_right(self.log, version, key=lambda e: e[0])
        return [e for e in self.log[at:] if e[1] == resource]

    def watch(self, handler, resource, query, selected, generation):
        version = int(query.get("resourceVersion") or "0")
        end = time.monotonic() + int(query.get("timeoutSeconds", "1800"))
        me = {"resource": resource, "gone": version and version < self.compacted}

        def bookmark_of(number, **more):
            group, kind, _ = self.resources[resource]
            return json.dumps({"kind": kind, "apiVersion": re.sub("/apis?/", "", group), "metadata": {
                "resourceVersion": str(number), "creationTimestamp": None, **more}}).encode()

        def event(kind, item):
            line = b'{"type":"' + kind.encode() + b'","object":' + item + b"}\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with self.moved:
            first = [] if version else [o for o in self.objects.get(resource, {}).values() if selected(o)]
            version = version or self.version
            self.watches.append(me)
        try:
            for o in first:
                event("ADDED", o.text)
            if query.get("sendInitialEvents") == "true":
                event("BOOKMARK", bookmark_of(version, annotations={"k8s.io/initial-events-end": "true"}))
            bookmark = time.monotonic() + self.bookmark_seconds
            while True:
                with self.moved:
                    if not self._since(version, resource) and generation == self.generation and not me["gone"]:
                        self.moved.wait(max(0.01, min(bookmark, end) - time.monotonic()))
                    news, now = self._since(version, resource), self.version
                while self.silent and generation == self.generation:
                    time.sleep(0.05)
                if me["gone"]:
                    event("ERROR", json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                                               "message": f"too old resource version: {version} ({self.version})"}).encode())
                    break
                for number, _, before, after in news:
                    was, is_ = selected(before), selected(after)
                    if is_:
                        event("MODIFIED" if was else "ADDED", after.text)
                    elif was:
                        event("DELETED", _Object(before.item, number).text)
                    version = number
                if generation != self.generation:
                    last = self.last_words
                    if last:
                        handler.wfile.write(b"%x\r\n%s\r\n" % (len(last), last))
                    handler.close_connection = True
                    return handler.connection.shutdown(socket.SHUT_RDWR)
                if time.monotonic() >= end:
                    break
                if not news and time.monotonic() >= bookmark and query.get("allowWatchBookmarks") in ("1", "true"):
                    event("BOOKMARK", bookmark_of(now))
                    version = now
                    bookmark = time.monotonic() + self.bookmark_seconds
            return handler.wfile.write(b"0\r\n\r\n")
        finally:
            with self.moved:
                self.watches.remove(me)
