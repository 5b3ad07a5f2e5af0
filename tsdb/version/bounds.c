/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/bounds.h"

#include "tsdb/part/part.h"
#include "tsdb/version/tombstones.h"

/* The part's bounds of the series without what is hidden: exact where a tombstone covers one end of them. */
static void saw_part(struct series *x, const struct pstate *s, const struct part *p, const struct part_series *b)
{
	int64_t lo = part_start_ms(p) + b->min_ms, hi = part_start_ms(p) + b->max_ms, after = lo - 1, until;
	bool any = false;
	int64_t last = 0;
	while (tombstones_next(s, p, b->series, &after, hi, &until)) {
		if (!any)
			series_saw(x, after + 1);
		any = true;
		last = after = until;
	}
	if (any)
		series_saw(x, last);
}

static void saw_window(struct series *x, struct window *w, uint32_t id)
{
	rwlock_read(&w->lock);
	const struct chunk *c = x->is_float ? NULL : window_chunk(w, id);
	const struct fchunk *f = x->is_float ? window_fchunk(w, id) : NULL;
	for (size_t i = 0; c && i < c->rows.n; i++)
		series_saw(x, c->rows.v[i].t_ms);
	for (size_t i = 0; f && i < f->points.n; i++)
		series_saw(x, f->points.v[i].t_ms);
	rwlock_unlock(&w->lock);
}

static void one_bound(struct partition *p, const struct pstate *s, uint32_t id)
{
	struct series *x = p->index.series.v[id];
	atomic_store(&x->min_t, INT64_MAX);
	atomic_store(&x->max_t, INT64_MIN);
	for (size_t i = 0; s && i < s->n_parts; i++) {
		const struct part_series *b = s->parts[i]->level == LEVEL_HOUR ? part_find(s->parts[i], id) : NULL;
		if (b)
			saw_part(x, s, s->parts[i], b);
	}
	for (size_t i = 0; s && i < s->n_windows; i++)
		saw_window(x, s->windows[i], id);
}

void bounds_renew(struct partition *p, const struct pstate *s, const struct tombstone_fact *f)
{
	rwlock_assert_held(&p->dict_lock);
	for (size_t i = 0; i < (f ? f->series.n : p->index.series.n); i++) {
		uint32_t id = f ? f->series.v[i] : (uint32_t)i;
		if (id < p->index.series.n)
			one_bound(p, s, id);
	}
}
