/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of numbers, and between scalars and vectors. */
#include <math.h>

#include "promql-like/eval/funcs.h"

#define M1(name, expr) double name(double v) { return expr; }
M1(fn_abs, fabs(v))
M1(fn_ceil, ceil(v))
M1(fn_floor, floor(v))
M1(fn_exp, exp(v))
M1(fn_sqrt, sqrt(v))
M1(fn_ln, log(v))
M1(fn_log2, log2(v))
M1(fn_log10, log10(v))
M1(fn_sin, sin(v))
M1(fn_cos, cos(v))
M1(fn_tan, tan(v))
M1(fn_asin, asin(v))
M1(fn_acos, acos(v))
M1(fn_atan, atan(v))
M1(fn_sinh, sinh(v))
M1(fn_cosh, cosh(v))
M1(fn_tanh, tanh(v))
M1(fn_asinh, asinh(v))
M1(fn_acosh, acosh(v))
M1(fn_atanh, atanh(v))
M1(fn_rad, v * M_PI / 180)
M1(fn_deg, v * 180 / M_PI)
M1(fn_sgn, isnan(v) ? v : (double)((v > 0) - (v < 0)))
M1(fn_value, v)

/* One number per step. */
static int scalar_by(struct eval *q, const struct span *sp, double (*at)(void *arg, size_t i), void *arg,
		     struct value *ret, struct err *e)
{
	struct value v;
	value_start(q, &v, PROMQL_SCALAR);
	struct value_series *s = value_add(&v, (struct labels){ 0 }, false);
	for (size_t i = 0; i < sp->n; i++) {
		int rc = eval_check_at(q, i, e);
		if (!rc)
			rc = series_push(q, s, span_at(sp, i), at(arg, i), NULL, e);
		if (rc) {
			value_free(&v);
			return rc;
		}
	}
	*ret = v;
	return 0;
}

static double pi_at(void *arg, size_t i)
{
	(void)arg;
	(void)i;
	return M_PI;
}

CALL(fn_pi)
{
	(void)n;
	return scalar_by(q, sp, pi_at, NULL, ret, e);
}

/* ---- with scalar arguments ---- */

struct with_scalars {
	struct value v, a[2];
	size_t n;
};

static int eval_with_scalars(struct eval *q, struct node *n, const struct span *sp, struct with_scalars *w, struct err *e)
{
	*w = (struct with_scalars){ 0 };
	int rc = eval_node(q, n->call.args[0], sp, &w->v, e);
	for (size_t i = 1; i < n->call.n && !rc; i++) {
		rc = eval_node(q, n->call.args[i], sp, &w->a[i - 1], e);
		w->n = i;
	}
	return rc;
}

/* Every sample through fn with the scalars at its step; fn says whether it stays. */
static int map_with(struct eval *q, struct node *n, const struct span *sp, bool (*fn)(double *v, const double *a),
		    double a0, double a1, struct value *ret, struct err *e)
{
	struct with_scalars w;
	int rc = eval_with_scalars(q, n, sp, &w, e);
	for (size_t i = 0; !rc && i < w.v.n; i++) {
		struct value_series *s = &w.v.s[i];
		s->drop_name = true;
		size_t out = 0;
		for (size_t k = 0; k < s->n; k++) {
			size_t step = sp->n > 1 ? (size_t)((s->s[k].t_ms - sp->start) / sp->step) : 0;
			double a[2] = { w.n > 0 ? value_scalar(&w.a[0], step) : a0, w.n > 1 ? value_scalar(&w.a[1], step) : a1 };
			struct value_sample x = s->s[k];
			bool keep = fn(&x.v, a);
			sample_drop_profile(q, &x);
			if (keep)
				s->s[out++] = x;
		}
		atomic_fetch_sub(&q->held, s->n - out);
		s->n = out;
	}
	value_free(&w.a[0]);
	value_free(&w.a[1]);
	return value_finish(&w.v, rc, ret);
}

static bool do_round(double *v, const double *a)
{
	double inverse = 1 / a[0];
	*v = floor(*v * inverse + 0.5) / inverse;
	return true;
}

CALL(fn_round)
{
	return map_with(q, n, sp, do_round, 1, 0, ret, e);
}

/* As Go's math.Max and math.Min: NaN wins. */
static double go_max(double a, double b)
{
	return isnan(a) || isnan(b) ? (isinf(a) && a > 0) || (isinf(b) && b > 0) ? INFINITY : NAN : fmax(a, b);
}

static double go_min(double a, double b)
{
	return isnan(a) || isnan(b) ? (isinf(a) && a < 0) || (isinf(b) && b < 0) ? -INFINITY : NAN : fmin(a, b);
}

static bool do_clamp(double *v, const double *a)
{
	if (a[1] < a[0])
		return false;
	*v = go_max(a[0], go_min(a[1], *v));
	return true;
}

static bool do_clamp_min(double *v, const double *a)
{
	*v = go_max(a[0], *v);
	return true;
}

static bool do_clamp_max(double *v, const double *a)
{
	*v = go_min(a[0], *v);
	return true;
}

CALL(fn_clamp)
{
	return map_with(q, n, sp, do_clamp, 0, 0, ret, e);
}

CALL(fn_clamp_min)
{
	return map_with(q, n, sp, do_clamp_min, 0, 0, ret, e);
}

CALL(fn_clamp_max)
{
	return map_with(q, n, sp, do_clamp_max, 0, 0, ret, e);
}

static int of_two(struct eval *q, struct node *n, const struct span *sp, double (*fn)(double, double), struct value *ret,
		  struct err *e)
{
	struct with_scalars w;
	int rc = eval_with_scalars(q, n, sp, &w, e);
	for (size_t i = 0; !rc && i < sp->n; i++)
		w.v.s[0].s[i].v = fn(w.v.s[0].s[i].v, value_scalar(&w.a[0], i));
	value_free(&w.a[0]);
	if (rc)
		value_free(&w.v);
	else
		*ret = w.v;
	return rc;
}

CALL(fn_max_of)
{
	return of_two(q, n, sp, go_max, ret, e);
}

CALL(fn_min_of)
{
	return of_two(q, n, sp, go_min, ret, e);
}

/* ---- scalar, vector, absent ---- */

struct only {
	struct value *v;
	size_t *cursor;
	const struct span *sp;
};

static double only_at(void *arg, size_t i)
{
	struct only *o = arg;
	struct value_sample *found = NULL;
	size_t count = 0;
	for (size_t k = 0; k < o->v->n; k++) {
		struct value_sample *s = series_at(&o->v->s[k], &o->cursor[k], span_at(o->sp, i));
		count += s != NULL;
		found = s ? s : found;
	}
	return count == 1 ? found->v : NAN;
}

CALL(fn_scalar)
{
	struct value v;
	int rc = eval_node(q, n->call.args[0], sp, &v, e);
	if (rc)
		return rc;
	struct only o = { &v, xcalloc(v.n + 1, sizeof *o.cursor), sp };
	rc = scalar_by(q, sp, only_at, &o, ret, e);
	free(o.cursor);
	value_free(&v);
	return rc;
}

CALL(fn_vector)
{
	int rc = eval_node(q, n->call.args[0], sp, ret, e);
	if (!rc)
		ret->type = PROMQL_VECTOR;
	return rc;
}

/* The labels that the selector fixes by equality, each at most once. */
static struct labels absent_labels(struct eval *q, struct node *arg)
{
	arg = node_unwrap(arg);
	struct node *s = arg->kind == NODE_RANGE ? arg->range.sel : arg;
	if (s->kind != NODE_SELECTOR)
		return (struct labels){ 0 };
	struct labels_builder b;
	labels_builder_init(&b, (struct labels){ 0 });
	for (size_t i = 0; i < s->sel.n; i++) {
		const struct matcher *m = &s->sel.m[i];
		if (view_eqs(m->name, LABEL_NAME))
			continue;
		size_t same = 0;
		for (size_t k = 0; k < s->sel.n; k++)
			same += view_eq(s->sel.m[k].name, m->name);
		if (m->op == MATCH_EQ && same == 1)
			labels_builder_set(&b, m->name, m->value);
	}
	struct labels l = eval_labels(q, &b);
	labels_builder_free(&b);
	return l;
}

static int push_absent(struct eval *q, struct node *arg, const struct span *sp, const bool *there, struct value *ret,
		       struct err *e)
{
	struct value v;
	value_start(q, &v, PROMQL_VECTOR);
	struct value_series *s = value_add(&v, absent_labels(q, arg), false);
	for (size_t i = 0; i < sp->n; i++) {
		int rc = there[i] ? 0 : series_push(q, s, span_at(sp, i), 1, NULL, e);
		if (rc) {
			value_free(&v);
			return rc;
		}
	}
	value_compact(&v);
	*ret = v;
	return 0;
}

CALL(fn_absent)
{
	struct value v;
	int rc = eval_node(q, n->call.args[0], sp, &v, e);
	if (rc)
		return rc;
	bool *there = xcalloc(sp->n, sizeof *there);
	for (size_t i = 0; i < v.n; i++)
		for (size_t k = 0; k < v.s[i].n; k++)
			there[sp->n > 1 ? (size_t)((v.s[i].s[k].t_ms - sp->start) / sp->step) : 0] = true;
	value_free(&v);
	rc = push_absent(q, n->call.args[0], sp, there, ret, e);
	free(there);
	return rc;
}

CALL(fn_absent_over_time)
{
	struct range_vector r;
	int rc = range_load(q, n->call.args[0], sp, &r, e);
	if (rc)
		return rc;
	bool *there = xcalloc(sp->n, sizeof *there);
	for (size_t i = 0; i < r.n && !rc; i++) {
		size_t lo = 0, hi = 0;
		struct taken taken = { 0 };
		rseries_points(&r.s[i]);
		for (size_t k = 0; k < sp->n && !rc; k++) {
			rc = eval_check_at(q, k, e);
			int64_t to = mods_time(r.mods, span_at(sp, k));
			window_slide(r.s[i].pts, r.s[i].n, &lo, &hi, to - r.range_ms, to);
			there[k] |= lo < hi;
			taken_window(&taken, lo, hi);
		}
		taken_count(q, &taken, r.subquery);
	}
	range_free(&r);
	if (!rc)
		rc = push_absent(q, n->call.args[0], sp, there, ret, e);
	free(there);
	return rc;
}
