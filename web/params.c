/* SPDX-License-Identifier: Apache-2.0 */
#include "web/params.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/units.h"

int param_error(struct err *e, const char *name, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	param_wrap(e, name);
	return -ERR_BAD_DATA;
}

int param_wrap(struct err *e, const char *name)
{
	return err_wrap(e, "invalid parameter \"%s\"", name);
}

bool param_next(const struct httpd_request *rq, const char *name, size_t *at, struct view *ret)
{
	size_t n;
	const struct httpd_param *p = httpd_params(rq, &n);
	while (*at < n) {
		const struct httpd_param *one = &p[(*at)++];
		if (view_eqs(one->name, name)) {
			*ret = one->value;
			return true;
		}
	}
	return false;
}

/* ---- times and durations ---- */

static int read_time(const char *name, struct view v, int64_t *ret_ms, struct err *e)
{
	if (clock_parse_time_ms(v, ret_ms))
		return 0;
	return param_error(e, name, "cannot parse \"%.*s\" to a valid timestamp", PARAM_ARG(v));
}

static int read_duration(const char *name, struct view v, int64_t *ret_ms, struct err *e)
{
	double s;
	if (units_parse_duration(v, ret_ms))
		return 0;
	if (!num_parse_double(v, &s))
		return param_error(e, name, "cannot parse \"%.*s\" to a valid duration", PARAM_ARG(v));
	if (!isfinite(s) || fabs(s) > 9.2e15)
		return param_error(e, name, "cannot parse \"%.*s\" to a valid duration. It overflows int64", PARAM_ARG(v));
	*ret_ms = (int64_t)llround(s * 1000);
	return 0;
}

int param_need_time(const struct httpd_request *rq, const char *name, int64_t *ret_ms, struct err *e)
{
	return read_time(name, httpd_param(rq, name), ret_ms, e);
}

int param_need_duration(const struct httpd_request *rq, const char *name, int64_t *ret_ms, struct err *e)
{
	return read_duration(name, httpd_param(rq, name), ret_ms, e);
}

int param_time(const struct httpd_request *rq, const char *name, int64_t def, int64_t *ret_ms, struct err *e)
{
	struct view v = httpd_param(rq, name);
	*ret_ms = def;
	return v.len ? read_time(name, v, ret_ms, e) : 0;
}

int param_duration(const struct httpd_request *rq, const char *name, int64_t def, int64_t *ret_ms, struct err *e)
{
	struct view v = httpd_param(rq, name);
	*ret_ms = def;
	return v.len ? read_duration(name, v, ret_ms, e) : 0;
}

int param_duration_from(const struct httpd_request *rq, const char *name, int64_t least_ms, int64_t def, int64_t *ret_ms, struct err *e)
{
	char least[DURATION_LEN];
	int rc = param_duration(rq, name, def, ret_ms, e);
	if (rc || *ret_ms >= least_ms)
		return rc;
	return param_error(e, name, "\"%.*s\" is less than %s", PARAM_ARG(httpd_param(rq, name)), units_format_duration(least_ms, least));
}

int param_span(const struct httpd_request *rq, bool strict, int64_t *ret_after, int64_t *ret_until, struct err *e)
{
	const int64_t far = INT64_MAX / 4; /* so that the storage can add to it */
	int64_t start, end;
	int rc = param_time(rq, "start", -far, &start, e);
	if (!rc)
		rc = param_time(rq, "end", far, &end, e);
	if (rc)
		return rc;
	if (end < start && strict)
		return err_set(e, ERR_BAD_DATA, "end timestamp must not be before start timestamp");
	*ret_after = MIN(start, end) - 1;
	*ret_until = MAX(start, end);
	return 0;
}

/* ---- numbers ---- */

int param_whole(const struct httpd_request *rq, const char *name, int64_t least, int64_t most, int64_t def, int64_t *ret, struct err *e)
{
	struct view v = httpd_param(rq, name);
	char to[32] = "";
	*ret = def;
	if (!v.len || (num_parse_i64(v, ret) && *ret >= least && *ret <= most))
		return 0;
	if (most < INT64_MAX)
		snprintf(to, sizeof to, " to %lld", (long long)most);
	return param_error(e, name, "\"%.*s\" is not a whole number from %lld%s", PARAM_ARG(v), (long long)least, to);
}

int param_limit(const struct httpd_request *rq, const char *name, size_t *ret, struct err *e)
{
	int64_t n = 0;
	int rc = param_whole(rq, name, 0, INT64_MAX, 0, &n, e);
	*ret = (size_t)n;
	return rc;
}

int param_float(const struct httpd_request *rq, const char *name, double least, double most, double def, double *ret, struct err *e)
{
	struct view v = httpd_param(rq, name);
	*ret = def;
	if (!v.len || (num_parse_double(v, ret) && *ret >= least && *ret <= most))
		return 0;
	return param_error(e, name, "\"%.*s\" is not a number from %g to %g", PARAM_ARG(v), least, most);
}

int param_hex(const struct httpd_request *rq, const char *name, uint64_t def, uint64_t *ret, struct err *e)
{
	struct view v = httpd_param(rq, name);
	*ret = v.len ? 0 : def;
	for (size_t i = 0; i < v.len; i++) {
		const char *digits = "0123456789abcdef", *at = v.len == 16 ? memchr(digits, v.ptr[i], 16) : NULL;
		if (!at)
			return param_error(e, name, "\"%.*s\" is not a number of 16 hexadecimal digits", PARAM_ARG(v));
		*ret = *ret << 4 | (uint64_t)(at - digits);
	}
	return 0;
}

/* ---- names ---- */

static bool find(const struct param_names *of, struct view v, size_t *ret)
{
	for (*ret = 0; *ret < of->n; ++*ret) {
		struct view name = view_of(of->v[*ret]);
		if (of->any_case ? view_eq_nocase(v, name) : view_eq(v, name))
			return true;
	}
	return false;
}

static int none_of(const char *name, const struct param_names *of, struct view v, struct err *e)
{
	struct buf all CLEANUP(buf_free) = { 0 };
	for (size_t i = 0; i < of->n; i++)
		buf_printf(&all, "%s%s", i ? ", " : "", of->v[i]);
	return param_error(e, name, "\"%.*s\" is none of %s", PARAM_ARG(v), all.ptr ? all.ptr : "nothing");
}

int param_choice(const struct httpd_request *rq, const char *name, const struct param_names *of, size_t def, size_t *ret, struct err *e)
{
	struct view v = httpd_param(rq, name);
	if (v.len)
		return find(of, v, ret) ? 0 : none_of(name, of, v, e);
	*ret = def;
	return 0;
}

int param_choices(const struct httpd_request *rq, const char *name, const struct param_names *of, unsigned *ret, struct err *e)
{
	struct view rest = httpd_param(rq, name);
	size_t one;
	*ret = 0;
	while (rest.len) {
		struct view v = view_cut(&rest, ',');
		if (!find(of, v, &one))
			return none_of(name, of, v, e);
		*ret |= 1U << one;
	}
	return 0;
}

int param_bool(const struct httpd_request *rq, const char *name, bool def, bool *ret, struct err *e)
{
	static const char *const names[] = { "0", "f", "false", "1", "t", "true" };
	size_t which;
	if (!param_choice(rq, name, &(struct param_names){ names, ARRAY_LEN(names), true }, def ? 3 : 0, &which, e)) {
		*ret = which >= 3;
		return 0;
	}
	struct view v = httpd_param(rq, name);
	return param_error(e, name, "\"%.*s\" is neither true nor false", PARAM_ARG(v));
}
