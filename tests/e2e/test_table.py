# SPDX-License-Identifier: Apache-2.0
"""The rows of functions that the page's table shows, for real profiles: each is what the language says, however little of the
tree is sent along."""
import glob
import json
import os

from harness import TOP, Server, Skip, check, run


def corpus():
    directory = os.environ.get("PYRRHA_CORPUS") or os.path.join(TOP, "..", "shared", "corpus")
    files = sorted(glob.glob(os.path.join(directory, "series", "*.pb.gz"))) + sorted(glob.glob(os.path.join(directory, "*.pb.gz")))
    if len(files) < 10:
        raise Skip("no corpus of real profiles: PYRRHA_CORPUS names a folder")
    return files


def language(server, function, query, time):
    return {s["metric"]["function"]: float(s["value"][1]) for s in server.query(f"{function}({query})", time=time)["result"]}


def rows(server, query, time, **more):
    data = json.loads(server.get("/api/v1/query", query=query, time=time, format="flamegraph", **more))["data"]
    f, names = data["functions"], [data["strings"][i] for i in data["frames"]["name"]]
    return [(names[frame], own, total) for frame, own, total in zip(f["frame"], f["self"], f["total"])], data


def test_rows_are_what_the_language_says(env):
    server = Server(env, "", ["--storage.tsdb.retention.time=50y"])
    server.terminate()
    for i, path in enumerate(corpus()):
        status, out = run([env.program("pyrtool"), "tsdb", "import", f"--label=n={i}", "--increases", server.storage, path])
        check(status == 0, out)
    server.restart()
    compared = functions = 0
    for name in server.api("label/__name__/values"):
        for s in server.query(f'last_over_time({{__name__="{name}"}}[20y])')["result"]:
            query = f'merge({{__name__="{name}",n="{s["metric"]["n"]}"}}[20y])'
            got, data = rows(server, query, s["value"][0], functions=10 ** 6, width=20)
            if not got:
                continue
            check(data["functions"]["all"] == len(got), f"{query}: {data['functions']['all']} rows, {len(got)} sent")
            unit = {"nanoseconds": 1e9}.get(data["unit"], 1)
            for which, column in (("self", 1), ("total", 2)):
                want = {k: v for k, v in language(server, which, query, s["value"][0]).items() if v}
                have = {r[0]: r[column] / unit for r in got if r[column]}
                check(want.keys() == have.keys(), f"{which}({query}) at {s['value'][0]}: {len(want)} functions by the language, {len(have)} rows; {sorted(set(want) ^ set(have))[:5]}")
                wrong = {k: (v, have[k]) for k, v in want.items() if abs(v - have[k]) > 1e-9 * abs(v)}
                check(not wrong, f"{which}({query}): {wrong}")
            check([abs(r[1]) for r in got] == sorted((abs(r[1]) for r in got), reverse=True), f"{query}: the rows are not sorted")
            few, data = rows(server, query, s["value"][0], functions=10, width=20)
            check(len(few) <= 10 and set(few) <= set(got) and got[0] in few, f"{query}: the ten largest are {few}")
            check(len(data["frames"]["name"]) <= len(few) + len(data["nodes"]["depth"]) + 2, f"{query}: names that nobody uses are sent")
            compared, functions = compared + 1, functions + len(got)
    print(f"# {compared} profiles, {functions} rows of functions")
    check(compared >= 10, f"only {compared} profiles were compared")
