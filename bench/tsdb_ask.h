/* SPDX-License-Identifier: Apache-2.0 */
/* The questions that bench_tsdb asks, what the generator knows their answers to be, and asking them. The truth can be
 * written into a file beside the storage, so that a directory that was made once can be asked again. */
#ifndef PYRRHA_BENCH_TSDB_ASK_H
#define PYRRHA_BENCH_TSDB_ASK_H

#include "bench/fleet.h"

#define TAIL_MS (90 * INT64_C(60000))

enum what { MERGE, GRAPH_POD, GRAPH_SERVICE, SHARE_SERVICE, SHARE };
enum who { ALL, ONE, SOME };

/* A query and what its answer must be. */
struct question {
	const char *name;
	enum what what;
	enum who who;           /* all pods; one; all but those of one node: no service is whole */
	double limit_ms;        /* that it is held to, warm; 0 = none */
	double cold_limit_ms;
	int64_t after_ms, until_ms;
	uint64_t want;
	double cold, warm[2], cpu;
	bool wrong;
};

struct truth {
	double scale;
	int64_t hours, now_ms, end_ms; /* end_ms: the last whole hour; now_ms goes on for 90 minutes */
	uint32_t last_deploy;
	char function[200];            /* that graphs ask for */
	VEC(struct question) questions;
};

/* Fills in end_ms, last_deploy and the questions, from scale and hours. */
void truth_init(struct truth *t);
/* Counts a profile in. */
void truth_remember(struct truth *t, const struct pod *p, const struct drawn *d);
/* false: the file cannot be written, or is not one. Loading fills in everything; the questions are those of this program. */
bool truth_save(const struct truth *t, const char *path);
bool truth_load(struct truth *t, const char *path);

/* Asks, and returns how many ms that took, from opening a view to the answer (a profile: folded into a tree). check: whether
 * the answer is the truth goes into q->wrong. */
double truth_ask(const struct truth *t, struct question *q, struct tsdb *db, struct pool *pool, bool check);
/* Opens a view and selects all, which loads the dictionaries, and makes their calls, which the first flame graph does. */
void truth_touch(struct tsdb *db);

#endif
