/* SPDX-License-Identifier: Apache-2.0 */
/* Classic histograms: series with an le label that belong together. Native histograms do not exist here. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "promql-like/eval/funcs.h"

struct bucket {
	double bound, count;
};

struct buckets {
	VEC(struct bucket) b;
};

static int by_bound(const void *a, const void *b)
{
	const struct bucket *x = a, *y = b;
	return (x->bound > y->bound) - (x->bound < y->bound);
}

/* Sorted, equal bounds joined; false if there is no +Inf bucket. */
static bool put_in_order(struct bucket *b, size_t *n)
{
	qsort(b, *n, sizeof *b, by_bound);
	if (!isinf(b[*n - 1].bound))
		return false;
	size_t out = 0;
	for (size_t i = 1; i < *n; i++) {
		if (b[i].bound == b[out].bound)
			b[out].count += b[i].count;
		else
			b[++out] = b[i];
	}
	*n = out + 1;
	return true;
}

static bool nearly(double a, double b)
{
	static const double tolerance = 1e-12, tiny = 2.2250738585072014e-308;
	if (a == b)
		return true;
	double sum = fabs(a) + fabs(b), d = fabs(a - b);
	if (a == 0 || b == 0 || sum < tiny)
		return d < tolerance * tiny;
	return d / fmin(sum, 1.7976931348623157e308) < tolerance;
}

/* Counts never fall from one bound to the next; tiny differences are noise. True if a real decrease was corrected. */
static bool make_monotonic(struct bucket *b, size_t n)
{
	bool forced = false;
	double prev = b[0].count;
	for (size_t i = 1; i < n; i++) {
		if (b[i].count == prev)
			continue;
		if (nearly(prev, b[i].count)) {
			b[i].count = prev;
		} else if (b[i].count < prev) {
			b[i].count = prev;
			forced = true;
		} else {
			prev = b[i].count;
		}
	}
	return forced;
}

static double bucket_quantile(double q, struct bucket *b, size_t n, bool *forced)
{
	if (isnan(q))
		return NAN;
	if (q < 0 || q > 1)
		return q < 0 ? -INFINITY : INFINITY;
	if (!put_in_order(b, &n))
		return NAN;
	*forced = make_monotonic(b, n);
	double all = b[n - 1].count, rank = q * all;
	if (n < 2 || all == 0 || isnan(all))
		return NAN;
	size_t at = 0;
	while (at < n - 1 && !(b[at].count >= rank))
		at++;
	if (at == n - 1)
		return b[n - 2].bound;
	if (at == 0 && b[0].bound <= 0)
		return b[0].bound;
	double from = at ? b[at - 1].bound : 0, below = at ? b[at - 1].count : 0;
	return from + (b[at].bound - from) * ((rank - below) / (b[at].count - below));
}

/* Observations at most v, interpolated inside a bucket. */
static double rank_of(double v, const struct bucket *b, size_t n)
{
	double below = 0, from = b[0].bound <= 0 ? -INFINITY : 0;
	for (size_t i = 0; i < n; i++) {
		if (i)
			from = b[i - 1].bound;
		if (from >= v)
			return below;
		if (b[i].bound > v)
			return isinf(from) ? b[i].count : below + (b[i].count - below) * (v - from) / (b[i].bound - from);
		below = b[i].count;
	}
	return b[n - 1].count;
}

static double bucket_fraction(double lower, double upper, struct bucket *b, size_t n)
{
	if (!put_in_order(b, &n))
		return NAN;
	double all = b[n - 1].count;
	if (all == 0 || isnan(all) || isnan(lower) || isnan(upper))
		return NAN;
	if (lower >= upper)
		return 0;
	return (fmin(rank_of(upper, b, n), all) - fmin(rank_of(lower, b, n), all)) / all;
}

/* ---- series into histograms ---- */

struct hist_job {
	struct value in, a, b;   /* buckets, scalar arguments */
	struct series_groups g;
	struct buckets *at;      /* by group */
	double *bounds;          /* by series; NaN: no bucket */
	size_t *cursor;
};

static void sort_into_groups(struct eval *q, struct node *n, struct hist_job *j)
{
	struct labels *l = xcalloc(j->in.n + 1, sizeof *l);
	struct view le = VIEW("le");
	char place[32];
	j->bounds = xcalloc(j->in.n + 1, sizeof *j->bounds);
	for (size_t i = 0; i < j->in.n; i++) {
		struct view bound = labels_get(j->in.s[i].labels, le);
		l[i] = eval_project(q, j->in.s[i].labels, &(struct node_labels){ &le, 1 }, false);
		if (num_parse_double(bound, &j->bounds[i]))
			continue;
		j->bounds[i] = NAN;
		eval_note(q, false, "PromQL warning: bucket label \"le\" is missing or has a malformed value of \"%.*s\" for metric name \"%.*s\" (%s)",
			  VIEW_ARG(bound), VIEW_ARG(metric_name(l[i])), eval_place(q, n->call.args[n->call.n - 1]->start, place));
	}
	/* by every label but le, the name included: without () would drop it */
	struct map m = { 0 };
	j->g.of = xcalloc(j->in.n + 1, sizeof *j->g.of);
	j->g.labels = xcalloc(j->in.n + 1, sizeof *j->g.labels);
	j->g.drop_name = xcalloc(j->in.n + 1, sizeof *j->g.drop_name);
	for (size_t i = 0; i < j->in.n; i++) {
		uint64_t h = labels_hash(l[i]);
		uint32_t id;
		if (!MAP_FIND_OR_ADD(&m, h, id, j->g.n, labels_eq(j->g.labels[id], l[i])))
			j->g.labels[j->g.n++] = l[i];
		j->g.of[i] = id;
	}
	map_free(&m);
	free(l);
	j->at = xcalloc(j->g.n + 1, sizeof *j->at);
	j->cursor = xcalloc(j->in.n + 1, sizeof *j->cursor);
}

static void hist_free(struct hist_job *j)
{
	for (size_t g = 0; g < j->g.n; g++)
		vec_free(&j->at[g].b);
	free(j->at);
	free(j->bounds);
	free(j->cursor);
	groups_free(&j->g);
	value_free(&j->in);
	value_free(&j->a);
	value_free(&j->b);
}

static int each_histogram(struct eval *q, struct node *n, const struct span *sp, bool quantile, struct hist_job *j,
			  struct value *out, struct err *e)
{
	char place[32];
	for (size_t g = 0; g < j->g.n; g++)
		value_add(out, j->g.labels[g], true);
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i);
		int rc = eval_check_at(q, i, e);
		if (rc)
			return rc;
		for (size_t g = 0; g < j->g.n; g++)
			j->at[g].b.n = 0;
		for (size_t k = 0; k < j->in.n; k++) {
			struct value_sample *s = series_at(&j->in.s[k], &j->cursor[k], t);
			if (s && !isnan(j->bounds[k]))
				vec_push(&j->at[j->g.of[k]].b, (struct bucket){ j->bounds[k], s->v });
		}
		for (size_t g = 0; g < j->g.n; g++) {
			struct bucket *b = j->at[g].b.v;
			size_t count = j->at[g].b.n;
			bool forced = false;
			if (!count)
				continue;
			double a = value_scalar(&j->a, i);
			double v = quantile ? bucket_quantile(a, b, count, &forced) : bucket_fraction(a, value_scalar(&j->b, i), b, count);
			if (forced)
				eval_note(q, true, "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name \"%.*s\" (%s)",
					  VIEW_ARG(metric_name(j->g.labels[g])), eval_place(q, n->call.args[1]->start, place));
			rc = series_push(q, &out->s[g], t, v, NULL, e);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int histogram(struct eval *q, struct node *n, const struct span *sp, bool quantile, struct value *ret, struct err *e)
{
	struct hist_job j = { 0 };
	struct value out;
	value_start(q, &out, PROMQL_VECTOR);
	int rc = eval_node(q, n->call.args[0], sp, &j.a, e);
	if (!rc && !quantile)
		rc = eval_node(q, n->call.args[1], sp, &j.b, e);
	if (!rc)
		rc = eval_node(q, n->call.args[n->call.n - 1], sp, &j.in, e);
	char place[32], num[NUM_LEN];
	for (size_t i = 0; !rc && quantile && i < sp->n; i++) {
		double v = value_scalar(&j.a, i);
		if (isnan(v) || v < 0 || v > 1)
			eval_note(q, false, "PromQL warning: quantile value should be between 0 and 1, got %s (%s)", num_format(v, num),
				  eval_place(q, n->call.args[0]->start, place));
	}
	if (!rc) {
		sort_into_groups(q, n, &j);
		rc = each_histogram(q, n, sp, quantile, &j, &out, e);
	}
	hist_free(&j);
	return value_finish(&out, rc, ret);
}

CALL(fn_histogram_quantile)
{
	return histogram(q, n, sp, true, ret, e);
}

CALL(fn_histogram_fraction)
{
	return histogram(q, n, sp, false, ret, e);
}

/* Functions of native histograms: every float is passed over. */
CALL(fn_histogram_native)
{
	struct value v;
	int rc = eval_node(q, n->call.args[0], sp, &v, e);
	if (rc)
		return rc;
	value_free(&v);
	value_start(q, ret, PROMQL_VECTOR);
	return 0;
}
