# SPDX-License-Identifier: Apache-2.0
"""Pinned profiles and source links on the real server: who may make a pin and who may not. A pin outlives the data that it was made
of, a restart and a kill. It is served in go tool pprof's format. A full disk is reported."""
import gzip
import hashlib
import json
import os
import urllib.request

from harness import Echo, Server, Skip, check, http_get, run, scrape_config, wait_until

WEB = "".join(["tokens:\n"] + [f"- {{name: {name}, sha256: {hashlib.sha256(name.encode()).hexdigest()}, rights: [{rights}]}}\n"
                               for name, rights in (("reader", "read"), ("writer", "write"), ("both", "read, write"), ("all", "read, write, admin"))])
QUERY = "merge(goroutines)"


def ask(server, method, path, token=None, data=None, headers=()):
    """(status, body) of any request."""
    request = urllib.request.Request(server.url + path, method=method, data=data.encode() if data is not None else None,
                                     headers={**({"Authorization": "Bearer " + token} if token else {}), **dict(headers)})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def pin(server, token="both", query=QUERY, headers=(), name="before"):
    form = urllib.parse.urlencode({"query": query, "name": name})
    return ask(server, "POST", "/api/v1/pins", token, form, headers)


def pins(server):
    status, body = ask(server, "GET", "/api/v1/pins", "reader")
    check(status == 200, f"pins: {status} {body}")
    return json.loads(body)["data"]


def profiles_there(server):
    return wait_until("a profile", lambda: json.loads(ask(server, "GET", "/api/v1/query?query=" + QUERY, "reader")[1])["data"]["result"], 30)


def test_pins(env):
    web = env.path("web.yml", WEB)
    config = scrape_config([Echo(env).address])
    server = Server(env, config, ["--web.config.file=" + web, "--web.enable-pins", "--web.max-pins=2", "--web.enable-admin-api"])
    profiles_there(server)
    # who may
    check(pin(server, None)[0] == 401, "nobody has to log in")
    for token in ("reader", "writer"):
        status, body = pin(server, token)
        check(status == 403 and b"read and write" in body, f"{token}: {status} {body}")
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example.org"}):
        status, body = pin(server, headers=headers)
        check(status == 403, f"{headers}: {status} {body}")
    check(not pins(server)["pins"], "a refused pin is there")
    # made, listed, read
    status, body = pin(server)
    check(status == 200, f"pin: {status} {body}")
    made = json.loads(body)["data"]
    listed = pins(server)
    check(listed["pins"] == [made] and listed["max"] == 2 and listed["bytes"] == made["bytes"], f"{listed}")
    check(made["query"] == QUERY and made["name"] == "before" and made["type"].startswith("goroutine"), f"{made}")
    status, body = ask(server, "GET", "/api/v1/pins/" + made["id"], "reader")
    check(status == 200 and b"query: " + QUERY.encode() in gzip.decompress(body), f"{status}")
    # bad questions
    for query, want in (("merge(", 400), ("1 + 1", 422), ("merge(goroutines{job='none'})", 404)):
        status, text = pin(server, query=query)
        check(status == want, f"{query}: {status} {text}")
    for name in ("..%2f..%2fversion", "%2e%2e", "0123456789abcdef", "A" * 16, "x" * 5000, made["id"] + ".json", made["id"][:-1] + "%00"):
        for method, token in (("GET", "reader"), ("DELETE", "writer")):
            status, text = ask(server, method, "/api/v1/pins/" + name, token)
            check(status in (400, 404, 414), f"{method} {name}: {status} {text[:200]}")
    check(pin(server)[0] == 200, "the second of two")
    status, text = pin(server)
    check(status == 422 and b"--web.max-pins" in text, f"{status} {text}")
    # it outlives what it was made of, and a kill
    ask(server, "POST", "/api/v1/admin/tsdb/delete_series?match[]=goroutines", "all", "")
    server.kill()
    with open(os.path.join(server.storage, "pins", "00000000000000aa.pb.gz"), "wb") as half:
        half.write(b"of a crash")
    server.restart()
    check(not os.path.exists(os.path.join(server.storage, "pins", "00000000000000aa.pb.gz")), "half a pin stayed")
    check(len(pins(server)["pins"]) == 2, f"{pins(server)}")
    again = ask(server, "GET", "/api/v1/pins/" + made["id"], "reader")
    check(again == (200, body), f"after the restart: {again[0]}")
    # removed
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        check(ask(server, "DELETE", "/api/v1/pins/" + made["id"], "writer", headers=headers)[0] == 403, f"{headers}: removed")
    check(ask(server, "DELETE", "/api/v1/pins/" + made["id"], "reader")[0] == 403, "a reader removed one")
    check(ask(server, "DELETE", "/api/v1/pins/" + made["id"], "writer")[0] == 204, "not removed")
    check(ask(server, "GET", "/api/v1/pins/" + made["id"], "reader")[0] == 404, "it is still there")
    check(len(os.listdir(os.path.join(server.storage, "pins"))) == 2, "its files are still there")
    # a configuration with links: read again, and what is wrong with it is told with its place
    server.configure(config + "web: {source_links: [{match: '/src/(.+)', url: 'https://example.org/{1}#L{line}', name: repository}]}\n")
    server.p.send_signal(1)
    path = "/api/v1/source_links?file=/src/a%20b.go&line=7"
    wait_until("the links", lambda: json.loads(ask(server, "GET", path, "reader")[1])["data"] ==
               [{"name": "repository", "url": "https://example.org/a%20b.go#L7"}])
    server.configure(config + "web:\n  source_links:\n  - url: 'javascript:alert(1)'\n")
    status, text = run([env.program("pyrtool"), "check", "config", server.config])
    check(status == 1 and "pyrrha.yml:" in text and ":10: field web.source_links[0].url: a URL is wanted" in text, text)


def test_no_room(env):
    """A disk that is full: the answer says so, and nothing is left that takes its room."""
    directory = os.path.join(env.dir, "pyrrha-data", "pins")
    os.makedirs(directory)
    under = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=8k none "{directory}" && exec "$@"', "--"]
    if run([*under, "true"])[0]:
        raise Skip("nothing can be mounted here")
    Server.under = under
    try:
        server = Server(env, scrape_config([Echo(env).address]), ["--web.enable-pins"])
    finally:
        Server.under = ()
    profiles_there(server)
    for _ in range(10):
        status, text = pin(server, None)
        if status != 200:
            break
    check(status == 500 and b"the profile was not pinned: cannot write" in text and b"No space left" in text, f"{status} {text}")
    names = os.listdir(f"/proc/{server.p.pid}/root{directory}")
    check(not [n for n in names if n.endswith(".new")] and len(names) == 2 * len(pins(server)["pins"]), f"{names}")


def test_off(env):
    server = Server(env, "scrape_configs: []\n")
    for method, path in (("GET", "pins"), ("POST", "pins"), ("GET", "pins/0123456789abcdef"), ("DELETE", "pins/0123456789abcdef")):
        status, text = ask(server, method, "/api/v1/" + path, data="query=1" if method == "POST" else None)
        check(status == 503 and b"--web.enable-pins" in text, f"{method} {path}: {status} {text}")
    check(not os.path.exists(os.path.join(server.storage, "pins")), "the directory is there")
    check(http_get(server.url + "/api/v1/source_links?file=x&line=y")[0] == 400, "line=y")
