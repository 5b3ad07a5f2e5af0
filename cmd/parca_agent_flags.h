/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of parca-agent that have nothing to set here: X(name, its value or NULL for a switch, what to do instead).
 * The agent starts with them and logs each with its text, so that a command line written for parca-agent works and
 * says what it lacks. Flags with the same meaning are rows of the agent's own table, or aliases of such rows. */
#ifndef PYRRHA_CMD_PARCA_AGENT_FLAGS_H
#define PYRRHA_CMD_PARCA_AGENT_FLAGS_H

#define PARCA_PULLED \
	"nothing is pushed from here: a Pyrrha server pulls this agent, by a job with profiling_config: {preset: agent} " \
	"and the agent's own address (--web.listen-address) as its target. Leave it out"
#define PARCA_TRUST \
	"nothing is pushed from here; who may pull is what --web.config.file says (TLS, passwords, tokens). Leave it out"
#define PARCA_NAMES \
	"names are resolved here, in the agent, and no debug information is uploaded. Leave it out; see --cache-dir and " \
	"--debuginfod-urls"
#define PARCA_SENT_NOWHERE "nothing is ever sent anywhere. Leave it out"
#define PARCA_COST "--max-cost limits what the agent takes, --frequency says how often it samples. Leave it out"
#define PARCA_TABLES "the kernel's tables have fixed sizes (pyrrha_agent_kernel_map_bytes). Leave it out"
#define PARCA_CHOSEN "the agent chooses this by itself. Leave it out"
#define PARCA_LABELS "which labels an answer has is the puller's choice: by= in a request, series_labels in a job. Leave it out"
#define PARCA_UNWIND "native code is always unwound by .eh_frame, and code made at run time by frame pointers. Leave it out"
#define PARCA_NOT_HERE "there is no such profile here. Leave it out"
#define PARCA_GO "that is for programs in Go. Leave it out"
#define PARCA_OWN_LABEL "use --external-label=NAME=VALUE"

#define PARCA_AGENT_FLAGS(X) \
	X("remote-store-address", "<host:port>", PARCA_PULLED) \
	X("remote-store-insecure", NULL, PARCA_TRUST) \
	X("remote-store-insecure-skip-verify", NULL, PARCA_TRUST) \
	X("remote-store-bearer-token", "<token>", PARCA_TRUST) \
	X("remote-store-bearer-token-file", "<file>", PARCA_TRUST) \
	X("remote-store-client-cert", "<file>", PARCA_TRUST) \
	X("remote-store-client-key", "<file>", PARCA_TRUST) \
	X("remote-store-grpc-headers", "<k=v>", PARCA_PULLED) \
	X("remote-store-grpc-max-call-recv-msg-size", "<n>", PARCA_PULLED) \
	X("remote-store-grpc-max-call-send-msg-size", "<n>", PARCA_PULLED) \
	X("remote-store-grpc-startup-backoff-time", "<duration>", PARCA_PULLED) \
	X("remote-store-grpc-connection-timeout", "<duration>", PARCA_PULLED) \
	X("remote-store-grpc-max-connection-retries", "<n>", PARCA_PULLED) \
	X("remote-store-batch-write-interval", "<duration>", PARCA_PULLED) \
	X("remote-store-rpc-logging-enable", NULL, PARCA_PULLED) \
	X("remote-store-rpc-unary-timeout", "<duration>", PARCA_PULLED) \
	X("remote-store-format", "<name>", PARCA_PULLED) \
	X("remote-store-compression", "<name>", PARCA_PULLED) \
	X("remote-store-use-v2-schema", NULL, PARCA_PULLED) \
	X("use-v2-schema", NULL, PARCA_PULLED) \
	X("local-store-directory", "<dir>", "the agent keeps --history in memory, a Pyrrha server that pulls it keeps all. Leave it out") \
	X("offline-mode-storage-path", "<dir>", "the agent keeps --history in memory, a Pyrrha server that pulls it keeps all. Leave it out") \
	X("offline-mode-rotation-interval", "<duration>", PARCA_PULLED) \
	X("offline-mode-upload", NULL, PARCA_PULLED) \
	/* names that the store's flags had in parca-agents before 0.16 */ \
	X("store-address", "<host:port>", PARCA_PULLED) \
	X("insecure", NULL, PARCA_TRUST) \
	X("insecure-skip-verify", NULL, PARCA_TRUST) \
	X("bearer-token", "<token>", PARCA_TRUST) \
	X("bearer-token-file", "<file>", PARCA_TRUST) \
	X("debuginfo-address", "<host:port>", PARCA_NAMES) \
	X("debuginfo-directories", "<dirs>", "debug files are looked for where distributions put them (/usr/lib/debug), in each program's own root. Leave it out") \
	X("debuginfo-temp-dir", "<dir>", "temporary files go to the folder that TMPDIR names") \
	X("debuginfo-strip", NULL, PARCA_NAMES) \
	X("debuginfo-compress", NULL, PARCA_NAMES) \
	X("debuginfo-upload-disable", NULL, PARCA_NAMES) \
	X("debuginfo-upload-max-parallel", "<n>", PARCA_NAMES) \
	X("debuginfo-upload-timeout-duration", "<duration>", PARCA_NAMES) \
	X("debuginfo-upload-cache-duration", "<duration>", PARCA_NAMES) \
	X("debuginfo-upload-queue-size", "<n>", PARCA_NAMES) \
	X("debuginfo-disable-caching", NULL, PARCA_NAMES) \
	X("symbolizer-jit-disable", NULL, PARCA_NAMES) \
	X("symbolize-go", NULL, PARCA_NAMES) \
	X("profiling-duration", "<duration>", "each request says how long (seconds=), and the agent keeps --history. Leave it out") \
	X("profiling-label-ttl", "<duration>", PARCA_CHOSEN) \
	X("profiling-perf-event-buffer-poll-interval", "<duration>", PARCA_CHOSEN) \
	X("profiling-perf-event-buffer-processing-interval", "<duration>", PARCA_CHOSEN) \
	X("profiling-perf-event-buffer-worker-count", "<n>", PARCA_CHOSEN) \
	X("profiling-probabilistic-interval", "<duration>", PARCA_COST) \
	X("profiling-probabilistic-threshold", "<n>", PARCA_COST) \
	X("profiling-enable-error-frames", NULL, "lost samples appear in the profile as [lost: ...] and [truncated ...]. Leave it out") \
	X("tracers", "<names>", "use --runtimes") \
	X("dwarf-unwinding-disable", NULL, PARCA_UNWIND) \
	X("dwarf-unwinding-mixed", NULL, PARCA_UNWIND) \
	X("python-unwinding-disable", NULL, "use --runtimes=-python") \
	X("ruby-unwinding-disable", NULL, PARCA_UNWIND) \
	X("java-unwinding-disable", NULL, "use --runtimes=-hotspot") \
	X("metadata-container-runtime-socket-path", "<path>", "containers' names are read from files of the host and from the API server, no socket is asked. Leave it out") \
	X("metadata-disable-caching", NULL, PARCA_CHOSEN) \
	X("metadata-enable-process-cmdline", NULL, "rules see __meta_process_cmdline; one with target_label makes it a label") \
	X("metadata-disable-cpu-label", NULL, PARCA_LABELS) \
	X("metadata-disable-thread-id-label", NULL, PARCA_LABELS) \
	X("metadata-disable-thread-comm-label", NULL, PARCA_LABELS) \
	X("environment-type", "<name>", PARCA_OWN_LABEL) \
	X("machine-id", "<id>", PARCA_OWN_LABEL) \
	X("otel-tags", "<tags>", PARCA_OWN_LABEL) \
	X("otlp-address", "<host:port>", PARCA_SENT_NOWHERE) \
	X("otlp-exporter", "<name>", PARCA_SENT_NOWHERE) \
	X("otlp-logging", NULL, PARCA_SENT_NOWHERE) \
	X("analytics-opt-out", NULL, PARCA_SENT_NOWHERE) \
	X("telemetry-disable-panic-reporting", NULL, PARCA_SENT_NOWHERE) \
	X("telemetry-stderr-buffer-size-kb", "<n>", PARCA_SENT_NOWHERE) \
	X("memlock-rlimit", "<n>", "the agent raises it by itself where the kernel needs that. Leave it out") \
	X("clock-sync-interval", "<duration>", PARCA_CHOSEN) \
	X("object-file-pool-eviction-policy", "<name>", PARCA_CHOSEN) \
	X("object-file-pool-size", "<n>", PARCA_CHOSEN) \
	X("rate-limit-unwind-info", "<n>", PARCA_COST) \
	X("rate-limit-process-mappings", "<n>", PARCA_COST) \
	X("rate-limit-refresh-process-info", "<n>", PARCA_COST) \
	X("rate-limit-read", "<n>", PARCA_COST) \
	X("bpf-verbose-logging", NULL, "use --log.level=debug") \
	X("bpf-log-trace-pipe", NULL, "use --log.level=debug") \
	X("bpf-events-buffer-size", "<n>", PARCA_TABLES) \
	X("bpf-map-scale-factor", "<n>", PARCA_TABLES) \
	X("bpf-cupti-event-scale-factor", "<n>", PARCA_TABLES) \
	X("bpf-verifier-log-level", "<n>", "use --log.level=debug") \
	X("bpf-verifier-log-size", "<n>", "use --log.level=debug") \
	X("mutex-profile-fraction", "<n>", PARCA_GO) \
	X("block-profile-rate", "<n>", PARCA_GO) \
	X("instrument-cuda-launch", NULL, PARCA_NOT_HERE) \
	X("merge-gpu-profiles", NULL, PARCA_NOT_HERE) \
	X("enable-oom-prof", NULL, PARCA_NOT_HERE) \
	X("enable-oom-prof-allocs", NULL, PARCA_NOT_HERE) \
	X("probe-config-file", "<file>", PARCA_NOT_HERE) \
	X("force-panic", NULL, PARCA_NOT_HERE) \
	X("allow-running-as-non-root", NULL, "only rights count; --check says which are missing. Leave it out") \
	X("allow-running-in-non-root-pid-namespace", NULL, \
	  "the agent runs in any pid namespace, and knows the processes that are in it; the host's has all (hostPID: true, --pid=host). Leave it out")

#endif
