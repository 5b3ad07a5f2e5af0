/* SPDX-License-Identifier: Apache-2.0 */
/* Answers questions of other servers (wire.h) out of a source of this process. It keeps, between the requests of an asker,
 *
 *	views      the state that the first request of a question opened, by token (random, not to be guessed): at most FLEET_VIEWS_MAX, and each until it was not asked for
 *	           FLEET_VIEW_IDLE_MS or is FLEET_VIEW_AGE_MS old: a view holds back files that were dropped. The one that was not asked for the longest makes room
 *	sessions   the dictionary that an asker has, by id: at most FLEET_SESSIONS_MAX and max_dictionary_bytes in all, and each until it was not used for
 *	           FLEET_SESSION_IDLE_MS: it may keep dictionaries of days in memory
 *
 * Either is forgotten at any time; askers then begin anew. Threads: any number at once; two requests of one view run side by side. One thread of its own, "source-views",
 * releases views and sessions that nobody asks for.
 *
 * Memory: what a question holds is counted in one budget for all questions (question_memory.h); a question that begins waits for room there until its time is over, one that
 * is at work is ERR_BUSY. What it reads into is not counted there. The guard stops it if the process is short of memory. */
#ifndef PYRRHA_FLEET_ANSWERER_H
#define PYRRHA_FLEET_ANSWERER_H

#include "fleet/wire.h"

#define FLEET_VIEWS_MAX 512
#define FLEET_VIEW_IDLE_MS 60000
#define FLEET_VIEW_AGE_MS 300000
#define FLEET_SESSIONS_MAX 64
#define FLEET_SESSION_IDLE_MS 600000

struct fleet_answerer_options {
	struct source *source;       /* borrowed: this server's own storage, never a union, so that nothing is asked twice around */
	struct labels *(*labels)(void *arg); /* returns owned (labels_dup): the external labels now; NULL: none */
	void *arg;
	struct pool *pool;           /* borrowed; may be NULL */
	fleet_rows_fn rows;          /* for graphs over stacks (call.h); NULL: they are refused */
	void *rows_arg;
	int64_t timeout_ms;          /* the longest call; 0 = 2 minutes */
	uint64_t max_samples, max_bytes; /* of a call, as source_limits; the question's own are used if lower. 0 = unlimited. max_samples: only of calls whose samples are held, as in
				      * queries of this server (calls that add up or pass on what they read have no limit) */
	uint64_t max_memory_bytes;   /* of all questions at work; 0 = unlimited */
	/* A question that reads storage is at work, until guard_leave of what it returns. *ret_stopped: as source_limits. samples_read: counts up. NULL: nobody guards. Calls of rows
	 * are left out: their maker guards them. */
	void *(*guard_enter)(void *arg, const atomic_uint_fast64_t *samples_read, const atomic_bool **ret_stopped);
	void (*guard_leave)(void *arg, void *guarded);
	void *guard_arg;
	uint64_t max_dictionary_bytes; /* of all sessions; 0 = 256 MiB */
	int64_t view_idle_ms, view_age_ms, session_idle_ms; /* 0 = FLEET_VIEW_IDLE_MS, FLEET_VIEW_AGE_MS, FLEET_SESSION_IDLE_MS */
};

/* Who asks, and how. */
struct fleet_asker {
	struct view name;            /* the login's name or the client's address: a view or session is only found by who made it */
	int64_t arrived_ns;          /* CLOCK_MONOTONIC, from when the time counts */
	const atomic_bool *canceled; /* as source_limits; may be NULL */
	void (*waits)(void *arg);    /* as source_limits; may be NULL */
	void *waits_arg;
};

struct fleet_answerer;

/* Returns owned. */
struct fleet_answerer *fleet_answerer_new(const struct fleet_answerer_options *o);
/* No call may be at work. NULL is fine. */
void fleet_answerer_free(struct fleet_answerer *a);
/* Appends the answer to a question, which is always one: errors are in it. out is empty; out->max bounds it. Returns the HTTP status (200 also for an
 * answer with an error; 400: no question of ours, out has a text). */
int fleet_answerer_run(struct fleet_answerer *a, struct view body, const struct fleet_asker *asker, struct buf *out);
/* Metrics pyrrha_source_*: once, by main. */
void fleet_answerer_register_metrics(void);

#endif
