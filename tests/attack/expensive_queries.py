#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of clients that ask what takes minutes, again and again."""
import argparse
import http.client
import threading
import time
import urllib.parse

from half_open import address_of

# Minutes of work without any data, and as much as there is with it.
QUERIES = ("count_over_time(quantile_over_time(0.5, vector(1)[1h:1s])[1h:1ms])",
           'count(split by (function, file, binary) (merge({__name__!=""}[30d])))',
           'topk(1000, self(merge by (instance) ({__name__!=""}[30d])))')


class Asker(threading.Thread):
    def __init__(self, address, query, end):
        super().__init__(daemon=True)
        self.address, self.end, self.answers = address, end, {}
        self.path = "/api/v1/query?" + urllib.parse.urlencode({"query": query})

    def run(self):
        while (left := self.end - time.monotonic()) > 0:
            connection = http.client.HTTPConnection(*self.address, timeout=min(left + 0.1, 130))
            begin = time.monotonic()
            try:
                connection.request("GET", self.path, headers={"Connection": "close"})
                answer = connection.getresponse()
                answer.read()
                what = answer.status
                if what == 503 and not answer.headers["Retry-After"]:
                    what = "503 without Retry-After"
            except (OSError, http.client.HTTPException) as e:
                what = "timeout" if isinstance(e, TimeoutError) else type(e).__name__
            connection.close()
            self.answers[what] = self.answers.get(what, 0) + 1
            # Who is turned away comes back at once, but not in a tight loop of Python's.
            time.sleep(max(0, min(0.3 - (time.monotonic() - begin), self.end - time.monotonic())))


def attack(url, seconds, clients=200, queries=QUERIES):
    """What was answered how often: status, or what went wrong."""
    end, address = time.monotonic() + seconds, address_of(url)
    askers = [Asker(address, queries[i % len(queries)], end) for i in range(clients)]
    for a in askers:
        a.start()
    for a in askers:
        a.join()
    answers = {}
    for a in askers:
        for what, n in a.answers.items():
            answers[what] = answers.get(what, 0) + n
    return answers


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="http://127.0.0.1:7070")
    p.add_argument("--seconds", type=float, default=60)
    args = p.parse_args()
    print(attack(args.url, args.seconds))


if __name__ == "__main__":
    main()
