# SPDX-License-Identifier: Apache-2.0
"""Prometheus's own configuration files (tests/fixtures/prometheus): each loads, or fails and names the feature that is not here;
those that are wrong fail, but for exceptions that are listed with their reason."""
import json
import os
import re

from harness import TOP, check, run

HERE = os.path.join(TOP, "tests", "fixtures", "prometheus")

# Discovery that is not built in.
ELSEWHERE = ("azure digitalocean dockerswarm ec2 eureka gce hetzner ionos kuma lightsail linode marathon nerve nomad oci openstack "
             "outscale ovhcloud puppetdb scaleway serverset stackit triton uyuni vultr").split()

# Files of documentation/examples that are something else: manifests of Kubernetes, configurations of other programs.
NOT_OURS = {"examples/kubernetes-rabbitmq/rc.yml", "examples/kubernetes-rabbitmq/svc.yml", "examples/rbac-setup.yml",
            "examples/promtool-http-config-file.yml", "examples/web-config.yml"}

# Fails in Prometheus 3, too, although it is not called bad.
REFUSED = {"testdata/config_with_deprecated_am_api_config.yml": 'api_version: "v1" is not one of v2'}

NOT_READ = "the section is not built in yet, or never will be: it loads with a warning that says so"
METRICS = "the field is about metrics as text: it loads with a warning that says so"
TIMEOUT = "a timeout longer than the interval is an error for metrics only: a profile takes the seconds that it takes"

# Bad files that load: a pattern of their names, and why.
EXCEPTIONS = {
    r"remote_read_.*|empty_rr_config|tracing_.*|otlp_.*|rules|tsdb_.*": NOT_READ,
    r"metric_name_validation_scheme|scrape_config_utf8_conflicting|scrape_config_files_scrape_protocols\d?": METRICS,
    r"scrape_interval|scrape_config_files|scrape_config_files_global": TIMEOUT,
}


def why_it_may_load(name):
    for pattern, reason in EXCEPTIONS.items():
        if re.fullmatch(pattern, name):
            return reason
    return None


def not_built_in(text):
    return {kind for kind in ELSEWHERE if re.search(rf"\b{kind}_sd_configs:", text)}


def files():
    """promtool and rulefmt hold rules and their unit tests, which others read."""
    for folder, _, names in sorted(f for top in ("examples", "testdata") for f in os.walk(os.path.join(HERE, top))):
        for name in sorted(names):
            if name.endswith((".yml", ".yaml")):
                yield os.path.relpath(os.path.join(folder, name), HERE)


def text_with_included(name):
    """Of a file and those that it names."""
    text = open(os.path.join(HERE, name), encoding="utf-8").read()
    if "scrape_config_files:" in text and "scrape_configs/" in text:
        folder = os.path.join(HERE, os.path.dirname(name), "scrape_configs")
        text += "".join(open(os.path.join(folder, f), encoding="utf-8").read() for f in os.listdir(folder)
                        if "*" in text or f in text)
    return text


def judge(name, good, error, warnings):
    """What is wrong with that answer; None = nothing."""
    text, bad = text_with_included(name), re.match(r".*/(.*)\.bad\.yml$", name)
    place = re.match(r".*?:\d+:\d+: ", error) or "bad" in name and "file" in error
    if not good and not place:
        return f"the error has no place: {error}"
    if name in REFUSED:
        return None if not good and REFUSED[name] in error else f"it does not fail as it should: {error}"
    if name in NOT_OURS:
        return "it loads" if good else None
    if bad:
        reason = why_it_may_load(bad[1])
        if good and not reason:
            return "it is bad and loads"
        if good and reason in (NOT_READ, METRICS) and "warning" not in warnings:
            return "it loads without a warning"
        return "it fails, although listed" if reason and not good else None
    missing = not_built_in(text)
    if good:
        return f"it loads with {missing}" if missing else None
    named = re.search(r"\.(\w+)_sd_configs: this kind of discovery is not built in", error)
    return None if named and named[1] in missing else f"it fails: {error}"


def test_each_file(env):
    names = list(files())
    check(len(names) > 200, f"{len(names)} files")
    status, out = run([env.program("pyrtool"), "check", "config", "--output=json", *[os.path.join(HERE, n) for n in names]])
    answers = json.loads(out)
    check(status == 1 and len(answers) == len(names), f"{status}: {len(answers)} answers")
    wrong = []
    for name, a in zip(names, answers):
        problem = judge(name, a["good"], a.get("error", ""), a.get("said", ""))
        if problem:
            wrong.append(f"{name}: {problem}")
    check(not wrong, "\n".join(wrong))
    loaded = {name for name, a in zip(names, answers) if a["good"]}
    for pattern in EXCEPTIONS:
        check(any(re.fullmatch(r"testdata/(" + pattern + r")\.bad\.yml", n) for n in loaded), f"{pattern}: an exception that is none")
    check("examples/prometheus.yml" in loaded and "testdata/scrape_config_files_only.good.yml" in loaded, "the simplest do not load")


def test_what_parcas_operator_writes(env):
    """It writes null for what is not set: that is as if the key were not there."""
    path = env.path("operator.yml", """scrape_configs:
- job_name: default/app
  scrape_interval: 10s
  scrape_timeout: 0s
  static_configs: null
  params: null
  normalized_addresses: null
  profiling_config:
    pprof_config: {memory: {enabled: true, path: /debug/pprof/allocs, delta: null, keep_sample_type: null}}
    path_prefix: null
  relabel_configs:
  - {source_labels: [__meta_kubernetes_namespace], separator: null, regex: null, modulus: null, target_label: namespace, replacement: null, action: replace}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod, regex: null}
  - {source_labels: null, regex: null, target_label: job, replacement: default/app, action: null}
""")
    status, out = run([env.program("pyrtool"), "check", "config", path])
    check(status == 0 and "default/app" in out, f"{status}: {out}")
