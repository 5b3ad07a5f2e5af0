/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregations. Groups are computed once for the span; then each group collects its members' samples step by step. sum and avg of
 * profiles make profiles; topk and similar pass elements on; everything else works on values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/num.h"
#include "base/utf8.h"
#include "promql-like/eval/eval.h"

struct member {
	struct value_sample *s;
	uint32_t series;
};

struct aggr {
	struct eval *q;
	struct node *n;
	enum aggregate_op op;
	const struct span *sp;
	struct value in, param;
	struct series_groups g;
	size_t *cursor;
	struct member_list {
		VEC(struct member) m;
	} *members;                   /* by group, at this step */
	struct value out;
	VEC(uint32_t) rank;           /* of an instant topk: input series, best first */
	double *work;
};

typedef int (*step_fn)(struct aggr *a, size_t group, size_t step, struct err *e);

/* ---- numbers ---- */

static double mean_of(const struct member *m, size_t n)
{
	struct mean mean = { 0 };
	for (size_t i = 0; i < n; i++)
		mean_add(&mean, m[i].s->v);
	return mean_value(&mean);
}

static double variance_of(const struct member *m, size_t n)
{
	double mean = m[0].s->v, sum = isnan(mean) || isinf(mean) ? NAN : 0;
	for (size_t i = 1; i < n; i++) {
		double d = m[i].s->v - mean;
		mean += d / (double)(i + 1);
		sum += d * (m[i].s->v - mean);
	}
	return sum / (double)n;
}

static double extreme_of(const struct member *m, size_t n, bool greatest)
{
	double v = m[0].s->v;
	for (size_t i = 1; i < n; i++) {
		double x = m[i].s->v;
		if (isnan(v) || (greatest ? x > v : x < v))
			v = x;
	}
	return v;
}

static double sum_of(const struct member *m, size_t n)
{
	double sum = 0, c = 0;
	for (size_t i = 0; i < n; i++)
		kahan_add(m[i].s->v, &sum, &c);
	return sum + c;
}

static double number_of(struct aggr *a, const struct member *m, size_t n, size_t step)
{
	switch (a->op) {
	case AGGR_SUM: return sum_of(m, n);
	case AGGR_AVG: return mean_of(m, n);
	case AGGR_COUNT: return (double)n;
	case AGGR_MIN: return extreme_of(m, n, false);
	case AGGR_MAX: return extreme_of(m, n, true);
	case AGGR_GROUP: return 1;
	case AGGR_STDDEV: return sqrt(variance_of(m, n));
	case AGGR_STDVAR: return variance_of(m, n);
	case AGGR_QUANTILE:
		a->work = xreallocarray(a->work, n, sizeof *a->work);
		for (size_t i = 0; i < n; i++)
			a->work[i] = m[i].s->v;
		return quantile_of(value_scalar(&a->param, step), a->work, n);
	default: return NAN;
	}
}

/* ---- profiles ---- */

static int sum_profiles(const char *op, const struct member *m, size_t n, double scale, struct lazy_profile **ret, struct err *e)
{
	struct lazy_profile *sum = NULL;
	size_t terms = 0;
	int rc = lazy_profile_scale(m[0].s->p, 1, &sum, e);
	for (size_t i = 0; i < n; i++)
		terms += m[i].s->p->a.n;
	if (!rc)
		lazy_side_reserve(&sum->a, terms);
	for (size_t i = 1; i < n && !rc; i++) {
		double by;
		rc = lazy_profile_compatible(sum->type, m[i].s->p->type, MEET_GROUPED, op, &by, e);
		if (!rc)
			rc = lazy_profile_accumulate(sum, m[i].s->p, by, e);
	}
	if (!rc && scale != 1) {
		struct lazy_profile *scaled;
		rc = lazy_profile_scale(sum, scale, &scaled, e);
		if (!rc) {
			lazy_profile_unref(sum);
			sum = scaled;
		}
	}
	if (rc) {
		lazy_profile_unref(sum);
		return rc;
	}
	*ret = sum;
	return 0;
}

static size_t count_profiles(const struct member *m, size_t n)
{
	size_t k = 0;
	for (size_t i = 0; i < n; i++)
		k += m[i].s->p != NULL;
	return k;
}

static int plain_step(struct aggr *a, size_t group, size_t step, struct err *e)
{
	const struct member *m = a->members[group].m.v;
	size_t n = a->members[group].m.n, profiles = 0;
	int64_t t = span_at(a->sp, step);
	enum aggregate_op op = a->op;
	char place[32];
	if (op == AGGR_SUM || op == AGGR_AVG)
		profiles = count_profiles(m, n);
	if (profiles && profiles < n) {
		eval_note(a->q, false, "PromQL warning: a group of %s holds numbers and profiles, it is dropped (%s)",
			  aggregate_info(op)->name, eval_place(a->q, a->n->start, place));
		return 0;
	}
	if (profiles) {
		struct lazy_profile *p;
		int rc = sum_profiles(aggregate_info(op)->name, m, n, op == AGGR_AVG ? 1 / (double)n : 1, &p, e);
		return rc ? rc : series_push(a->q, &a->out.s[group], t, lazy_profile_value(p), p, e);
	}
	return series_push(a->q, &a->out.s[group], t, number_of(a, m, n, step), NULL, e);
}

/* ---- elements passed on: topk, bottomk, limitk, limit_ratio ----
 *
 * Their output series are the input series; an instant query keeps the order of rank. */

static bool worse(double a, double b, bool greatest)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && !isnan(b);
	return greatest ? a < b : a > b;
}

struct ranked {
	struct member m;
	const struct labels *l;
	size_t order; /* of arrival */
};

enum rank { GREATEST, LEAST, ANY };

/* Best first; of equal ones the first by labels. So the choice does not depend on the order of input, which may differ between a range
 * query and an instant one. */
static bool before(const struct ranked *x, const struct ranked *y, enum rank by)
{
	if (by != ANY && worse(y->m.s->v, x->m.s->v, by == GREATEST))
		return true;
	if (by != ANY && worse(x->m.s->v, y->m.s->v, by == GREATEST))
		return false;
	int c = labels_cmp(*x->l, *y->l);
	return c ? c < 0 : x->order < y->order;
}

static void sift_down(struct ranked *h, size_t n, size_t i, enum rank by)
{
	for (;;) {
		size_t worst = i, l = 2 * i + 1, r = l + 1;
		if (l < n && before(&h[worst], &h[l], by))
			worst = l;
		if (r < n && before(&h[worst], &h[r], by))
			worst = r;
		if (worst == i)
			return;
		struct ranked t = h[i];
		h[i] = h[worst];
		h[worst] = t;
		i = worst;
	}
}

/* The k best of n, best first, in place at the front of the returned array (to be freed). */
static struct ranked *best(const struct value *in, const struct member *m, size_t n, size_t k, enum rank by)
{
	struct ranked *h = xcalloc(k + 1, sizeof *h);
	size_t have = 0;
	for (size_t i = 0; i < n; i++) {
		struct ranked x = { m[i], &in->s[m[i].series].labels, i };
		if (have < k) {
			h[have++] = x;
			if (have == k)
				for (size_t p = k / 2; p-- > 0;)
					sift_down(h, k, p, by);
		} else if (before(&x, &h[0], by)) {
			h[0] = x;
			sift_down(h, k, 0, by);
		}
	}
	if (have < k)
		for (size_t p = have / 2; p-- > 0;)
			sift_down(h, have, p, by);
	for (size_t left = have; left > 1; left--) {
		struct ranked t = h[0];
		h[0] = h[left - 1];
		h[left - 1] = t;
		sift_down(h, left - 1, 0, by);
	}
	return h;
}

/* A number in [0, 1) that depends on the labels only. */
static double ratio_offset(struct labels l)
{
	return (double)(labels_hash_stable(l) >> 11) / 9007199254740992.0;
}

static bool in_ratio(double r, struct labels l)
{
	double x = ratio_offset(l);
	return (r >= 0 && x < r) || (r < 0 && x >= 1 + r);
}

static int pass_on(struct aggr *a, const struct member *m, int64_t t, struct err *e)
{
	struct value_series *out = &a->out.s[m->series];
	return series_push(a->q, out, t, m->s->v, lazy_profile_ref(m->s->p), e);
}

static int rank_step(struct aggr *a, size_t group, size_t step, struct err *e)
{
	const struct member *m = a->members[group].m.v;
	size_t n = a->members[group].m.n;
	int64_t t = span_at(a->sp, step);
	double param = value_scalar(&a->param, step);
	int rc = 0;
	if (a->op == AGGR_LIMIT_RATIO) {
		double r = fmax(-1, fmin(1, param));
		for (size_t i = 0; i < n && !rc; i++)
			if (in_ratio(r, a->in.s[m[i].series].labels))
				rc = pass_on(a, &m[i], t, e);
		return rc;
	}
	size_t k = param >= 1 ? (size_t)fmin(param, (double)a->in.n) : 0;
	k = MIN(k, n);
	struct ranked *h = k ? best(&a->in, m, n, k, a->op == AGGR_TOPK ? GREATEST : a->op == AGGR_BOTTOMK ? LEAST : ANY) : NULL;
	for (size_t i = 0; i < k && !rc; i++)
		rc = pass_on(a, &h[i].m, t, e);
	if (a->sp->n == 1 && !rc) /* rank, to put the series into that order at the end */
		for (size_t i = 0; i < k; i++)
			vec_push(&a->rank, h[i].m.series);
	free(h);
	return rc;
}

static int check_k(struct aggr *a, struct err *e)
{
	enum aggregate_op op = a->op;
	for (size_t i = 0; i < a->sp->n && op != AGGR_QUANTILE; i++) {
		double k = value_scalar(&a->param, i);
		if (isnan(k))
			return err_set(e, ERR_EXECUTION, op == AGGR_LIMIT_RATIO ? "Ratio value is NaN" : "Parameter value is NaN");
		if (op != AGGR_LIMIT_RATIO && k <= -9223372036854775808.0)
			return err_set(e, ERR_EXECUTION, "Scalar value %.0f underflows int64", k);
		if (op != AGGR_LIMIT_RATIO && k >= 9223372036854775808.0)
			return err_set(e, ERR_EXECUTION, "Scalar value %.0f overflows int64", k);
	}
	char place[32], num[NUM_LEN];
	for (size_t i = 0; i < a->sp->n; i++) {
		double p = value_scalar(&a->param, i);
		if (op == AGGR_QUANTILE && (isnan(p) || p < 0 || p > 1))
			eval_note(a->q, false, "PromQL warning: quantile value should be between 0 and 1, got %s (%s)", num_format(p, num),
				  eval_place(a->q, a->n->aggr.param->start, place));
		if (op == AGGR_LIMIT_RATIO && (p < -1 || p > 1))
			eval_note(a->q, false, "PromQL warning: ratio value should be between -1 and 1, got %s, capping to %g (%s)", num_format(p, num),
				  p < 0 ? -1.0 : 1.0, eval_place(a->q, a->n->aggr.param->start, place));
	}
	return 0;
}

/* ---- count_values ---- */

static int count_values(struct aggr *a, struct err *e)
{
	struct view label = string_arg(a->n->aggr.param);
	if (!label.len || !utf8_valid(label))
		return err_set(e, ERR_EXECUTION, "invalid label name \"%.*s\"", VIEW_ARG(label));
	struct map m = { 0 };
	int rc = 0;
	struct node_labels extended = { xcalloc(a->n->aggr.by.n + 1, sizeof(struct view)), a->n->aggr.by.n };
	if (a->n->aggr.by.n)
		memcpy(extended.v, a->n->aggr.by.v, a->n->aggr.by.n * sizeof(struct view));
	if (!a->n->aggr.without)
		extended.v[extended.n++] = label;
	for (size_t i = 0; i < a->sp->n && !rc; i++) {
		int64_t t = span_at(a->sp, i);
		rc = eval_check_at(a->q, i, e);
		for (size_t k = 0; k < a->in.n && !rc; k++) {
			struct value_sample *s = series_at(&a->in.s[k], &a->cursor[k], t);
			if (!s)
				continue;
			char text[NUM_LEN];
			struct labels_builder b;
			labels_builder_init(&b, a->in.s[k].labels);
			labels_builder_set(&b, label, view_of(num_format(s->v, text)));
			struct labels full = labels_builder_finish(&b);
			struct labels key = eval_group_labels(a->q, full, &extended, a->n->aggr.without);
			uint64_t h = labels_hash(key);
			uint32_t id;
			if (!MAP_FIND_OR_ADD(&m, h, id, a->out.n, labels_eq(a->out.s[id].labels, key))) {
				mutex_lock(&a->q->lock);
				struct labels copy = labels_copy(&a->q->arena, key);
				mutex_unlock(&a->q->lock);
				value_add(&a->out, copy, false);
			}
			struct value_series *out = &a->out.s[id];
			labels_builder_free(&b);
			if (out->n && out->s[out->n - 1].t_ms == t)
				out->s[out->n - 1].v++;
			else
				rc = series_push(a->q, out, t, 1, NULL, e);
		}
	}
	free(extended.v);
	map_free(&m);
	return rc;
}

/* ---- all ---- */

static void collect(struct aggr *a, int64_t t)
{
	for (size_t g = 0; g < a->g.n; g++)
		a->members[g].m.n = 0;
	for (size_t i = 0; i < a->in.n; i++) {
		struct value_sample *s = series_at(&a->in.s[i], &a->cursor[i], t);
		if (s)
			vec_push(&a->members[a->g.of[i]].m, (struct member){ s, (uint32_t)i });
	}
}

static void make_groups(struct aggr *a)
{
	struct labels *l = xcalloc(a->in.n + 1, sizeof *l);
	bool *drop = xcalloc(a->in.n + 1, sizeof *drop);
	for (size_t i = 0; i < a->in.n; i++) {
		l[i] = a->in.s[i].labels;
		drop[i] = a->in.s[i].drop_name;
	}
	groups_make(a->q, l, drop, a->in.n, &a->n->aggr.by, a->n->aggr.without, &a->g);
	free(l);
	free(drop);
	a->members = xcalloc(a->g.n + 1, sizeof *a->members);
	if (aggregate_passes_on(a->op))
		for (size_t i = 0; i < a->in.n; i++)
			value_add(&a->out, a->in.s[i].labels, a->in.s[i].drop_name);
	else
		for (size_t g = 0; g < a->g.n; g++)
			value_add(&a->out, a->g.labels[g], a->g.drop_name[g]);
}

/* An instant topk answers in order of rank. */
static void reorder(struct aggr *a)
{
	if (!a->rank.n)
		return;
	struct value_series *s = xcalloc(a->out.n, sizeof *s);
	for (size_t i = 0; i < a->rank.n; i++)
		s[i] = a->out.s[a->rank.v[i]];
	free(a->out.s);
	a->out.s = s;
	a->out.n = a->rank.n;
	a->out.cap = a->out.n;
}

static int run_groups(struct aggr *a, struct err *e)
{
	step_fn fn = aggregate_passes_on(a->op) ? rank_step : plain_step;
	int rc = a->n->aggr.param ? check_k(a, e) : 0;
	make_groups(a);
	for (size_t i = 0; i < a->sp->n && !rc; i++) {
		rc = eval_check_at(a->q, i, e);
		if (rc)
			break;
		collect(a, span_at(a->sp, i));
		for (size_t g = 0; g < a->g.n && !rc; g++)
			if (a->members[g].m.n)
				rc = fn(a, g, i, e);
	}
	if (!rc)
		reorder(a);
	for (size_t g = 0; g < a->g.n; g++)
		vec_free(&a->members[g].m);
	free(a->members);
	groups_free(&a->g);
	return rc;
}

static int finish(struct aggr *a, int rc, struct value *ret, struct err *e)
{
	a->cursor = xcalloc(a->in.n + 1, sizeof *a->cursor);
	if (!rc)
		rc = a->op == AGGR_COUNT_VALUES ? count_values(a, e) : run_groups(a, e);
	free(a->cursor);
	free(a->work);
	vec_free(&a->rank);
	value_free(&a->in);
	value_free(&a->param);
	return value_finish(&a->out, rc, ret);
}

/* Adds the series of v to those of out that have their labels; v is empty afterwards. */
static int append_series(struct eval *q, struct value *out, struct map *m, struct value *v, struct err *e)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct value_series *s = &v->s[i];
		uint64_t h = labels_hash(s->labels) ^ s->drop_name;
		uint32_t id;
		if (!MAP_FIND_OR_ADD(m, h, id, out->n, labels_eq(out->s[id].labels, s->labels) && out->s[id].drop_name == s->drop_name))
			value_add(out, s->labels, s->drop_name);
		struct value_series *to = &out->s[id];
		for (size_t k = 0; k < s->n; k++) {
			int rc = series_push(q, to, s->s[k].t_ms, s->s[k].v, lazy_profile_ref(s->s[k].p), e);
			if (rc)
				return rc;
		}
	}
	value_free(v);
	return 0;
}

/* A readout has a row per function. The few that topk and similar pass on are chosen a few steps at a time, so that a long range never
 * holds all functions at all steps. */
static bool chooses_rows(const struct node *n, const struct span *sp)
{
	const struct node *arg = node_unwrap(n->aggr.expr);
	return aggregate_passes_on(n->aggr.op) && sp->n > STEPS_AT_ONCE && arg->kind == NODE_CALL && arg->call.fn->form == FUNC_PROFILE;
}

static int choose_rows(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct value out;
	struct map m = { 0 };
	int rc = 0;
	value_start(q, &out, PROMQL_VECTOR);
	for (size_t i = 0; i < sp->n && !rc; i += STEPS_AT_ONCE) {
		struct span part = { span_at(sp, i), 0, sp->step, MIN(STEPS_AT_ONCE, sp->n - i) };
		struct value v = { 0 };
		part.end = span_at(&part, part.n - 1);
		rc = eval_aggregate(q, n, &part, &v, e);
		if (!rc)
			rc = append_series(q, &out, &m, &v, e);
		value_free(&v);
	}
	map_free(&m);
	if (rc) {
		value_free(&out);
		return rc;
	}
	*ret = out;
	return 0;
}

/* Whether each group holds all rows of whole profiles, so that the best of a profile's rows are enough. */
static bool groups_whole(const struct node *n)
{
	static const char *const of_rows[] = { "function", "file", "line", "binary", "package" };
	for (size_t i = 0; i < n->aggr.by.n; i++) {
		struct view l = n->aggr.by.v[i];
		if (view_starts(l, VIEW("exported_")))
			return false;
		for (size_t k = 0; k < ARRAY_LEN(of_rows); k++)
			if (view_eqs(l, of_rows[k]))
				return false;
	}
	return !n->aggr.without;
}

int eval_aggregate(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct node *arg = node_unwrap(n->aggr.expr);
	bool done;
	int rc = eval_totals(q, n, sp, ret, &done, e);
	if (rc || done)
		return rc;
	bool best = (n->aggr.op == AGGR_TOPK || n->aggr.op == AGGR_BOTTOMK) && readout_can_choose(arg) && groups_whole(n);
	if (!best && chooses_rows(n, sp))
		return choose_rows(q, n, sp, ret, e);
	struct aggr a = { .q = q, .n = n, .op = n->aggr.op, .sp = sp };
	value_start(q, &a.out, PROMQL_VECTOR);
	if (n->aggr.param && a.op != AGGR_COUNT_VALUES)
		rc = eval_node(q, n->aggr.param, sp, &a.param, e);
	if (!rc && best)
		rc = readout_best(q, arg, sp, n->aggr.op == AGGR_TOPK, &a.param, &a.in, e);
	else if (!rc)
		rc = eval_node(q, n->aggr.expr, sp, &a.in, e);
	return finish(&a, rc, ret, e);
}

int eval_aggregate_of(struct eval *q, struct node *n, enum aggregate_op op, const struct span *sp, struct value *in,
		      struct value *ret, struct err *e)
{
	struct aggr a = { .q = q, .n = n, .op = op, .sp = sp, .in = *in };
	value_start(q, &a.out, PROMQL_VECTOR);
	*in = (struct value){ 0 };
	return finish(&a, 0, ret, e);
}
