/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/facts.h"

#include "base/alloc.h"
#include "tsdb/head/remove.h"
#include "tsdb/part/part.h"
#include "tsdb/version/bounds.h"
#include "tsdb/version/late_names.h"
#include "tsdb/version/tombstones.h"

/* ---- deletes ---- */

/* v with the tombstones of one partition replaced; takes v and m. */
static struct version *set_masks(struct version *v, struct partition *p, struct tombstones *m)
{
	const struct pstate *s = version_find(v, p->day);
	struct version *next = version_with(v, p, s->windows, s->n_windows, s->parts, s->n_parts);
	version_set_tombstones(next, p->day, m);
	version_unref(v);
	return next;
}

static bool apply_delete(struct version **v, struct partition *p, struct cursor *c, uint64_t number) REQUIRES_SHARED(p->dict_lock)
{
	struct tombstone_fact f = { .number = number };
	bool known = tombstone_fact_get(c, &f), ok = !c->bad;
	if (known)
		p->next_part = MAX(p->next_part, f.below_part); /* parts below it are hidden, even if they no longer exist */
	const struct pstate *s = version_find(*v, p->day);
	size_t removed = 0;
	if (known && s) {
		for (size_t i = 0; i < s->n_windows; i++) {
			struct window *w = s->windows[i];
			if (w->hour * HOUR_MS >= f.until_ms || (w->hour + 1) * HOUR_MS <= f.after_ms)
				continue;
			rwlock_write(&w->lock);
			removed += remove_from_window(w, &f);
			rwlock_unlock(&w->lock);
		}
		*v = set_masks(*v, p, tombstones_with(s->tombstones, &f, s->parts, s->n_parts));
		bounds_renew(p, version_find(*v, p->day), &f);
	}
	metric_add(&tsdb_metrics[TM_DELETED_ROWS], (double)removed);
	vec_free(&f.series);
	return ok;
}

/* ---- late names ---- */

/* For one location the last name counts. */
static void add_name(struct late_names *n, struct late_name x)
{
	size_t a = 0, b = n->v.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (n->v.v[m].location < x.location)
			a = m + 1;
		else
			b = m;
	}
	if (a < n->v.n && n->v.v[a].location == x.location) {
		n->v.v[a] = x;
		return;
	}
	vec_push(&n->v, x);
	memmove(n->v.v + a + 1, n->v.v + a, (n->v.n - 1 - a) * sizeof *n->v.v);
	n->v.v[a] = x;
}

static struct late_names *copy_names(const struct late_names *old)
{
	struct late_names *n = NEW(struct late_names);
	atomic_init(&n->refs, 1);
	for (size_t i = 0; old && i < old->v.n; i++)
		vec_push(&n->v, old->v.v[i]);
	for (size_t i = 0; old && i < old->facts.n; i++)
		vec_push(&n->facts, old->facts.v[i]);
	return n;
}

/* The cursor is behind the type. */
static bool apply_names(struct version **v, struct partition *p, struct cursor *c, uint64_t number)
{
	const struct pstate *s = version_find(*v, p->day);
	uint32_t n_locations = symbols_count(p->symbols, SYMBOLS_LOCATIONS);
	uint64_t next = 0;
	if (!s)
		return true; /* its rows are gone */
	struct late_names *n = copy_names(s->names);
	for (size_t i = cursor_count(c); i && !c->bad; i--) {
		uint64_t location = next + cursor_varint(c);
		struct late_name x = { (uint32_t)location, cursor_u32(c) };
		if (location >= n_locations || x.as >= n_locations)
			c->bad = true;
		else
			add_name(n, x);
		next = location + 1;
	}
	vec_push(&n->facts, number);
	struct version *now = version_with(*v, p, s->windows, s->n_windows, s->parts, s->n_parts);
	version_set_late_names(now, p->day, n);
	version_unref(*v);
	*v = now;
	return !c->bad;
}

bool facts_apply(struct version **v, struct partition *p, struct cursor *c, uint64_t number)
{
	mutex_assert_held(&p->db->apply_lock);
	if (c->p == c->end || *c->p != FACT_NAMES)
		return apply_delete(v, p, c, number);
	c->p++;
	return apply_names(v, p, c, number);
}

/* ---- in the log ---- */

static int facts_by_number(const void *a, const void *b)
{
	const struct log_keep *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

struct log_keep *facts_needed(struct tsdb *db, size_t *ret_n)
{
	VEC(struct log_keep) out = { 0 };
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; v->p[i]->names && k < v->p[i]->names->facts.n; k++)
			vec_push(&out, (struct log_keep){ v->p[i]->names->facts.v[k], v->p[i]->p->day });
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; v->p[i]->tombstones && k < v->p[i]->tombstones->facts.n; k++)
			if (v->p[i]->tombstones->facts.v[k]->number)
				vec_push(&out, (struct log_keep){ v->p[i]->tombstones->facts.v[k]->number, v->p[i]->p->day });
	version_unref(v);
	if (out.n)
		qsort(out.v, out.n, sizeof *out.v, facts_by_number);
	*ret_n = out.n;
	return out.v;
}
