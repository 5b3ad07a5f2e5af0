/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/tombstones.h"

#include "base/alloc.h"

struct tombstones *tombstones_ref(struct tombstones *m)
{
	if (m)
		atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
	return m;
}

void tombstones_unref(struct tombstones *m)
{
	if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	for (size_t i = 0; i < m->facts.n; i++) {
		vec_free(&m->facts.v[i]->series);
		free(m->facts.v[i]);
	}
	vec_free(&m->facts);
	vec_free(&m->v);
	free(m);
}

/* ---- making ---- */

/* Whether the part has rows that the fact took out. */
static bool needs(const struct part *p, const struct tombstone_fact *f)
{
	if (p->number >= f->below_part || part_start_ms(p) >= f->until_ms || part_end_ms(p) <= f->after_ms)
		return false;
	for (size_t i = 0; i < p->series.n; i++) {
		const struct part_series *s = &p->series.v[i];
		if (part_start_ms(p) + s->min_ms <= f->until_ms && part_start_ms(p) + s->max_ms > f->after_ms &&
		    tombstone_fact_has(f, s->series))
			return true;
	}
	return false;
}

static bool needed(const struct tombstone_fact *f, struct part *const *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (needs(parts[i], f))
			return true;
	return false;
}

static struct tombstone_fact *copy_fact(const struct tombstone_fact *f)
{
	struct tombstone_fact *x = NEW(struct tombstone_fact);
	*x = *f;
	x->series.v = NULL;
	x->series.cap = x->series.n = 0;
	vec_reserve(&x->series, f->series.n + 1);
	if (f->series.n)
		memcpy(x->series.v, f->series.v, f->series.n * sizeof *f->series.v);
	x->series.n = f->series.n;
	return x;
}

static int by_series(const void *a, const void *b)
{
	const struct tombstone *x = a, *y = b;
	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->after_ms > y->after_ms) - (x->after_ms < y->after_ms);
}

/* m's facts (of deletes only: without those of retention), and n more. */
static struct tombstones *make(const struct tombstones *m, bool deletes_only, const struct tombstone_fact *facts, size_t n,
			       struct part *const *parts, size_t n_parts)
{
	struct tombstones *r = NEW(struct tombstones);
	atomic_init(&r->refs, 1);
	for (size_t i = 0; m && i < m->facts.n; i++)
		if ((!deletes_only || m->facts.v[i]->number) && needed(m->facts.v[i], parts, n_parts))
			vec_push(&r->facts, copy_fact(m->facts.v[i]));
	for (size_t i = 0; i < n; i++)
		if (needed(&facts[i], parts, n_parts))
			vec_push(&r->facts, copy_fact(&facts[i]));
	for (size_t i = 0; i < r->facts.n; i++) {
		const struct tombstone_fact *f = r->facts.v[i];
		for (size_t k = 0; k < f->series.n; k++)
			vec_push(&r->v, (struct tombstone){ f->series.v[k], f->below_part, f->after_ms, f->until_ms });
	}
	if (!r->v.n) {
		tombstones_unref(r);
		return NULL;
	}
	qsort(r->v.v, r->v.n, sizeof *r->v.v, by_series);
	return r;
}

struct tombstones *tombstones_with(const struct tombstones *m, const struct tombstone_fact *fact, struct part *const *parts, size_t n_parts)
{
	return make(m, false, fact, fact != NULL, parts, n_parts);
}

struct tombstones *tombstones_with_rules(const struct tombstones *m, const struct tombstone_fact *facts, size_t n, struct part *const *parts,
					 size_t n_parts)
{
	return make(m, true, facts, n, parts, n_parts);
}

bool tombstones_due(const struct tombstones *m, const struct part *p)
{
	for (size_t i = 0; m && i < m->facts.n; i++)
		if (needs(p, m->facts.v[i]) && (m->facts.v[i]->number || m->facts.v[i]->until_ms >= part_end_ms(p)))
			return true;
	return false;
}

/* ---- asking ---- */

/* The tombstones of a series, ret[0 .. n). */
static const struct tombstone *tombstones_of(const struct pstate *s, uint32_t series, size_t *n)
{
	const struct tombstones *m = s->tombstones;
	*n = 0;
	if (!m)
		return NULL;
	size_t a = 0, b = m->v.n;
	while (a < b) {
		size_t mid = (a + b) / 2;
		if (m->v.v[mid].series < series)
			a = mid + 1;
		else
			b = mid;
	}
	while (a + *n < m->v.n && m->v.v[a + *n].series == series)
		(*n)++;
	return &m->v.v[a];
}

bool tombstones_touch(const struct pstate *s, uint32_t series, int64_t after_ms, int64_t until_ms)
{
	size_t n;
	const struct tombstone *m = tombstones_of(s, series, &n);
	for (size_t i = 0; i < n; i++)
		if (m[i].after_ms < until_ms && m[i].until_ms > after_ms)
			return true;
	return false;
}

bool tombstones_touch_part(const struct pstate *s, const struct part *p)
{
	for (size_t i = 0; s->tombstones && i < s->tombstones->facts.n; i++)
		if (needs(p, s->tombstones->facts.v[i]))
			return true;
	return false;
}

bool tombstones_hide(const struct pstate *s, const struct part *p, uint32_t series, int64_t t_ms)
{
	size_t n;
	const struct tombstone *m = tombstones_of(s, series, &n);
	for (size_t i = 0; i < n; i++)
		if (p->number < m[i].below_part && t_ms > m[i].after_ms && t_ms <= m[i].until_ms)
			return true;
	return false;
}

bool tombstones_next(const struct pstate *s, const struct part *p, uint32_t series, int64_t *after_ms, int64_t until_ms,
		     int64_t *ret_until)
{
	size_t n;
	const struct tombstone *m = tombstones_of(s, series, &n);
	*ret_until = until_ms;
	for (size_t i = 0; i < n; i++) { /* they ascend by where they start */
		if (p->number >= m[i].below_part || m[i].until_ms <= *after_ms)
			continue;
		if (m[i].after_ms > *after_ms) {
			*ret_until = MIN(*ret_until, m[i].after_ms);
			break;
		}
		*after_ms = m[i].until_ms;
	}
	return *after_ms < *ret_until;
}
