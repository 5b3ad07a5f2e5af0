/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the points in one window: at least one of them, oldest first. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "promql-like/eval/funcs.h"

/* ---- rates of counters ---- */

static bool counter_name(struct view name)
{
	return view_ends(name, VIEW("_total")) || view_ends(name, VIEW("_sum")) || view_ends(name, VIEW("_count")) ||
	       view_ends(name, VIEW("_bucket"));
}

static void note_no_counter(struct func_window *w)
{
	char place[32];
	if (w->metric.len && !counter_name(w->metric))
		eval_note(w->q, true, "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"%.*s\" (%s)",
			  VIEW_ARG(w->metric), eval_place(w->q, w->node_start, place));
}

static bool between_edges(struct func_window *w, bool counter, bool per_second, double *ret);

/* The increase between first and last point, stretched to the ends of the window where a sample would have been due
 * there (less than 1.1 mean gaps away), else by half a gap; a counter never below zero. */
static bool extrapolated(struct func_window *w, bool counter, bool per_second, double *ret)
{
	if (w->edges)
		return between_edges(w, counter, per_second, ret);
	if (counter)
		note_no_counter(w);
	if (w->n < 2)
		return false;
	const struct point *first = &w->pts[0], *last = &w->pts[w->n - 1];
	double grown = last->v - first->v;
	for (size_t i = 1; i < w->n && counter; i++)
		if (w->pts[i].v < w->pts[i - 1].v)
			grown += w->pts[i - 1].v;
	double to_start = (double)(first->t_ms - w->from_ms) / 1000, to_end = (double)(w->to_ms - last->t_ms) / 1000;
	double sampled = (double)(last->t_ms - first->t_ms) / 1000, gap = sampled / (double)(w->n - 1);
	double threshold = gap * 1.1;
	if (to_start >= threshold)
		to_start = gap / 2;
	if (counter && grown > 0 && first->v >= 0)
		to_start = fmin(to_start, sampled * (first->v / grown));
	if (to_end >= threshold)
		to_end = gap / 2;
	double factor = (sampled + to_start + to_end) / sampled;
	if (per_second)
		factor /= (double)(w->to_ms - w->from_ms) / 1000;
	*ret = grown * factor;
	return true;
}

/* ---- ranges with edges: anchored, smoothed ---- */

/* The newest point at or before the start of the range, else the first. */
static size_t anchor_of(const struct func_window *w)
{
	size_t k = 0;
	while (k + 1 < w->n && w->pts[k].t_ms <= w->from_ms)
		k++;
	return k ? k - 1 : 0;
}

/* On the line between two points; of a counter that was reset between them, from zero. */
static double on_line(const struct point *a, const struct point *b, int64_t t, bool counter)
{
	double from = counter && b->v < a->v ? 0 : a->v;
	return from + (b->v - from) * (double)(t - a->t_ms) / (double)(b->t_ms - a->t_ms);
}

/* The difference of the values at the ends of the range, resets added up. Nothing is extrapolated. */
static bool between_edges(struct func_window *w, bool counter, bool per_second, double *ret)
{
	bool smooth = w->edges == EDGES_SMOOTHED;
	size_t first = anchor_of(w), last = w->n - 1;
	while (smooth && last && w->pts[last - 1].t_ms >= w->to_ms)
		last--;
	const struct point *p = w->pts;
	if (p[last].t_ms <= w->from_ms || (smooth && p[first].t_ms > w->to_ms))
		return false;
	if (counter)
		note_no_counter(w);
	double left = smooth && p[first].t_ms < w->from_ms ? on_line(&p[first], &p[first + 1], w->from_ms, counter) : p[first].v;
	double right = smooth && last && p[last].t_ms > w->to_ms ? on_line(&p[last - 1], &p[last], w->to_ms, counter) : p[last].v;
	double grown = right - left, before = left;
	if (counter) {
		size_t end = last + (p[last].t_ms < w->to_ms);
		for (size_t i = first + (p[first].t_ms <= w->from_ms); i < end; before = p[i++].v)
			grown += p[i].v < before ? before : 0;
		grown += right < before ? before : 0;
	}
	*ret = per_second ? grown / ((double)(w->to_ms - w->from_ms) / 1000) : grown;
	return true;
}

/* Leaves what an anchored range is of; false: nothing lies in it. */
static bool cut_to_anchor(struct func_window *w)
{
	if (w->edges != EDGES_ANCHORED)
		return true;
	size_t first = anchor_of(w);
	w->pts += first;
	w->n -= first;
	return w->pts[w->n - 1].t_ms > w->from_ms;
}

bool fn_rate(struct func_window *w, double *ret)
{
	return extrapolated(w, true, true, ret);
}

bool fn_increase(struct func_window *w, double *ret)
{
	return extrapolated(w, true, false, ret);
}

bool fn_delta(struct func_window *w, double *ret)
{
	return extrapolated(w, false, false, ret);
}

bool fn_irate(struct func_window *w, double *ret)
{
	note_no_counter(w);
	if (w->n < 2)
		return false;
	const struct point *a = &w->pts[w->n - 2], *b = a + 1;
	if (a->t_ms == b->t_ms)
		return false;
	*ret = (b->v < a->v ? b->v : b->v - a->v) / ((double)(b->t_ms - a->t_ms) / 1000);
	return true;
}

bool fn_idelta(struct func_window *w, double *ret)
{
	if (w->n < 2)
		return false;
	*ret = w->pts[w->n - 1].v - w->pts[w->n - 2].v;
	return true;
}

bool fn_changes(struct func_window *w, double *ret)
{
	double n = 0;
	if (!cut_to_anchor(w))
		return false;
	for (size_t i = 1; i < w->n; i++)
		n += w->pts[i].v != w->pts[i - 1].v && !(isnan(w->pts[i].v) && isnan(w->pts[i - 1].v));
	*ret = n;
	return true;
}

bool fn_resets(struct func_window *w, double *ret)
{
	double n = 0;
	if (!cut_to_anchor(w))
		return false;
	for (size_t i = 1; i < w->n; i++)
		n += w->pts[i].v < w->pts[i - 1].v;
	*ret = n;
	return true;
}

/* ---- regression ---- */

struct kahan {
	double sum, c;
};

static void add(struct kahan *k, double v)
{
	kahan_add(v, &k->sum, &k->c);
}

static void regression(const struct func_window *w, int64_t at_ms, double *slope, double *intercept)
{
	struct kahan x = { 0 }, y = { 0 }, xy = { 0 }, xx = { 0 };
	bool constant = true;
	for (size_t i = 0; i < w->n; i++) {
		double px = (double)(w->pts[i].t_ms - at_ms) / 1000, py = w->pts[i].v;
		constant &= i == 0 || py == w->pts[0].v;
		add(&x, px);
		add(&y, py);
		add(&xy, px * py);
		add(&xx, px * px);
	}
	if (constant) {
		*slope = isinf(w->pts[0].v) ? NAN : 0;
		*intercept = isinf(w->pts[0].v) ? NAN : w->pts[0].v;
		return;
	}
	double n = (double)w->n, sx = x.sum + x.c, sy = y.sum + y.c;
	double cov = xy.sum + xy.c - sx * sy / n, var = xx.sum + xx.c - sx * sx / n;
	*slope = cov / var;
	*intercept = sy / n - *slope * sx / n;
}

bool fn_deriv(struct func_window *w, double *ret)
{
	double intercept;
	if (w->n < 2)
		return false;
	regression(w, w->pts[0].t_ms, ret, &intercept);
	return true;
}

bool fn_predict_linear(struct func_window *w, double *ret)
{
	double slope, intercept;
	if (w->n < 2)
		return false;
	regression(w, w->t_ms, &slope, &intercept);
	*ret = slope * w->arg + intercept;
	return true;
}

/* Holt: a level and a trend, each smoothed. */
bool fn_smoothing(struct func_window *w, double *ret)
{
	double sf = w->arg, tf = w->arg2;
	if (w->n < 2 || !(sf > 0 && sf < 1) || !(tf > 0 && tf < 1))
		return false;
	double level = 0, last = w->pts[0].v, trend = w->pts[1].v - w->pts[0].v;
	for (size_t i = 1; i < w->n; i++) {
		if (i > 1)
			trend = tf * (last - level) + (1 - tf) * trend;
		level = last;
		last = sf * w->pts[i].v + (1 - sf) * (level + trend);
	}
	*ret = last;
	return true;
}

/* ---- over time ---- */

bool fn_avg_over_time(struct func_window *w, double *ret)
{
	struct mean mean = { 0 };
	for (size_t i = 0; i < w->n; i++)
		mean_add(&mean, w->pts[i].v);
	*ret = mean_value(&mean);
	return true;
}

bool fn_sum_over_time(struct func_window *w, double *ret)
{
	double sum = 0, c = 0;
	for (size_t i = 0; i < w->n; i++)
		kahan_add(w->pts[i].v, &sum, &c);
	*ret = isinf(sum) ? sum : sum + c;
	return true;
}

static size_t extreme(const struct func_window *w, bool greatest)
{
	size_t at = 0;
	for (size_t i = 1; i < w->n; i++) {
		double a = w->pts[at].v, b = w->pts[i].v;
		if (isnan(a) || (greatest ? b > a : b < a))
			at = i;
	}
	return at;
}

bool fn_min_over_time(struct func_window *w, double *ret)
{
	*ret = w->pts[extreme(w, false)].v;
	return true;
}

bool fn_max_over_time(struct func_window *w, double *ret)
{
	*ret = w->pts[extreme(w, true)].v;
	return true;
}

/* The last of equal ones. */
static double when_extreme(const struct func_window *w, bool greatest)
{
	size_t at = 0;
	for (size_t i = 1; i < w->n; i++) {
		double a = w->pts[at].v, b = w->pts[i].v;
		if (isnan(a) || (greatest ? b >= a : b <= a))
			at = i;
	}
	return (double)w->pts[at].t_ms / 1000;
}

bool fn_ts_of_min(struct func_window *w, double *ret)
{
	*ret = when_extreme(w, false);
	return true;
}

bool fn_ts_of_max(struct func_window *w, double *ret)
{
	*ret = when_extreme(w, true);
	return true;
}

bool fn_ts_of_first(struct func_window *w, double *ret)
{
	*ret = (double)w->pts[0].t_ms / 1000;
	return true;
}

bool fn_ts_of_last(struct func_window *w, double *ret)
{
	*ret = (double)w->pts[w->n - 1].t_ms / 1000;
	return true;
}

bool fn_count_over_time(struct func_window *w, double *ret)
{
	*ret = (double)w->n;
	return true;
}

bool fn_last_over_time(struct func_window *w, double *ret)
{
	*ret = w->pts[w->n - 1].v;
	return true;
}

bool fn_first_over_time(struct func_window *w, double *ret)
{
	*ret = w->pts[0].v;
	return true;
}

bool fn_present_over_time(struct func_window *w, double *ret)
{
	(void)w;
	*ret = 1;
	return true;
}

bool fn_stdvar_over_time(struct func_window *w, double *ret)
{
	struct kahan mean = { 0 }, aux = { 0 };
	for (size_t i = 0; i < w->n; i++) {
		double v = w->pts[i].v, d = v - (mean.sum + mean.c);
		add(&mean, d / (double)(i + 1));
		add(&aux, d * (v - (mean.sum + mean.c)));
	}
	*ret = (aux.sum + aux.c) / (double)w->n;
	return true;
}

bool fn_stddev_over_time(struct func_window *w, double *ret)
{
	fn_stdvar_over_time(w, ret);
	*ret = sqrt(*ret);
	return true;
}

/* NaN sorts first. */
static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	if (isnan(x) || isnan(y))
		return isnan(y) - isnan(x);
	return (x > y) - (x < y);
}

double quantile_of(double q, double *v, size_t n)
{
	if (!n || isnan(q))
		return NAN;
	if (q < 0)
		return -INFINITY;
	if (q > 1)
		return INFINITY;
	qsort(v, n, sizeof *v, by_value);
	double rank = q * (double)(n - 1), low = floor(rank), weight = rank - low;
	size_t i = (size_t)fmax(0, low), k = MIN(n - 1, i + 1);
	return v[i] * (1 - weight) + v[k] * weight;
}

static void copy_values(struct func_window *w)
{
	for (size_t i = 0; i < w->n; i++)
		w->work[i] = w->pts[i].v;
}

bool fn_quantile_over_time(struct func_window *w, double *ret)
{
	char place[32], num[NUM_LEN];
	if (isnan(w->arg) || w->arg < 0 || w->arg > 1)
		eval_note(w->q, false, "PromQL warning: quantile value should be between 0 and 1, got %s (%s)", num_format(w->arg, num),
			  eval_place(w->q, w->node_start, place));
	copy_values(w);
	*ret = quantile_of(w->arg, w->work, w->n);
	return true;
}

bool fn_mad_over_time(struct func_window *w, double *ret)
{
	for (size_t i = 0; i < w->n; i++)
		if (isnan(w->pts[i].v)) {
			*ret = NAN;
			return true;
		}
	copy_values(w);
	double median = quantile_of(0.5, w->work, w->n);
	for (size_t i = 0; i < w->n; i++)
		w->work[i] = fabs(w->pts[i].v - median);
	*ret = quantile_of(0.5, w->work, w->n);
	return true;
}
