/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/head/remove.h"

#include "base/alloc.h"
#include "tsdb/head/head_sums.h"

#define GONE UINT32_MAX

/* A chunk that is being rebuilt: its old state, and the new places of its rows. */
struct refill {
	struct chunk *chunk;
	struct chunk old;
	uint32_t *moved;
};

struct removal {
	const struct tombstone_fact *f;
	VEC(struct refill) refills;
	struct record_profile p;
	struct row_memory *memory; /* of the window */
	size_t removed;
};

static bool in_range(const struct tombstone_fact *f, int64_t t_ms)
{
	return t_ms > f->after_ms && t_ms <= f->until_ms;
}

static size_t count_rows(const struct tombstone_fact *f, const struct chunk *c)
{
	size_t n = 0;
	if (tombstone_fact_has(f, c->series))
		for (size_t i = 0; i < c->rows.n; i++)
			n += in_range(f, c->rows.v[i].t_ms);
	return n;
}

static const struct refill *refill_of(const struct removal *x, const struct chunk *c)
{
	for (size_t i = 0; i < x->refills.n; i++)
		if (x->refills.v[i].chunk == c)
			return &x->refills.v[i];
	return NULL;
}

/* The row as the profile it was made from. */
static void read_row(struct removal *x, const struct chunk *c, const struct chunk_row *r)
{
	x->p.n_series = 1;
	x->p.series[0] = c->series;
	x->p.t_ms = r->t_ms;
	x->p.cover_ms = r->cover_ms;
	x->p.stale = r->stale;
	x->p.n = 0;
	if (r->stale)
		return;
	x->p.meta = c->metas.v[r->meta];
	x->p.n = r->n;
	vec_reserve(&x->p.columns, r->n + 1);
	vec_reserve(&x->p.values, r->n + 1);
	chunk_row_samples(c, r, x->p.columns.v, x->p.values.v);
	x->p.columns.n = x->p.values.n = r->n;
}

/* old.base is what the base was, base what it is now. A multiple of a deleted row keeps its own values from here on. */
static void fill(struct removal *x, struct refill *r, struct chunk *base, const uint32_t *base_moved)
{
	bool named = tombstone_fact_has(x->f, r->old.series);
	for (size_t i = 0; i < r->old.rows.n; i++) {
		const struct chunk_row *row = &r->old.rows.v[i];
		r->moved[i] = GONE;
		if (named && in_range(x->f, row->t_ms)) {
			x->removed++;
			continue;
		}
		r->moved[i] = (uint32_t)r->chunk->rows.n;
		read_row(x, &r->old, row);
		uint32_t at = row->stale || row->index_width ? GONE : base_moved ? base_moved[row->at] : row->at;
		x->p.factor[0] = r->old.factor;
		chunk_add(r->chunk, x->memory, &x->p, 0, at == GONE ? NULL : base, row->seq);
		struct chunk_row *now = &r->chunk->rows.v[r->chunk->rows.n - 1];
		if (at != GONE && !now->index_width) {
			now->at = at;
			now->n = base->rows.v[at].n;
		}
	}
}

static void refill(struct removal *x, struct chunk *c)
{
	struct refill *r = vec_add(&x->refills);
	const struct refill *b = NULL;
	struct chunk *base = c->base;
	r->chunk = c;
	r->old = *c;
	r->moved = xreallocarray(NULL, c->rows.n + 1, sizeof *r->moved);
	*c = (struct chunk){ .series = r->old.series };
	if (base && (b = refill_of(x, base)))
		r->old.base = (struct chunk *)(uintptr_t)&b->old;
	fill(x, r, base, b ? b->moved : NULL);
}

static void remove_points(struct removal *x, struct fchunk *c)
{
	size_t kept = 0;
	if (!tombstone_fact_has(x->f, c->series))
		return;
	for (size_t i = 0; i < c->points.n; i++)
		if (!in_range(x->f, c->points.v[i].t_ms))
			c->points.v[kept++] = c->points.v[i];
	x->removed += c->points.n - kept;
	c->points.n = kept;
}

/* Bases first: what is a multiple of them looks up where their rows went. */
size_t remove_from_window(struct window *w, const struct tombstone_fact *f)
{
	struct removal x = { .f = f, .memory = &w->rows };
	size_t before = w->rows.bytes, after = 0;
	vec_reserve(&x.refills, w->chunks.n + 1); /* so that none moves */
	for (int multiples = 0; multiples < 2; multiples++)
		for (size_t i = 0; i < w->chunks.n; i++) {
			struct chunk *c = w->chunks.v[i];
			if ((c->base != NULL) != multiples || (!count_rows(f, c) && !(c->base && refill_of(&x, c->base))))
				continue;
			before += chunk_bytes(c);
			head_sums_drop(w, c);
			refill(&x, c);
			after += chunk_bytes(c);
		}
	after += w->rows.bytes; /* what went keeps its memory until the window is sealed */
	for (size_t i = 0; i < w->fchunks.n; i++)
		remove_points(&x, w->fchunks.v[i]);
	w->bytes = w->bytes + after > before ? w->bytes + after - before : 0;
	for (size_t i = 0; i < x.refills.n; i++) {
		chunk_release(&x.refills.v[i].old);
		free(x.refills.v[i].moved);
	}
	vec_free(&x.refills);
	record_profile_release(&x.p);
	return x.removed;
}
