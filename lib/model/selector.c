/* SPDX-License-Identifier: Apache-2.0 */
#include "model/selector.h"

#define FAIL(r, where, e, ...) ((r)->at = (where), err_set((e), ERR_BAD_DATA, __VA_ARGS__))

static int unexpected(struct selector_reader *r, const char *context, const char *expected, struct err *e)
{
	token_unexpected(r->tok, r->lex->src, context, expected, &r->at, e);
	return -ERR_BAD_DATA;
}

static void advance(struct selector_reader *r)
{
	*r->last_end = r->tok->end;
	lexer_next(r->lex, r->tok);
}

static int unquote(struct selector_reader *r, const struct token *t, struct view *ret, struct err *e)
{
	const char *error = "";
	return lexer_unquote(r->arena, t->text, ret, &error) ? 0 : FAIL(r, t->start, e, "%s", error);
}

static int add(struct selector_reader *r, enum matcher_op op, struct view name, struct view value, uint32_t at, struct err *e)
{
	struct matcher m = { .op = op, .name = name, .value = value };
	int rc = r->shape_only ? 0 : matcher_init(&m, op, name, value, e);
	if (rc)
		r->at = at;
	else
		vec_push(&r->m, m);
	return rc;
}

static bool is_op(enum token_kind kind, enum matcher_op *ret)
{
	switch (kind) {
	case TOK_EQL: *ret = MATCH_EQ; return true;
	case TOK_NEQ: *ret = MATCH_NE; return true;
	case TOK_EQ_RE: *ret = MATCH_RE; return true;
	case TOK_NE_RE: *ret = MATCH_NRE; return true;
	default: return false;
	}
}

bool selector_angle_opens(const struct lexer *lex, const struct token *tok)
{
	if (tok->kind != TOK_LT)
		return false;
	struct lexer ahead = *lex;
	ahead.in_angle = true;
	struct token a, b, c;
	enum matcher_op op;
	lexer_next(&ahead, &a);
	lexer_next(&ahead, &b);
	lexer_next(&ahead, &c);
	if (a.kind == TOK_STRING && (b.kind == TOK_GT || b.kind == TOK_COMMA))
		return true;
	return (a.kind == TOK_IDENT || a.kind == TOK_STRING) && is_op(b.kind, &op) && c.kind == TOK_STRING;
}

static int set_name(struct selector_reader *r, uint32_t start, struct view name, struct err *e)
{
	if (r->name.ptr)
		return FAIL(r, start, e, "metric name must not be set twice: \"%.*s\" or \"%.*s\"", VIEW_ARG(r->name), VIEW_ARG(name));
	r->name = name;
	return 0;
}

/* One matcher; a lone quoted string is the metric's name. */
static int read_matcher(struct selector_reader *r, uint32_t start, enum token_kind close, struct err *e)
{
	struct token name = *r->tok;
	struct view label = name.text, value;
	enum matcher_op op;
	int rc = 0;
	if (name.kind == TOK_STRING)
		rc = unquote(r, &name, &label, e);
	else if (name.kind != TOK_IDENT || !label_name_plain(name.text))
		rc = unexpected(r, "label matching", close == TOK_GT ? "identifier or \">\"" : "identifier or \"}\"", e);
	if (rc)
		return rc;
	advance(r);
	if (name.kind == TOK_STRING && (r->tok->kind == TOK_COMMA || r->tok->kind == close)) {
		rc = add(r, MATCH_EQ, VIEW(LABEL_NAME), label, name.start, e);
		return rc ? rc : set_name(r, start, label, e);
	}
	if (!is_op(r->tok->kind, &op))
		return unexpected(r, "label matching", "label matching operator", e);
	advance(r);
	if (r->tok->kind != TOK_STRING)
		return unexpected(r, "label matching", "string", e);
	rc = unquote(r, r->tok, &value, e);
	if (!rc)
		rc = add(r, op, label, value, r->tok->start, e);
	if (!rc)
		advance(r);
	return rc;
}

/* Between the brackets; the closing one is left at hand. */
static int read_matchers(struct selector_reader *r, uint32_t start, enum token_kind close, struct err *e)
{
	while (r->tok->kind != close) {
		if (r->tok->kind == TOK_EOF)
			return FAIL(r, r->tok->start, e, "unexpected end of input inside braces");
		if (r->m.n == SELECTOR_MATCHERS_MAX)
			return FAIL(r, r->tok->start, e, "more than %d matchers in one selector", SELECTOR_MATCHERS_MAX);
		int rc = read_matcher(r, start, close, e);
		if (rc)
			return rc;
		if (r->tok->kind == close)
			break;
		if (r->tok->kind != TOK_COMMA)
			return unexpected(r, "label matching", close == TOK_GT ? "\",\" or \">\"" : "\",\" or \"}\"", e);
		advance(r);
	}
	size_t names = 0;
	for (size_t i = 0; i < r->m.n; i++)
		names += view_eqs(r->m.v[i].name, LABEL_NAME);
	if (r->name.ptr && names > 1)
		return FAIL(r, start, e, "metric name must not be set twice: \"%.*s\" and another matcher of " LABEL_NAME, VIEW_ARG(r->name));
	return 0;
}

int selector_read(struct selector_reader *r, struct err *e)
{
	uint32_t start = r->tok->start;
	struct view front = { 0 };
	int rc = 0;
	if (r->tok->kind == TOK_IDENT) {
		if (word_reserved(r->tok->text))
			return unexpected(r, "", "", e);
		front = r->tok->text;
		advance(r);
	}
	bool angle = selector_angle_opens(r->lex, r->tok);
	if (angle || r->tok->kind == TOK_LBRACE) {
		*(angle ? &r->lex->in_angle : &r->lex->in_brace) = true;
		advance(r);
		rc = read_matchers(r, start, angle ? TOK_GT : TOK_RBRACE, e);
		r->lex->in_angle = r->lex->in_brace = false;
		if (!rc)
			advance(r);
	}
	if (rc || !front.ptr)
		return rc;
	if (r->name.ptr)
		return FAIL(r, start, e, "metric name must not be set twice: \"%.*s\" or \"%.*s\"", VIEW_ARG(front), VIEW_ARG(r->name));
	r->name = front;
	for (size_t i = 0; i < r->m.n; i++)
		if (view_eqs(r->m.v[i].name, LABEL_NAME))
			return FAIL(r, start, e, "metric name must not be set twice: \"%.*s\" or \"%.*s\"", VIEW_ARG(front),
				    VIEW_ARG(r->m.v[i].value));
	return add(r, MATCH_EQ, VIEW(LABEL_NAME), front, start, e);
}

/* The language reads "inf" and "NaN" as numbers, unless braces follow. */
static bool is_number(const struct selector_reader *r)
{
	struct lexer ahead = *r->lex;
	struct token next;
	if (r->tok->kind != TOK_IDENT || !(view_eq_nocase(r->tok->text, VIEW("inf")) || view_eq_nocase(r->tok->text, VIEW("nan"))))
		return false;
	lexer_next(&ahead, &next);
	return next.kind != TOK_LBRACE;
}

static int read_whole(struct selector_reader *r, struct err *e)
{
	lexer_next(r->lex, r->tok);
	if (is_number(r))
		return FAIL(r, r->tok->start, e, "\"%.*s\" is a number, expected a selector such as {container=\"web\"}", VIEW_ARG(r->tok->text));
	if (r->tok->kind != TOK_IDENT && r->tok->kind != TOK_LBRACE && !selector_angle_opens(r->lex, r->tok))
		return unexpected(r, "", "a selector such as {container=\"web\"}", e);
	int rc = selector_read(r, e);
	return rc || r->tok->kind == TOK_EOF ? rc : unexpected(r, "", "the end of the selector", e);
}

int selector_parse(struct selector *ret, struct view text, struct err *e)
{
	struct token tok;
	uint32_t last_end = 0;
	struct err why = { 0 };
	*ret = (struct selector){ 0 };
	arena_init(&ret->arena, (size_t)1 << 20);
	struct lexer lex = { .src = arena_view(&ret->arena, text) };
	if (!lex.src.ptr)
		return err_set(e, ERR_LIMIT, "the selector is %zu bytes long; the limit is %zu", text.len, ret->arena.max);
	struct selector_reader r = { .lex = &lex, .tok = &tok, .last_end = &last_end, .arena = &ret->arena };
	int rc = read_whole(&r, &why);
	ret->m.v = r.m.v;
	ret->m.n = r.m.n;
	ret->m.cap = r.m.cap;
	return rc ? err_set(e, ERR_BAD_DATA, "selector \"%.*s\": byte %u: %s", VIEW_ARG(text), r.at + 1, why.msg) : 0;
}

void selector_release(struct selector *s)
{
	for (size_t i = 0; i < s->m.n; i++)
		matcher_release(&s->m.v[i]);
	vec_free(&s->m);
	arena_free(&s->arena);
}

void selector_format(const struct matcher *m, size_t n, struct buf *out)
{
	buf_putc(out, '{');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ',');
		labels_quote(out, m[i].name);
		buf_puts(out, matcher_op_text(m[i].op));
		labels_quote(out, m[i].value);
	}
	buf_putc(out, '}');
}
