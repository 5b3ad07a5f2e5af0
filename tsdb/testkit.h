/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of this folder: profiles made from a seed, a temporary directory, a database on it with the test's clock, and
 * merges as text-keyed sums to compare with a plain model. */
#ifndef PYRRHA_TSDB_TESTKIT_H
#define PYRRHA_TSDB_TESTKIT_H

#include <stdio.h>
#include <stdlib.h>

#include "model/stackvec.h"
#include "tsdb/tsdb.h"

/* For making what a test is about: a failure here ends the program, as it is no finding of the test. */
#define KIT_CHECK(x) do { \
	if (!(x)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
		abort(); \
	} \
} while (0)

#define KIT_T0 INT64_C(1700006400000) /* 2023-11-15 00:00 UTC: the start of a partition */
#define KIT_PERIOD 10000000

struct kit {
	char dir[256];
	struct tsdb *db;
	_Atomic int64_t now_ms; /* the threads of the storage ask for it while a test sets it */
	_Atomic int64_t boot_ms; /* the monotonic clock, for tests that set kit_boot as o.boot_ms */
	const struct sink_note *notes; /* each profile that is appended has them beside it */
	size_t n_notes;
	bool patient;            /* what is appended; see sink_batch */
	struct budget *budget;   /* of the arenas of profiles that are appended; NULL = none */
	const struct source_limits *lim; /* of kit_count and kit_merge; NULL = what cannot be read fails the test */
	const char *job;         /* of what is appended; NULL = "kit" */
	struct tsdb_options o;
};

void kit_init(struct kit *k);
int64_t kit_boot(void *kit);
/* The same on a directory of the caller's. */
void kit_set(struct kit *k, const char *dir);
void kit_open(struct kit *k);
void kit_close(struct kit *k);
void kit_reopen(struct kit *k);
/* Closes and removes the directory. */
void kit_free(struct kit *k);

/* A profile with n stacks out of a pool of 1000 (main;fA;fB...), two sample types: samples and cpu = samples x period. */
void kit_profile(struct profile *p, uint64_t seed, uint32_t n);
/* Appends it as {__name__=..., job="kit", pod="pod-N"} in both types; returns what append returned. */
int kit_append(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t n, struct sink_result *ret);
/* The same, and done is called when it is durable or refused. */
int kit_append_done(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t n, struct sink_result *ret,
		    void (*done)(void *arg, const struct err *e), void *arg);
int kit_append_float(struct kit *k, const char *name, int64_t t_ms, double v, struct sink_result *ret);

/* The filter of kit_profile's functions of odd numbers: every second one. Any thread; valid for ever. */
struct source_frame_filter kit_odd_functions(bool leaf_only);
/* An order-free checksum of a merged profile: sum over columns of hash(names of the stack, labels) * value. */
uint64_t kit_vec_sum(const struct stackvec *v);
/* The same for one sample type of kit_profile's profile. */
uint64_t kit_profile_sum(uint64_t seed, uint32_t n, bool cpu);
/* The total of its samples. */
int64_t kit_profile_total(uint64_t seed, uint32_t n);
/* The checksum of the merge of all series of that name in (after, until]. */
uint64_t kit_merge(struct kit *k, const char *name, int64_t after_ms, int64_t until_ms, struct pool *pool);
/* Checks that a graph of the first `most` series of that name, steps of (after + k step, after + k step + range], equals its series
 * and steps one by one: all values, those of some frames, and both together. */
void kit_check_graph(struct kit *k, const char *name, size_t most, int64_t after_ms, int64_t range_ms, int64_t step_ms,
		     uint32_t n_steps, struct pool *pool);
/* Checks that the names and types of (after, until] are those of the series that a select finds, each as often. Nothing is written meanwhile. */
void kit_check_types(struct source_view *v, int64_t after_ms, int64_t until_ms);
/* How many profiles all series of that name have in (after, until]; *ret_total (may be NULL) their totals. Held against what the
 * series say that these come to. */
size_t kit_count(struct kit *k, const char *name, int64_t after_ms, int64_t until_ms, int64_t *ret_total);

/* The texts of source_damage_warnings; no test has more of them. */
struct kit_warnings {
	size_t n;
	char texts[4][SOURCE_WARNING_LEN];
};
void kit_warnings(const struct source_damage *d, struct kit_warnings *ret);

#define KIT_SAMPLES "process_cpu:samples:count:cpu:nanoseconds:delta"
#define KIT_CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"

/* splitmix64: the tests' random numbers. */
uint64_t kit_random(uint64_t *state);

#endif
