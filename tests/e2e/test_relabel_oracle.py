# SPDX-License-Identifier: Apache-2.0
"""Relabelling against Prometheus: labels before and after, of each action and edge, as `pyrtool check service-discovery` and
promtool print them. Debian's promtool is 2.42; what Prometheus 3 does otherwise is listed with each case."""
import concurrent.futures
import json

from harness import check, run, slow
from test_promql_oracle import tool

A, B = {"source_labels": ["a"]}, {"source_labels": ["a", "b"]}


def rule(action="replace", **more):
    return {"action": action, **more}


def to(label, **more):
    return {"target_label": label, **more}


LABELS = {"a": "foo", "b": "Bar9", "c": "foo", "u": "ÄÖ ß ǆ", "e": "", "__meta_k": "v", "__meta_label_app": "x", "__tmp": "t",
          "line": "one\ntwo"}
TARGETS = ["one:1", "two:2", "[::1]:3", "one:1"]  # one of them twice

# name: rules; and what else the job says.
CASES = {
    "nothing": [],
    "set": [to("x", replacement="set")],
    "copy": [to("x", **A)],
    "join": [to("x", **B)],
    "separator": [to("x", separator="--", **B)],
    "no separator": [to("x", separator="", **B)],
    "absent source": [to("x", source_labels=["nope", "a", "e"])],
    "no match": [to("x", regex="fo", **A)],
    "anchored": [to("x", regex="o+|fo", **A), to("y", regex="f|foo", **A)],
    "groups": [to("x", regex="(f)(o+);(B)(.*)", replacement="$4-${3}${2}$1-$9-${10}", **B)],
    "group then letter": [to("x", regex="(.)(.*)", replacement="$1x-${1}x", **A)],
    "dollars": [to("x", regex="(.)(.*)", replacement="$$1 $ $", **A)],
    "named groups": [to("x", regex="(?P<first>.)(?P<rest>.*)", replacement="$rest-${first}$none", **A)],
    "group that takes no part": [to("x", regex="(f)|(g)", replacement="[$2]", **A), to("y", regex="(foo)|(g)", replacement="[$2]", **A)],
    "empty deletes": [to("a", regex=".*", replacement="", **A), to("b", source_labels=["nope"])],
    "empty regex": [to("x", regex="", replacement="none", source_labels=["nope"]), to("y", regex="", replacement="none", **A)],
    "target from a group": [to("x_$1", regex="(.*)", replacement="v", **A), to("${1}_y", **A)],
    "target that is no name": [to("${2}", regex="(f)(x?)oo", replacement="v", **A)],
    "ungreedy and classes": [to("x", regex=r"(\w+?)([[:digit:]]*)", replacement="$1|$2", source_labels=["b"])],
    "flags": [to("x", regex="(?i)bar(.)", source_labels=["b"]), to("y", regex="BAR(.)", source_labels=["b"])],
    "unicode classes": [to("x", regex=r"(\p{Lu}+).*", source_labels=["u"])],
    "keep": [rule("keep", regex="(one|\\[).*", source_labels=["__address__"])],
    "keep none": [rule("keep", regex="x", **A)],
    "keep absent": [rule("keep", regex="", source_labels=["nope"])],
    "drop": [rule("drop", regex="one:1", source_labels=["__address__"])],
    "drop absent": [rule("drop", source_labels=["nope"])],
    "drop part": [rule("drop", regex="fo", **A)],
    "keepequal": [rule("keepequal", **A, **to("c"))],
    "keepequal not": [rule("keepequal", **A, **to("b"))],
    "keepequal joined": [to("x", replacement="foo;Bar9"), rule("keepequal", **B, **to("x"))],
    "keepequal absent": [rule("keepequal", source_labels=["nope"], **to("nor"))],
    "dropequal": [rule("dropequal", **A, **to("c"))],
    "dropequal not": [rule("dropequal", **A, **to("b"))],
    "hashmod": [rule("hashmod", modulus=8, **to("__tmp_h"), **A), to("shard", source_labels=["__tmp_h"]),
                rule("hashmod", modulus=18446744073709551615 // 2, **to("wide"), **B), rule("hashmod", modulus=1, **to("one"), **A),
                rule("hashmod", modulus=1000, **to("none"), source_labels=["nope"])],
    "hashmod shards": [rule("hashmod", modulus=2, **to("__tmp_h"), source_labels=["__address__"]),
                       rule("keep", regex="1", source_labels=["__tmp_h"])],
    "lowercase": [rule("lowercase", **to("x"), **B), rule("lowercase", **to("y"), source_labels=["u"])],
    "uppercase": [rule("uppercase", **to("x"), **B), rule("uppercase", **to("nope"), source_labels=["nope"])],
    "labelmap": [rule("labelmap", regex="__meta_(.+)")],
    "labelmap renames": [rule("labelmap", regex="__meta_(label)_(.+)", replacement="k_${1}_$2")],
    "labelmap onto one": [rule("labelmap", regex="__meta_label_(.)pp", replacement="${1}")],
    "labelmap of itself": [rule("labelmap", regex="(a)", replacement="${1}_1"), rule("labelmap", regex="(a.*)", replacement="${1}_2")],
    "labeldrop": [rule("labeldrop", regex="a|b|__meta_.*|nope")],
    "labeldrop all but": [rule("labeldrop", regex="[^_].*")],
    "labelkeep": [rule("labelkeep", regex="__.*|job|a")],
    "labelkeep without an address": [rule("labelkeep", regex="job|a|__s.*")],
    "labelkeep nothing": [rule("labelkeep", regex="nope")],
    "order": [to("x", **A), to("x", source_labels=["x"], regex="(.*)", replacement="$1$1"), rule("labeldrop", regex="a"),
              to("y", source_labels=["a", "x"])],
    "action in capitals": [rule("REPLACE", **to("x"), **A), rule("LabelDrop", regex="b")],
    "job and instance": [to("job", replacement="mine"), to("instance", source_labels=["__address__"], regex="(.*):.*")],
    "address": [to("__address__", regex="(.*):.*", replacement="$1:9", source_labels=["__address__"])],
    "an address that is a URL": [to("__address__", replacement="http://x/y")],
    "no address": [to("__address__", replacement="")],
    "another scheme": [to("__scheme__", replacement="https")],
    "a scheme that is none": [to("__scheme__", replacement="ftp")],
    "path and parameters": [to("__metrics_path__", replacement="/other"), to("__param_a", replacement="new"), to("__param_b", replacement="b"),
                            to("path", source_labels=["__metrics_path__"]), to("param", source_labels=["__param_a"])],
    "interval": [to("__scrape_interval__", replacement="1m30s"), to("__scrape_timeout__", replacement="1m")],
    "an interval that is none": [to("__scrape_interval__", replacement="soon")],
    "an interval of nothing": [to("__scrape_interval__", replacement="0s")],
    "a timeout that is none": [to("__scrape_timeout__", replacement="0")],
    "a line break": [to("x", regex="one.two", replacement="yes", source_labels=["line"]), to("y", regex="one\\ntwo", replacement="yes", source_labels=["line"])],
    "ports": [to("__address__", regex="(.*):.*", source_labels=["__address__"])],
    "ports of https": [to("__scheme__", replacement="https"), to("__address__", regex="(.*):.*", source_labels=["__address__"])],
    "a timeout beyond the interval": [to("__scrape_timeout__", replacement="1m")],
}


def before(job, target):
    """The labels before relabelling, as the configuration says."""
    return {**{k: v for k, v in LABELS.items() if v}, "job": job, "__address__": target, "__metrics_path__": "/m", "__scheme__": "http",
            "__scrape_interval__": "20s", "__scrape_timeout__": "15s", "__param_a": "1", "__param_c": "3"}


def in_place(job, theirs):
    """2.42 relabels in place: what rules overwrite or delete is overwritten or missing in discoveredLabels, too."""
    return [dict(r, discoveredLabels=before(job, t)) for t, r in zip(TARGETS, theirs)]


def errors_without_labels(job, theirs):
    """2.42 tells of errors without discoveredLabels, so they are all the same one; Prometheus 3 tells of each target's."""
    check(theirs == [{"discoveredLabels": {}, "labels": {}, "error": {}}], f"{job}: {theirs}")
    return [dict(theirs[0], discoveredLabels=before(job, t)) for t in TARGETS[:3]]


def default_port(_, theirs):
    """2.42 adds the scheme's port to an address without one; Prometheus 3 and Pyrrha leave it."""
    def without(labels):
        port = ":443" if labels["__scheme__"] == "https" else ":80"
        return {k: v.removesuffix(port) if k in ("__address__", "instance") else v for k, v in labels.items()}
    return [dict(r, labels=without(r["labels"])) for r in theirs]


def dot_takes_all(_, theirs):
    """A dot of 2.42 does not match a line break; since Prometheus 3 it does."""
    return [dict(r, labels=dict(r["labels"], x="yes")) for r in theirs]


def scheme_refused(_, theirs):
    """Prometheus finds out only when it scrapes."""
    return [dict(r, labels={}, error={}) for r in theirs]


DIFFERENCES = {
    "ports": (in_place, default_port), "ports of https": (in_place, default_port), "a line break": (dot_takes_all,),
    "a scheme that is none": (in_place, scheme_refused),
    **{job: (in_place,) for job in ("empty deletes", "labelmap onto one", "labeldrop", "labelkeep", "job and instance", "address", "another scheme",
                                    "path and parameters", "interval")},
    **{job: (errors_without_labels,) for job in ("labelkeep without an address", "labelkeep nothing", "an address that is a URL", "no address",
                                                 "an interval that is none", "an interval of nothing", "a timeout that is none",
                                                 "a timeout beyond the interval")},
}


def mend(job, theirs):
    for difference in DIFFERENCES.get(job, ()):
        theirs = difference(job, theirs)
    return theirs


def config():
    jobs = [{"job_name": name, "scrape_interval": "20s", "scrape_timeout": "15s", "metrics_path": "/m", "params": {"a": ["1", "2"], "c": ["3"]},
             "relabel_configs": rules, "static_configs": [{"targets": TARGETS, "labels": LABELS}]} for name, rules in CASES.items()]
    return json.dumps({"scrape_configs": jobs})


def results(text):
    """The results as a set of texts; an error is one, whatever it says."""
    def plain(r):
        return json.dumps({"before": r["discoveredLabels"], "after": r["labels"], "error": "error" in r}, sort_keys=True)
    return sorted(plain(r) for r in json.loads(text))


def ask(program, path, job, seconds):
    status, out = run([program, "check", "service-discovery", f"--timeout={int(seconds * 1000)}ms", path, job])
    check(status == 0, f"{job}: {status}: {out}")
    return out[out.index("["):]


@slow
def test_labels_before_and_after(env):
    promtool, pyrtool, path = tool(env, "promtool"), env.program("pyrtool"), env.path("all.yml", config())

    def one(job):
        ours = results(ask(pyrtool, path, job, 10))
        for seconds in (0.5, 8):  # it always takes as long as it may, and on a busy machine has found a part by then
            theirs = json.loads(ask(promtool, path, job, seconds))
            if theirs and ours == results(json.dumps(mend(job, theirs))):
                break
        mended = results(json.dumps(mend(job, theirs)))
        check(ours == mended, f"{job}: {CASES[job]}:\nours   {ours}\ntheirs {mended}")
        check(job not in DIFFERENCES or mended != results(json.dumps(theirs)), f"{job}: there is no difference")
        return len(ours)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        n = list(pool.map(one, CASES))
    check(sum(n) >= 2 * len(CASES), f"{n}: too few targets")


def test_what_is_refused(env):
    """Rules that promtool refuses are refused, with their place."""
    bad = [rule(**A), rule("hashmod", **A, **to("x")), rule("labeldrop", regex="x", **A), rule("labelkeep", regex="x", modulus=3),
           rule("keepequal", regex="y", **A, **to("x")), rule("dropequal", **A), rule("dropequal", separator=",", **A, **to("x")),
           rule("lowercase", replacement="y", **A, **to("x")), rule("uppercase", **A), rule("nonsense", **A, **to("x")), to("x", regex="(", **A),
           to("x", regex="(?<!a)b", **A), to("x", nonsense=1, **A), rule("labeldrop", regex="a", replacement="b")]
    promtool, pyrtool = tool(env, "promtool"), env.program("pyrtool")
    paths = [env.path(f"bad{i}.yml", "scrape_configs:\n- job_name: j\n  relabel_configs:\n  - " + json.dumps(r) + "\n")
             for i, r in enumerate(bad)]
    _, out = run([promtool, "check", "config", *paths])
    check(out.count("FAILED:") == len(bad), f"promtool takes some: {out}")
    for path, r in zip(paths, bad):
        status, out = run([pyrtool, "check", "config", path])
        check(status == 1 and f"{path}:4:" in out and "relabel_configs[0]" in out, f"{r}: {status}: {out}")


def test_check_service_discovery(env):
    """Its arguments and exit status; types that rules tell apart; what is secret."""
    pyrtool = env.program("pyrtool")
    path = env.path("sd.yml", """scrape_configs:
- job_name: types
  params: {token: [hunter2]}
  relabel_configs:
  - {source_labels: [__name__], regex: mutex, action: drop}
  - {source_labels: [__name__], regex: process_cpu, target_label: kind, replacement: cpu}
  static_configs: [{targets: [a:1]}]
- job_name: none
""")
    status, out = run([pyrtool, "check", "service-discovery", path, "types"])
    found = json.loads(out)
    names = sorted(r["discoveredLabels"]["__name__"] for r in found)
    check(status == 0 and names == ["block", "goroutine", "memory", "mutex", "process_cpu"], f"{status}: {out}")
    check("hunter2" not in out, "a secret is shown")
    for r in found:
        name = r["discoveredLabels"]["__name__"]
        check((r["labels"] == {}) == (name == "mutex") and r["labels"].get("kind") == ("cpu" if name == "process_cpu" else None), f"{r}")
    status, out = run([pyrtool, "check", "service-discovery", path, "none"])
    check((status, out.strip()) == (0, "[]"), f"{status}: {out}")
    status, out = run([pyrtool, "check", "service-discovery", path, "nosuch"])
    check(status == 1 and "types, none" in out, f"{status}: {out}")
    for words in ([path], [], [path, "none", "more"], [path, "none", "--timeout=x"]):
        status, out = run([pyrtool, "check", "service-discovery", *words])
        check(status == 2, f"{words}: {status}: {out}")
    status, out = run([pyrtool, "check", "service-discovery", env.path("nosuch.yml"), "none"])
    check(status == 1 and "nosuch.yml" in out, f"{status}: {out}")
