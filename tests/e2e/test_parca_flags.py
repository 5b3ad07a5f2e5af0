# SPDX-License-Identifier: Apache-2.0
"""A command line written for parca-agent starts ours: what means the same does the same, the rest is explained in the log. Needs root and eBPF."""
import json

from harness import Process, check, free_port, http_get, run, wait_until
from test_agent import start_agent

# The flags of parca-agent after 0.47 that set something else there than here, as it lists them: switches, and those with a value.
SWITCHES = """analytics-opt-out allow-running-as-non-root allow-running-in-non-root-pid-namespace bpf-log-trace-pipe
bpf-verbose-logging debuginfo-compress debuginfo-disable-caching debuginfo-strip debuginfo-upload-disable
dwarf-unwinding-disable dwarf-unwinding-mixed enable-oom-prof enable-oom-prof-allocs instrument-cuda-launch
java-unwinding-disable merge-gpu-profiles metadata-disable-caching metadata-disable-cpu-label
metadata-disable-thread-comm-label metadata-disable-thread-id-label metadata-enable-process-cmdline offline-mode-upload
otlp-logging profiling-enable-error-frames python-unwinding-disable remote-store-insecure
remote-store-insecure-skip-verify remote-store-rpc-logging-enable remote-store-use-v2-schema ruby-unwinding-disable
symbolize-go symbolizer-jit-disable telemetry-disable-panic-reporting""".split()
VALUES = """block-profile-rate=0 bpf-cupti-event-scale-factor=0 bpf-events-buffer-size=8192 bpf-map-scale-factor=0
bpf-verifier-log-level=0 bpf-verifier-log-size=0 clock-sync-interval=3m debuginfo-address=parca:7070
debuginfo-directories=/usr/lib/debug debuginfo-temp-dir=/tmp debuginfo-upload-cache-duration=5m
debuginfo-upload-max-parallel=25 debuginfo-upload-queue-size=4096 debuginfo-upload-timeout-duration=2m
environment-type=prod local-store-directory=/tmp/x machine-id=m1 memlock-rlimit=0
metadata-container-runtime-socket-path=/run/x.sock mutex-profile-fraction=0 object-file-pool-eviction-policy=lru
object-file-pool-size=100 offline-mode-rotation-interval=10m offline-mode-storage-path=/tmp/x otel-tags=a otlp-address=o:4317
otlp-exporter=grpc probe-config-file=/x.yml profiling-duration=5s profiling-label-ttl=10m
profiling-perf-event-buffer-poll-interval=250ms profiling-perf-event-buffer-processing-interval=100ms
profiling-perf-event-buffer-worker-count=4 profiling-probabilistic-interval=1m profiling-probabilistic-threshold=100
rate-limit-read=50 remote-store-address=parca.parca.svc.cluster.local:7070 remote-store-batch-write-interval=10s
remote-store-bearer-token=my-secret remote-store-bearer-token-file=/t remote-store-client-cert=/c
remote-store-client-key=/k remote-store-compression=gzip remote-store-format=arrow-v2 remote-store-grpc-connection-timeout=3s
remote-store-grpc-headers=a=b remote-store-grpc-max-call-recv-msg-size=33554432
remote-store-grpc-max-call-send-msg-size=33554432 remote-store-grpc-max-connection-retries=5
remote-store-grpc-startup-backoff-time=1m remote-store-rpc-unary-timeout=5m telemetry-stderr-buffer-size-kb=4096
tracers=all""".split()


def parca_agent(env, name, *flags):
    """Started as parca-agent is; its address, once it answers where parca-agent's probes ask."""
    address = f"127.0.0.1:{free_port()}"
    agent = Process(env, name, [env.program("pyrrha-agent"), "--http-address=" + address, *flags])
    wait_until("it is healthy", lambda: http_get(f"http://{address}/healthy")[0] == 200 or check(agent.alive(), agent.text()), 60)
    return address, agent


def explained(agent):
    """flag -> what to do instead."""
    lines = [json.loads(line) for line in agent.text().splitlines()]
    return {line["flag"]: line["instead"] for line in lines if "parca-agent" in line["msg"]}


def test_as_parca_agent_is_started(env):
    """The arguments of the DaemonSet of parca-agent's releases; then every flag it has, and none keeps ours from starting."""
    start_agent(env)  # the rights to run at all
    rules = env.path("parca-agent.yaml", "relabel_configs:\n- source_labels: [__meta_process_executable_name]\n  target_label: exe_name\n")
    address, agent = parca_agent(env, "daemonset", "--node=n1", "--config-path=" + rules, "--log-format=json", "--log-level=info",
                                 "--remote-store-address=parca.parca.svc.cluster.local:7070", "--remote-store-insecure",
                                 "--remote-store-insecure-skip-verify", "--debuginfo-strip", "--debuginfo-temp-dir", "/tmp",
                                 "--debuginfo-upload-cache-duration", "5m", "--metadata-external-labels=cluster=c1;zone=z1,pool=p1")
    said = explained(agent)
    check("preset: agent" in said["--remote-store-address"] and "TMPDIR" in said["--debuginfo-temp-dir"] and len(said) == 6, said)
    groups = json.loads(http_get(f"http://{address}/targets.json")[2])
    check(all(g["labels"]["cluster"] == "c1" and g["labels"]["zone"] == "z1,pool=p1" for g in groups), f"{groups[:2]}")
    check("separate labels by semicolons" in agent.text(), "the comma in a value")
    address, agent = parca_agent(env, "all", "--log-format=json", "--profiling-cpu-sampling-frequency=23", "--include-env-var=A",
                                 "--ignore-unsafe-kernel-version", *("--" + f for f in SWITCHES + VALUES))
    said = explained(agent)
    missing = {"--" + f.split("=")[0] for f in SWITCHES + VALUES} - set(said)
    check(not missing, f"not explained: {sorted(missing)}")
    check("my-secret" not in agent.text(), "a token is in the log")
    metrics = http_get(f"http://{address}/metrics")[2].decode()
    check("\npyrrha_agent_frequency_hertz 23" in metrics, [line for line in metrics.splitlines() if "hertz" in line])


def test_what_cannot_be_the_same(env):
    """Flags of the same name and another meaning say so."""
    for words, *flags in (("parca-agent's is a probability: use --off-cpu", "--off-cpu-threshold=0.01"),
                          ("for several repeat the flag", "--include-env-var=A,B"),
                          ("unknown flag --remote-store-nonsense", "--remote-store-nonsense=1")):
        code, said = run([env.program("pyrrha-agent"), *flags])
        check(code == 2 and words in said, f"{flags}: {code}, {said}")
