/* SPDX-License-Identifier: Apache-2.0 */
/* Time and calendar (UTC). */
#include <math.h>
#include <time.h>

#include "promql-like/eval/funcs.h"

static bool to_tm(double v, struct tm *tm)
{
	if (isnan(v) || fabs(v) > 9.2e15)
		return false;
	time_t t = (time_t)v;
	return gmtime_r(&t, tm) != NULL;
}

static int month_days(const struct tm *tm)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int y = tm->tm_year + 1900;
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
	return days[tm->tm_mon] + (tm->tm_mon == 1 && leap);
}

#define T1(name, expr) double name(double v) { struct tm tm; return to_tm(v, &tm) ? (double)(expr) : NAN; }
T1(fn_minute, tm.tm_min)
T1(fn_hour, tm.tm_hour)
T1(fn_day_of_week, tm.tm_wday)
T1(fn_day_of_month, tm.tm_mday)
T1(fn_day_of_year, tm.tm_yday + 1)
T1(fn_days_in_month, month_days(&tm))
T1(fn_month, tm.tm_mon + 1)
T1(fn_year, tm.tm_year + 1900)

static int each_step(struct eval *q, const struct span *sp, const double *fixed, struct value *ret, struct err *e)
{
	struct value v;
	value_start(q, &v, PROMQL_SCALAR);
	struct value_series *s = value_add(&v, (struct labels){ 0 }, false);
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i);
		int rc = series_push(q, s, t, fixed ? *fixed : (double)t / 1000, NULL, e);
		if (rc) {
			value_free(&v);
			return rc;
		}
	}
	*ret = v;
	return 0;
}

CALL(fn_time)
{
	(void)n;
	return each_step(q, sp, NULL, ret, e);
}

CALL(fn_start)
{
	(void)n;
	return each_step(q, sp, &(double){ (double)q->top.start / 1000 }, ret, e);
}

CALL(fn_end)
{
	(void)n;
	return each_step(q, sp, &(double){ (double)q->top.end / 1000 }, ret, e);
}

CALL(fn_step)
{
	(void)n;
	return each_step(q, sp, &(double){ q->is_range ? (double)q->top.step / 1000 : 0 }, ret, e);
}

CALL(fn_range)
{
	(void)n;
	return each_step(q, sp, &(double){ ((double)q->top.end - (double)q->top.start) / 1000 }, ret, e);
}

/* For a plain selector the time of the sample, otherwise the time of the evaluation. */
CALL(fn_timestamp)
{
	struct node *arg = node_unwrap(n->call.args[0]);
	struct value v;
	if (arg->kind == NODE_SELECTOR) {
		int rc = eval_selector_times(q, arg, sp, ret, e);
		for (size_t i = 0; !rc && i < ret->n; i++)
			ret->s[i].drop_name = true;
		return rc;
	}
	int rc = eval_node(q, arg, sp, &v, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < v.n; i++) {
		v.s[i].drop_name = true;
		for (size_t k = 0; k < v.s[i].n; k++) {
			struct value_sample *s = &v.s[i].s[k];
			s->v = (double)s->t_ms / 1000;
			sample_drop_profile(q, s);
		}
	}
	*ret = v;
	return 0;
}
