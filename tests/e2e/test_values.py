# SPDX-License-Identifier: Apache-2.0
"""Values that not every format can say, in the real programs: an answer is right, or an error that names the value."""
import json
import os
import shutil
import xml.etree.ElementTree

from harness import Server, check, http_get, run, scrape_config
from pprof_file import Profile
from test_format import made

T = 1700000000
LARGE = 1 << 62


def filled(env, *flags):
    """A server with a profile of 3 s, one whose value is nearly what 64 bits hold, and no targets."""
    for job, samples in (("plain", [(("work", "main"), (1, 10**9)), (("idle", "main"), (2, 2 * 10**9))]),
                         ("large", [(("work", "main"), (1, LARGE)), (("idle", "main"), (1, LARGE - 1))])):
        folder = os.path.join(env.dir, "files", "job=" + job)
        os.makedirs(folder)
        with open(os.path.join(folder, f"{T}.pb"), "wb") as f:
            f.write(made(samples) + b"\x48" + varint((T - 10) * 10**9))
    data = env.path("pyrrha-data")
    status, out = run([env.program("pyrtool"), "tsdb", "import", data, os.path.join(env.dir, "files"), "--output=json"])
    check(status == 0 and json.loads(out)["profiles"], out)
    return Server(env, scrape_config([]), flags=["--storage.tsdb.retention.time=0", *flags])


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def no_constants(text):
    raise ValueError(f"{text} is no JSON")


def strict(body):
    return json.loads(body, parse_constant=no_constants)


def lines(body):
    return [int(line.rsplit(b" ", 1)[1]) for line in body.splitlines()]


def picture(body):
    for node in xml.etree.ElementTree.fromstring(body).iter():
        for key in ("x", "y", "width", "height"):
            check(0 <= float(node.get(key, "0")) <= 5000, f"{node.tag} {node.attrib}")


def graph(body):
    check(body.startswith(b"digraph ") and b"inf" not in body and b"nan" not in body, str(body[:300]))
    if shutil.which("dot"):
        import subprocess
        subprocess.run(["dot", "-Tcanon"], input=body, stdout=subprocess.DEVNULL, check=True)


READERS = {"pprof": Profile, "folded": lines, "json": strict, "flamegraph": strict, "speedscope": strict, "svg": picture,
           "dot": graph, "prometheus": strict}
PLAIN = '{job="plain",__name__="cpu"}'
QUERIES = {  # to the formats that have to refuse
    f"{PLAIN} * Inf": "pprof folded flamegraph speedscope svg dot",
    f"{PLAIN} * -Inf": "pprof folded flamegraph speedscope svg dot",
    f"{PLAIN} * NaN": "pprof folded flamegraph speedscope svg dot",
    f"{PLAIN} / 0": "pprof folded flamegraph speedscope svg dot",
    f"{PLAIN} * Inf - {PLAIN} * Inf": "pprof folded flamegraph speedscope svg dot",
    f"{PLAIN} * 1e298": "pprof folded",
    f"{PLAIN} * 1e298 + {PLAIN} * -1e298": "",
    f"{PLAIN} * 1e299": "pprof folded flamegraph speedscope svg dot",  # two stacks fit, their sum does not
    f"{PLAIN} * -1e12": "pprof folded",
    f"{PLAIN} * 1e-320": "",
    f"-{PLAIN}": "",
    f"{PLAIN} - 2 * {PLAIN}": "",
    "cpu{job='large'}": "",
    "-cpu{job='large'}": "",
    "cpu{job='large'} * 1.0000001": "",
    "cpu{job='large'} * 2.5": "pprof folded",
    "sum(cpu{job='large'} or cpu{job='plain'})": "pprof folded json flamegraph speedscope svg dot prometheus",
    "cpu": "folded flamegraph speedscope svg",  # merging adds them up, which does not fit; pprof keeps them apart by job
}


def test_unusual_values_in_every_format(env):
    server = filled(env)
    wrong = []
    for query, refuse in QUERIES.items():
        for name, read in READERS.items():
            status, _, body = http_get(server.link("/api/v1/query", query=query, time=T + 1, format=name))
            try:
                if status == 200:
                    read(body)
                elif name in ("json", "flamegraph", "speedscope", "prometheus"):
                    check(strict(body)["status"] == "error", "no error")
                good = status == (422 if name in refuse.split() else 200)
            except (ValueError, AssertionError, IndexError, xml.etree.ElementTree.ParseError) as e:
                good, body = False, f"{e!r} {body[:200]}"
            if not good:
                wrong.append(f"{query} as {name}: {status} {body[:300]}")
    check(not wrong, "\n".join(wrong))
    value = server.query(f"{PLAIN} * Inf", time=T + 1)["result"][0]["value"][1]
    check(value == "+Inf", value)


def test_pyrtool_says_them(env):
    server = filled(env)
    for query, said in ((f"{PLAIN} * Inf", "+Inf"), (f"{PLAIN} * NaN", "NaN"), (f"{PLAIN} * -1e290", "-3e+290")):
        status, out = run([env.program("pyrtool"), "query", "instant", server.url, query, f"--time={T + 1}"])
        check(status == 0 and f"=> {said} @[2023-11-14T22:13:21.000Z]" in out, f"{query}: {status} {out}")
    files = os.path.join(env.dir, "files", "job=large", f"{T}.pb")
    for words in (("top",), ("folded",)):
        status, out = run([env.program("pyrtool"), *words, files])
        check(status == 0 and "inf" not in out.lower(), f"{words}: {status} {out}")
    status, out = run([env.program("pyrtool"), "folded", files, files])
    check(status == 1 and "64 bits" in out, f"{status} {out}")
