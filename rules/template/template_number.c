/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_number.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/utf8.h"
#include "rules/template/template_node.h"
#include "rules/template/template_quote.h"

#define MAX_DIGITS 1000 /* of a number, as written */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_digit(char c, bool hex)
{
	return (c >= '0' && c <= '9') || (hex && lower(c) >= 'a' && lower(c) <= 'f');
}

/* Each "_" must be between digits, or between a prefix and a digit. */
static bool underscores_ok(struct view v)
{
	char saw = '^';
	size_t i = v.len && (*v.ptr == '-' || *v.ptr == '+');
	bool hex = false;
	if (v.len >= i + 2 && v.ptr[i] == '0' && strchr("box", lower(v.ptr[i + 1])) && v.ptr[i + 1]) {
		hex = lower(v.ptr[i + 1]) == 'x';
		saw = '0';
		i += 2;
	}
	for (; i < v.len; i++) {
		if (is_digit(v.ptr[i], hex))
			saw = '0';
		else if (v.ptr[i] == '_' ? saw != '0' : saw == '_')
			return false;
		else
			saw = v.ptr[i] == '_' ? '_' : '!';
	}
	return saw != '_';
}

/* Without "_", with a NUL; false: too long. */
static bool plain(struct view v, char out[MAX_DIGITS + 1])
{
	size_t n = 0;
	if (v.len > MAX_DIGITS || !underscores_ok(v))
		return false;
	for (size_t i = 0; i < v.len; i++)
		if (v.ptr[i] != '_')
			out[n++] = v.ptr[i];
	out[n] = 0;
	return true;
}

/* [sign] digits [. digits] [exponent]; hexadecimal ones have an exponent. */
static bool is_float(const char *s)
{
	bool any = false, dot = false;
	s += *s == '+' || *s == '-';
	bool hex = s[0] == '0' && lower(s[1]) == 'x' && s[2];
	s += hex ? 2 : 0;
	for (; is_digit(*s, hex) || (*s == '.' && !dot); s++) {
		any |= *s != '.';
		dot |= *s == '.';
	}
	if (!any)
		return false;
	if (lower(*s) != (hex ? 'p' : 'e'))
		return !*s && !hex;
	s++;
	s += *s == '+' || *s == '-';
	if (!*s)
		return false;
	while (is_digit(*s, false))
		s++;
	return !*s;
}

static bool special(struct view v, double *ret)
{
	size_t sign = v.len && (*v.ptr == '+' || *v.ptr == '-');
	struct view word = view_make(v.ptr + sign, v.len - sign);
	bool inf = view_eq_nocase(word, VIEW("inf")) || view_eq_nocase(word, VIEW("infinity"));
	if (!inf && (sign || !view_eq_nocase(v, VIEW("nan"))))
		return false;
	*ret = !inf ? NAN : *v.ptr == '-' ? -INFINITY : INFINITY;
	return true;
}

bool go_parse_float(struct view v, double *ret, bool *ret_range)
{
	char text[MAX_DIGITS + 1];
	*ret_range = false;
	if (special(v, ret))
		return true;
	if (!v.len || !plain(v, text) || !is_float(text))
		return false;
	*ret = strtod(text, NULL);
	*ret_range = isinf(*ret);
	return !*ret_range;
}

static bool parse_magnitude(struct view v, uint64_t *ret)
{
	char text[MAX_DIGITS + 1], *s = text;
	unsigned base = 10;
	if (!v.len || !plain(v, text))
		return false;
	if (*s == '0' && s[1]) {
		char kind = lower(s[1]);
		base = kind == 'x' ? 16 : kind == 'b' ? 2 : 8;
		s += kind == 'x' || kind == 'b' || kind == 'o' ? 2 : 1;
	}
	if (!*s)
		return false;
	uint64_t n = 0;
	for (; *s; s++) {
		if (!is_digit(*s, true))
			return false;
		unsigned d = *s <= '9' ? (unsigned)(*s - '0') : (unsigned)(lower(*s) - 'a' + 10);
		if (d >= base || __builtin_mul_overflow(n, base, &n) || __builtin_add_overflow(n, d, &n))
			return false;
	}
	*ret = n;
	return true;
}

/* strconv.ParseInt and ParseUint with base 0: 0x, 0o, 0b, 0, and "_" between digits. */
static bool parse_uint(struct view v, uint64_t *ret)
{
	return parse_magnitude(v, ret);
}

static bool parse_int(struct view v, int64_t *ret)
{
	bool neg = v.len && *v.ptr == '-', sign = neg || (v.len && *v.ptr == '+');
	uint64_t n;
	if (!parse_magnitude(view_make(v.ptr + sign, v.len - sign), &n) || n > (uint64_t)INT64_MAX + neg)
		return false;
	*ret = neg ? (int64_t)(0 - n) : (int64_t)n;
	return true;
}

int64_t go_int_of(double v)
{
	return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

/* ---- literals of templates ---- */

bool tliteral_string(struct arena *a, struct view quoted, struct view *ret)
{
	struct view in = view_make(quoted.ptr + 1, quoted.len - 2);
	char *out = arena_alloc(a, 3 * in.len + 1); /* a byte that is no UTF-8 becomes U+FFFD */
	size_t n = 0;
	if (!out)
		return false;
	for (size_t i = 0; i < in.len;) {
		uint32_t r;
		bool byte;
		size_t used = 1;
		if (*quoted.ptr == '`') {
			if (in.ptr[i] != '\r')
				out[n++] = in.ptr[i];
		} else {
			used = go_unquote_char(view_make(in.ptr + i, in.len - i), '"', &r, &byte);
			if (!used)
				return false;
			if (byte)
				out[n++] = (char)r;
			else
				n += utf8_encode(r, out + n);
		}
		i += used;
	}
	*ret = view_make(out, n);
	return true;
}

static bool literal_char(struct view text, struct tnode_number *ret, const char **ret_why)
{
	uint32_t r;
	bool byte;
	size_t n = go_unquote_char(view_make(text.ptr + 1, text.len - 1), '\'', &r, &byte);
	if (!n || n + 2 != text.len) {
		*ret_why = n ? "malformed character constant: " : "invalid syntax";
		return false;
	}
	*ret = (struct tnode_number){ .is_int = true, .is_uint = true, .is_float = true, .i = r, .u = r, .f = r };
	return true;
}

static bool has_any(struct view v, const char *chars)
{
	for (size_t i = 0; i < v.len; i++)
		if (strchr(chars, v.ptr[i]))
			return true;
	return false;
}

bool tliteral_number(struct view text, struct tnode_number *ret, const char **ret_why)
{
	struct tnode_number n = { 0 };
	bool range;
	if (*text.ptr == '\'')
		return literal_char(text, ret, ret_why);
	*ret_why = "complex numbers are not supported: ";
	if (text.ptr[text.len - 1] == 'i')
		return false;
	n.is_uint = parse_uint(text, &n.u);
	n.is_int = parse_int(text, &n.i);
	n.is_uint |= n.is_int && n.i == 0;
	if (n.is_int || n.is_uint) {
		n.is_float = true;
		n.f = n.is_int ? (double)n.i : (double)n.u;
	} else if (go_parse_float(text, &n.f, &range)) {
		*ret_why = "integer overflow: ";
		if (!has_any(text, ".eEpP"))
			return false;
		n.is_float = true;
		n.i = go_int_of(n.f);
		n.is_int = (double)n.i == n.f;
	}
	*ret_why = "illegal number syntax: ";
	*ret = n;
	return n.is_float;
}
