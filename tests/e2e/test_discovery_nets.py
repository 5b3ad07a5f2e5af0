# SPDX-License-Identifier: Apache-2.0
"""dns_sd_configs, docker_sd_configs and consul_sd_configs against servers: real ones where there are any (Debian's unbound, a
consul if it is installed). Otherwise ones of this file that answer as real ones do, and as broken ones do. Labels are held against
promtool's (Debian's 2.42 has no consul_sd_configs). Every target is dropped by a rule, so that nothing is scraped."""
import http.server
import json
import os
import re
import shutil
import signal
import socket
import socketserver
import struct
import threading
import time
import urllib.parse

from harness import patience, Process, Server, Skip, check, free_port, http_get, run, slow, wait_until
from test_promql_oracle import tool

CONFIG = """
scrape_configs:
  - job_name: j
    relabel_configs: [{action: drop, source_labels: [__address__], regex: .*}]
"""


def config(kind, items, top="scrape_interval: 1m"):
    return "global: {%s}\n" % top + CONFIG + f"    {kind}_sd_configs: {json.dumps(items)}\n"


def known(labels):
    """The labels that discovery gives, in an order that can be compared. Each once: a target has several types of profiles."""
    return sorted({tuple(sorted((k, v) for k, v in l.items() if v and (k == "__address__" or k.startswith("__meta_")))) for l in labels})


def found(server):
    return known(t["discoveredLabels"] for t in server.api("targets", state="dropped")["droppedTargets"])


def addresses(server):
    return sorted(dict(t)["__address__"] for t in found(server))


class SwiftServer(Server):
    """Jobs follow their discovery sooner than every 5 s."""

    def __init__(self, env, text):
        super().__init__(env, text, ["--scrape.discovery-reload-interval=100ms"])


def log_has(server, text):
    return text in server.text()


def promtool_finds(env, text, under=()):
    """The same for promtool, which runs discovery for some seconds."""
    status, out = run([*under, tool(env, "promtool"), "check", "service-discovery", "--timeout=3s", env.path("promtool.yml", text), "j"], 60)
    check(status == 0 and "[" in out, f"promtool: {out}")
    answer = json.loads(out[out.index("\n[\n") if "\n[\n" in out else out.index("["):])
    return known(t["discoveredLabels"] for t in answer)


def same_as_promtool(ours, theirs):
    check(theirs and ours == theirs, f"of {len(ours)} ours alone has {[t for t in ours if t not in theirs][:2]}\n"
          f"of {len(theirs)} promtool's alone has {[t for t in theirs if t not in ours][:2]}")


# ---- DNS ----

def with_resolv_conf(env, text):
    """Words before a program that sees this text as /etc/resolv.conf."""
    path = env.path("resolv.conf", text)
    words = ("unshare", "-m", "sh", "-c", f'mount --bind "{path}" /etc/resolv.conf && exec "$@"', "sh")
    if not shutil.which("unshare") or run([*words, "true"])[0]:
        raise Skip("/etc/resolv.conf cannot be mounted over (is this root?)")
    return words


def server_under(words):
    return type("ServerUnder", (SwiftServer,), {"under": words})


def dns_address(used=set()):  # the same set at each call
    """An address of its own for port 53."""
    for i in range(2, 250):
        address = f"127.53.{os.getpid() % 250}.{i}"
        with socket.socket() as s, socket.socket(type=socket.SOCK_DGRAM) as u:
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((address, 53))
                u.bind((address, 53))
            except OSError:
                continue
        if address not in used:
            used.add(address)
            return address
    raise Skip("no port 53 can be had")


TYPES = {"A": 1, "NS": 2, "CNAME": 5, "MX": 15, "AAAA": 28, "SRV": 33}


def dns_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.strip(".").split(".") if p) + b"\0"


def dns_data(kind, text):
    words = text.split()
    if kind in ("A", "AAAA"):
        return socket.inet_pton(socket.AF_INET if kind == "A" else socket.AF_INET6, text)
    return b"".join(struct.pack(">H", int(w)) for w in words[:-1]) + dns_name(words[-1])


class Dns:
    """A server whose answers are told to it: (name, type) -> list of records, or a word: nxdomain, servfail, refused, silent,
    garbage, other (an answer to another question). What does not fit into 512 bytes is cut short over UDP."""

    def __init__(self, env):
        self.address, self.zone, self.asked = dns_address(), {}, []
        dns = self

        class Udp(socketserver.BaseRequestHandler):
            def handle(self):
                answer = dns.answer(self.request[0], False)
                if answer:
                    self.request[1].sendto(answer, self.client_address)

        class Tcp(socketserver.BaseRequestHandler):
            def handle(self):
                head = self.request.recv(2)
                query = self.request.recv(struct.unpack(">H", head)[0]) if len(head) == 2 else b""
                answer = dns.answer(query, True)
                if answer:
                    self.request.sendall(struct.pack(">H", len(answer)) + answer)

        class TcpServer(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads = True, True
        for server in (socketserver.ThreadingUDPServer((self.address, 53), Udp), TcpServer((self.address, 53), Tcp)):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            env.at_end(server.shutdown)
            env.at_end(server.server_close)

    def answer(self, query, tcp):
        end = query.index(b"\0", 12) + 5
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        name, kind = ".".join(labels).lower(), {v: k for k, v in TYPES.items()}.get(struct.unpack(">H", query[end - 4:end - 2])[0])
        said = self.zone.get((name, kind), "nxdomain")
        self.asked.append((name, kind, "tcp" if tcp else "udp"))
        if said == "silent":
            return None
        if said == "garbage":
            return query[:2] + b"\x81\x80\0\1\0\x05\0\0\0\0" + query[12:end] + b"\xc0\x0c\xff\xff garbage"
        if said == "other":
            return query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + dns_name("x.y") + query[end - 4:end] + b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\7"
        rcode = {"nxdomain": 3, "servfail": 2, "refused": 5}.get(said, 0) if isinstance(said, str) else 0
        records = b"" if isinstance(said, str) else b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", TYPES[k], 1, 1, len(dns_data(k, t))) + dns_data(k, t) for k, t in said)
        n = 0 if isinstance(said, str) else len(said)
        cut = not tcp and end + len(records) > 512
        flags = 0x8180 | rcode | (0x200 if cut else 0)
        return query[:2] + struct.pack(">HHHHH", flags, 1, 0 if cut else n, 0, 0) + query[12:end] + (b"" if cut else records)


def unbound(env, zone):
    """Debian's unbound, unpacked into the build directory if it is not installed; its address."""
    tools = os.path.join(env.build, "tools")
    program = shutil.which("unbound") or os.path.join(tools, "usr", "sbin", "unbound")
    if not os.path.exists(program) and shutil.which("apt-get"):
        os.makedirs(tools, exist_ok=True)
        run(["sh", "-c", "apt-get download -qq unbound && dpkg-deb -x unbound_*.deb . && rm -f unbound_*.deb"], 120, cwd=tools)
    if not os.path.exists(program) or run([program, "-V"])[0]:
        raise Skip("no unbound, and Debian's package cannot be had")
    address = dns_address()
    text = f"""server:
  interface: {address}@53
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{env.dir}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  access-control: 127.0.0.0/8 allow
  module-config: "iterator"
  local-zone: "." static
  local-zone: "test." static
""" + "".join(f"  local-data: '{line}'\n" for line in zone) + "remote-control:\n  control-enable: no\n"
    process = Process(env, "unbound", [program, "-d", "-c", env.path("unbound.conf", text)])
    wait_until("unbound runs", lambda: "start of service" in process.text())
    return address


def test_dns_all_types_as_promtool(env):
    address = unbound(env, ["_web._tcp.test. 60 IN SRV 0 5 8080 a.test.", "_web._tcp.test. 60 IN SRV 1 5 8081 b.test.",
                            "a.test. 60 IN A 127.1.2.3", "a.test. 60 IN A 127.1.2.4", "a.test. 60 IN AAAA fd00::7", "test. 60 IN MX 10 mail.test.",
                            "test. 60 IN NS ns1.test.", "test. 60 IN NS ns2.test.", "x.sub.test. 60 IN A 127.1.2.5"])
    under = with_resolv_conf(env, f"search sub.test test\noptions ndots:1\nnameserver {address}\n")
    items = [{"names": ["_web._tcp.test"]}, {"names": ["a.test", "none.test"], "type": "a", "port": 80},
             {"names": ["a.test"], "type": "AAAA", "port": 81}, {"names": ["test."], "type": "MX", "port": 25},
             {"names": ["test."], "type": "NS", "port": 53},
             {"names": ["x", "_web._tcp"], "type": "SRV"}, {"names": ["x"], "type": "A", "port": 82}]
    server = server_under(under)(env, config("dns", items))
    wait_until("all are found", lambda: len(found(server)) == 11)
    ns = [t for t in found(server) if "__meta_dns_ns_record_target" in dict(t)]
    check([dict(t)["__address__"] for t in ns] == ["ns1.test:53", "ns2.test:53"] and dict(ns[0])["__meta_dns_ns_record_target"] == "ns1.test.", str(ns))
    items = [i for i in items if i.get("type") != "NS"]  # which 2.42 does not know
    same_as_promtool([t for t in found(server) if t not in ns], promtool_finds(env, config("dns", items), under))


def test_dns_failures_keep_and_absence_empties(env):
    first, second = Dns(env), Dns(env)
    name = {n: (n + ".test", "A") for n in ("good", "bad", "large")}
    for dns in (first, second):
        dns.zone = {name["good"]: [("A", "127.1.0.1")], name["bad"]: [("CNAME", "c.test"), ("A", "127.1.0.2")],
                    name["large"]: [("A", f"127.2.0.{i}") for i in range(1, 101)]}
    under = with_resolv_conf(env, f"nameserver {first.address}\nnameserver {second.address}\noptions timeout:1 attempts:1\n")
    server = server_under(under)(env, config("dns", [{"names": [n for n, _ in name.values()], "type": "A", "port": 1, "refresh_interval": "300ms"}],
                                             "scrape_interval: 1m, keep_dropped_targets: 1000"))
    wait_until("all are found, the large answer too", lambda: len(found(server)) == 102)
    check(("large.test", "A", "tcp") in first.asked, "what did not fit was asked for over TCP")
    # a server that fails in whatever way: the next one knows
    for how in ("servfail", "refused", "silent", "other"):
        first.zone[name["bad"]], second.zone[name["bad"]] = how, [("A", f"127.1.1.{len(how)}")]
        wait_until(f"the first server is {how}", lambda: f"127.1.1.{len(how)}:1" in addresses(server))
        check(not log_has(server, "discovery failed"), f"{how}: nothing was wrong")
    # both fail: what the name had stays, the others go on
    for i, how in enumerate(("servfail", "refused", "silent", "garbage", "other")):
        was = [a for a in addresses(server) if a.startswith("127.1.1.")]
        first.zone[name["bad"]] = second.zone[name["bad"]] = how
        first.zone[name["good"]] = second.zone[name["good"]] = [("A", f"127.1.0.{10 + i}")]
        wait_until(f"both are {how}, and the others are told", lambda: f"127.1.0.{10 + i}:1" in addresses(server))
        check([a for a in addresses(server) if a.startswith("127.1.1.")] == was, f"{how}: {addresses(server)} was {was}")
    check(log_has(server, "discovery failed") and log_has(server, "bad.test"), "the log names it")
    # it does not exist any more, or has no such record: empty
    for how in ("nxdomain", []):
        first.zone[name["bad"]] = [("A", "127.1.1.9")]
        wait_until("it is there", lambda: "127.1.1.9:1" in addresses(server))
        first.zone[name["bad"]] = second.zone[name["bad"]] = how
        wait_until(f"{how}: it is gone", lambda: not [a for a in addresses(server) if a.startswith("127.1.1.")])
    check(log_has(server, "discovery works again"), "and says when all is well")
    # silence does not hold up the end
    for dns in (first, second):
        dns.zone = {n: "silent" for n in name.values()}
    time.sleep(0.5)
    server.terminate(5)


# ---- HTTP servers of this file ----

class Api:
    """An HTTP server on a socket of a file, or on a port; do(handler) answers."""

    def __init__(self, env, do, path=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def address_string(self):
                return "unix"

            def do_GET(self):
                do(self)

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 256
            address_family = socket.AF_UNIX if path else socket.AF_INET

            def server_bind(self):
                socketserver.TCPServer.server_bind(self)

            def handle_error(self, request, client_address):
                pass
        self.server = Listener(path or ("127.0.0.1", 0), Handler)
        self.port = None if path else self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        env.at_end(self.server.shutdown)
        env.at_end(self.server.server_close)


def reply(handler, status, body, headers=()):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        for k, v in headers:
            handler.send_header(k, v)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    except OSError:
        pass


HOSTILE = [b"[" * 1000000, b"{}", b"7", b'[{"Id":', b"[1]", b'[{"Names":["/a"],"NetworkSettings":{"Networks":{"a":[]}}}]', b"",
           b"[" + b"[]," * 3000000 + b"[]]", b" " * (33 << 20) + b"[]"]


# ---- Docker ----

def container(name, networks, mode=None, ports=(), labels=None, **more):
    return {"Id": (name * 64)[:64], "Names": ["/" + name], "Image": "image:" + name, "ImageID": "sha256:" + "0" * 64, "Command": "run",
            "Created": 1616273136, "Ports": list(ports), "Labels": labels or {}, "State": "running", "Status": "Up 40 seconds",
            "HostConfig": {"NetworkMode": mode or next(iter(networks), "none")}, "Mounts": [],
            "NetworkSettings": {"Networks": {n: {"IPAMConfig": None, "NetworkID": (n * 64)[:64], "EndpointID": "e", "Gateway": "172.17.0.1",
                                                 "IPAddress": ip if ":" not in ip else "", "IPPrefixLen": 16, "IPv6Gateway": "",
                                                 "GlobalIPv6Address": ip if ":" in ip else "", "MacAddress": ""} for n, ip in networks.items()}}, **more}


def port(number, public=None, kind="tcp", ip="0.0.0.0"):
    return {"PrivatePort": number, "Type": kind, **({"PublicPort": public, "IP": ip} if public else {})}


class Docker(Api):
    """An engine, as its API (1.41) is documented; it knows the filter label."""

    def __init__(self, env, path=None):
        self.containers, self.networks, self.broken, self.asked = [], [], None, []
        super().__init__(env, self.do, path)

    def do(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        self.asked.append(handler.path)
        path = re.sub(r"^/v1\.\d+", "", url.path)
        version = [("Api-Version", "1.41"), ("Ostype", "linux")]
        if path == "/_ping":
            return reply(handler, 200, b"OK", version)
        if path == "/version":
            return reply(handler, 200, {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}, version)
        if path == "/networks":
            return reply(handler, 200, self.networks, version)
        check(path == "/containers/json", path)
        if self.broken is not None:
            return reply(handler, *self.broken)
        filters = json.loads(urllib.parse.parse_qs(url.query).get("filters", ["{}"])[0])
        wanted = [v.split("=") for v in filters.get("label", {})]
        return reply(handler, 200, [c for c in self.containers if all(c["Labels"].get(k) == v for k, v in wanted)], version)


def engine(env, path=None):
    docker = Docker(env, path)
    docker.networks = [{"Name": n, "Id": (n * 64)[:64], "Created": "2021-03-20T20:45:27Z", "Scope": scope, "Driver": "bridge", "Internal": internal,
                        "Attachable": True, "Ingress": ingress, "Containers": {}, "Options": {}, "Labels": labels}
                       for n, scope, internal, ingress, labels in (("bridge", "local", False, False, {}), ("ingress", "swarm", False, True, {}),
                                                                   ("private", "local", True, False, {"com.docker.compose.network": "p"}),
                                                                   ("host", "local", False, False, None))]
    docker.containers = [
        container("plain", {"bridge": "172.17.0.2"}, ports=[port(80, 8080), port(80, 8080, ip="::"), port(53, kind="udp")],
                  labels={"com.docker.compose.project": "p", "x-y": "z", "want": "yes", "empty": ""}),
        container("silent", {"private": "172.18.0.3"}, labels={"want": "yes"}),
        container("udp", {"private": "172.18.0.4"}, ports=[port(53, kind="udp")]),
        container("both", {"private": "172.18.0.5", "bridge": "172.17.0.5"}, "private", [port(1000), port(1001, 9)]),
        container("six", {"private": "fd00::6"}, ports=[port(80)]),
        container("onhost", {"host": ""}, "host", labels={"want": "yes"}),
        container("shares", {}, "container:" + ("both" * 64)[:64], [port(9104)]),
        container("lost", {}, "container:" + ("gone" * 64)[:64], [port(9104)]),
        container("strange", {"unknown": "172.19.0.1"}),
        container("nameless", {"bridge": "172.17.0.9"}, Image="", ImageID="") | {"Names": []},
    ]
    return docker


# What 2.42 does not have yet: addresses of IPv6 alone, networks shared with another container, the first network of several,
# images.
SINCE_2_42 = ("/six", "/shares"), ("__meta_docker_container_image", "__meta_docker_container_image_id")


def as_2_42(targets):
    return sorted(tuple(l for l in t if l[0] not in SINCE_2_42[1]) for t in targets
                  if dict(t)["__meta_docker_container_name"] not in SINCE_2_42[0])


def test_docker_labels_as_promtool(env):
    path = env.path("d.sock")
    engine(env, path)
    tcp = engine(env)
    items = [{"host": "unix://" + path, "match_first_network": False, "port": 99, "host_networking_host": "h"},
             {"host": f"tcp://127.0.0.1:{tcp.port}", "match_first_network": False, "filters": [{"name": "label", "values": ["want=yes"]}]},
             {"host": f"http://127.0.0.1:{tcp.port}", "match_first_network": False, "port": 98, "host_networking_host": "i"}]
    server = SwiftServer(env, config("docker", items))
    wait_until("containers are found", lambda: {"h", "i", "localhost"} <= set(addresses(server)))
    for item in items:
        del item["match_first_network"]
    same_as_promtool(as_2_42(found(server)), as_2_42(promtool_finds(env, config("docker", items))))
    names = [dict(t)["__meta_docker_container_name"] for t in found(server) if ("__address__", "h") not in t]
    check(names.count("/shares") == 2 and names.count("/six") == 1 and "/lost" not in names and "/nameless" not in names, str(names))
    check(all(p.startswith(("/v1.", "/version", "/_ping")) for p in tcp.asked), "the version that the engine speaks is asked for")
    server.configure(config("docker", [{"host": "unix://" + path}]))
    server.p.send_signal(signal.SIGHUP)
    wait_until("the first network by name is taken alone", lambda: addresses(server) == sorted(
        ["172.17.0.2:80"] * 2 + ["172.17.0.5:1000", "172.17.0.5:1001", "172.17.0.5:9104", "172.18.0.3:80", "172.18.0.4:80", "172.19.0.1:80",
                                 "[fd00::6]:80", "localhost"]))


def test_docker_failures_keep(env):
    docker = engine(env)
    server = SwiftServer(env, config("docker", [{"host": f"tcp://127.0.0.1:{docker.port}", "refresh_interval": "300ms"}]))
    wait_until("containers are found", lambda: found(server))
    was = found(server)
    for broken in [(500, {"message": "oops"}), (503, []), (404, b"")] + [(200, b) for b in HOSTILE]:
        docker.broken, n = broken, len(docker.asked)
        wait_until("it was asked", lambda: len(docker.asked) > n + 3)
        check(found(server) == was, f"{repr(broken[1])[:40]}: {found(server)}")
        check(log_has(server, "discovery failed"), "the log says so")
    docker.broken, docker.containers = None, docker.containers[1:2]
    wait_until("it goes on", lambda: len(found(server)) == 1)
    docker.containers = []
    wait_until("none is there", lambda: not found(server))


# ---- Consul ----

def instance(service, i, tags=(), **more):
    return {"Node": {"ID": "0", "Node": "node%d" % (i % 3), "Address": "127.9.0.%d" % (i % 250), "Datacenter": "dc7", "TaggedAddresses": {"lan": "127.9.0.1"},
                     "Meta": {"a-b": "c"}, "CreateIndex": 1},
            "Service": {"ID": f"{service}-{i}", "Service": service, "Tags": list(tags), "Address": "", "Meta": {"v": "1"}, "Port": 8000 + i, **more},
            "Checks": [{"CheckID": "serfHealth", "Status": "passing"}]}


class Consul(Api):
    """An agent as its API is documented: blocking queries, an index per query. No test waits for its timeout."""

    def __init__(self, env):
        self.services, self.index, self.changed = {}, 10, threading.Condition()
        self.broken, self.asked, self.waiting, self.most, self.force_index = {}, [], 0, 0, None
        super().__init__(env, self.do)

    def set(self, services=None, index=None):
        with self.changed:
            if services is not None:
                self.services = services
            self.index = index if index is not None else self.index + 1
            self.changed.notify_all()

    def do(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        self.asked.append((url.path, query, dict(handler.headers)))
        if url.path == "/p/v1/agent/self":
            return reply(handler, *self.broken.get("agent", (200, {"Config": {"Datacenter": "dc7", "NodeName": "n"}, "Member": {}})))
        with self.changed:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            after = int(query.get("index", ["0"])[0])
            if after and self.force_index != 0:
                self.changed.wait_for(lambda: self.index > after or url.path in self.broken or self.index < 5, timeout=60 * patience())
            self.waiting -= 1
            if url.path == "/p/v1/catalog/services":
                body = {n: sorted({t for i in v for t in i["Service"]["Tags"]}) for n, v in self.services.items()}
            else:
                tags = set(query.get("tag", []))
                body = [i for i in self.services.get(urllib.parse.unquote(url.path.split("/")[-1]), []) if tags <= set(i["Service"]["Tags"])]
            index = self.index if self.force_index is None else self.force_index
            broken = self.broken.get(url.path)
        return reply(handler, *(broken or (200, body)), headers=[("X-Consul-Index", str(index))])


def consul_config(consul, **more):
    return config("consul", [{"server": f"127.0.0.1:{consul.port}", "path_prefix": "/p", "token": "tok", "refresh_interval": "200ms", **more}],
                  "scrape_interval: 1m, keep_dropped_targets: 5000")


def test_consul_follows_its_index(env):
    consul = Consul(env)
    consul.set({"web": [instance("web", 1, ["a"]), instance("web", 2)], "db/x y": [instance("db/x y", 3)]})
    server = SwiftServer(env, consul_config(consul, node_meta={"k": "v"}, filter="F", health_filter="H", namespace="ns", partition="pa"))
    wait_until("both services are found", lambda: len(found(server)) == 3)
    labels = dict(found(server)[0])
    check(labels["__meta_consul_dc"] == "dc7" and labels["__meta_consul_service"] == "web" and labels["__meta_consul_tags"] == ",a,", str(labels))
    catalog = next(q for p, q, _ in consul.asked if p.endswith("/catalog/services"))
    check(catalog == {"ns": ["ns"], "partition": ["pa"], "node-meta": ["k:v"], "filter": ["F"], "stale": ["true"]}, str(catalog))
    health = next((q, h) for p, q, h in consul.asked if p.endswith("/health/service/web"))
    check(health[0]["filter"] == ["H"] and health[1]["X-Consul-Token"] == "tok", str(health))
    check("tok" not in server.text(), "the token is not in the log")
    # blocked, nobody asks again
    time.sleep(1)
    n = len(consul.asked)
    time.sleep(1)
    check(len(consul.asked) == n, f"asked {len(consul.asked) - n} times while nothing changed")
    consul.set({"web": [instance("web", 1)], "db/x y": [instance("db/x y", 3)], "new": [instance("new", 4)]})
    wait_until("the change is seen", lambda: len(found(server)) == 3 and "127.9.0.4:8004" in addresses(server))
    consul.set({"web": [instance("web", 1)]})
    wait_until("services that are gone take their targets along", lambda: addresses(server) == ["127.9.0.1:8001"])
    # the index goes backwards: the server was restored
    consul.set({"web": [instance("web", 5)]}, index=3)
    wait_until("what has a smaller index is believed", lambda: addresses(server) == ["127.9.0.5:8005"])
    consul.set({"web": [instance("web", 6)]}, index=4)
    wait_until("and goes on from there", lambda: addresses(server) == ["127.9.0.6:8006"])
    # an index of 0, always: answers come at once, so it is asked every refresh_interval and no more
    consul.force_index = 0
    consul.set({"web": [instance("web", 7)]}, index=20)
    wait_until("index 0 is taken", lambda: addresses(server) == ["127.9.0.7:8007"])
    n = len(consul.asked)
    time.sleep(2)
    check(len(consul.asked) - n <= 2 * 10 + 4, f"{len(consul.asked) - n} requests in 2 s of 200 ms")
    consul.set({"web": [instance("web", 8)]}, index=20)
    wait_until("also of an equal index", lambda: addresses(server) == ["127.9.0.8:8008"])


def test_consul_failures_keep(env):
    consul = Consul(env)
    consul.broken["agent"] = (500, b"not yet")
    consul.set({"web": [instance("web", 1)], "db": [instance("db", 2)]})
    server = SwiftServer(env, consul_config(consul))
    wait_until("it says why there is nothing", lambda: log_has(server, "HTTP 500: not yet"))
    del consul.broken["agent"]
    wait_until("found once the agent answers", lambda: len(found(server)) == 2)
    names = [f"h{i}" for i in range(len(HOSTILE) + 4)]
    consul.set({n: [instance(n, i)] for i, n in enumerate(["web", "db", *names])})
    wait_until("all are found", lambda: len(found(server)) == len(names) + 2)
    was = found(server)
    with consul.changed:
        for name, broken in zip(names, [(500, b"No cluster leader"), (503, []), (429, b""), (200, b'[{"Node":{},"Service":{"Port":"x"}}]')] + [(200, b) for b in HOSTILE]):
            consul.broken["/p/v1/health/service/" + name] = broken
        consul.index += 1
        n = len(consul.asked)
        consul.changed.notify_all()
    wait_until("all were asked, and again", lambda: all([p for p, _, _ in consul.asked[n:]].count("/p/v1/health/service/" + x) > 1 for x in names))
    check(found(server) == was, f"{[t for t in was if t not in found(server)]}")
    check(log_has(server, "discovery failed"), "the log says so")
    # one that fails does not hold up the others
    consul.broken = {"/p/v1/health/service/web": (500, b"")}
    consul.set({"web": [instance("web", 1)], "db": [instance("db", 3)]})
    wait_until("the other goes on", lambda: addresses(server) == ["127.9.0.0:8000", "127.9.0.3:8003"])
    consul.broken["/p/v1/catalog/services"] = (200, b'{"web":"x"}')
    consul.set()
    wait_until("the catalog is wrong", lambda: log_has(server, "the tags of a service are not a list"))
    check(len(found(server)) == 2, "it stays")
    consul.broken.clear()
    consul.set({"web": [instance("web", 9)]})
    wait_until("all goes on", lambda: addresses(server) == ["127.9.0.9:8009"])
    wait_until("and it says so", lambda: log_has(server, "discovery works again"))


@slow
def test_consul_many_services(env):
    """Hundreds of services: one thread, few connections, each service still followed."""
    consul = Consul(env)
    names = [f"s{i}" for i in range(400)]
    consul.set({n: [instance(n, i, ["t", n])] for i, n in enumerate(names)})
    server = SwiftServer(env, consul_config(consul, refresh_interval="1s", tags=["t"]))
    wait_until("all are found", lambda: len(found(server)) == 400, 60)
    threads = [open(f"/proc/{server.p.pid}/task/{t}/comm", encoding="utf-8").read().strip() for t in os.listdir(f"/proc/{server.p.pid}/task")]
    check(threads.count("sd-consul") == 1, str(threads))
    check(consul.most <= 101, f"{consul.most} requests at once")
    n, begin = len(consul.asked), time.monotonic()
    time.sleep(2)
    rate = (len(consul.asked) - n) / (time.monotonic() - begin)
    check(rate < 220, f"{rate:.0f} requests a second")
    services = {n: [instance(n, i, ["t", n])] for i, n in enumerate(names[:50])}
    services["s7"] = [instance("s7", 200, ["t"])]
    services["s8"] = [instance("s8", 8, ["u"])]  # has lost the tag
    consul.set(services)
    wait_until("what was deregistered is gone", lambda: len(found(server)) == 49)
    wait_until("s7 is followed", lambda: "127.9.0.200:8200" in addresses(server))
    server.terminate(5)


def test_consul_of_its_own_kind(env):
    """A real agent, if one is installed."""
    program = shutil.which("consul")
    if not program:
        raise Skip("no consul")
    ports = [free_port() for _ in range(3)]
    url = f"http://127.0.0.1:{ports[0]}/v1/agent/service/"
    argv = [program, "agent", "-dev", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-http-port", str(ports[0]), "-dns-port", "-1", "-grpc-port",
            "-1", "-serf-lan-port", str(ports[1]), "-serf-wan-port", "-1", "-server-port", str(ports[2])]

    def ask(path, body=None):
        p = run(["curl", "-fsS", "-X", "PUT", "-d", json.dumps(body or {}), url + path])
        check(p[0] == 0, p[1])

    def begin():
        agent = Process(env, "consul", argv)
        wait_until("consul has a leader", lambda: http_get(url.replace("agent/service/", "status/leader"))[2] not in (b'""', b""))
        return agent
    agent = begin()
    server = SwiftServer(env, config("consul", [{"server": f"127.0.0.1:{ports[0]}", "refresh_interval": "100ms"}]))
    ask("register", {"Name": "web", "ID": "web-1", "Address": "127.1.0.1", "Port": 80, "Tags": ["a", "b"], "Meta": {"x-y": "z"}})
    ask("register", {"Name": "web", "ID": "web-2", "Port": 81, "Check": {"TTL": "60s", "Status": "warning"}})
    wait_until("registered services are found", lambda: {"127.1.0.1:80", "127.0.0.1:81"} <= set(addresses(server)))
    by_id = {dict(t).get("__meta_consul_service_id"): dict(t) for t in found(server)}
    one = by_id["web-1"]
    check(one["__meta_consul_tags"] == ",a,b," and one["__meta_consul_service_metadata_x_y"] == "z" and one["__meta_consul_dc"] == "dc1" and
          one["__meta_consul_health"] == "passing" and one["__meta_consul_tagged_address_lan"] == "127.0.0.1", str(one))
    check(by_id["web-2"]["__meta_consul_health"] == "warning", str(by_id["web-2"]))
    ask("maintenance/web-1?enable=true")
    wait_until("maintenance is seen", lambda: "maintenance" in str(found(server)))
    ask("deregister/web-1")
    ask("deregister/web-2")
    wait_until("it is gone", lambda: not [a for a in addresses(server) if a in ("127.1.0.1:80", "127.0.0.1:81")])
    # it ends and begins anew, with nothing in it and smaller indexes
    ask("register", {"Name": "old", "Port": 82})
    wait_until("found", lambda: "127.0.0.1:82" in addresses(server))
    agent.kill()
    wait_until("it says that it is gone", lambda: log_has(server, "discovery failed"))
    check("127.0.0.1:82" in addresses(server), "what it had stays")
    agent = begin()
    ask("register", {"Name": "fresh", "Port": 83})
    wait_until("what the new one has is found, and the old is gone", lambda: "127.0.0.1:83" in addresses(server) and
               "127.0.0.1:82" not in addresses(server), 60)
