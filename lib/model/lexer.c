/* SPDX-License-Identifier: Apache-2.0 */
/* The scanner: one token per call, no state but its position and which brackets the parser is in. */
#include "model/lexer.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/num.h"
#include "base/units.h"
#include "base/utf8.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static char at(const struct lexer *l, size_t ahead)
{
	return l->pos + ahead < l->src.len ? l->src.ptr[l->pos + ahead] : 0;
}

static void fail(struct lexer *l, struct token *t, const char *what, uint32_t from)
{
	t->kind = TOK_ERROR;
	t->error = what;
	t->start = from;
	size_t left = l->src.len > from ? l->src.len - from : 0;
	uint32_t cp;
	unsigned n = left ? utf8_decode(l->src.ptr + from, left, &cp) : 0;
	memcpy(t->bad, left ? l->src.ptr + from : "", left ? MAX(n, 1) : 0);
	l->pos = (uint32_t)l->src.len;
}

static void skip_blanks(struct lexer *l)
{
	for (;;) {
		while (is_space(at(l, 0)) && l->pos < l->src.len)
			l->pos++;
		if (at(l, 0) != '#')
			return;
		while (l->pos < l->src.len && at(l, 0) != '\n')
			l->pos++;
	}
}

static int digit_value(char c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* Digits with single underscores between them; underscores are left out of the copy. */
static bool copy_digits(const char **p, const char *end, int base, char **out, bool *any)
{
	const char *from = *p;
	while (*p < end && (digit_value(**p) < base || **p == '_')) {
		if (**p == '_') {
			if (*p + 1 == end || digit_value((*p)[1]) >= base)
				return false;
		} else {
			*(*out)++ = **p;
		}
		(*p)++;
	}
	*any = *p > from;
	return true;
}

/* 123, 1.5e-3, 0x1F, 0x1p3, 1_000 */
static bool plain_number(struct view v, double *ret)
{
	char copy[512], *out = copy; /* the greatest double has 309 digits, the least 340 */
	if (!v.len || v.len >= sizeof copy)
		return false;
	const char *p = v.ptr, *end = v.ptr + v.len;
	bool hex = v.len > 2 && p[0] == '0' && (p[1] | 0x20) == 'x', whole, fraction = false, exponent;
	if (hex) {
		*out++ = *p++;
		*out++ = *p++;
		if (p < end && *p == '_')
			p++;
	}
	if ((p < end && *p == '_') || !copy_digits(&p, end, hex ? 16 : 10, &out, &whole))
		return false;
	if (p < end && *p == '.') {
		*out++ = *p++;
		if ((p < end && *p == '_') || !copy_digits(&p, end, hex ? 16 : 10, &out, &fraction))
			return false;
	}
	if (!whole && !fraction)
		return false;
	if (p < end && (*p | 0x20) == (hex ? 'p' : 'e')) {
		*out++ = *p++;
		if (p < end && (*p == '+' || *p == '-'))
			*out++ = *p++;
		if (!copy_digits(&p, end, 10, &out, &exponent) || !exponent)
			return false;
	}
	*out = 0;
	char *stop;
	*ret = strtod(copy, &stop);
	return p == end && *stop == 0;
}

bool lexer_parse_number(struct view v, double *ret, bool *ret_duration)
{
	int64_t ms;
	*ret_duration = false;
	if (plain_number(v, ret))
		return true;
	if (v.len >= 3 && !is_digit(v.ptr[0]) && num_parse_double(v, ret) && (isnan(*ret) || isinf(*ret)))
		return true;
	if (!units_parse_duration(v, &ms))
		return false;
	*ret_duration = true;
	*ret = (double)ms / 1000;
	return true;
}

/* All that could belong to a number or a duration; what it is, the whole of it decides. */
static void scan_number(struct lexer *l, struct token *t)
{
	bool hex = at(l, 0) == '0' && (at(l, 1) | 0x20) == 'x';
	for (;;) {
		char c = at(l, 0), e = (char)(c | 0x20);
		bool sign_follows = (hex ? e == 'p' : e == 'e') && (at(l, 1) == '+' || at(l, 1) == '-') && is_digit(at(l, 2));
		if (sign_follows)
			l->pos += 2;
		else if (!is_digit(c) && !is_alpha(c) && c != '.')
			break;
		else
			l->pos++;
	}
	bool duration;
	t->text = view_make(l->src.ptr + t->start, l->pos - t->start);
	if (!lexer_parse_number(t->text, &t->number, &duration)) {
		t->kind = TOK_ERROR;
		t->error = "bad number or duration syntax: ";
		t->end = l->pos;
		l->pos = (uint32_t)l->src.len;
		return;
	}
	t->kind = duration ? TOK_DURATION : TOK_NUMBER;
}

static void scan_string(struct lexer *l, struct token *t)
{
	char quote = at(l, 0);
	uint32_t i = l->pos + 1;
	for (;; i++) {
		if (i >= l->src.len) {
			fail(l, t, quote == '`' ? "unterminated raw string" : "unterminated quoted string", t->start);
			t->bad[0] = 0;
			return;
		}
		char c = l->src.ptr[i];
		if (c == quote)
			break;
		if (c == '\n' && quote != '`') {
			fail(l, t, "unterminated quoted string", t->start);
			t->bad[0] = 0;
			return;
		}
		if (c == '\\' && quote != '`' && i + 1 < l->src.len)
			i++;
	}
	l->pos = i + 1;
	t->kind = TOK_STRING;
	t->text = view_make(l->src.ptr + t->start, l->pos - t->start);
	if (!utf8_valid(t->text)) {
		fail(l, t, "invalid UTF-8 rune", t->start);
		t->bad[0] = 0;
	}
}

static void scan_ident(struct lexer *l, struct token *t)
{
	bool colons = !l->in_brace && !l->in_angle && !l->in_bracket;
	while (is_alpha(at(l, 0)) || is_digit(at(l, 0)) || (colons && at(l, 0) == ':'))
		l->pos++;
	t->kind = TOK_IDENT;
}

static enum token_kind two(struct lexer *l, enum token_kind kind)
{
	l->pos += 2;
	return kind;
}

static enum token_kind one(struct lexer *l, enum token_kind kind)
{
	l->pos++;
	return kind;
}

static void scan_operator(struct lexer *l, struct token *t)
{
	char c = at(l, 0), d = at(l, 1);
	bool in_selector = l->in_brace || l->in_angle;
	switch (c) {
	case '(': t->kind = one(l, TOK_LPAREN); return;
	case ')': t->kind = one(l, TOK_RPAREN); return;
	case '{': t->kind = one(l, TOK_LBRACE); return;
	case '}': t->kind = one(l, TOK_RBRACE); return;
	case '[': t->kind = one(l, TOK_LBRACKET); return;
	case ']': t->kind = one(l, TOK_RBRACKET); return;
	case ',': t->kind = one(l, TOK_COMMA); return;
	case '@': t->kind = one(l, TOK_AT); return;
	case '+': t->kind = one(l, TOK_ADD); return;
	case '-': t->kind = one(l, TOK_SUB); return;
	case '*': t->kind = one(l, TOK_MUL); return;
	case '/': t->kind = one(l, TOK_DIV); return;
	case '%': t->kind = one(l, TOK_MOD); return;
	case '^': t->kind = one(l, TOK_POW); return;
	case '<': t->kind = d == '=' ? two(l, TOK_LE) : one(l, TOK_LT); return;
	case '>': t->kind = d == '=' && !l->in_angle ? two(l, TOK_GE) : one(l, TOK_GT); return;
	case '=':
		t->kind = d == '~' ? two(l, TOK_EQ_RE) : d == '=' && !in_selector ? two(l, TOK_EQLC) : one(l, TOK_EQL);
		return;
	case '!':
		if (d == '=' || d == '~') {
			t->kind = two(l, d == '=' ? TOK_NEQ : TOK_NE_RE);
			return;
		}
		fail(l, t, "unexpected character after '!': ", l->pos + 1);
		return;
	}
	fail(l, t, in_selector ? "unexpected character inside braces: " : "unexpected character: ", l->pos);
}

void lexer_next(struct lexer *l, struct token *t)
{
	skip_blanks(l);
	*t = (struct token){ .start = l->pos };
	if (l->pos >= l->src.len) {
		t->kind = TOK_EOF;
		t->end = l->pos;
		return;
	}
	char c = at(l, 0);
	if (is_digit(c) || (c == '.' && is_digit(at(l, 1))))
		scan_number(l, t);
	else if (c == '"' || c == '\'' || c == '`')
		scan_string(l, t);
	else if (c == ':' && (l->in_bracket || l->in_brace || l->in_angle))
		t->kind = one(l, TOK_COLON);
	else if (is_alpha(c) || c == ':')
		scan_ident(l, t);
	else
		scan_operator(l, t);
	if (t->kind == TOK_ERROR)
		return;
	t->end = l->pos;
	t->text = view_make(l->src.ptr + t->start, t->end - t->start);
}

/* ---- strings ---- */

static bool numeric_escape(const char **p, const char *end, int digits, int base, uint32_t *ret, const char **error)
{
	uint32_t x = 0;
	for (int i = 0; i < digits; i++, (*p)++) {
		if (*p == end || digit_value(**p) >= base) {
			*error = "illegal character in escape sequence";
			return false;
		}
		x = x * (uint32_t)base + (uint32_t)digit_value(**p);
	}
	*ret = x;
	return true;
}

/* One escape at *p, after the backslash. */
static bool unescape(const char **p, const char *end, char quote, char **out, const char **error)
{
	static const char simple[] = "abfnrtv\\", meaning[] = "\a\b\f\n\r\t\v\\";
	char c = *(*p)++;
	const char *s = c ? strchr(simple, c) : NULL;
	uint32_t x;
	if (s || c == quote) {
		*(*out)++ = s ? meaning[s - simple] : c;
		return true;
	}
	if (c == 'x' || (c >= '0' && c <= '7')) {
		*p -= c != 'x';
		if (!numeric_escape(p, end, c == 'x' ? 2 : 3, c == 'x' ? 16 : 8, &x, error))
			return false;
		if (x > 255) {
			*error = "escape sequence is an invalid Unicode code point";
			return false;
		}
		*(*out)++ = (char)x;
		return true;
	}
	if (c != 'u' && c != 'U') {
		*error = "unknown escape sequence";
		return false;
	}
	if (!numeric_escape(p, end, c == 'u' ? 4 : 8, 16, &x, error))
		return false;
	if (x > 0x10ffff || (x >= 0xd800 && x < 0xe000)) {
		*error = "escape sequence is an invalid Unicode code point";
		return false;
	}
	*out += utf8_encode(x, *out);
	return true;
}

bool lexer_unquote(struct arena *a, struct view quoted, struct view *ret, const char **error)
{
	struct view body = view_make(quoted.ptr + 1, quoted.len - 2);
	char quote = quoted.ptr[0], *copy = arena_alloc(a, body.len + 1), *out = copy;
	const char *p = body.ptr, *end = body.ptr + body.len;
	if (!copy) {
		*error = "the query is too long";
		return false;
	}
	while (p < end) {
		if (*p != '\\' || quote == '`') {
			*out++ = *p++;
			continue;
		}
		p++;
		if (p == end || !unescape(&p, end, quote, &out, error))
			return false;
	}
	*out = 0;
	*ret = view_make(copy, (size_t)(out - copy));
	return true;
}

void quote_string(struct view v, struct buf *out)
{
	static const char special[] = "\a\b\f\n\r\t\v\\\"", letter[] = "abfnrtv\\\"";
	buf_putc(out, '"');
	for (size_t i = 0; i < v.len;) {
		char c = v.ptr[i];
		uint32_t cp;
		unsigned n = utf8_decode(v.ptr + i, v.len - i, &cp);
		const char *s = c ? strchr(special, c) : NULL;
		if (s)
			buf_put(out, (char[2]){ '\\', letter[s - special] }, 2);
		else if (!n || (unsigned char)c < 0x20 || c == 0x7f)
			buf_printf(out, "\\x%02x", (unsigned char)c);
		else
			buf_put(out, v.ptr + i, n);
		i += MAX(n, 1);
	}
	buf_putc(out, '"');
}

bool word_reserved(struct view v)
{
	static const char *const words[] = { "atan2", "bool", "on", "ignoring", "group_left", "group_right" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (view_eq_nocase(v, view_of(words[i])))
			return true;
	return false;
}

/* For messages: "identifier \"foo\"", "\")\"", "end of input". */
static void describe(const struct token *t, struct buf *out)
{
	switch (t->kind) {
	case TOK_EOF: buf_puts(out, "end of input"); return;
	case TOK_IDENT: buf_puts(out, memchr(t->text.ptr, ':', t->text.len) ? "metric identifier " : "identifier "); break;
	case TOK_NUMBER: buf_puts(out, "number "); break;
	case TOK_DURATION: buf_puts(out, "duration "); break;
	case TOK_STRING: buf_puts(out, "string "); break;
	default: break;
	}
	quote_string(t->text, out);
}

void token_unexpected(const struct token *t, struct view src, const char *context, const char *expected, uint32_t *ret_at, struct err *e)
{
	*ret_at = t->start;
	if (t->kind == TOK_ERROR && t->end)
		err_set(e, ERR_BAD_DATA, "%s\"%.*s\"", t->error, (int)(t->end - t->start), src.ptr + t->start);
	else if (t->kind == TOK_ERROR)
		err_set(e, ERR_BAD_DATA, t->bad[0] ? "%s'%s'" : "%s", t->error, t->bad);
	if (t->kind == TOK_ERROR)
		return;
	struct buf what = { .max = 400 };
	describe(t, &what);
	err_set(e, ERR_BAD_DATA, "unexpected %s%s%s%s%s", what.overflow || !what.ptr ? "a long token" : what.ptr, *context ? " in " : "",
		context, *expected ? ", expected " : "", expected);
	buf_free(&what);
}
