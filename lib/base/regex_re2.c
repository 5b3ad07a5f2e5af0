/* SPDX-License-Identifier: Apache-2.0 */
/* RE2 into PCRE2, one pass. The output contains nothing that PCRE2 could read differently. `^ $ .` become \A, \z and
 * classes by the current flags; Perl classes become explicit sets. Every other character that is not a letter or
 * digit becomes \x{..}, and laziness is resolved here (flag U). Only case folding remains a flag. Features that RE2
 * lacks (back-references, look-around, atomic groups, possessive repeats, recursion, \C) are refused, because only
 * RE2's grammar is accepted. */
#include "base/regex_re2.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/regex.h"
#include "base/utf8.h"

#define MAX_REPEAT 1000
#define MAX_DEPTH 500
#define MAX_CODEPOINT 0x10ffff

struct flags {
	bool i, m, s, u;
};

struct parser {
	struct re2 *r;
	struct view src;
	size_t at;
	struct flags f;
	bool folding;       /* the current state of flag i in the output */
	bool open_quote;    /* \Q without \E */
	unsigned depth;
	struct err *e;
};

static int fail(struct parser *p, const char *what, size_t from, size_t to)
{
	to = MIN(to, p->src.len);
	return err_set(p->e, ERR_BAD_DATA, "error parsing regexp: %s: `%.*s` at offset %zu of \"%.*s\"", what,
		       (int)MIN(to - from, 200), p->src.ptr + from, from, (int)MIN(p->src.len, 300), p->src.ptr);
}

static bool more(const struct parser *p)
{
	return p->at < p->src.len;
}

static char peek(const struct parser *p, size_t ahead)
{
	return p->at + ahead < p->src.len ? p->src.ptr[p->at + ahead] : 0;
}

static bool alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static uint32_t next_codepoint(struct parser *p)
{
	uint32_t cp;
	p->at += utf8_decode(p->src.ptr + p->at, p->src.len - p->at, &cp); /* the whole text was validated before */
	return cp;
}

static bool surrogate(uint32_t cp)
{
	return cp >= 0xd800 && cp <= 0xdfff;
}

static void put_codepoint(struct buf *out, uint32_t cp)
{
	char utf8[4];
	if (cp < 0x80 && alnum((char)cp))
		buf_putc(out, (char)cp);
	else if (cp < 0x80)
		buf_printf(out, "\\x{%x}", cp);
	else
		buf_put(out, utf8, utf8_encode(cp, utf8));
}

/* ---- escapes ---- */

/* ASCII sets as ranges: first, last, first, last ... */
static const struct {
	const char *name;  /* of [:name:]; one letter: of \d and its kin */
	unsigned char n, r[12];
} sets[] = {
	{ "d", 2, { '0', '9' } }, { "s", 6, { '\t', '\n', '\f', '\r', ' ', ' ' } },
	{ "w", 8, { '0', '9', 'A', 'Z', '_', '_', 'a', 'z' } },
	{ "alnum", 6, { '0', '9', 'A', 'Z', 'a', 'z' } }, { "alpha", 4, { 'A', 'Z', 'a', 'z' } }, { "ascii", 2, { 0, 0x7f } },
	{ "blank", 4, { '\t', '\t', ' ', ' ' } }, { "cntrl", 4, { 0, 0x1f, 0x7f, 0x7f } }, { "digit", 2, { '0', '9' } },
	{ "graph", 2, { '!', '~' } }, { "lower", 2, { 'a', 'z' } }, { "print", 2, { ' ', '~' } },
	{ "punct", 8, { '!', '/', ':', '@', '[', '`', '{', '~' } }, { "space", 4, { '\t', '\r', ' ', ' ' } },
	{ "upper", 2, { 'A', 'Z' } }, { "word", 8, { '0', '9', 'A', 'Z', '_', '_', 'a', 'z' } },
	{ "xdigit", 6, { '0', '9', 'A', 'F', 'a', 'f' } },
};

static void put_range(struct buf *out, uint32_t lo, uint32_t hi)
{
	if (lo <= hi)
		buf_printf(out, "\\x{%x}-\\x{%x}", lo, hi);
}

/* As ranges of a class. The complement under case folding lacks the two non-ASCII characters that fold into it
 * (long s, Kelvin): RE2 folds first and then complements, PCRE2 the reverse. */
static void put_set(struct parser *p, size_t i, bool negated)
{
	struct buf *out = &p->r->out;
	uint32_t next = 0;
	bool letters = false;
	for (unsigned k = 0; k < sets[i].n; k += 2) {
		if (!negated)
			put_range(out, sets[i].r[k], sets[i].r[k + 1]);
		else if (sets[i].r[k])
			put_range(out, next, sets[i].r[k] - 1u);
		next = sets[i].r[k + 1] + 1u;
		letters |= (sets[i].r[k] <= 's' && sets[i].r[k + 1] >= 's') || (sets[i].r[k] <= 'S' && sets[i].r[k + 1] >= 'S');
	}
	if (!negated)
		return;
	if (p->f.i && letters) {
		put_range(out, next, 0x17e);
		put_range(out, 0x180, 0x2129);
		next = 0x212b;
	}
	put_range(out, next, MAX_CODEPOINT);
}

/* \d and its kin at p->at. */
static bool perl_set(struct parser *p)
{
	char c = peek(p, 1);
	if (peek(p, 0) != '\\')
		return false;
	for (size_t i = 0; i < 3; i++)
		if ((c | 0x20) == sets[i].name[0] && c) {
			p->at += 2;
			put_set(p, i, c != sets[i].name[0]);
			return true;
		}
	return false;
}

/* \pN, \p{Greek}, \P{^Lu}: written as PCRE2's. 1: done, 0: not this construct. */
static int unicode_set(struct parser *p)
{
	size_t from = p->at;
	if (peek(p, 0) != '\\' || (peek(p, 1) | 0x20) != 'p')
		return 0;
	bool negated = peek(p, 1) == 'P';
	p->at += 2;
	if (!more(p))
		return fail(p, "invalid character class range", from, p->at);
	struct view name = view_make(p->src.ptr + p->at, 1);
	if (peek(p, 0) == '{') {
		const char *close = memchr(p->src.ptr + p->at, '}', p->src.len - p->at);
		if (!close)
			return fail(p, "invalid character class range", from, p->src.len);
		name = view_make(p->src.ptr + p->at + 1, (size_t)(close - p->src.ptr) - p->at - 1);
		p->at += name.len + 2;
	} else {
		p->at++;
	}
	if (name.len && name.ptr[0] == '^') {
		negated = !negated;
		name = view_make(name.ptr + 1, name.len - 1);
	}
	bool ok = name.len > 0 && name.len < 40 && name.ptr[0] >= 'A' && name.ptr[0] <= 'Z' && name.ptr[0] != 'X';
	for (size_t i = 0; i < name.len && ok; i++)
		ok = alnum(name.ptr[i]);
	if (!ok)
		return fail(p, "invalid character class range", from, p->at);
	/* From 10.40 a bare name means script extensions; RE2 means the script. */
	char version[64] = "";
	pcre2_config(PCRE2_CONFIG_VERSION, version);
	bool script = name.len > 2 && !view_eqs(name, "Any") && (version[0] > '1' || strtod(version, NULL) >= 10.395);
	buf_printf(&p->r->out, "\\%c{%s%.*s}", negated ? 'P' : 'p', script ? "sc:" : "", VIEW_ARG(name));
	return 1;
}

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static int hex_escape(struct parser *p, size_t from, uint32_t *ret)
{
	uint32_t cp = 0;
	unsigned digits = 0;
	bool brace = peek(p, 0) == '{';
	p->at += brace;
	while (hex_value(peek(p, 0)) >= 0 && (brace || digits < 2)) {
		cp = cp * 16 + (uint32_t)hex_value(peek(p, 0));
		if (cp > MAX_CODEPOINT)
			return fail(p, "invalid escape sequence", from, p->at + 1);
		digits++;
		p->at++;
	}
	if (brace ? !digits || peek(p, 0) != '}' : digits != 2)
		return fail(p, "invalid escape sequence", from, p->at + 1);
	p->at += brace;
	*ret = cp;
	return 0;
}

/* An escape for one character. */
static int escape(struct parser *p, uint32_t *ret)
{
	size_t from = p->at++;
	if (!more(p))
		return fail(p, "trailing backslash at end of expression", from, p->at);
	char c = peek(p, 0);
	static const char letters[] = "afnrtv", values[] = "\a\f\n\r\t\v";
	const char *known = strchr(letters, c);
	if (c >= '1' && c <= '7' && !(peek(p, 1) >= '0' && peek(p, 1) <= '7'))
		return fail(p, "invalid escape sequence", from, p->at + 1); /* a back-reference */
	if (c >= '0' && c <= '7') {
		*ret = 0;
		for (unsigned i = 0; i < 3 && peek(p, 0) >= '0' && peek(p, 0) <= '7'; i++, p->at++)
			*ret = *ret * 8 + (uint32_t)(peek(p, 0) - '0');
		return 0;
	}
	if (c == 'x') {
		p->at++;
		return hex_escape(p, from, ret);
	}
	if (known && c) {
		p->at++;
		*ret = (uint32_t)values[known - letters];
		return 0;
	}
	if ((unsigned char)c < 0x80 && c > 0x20 && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && !(c >= '0' && c <= '9')) {
		p->at++;
		*ret = (uint32_t)c;
		return 0;
	}
	return fail(p, "invalid escape sequence", from, p->at + 1);
}

/* ---- classes ---- */

static int class_char(struct parser *p, uint32_t *ret, size_t class_from)
{
	if (!more(p))
		return fail(p, "missing closing ]", class_from, p->src.len);
	if (peek(p, 0) == '\\')
		return escape(p, ret);
	*ret = next_codepoint(p);
	return 0;
}

/* [:alpha:] and [:^alpha:] inside a class. */
static int posix_set(struct parser *p)
{
	if (peek(p, 0) != '[' || peek(p, 1) != ':')
		return 0;
	const char *end = memmem(p->src.ptr + p->at + 2, p->src.len - p->at - 2, ":]", 2);
	if (!end)
		return 0;
	size_t from = p->at, len = (size_t)(end - p->src.ptr) - p->at - 2;
	struct view name = view_make(p->src.ptr + p->at + 2, len);
	bool negated = len && name.ptr[0] == '^';
	if (negated)
		name = view_make(name.ptr + 1, name.len - 1);
	p->at += len + 4;
	for (size_t i = 3; i < ARRAY_LEN(sets); i++)
		if (view_eqs(name, sets[i].name)) {
			put_set(p, i, negated);
			return 1;
		}
	return fail(p, "invalid character class range", from, p->at);
}

static int class_range(struct parser *p, size_t class_from)
{
	size_t from = p->at;
	uint32_t lo, hi;
	int rc = class_char(p, &lo, class_from);
	hi = lo;
	if (!rc && peek(p, 0) == '-' && p->at + 1 < p->src.len && peek(p, 1) != ']') {
		p->at++;
		rc = class_char(p, &hi, class_from);
		if (!rc && hi < lo)
			return fail(p, "invalid character class range", from, p->at);
	}
	if (rc)
		return rc;
	if (surrogate(lo))
		lo = 0xe000;
	if (surrogate(hi))
		hi = 0xd7ff;
	if (lo > hi) /* nothing but surrogates, which no text holds */
		return 0;
	put_codepoint(&p->r->out, lo);
	if (hi > lo) {
		buf_putc(&p->r->out, '-');
		put_codepoint(&p->r->out, hi);
	}
	return 0;
}

static int parse_class(struct parser *p)
{
	size_t from = p->at++, body;
	struct buf *out = &p->r->out;
	bool negated = peek(p, 0) == '^';
	p->at += negated;
	buf_puts(out, negated ? "[^" : "[");
	body = out->len;
	for (bool first = true; peek(p, 0) != ']' || first; first = false) {
		if (!more(p))
			return fail(p, "missing closing ]", from, p->src.len);
		int rc = posix_set(p);
		if (!rc)
			rc = unicode_set(p);
		if (rc < 0)
			return rc;
		if (rc)
			continue;
		if (!perl_set(p))
			rc = class_range(p, from);
		if (rc)
			return rc;
	}
	p->at++;
	if (out->len == body && !out->overflow) { /* only surrogates were in it */
		out->len -= negated ? 2 : 1;
		buf_puts(out, negated ? "(?s:.)" : "(?!)");
		return 0;
	}
	buf_putc(out, ']');
	return 0;
}

/* ---- repeats ---- */

/* {n}, {n,}, {n,m} at p->at: its bounds (max -1 = none) and end; false: the brace is a literal. */
static bool braces(const struct parser *p, long *min, long *max, size_t *ret_end)
{
	size_t i = p->at + 1;
	const char *s = p->src.ptr;
	*min = 0;
	size_t digits = i;
	for (; i < p->src.len && s[i] >= '0' && s[i] <= '9'; i++)
		*min = MIN(*min * 10 + (s[i] - '0'), 100000);
	if (i == digits || (i - digits > 1 && s[digits] == '0'))
		return false;
	*max = *min;
	if (i < p->src.len && s[i] == ',') {
		digits = ++i;
		*max = 0;
		for (; i < p->src.len && s[i] >= '0' && s[i] <= '9'; i++)
			*max = MIN(*max * 10 + (s[i] - '0'), 100000);
		if (i == digits)
			*max = -1;
		else if (i - digits > 1 && s[digits] == '0')
			return false;
	}
	if (i >= p->src.len || s[i] != '}')
		return false;
	*ret_end = i + 1;
	return true;
}

struct atom {
	size_t out;     /* where it starts in the output */
	bool any;       /* there is something to repeat */
	bool repeated;  /* it was, just before */
	bool wrap;      /* it was, before a change of flags: a repeat of a repeat needs a group */
	long weight;    /* most copies of anything inside it */
};

static void wrap(struct buf *out, size_t from)
{
	buf_puts(out, "(?:)"); /* room, and the end */
	if (out->overflow)
		return;
	memmove(out->ptr + from + 3, out->ptr + from, out->len - 4 - from);
	memcpy(out->ptr + from, "(?:", 3);
	out->ptr[out->len - 1] = ')';
}

/* Flag i is told just before something that it concerns: what it is set after may still be repeated. */
static void settle_folding(struct parser *p)
{
	if (p->f.i != p->folding)
		buf_puts(&p->r->out, p->f.i ? "(?i)" : "(?-i)");
	p->folding = p->f.i;
}

static int parse_repeat(struct parser *p, struct atom *a)
{
	size_t from = p->at, end = p->at + 1;
	long min = 0, max = -1;
	char op = peek(p, 0);
	bool counted = op == '{';
	if (counted && !braces(p, &min, &max, &end))
		return 0;
	if (!a->any)
		return fail(p, "missing argument to repetition operator", from, end);
	if (counted && (min > MAX_REPEAT || max > MAX_REPEAT || (max >= 0 && max < min)))
		return fail(p, "invalid repeat count", from, end);
	p->at = end;
	bool lazy = peek(p, 0) == '?';
	p->at += lazy;
	if (a->repeated)
		return fail(p, "invalid nested repetition operator", from, p->at);
	if (counted && MAX(min, max) > 1) {
		a->weight *= MAX(min, max);
		if (a->weight > MAX_REPEAT)
			return fail(p, "invalid repeat count", from, end);
	}
	if (a->wrap)
		wrap(&p->r->out, a->out);
	a->wrap = false;
	if (counted)
		buf_put(&p->r->out, p->src.ptr + from, end - from);
	else
		buf_putc(&p->r->out, op);
	if (lazy != p->f.u)
		buf_putc(&p->r->out, '?');
	a->repeated = true;
	return 1;
}

/* ---- groups ---- */

static int parse_alternation(struct parser *p, long *ret_weight);

static int parse_name(struct parser *p, size_t from, struct view *ret)
{
	size_t start = p->at;
	while (alnum(peek(p, 0)))
		p->at++;
	*ret = view_make(p->src.ptr + start, p->at - start);
	if (!ret->len || peek(p, 0) != '>')
		return fail(p, "invalid named capture", from, p->at + 1);
	for (size_t i = 0; i < p->r->names.n; i++)
		if (view_eq(p->r->names.v[i].name, *ret))
			return fail(p, "duplicate capture group name", from, p->at);
	p->at++;
	return 0;
}

/* After "(?": flags up to ) or :. */
static int parse_flags(struct parser *p, size_t from, bool *ret_group)
{
	bool value = true, any = false;
	struct flags f = p->f;
	for (;; p->at++) {
		bool *which = NULL;
		switch (peek(p, 0)) {
		case 'i': which = &f.i; break;
		case 'm': which = &f.m; break;
		case 's': which = &f.s; break;
		case 'U': which = &f.u; break;
		case '-':
			if (!value)
				return fail(p, "invalid or unsupported Perl syntax", from, p->at + 1);
			value = false;
			any = false;
			continue;
		case ':':
		case ')':
			if (!value && !any)
				return fail(p, "invalid or unsupported Perl syntax", from, p->at + 1);
			*ret_group = peek(p, 0) == ':';
			p->at++;
			p->f = f;
			return 0;
		default:
			if (!more(p))
				return fail(p, "missing argument to repetition operator", from, p->at);
			return fail(p, "invalid or unsupported Perl syntax", from, p->at + 1);
		}
		*which = value;
		any = true;
	}
}

static int close_group(struct parser *p, size_t from, long *ret_weight)
{
	if (++p->depth > MAX_DEPTH)
		return fail(p, "expression nests too deeply", from, from + 1);
	int rc = parse_alternation(p, ret_weight);
	if (rc)
		return rc;
	p->depth--;
	if (peek(p, 0) != ')' || !more(p))
		return fail(p, "missing closing )", 0, p->src.len);
	p->at++;
	buf_putc(&p->r->out, ')');
	return 0;
}

/* 1: a flag setting that opens no group; what it sets holds to the end of the enclosing one. */
static int parse_group(struct parser *p, long *ret_weight)
{
	size_t from = p->at++;
	struct buf *out = &p->r->out;
	struct flags outer = p->f;
	bool capture = true;
	struct view name = { NULL, 0 };
	if (peek(p, 0) == '?') {
		p->at++;
		bool named = (peek(p, 0) == 'P' && peek(p, 1) == '<') || (peek(p, 0) == '<' && peek(p, 1) != '=' && peek(p, 1) != '!');
		int rc;
		if (named) {
			p->at += peek(p, 0) == 'P' ? 2 : 1;
			rc = parse_name(p, from, &name);
		} else {
			bool group = false;
			capture = false;
			rc = parse_flags(p, from, &group);
			if (!rc && !group)
				return 1;
		}
		if (rc)
			return rc;
	}
	if (capture) {
		p->r->groups++;
		if (name.ptr)
			vec_push(&p->r->names, (struct re2_name){ name, p->r->groups });
		buf_putc(out, '(');
	} else {
		buf_puts(out, "(?:");
	}
	bool folding = p->folding;
	int rc = close_group(p, from, ret_weight);
	p->f = outer;
	p->folding = folding;
	return rc;
}

/* ---- the rest ---- */

static void quoted(struct parser *p, struct atom *a)
{
	p->at += 2;
	while (more(p)) {
		if (peek(p, 0) == '\\' && peek(p, 1) == 'E') {
			p->at += 2;
			return;
		}
		settle_folding(p);
		*a = (struct atom){ p->r->out.len, true, false, false, 1 };
		put_codepoint(&p->r->out, next_codepoint(p));
	}
	p->open_quote = true;
}

static int parse_backslash(struct parser *p, struct atom *a)
{
	struct buf *out = &p->r->out;
	char c = peek(p, 1);
	*a = (struct atom){ out->len, true, false, false, 1 };
	if (c == 'A' || c == 'z' || c == 'b' || c == 'B') {
		/* ASCII word boundaries: PCRE2's \w is ASCII unless told otherwise. In a group: RE2 lets them repeat. */
		buf_printf(out, "(?:\\%c)", c);
		p->at += 2;
		return 0;
	}
	int rc = unicode_set(p);
	if (rc)
		return rc < 0 ? rc : 0;
	buf_putc(out, '[');
	if (perl_set(p)) {
		buf_putc(out, ']');
		return 0;
	}
	out->len -= !out->overflow;
	uint32_t cp;
	rc = escape(p, &cp);
	if (rc)
		return rc;
	if (surrogate(cp))
		buf_puts(out, "(?!)");
	else
		put_codepoint(out, cp);
	return 0;
}

static int parse_atom(struct parser *p, struct atom *a)
{
	struct buf *out = &p->r->out;
	char c = peek(p, 0);
	int rc;
	if (c == '(') {
		struct atom next = { out->len, true, false, false, 1 };
		rc = parse_group(p, &next.weight);
		if (rc == 1) { /* flags: what stands before them is still the last atom */
			a->wrap |= a->repeated;
			a->repeated = false;
			return 0;
		}
		*a = next;
		return rc;
	}
	if (c == '\\' && peek(p, 1) == 'Q') {
		quoted(p, a);
		return 0;
	}
	settle_folding(p);
	if (c == '\\')
		return parse_backslash(p, a);
	*a = (struct atom){ out->len, true, false, false, 1 };
	switch (c) {
	case '[': return parse_class(p);
	case '.': buf_puts(out, p->f.s ? "(?s:.)" : "[^\\n]"); break;
	case '^': buf_puts(out, p->f.m ? "(?m:^)" : "(?:\\A)"); break;
	case '$': buf_puts(out, p->f.m ? "(?m:$)" : "(?:\\z)"); break;
	default:
		put_codepoint(out, next_codepoint(p));
		return 0;
	}
	p->at++;
	return 0;
}

static int parse_alternation(struct parser *p, long *ret_weight)
{
	struct atom a = { .weight = 1 };
	struct flags outer = p->f;
	long weight = 1;
	while (more(p) && peek(p, 0) != ')') {
		char c = peek(p, 0);
		int rc = 0;
		if (c == '|') {
			buf_putc(&p->r->out, '|');
			p->at++;
			a = (struct atom){ .weight = 1 };
			continue;
		}
		if (c == '*' || c == '+' || c == '?' || c == '{')
			rc = parse_repeat(p, &a);
		if (rc < 0)
			return rc;
		if (!rc)
			rc = parse_atom(p, &a);
		if (rc < 0)
			return rc;
		weight = MAX(weight, a.weight);
	}
	p->f = outer;
	*ret_weight = weight;
	return 0;
}

int re2_translate(struct re2 *ret, struct view pattern, bool dot_all, struct err *e)
{
	*ret = (struct re2){ .out = { .max = 16u << 20 } };
	struct parser p = { .r = ret, .src = pattern, .f = { .s = dot_all }, .e = e };
	if (!utf8_valid(pattern))
		return err_set(e, ERR_BAD_DATA, "error parsing regexp: invalid UTF-8");
	long weight;
	int rc = parse_alternation(&p, &weight);
	if (!rc && more(&p))
		rc = fail(&p, "unexpected )", p.at, p.src.len);
	if (!rc && dot_all && p.open_quote) /* it would quote the end of the anchored pattern too */
		rc = fail(&p, "missing closing )", 0, pattern.len);
	if (!rc && ret->out.overflow)
		rc = err_set(e, ERR_LIMIT, "a regular expression of %zu bytes is too long", pattern.len);
	return rc;
}

void re2_release(struct re2 *r)
{
	buf_free(&r->out);
	vec_free(&r->names);
}

/* ---- literals ---- */

static int by_text(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

static bool special(char c)
{
	return c && strchr(".^$*+?{}[]()\\|", c) != NULL;
}

bool re2_literals(struct view pattern, struct re2_literals *ret)
{
	*ret = (struct re2_literals){ 0 };
	if (!utf8_valid(pattern) || pattern.len > 1u << 20)
		return false;
	if (pattern.len > 1 && pattern.ptr[0] == '(' && pattern.ptr[pattern.len - 1] == ')') {
		size_t skip = view_starts(pattern, VIEW("(?:")) ? 3 : 1;
		pattern = view_make(pattern.ptr + skip, pattern.len - skip - 1);
	}
	char *out = ret->text = xmalloc(pattern.len + 1), *from = out;
	for (size_t i = 0; i <= pattern.len; i++) {
		char c = i < pattern.len ? pattern.ptr[i] : '|';
		if (i == pattern.len || c == '|') {
			vec_push(&ret->v, view_make(from, (size_t)(out - from)));
			from = out;
			continue;
		}
		if (c == '\\' && i + 1 < pattern.len && special(pattern.ptr[i + 1])) {
			c = pattern.ptr[++i];
		} else if (special(c)) {
			free(ret->text);
			vec_free(&ret->v);
			ret->text = NULL;
			return false;
		}
		*out++ = c;
	}
	qsort(ret->v.v, ret->v.n, sizeof *ret->v.v, by_text);
	size_t n = 0;
	for (size_t i = 0; i < ret->v.n; i++)
		if (!i || !view_eq(ret->v.v[i], ret->v.v[n - 1]))
			ret->v.v[n++] = ret->v.v[i];
	ret->v.n = n;
	return true;
}
