/* SPDX-License-Identifier: Apache-2.0 */
/* Readouts of a kept profile (shared.h) that is used repeatedly, as when 500 rules need the share of one function each. Its rows by
 * function are made once and kept with the profile; then a function is a look-up, and a threshold a pass over numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "promql-like/stacks/readout.h"
#include "promql-like/stacks/shared.h"

/* {function="x"} and nothing else: its name. */
static bool one_function(const struct readout *r, struct view *ret)
{
	bool yes = r->has_frames && !r->frames.any && r->frames.filter.n == 1 && r->frames.filter.m[0].op == MATCH_EQ &&
		   view_eqs(r->frames.filter.m[0].name, "function");
	if (yes)
		*ret = r->frames.filter.m[0].value;
	return yes;
}

static bool can(const struct readout *r, const struct value *v)
{
	struct view name;
	bool by_function = r->measure == SELF || r->measure == TOTAL || r->measure == SHARE || r->measure == SELF_SHARE;
	if (!r->q->once || r->sp->n > 1 || !by_function || r->by != BY_FUNCTION || (r->has_frames && !one_function(r, &name)))
		return false;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			if (!atomic_load_explicit(&v->s[i].s[k].p->again, memory_order_relaxed))
				return false;
	return true;
}

static struct lazy_profile_rows **slot(const struct readout *r, struct lazy_profile *p)
{
	return &p->rows[r->measure == TOTAL || r->measure == SHARE];
}

/* The rows that a query has hung into the profile; NULL: none yet. Another query may hang them in at the same time. */
static struct lazy_profile_rows *slot_rows(const struct readout *r, struct lazy_profile *p)
{
	return __atomic_load_n(slot(r, p), __ATOMIC_ACQUIRE);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* The rows that the profile at work has, rising: a few are sorted, many are met in passing over all. */
static void sort_touched(struct readout *r)
{
	if (r->touched.n < r->rows.n / 16) {
		if (r->touched.n)
			qsort(r->touched.v, r->touched.n, sizeof *r->touched.v, by_number);
		return;
	}
	size_t n = 0;
	for (uint32_t row = 0; row < r->n_sums && n < r->touched.n; row++)
		if (r->sums[row].touched)
			r->touched.v[n++] = row;
}

/* The result of readout_rows in r, without names; NULL if a number does not fit, or there is no room. */
static struct lazy_profile_rows *take_sums(struct readout *r, const struct lazy_profile *p)
{
	size_t vecs = (lazy_side_whole(&p->a)->n + (p->diff ? lazy_side_whole(&p->b)->n : 0)) * 12, n = r->touched.n;
	for (size_t i = 0; i < n; i++) {
		const struct row_sum *x = &r->sums[r->touched.v[i]];
		if (x->i > INT64_MAX || x->i < INT64_MIN)
			return NULL;
	}
	if (!shared_charge(r->q->once, sizeof(struct lazy_profile_rows) + n * (3 * sizeof(uint32_t) + sizeof(double)) + vecs))
		return NULL;
	struct lazy_profile_rows *x = NEW(struct lazy_profile_rows);
	x->n = n;
	x->finite = true;
	x->name = xcalloc(n + 1, sizeof *x->name);
	x->native = xcalloc(n + 1, sizeof *x->native);
	sort_touched(r);
	for (size_t i = 0; i < n; i++) {
		x->name[i] = r->touched.v[i];
		x->native[i] = row_native(&r->sums[r->touched.v[i]]);
		x->finite &= isfinite(x->native[i]);
	}
	return x;
}

static struct lazy_profile_rows *make_rows(struct readout *r, const struct lazy_profile *p)
{
	bool has_frames = r->has_frames, frame_rows = r->frame_rows;
	r->has_frames = r->frame_rows = false;
	readout_rows(r, lazy_side_whole(&p->a), false);
	if (p->diff)
		readout_rows(r, lazy_side_whole(&p->b), true);
	r->has_frames = has_frames;
	r->frame_rows = frame_rows;
	struct lazy_profile_rows *x = take_sums(r, p);
	readout_forget_rows(r);
	return x;
}

/* A copy of all that were met: dictionaries may go. NULL: there is no room. */
static struct lazy_profile_names *copy_names(struct readout *r)
{
	size_t text = 0, n = r->rows.n;
	for (size_t i = 0; i < n; i++)
		text += r->rows.v[i].function.len;
	if (!shared_charge(r->q->once, text + n * sizeof(struct lazy_profile_name) + map_bytes_for(n)))
		return NULL;
	struct lazy_profile_names *x = NEW(struct lazy_profile_names);
	x->refs = 1;
	x->v = xcalloc(n + 1, sizeof *x->v);
	x->text = xmalloc(text + 1);
	map_reserve(&x->by_name, n);
	text = 0;
	for (; x->n < n; x->n++) {
		struct view name = r->rows.v[x->n].function;
		if (name.len)
			memcpy(x->text + text, name.ptr, name.len);
		name.ptr = x->text + text;
		text += name.len;
		x->v[x->n] = (struct lazy_profile_name){ name, lazy_profile_name_hash(name) };
		map_insert(&x->by_name, x->v[x->n].hash, (uint32_t)x->n);
	}
	return x;
}

static void hang_rows(struct readout *r, struct lazy_profile *p, struct lazy_profile_rows *x, struct lazy_profile_names *names)
{
	struct lazy_profile_rows *none = NULL;
	x->names = names;
	__atomic_fetch_add(&names->refs, 1, __ATOMIC_RELAXED);
	if (!__atomic_compare_exchange_n(slot(r, p), &none, x, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		lazy_profile_rows_free(x); /* another query was faster */
}

static int make_indices(struct readout *r, const struct value *v, bool *ret_all, struct err *e)
{
	VEC(struct lazy_profile *) without = { 0 };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			if (!slot_rows(r, v->s[i].s[k].p))
				vec_push(&without, v->s[i].s[k].p);
	struct lazy_profile_rows **made = xcalloc(without.n + 1, sizeof *made);
	struct lazy_profile_names *names = NULL;
	size_t n = 0;
	int rc = without.n ? lazy_profiles_materialise(r->q, without.v, without.n, e) : 0;
	for (; n < without.n && !rc && (made[n] = make_rows(r, without.v[n])); n++)
		rc = eval_check(r->q, e);
	if (!rc && n)
		names = copy_names(r);
	for (size_t i = 0; i < without.n; i++)
		if (names && made[i])
			hang_rows(r, without.v[i], made[i], names);
		else
			lazy_profile_rows_free(made[i]);
	*ret_all = n == without.n && (names || !n);
	lazy_profile_names_unref(names);
	free(made);
	vec_free(&without);
	return rc;
}

/* The function that is asked for, and where it was found last. */
struct asked {
	struct view name;
	uint64_t hash;
	const struct lazy_profile_names *names;
	uint32_t at;
};

static int put_one(struct readout *r, size_t in, const struct value_sample *s, struct asked *f, struct err *e)
{
	const struct lazy_profile_rows *rows = slot_rows(r, s->p);
	struct readout_reading x = readout_reading(r, s);
	bool there;
	double v;
	if (f->names != rows->names) {
		f->names = rows->names;
		f->at = lazy_profile_names_find(rows->names, f->name, f->hash);
	}
	double native = f->at == UINT32_MAX ? 0 : lazy_profile_rows_native(rows, f->at, &there);
	if (!reading_number(&x, native, &v) || !choice_wants(r->frame_rows ? r->choice : NULL, v))
		return 0;
	uint32_t row = r->frame_rows ? readout_row_named(r, f->name, f->hash) : UINT32_MAX;
	return series_push(r->q, readout_out(r, in, row), s->t_ms, v, NULL, e);
}

/* ---- rows that are wanted ----
 *
 * They are compared by name only when necessary: the greatest are first, and output numbers fall in the same order. */

static void take(struct readout *r, const struct lazy_profile_rows *rows, size_t i)
{
	const struct lazy_profile_name *name = &rows->names->v[rows->name[i]];
	readout_set_row(r, readout_row_named(r, name->name, name->hash), rows->native[i]);
}

/* > number, or number <. */
static bool wants_great(const struct row_choice *c)
{
	return c->compared && !c->only && !c->best_k && (c->row_left ? c->op == OP_GT || c->op == OP_GE : c->op == OP_LT || c->op == OP_LE);
}

static void take_greater(struct readout *r, const struct readout_reading *x, struct lazy_profile_rows *rows)
{
	const struct row_choice *c = r->choice;
	const uint32_t *order = lazy_profile_rows_falling(rows);
	double v, low = x->bound ? c->number - READING_SLACK : c->number;
	for (size_t i = 0; i < rows->n && reading_number(x, rows->native[order[i]], &v) && !(v < low); i++)
		if (choice_wants(c, v))
			take(r, rows, order[i]);
}

/* The k first, and those that are put out as equal to the last of them. */
static void take_best(struct readout *r, const struct readout_reading *x, struct lazy_profile_rows *rows, double k)
{
	const uint32_t *order = lazy_profile_rows_falling(rows);
	double v, last = INFINITY;
	for (size_t i = 0; i < rows->n && reading_number(x, rows->native[order[i]], &v) && ((double)i < k || v >= last); i++) {
		last = v;
		take(r, rows, order[i]);
	}
}

static void take_named(struct readout *r, const struct lazy_profile_rows *rows)
{
	const struct row_set *names = r->choice->only;
	for (size_t i = 0; i < names->rows.n; i++) {
		const struct readout_row *x = &names->rows.v[i];
		uint32_t at = x->file.len || x->line.len ? UINT32_MAX : lazy_profile_names_find(rows->names, x->function, x->hash);
		bool there = false;
		double native = at == UINT32_MAX ? 0 : lazy_profile_rows_native(rows, at, &there);
		if (there)
			readout_set_row(r, readout_row_named(r, x->function, x->hash), native);
	}
}

/* Rows whose number is not wanted by itself are not even named. */
static void take_each(struct readout *r, const struct readout_reading *x, const struct lazy_profile_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		double v;
		if (r->choice && reading_number(x, rows->native[i], &v)) {
			r->choice->negative |= !(v >= 0);
			if (!choice_wants(r->choice, v))
				continue;
		}
		take(r, rows, i);
	}
}

static void take_rows(struct readout *r, const struct value_sample *s)
{
	struct lazy_profile_rows *rows = slot_rows(r, s->p);
	const struct readout_reading x = readout_reading(r, s);
	struct row_choice *c = r->choice;
	double k = c && c->best_k ? value_scalar(c->best_k, graph_step(r->sp, s->t_ms)) : 0, least;
	if (!c || !rows->finite || !reading_rises(&x)) {
		take_each(r, &x, rows);
		return;
	}
	if (rows->n && reading_number(&x, rows->native[lazy_profile_rows_falling(rows)[rows->n - 1]], &least))
		c->negative |= !(least >= 0);
	if (wants_great(c))
		take_greater(r, &x, rows);
	else if (c->best_k && c->greatest && k >= 1)
		take_best(r, &x, rows, k);
	else if (c->only && c->only->rows.n < rows->n)
		take_named(r, rows);
	else
		take_each(r, &x, rows);
}

int readout_kept(struct readout *r, struct value *v, bool *ret_done, struct err *e)
{
	struct asked f = { 0 };
	bool one = one_function(r, &f.name);
	f.hash = one ? lazy_profile_name_hash(f.name) : 0;
	*ret_done = false;
	if (!can(r, v))
		return 0;
	int rc = make_indices(r, v, ret_done, e);
	for (size_t i = 0; i < v->n && !rc && *ret_done; i++) {
		size_t in = readout_in(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n && !rc; k++) {
			const struct value_sample *s = &v->s[i].s[k];
			if (one) {
				rc = put_one(r, in, s, &f, e);
				continue;
			}
			take_rows(r, s);
			rc = readout_check_rows(r, e);
			if (!rc)
				rc = readout_put_rows(r, in, s, e);
			readout_forget_rows(r);
		}
	}
	return rc;
}
