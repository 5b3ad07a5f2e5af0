/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by agent.c, drain.c and the agent's metrics. */
#ifndef PYRRHA_AGENT_AGENT_PRIVATE_H
#define PYRRHA_AGENT_AGENT_PRIVATE_H

#include "base/lock.h"
#include "agent/core/agent.h"
#include "agent/core/cost.h"
#include "agent/core/offcpu.h"
#include "agent/core/pacer.h"
#include "agent/kernel/filter.h"
#include "agent/kernel/perf_events.h"
#include "agent/kernel/sampler.h"
#include "agent/labels/labels.h"
#include "agent/labels/pods.h"
#include "agent/managed/namer.h"
#include "agent/names/symbolize.h"
#include "agent/process/process.h"
#include "agent/window/sample_counts.h"
#include "config/config_watch.h"

/* A sample is in the ring at most this long after its time. */
#define IN_FLIGHT_NS 20000000ll

/* What the log said last of a count: its value, and when it was said. */
struct told_count {
	uint64_t count;
	int64_t at_ns;
};

/* What the drain thread's own structures held when its last drain ended, for the metrics. */
struct drain_state {
	size_t processes, kernel_processes, images, cpus;
	uint64_t maps_reads;
	struct unwind_tables_stats tables;
	uint64_t tables_postponed;
	uint32_t runtime_processes[RUNTIME_KINDS];
	uint64_t runtime_failures[RUNTIME_KINDS][RUNTIME_FAILURES];
};

struct agent {
	struct agent_options o;
	struct sampler sampler;
	/* Changed by the drain thread only. Other threads look up in `tables`, under the lock, which image a frame of a window is in. */
	struct unwind_tables *tables;
	struct images *images;
	struct processes *processes;
	struct perf_events *events;
	struct symbolizer *symbolizer;
	struct namer *namer;
	struct labeler *labeler;
	struct pods *pods;           /* NULL = not in a cluster */
	struct agent_config *config; /* guarded by the lock */
	struct config_sources sources; /* of its last reading, good or bad; guarded by the lock */
	struct config_watch *config_watch; /* NULL = off-CPU is switched off */
	atomic_bool config_ok;       /* the last reading of the file worked */
	_Atomic uint64_t config_failures;
	int64_t configured_ms;
	struct perf_records records, later_records; /* of this drain; those that were read while it went on, for the next one */
	int epoll_fd, wake_fd;
	pthread_t thread;
	bool running;
	atomic_bool stopping;
	int64_t kept_house_ns;
	int64_t labelled_ns, named_ns; /* when labels were looked up that were not known; that processes wait for */
	int64_t relieved_ns;         /* when the rings were emptied last */
	unsigned quick_left;         /* drains that are to follow soon */
	uint32_t quick_drains;       /* of the second that began at: */
	int64_t quick_second_ns;
	int64_t due_ns;              /* when a process that starts is to be looked at again; INT64_MAX = none */
	struct told_count full_said, postponed_said; /* of unwind tables that found no memory, and of those postponed for want of CPU time */
	bool cpu_missing;            /* said that a CPU cannot be sampled */
	struct agent_cost cost;
	struct pacer pacer;          /* the current frequency and off-CPU step */
	uint64_t spent_ns[2];        /* by enum window_kind: CPU time of the drain on samples, on waits */
	int64_t preparing_ns;        /* of this drain's: mappings and tables of programs that the kernel did not know */
	_Atomic uint64_t answered_off_ns; /* of HTTP's threads on off-CPU profiles */
	struct off_cpu off;
	struct filter *filter;
	uint64_t last_stats[STATS_MAX];

	int64_t locked_ns;           /* when the drain thread took the lock last */
	struct mutex lock;           /* guards the fields from here to the end, and the removal of images */
	pthread_cond_t finished;     /* a caller's window is, or the agent stops */
	struct stack_tree stacks;
	struct frame_table frames;   /* of runtimes, which it names */
	size_t compacted_nodes;
	int64_t asked_ns;            /* when a profile was last asked for; 0 = never */
	struct sample_counts *current;
	struct sample_counts *next;  /* begins where current ends: samples of the last moments; NULL = none yet */
	uint64_t windows;            /* begun so far */
	VEC(struct sample_counts *) history; /* oldest first */
	VEC(struct sample_counts *) callers;
	/* Counted for the metrics. */
	struct drain_state state;
	uint64_t samples, deferred_finished, ends[END_CODES_], lost_ring, lost_records, throttled, bad_records,
		history_cut, drains, late_drains, slowed, dropped;
	int64_t unseen_ns, drained_ns;
	uint64_t sample_ns;          /* the sampling program's own time */
	uint64_t sampled_frames;
};

/* drain.c: time of the host that no sample stands for. */
void drain_count_unseen(struct agent *a, int64_t now_ns, int64_t unseen_ns) REQUIRES(a->lock);
/* drain_lock.c: takes the lock for the drain thread, which releases it while it reads the files that processes map. */
void drain_lock(struct agent *a) ACQUIRES(a->lock);
/* Releases it for a moment if that thread has had it for long: other threads get it. */
void drain_let_in(struct agent *a) REQUIRES(a->lock);
/* drain.c: what the metrics say of processes, images and tables. */
void drain_tell_state(struct agent *a) REQUIRES(a->lock);
/* drain.c: records and samples that were read, in the order of time. from_ns: clock_cpu_ns() before they were. */
void drain_process(struct agent *a, int64_t now_ns, int64_t from_ns) REQUIRES(a->lock);
/* drain.c: what CPUs know of a process's runtime is void once something else is in the map. Tells them; before a runtime that was left is
 * attached to again, and when a drain is done. */
void drain_tell_edition(struct agent *a) REQUIRES(a->lock);

/* stack_finish.c: the stack of sample `at` as a node of the tree, finished if the kernel could not, without its innermost
 * skip_kernel kernel frames; and who it is of. False: relabelling drops it. */
struct finished_stack {
	uint32_t node;
	struct process_info *who;
};
bool stack_finish(struct agent *a, size_t at, uint32_t skip_kernel, int64_t now_ns, struct finished_stack *ret) REQUIRES(a->lock);
/* offcpu.c: a sample that is a wait; what the kernel counted; whether to go on. */
void offcpu_take(struct agent *a, size_t at, int64_t now_ns) REQUIRES(a->lock);
void offcpu_count_losses(struct agent *a, const uint64_t stats[STATS_MAX], int64_t now_ns) REQUIRES(a->lock);
int offcpu_start(struct agent *a, struct err *e) MUST_USE;
/* The pacer changed the step; it was `before`. */
void offcpu_step(struct agent *a, unsigned before, int64_t now_ns) REQUIRES(a->lock);
/* stack_finish.c: names of what is sampled are got ready only while somebody asks for profiles; so long after that. */
#define ASKED_FOR_NS 600000000000ll

/* windows.c */
void windows_start(struct agent *a);
void windows_release(struct agent *a);
/* Unix time - monotonic, now. */
int64_t windows_unix_offset(void);
/* Processes whose containers are named now (labeler_tick) have their final labels in all windows. */
void windows_name(struct agent *a, int64_t now) REQUIRES(a->lock);
/* How many windows of the history may be answered with: those before the first one in which a process waits for its container's name. */
size_t windows_named(const struct agent *a) REQUIRES(a->lock);
/* When a caller's window is finished at the latest: a name is waited for, but briefly. */
#define CALLER_NAME_WAIT_NS 1500000000ll
int64_t windows_caller_due_ns(const struct sample_counts *t);
/* All before `now` was counted: windows that end before it are finished. Renumbers stacks. */
void windows_finish(struct agent *a, int64_t now) REQUIRES(a->lock);
/* A tick; and waits, n of them, 0: more of one that was counted. */
void windows_count(struct agent *a, int64_t time_ns, struct process_info *who, const char thread[16], uint32_t stack,
		   int64_t value_ns) REQUIRES(a->lock);
void windows_count_wait(struct agent *a, enum wait_state state, int64_t time_ns, struct process_info *who,
			const char thread[16], uint32_t stack, int64_t value_ns, uint32_t n) REQUIRES(a->lock);

#endif
