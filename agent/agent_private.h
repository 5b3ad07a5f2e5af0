/* SPDX-License-Identifier: Apache-2.0 */
/* What agent.c, drain.c and the agent's metrics share. */
#ifndef PYRRHA_AGENT_AGENT_PRIVATE_H
#define PYRRHA_AGENT_AGENT_PRIVATE_H

#include <pthread.h>

#include "agent/agent.h"
#include "agent/cost.h"
#include "agent/labels.h"
#include "agent/perf_events.h"
#include "agent/pods.h"
#include "agent/process.h"
#include "agent/sampler.h"
#include "agent/symbolize.h"
#include "agent/tally.h"

/* A sample is in the ring at most this long after its time. */
#define IN_FLIGHT_NS 20000000ll

struct agent {
	struct agent_options o;
	struct sampler sampler;
	struct tables *tables;
	struct images *images;
	struct processes *processes;
	struct perf_events *events;
	struct symbolizer *symbolizer;
	struct labeler *labeler;
	struct pods *pods;           /* NULL = not in a cluster */
	struct agent_config *config; /* guarded by the lock */
	atomic_bool config_ok;       /* the last reading of the file worked */
	int64_t configured_ms;
	struct records records;
	int epoll_fd, wake_fd;
	pthread_t thread;
	bool running;
	atomic_bool stopping;
	int64_t kept_house_ns;
	struct cost cost;
	double hz;                   /* now: at most o.hz */
	uint64_t last_stats[STATS_MAX];

	pthread_mutex_t lock;        /* guards all below, and ids of images */
	pthread_cond_t finished;     /* a caller's window is, or the agent stops */
	struct stack_tree stacks;
	size_t compacted_nodes;
	struct tally *current;
	VEC(struct tally *) history; /* oldest first */
	VEC(struct tally *) callers;
	/* Counted for the metrics. */
	uint64_t samples, deferred_finished, ends[END_CODES_], lost_ring, lost_records, throttled, bad_records,
		history_cut, drains, slowed, dropped;
	int64_t unseen_ns;
	uint64_t sample_ns;          /* the sampling program's own time */
	uint64_t sampled_frames;
};

/* drain.c: time of the host that no sample stands for. */
void drain_count_unseen(struct agent *a, int64_t now_ns, int64_t unseen_ns);
/* drain.c: records and samples that were read, in the order of time. */
void drain_process(struct agent *a, int64_t now_ns);

/* agent.c */
void agent_drain(struct agent *a);
void agent_watch_events(struct agent *a);
void agent_count(struct agent *a, int64_t time_ns, struct process_info *who, const char thread[16], uint32_t stack,
		 int64_t value_ns);

#endif
