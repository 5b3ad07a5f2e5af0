/* SPDX-License-Identifier: Apache-2.0 */
/* What questions of other servers hold while they are answered: the decoded question, the lists that are collected for the answer, and the answer's bytes.
 * One budget is for all questions together (budget.h):
 *
 *	0            12/16           14/16      16/16
 *	|-------------|---------------|-----------|
 *	   any question   a small question begins   small questions that have begun
 *
 * A question that holds nothing yet waits for room. One that has begun does not wait, or two would wait for each other: it ends, ERR_BUSY. Any thread. */
#ifndef PYRRHA_FLEET_QUESTION_MEMORY_H
#define PYRRHA_FLEET_QUESTION_MEMORY_H

#include "base/budget.h"
#include "base/err.h"
#include "base/lock.h"

struct question_memory {
	struct budget all;
	struct mutex lock;           /* of the condition */
	pthread_cond_t freed;
	atomic_uint waiting;
};

/* max_bytes: 0 = no ceiling. */
void question_memory_init(struct question_memory *m, uint64_t max_bytes);
/* No question may be at work. */
void question_memory_destroy(struct question_memory *m);

/* What one question holds. */
struct question_held {
	struct budget budget;        /* a part of all */
	struct question_memory *of;
	uint64_t max_bytes;          /* of its lists; 0 = unlimited */
	atomic_uint_fast64_t lists;  /* bytes */
};

void question_held_init(struct question_held *h, struct question_memory *of);
/* All of it is given back. */
void question_held_release(struct question_held *h);
/* Before or after n bytes are allocated for a list of the result. ERR_LIMIT: the lists have more than max_bytes, or the question has more than one may have; ERR_BUSY:
 * other questions have what there is. NULL: nothing is counted. */
int question_held_list(struct question_held *h, uint64_t n, struct err *e) MUST_USE;
/* The same for something else than a list. */
int question_held_take(struct question_held *h, uint64_t n, struct err *e) MUST_USE;
/* Waits until a question that begins would get n bytes. False: the deadline (CLOCK_MONOTONIC) has passed, or canceled (may be NULL) was raised, or the
 * budget is not that large. */
bool question_held_wait(struct question_held *h, uint64_t n, int64_t deadline_ns, const atomic_bool *canceled) MUST_USE;
/* ERR_BUSY, or ERR_LIMIT if the budget is not that large: why n bytes were refused. */
int question_held_refuse(const struct question_held *h, uint64_t n, struct err *e) MUST_USE;

#endif
