/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"

static bool comma_due(const struct buf *b)
{
	char c = b->len ? b->ptr[b->len - 1] : ',';
	return c != ',' && c != '{' && c != '[' && c != ':' && c != '\n' && c != ' ';
}

void json_comma(struct buf *b)
{
	if (comma_due(b))
		buf_putc(b, ',');
}

/* ---- objects and arrays ---- */

void json_object_begin(struct buf *b)
{
	json_comma(b);
	buf_putc(b, '{');
}

void json_object_begin_at(struct buf *b, const char *key)
{
	json_key(b, key);
	buf_putc(b, '{');
}

void json_object_end(struct buf *b)
{
	buf_putc(b, '}');
}

void json_array_begin(struct buf *b)
{
	json_comma(b);
	buf_putc(b, '[');
}

void json_array_begin_at(struct buf *b, const char *key)
{
	json_key(b, key);
	buf_putc(b, '[');
}

void json_array_end(struct buf *b)
{
	buf_putc(b, ']');
}

void json_line(struct buf *b, unsigned blanks)
{
	json_comma(b);
	buf_putc(b, '\n');
	while (blanks--)
		buf_putc(b, ' ');
}

/* ---- keys and values ---- */

void json_key(struct buf *b, const char *key)
{
	size_t n = strlen(key);
	bool comma = comma_due(b);
	if (!buf_reserve(b, n + 4))
		return;
	char *p = b->ptr + b->len;
	if (comma)
		*p++ = ',';
	*p++ = '"';
	memcpy(p, key, n);
	p += n;
	*p++ = '"';
	*p++ = ':';
	*p = 0;
	b->len = (size_t)(p - b->ptr);
}

void json_key_view(struct buf *b, struct view key)
{
	json_text(b, key);
	buf_putc(b, ':');
}

void json_text(struct buf *b, struct view v)
{
	json_comma(b);
	buf_json_string(b, v);
}

void json_int(struct buf *b, int64_t v)
{
	json_comma(b);
	buf_int(b, v);
}

void json_count(struct buf *b, uint64_t v)
{
	json_comma(b);
	if (v <= INT64_MAX)
		buf_int(b, (int64_t)v);
	else
		buf_printf(b, "%llu", (unsigned long long)v);
}

void json_bool(struct buf *b, bool v)
{
	json_comma(b);
	buf_puts(b, v ? "true" : "false");
}

void json_null_value(struct buf *b)
{
	json_comma(b);
	buf_puts(b, "null");
}

void json_raw(struct buf *b, struct view v)
{
	json_comma(b);
	buf_putv(b, v);
}

void json_decimals(struct buf *b, double v, int digits)
{
	json_comma(b);
	buf_printf(b, "%.*f", digits, v);
}

/* ---- members ---- */

void json_field(struct buf *b, const char *key, struct view v)
{
	json_key(b, key);
	buf_json_string(b, v);
}

void json_field_text(struct buf *b, const char *key, const char *v)
{
	json_field(b, key, view_of(v));
}

void json_field_int(struct buf *b, const char *key, int64_t v)
{
	json_key(b, key);
	buf_int(b, v);
}

void json_field_count(struct buf *b, const char *key, uint64_t v)
{
	json_key(b, key);
	json_count(b, v);
}

void json_field_bool(struct buf *b, const char *key, bool v)
{
	json_key(b, key);
	json_bool(b, v);
}

void json_field_float(struct buf *b, const char *key, double v)
{
	json_key(b, key);
	json_float(b, v);
}

void json_field_raw(struct buf *b, const char *key, struct view v)
{
	json_key(b, key);
	buf_putv(b, v);
}

/* ---- numbers ---- */

/* Texts of numbers are written to p, where there is room for JSON_NUMBER bytes; returned is their end. What is behind it may be written, too. */
#define JSON_NUMBER 64

/* Room for digits: copies of DIGITS of them, from any of NUM_LEN on, without a look at how many there are. */
#define DIGITS 24
#define DIGITS_ROOM (NUM_LEN + DIGITS)

static char *put_text(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

/* Digits d1d2d3... (at most DIGITS) and exponent e (-6 to 20) of d1.d2d3... * 10^e, laid out without an exponent. */
static char *put_fixed(char *p, const char digits[DIGITS_ROOM], int n, int exponent)
{
	if (exponent < 0) {
		p = put_text(p, "0.000000", 8) - 7 - exponent;
		memcpy(p, digits, DIGITS);
		return p + n;
	}
	memcpy(p, digits, DIGITS);
	int whole = exponent + 1;
	if (n > whole) {
		p[whole] = '.';
		memcpy(p + whole + 1, digits + whole, DIGITS);
		return p + n + 1;
	}
	if (n < whole)
		memset(p + n, '0', (size_t)(whole - n));
	return p + whole;
}

/* The shortest digits of |v|, which is neither 0 nor infinite, that read back as it: d1.d2d3... * 10^exponent. Returns how many. */
static int shortest_digits(double v, char digits[DIGITS_ROOM], int *ret_exponent)
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
	char digits[DIGITS_ROOM];
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
	char text[JSON_NUMBER + 3], *p = text;
	if (comma_due(b))
		*p++ = ',';
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
	json_comma(b);
	buf_put(b, text, (size_t)(put_time(text, t_ms) - text));
}

void json_point(struct buf *b, int64_t t_ms, double v)
{
	bool comma = comma_due(b);
	if (!buf_reserve(b, 2 * JSON_NUMBER + 8))
		return;
	char *p = b->ptr + b->len;
	if (comma)
		*p++ = ',';
	*p++ = '[';
	p = put_time(p, t_ms);
	p = put_text(p, ",\"", 2);
	p = put_float(p, v, 1e21);
	p = put_text(p, "\"]", 2);
	*p = 0;
	b->len = (size_t)(p - b->ptr);
}

void json_exponent(struct buf *b, double v)
{
	char text[JSON_NUMBER + 2], digits[DIGITS_ROOM], *p = text;
	int exponent = 0, n = 1;
	json_comma(b);
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
