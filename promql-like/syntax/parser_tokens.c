/* SPDX-License-Identifier: Apache-2.0 */
/* Basics of the grammar's rules: the current token, the first error, making nodes. */
#include "promql-like/syntax/parser.h"

#include <stdio.h>

void parser_die(struct promql_parser *p, uint32_t at, const char *fmt, ...)
{
	char msg[800];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	parse_error(p->e, p->x->src, at, "%s", msg);
	longjmp(p->failed, 1);
}

void parser_advance(struct promql_parser *p)
{
	p->last_end = p->tok.end;
	lexer_next(&p->lex, &p->tok);
}

void parser_unexpected(struct promql_parser *p, const char *context, const char *expected)
{
	struct err why = { 0 };
	uint32_t at;
	token_unexpected(&p->tok, p->x->src, context, expected, &at, &why);
	parser_die(p, at, "%s", why.msg);
}

void parser_expect(struct promql_parser *p, enum token_kind kind, const char *context, const char *expected)
{
	if (p->tok.kind != kind)
		parser_unexpected(p, context, expected);
	parser_advance(p);
}

struct token parser_peek(const struct promql_parser *p)
{
	struct lexer ahead = p->lex;
	struct token t;
	lexer_next(&ahead, &t);
	return t;
}

bool parser_word(const struct token *t, const char *w)
{
	return t->kind == TOK_IDENT && view_eq_nocase(t->text, view_of(w));
}

void *parser_alloc(struct promql_parser *p, size_t n)
{
	void *m = arena_calloc(&p->x->arena, 1, n);
	if (!m)
		parser_die(p, p->tok.start, "the query is too long");
	return m;
}

struct node *parser_node(struct promql_parser *p, enum node_kind kind, uint32_t start)
{
	struct node *n = parser_alloc(p, sizeof *n);
	n->kind = kind;
	n->start = start;
	n->id = p->x->n_nodes++;
	return n;
}

static uint32_t height_of(const struct node *n)
{
	return n ? n->height : 0;
}

static uint32_t mods_height(const struct node *n)
{
	return height_of(n->sel.mods.offset_expr);
}

/* Of the highest child, durations included. */
static uint32_t height_below(const struct node *n)
{
	uint32_t h = 0;
	switch (n->kind) {
	case NODE_SELECTOR: return mods_height(n);
	case NODE_RANGE: return MAX(height_of(n->range.expr), MAX(mods_height(n->range.sel), n->range.sel->height));
	case NODE_SUBQUERY:
		h = MAX(height_of(n->sub.range_expr), height_of(n->sub.step_expr));
		return MAX(h, MAX(height_of(n->sub.expr), height_of(n->sub.mods.offset_expr)));
	case NODE_UNARY: return height_of(n->unary.expr);
	case NODE_BINARY: return MAX(height_of(n->binary.lhs), height_of(n->binary.rhs));
	case NODE_AGGREGATE: return MAX(height_of(n->aggr.expr), height_of(n->aggr.param));
	case NODE_CALL:
		for (size_t i = 0; i < n->call.n; i++)
			h = MAX(h, n->call.args[i]->height);
		return h;
	case NODE_PAREN: return height_of(n->paren);
	case NODE_DURATION: return MAX(height_of(n->dur.lhs), height_of(n->dur.rhs));
	case NODE_NUMBER: case NODE_STRING: case NODE_FRAMES: break;
	}
	return 0;
}

struct node *parser_done(struct promql_parser *p, struct node *n)
{
	n->end = p->last_end;
	n->height = height_below(n) + 1;
	if (n->height > NODE_MAX_HEIGHT)
		parser_die(p, n->end, "more than %d operations are nested in each other up to here: use fewer, or group a chain by parentheses",
			   NODE_MAX_HEIGHT);
	return n;
}
