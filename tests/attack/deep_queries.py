#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Queries that make high trees: chains of operators, of durations, of subqueries, nested calls, by query, range query,
format_query, parse_query and explain. A server answers each within seconds, with a value or an error of the client.

attack(url, seconds) goes round until the time is over and returns what was not so, as texts. slow: seconds that one answer may take."""
import argparse
import time
import urllib.error
import urllib.parse
import urllib.request

SLOW = 10  # seconds for one answer
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def chain(first, op, rest, last, n):
    return first + (op + rest) * (n - 1) + last


def queries(lengths):
    """(name, query)"""
    for n in lengths:
        for op in "+-*/%":
            yield f"{n} terms of {op}", chain("1", op, "1", "", n)
        yield f"{n} powers", chain("1", "^", "1", "", n)
        for op in (" or ", " and ", " unless ", " == ", " atan2 ", " + on (a) "):
            yield f"{n} terms of{op}", chain("up", op, "up", "", n)
        yield f"{n} durations", chain("up[1m", "+", "step()", "]", n)
        yield f"{n} durations of a step", chain("up[1h:1m", "-", "step()", "]", n)
        yield f"{n} durations of an offset", chain("up offset (1m", "+", "step()", ")", n)
        yield f"{n} subqueries", "up" + "[1m:1s]" * n
        yield f"{n} signs", "-" * n + "1"
        yield f"{n} parentheses", "(" * n + "1" + ")" * n
        yield f"{n} offsets' parentheses", "up offset " + "(" * n + "1" + ")" * n
        for call in ("abs(", "sum(", "merge(", "split by (a)(", "topk(1,", "absent(", "histogram_quantile(0.5,"):
            for depth in (n, 390):
                yield f"{depth} of {call}", call * depth + "up" + ")" * depth
        yield f"{n} groups of an expression", 'up{a=~"' + "(" * n + "a" + ")" * n + '"}'
        yield f"{n} JSON-like braces", "{" * n
    one = "(" + chain("1", "+", "1", "", 1000) + ")"
    yield "250 chains of 1000", chain("1", "+", one, "", 250)


def post(url, path, params, seconds):
    data = urllib.parse.urlencode(params).encode()
    try:
        with _OPENER.open(urllib.request.Request(url + path, data=data), timeout=seconds) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


PATHS = (("/api/v1/query", {"explain": "1"}), ("/api/v1/format_query", {}), ("/api/v1/parse_query", {}),
         ("/api/v1/query_range", {"start": "0", "end": "30", "step": "15"}), ("/api/v1/series", {"match": 1}))


def attack(url, seconds, slow=SLOW):
    bad, until, first = [], time.monotonic() + seconds, True
    while first or time.monotonic() < until:
        for name, query in queries((1000, 2001, 10000, 100000) if seconds else (10000,)):
            for path, more in PATHS:
                if not first and time.monotonic() > until:
                    return bad
                params = {"match[]": query} if "match" in more else {"query": query, **more}
                begin = time.monotonic()
                try:
                    status, body = post(url, path, params, slow * 3)
                    known = status == 413 or body.startswith((b'{"status":"success"', b'{"status":"error"'))
                except OSError as e:
                    bad.append(f"{path}, {name}: {e!r}")
                    continue
                if status >= 500 and status != 503 or not known:
                    bad.append(f"{path}, {name}: {status} {body[:200]!r}")
                if time.monotonic() - begin > slow:
                    bad.append(f"{path}, {name}: {time.monotonic() - begin:.1f} s")
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
