/* SPDX-License-Identifier: Apache-2.0 */
#include "web/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"

#define MAX_NOTES 10 /* warnings and infos of one answer, as Prometheus cuts them */

const struct view answer_truncated = { "results truncated due to limit", 30 };

/* ---- the envelope ---- */

void answer_error(struct httpd_request *rq, const struct err *e)
{
	const struct err_info *info = err_info(e->code);
	struct buf *b = httpd_out(rq);
	buf_reset(b);
	httpd_status(rq, info->http);
	httpd_type(rq, "application/json");
	buf_puts(b, "{\"status\":\"error\",\"errorType\":");
	buf_json_string(b, view_of(info->type));
	buf_puts(b, ",\"error\":");
	buf_json_string(b, view_of(e->msg));
	buf_puts(b, "}");
}

struct buf *answer_begin(struct httpd_request *rq)
{
	httpd_type(rq, "application/json");
	struct buf *b = httpd_out(rq);
	buf_puts(b, "{\"status\":\"success\",\"data\":");
	return b;
}

static void put_notes(struct buf *b, const char *key, const struct view *notes, size_t n)
{
	if (!n)
		return;
	buf_printf(b, ",\"%s\":[", key);
	for (size_t i = 0; i < MIN(n, MAX_NOTES); i++) {
		if (i)
			buf_putc(b, ',');
		buf_json_string(b, notes[i]);
	}
	if (n > MAX_NOTES)
		buf_printf(b, ",\"%zu more %s omitted\"", n - MAX_NOTES, key);
	buf_putc(b, ']');
}

void answer_end(struct httpd_request *rq, const struct view *warnings, size_t n_warnings, const struct view *infos,
		size_t n_infos)
{
	struct buf *b = httpd_out(rq);
	put_notes(b, "warnings", warnings, n_warnings);
	put_notes(b, "infos", infos, n_infos);
	buf_putc(b, '}');
}

void answer_columns(struct httpd_request *rq, const char *content_type, const struct buf *columns)
{
	struct buf *b = httpd_out(rq);
	httpd_type(rq, content_type);
	buf_putc(b, '\n');
	buf_putv(b, buf_view(columns));
	b->overflow |= columns->overflow;
}

static void put_key(struct buf *b, const char *key)
{
	if (b->len && b->ptr[b->len - 1] != '{')
		buf_putc(b, ',');
	buf_printf(b, "\"%s\":", key);
}

void json_field(struct buf *b, const char *key, struct view v)
{
	put_key(b, key);
	buf_json_string(b, v);
}

void json_field_count(struct buf *b, const char *key, uint64_t n)
{
	put_key(b, key);
	buf_printf(b, "%llu", (unsigned long long)n);
}

void json_field_text(struct buf *b, const char *key, const char *v)
{
	json_field(b, key, view_of(v));
}

/* ---- values ---- */

/* Texts of numbers are written to p, where there is room for JSON_NUMBER bytes; returned is their end. */
#define JSON_NUMBER 48

static char *put_text(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

/* Digits d1d2d3... and exponent e (-6 to 20) of d1.d2d3... * 10^e, laid out without an exponent. */
static char *put_fixed(char *p, const char *digits, int n, int exponent)
{
	if (exponent < 0) {
		p = put_text(p, "0.000000", (size_t)(1 - exponent));
		return put_text(p, digits, (size_t)n);
	}
	int whole = MIN(n, exponent + 1);
	p = put_text(p, digits, (size_t)whole);
	for (int i = n; i <= exponent; i++)
		*p++ = '0';
	if (n > whole) {
		*p++ = '.';
		p = put_text(p, digits + whole, (size_t)(n - whole));
	}
	return p;
}

/* The shortest digits of |v|, which is neither 0 nor infinite, that read back as it: d1.d2d3... * 10^exponent. Returns how many. */
static int shortest_digits(double v, char digits[NUM_LEN], int *ret_exponent)
{
	char text[40];
	int n = 0;
	if (num_digits(fabs(v), digits, &n, ret_exponent))
		return n;
	/* A subnormal has fewer than 15 digits that mean something. */
	for (int precision = fabs(v) < 2.3e-308 ? 0 : 14; precision <= 16; precision++) {
		snprintf(text, sizeof text, "%.*e", precision, fabs(v));
		if (strtod(text, NULL) == fabs(v))
			break;
	}
	n = 0;
	const char *exp = strchr(text, 'e');
	for (const char *p = text; p < exp; p++)
		if (*p != '.')
			digits[n++] = *p;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	*ret_exponent = (int)strtol(exp + 1, NULL, 10);
	return n;
}

static char *put_scientific(char *p, const char *digits, int n, int exponent)
{
	*p++ = digits[0];
	if (n > 1) {
		*p++ = '.';
		p = put_text(p, digits + 1, (size_t)n - 1);
	}
	return p + snprintf(p, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
}

/* From `large` on with an exponent. */
static char *put_shortest(char *to, double v, double large)
{
	char digits[NUM_LEN];
	int exponent, n = shortest_digits(v, digits, &exponent);
	if (v < 0)
		*to++ = '-';
	return fabs(v) >= 1e-6 && fabs(v) < large ? put_fixed(to, digits, n, exponent) : put_scientific(to, digits, n, exponent);
}

static char *put_float(char *p, double v, double large)
{
	if (isnan(v))
		return put_text(p, "NaN", 3);
	if (isinf(v))
		return put_text(p, v > 0 ? "+Inf" : "-Inf", 4);
	if (v == 0)
		return signbit(v) ? put_text(p, "-0", 2) : put_text(p, "0", 1);
	if (fabs(v) < 1e15 && v == (double)(int64_t)v)
		return num_put_i64(p, (int64_t)v);
	return put_shortest(p, v, large);
}

static char *put_time(char *p, int64_t t_ms)
{
	if (t_ms < 0)
		*p++ = '-';
	uint64_t t = t_ms < 0 ? 0 - (uint64_t)t_ms : (uint64_t)t_ms;
	p = num_put_i64(p, (int64_t)(t / 1000));
	unsigned ms = (unsigned)(t % 1000);
	if (ms)
		p = put_text(p, (char[4]){ '.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10), (char)('0' + ms % 10) }, 4);
	return p;
}

void json_float(struct buf *b, double v)
{
	char text[JSON_NUMBER + 2], *p = text;
	if (!isfinite(v))
		*p++ = '"';
	p = put_float(p, v, 0x1p63);
	if (!isfinite(v))
		*p++ = '"';
	buf_put(b, text, (size_t)(p - text));
}

void json_time(struct buf *b, int64_t t_ms)
{
	char text[JSON_NUMBER];
	buf_put(b, text, (size_t)(put_time(text, t_ms) - text));
}

void json_point(struct buf *b, int64_t t_ms, double v)
{
	char text[2 * JSON_NUMBER + 8], *p = text;
	*p++ = '[';
	p = put_time(p, t_ms);
	p = put_text(p, ",\"", 2);
	p = put_float(p, v, 1e21);
	p = put_text(p, "\"]", 2);
	buf_put(b, text, (size_t)(p - text));
}

void json_exponent(struct buf *b, double v)
{
	char text[JSON_NUMBER + 2], digits[NUM_LEN], *p = text;
	int exponent = 0, n = 1;
	*p++ = '"';
	if (isfinite(v)) {
		digits[0] = '0';
		if (v != 0)
			n = shortest_digits(v, digits, &exponent);
		if (signbit(v))
			*p++ = '-';
		p = put_scientific(p, digits, n, exponent);
	} else {
		p = put_float(p, v, 0x1p63);
	}
	*p++ = '"';
	buf_put(b, text, (size_t)(p - text));
}
