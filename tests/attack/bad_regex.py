#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that take long: over labels, functions, sample labels, by instant and range queries, series and labels. A
server answers each within seconds, with a value or with an error of the client; never with "no match" because it gave up.

attack(url, seconds) goes round until the time is over and returns what was not so, as texts."""
import argparse
import itertools
import json
import time
import urllib.error
import urllib.parse
import urllib.request

SLOW = 20  # seconds for one answer
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

EXPRESSIONS = ("(.*)*(.*)*(.*)*x$", "((.*)*(.*)*(.*)*(.*)*)*[xq]$", "(.+.+)+[!?]", "(([a-z.])+.)+[A-Z]([a-z])+$", "(?:.?){30}.{30}[!?]",
               "(?:[a-z]*[a-z]*)*[!?]", ".*.*.*.*.*.*.*[!?]", "(x+x+)+y", "(a|aa|.)+$[!]", "((?:.)*?,){11}[!?]", "(\\\\w|\\\\W)*[!?]",
               "(?i)(?:(?:.*n.*)*m.*)*[!?]", "(?:a{0,30}){0,30}[!?]")
SHAPES = ('up{{instance{op}"{re}"}}', '{{__name__{op}"{re}"}}', 'total(cpu, {{function{op}"{re}"}})', 'self(cpu, {{file{op}"{re}"}})',
          'focus(cpu, {{function{op}"{re}"}})', 'hide(cpu, {{function{op}"{re}"}})', 'callers(cpu, {{function{op}"{re}"}})',
          'total(merge(cpu[1h]), {{binary{op}"{re}"}})', 'where(cpu, {{thread{op}"{re}"}})', 'ignore(merge(cpu[5m]), "{re}")',
          'label_replace(up, "x", "$1", "instance", "{re}")', 'self(focus(cpu, "{re}"))')


def requests():
    """(path, params)"""
    for shape, op, regex in itertools.product(SHAPES, ("=~", "!~"), EXPRESSIONS):
        query = shape.format(op=op, re=regex)
        yield "/api/v1/query", {"query": query}
        if shape.startswith("{{__name") or shape.startswith("up"):
            yield "/api/v1/series", {"match[]": query}
            yield "/api/v1/labels", {"match[]": query}
        else:
            now = time.time()
            yield "/api/v1/query_range", {"query": query, "start": now - 60, "end": now, "step": 5}


def post(url, path, params, seconds):
    data = urllib.parse.urlencode(params).encode()
    try:
        with _OPENER.open(urllib.request.Request(url + path, data=data), timeout=seconds) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def attack(url, seconds):
    bad, until, first = [], time.monotonic() + seconds, True
    while first or time.monotonic() < until:
        for path, params in itertools.islice(requests(), 0, None, 1 if seconds else 7):
            if time.monotonic() > until and not first:
                break
            begin = time.monotonic()
            try:
                status, body = post(url, path, params, SLOW * 3)
                answer = json.loads(body)
            except (OSError, ValueError) as e:
                bad.append(f"{path}, {params}: {e!r}")
                continue
            if status >= 500 and status != 503 or answer.get("status") not in ("success", "error"):
                bad.append(f"{path}, {params}: {status} {body[:200]!r}")
            if time.monotonic() - begin > SLOW:
                bad.append(f"{path}, {params}: {time.monotonic() - begin:.1f} s")
        first, bad = False, bad[:50]
    return bad


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:9190")
    p.add_argument("--seconds", type=float, default=10)
    a = p.parse_args()
    bad = attack(a.url, a.seconds)
    print("\n".join(bad) or "it held")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
