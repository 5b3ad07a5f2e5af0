# SPDX-License-Identifier: Apache-2.0
"""A small program for ./quickstart, which the agent profiles from outside: it serves nothing and knows nothing of profiles. It works a tenth of
its time. Runs with Python 3.6 or later."""
import time


def primes(n):
    return [i for i in range(2, n) if all(i % k for k in range(2, int(i ** 0.5) + 1))]


def words(n):
    counts = {}
    for i in range(n):
        word = "w%d" % (i * 7919 % 500)
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts, key=lambda w: -counts[w])[:10]


def report():
    primes(2000)
    words(5000)


def main():
    while True:
        before = time.process_time()
        report()
        time.sleep(9 * (time.process_time() - before))


main()
