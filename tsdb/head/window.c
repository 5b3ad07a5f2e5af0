/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/head/window.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "tsdb/head/head_sums.h"

struct window *window_new(int64_t hour)
{
	struct window *w = NEW(struct window);
	w->refs = 1;
	w->hour = hour;
	w->first_record = UINT64_MAX;
	w->opened_mono_ms = clock_mono_ms();
	mutex_init(&w->sums_lock, LOCK_LEAF, "head sums");
	rwlock_init(&w->lock, RANK_TSDB_WINDOW, "window");
	return w;
}

struct window *window_ref(struct window *w)
{
	__atomic_fetch_add(&w->refs, 1, __ATOMIC_RELAXED);
	return w;
}

void window_unref(struct window *w)
{
	if (!w || __atomic_fetch_sub(&w->refs, 1, __ATOMIC_ACQ_REL) != 1)
		return;
	for (size_t i = 0; i < w->chunks.n; i++) {
		head_sums_drop(w, w->chunks.v[i]);
		chunk_release(w->chunks.v[i]);
		free(w->chunks.v[i]);
	}
	for (size_t i = 0; i < w->fchunks.n; i++) {
		vec_free(&w->fchunks.v[i]->points);
		free(w->fchunks.v[i]);
	}
	row_memory_release(&w->rows);
	vec_free(&w->chunks);
	vec_free(&w->fchunks);
	map_free(&w->index);
	map_free(&w->findex);
	mutex_destroy(&w->sums_lock);
	rwlock_destroy(&w->lock);
	free(w);
}

struct chunk *window_chunk(const struct window *w, uint32_t series)
{
	uint64_t h = hash_u64(series);
	uint32_t i;
	for (size_t at = map_start(&w->index, h); map_probe(&w->index, h, &at, &i);)
		if (w->chunks.v[i]->series == series)
			return w->chunks.v[i];
	return NULL;
}

struct fchunk *window_fchunk(const struct window *w, uint32_t series)
{
	uint64_t h = hash_u64(series);
	uint32_t i;
	for (size_t at = map_start(&w->findex, h); map_probe(&w->findex, h, &at, &i);)
		if (w->fchunks.v[i]->series == series)
			return w->fchunks.v[i];
	return NULL;
}

static void covers(struct window *w, uint64_t record)
{
	w->first_record = MIN(w->first_record, record);
	w->last_record = MAX(w->last_record, record);
}

static struct chunk *need_chunk(struct window *w, uint32_t series)
{
	struct chunk *c = window_chunk(w, series);
	if (c)
		return c;
	c = NEW(struct chunk);
	c->series = series;
	w->bytes += sizeof *c + 4 * sizeof *w->index.slots;
	map_insert(&w->index, hash_u64(series), (uint32_t)w->chunks.n);
	vec_push(&w->chunks, c);
	return c;
}

void window_add_profile(struct window *w, const struct record_profile *p, uint64_t record, uint64_t seq)
{
	struct chunk *of[RECORD_MAX_TYPES];
	covers(w, record);
	for (uint32_t i = 0; i < p->n_series; i++) {
		of[i] = need_chunk(w, p->series[i]);
		size_t before = chunk_bytes(of[i]) + w->rows.bytes;
		chunk_add(of[i], &w->rows, p, i, p->times_of[i] < i ? of[p->times_of[i]] : NULL, seq);
		w->bytes += chunk_bytes(of[i]) + w->rows.bytes - before;
	}
}

void window_add_float(struct window *w, const struct record_float *f, uint64_t record, uint64_t seq)
{
	covers(w, record);
	struct fchunk *c = window_fchunk(w, f->series);
	if (!c) {
		c = NEW(struct fchunk);
		c->series = f->series;
		map_insert(&w->findex, hash_u64(f->series), (uint32_t)w->fchunks.n);
		vec_push(&w->fchunks, c);
		w->bytes += sizeof *c + 4 * sizeof *w->findex.slots;
	}
	if (c->points.n && f->t_ms < c->points.v[c->points.n - 1].t_ms)
		c->unsorted = true;
	size_t cap = c->points.cap;
	vec_push(&c->points, (struct fpoint){ f->t_ms, f->bits, seq });
	w->bytes += (c->points.cap - cap) * sizeof *c->points.v;
}
