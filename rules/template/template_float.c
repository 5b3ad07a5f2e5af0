/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as Go's packages strconv and fmt write them, with fmt's flags. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "rules/template/template_fmt.h"
#include "rules/template/template_unicode.h"

#define SHORTEST_LEN 40
#define NUMBER_LEN 420 /* room for any number without a precision */

void go_pad_zeros(const struct gofmt *f, int n, struct buf *out)
{
	if (n <= 0 || !buf_reserve(out, (size_t)n))
		return;
	char with = f->zero && !f->minus ? '0' : ' ';
	for (int i = 0; i < n; i++)
		buf_putc(out, with);
}

void go_pad(const struct gofmt *f, struct view text, struct buf *out)
{
	int width = f->has_width && f->width ? f->width - (int)MIN(rune_count(text), (size_t)INT32_MAX / 2) : 0;
	if (!f->minus)
		go_pad_zeros(f, width, out);
	buf_putv(out, text);
	if (f->minus)
		go_pad_zeros(f, width, out);
}

/* d.ddde-xx one more in its last digit. False: all are 9. */
static bool next_up(char *text)
{
	for (char *c = strchr(text, 'e') - 1; c >= text; c--) {
		if (*c == '.')
			continue;
		if (*c != '9') {
			++*c;
			return true;
		}
		*c = '0';
	}
	return false;
}

/* Its shortest digits d1d2d3... with v = 0.d1d2d3... * 10^*ret_point; returns how many. v is finite and not negative. */
static int shortest(double v, char digits[SHORTEST_LEN], int *ret_point)
{
	char text[SHORTEST_LEN];
	int n = 0, binary;
	int64_t exponent = 0;
	bool power = frexp(v, &binary) == 0.5;
	if (v == 0) {
		*ret_point = 0;
		return 0;
	}
	for (int p = v < 2.3e-308 ? 0 : 14; p <= 16; p++) {
		snprintf(text, sizeof text, "%.*e", p, v);
		if (strtod(text, NULL) == v)
			break;
		/* below a power of two doubles lie closer: what is nearest may be another, and the next not */
		if (power && next_up(text) && strtod(text, NULL) == v)
			break;
	}
	for (const char *c = text; *c && *c != 'e'; c++)
		if (*c != '.')
			digits[n++] = *c;
	num_parse_i64(view_of(strchr(text, 'e') + 1), &exponent);
	while (n && digits[n - 1] == '0')
		n--;
	*ret_point = (int)exponent + 1;
	return n;
}

/* d.ddde+xx of the digits, all of them. */
static size_t put_e(char *out, const char *digits, int n, int point, char e)
{
	size_t len = 0;
	out[len++] = n ? digits[0] : '0';
	if (n > 1) {
		out[len++] = '.';
		memcpy(out + len, digits + 1, (size_t)n - 1);
		len += (size_t)n - 1;
	}
	return len + (size_t)snprintf(out + len, NUMBER_LEN - len, "%c%+03d", e, n ? point - 1 : 0);
}

static size_t put_f(char *out, const char *digits, int n, int point)
{
	size_t len = 0;
	if (point <= 0)
		out[len++] = '0';
	for (int i = 0; i < point; i++)
		out[len++] = i < n ? digits[i] : '0';
	if (n > point)
		out[len++] = '.';
	for (int i = point; i < n; i++)
		out[len++] = i < 0 ? '0' : digits[i];
	return len;
}

/* Unsigned, into out of 400 bytes. */
static size_t put_shortest(char *out, double v, char verb)
{
	char digits[SHORTEST_LEN];
	int point, n = shortest(v, digits, &point);
	bool e = verb == 'e' || verb == 'E' || (verb != 'f' && n && (point - 1 < -4 || point - 1 >= 6)); /* g: as %g of C does by its 6 */
	return e ? put_e(out, digits, n, point, verb == 'E' || verb == 'G' ? 'E' : 'e') : put_f(out, digits, n, point);
}

/* 0x1.8p+01: as many digits as needed, or rounded to this many. */
static size_t put_hex(char *out, double v, bool upper, int precision)
{
	const char *hex = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	int exp = 0;
	uint64_t mant = 0, one = UINT64_C(1) << 60;
	size_t len = 0;
	if (v != 0) {
		mant = (uint64_t)ldexp(frexp(v, &exp), 61); /* at bit 60 */
		exp--;
	}
	if (precision >= 0 && precision < 15) {
		unsigned shift = (unsigned)precision * 4;
		uint64_t extra = (mant << shift) & (one - 1);
		mant >>= 60 - shift;
		if ((extra | (mant & 1)) > UINT64_C(1) << 59)
			mant++;
		mant <<= 60 - shift;
		if (mant & (one << 1)) {
			mant >>= 1;
			exp++;
		}
	}
	out[len++] = '0';
	out[len++] = upper ? 'X' : 'x';
	out[len++] = mant >> 60 & 1 ? '1' : '0';
	mant <<= 4;
	if ((precision < 0 && mant) || precision > 0)
		out[len++] = '.';
	for (int i = 0; precision < 0 ? mant != 0 : i < precision; i++, mant <<= 4)
		out[len++] = hex[mant >> 60 & 15];
	return len + (size_t)snprintf(out + len, 8, "%c%+03d", upper ? 'P' : 'p', exp);
}

static size_t put_binary(char *out, double v)
{
	uint64_t bits;
	memcpy(&bits, &v, sizeof bits);
	uint64_t mant = bits & ((UINT64_C(1) << 52) - 1);
	int exp = (int)(bits >> 52 & 0x7ff);
	return (size_t)snprintf(out, NUMBER_LEN, "%llup%+d", (unsigned long long)(exp ? mant | UINT64_C(1) << 52 : mant), (exp ? exp : 1) - 1075);
}

/* Without sign, malloced; NULL: out of memory. */
static char *unsigned_text(double v, char verb, int precision, size_t *ret_len)
{
	char format[] = "%.*e";
	size_t cap = (size_t)MAX(precision, 0) + NUMBER_LEN;
	char *out = malloc(cap);
	if (!out)
		return NULL;
	if (isinf(v) || isnan(v)) {
		memcpy(out, isinf(v) ? "Inf" : "NaN", 3);
		*ret_len = 3;
	} else if (verb == 'b') {
		*ret_len = put_binary(out, v);
	} else if (verb == 'x' || verb == 'X') {
		*ret_len = put_hex(out, v, verb == 'X', precision);
	} else if (precision < 0) {
		*ret_len = put_shortest(out, v, verb);
	} else {
		format[3] = verb;
		*ret_len = (size_t)snprintf(out, cap, format, precision, v);
	}
	return out;
}

/* The decimal point and the zeros that # keeps: num without sign. */
static void put_sharp(struct view num, char verb, int precision, struct buf *out)
{
	bool hex = verb == 'x' || verb == 'X', point = false, nonzero = false;
	int digits = verb == 'g' || verb == 'G' || verb == 'x' ? (precision < 0 ? 6 : precision) : 0;
	size_t end = num.len;
	for (size_t i = 0; i < num.len && i < end; i++) {
		char c = num.ptr[i];
		if (c == '.') {
			point = true;
		} else if (c == 'p' || c == 'P' || ((c == 'e' || c == 'E') && !hex)) {
			end = i;
		} else {
			nonzero |= c != '0';
			digits -= nonzero;
		}
	}
	buf_put(out, num.ptr, end);
	if (!point) {
		digits -= end == 1 && *num.ptr == '0';
		buf_putc(out, '.');
	}
	for (; digits > 0 && !out->overflow; digits--)
		buf_putc(out, '0');
	buf_put(out, num.ptr + end, num.len - end);
}

void go_format_float(const struct gofmt *f, double v, char verb, int precision, struct buf *out)
{
	struct gofmt plain = *f;
	struct buf b = { .max = out->max };
	size_t len;
	if (f->has_precision)
		precision = f->precision;
	char sign = signbit(v) && !isnan(v) ? '-' : f->space && !f->plus ? ' ' : '+';
	char *text = unsigned_text(fabs(v), verb, precision, &len);
	if (!text) {
		out->overflow = true;
		return;
	}
	bool number = !isinf(v) && !isnan(v);
	bool signed_ = sign != '+' || f->plus || isinf(v);
	if (isnan(v))
		signed_ = f->space || f->plus;
	if (signed_)
		buf_putc(&b, sign);
	if (number && f->sharp && verb != 'b')
		put_sharp(view_make(text, len), verb, precision, &b);
	else
		buf_put(&b, text, len);
	plain.zero &= number;
	if (signed_ && plain.zero && !f->minus && f->has_width && (size_t)f->width > b.len) {
		buf_putc(out, sign);
		go_pad_zeros(&plain, f->width - (int)b.len, out);
		buf_put(out, b.ptr + 1, b.len - 1);
	} else {
		go_pad(&plain, buf_view(&b), out);
	}
	out->overflow |= b.overflow;
	buf_free(&b);
	free(text);
}

/* ---- integers ---- */

static void zeros(int n, struct buf *out)
{
	for (; n > 0 && !out->overflow; n--)
		buf_putc(out, '0');
}

void go_format_integer(const struct gofmt *f, uint64_t u, unsigned base, bool is_signed, char verb, bool upper, struct buf *out)
{
	bool negative = is_signed && (int64_t)u < 0;
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	struct gofmt blanks = *f;
	struct buf b = { .max = out->max };
	char text[64];
	int n = 64, precision = f->has_precision ? f->precision : 0;
	blanks.zero = false;
	if (negative)
		u = 0 - u;
	if (f->has_precision && !precision && !u) {
		go_pad_zeros(&blanks, f->has_width ? f->width : 0, out);
		return;
	}
	if (!f->has_precision && f->zero && !f->minus && f->has_width)
		precision = f->width - (negative || f->plus || f->space);
	do
		text[--n] = digits[u % base];
	while (u /= base);
	if (negative || f->plus || f->space)
		buf_putc(&b, negative ? '-' : f->plus ? '+' : ' ');
	if (verb == 'O')
		buf_puts(&b, "0o");
	if (f->sharp && base == 2)
		buf_puts(&b, "0b");
	else if (f->sharp && base == 16)
		buf_puts(&b, upper ? "0X" : "0x");
	else if (f->sharp && base == 8 && (precision > 64 - n ? false : text[n] != '0'))
		buf_putc(&b, '0');
	zeros(precision - (64 - n), &b);
	buf_put(&b, text + n, (size_t)(64 - n));
	go_pad(&blanks, buf_view(&b), out);
	out->overflow |= b.overflow;
	buf_free(&b);
}

void go_format_unicode(const struct gofmt *f, uint64_t u, struct buf *out)
{
	struct gofmt blanks = *f;
	struct buf b = { .max = out->max };
	char text[20], shown[4];
	int n = snprintf(text, sizeof text, "%llX", (unsigned long long)u);
	blanks.zero = false;
	buf_puts(&b, "U+");
	zeros((f->has_precision && f->precision > 4 ? f->precision : 4) - n, &b);
	buf_puts(&b, text);
	if (f->sharp && u <= RUNE_MAX && rune_is_print((uint32_t)u)) {
		buf_puts(&b, " '");
		buf_put(&b, shown, utf8_encode((uint32_t)u, shown));
		buf_putc(&b, '\'');
	}
	go_pad(&blanks, buf_view(&b), out);
	out->overflow |= b.overflow;
	buf_free(&b);
}
