/* SPDX-License-Identifier: Apache-2.0 */
/* The series index of one partition: labels -> series id, posting lists, time bounds.
 *
 *	series   [id] -> labels, type, [min, max] of its durable stamps
 *	postings (name, value) -> ids, ascending; name -> its values
 *
 * Names and values are strings of the partition's symbols, compared by id; a matcher is run once per distinct value.
 * One writer under the partition's lock, readers under its read side; a struct series never moves, so that a reader
 * may keep pointing at it. */
#ifndef PYRRHA_TSDB_INDEX_H
#define PYRRHA_TSDB_INDEX_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/map.h"
#include "model/labels.h"
#include "model/matcher.h"
#include "model/ptype.h"
#include "model/symbols.h"

struct series {
	struct labels labels;  /* strings of the symbols */
	struct ptype type;
	bool is_float;
	uint64_t hash;         /* of labels */
	atomic_llong min_t, max_t; /* ms, of what can be queried; min > max: nothing yet */
	atomic_llong last_t;   /* newest stamp taken in, ms; INT64_MIN = none */
	uint64_t magnitude;    /* sum of |value| taken in since the partition was loaded, at most INT64_MAX: no window or part of it can overflow. Under its lock */
	struct map label_sets; /* of its samples, seen since start; under the partition's lock */
};

struct posting {
	uint32_t name, value; /* string ids */
	VEC(uint32_t) ids;
};

struct index_name {
	uint32_t name;
	VEC(uint32_t) postings;
};

struct index {
	struct symbols *symbols; /* borrowed */
	VEC(struct series *) series;
	struct map by_labels;
	VEC(struct posting) postings;
	struct map by_pair;
	VEC(struct index_name) names;
	struct map by_name;
	size_t further; /* KiB of labels beyond the first of each series: they count as series */
};

void index_init(struct index *x, struct symbols *s);
void index_release(struct index *x);
size_t index_bytes(const struct index *x);
/* How many series they are for a limit: labels take memory as long as the day has it. */
size_t index_counted(const struct index *x);
/* The id of the series with these labels, or false. */
bool index_find(const struct index *x, struct labels l, uint64_t hash, uint32_t *ret);
/* Adds a series, interning its strings; type NULL = floats. The caller looked for it before. */
uint32_t index_add(struct index *x, struct labels l, uint64_t hash, const struct ptype *type);
/* Ids of the series that satisfy all matchers and have stamps in (after, until], ascending; malloc'd. meter: of their expressions, or
 * NULL. lock: the partition's, taken for reading while the index is read, but not while expressions are matched, so that a slow one
 * delays no writer. Series that come meanwhile are left out. */
int index_select(const struct index *x, struct rwlock *lock, const struct matcher *m, size_t n, int64_t after_ms,
		 int64_t until_ms, struct regex_meter *meter, uint32_t **ret, size_t *ret_n, struct err *e) MUST_USE;

static inline bool series_meets(const struct series *s, int64_t after_ms, int64_t until_ms)
{
	long long lo = atomic_load_explicit(&s->min_t, memory_order_relaxed);
	long long hi = atomic_load_explicit(&s->max_t, memory_order_relaxed);
	return lo <= until_ms && hi > after_ms && lo <= hi;
}

/* Widens the bounds; one writer at a time. */
static inline void series_saw(struct series *s, int64_t t_ms)
{
	if (t_ms < atomic_load_explicit(&s->min_t, memory_order_relaxed))
		atomic_store_explicit(&s->min_t, t_ms, memory_order_relaxed);
	if (t_ms > atomic_load_explicit(&s->max_t, memory_order_relaxed))
		atomic_store_explicit(&s->max_t, t_ms, memory_order_relaxed);
}

#endif
