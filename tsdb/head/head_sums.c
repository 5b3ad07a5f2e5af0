/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/head/head_sums.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

#define LEAST_ROWS 32 /* of a question, and between one making and the next */
#define TIMES 8       /* at least this many samples for each sum, or they are not kept */

/* For the first `rows` rows, which had this many samples. Never changes. */
struct chunk_sums {
	int refs; /* under the window's sums_lock */
	size_t rows, n;
	uint64_t samples;
	uint32_t *columns; /* NULL: not worth it */
	int64_t *sums;
};

static size_t bytes_of(const struct chunk_sums *s)
{
	return sizeof *s + s->n * (sizeof *s->columns + sizeof *s->sums);
}

/* ---- which chunks have sums ---- */

/* Under sums_lock. */
static void unref(struct window *w, struct chunk_sums *s)
{
	if (!s || --s->refs)
		return;
	atomic_fetch_sub(&w->sums_bytes, bytes_of(s));
	free(s->columns);
	free(s->sums);
	free(s);
}

static void let_go(struct window *w, struct chunk_sums *s)
{
	mutex_lock(&w->sums_lock);
	unref(w, s);
	mutex_unlock(&w->sums_lock);
}

static struct chunk_sums *take(struct window *w, struct chunk *c, bool *ret_again)
{
	mutex_lock(&w->sums_lock);
	struct chunk_sums *s = c->sums;
	if (s)
		s->refs++;
	*ret_again = c->asked;
	c->asked = true;
	mutex_unlock(&w->sums_lock);
	return s;
}

/* The chunk has s from now on; returned is s for the caller, too. */
static struct chunk_sums *publish(struct window *w, struct chunk *c, struct chunk_sums *s)
{
	mutex_lock(&w->sums_lock);
	atomic_fetch_add(&w->sums_bytes, bytes_of(s));
	unref(w, c->sums);
	c->sums = s;
	s->refs = 2;
	mutex_unlock(&w->sums_lock);
	return s;
}

void head_sums_drop(struct window *w, struct chunk *c)
{
	let_go(w, c->sums);
	c->sums = NULL;
}

/* ---- making ---- */

static void add_kept(const struct chunk_sums *s, struct dense *d, uint64_t *read)
{
	assert(!s->n || s->columns[s->n - 1] < d->room);
	for (size_t i = 0; i < s->n; i++) {
		d->sums[s->columns[i]] += s->sums[i];
		d->marks[s->columns[i] / 64] = 1;
	}
	*read += s->n;
}

static struct chunk_sums *make(const struct chunk *c, const struct chunk_sums *old, size_t rows, struct dense *work)
{
	struct chunk_sums *s = NEW(struct chunk_sums);
	uint64_t unused = 0;
	size_t from = 0;
	s->rows = rows;
	dense_reserve(work, c->n_columns);
	if (!dense_expect(work, c->magnitude, 1))
		return s;
	if (old && old->columns) {
		add_kept(old, work, &unused);
		from = old->rows;
		s->samples = old->samples;
	}
	chunk_add_rows(c, from, rows, 1, work, &s->samples);
	size_t most = dense_count(work);
	s->columns = xreallocarray(NULL, most + 1, sizeof *s->columns);
	s->sums = xreallocarray(NULL, most + 1, sizeof *s->sums);
	s->n = dense_take(work, s->columns, s->sums);
	if (s->n * TIMES > s->samples) {
		free(TAKE_PTR(s->columns));
		free(TAKE_PTR(s->sums));
		s->n = 0;
		return s;
	}
	s->columns = xreallocarray(s->columns, s->n + 1, sizeof *s->columns);
	s->sums = xreallocarray(s->sums, s->n + 1, sizeof *s->sums);
	return s;
}

/* Sums that were not worthwhile are tried again when there are twice as many rows. */
static bool is_due(const struct chunk_sums *s, size_t visible)
{
	return !s || visible >= (s->columns ? s->rows + LEAST_ROWS : s->rows * 2);
}

/* Whether less is added up with them: rows before lo and those between what is kept and hi, and the sums. */
static bool saves(const struct chunk_sums *s, size_t lo, size_t hi)
{
	if (!s || !s->columns)
		return false;
	size_t rows = lo + (hi > s->rows ? hi - s->rows : s->rows - hi), sums = (size_t)((double)s->n * (double)s->rows / (double)MAX(s->samples, 1));
	return rows + sums < (hi - lo) / 2;
}

int head_sums_add(struct window *w, struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct dense *d, struct dense *work,
		  uint64_t *ret_read, struct err *e)
{
	size_t lo, hi;
	bool again;
	chunk_bounds(c, visible, after_ms, until_ms, &lo, &hi);
	if (c->unsorted || hi < lo + LEAST_ROWS)
		return chunk_sum(c, visible, after_ms, until_ms, d, ret_read, e);
	struct chunk_sums *s = take(w, c, &again);
	if (again && lo < (hi - lo) / 2 && is_due(s, visible)) {
		struct chunk_sums *now = make(c, s, visible, work);
		let_go(w, s);
		s = publish(w, c, now);
	}
	bool use = saves(s, lo, hi) && s->rows <= visible && dense_expect(d, c->magnitude, 2);
	if (use) {
		add_kept(s, d, ret_read);
		chunk_add_rows(c, 0, lo, -1, d, ret_read);
		chunk_add_rows(c, MIN(hi, s->rows), MAX(hi, s->rows), hi > s->rows ? 1 : -1, d, ret_read);
	}
	let_go(w, s);
	return use ? 0 : chunk_sum(c, visible, after_ms, until_ms, d, ret_read, e);
}
