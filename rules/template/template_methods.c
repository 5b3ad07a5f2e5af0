/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of times, durations, months and weekdays. a[-1] is the receiver. */
#include "rules/template/template_func.h"

#define DAY_1 INT64_C(-62135596800) /* year 1, Go's zero time */
#define SECOND INT64_C(1000000000)

#define METHOD(name) static int name(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
#define OF_DATE(name, type_, what)                                                                                                      \
	METHOD(name)                                                                                                                   \
	{                                                                                                                              \
		struct tdate d = ttime_date(a[-1].time);                                                                               \
		(void)x, (void)n, (void)e;                                                                                             \
		*ret = (struct tvalue){ .type = type_, .i = what };                                                                    \
		return 0;                                                                                                              \
	}
#define SIMPLE(name, ...)                                                                                                               \
	METHOD(name)                                                                                                                   \
	{                                                                                                                              \
		(void)x, (void)n, (void)e;                                                                                             \
		*ret = __VA_ARGS__;                                                                                                    \
		return 0;                                                                                                              \
	}
#define TTIME(t) ((struct tvalue){ .type = TTYPE_TIME, .time = (t) })
#define TDURATION(ns) ((struct tvalue){ .type = TTYPE_DURATION, .i = (ns) })
#define TINT64(n) ((struct tvalue){ .type = TTYPE_INT64, .i = (n) })

OF_DATE(t_year, TTYPE_INT, d.year)
OF_DATE(t_month, TTYPE_MONTH, d.month)
OF_DATE(t_day, TTYPE_INT, d.day)
OF_DATE(t_yday, TTYPE_INT, d.yday)
OF_DATE(t_weekday, TTYPE_WEEKDAY, d.weekday)
OF_DATE(t_hour, TTYPE_INT, d.hour)
OF_DATE(t_minute, TTYPE_INT, d.minute)
OF_DATE(t_second, TTYPE_INT, d.second)

static int64_t wrapped(int64_t s, int64_t per_second, int64_t more)
{
	return (int64_t)((uint64_t)s * (uint64_t)per_second + (uint64_t)more);
}

SIMPLE(t_unix, TINT64(a[-1].time.s))
SIMPLE(t_unix_milli, TINT64(wrapped(a[-1].time.s, 1000, a[-1].time.ns / 1000000)))
SIMPLE(t_unix_micro, TINT64(wrapped(a[-1].time.s, 1000000, a[-1].time.ns / 1000)))
SIMPLE(t_unix_nano, TINT64(wrapped(a[-1].time.s, SECOND, a[-1].time.ns)))
SIMPLE(t_nanosecond, TINT(a[-1].time.ns))
SIMPLE(t_same, a[-1])
SIMPLE(t_add, TTIME(ttime_add(a[-1].time, a[0].i)))
SIMPLE(t_sub, TDURATION(ttime_sub(a[-1].time, a[0].time)))
SIMPLE(t_add_date, TTIME(ttime_add_date(a[-1].time, a[0].i, a[1].i, a[2].i)))
SIMPLE(t_before, TBOOL(ttime_cmp(a[-1].time, a[0].time) < 0))
SIMPLE(t_after, TBOOL(ttime_cmp(a[-1].time, a[0].time) > 0))
SIMPLE(t_equal, TBOOL(ttime_cmp(a[-1].time, a[0].time) == 0))
SIMPLE(t_compare, TINT(ttime_cmp(a[-1].time, a[0].time)))
SIMPLE(t_is_zero, TBOOL(a[-1].time.s == DAY_1 && !a[-1].time.ns))
SIMPLE(t_is_dst, TBOOL(false))

/* Time since year 1 modulo d. */
static int64_t rest_of(struct ttime t, int64_t d)
{
	__int128 r = (((__int128)t.s - DAY_1) * SECOND + t.ns) % d;
	return (int64_t)(r < 0 ? r + d : r);
}

static struct ttime truncated(struct ttime t, int64_t d)
{
	return d <= 0 ? t : ttime_add(t, -rest_of(t, d));
}

static struct ttime rounded(struct ttime t, int64_t d)
{
	if (d <= 0)
		return t;
	int64_t r = rest_of(t, d);
	return ttime_add(t, r < d - r ? -r : d - r);
}

SIMPLE(t_truncate, TTIME(truncated(a[-1].time, a[0].i)))
SIMPLE(t_round, TTIME(rounded(a[-1].time, a[0].i)))

METHOD(t_format)
{
	struct buf b = texec_buf(x);
	(void)n;
	ttime_format(a[-1].time, a[0].s, &b);
	return texec_take(x, &b, ret, e);
}

METHOD(t_string)
{
	struct buf b = texec_buf(x);
	(void)n, (void)a;
	ttime_format(a[-1].time, TTIME_STRING, &b);
	return texec_take(x, &b, ret, e);
}

/* ---- durations ---- */

static double in_units(int64_t ns, int64_t unit)
{
	return (double)(ns / unit) + (double)(ns % unit) / (double)unit;
}

static int64_t duration_rounded(int64_t d, int64_t m)
{
	if (m <= 0)
		return d;
	int64_t r = d % m, up, half = r < 0 ? -r : r;
	if (half < m - half)
		return d - r;
	if (d < 0)
		return __builtin_sub_overflow(d, m - half, &up) ? INT64_MIN : up;
	return __builtin_add_overflow(d, m - half, &up) ? INT64_MAX : up;
}

SIMPLE(d_hours, TFLOAT(in_units(a[-1].i, 3600 * SECOND)))
SIMPLE(d_minutes, TFLOAT(in_units(a[-1].i, 60 * SECOND)))
SIMPLE(d_seconds, TFLOAT(in_units(a[-1].i, SECOND)))
SIMPLE(d_milli, TINT64(a[-1].i / 1000000))
SIMPLE(d_micro, TINT64(a[-1].i / 1000))
SIMPLE(d_nano, TINT64(a[-1].i))
SIMPLE(d_abs, TDURATION(a[-1].i == INT64_MIN ? INT64_MAX : a[-1].i < 0 ? -a[-1].i : a[-1].i))
SIMPLE(d_truncate, TDURATION(a[0].i <= 0 ? a[-1].i : a[-1].i - a[-1].i % a[0].i))
SIMPLE(d_round, TDURATION(duration_rounded(a[-1].i, a[0].i)))

METHOD(d_string)
{
	struct buf b = texec_buf(x);
	(void)n;
	tduration_format(a[-1].i, &b);
	return texec_take(x, &b, ret, e);
}

static int named(struct texec *x, const char *name, const char *type, int64_t i, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	if (name)
		buf_puts(&b, name);
	else
		buf_printf(&b, "%%!%s(%lld)", type, (long long)i);
	return texec_take(x, &b, ret, e);
}

METHOD(m_string)
{
	(void)n;
	return named(x, tmonth_name((int)a[-1].i), "Month", a[-1].i, ret, e);
}

METHOD(w_string)
{
	(void)n;
	return named(x, tweekday_name((int)a[-1].i), "Weekday", a[-1].i, ret, e);
}

static const struct tfunc of_time[] = {
	{ "Add", { TPARAM_DURATION }, false, t_add },
	{ "AddDate", { TPARAM_INT, TPARAM_INT, TPARAM_INT }, false, t_add_date },
	{ "After", { TPARAM_TIME }, false, t_after },
	{ "Before", { TPARAM_TIME }, false, t_before },
	{ "Compare", { TPARAM_TIME }, false, t_compare },
	{ "Day", { 0 }, false, t_day },
	{ "Equal", { TPARAM_TIME }, false, t_equal },
	{ "Format", { TPARAM_STRING }, false, t_format },
	{ "Hour", { 0 }, false, t_hour },
	{ "IsDST", { 0 }, false, t_is_dst },
	{ "IsZero", { 0 }, false, t_is_zero },
	{ "Minute", { 0 }, false, t_minute },
	{ "Month", { 0 }, false, t_month },
	{ "Nanosecond", { 0 }, false, t_nanosecond },
	{ "Round", { TPARAM_DURATION }, false, t_round },
	{ "Second", { 0 }, false, t_second },
	{ "String", { 0 }, false, t_string },
	{ "Sub", { TPARAM_TIME }, false, t_sub },
	{ "Truncate", { TPARAM_DURATION }, false, t_truncate },
	{ "UTC", { 0 }, false, t_same },
	{ "Unix", { 0 }, false, t_unix },
	{ "UnixMicro", { 0 }, false, t_unix_micro },
	{ "UnixMilli", { 0 }, false, t_unix_milli },
	{ "UnixNano", { 0 }, false, t_unix_nano },
	{ "Weekday", { 0 }, false, t_weekday },
	{ "Year", { 0 }, false, t_year },
	{ "YearDay", { 0 }, false, t_yday },
	{ 0 },
};

static const struct tfunc of_duration[] = {
	{ "Abs", { 0 }, false, d_abs },
	{ "Hours", { 0 }, false, d_hours },
	{ "Microseconds", { 0 }, false, d_micro },
	{ "Milliseconds", { 0 }, false, d_milli },
	{ "Minutes", { 0 }, false, d_minutes },
	{ "Nanoseconds", { 0 }, false, d_nano },
	{ "Round", { TPARAM_DURATION }, false, d_round },
	{ "Seconds", { 0 }, false, d_seconds },
	{ "String", { 0 }, false, d_string },
	{ "Truncate", { TPARAM_DURATION }, false, d_truncate },
	{ 0 },
};

static const struct tfunc of_month[] = { { "String", { 0 }, false, m_string }, { 0 } };
static const struct tfunc of_weekday[] = { { "String", { 0 }, false, w_string }, { 0 } };

const struct tfunc *tmethod_find(enum ttype type, struct view name)
{
	const struct tfunc *f = NULL;
	if (type == TTYPE_TIME || type == TTYPE_TIME_AT)
		f = of_time;
	else if (type == TTYPE_DURATION || type == TTYPE_DURATION_AT)
		f = of_duration;
	else if (type == TTYPE_MONTH)
		f = of_month;
	else if (type == TTYPE_WEEKDAY)
		f = of_weekday;
	for (; f && f->name; f++)
		if (view_eqs(name, f->name))
			return f;
	return NULL;
}
