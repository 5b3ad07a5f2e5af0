/* SPDX-License-Identifier: Apache-2.0 */
/* Readouts of a profile that is kept (shared.h) and asked for again, as when 500 rules ask for the share of one function each: its
 * rows by function are made once and hang on the profile; then a function is a look-up, and a threshold a pass over numbers. */
#include <stdlib.h>
#include <string.h>

#include "readout.h"
#include "shared.h"

/* {function="x"} and nothing else: its name. */
static bool one_function(const struct readout *r, struct view *ret)
{
	bool yes = r->has_frames && !r->frames.any && r->frames.n == 1 && r->frames.m[0].op == MATCH_EQ &&
		   view_eqs(r->frames.m[0].name, "function");
	if (yes)
		*ret = r->frames.m[0].value;
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

static struct prof_rows **slot(const struct readout *r, struct prof *p)
{
	return &p->rows[r->measure == TOTAL || r->measure == SHARE];
}

/* What readout_rows left in r, as an index; NULL if a number does not fit, or there is no room. */
static struct prof_rows *index_rows(struct readout *r, const struct prof *p)
{
	size_t text = 0, n = r->touched.n;
	for (size_t i = 0; i < n; i++) {
		const struct row_sum *x = &r->sums[r->touched.v[i]];
		if (x->i > INT64_MAX || x->i < INT64_MIN)
			return NULL;
		text += r->rows.v[r->touched.v[i]].function.len;
	}
	size_t vecs = (p->a.vec->n + (p->diff ? p->b.vec->n : 0)) * 12;
	if (!shared_charge(r->q->once, text + n * sizeof(struct prof_row) + map_bytes_for(n) + vecs))
		return NULL;
	struct prof_rows *x = NEW(struct prof_rows);
	x->v = xcalloc(n + 1, sizeof *x->v);
	x->text = xmalloc(text + 1);
	map_reserve(&x->by_name, n);
	text = 0;
	for (; x->n < n; x->n++) {
		uint32_t row = r->touched.v[x->n];
		struct view name = r->rows.v[row].function;
		if (name.len)
			memcpy(x->text + text, name.ptr, name.len);
		name.ptr = x->text + text;
		text += name.len;
		x->v[x->n] = (struct prof_row){ name, hash_view(name) | 1, row_native(&r->sums[row]) };
		map_insert(&x->by_name, x->v[x->n].hash, (uint32_t)x->n);
	}
	return x;
}

static int make_index(struct readout *r, struct prof *p, bool *ret_made, struct err *e)
{
	struct prof_rows *x, *none = NULL;
	bool has_frames = r->has_frames, frame_rows = r->frame_rows;
	r->has_frames = r->frame_rows = false;
	readout_rows(r, p->a.vec, false);
	if (p->diff)
		readout_rows(r, p->b.vec, true);
	r->has_frames = has_frames;
	r->frame_rows = frame_rows;
	x = index_rows(r, p);
	readout_forget_rows(r);
	*ret_made = x != NULL;
	if (x && !__atomic_compare_exchange_n(slot(r, p), &none, x, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		prof_rows_free(x); /* another query was faster */
	return eval_check(r->q, e);
}

static int make_indices(struct readout *r, const struct value *v, bool *ret_all, struct err *e)
{
	VEC(struct prof *) without = { 0 };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			if (!__atomic_load_n(slot(r, v->s[i].s[k].p), __ATOMIC_ACQUIRE))
				vec_push(&without, v->s[i].s[k].p);
	int rc = without.n ? profs_materialise(r->q, without.v, without.n, e) : 0;
	*ret_all = true;
	for (size_t i = 0; i < without.n && !rc && *ret_all; i++)
		rc = make_index(r, without.v[i], ret_all, e);
	vec_free(&without);
	return rc;
}

static int put_one(struct readout *r, size_t in, const struct sample *s, struct view name, struct err *e)
{
	double native = 0, v;
	prof_rows_find(*slot(r, s->p), name, &native);
	if (!readout_number(r, s, native, &v) || !choice_wants(r->frame_rows ? r->choice : NULL, v))
		return 0;
	uint32_t row = r->frame_rows ? readout_row_named(r, name, 0) : UINT32_MAX;
	return series_push(r->q, readout_out(r, in, row), s->t_ms, v, NULL, e);
}

/* Rows whose number is not wanted by itself are not even named. */
static void take_rows(struct readout *r, const struct sample *s)
{
	const struct prof_rows *x = *slot(r, s->p);
	for (size_t i = 0; i < x->n; i++) {
		double v;
		if (r->choice && readout_number(r, s, x->v[i].native, &v)) {
			r->choice->negative |= !(v >= 0);
			if (!choice_wants(r->choice, v))
				continue;
		}
		readout_set_row(r, readout_row_named(r, x->v[i].name, x->v[i].hash), x->v[i].native);
	}
}

int readout_kept(struct readout *r, struct value *v, bool *ret_done, struct err *e)
{
	struct view name;
	bool one = one_function(r, &name);
	*ret_done = false;
	if (!can(r, v))
		return 0;
	int rc = make_indices(r, v, ret_done, e);
	for (size_t i = 0; i < v->n && !rc && *ret_done; i++) {
		size_t in = readout_in(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n && !rc; k++) {
			const struct sample *s = &v->s[i].s[k];
			if (one) {
				rc = put_one(r, in, s, name, e);
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
