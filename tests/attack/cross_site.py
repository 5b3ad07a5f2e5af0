#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What a page of another site makes a person's browser send: forms and fetches to what changes something, and reads under a name
that its owner lets point here (DNS rebinding)."""
import argparse
import http.client
import sys
import time

from half_open import address_of

EVIL = "evil.example"
# Paths of the server and of the agent; a 404 is no way in.
CHANGES = ("/-/quit", "/-/reload", "/api/v1/admin/tsdb/delete_series?match[]=up", "/api/v1/admin/tsdb/clean_tombstones",
           "/api/v1/admin/tsdb/snapshot", "/api/v1/write")
READS = ("/", "/metrics", "/api/v1/query?query=up", "/api/v1/status/config", "/targets", "/nothing", "/debug/pprof/cmdline", "/targets.json")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def requests(port):
    """(method, path, headers) of each that has to be refused."""
    for path in CHANGES:
        for host in (f"localhost:{port}", f"127.0.0.1:{port}"):
            yield "POST", path, {"Host": host, "Origin": f"http://{EVIL}", **FORM}
            yield "POST", path, {"Host": host, "Origin": "null", **FORM}
            yield "POST", path, {"Host": host, "Origin": f"http://localhost:{port + 1}", **FORM}
            yield "POST", path, {"Host": host, "Sec-Fetch-Site": "cross-site", **FORM}
            yield "POST", path, {"Host": host, "Sec-Fetch-Site": "same-site", "Origin": f"http://{host}", **FORM}
        yield "POST", path, {"Host": f"{EVIL}:{port}", "Origin": f"http://{EVIL}:{port}", **FORM}
        yield "POST", path, {"Host": f"{EVIL}:{port}", "Origin": f"http://{EVIL}:{port}", "Sec-Fetch-Site": "same-origin", **FORM}
    for path in READS:
        for host in (EVIL, f"{EVIL}:{port}", f"localhost.{EVIL}:{port}", f"127.0.0.1.{EVIL}"):
            yield "GET", path, {"Host": host}
            yield "OPTIONS", path, {"Host": host, "Origin": f"http://{host}"}


def ask(address, method, path, headers, timeout=10):
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request(method, path, body=b"" if method == "POST" else None, headers={**headers, "Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def attack(url, seconds, once=False):
    """The requests that were not refused: none should be."""
    address, end, through = address_of(url), time.monotonic() + seconds, []
    while time.monotonic() < end:
        for method, path, headers in requests(address[1]):
            if time.monotonic() > end:
                break
            try:
                status, body = ask(address, method, path, headers)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)  # the server is busy with something else
                continue
            if status not in (403, 503):  # 503: no slot, beside other attacks
                through.append(f"{method} {path} {headers}: {status} {body[:80]}")
            time.sleep(0.002)
        if once:
            break
        time.sleep(max(0, min(0.5, end - time.monotonic())))
    return through


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:7070")
    p.add_argument("--seconds", type=float, default=60)
    args = p.parse_args()
    through = attack(args.url, args.seconds)
    print(len(through), "requests were not refused", *through[:10], sep="\n")
    return 1 if through else 0


if __name__ == "__main__":
    sys.exit(main())
