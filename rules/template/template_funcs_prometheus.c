/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that Prometheus gives to templates of rules (its template/template.go). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/regex.h"
#include "rules/template/template_fmt.h"
#include "rules/template/template_func.h"
#include "rules/template/template_number.h"
#include "rules/template/template.h"
#include "rules/template/template_link.h"
#include "rules/template/template_quote.h"
#include "rules/template/template_text.h"

#define FUNC(name) static int name(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)

/* ---- vectors ---- */

FUNC(f_query)
{
	(void)n;
	return texec_query(x, a[0].s, texec_env(x)->t_ms, ret, e);
}

FUNC(f_first)
{
	(void)x, (void)n;
	if (!a[0].vector.n)
		return err_set(e, ERR_EXECUTION, "first() called on vector with no elements");
	*ret = (struct tvalue){ .type = TTYPE_SAMPLE, .sample = a[0].vector.v[0] };
	return 0;
}

static int no_sample(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "runtime error: invalid memory address or nil pointer dereference");
}

FUNC(f_label)
{
	(void)x, (void)n;
	if (!a[1].sample)
		return no_sample(e);
	*ret = TSTRING(labels_get(a[1].sample->labels, a[0].s));
	return 0;
}

FUNC(f_value)
{
	(void)x, (void)n;
	if (!a[0].sample)
		return no_sample(e);
	*ret = TFLOAT(a[0].sample->value);
	return 0;
}

FUNC(f_strvalue)
{
	(void)x, (void)n;
	if (!a[0].sample)
		return no_sample(e);
	*ret = TSTRING(labels_get(a[0].sample->labels, VIEW("__value__")));
	return 0;
}

/* In place, as Prometheus does; samples with equal labels keep their order. */
FUNC(f_sort_by_label)
{
	size_t count = a[1].vector.n;
	struct tsample **v = a[1].vector.v, **tmp = texec_alloc(x, (count + 1) * sizeof *tmp, e);
	int rc = tmp ? texec_charge(x, count, e) : -(int)e->code;
	(void)n;
	if (rc)
		return rc;
	for (size_t width = 1; width < count; width *= 2) {
		for (size_t at = 0; at < count; at += 2 * width) {
			size_t i = at, mid = MIN(at + width, count), j = mid, end = MIN(at + 2 * width, count);
			for (size_t k = at; k < end; k++) {
				bool left = i < mid && (j >= end || view_cmp(labels_get(v[j]->labels, a[0].s), labels_get(v[i]->labels, a[0].s)) >= 0);
				tmp[k] = left ? v[i++] : v[j++];
			}
		}
		memcpy(v, tmp, count * sizeof *v);
	}
	*ret = a[1];
	return 0;
}

static int cmp_args(const void *a, const void *b)
{
	const struct targ *l = a, *r = b;
	return view_cmp(l->key, r->key);
}

FUNC(f_args)
{
	struct targs *m = texec_alloc(x, sizeof *m + n * sizeof m->v[0], e);
	if (!m)
		return -(int)e->code;
	m->n = n;
	for (size_t i = 0; i < n; i++) {
		char *key = texec_alloc(x, 16, e);
		if (!key)
			return -(int)e->code;
		m->v[i] = (struct targ){ view_make(key, (size_t)snprintf(key, 16, "arg%zu", i)), a[i] };
	}
	qsort(m->v, n, sizeof m->v[0], cmp_args);
	*ret = (struct tvalue){ .type = TTYPE_ARGS, .args = m };
	return 0;
}

/* ---- numbers for people ---- */

static int to_float(const struct tvalue *v, double *ret, struct err *e)
{
	struct buf b = { .max = 1100 };
	bool range;
	if (v->type == TTYPE_FLOAT)
		*ret = v->f;
	else if (v->type == TTYPE_INT || v->type == TTYPE_INT64)
		*ret = (double)v->i;
	else if (v->type == TTYPE_DURATION)
		*ret = (double)(v->i / 1000000000) + (double)(v->i % 1000000000) / 1e9;
	else if (v->type != TTYPE_STRING)
		return err_set(e, ERR_EXECUTION, "can't convert %s to float", v->type == TTYPE_NIL ? "<nil>" : ttype_name(v->type));
	else if (!go_parse_float(v->s, ret, &range)) {
		go_quote(v->s, '"', false, &b);
		err_set(e, ERR_EXECUTION, "strconv.ParseFloat: parsing %.*s: %s", VIEW_ARG(buf_view(&b)),
			range ? "value out of range" : "invalid syntax");
		buf_free(&b);
		return -ERR_EXECUTION;
	}
	return 0;
}

/* "%.4g" and a unit. */
static int four_digits(struct texec *x, double v, const char *unit, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	go_format_float(&(struct gofmt){ 0 }, v, 'g', 4, &b);
	buf_puts(&b, unit);
	return texec_take(x, &b, ret, e);
}

static const char *const small[] = { "m", "u", "n", "p", "f", "a", "z", "y" };

/* Below 1: multiplied by 1000 until it is at least 1; returns the prefix for that. */
static const char *scale_up(double *v)
{
	const char *prefix = "";
	for (size_t i = 0; i < ARRAY_LEN(small) && fabs(*v) < 1; i++) {
		prefix = small[i];
		*v *= 1000;
	}
	return prefix;
}

static const char *scale_down(double *v, double by, const char *const prefixes[8])
{
	const char *prefix = "";
	for (size_t i = 0; i < 8 && fabs(*v) >= by; i++) {
		prefix = prefixes[i];
		*v /= by;
	}
	return prefix;
}

FUNC(f_humanize)
{
	static const char *const large[8] = { "k", "M", "G", "T", "P", "E", "Z", "Y" };
	const char *prefix = "";
	double v;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	if (rc)
		return rc;
	if (v != 0 && isfinite(v))
		prefix = fabs(v) >= 1 ? scale_down(&v, 1000, large) : scale_up(&v);
	return four_digits(x, v, prefix, ret, e);
}

FUNC(f_humanize1024)
{
	static const char *const large[8] = { "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi" };
	const char *prefix = "";
	double v;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	if (rc)
		return rc;
	if (fabs(v) > 1 && isfinite(v))
		prefix = scale_down(&v, 1024, large);
	return four_digits(x, v, prefix, ret, e);
}

static int long_duration(struct texec *x, double v, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	int64_t s = go_int_of(fabs(v)), days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;
	if (v < 0)
		buf_putc(&b, '-');
	if (days)
		buf_printf(&b, "%lldd ", (long long)days);
	if (days || hours)
		buf_printf(&b, "%lldh ", (long long)hours);
	if (days || hours || minutes)
		buf_printf(&b, "%lldm %llds", (long long)minutes, (long long)(s % 60));
	else {
		go_format_float(&(struct gofmt){ 0 }, fabs(v), 'g', 4, &b);
		buf_putc(&b, 's');
	}
	return texec_take(x, &b, ret, e);
}

FUNC(f_humanize_duration)
{
	double v;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	if (rc)
		return rc;
	if (!isfinite(v))
		return four_digits(x, v, "", ret, e);
	if (fabs(v) >= 1)
		return long_duration(x, v, ret, e);
	char unit[4];
	snprintf(unit, sizeof unit, "%ss", v == 0 ? "" : scale_up(&v));
	return four_digits(x, v, unit, ret, e);
}

FUNC(f_humanize_percentage)
{
	double v;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	return rc ? rc : four_digits(x, v * 100, "%", ret, e);
}

/* ---- times ---- */

static int float_to_time(double v, struct ttime *ret, struct err *e)
{
	if (!isfinite(v))
		return err_set(e, ERR_EXECUTION, "value is NaN or Inf");
	if (v * 1e9 > 0x1p63 || v * 1e9 < -0x1p63) {
		struct buf b = { .max = 64 };
		go_format_float(&(struct gofmt){ 0 }, v, 'g', -1, &b);
		err_set(e, ERR_EXECUTION, "%.*s cannot be represented as a nanoseconds timestamp since it overflows int64", VIEW_ARG(buf_view(&b)));
		buf_free(&b);
		return -ERR_EXECUTION;
	}
	*ret = ttime_of_ms(go_int_of(v * 1e9) / 1000000);
	return 0;
}

FUNC(f_humanize_timestamp)
{
	double v;
	struct ttime t;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	if (!rc && !isfinite(v))
		return four_digits(x, v, "", ret, e);
	if (!rc)
		rc = float_to_time(v, &t, e);
	if (rc)
		return rc;
	struct buf b = texec_buf(x);
	ttime_format(t, TTIME_STRING, &b);
	return texec_take(x, &b, ret, e);
}

FUNC(f_to_time)
{
	double v;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	struct ttime *t = rc ? NULL : texec_alloc(x, sizeof *t, e);
	if (!t)
		return -(int)e->code;
	*ret = (struct tvalue){ .type = TTYPE_TIME_AT, .time_at = t };
	return float_to_time(v, t, e);
}

FUNC(f_to_duration)
{
	double v;
	int rc = to_float(&a[0], &v, e);
	(void)n;
	int64_t *d = rc ? NULL : texec_alloc(x, sizeof *d, e);
	if (!d)
		return -(int)e->code;
	*d = go_int_of(v * 1e9);
	*ret = (struct tvalue){ .type = TTYPE_DURATION_AT, .duration_at = d };
	return 0;
}

FUNC(f_now)
{
	(void)a, (void)n, (void)e;
	*ret = TFLOAT((double)texec_env(x)->t_ms / 1000.0);
	return 0;
}

/* The unit at the front, up to a digit. 0: *ret_ns is not set, the name is unknown. */
static size_t unit_of(struct view v, uint64_t *ret_ns, int *ret_place)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ms", 1000000 }, { "s", 1000000000 }, { "m", 60000000000 }, { "h", 3600000000000 }, { "d", 86400000000000 },
		      { "w", 604800000000000 }, { "y", 31536000000000000 } };
	size_t len = 0;
	while (len < v.len && !(v.ptr[len] >= '0' && v.ptr[len] <= '9'))
		len++;
	*ret_ns = 0;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (view_eqs(view_make(v.ptr, len), units[i].name)) {
			*ret_ns = units[i].ns;
			*ret_place = (int)(ARRAY_LEN(units) - i); /* the largest first */
		}
	return len;
}

static int not_a_duration(struct view v, struct view unit, struct err *e)
{
	struct buf b = { .max = 1100 }, u = { .max = 1100 };
	go_quote(v, '"', false, &b);
	go_quote(unit, '"', false, &u);
	if (unit.len)
		err_set(e, ERR_EXECUTION, "unknown unit %.*s in duration %.*s", VIEW_ARG(buf_view(&u)), VIEW_ARG(buf_view(&b)));
	else
		err_set(e, ERR_EXECUTION, "not a valid duration string: %.*s", VIEW_ARG(buf_view(&b)));
	buf_free(&b);
	buf_free(&u);
	return -ERR_EXECUTION;
}

static int parse_duration(struct view orig, int64_t *ret_ns, struct err *e)
{
	struct view v = orig;
	uint64_t sum = 0, number, unit;
	int last = 0, place = 0;
	if (!v.len)
		return err_set(e, ERR_EXECUTION, "empty duration string");
	if (view_eqs(v, "0"))
		v.len = 0;
	while (v.len) {
		size_t i = 0;
		while (i < v.len && v.ptr[i] >= '0' && v.ptr[i] <= '9')
			i++;
		bool digits = num_parse_u64(view_make(v.ptr, i), &number);
		v = view_make(v.ptr + i, v.len - i);
		size_t len = unit_of(v, &unit, &place);
		if (!digits || !len)
			return not_a_duration(orig, VIEW(""), e);
		if (!unit)
			return not_a_duration(orig, view_make(v.ptr, len), e);
		if (place <= last)
			return not_a_duration(orig, VIEW(""), e);
		last = place;
		if (number > (UINT64_C(1) << 63) / unit || (sum += number * unit) > INT64_MAX)
			return err_set(e, ERR_EXECUTION, "duration out of range");
		v = view_make(v.ptr + len, v.len - len);
	}
	*ret_ns = (int64_t)sum;
	return 0;
}

FUNC(f_parse_duration)
{
	struct view v = a[0].s;
	bool neg = v.len && *v.ptr == '-';
	int64_t ns = 0;
	int rc = parse_duration(view_make(v.ptr + neg, v.len - neg), &ns, e);
	(void)x, (void)n;
	*ret = TFLOAT((double)(neg ? -ns : ns) / 1e9);
	return rc;
}

/* ---- texts ---- */

static int mapped(struct texec *x, const struct tvalue *a, void (*map)(struct view v, struct buf *out), struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	map(a[0].s, &b);
	return texec_take(x, &b, ret, e);
}

FUNC(f_title)
{
	(void)n;
	return mapped(x, a, ttext_title, ret, e);
}

FUNC(f_to_upper)
{
	(void)n;
	return mapped(x, a, ttext_upper, ret, e);
}

FUNC(f_to_lower)
{
	(void)n;
	return mapped(x, a, ttext_lower, ret, e);
}

FUNC(f_query_escape)
{
	(void)n;
	return mapped(x, a, ttext_query, ret, e);
}

FUNC(f_safe_html)
{
	(void)x, (void)n, (void)e;
	*ret = (struct tvalue){ .type = TTYPE_HTML, .s = a[0].s };
	return 0;
}

FUNC(f_match)
{
	struct regex *re;
	int rc = texec_regex(x, a[0].s, &re, e);
	(void)n;
	if (!rc)
		rc = texec_charge(x, a[1].s.len / 8 + 20, e);
	if (!rc)
		rc = regex_match(re, a[1].s, texec_meter(x), e);
	*ret = TBOOL(rc > 0);
	return MIN(rc, 0);
}

FUNC(f_replace_all)
{
	struct regex *re;
	struct buf b = texec_buf(x), q = { .max = 300 };
	int rc = texec_regex(x, a[0].s, &re, e);
	(void)n;
	if (rc) {
		if (go_can_backquote(a[0].s))
			buf_printf(&q, "`%.*s`", VIEW_ARG(a[0].s));
		else
			go_quote(a[0].s, '"', false, &q);
		err_wrap(e, "regexp: Compile(%.*s)", VIEW_ARG(buf_view(&q)));
		buf_free(&q);
		return rc;
	}
	rc = texec_charge(x, a[2].s.len / 8 + 20, e);
	if (!rc)
		rc = regex_replace_all(re, a[2].s, a[1].s, &b, texec_meter(x), e);
	if (rc < 0) {
		buf_free(&b);
		return rc;
	}
	return texec_take(x, &b, ret, e);
}

FUNC(f_strip_port)
{
	struct view host, port;
	(void)x, (void)n, (void)e;
	*ret = TSTRING(ttext_split_port(a[0].s, &host, &port) ? host : a[0].s);
	return 0;
}

FUNC(f_strip_domain)
{
	struct view host = a[0].s, port = { "", 0 };
	(void)n;
	if (!ttext_split_port(a[0].s, &host, &port)) {
		host = a[0].s;
		port = (struct view){ "", 0 };
	}
	*ret = a[0];
	if (ttext_is_ip(host))
		return 0;
	const char *dot = host.len ? memchr(host.ptr, '.', host.len) : NULL;
	host.len = dot ? (size_t)(dot - host.ptr) : host.len;
	*ret = TSTRING(host);
	if (!port.len)
		return 0;
	struct buf b = texec_buf(x);
	bool colon = host.len && memchr(host.ptr, ':', host.len);
	buf_printf(&b, colon ? "[%.*s]:%.*s" : "%.*s:%.*s", VIEW_ARG(host), VIEW_ARG(port));
	return texec_take(x, &b, ret, e);
}

/* ---- links ---- */

/* As Prometheus's, and the evaluation's time. */
static int link_to(struct texec *x, struct view expr, const char *tab, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	buf_puts(&b, "/graph?g0.expr=");
	ttext_query(expr, &b);
	buf_printf(&b, "&g0.tab=%s", tab);
	template_put_time(texec_env(x)->t_ms - texec_env(x)->offset_ms, &b);
	return texec_take(x, &b, ret, e);
}

FUNC(f_graph_link)
{
	(void)n;
	return link_to(x, a[0].s, "0", ret, e);
}

FUNC(f_table_link)
{
	(void)n;
	return link_to(x, a[0].s, "1", ret, e);
}

FUNC(f_external_url)
{
	(void)a, (void)n, (void)e;
	*ret = TSTRING(texec_env(x)->external_url);
	return 0;
}

FUNC(f_path_prefix)
{
	struct view url = texec_env(x)->external_url;
	const char *host = url.len ? memmem(url.ptr, url.len, "://", 3) : NULL;
	size_t at = host ? (size_t)(host - url.ptr) + 3 : 0;
	(void)a, (void)n, (void)e;
	while (at < url.len && url.ptr[at] != '/')
		at++;
	*ret = TSTRING(view_make(url.ptr + at, url.len - at));
	return 0;
}

FUNC(f_tmpl)
{
	struct buf b = texec_buf(x);
	(void)n;
	int rc = texec_template(x, a[0].s, &a[1], &b, e);
	if (rc) {
		buf_free(&b);
		return rc;
	}
	rc = texec_take(x, &b, ret, e);
	ret->type = TTYPE_HTML;
	return rc;
}

const struct tfunc tfuncs_prometheus[] = {
	{ "args", { TPARAM_ANY }, true, f_args },
	{ "externalURL", { 0 }, false, f_external_url },
	{ "first", { TPARAM_VECTOR }, false, f_first },
	{ "graphLink", { TPARAM_STRING }, false, f_graph_link },
	{ "humanize", { TPARAM_ANY }, false, f_humanize },
	{ "humanize1024", { TPARAM_ANY }, false, f_humanize1024 },
	{ "humanizeDuration", { TPARAM_ANY }, false, f_humanize_duration },
	{ "humanizePercentage", { TPARAM_ANY }, false, f_humanize_percentage },
	{ "humanizeTimestamp", { TPARAM_ANY }, false, f_humanize_timestamp },
	{ "label", { TPARAM_STRING, TPARAM_SAMPLE }, false, f_label },
	{ "match", { TPARAM_STRING, TPARAM_STRING }, false, f_match },
	{ "now", { 0 }, false, f_now },
	{ "parseDuration", { TPARAM_STRING }, false, f_parse_duration },
	{ "pathPrefix", { 0 }, false, f_path_prefix },
	{ "query", { TPARAM_STRING }, false, f_query },
	{ "reReplaceAll", { TPARAM_STRING, TPARAM_STRING, TPARAM_STRING }, false, f_replace_all },
	{ "safeHtml", { TPARAM_STRING }, false, f_safe_html },
	{ "sortByLabel", { TPARAM_STRING, TPARAM_VECTOR }, false, f_sort_by_label },
	{ "stripDomain", { TPARAM_STRING }, false, f_strip_domain },
	{ "stripPort", { TPARAM_STRING }, false, f_strip_port },
	{ "strvalue", { TPARAM_SAMPLE }, false, f_strvalue },
	{ "tableLink", { TPARAM_STRING }, false, f_table_link },
	{ "title", { TPARAM_STRING }, false, f_title },
	{ "tmpl", { TPARAM_STRING, TPARAM_ANY }, false, f_tmpl },
	{ "toDuration", { TPARAM_ANY }, false, f_to_duration },
	{ "toLower", { TPARAM_STRING }, false, f_to_lower },
	{ "toTime", { TPARAM_ANY }, false, f_to_time },
	{ "toUpper", { TPARAM_STRING }, false, f_to_upper },
	{ "urlQueryEscape", { TPARAM_STRING }, false, f_query_escape },
	{ "value", { TPARAM_SAMPLE }, false, f_value },
	{ 0 },
};
