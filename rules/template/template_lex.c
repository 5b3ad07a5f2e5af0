/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_lex.h"

#include <stdio.h>

#include "base/utf8.h"
#include "rules/template/template_quote.h"
#include "rules/template/template_unicode.h"

static const struct {
	const char *word;
	enum ttoken_type type;
} keywords[] = {
	{ "block", TTOKEN_BLOCK }, { "break", TTOKEN_BREAK }, { "continue", TTOKEN_CONTINUE }, { "define", TTOKEN_DEFINE },
	{ "else", TTOKEN_ELSE }, { "end", TTOKEN_END }, { "if", TTOKEN_IF }, { "nil", TTOKEN_NIL }, { "range", TTOKEN_RANGE },
	{ "template", TTOKEN_TEMPLATE }, { "with", TTOKEN_WITH }, { "true", TTOKEN_BOOL }, { "false", TTOKEN_BOOL },
};

static bool is_space(uint32_t c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct view rest(const struct tlexer *l)
{
	return view_make(l->in.ptr + l->pos, l->in.len - l->pos);
}

static bool at(const struct tlexer *l, size_t pos, const char *what)
{
	return pos <= l->in.len && view_starts(view_make(l->in.ptr + pos, l->in.len - pos), view_of(what));
}

static char byte_at(const struct tlexer *l, size_t pos)
{
	return pos < l->in.len ? l->in.ptr[pos] : 0;
}

/* The character there, and its length; 0 at the end. */
static unsigned peek(const struct tlexer *l, uint32_t *ret)
{
	struct view r = rest(l);
	*ret = 0;
	return r.len ? rune_decode(r.ptr, r.len, ret) : 0;
}

static bool is_alphanumeric(uint32_t r)
{
	return r == '_' || rune_is_letter(r) || rune_is_digit(r);
}

static struct ttoken token(struct tlexer *l, enum ttoken_type type)
{
	struct ttoken t = { type, l->start, view_make(l->in.ptr + l->start, l->pos - l->start) };
	l->start = l->pos;
	return t;
}

static struct ttoken problem(struct tlexer *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static struct ttoken problem(struct tlexer *l, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(l->problem, sizeof l->problem, fmt, ap);
	va_end(ap);
	return (struct ttoken){ TTOKEN_ERROR, l->start, view_of(l->problem) };
}

static bool left_trim_at(const struct tlexer *l, size_t pos)
{
	return byte_at(l, pos) == '-' && is_space((unsigned char)byte_at(l, pos + 1));
}

static bool right_trim_at(const struct tlexer *l, size_t pos)
{
	return pos + 1 < l->in.len && is_space((unsigned char)l->in.ptr[pos]) && l->in.ptr[pos + 1] == '-';
}

static bool at_right(const struct tlexer *l, bool *ret_trim)
{
	*ret_trim = right_trim_at(l, l->pos) && at(l, l->pos + 2, "}}");
	return *ret_trim || at(l, l->pos, "}}");
}

static void skip_right(struct tlexer *l, bool trim)
{
	l->pos += trim ? 4 : 2;
	while (trim && l->pos < l->in.len && is_space((unsigned char)l->in.ptr[l->pos]))
		l->pos++;
}

/* A comment was seen to begin here; false: *ret is the error. */
static bool skip_comment(struct tlexer *l, struct ttoken *ret)
{
	bool trim;
	const char *end = memmem(l->in.ptr + l->pos + 2, l->in.len - l->pos - 2, "*/", 2);
	l->start = l->pos;
	if (!end) {
		*ret = problem(l, "unclosed comment");
		return false;
	}
	l->pos = (size_t)(end - l->in.ptr) + 2;
	if (!at_right(l, &trim)) {
		*ret = problem(l, "comment ends before closing delimiter");
		return false;
	}
	skip_right(l, trim);
	l->start = l->pos;
	return true;
}

/* Text up to the next {{, or that. */
static struct ttoken lex_text(struct tlexer *l)
{
	for (;;) {
		const char *left = memmem(l->in.ptr + l->pos, l->in.len - l->pos, "{{", 2);
		size_t x = left ? (size_t)(left - l->in.ptr) : l->in.len;
		bool trim = left && left_trim_at(l, x + 2);
		size_t end = x;
		while (trim && end > l->start && is_space((unsigned char)l->in.ptr[end - 1]))
			end--;
		if (end > l->start) {
			l->pos = end;
			struct ttoken t = token(l, TTOKEN_TEXT);
			l->pos = l->start = x;
			return t;
		}
		l->pos = l->start = x;
		if (!left)
			return token(l, TTOKEN_EOF);
		l->pos = x + 2 + (trim ? 2 : 0);
		if (!at(l, l->pos, "/*")) {
			struct ttoken t = { TTOKEN_LEFT, x, view_make(left, 2) };
			l->inside = true;
			l->parens = 0;
			l->start = l->pos;
			return t;
		}
		struct ttoken t;
		if (!skip_comment(l, &t))
			return t;
	}
}

static struct ttoken lex_right(struct tlexer *l)
{
	bool trim;
	at_right(l, &trim);
	struct ttoken t = { TTOKEN_RIGHT, l->pos + (trim ? 2 : 0), view_make(l->in.ptr + l->pos + (trim ? 2 : 0), 2) };
	skip_right(l, trim);
	l->start = l->pos;
	l->inside = false;
	return t;
}

static struct ttoken lex_space(struct tlexer *l)
{
	size_t first = l->pos;
	while (l->pos < l->in.len && is_space((unsigned char)l->in.ptr[l->pos]))
		l->pos++;
	if (right_trim_at(l, l->pos - 1) && at(l, l->pos + 1, "}}")) {
		l->pos--; /* before the blank of the marker */
		if (l->pos == first)
			return lex_right(l);
	}
	return token(l, TTOKEN_SPACE);
}

static bool at_terminator(const struct tlexer *l)
{
	uint32_t r;
	return !peek(l, &r) || is_space(r) || (r && r < 0x80 && strchr(".,|:)(", (int)r)) || at(l, l->pos, "}}");
}

static struct ttoken bad_character(struct tlexer *l, const char *what)
{
	uint32_t r;
	char c[5] = "";
	if (!peek(l, &r))
		r = RUNE_BAD;
	utf8_encode(r, c);
	return rune_is_print(r) ? problem(l, "%s U+%04X '%s'", what, r, c) : problem(l, "%s U+%04X", what, r);
}

static void skip_word(struct tlexer *l)
{
	uint32_t r;
	for (unsigned n; (n = peek(l, &r)) && is_alphanumeric(r);)
		l->pos += n;
}

/* After its . or $. */
static struct ttoken lex_name(struct tlexer *l, enum ttoken_type type)
{
	if (at_terminator(l))
		return token(l, type == TTOKEN_FIELD ? TTOKEN_DOT : type);
	skip_word(l);
	return at_terminator(l) ? token(l, type) : bad_character(l, "bad character");
}

static struct ttoken lex_identifier(struct tlexer *l)
{
	skip_word(l);
	if (!at_terminator(l))
		return bad_character(l, "bad character");
	struct ttoken t = token(l, TTOKEN_IDENTIFIER);
	for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
		if (view_eqs(t.text, keywords[i].word))
			t.type = keywords[i].type;
	return t;
}

static bool accept(struct tlexer *l, const char *chars)
{
	char c = byte_at(l, l->pos);
	if (!c || !strchr(chars, c))
		return false;
	l->pos++;
	return true;
}

static void accept_run(struct tlexer *l, const char *chars)
{
	while (accept(l, chars))
		;
}

static bool scan_number(struct tlexer *l)
{
	const char *digits = "0123456789_";
	uint32_t r;
	bool decimal = true, hex = false;
	accept(l, "+-");
	if (accept(l, "0")) {
		decimal = false;
		if ((hex = accept(l, "xX")))
			digits = "0123456789abcdefABCDEF_";
		else if (accept(l, "oO"))
			digits = "01234567_";
		else if (accept(l, "bB"))
			digits = "01_";
		else
			decimal = true;
	}
	accept_run(l, digits);
	if (accept(l, "."))
		accept_run(l, digits);
	if ((decimal && accept(l, "eE")) || (hex && accept(l, "pP"))) {
		accept(l, "+-");
		accept_run(l, "0123456789_");
	}
	accept(l, "i");
	unsigned n = peek(l, &r);
	if (!n || !is_alphanumeric(r))
		return true;
	l->pos += n;
	return false;
}

static struct ttoken lex_number(struct tlexer *l)
{
	bool ok = scan_number(l);
	char next = byte_at(l, l->pos);
	if (ok && next != '+' && next != '-')
		return token(l, TTOKEN_NUMBER);
	if (ok)
		ok = scan_number(l) && l->in.ptr[l->pos - 1] == 'i';
	if (ok)
		return token(l, TTOKEN_NUMBER); /* complex: its reader refuses it */
	struct buf b = { .max = 100 };
	go_quote(view_make(l->in.ptr + l->start, l->pos - l->start), '"', false, &b);
	struct ttoken t = problem(l, "bad number syntax: %.*s", VIEW_ARG(buf_view(&b)));
	buf_free(&b);
	return t;
}

/* A string or character up to its end; the first quote is read. */
static struct ttoken lex_quoted(struct tlexer *l, char quote, enum ttoken_type type, const char *unterminated)
{
	for (;;) {
		char c = byte_at(l, l->pos);
		if (l->pos >= l->in.len || (quote != '`' && c == '\n'))
			return problem(l, "%s", unterminated);
		l->pos++;
		if (c == quote)
			return token(l, type);
		if (c == '\\' && quote != '`') {
			if (l->pos >= l->in.len || byte_at(l, l->pos) == '\n')
				return problem(l, "%s", unterminated);
			l->pos++;
		}
	}
}

static struct ttoken lex_paren(struct tlexer *l, bool left)
{
	if (left) {
		l->parens++;
		return token(l, TTOKEN_LEFT_PAREN);
	}
	if (!l->parens)
		return problem(l, "unexpected right paren");
	l->parens--;
	return token(l, TTOKEN_RIGHT_PAREN);
}

static struct ttoken lex_inside(struct tlexer *l)
{
	bool trim;
	uint32_t r;
	if (at_right(l, &trim))
		return l->parens ? problem(l, "unclosed left paren") : lex_right(l);
	unsigned n = peek(l, &r);
	if (!n)
		return problem(l, "unclosed action");
	if (is_space(r))
		return lex_space(l);
	char next = byte_at(l, l->pos + 1);
	if (r == '+' || r == '-' || (r >= '0' && r <= '9') || (r == '.' && next >= '0' && next <= '9'))
		return lex_number(l);
	if (is_alphanumeric(r))
		return lex_identifier(l);
	l->pos += n;
	switch (r) {
	case '=':
		return token(l, TTOKEN_ASSIGN);
	case ':':
		if (next != '=')
			return problem(l, "expected :=");
		l->pos++;
		return token(l, TTOKEN_DECLARE);
	case '|':
		return token(l, TTOKEN_PIPE);
	case '"':
		return lex_quoted(l, '"', TTOKEN_STRING, "unterminated quoted string");
	case '`':
		return lex_quoted(l, '`', TTOKEN_RAW_STRING, "unterminated raw quoted string");
	case '\'':
		return lex_quoted(l, '\'', TTOKEN_CHAR_CONSTANT, "unterminated character constant");
	case '$':
		return lex_name(l, TTOKEN_VARIABLE);
	case '.':
		return lex_name(l, TTOKEN_FIELD);
	case '(':
	case ')':
		return lex_paren(l, r == '(');
	}
	if (r < 0x80 && rune_is_print(r))
		return token(l, TTOKEN_CHAR);
	l->pos -= n;
	return bad_character(l, "unrecognized character in action:");
}

struct ttoken tlexer_next(struct tlexer *l)
{
	return l->inside ? lex_inside(l) : lex_text(l);
}
