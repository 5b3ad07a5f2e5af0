/* SPDX-License-Identifier: Apache-2.0 */
/* Prevents queries from making the kernel end the process. Budgets count what queries hold for long; what they hold for moments, while
 * storage reads and stacks are folded, is seen here, by what is resident:
 *
 *	0             7/8 of the limit         limit
 *	|------------------|---------------------|     beyond the line freed memory goes back to the system; if that is not
 *	                   no query begins,            enough a query is stopped, the youngest of those that read most
 *	                   one is stopped
 *
 * Answers are made after their query has left: a flame graph of all of a day takes several times its profile. What an answer takes is announced
 * before it is allocated. An eighth of the limit is for the answers that are made concurrently. The one that began first may use what is
 * left up to the line; what does not fit there is refused. A small answer never waits.
 *
 * After 10 s without a query, the memory that queries freed is returned as well, if they had added that much.
 *
 * Only while queries run and have added a sixteenth of the limit since there were none: other resident memory is not theirs. */
#ifndef PYRRHA_PROMQL_MEMORY_GUARD_H
#define PYRRHA_PROMQL_MEMORY_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct memory_guard;

/* A query at work. Fields but `stopped` and `samples` are the guard's. */
struct guarded {
	atomic_bool stopped;                            /* set once, by the guard */
	uint64_t (*samples)(const struct guarded *x);   /* how many it has read; from the guard's thread */
	struct guarded *next;
};

/* resident: bytes, read every few ms while queries run; NULL = the kernel's value for this process. limit: bytes the process may have;
 * 0 = no guard, NULL, which the calls below take. */
struct memory_guard *memory_guard_new(uint64_t limit, uint64_t (*resident)(void)) MUST_USE;
/* No query may be at work. */
void memory_guard_free(struct memory_guard *g);
void memory_guard_enter(struct memory_guard *g, struct guarded *x);
void memory_guard_leave(struct memory_guard *g, struct guarded *x);
/* A query has left, and its result is there still: while there are such the guard looks as it does while queries are at work. */
void memory_guard_hold(struct memory_guard *g);
void memory_guard_drop(struct memory_guard *g);
/* An answer that is being made: what was announced for it. Zeroed: nothing yet. Fields are the guard's. */
struct answer_maker {
	struct answer_maker *next; /* the next younger one that is being made */
	uint64_t bytes;
	uint64_t base;             /* resident bytes of the process when this answer announced its first bytes */
	bool is_small;
};
/* Before `bytes` more are allocated for an answer: waits until there is room for them. New answers wait in the order in which they came; one that
 * has begun goes before them. ERR_TIMEOUT, ERR_CANCELED; ERR_LIMIT: they will not fit; ERR_BUSY: all
 * answers wait for each other, and this is the youngest. In the end call memory_guard_made, also after an error. */
int memory_guard_make(struct memory_guard *g, struct answer_maker *m, uint64_t bytes, int64_t deadline_ns, const atomic_bool *canceled,
		      struct err *e) MUST_USE;
void memory_guard_made(struct memory_guard *g, struct answer_maker *m);
/* Whether another query had better wait. */
bool memory_guard_is_short(struct memory_guard *g);
/* How many answers that are not small are being made, or wait to be. */
unsigned memory_guard_makes(struct memory_guard *g);
/* How many were stopped since the start. */
uint64_t memory_guard_stops(const struct memory_guard *g);

#endif
