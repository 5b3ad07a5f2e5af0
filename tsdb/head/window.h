/* SPDX-License-Identifier: Apache-2.0 */
/* One hour of one partition in memory: a chunk per series. Window w holds the stamps in (w h, w h + 1 h], as ranges of
 * queries are open to the left. The committer adds under the write lock, queries read under the read lock. Reference
 * counted: a version of the database holds one, so that what a query looks at outlives the seal that replaces it. */
#ifndef PYRRHA_TSDB_WINDOW_H
#define PYRRHA_TSDB_WINDOW_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/map.h"
#include "tsdb/head/chunk.h"

#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

static inline int64_t window_of(int64_t t_ms)
{
	return (t_ms - 1) / HOUR_MS;
}

static inline uint32_t day_of(int64_t t_ms)
{
	return (uint32_t)((t_ms - 1) / DAY_MS);
}

/* A sample of a float series. */
struct fpoint {
	int64_t t_ms;
	uint64_t bits;
	uint64_t seq;
};

struct fchunk {
	uint32_t series;
	bool unsorted;
	VEC(struct fpoint) points; /* in order of arrival */
};

struct window {
	int refs;               /* atomic */
	int64_t hour;           /* stamps in (hour, hour + 1] hours */
	struct rwlock lock;
	struct map index;       /* hash of series id -> chunk */
	VEC(struct chunk *) chunks;
	struct row_memory rows;
	struct map findex;
	VEC(struct fchunk *) fchunks;
	uint64_t first_record, last_record; /* that have data for it */
	size_t bytes;           /* memory, roughly; the committer keeps it */
	atomic_size_t sums_bytes; /* of what queries keep beside it (head_sums.h), under: */
	struct mutex sums_lock;
	bool frozen;            /* being sealed: takes nothing more */
	int64_t opened_mono_ms; /* when the first row came */
};

struct window *window_new(int64_t hour);
struct window *window_ref(struct window *w);
void window_unref(struct window *w);

/* All of its memory. */
static inline size_t window_memory(struct window *w)
{
	return w->bytes + atomic_load(&w->sums_bytes);
}

/* NULL if the series has nothing here. Under the lock, in whichever mode; or frozen. */
struct chunk *window_chunk(const struct window *w, uint32_t series);
struct fchunk *window_fchunk(const struct window *w, uint32_t series);
void window_add_profile(struct window *w, const struct record_profile *p, uint64_t record, uint64_t seq) REQUIRES(w->lock);
void window_add_float(struct window *w, const struct record_float *f, uint64_t record, uint64_t seq) REQUIRES(w->lock);

#endif
