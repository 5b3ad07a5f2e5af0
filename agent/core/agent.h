/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: CPU samples of every process on the host, unwound in the kernel, kept as a short history of windows.
 *
 *	perf events + BPF -> drain thread (processes, images, stacks) -> windows -> serve.h (HTTP)
 *
 * One drain thread owns processes, images and unwind tables; others see only finished windows (profile_window.h),
 * which are self-contained. */
#ifndef PYRRHA_AGENT_AGENT_H
#define PYRRHA_AGENT_AGENT_H

#include <stdio.h>

#include "agent/kernel/filter.h"
#include "agent/window/profile_window.h"
#include "base/err.h"
#include "model/labels.h"

struct agent;

struct agent_options {
	double hz;                   /* samples per second and CPU */
	int64_t history_ms;          /* how far back finished windows reach */
	uint64_t history_bytes;      /* memory they may take */
	int64_t drain_ms;            /* how often the kernel's buffers are emptied */
	bool kernel_stacks;
	unsigned runtimes;           /* language runtimes whose frames are wanted (managed/rows.h) */
	bool ignore_kernel_bugs;
	bool off_cpu;                /* profile waits, too */
	int64_t off_threshold_ns;    /* shorter waits are only counted */
	struct filter_options filters; /* borrowed for as long as the agent runs */
	double max_cost;             /* share of the host the agent may take before it lowers its frequency */
	uint64_t unwind_bytes;       /* of memory for rows of unwind tables; 0 = agent_unwind_bytes() */
	int64_t names_patience_ms;   /* so long an answer waits for the names of files that were not asked for before */
	const char *node;            /* NULL = the host's name */
	const char *debuginfod_urls; /* servers to ask for debug information, with blanks between; NULL = none */
	const char *cache_dir;       /* for what was read from debug information; NULL = nowhere */
	bool kubernetes;             /* ask the API server for this node's pods, if this is a pod or there is a kubeconfig */
	const char *kubeconfig;      /* NULL or "" = as a pod */
	const char *config_file;     /* agent_config.h; NULL or "" = none */
	bool expand_env;             /* config/config_expand.h */
	int64_t auto_reload_ms;      /* how often to look whether the file holds something else; 0 = never */
	struct labels external;      /* borrowed for as long as the agent runs */
	const char *const *env_vars; /* names of environment variables that rules may see; borrowed likewise */
	size_t n_env_vars;
	bool show_command_lines;     /* rules see what command lines and these variables say, secrets too */
};

void agent_options_init(struct agent_options *o);
/* Bytes for unwind tables where no flag says it: a twelfth of what the control group or the host lets this process have, 32 MiB at most. */
uint64_t agent_unwind_bytes(void);
/* What a flag may say. */
#define AGENT_UNWIND_BYTES_MIN ((uint64_t)2 << 20)
#define AGENT_UNWIND_BYTES_MAX ((uint64_t)256 << 20)
/* Loads the programs, opens the events, starts the threads. Errors say which right or kernel feature is missing. */
int agent_start(struct agent **ret, const struct agent_options *o, struct err *e) MUST_USE;
void agent_stop(struct agent *a);
/* Reads the configuration file again; on an error the old rules stay. Any thread. */
int agent_reload(struct agent *a, struct err *e) MUST_USE;
/* Prints what this kernel and these rights allow, a line each, and which language runtimes run now; 0 if the agent can run. unwind_bytes: what it may
 * use for rows of unwind tables. */
int agent_check(FILE *out, uint64_t unwind_bytes);
/* The language runtimes that a list names, for agent_options: managed/rows.h. */
int agent_parse_runtimes(const char *list, unsigned *ret, struct err *e) MUST_USE;
/* ERR_DENIED for a kernel that must not be sampled. */
int agent_check_kernel(struct err *e) MUST_USE;
bool agent_kernel_deadlock_prone(const char *release, const char *version);
/* What is said where the agent has a pid namespace of its own. */
#define AGENT_INSIDE "those of a pid namespace, not the host's: processes outside of it are one frame, with their CPU time (--pid=host, hostPID: true sees all)"
/* Once, after agent_start; the agent must outlive the last rendering. */
void agent_register_metrics(struct agent *a);
/* The kernel memory of all maps of the programs, in bytes. Any thread. */
uint64_t agent_kernel_bytes(struct agent *a);

/* The profile over [from, from + duration) of monotonic sample time, starting now; a wait belongs as a whole to the moment it ends.
 * ERR_NOT_FOUND for off-CPU profiles when they are off. Blocks until it is complete;
 * AGENT_MAX_CALLERS at once, then ERR_BUSY. *gone (NULL = never) turns true, by flag_raise, when the caller has
 * left: its window is freed, ERR_CANCELED. */
#define AGENT_MAX_CALLERS 64
int agent_profile(struct agent *a, enum window_kind kind, int64_t duration_ns, const atomic_bool *gone, struct profile_window **ret,
		  struct err *e) MUST_USE;
/* Which windows of the history are asked for. */
struct history_range {
	int64_t from_ms, to_ms;      /* those that start in [from_ms, to_ms) of Unix time */
	uint64_t after;              /* and have a higher number than this */
	bool whole;                  /* nothing, unless all that will start before to_ms are finished */
};
/* The state of the history, whether or not there was an answer. */
struct history_state {
	int64_t finished_ms;         /* Unix time up to which it is finished */
	int64_t next_ms;             /* start of the first window with a higher number than `after` that starts at from_ms or later; 0 = none */
};
/* The finished windows of that range as one. */
int agent_history(struct agent *a, enum window_kind kind, const struct history_range *r, struct profile_window **ret,
		  struct history_state *ret_state, struct err *e) MUST_USE;
/* The Unix time (ms) up to which the history is finished, and from where it reaches. */
void agent_history_range(struct agent *a, int64_t *ret_from_ms, int64_t *ret_to_ms);

/* Thread CPU time of answering with a profile of that kind. Any thread. */
void agent_answered(struct agent *a, enum window_kind kind, int64_t cpu_ns);
/* Whether there are profiles of that kind. */
bool agent_takes(const struct agent *a, enum window_kind kind);
/* The labels that rules set by name; in the arena. Returns their number. */
size_t agent_series_labels(struct agent *a, struct arena *in, struct view **ret);
/* targets.h: the containers that were sampled in the time that the history covers. */
void agent_targets(struct agent *a, struct view address, struct buf *out);

struct symbolizer *agent_symbolizer(struct agent *a);

#endif
