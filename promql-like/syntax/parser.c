/* SPDX-License-Identifier: Apache-2.0 */
/* The parser: recursive descent, binary operators by precedence climbing. It looks at most a few tokens ahead (by
 * copying the lexer). The following tokens distinguish selectors, frame matchers and aggregations, since nearly every keyword is also
 * a legal name. The first error ends it. */
#include "promql-like/syntax/parser.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "model/selector.h"
#include "promql-like/syntax/func.h"

static struct node *parse_binary(struct promql_parser *p, int min_prec);

static struct view unquote(struct promql_parser *p, const struct token *t)
{
	struct view v;
	const char *error = "";
	if (!lexer_unquote(&p->x->arena, t->text, &v, &error))
		parser_die(p, t->start, "%s", error);
	return v;
}

/* ---- label lists ---- */

/* (a, "b c", by) */
static struct node_labels parse_labels(struct promql_parser *p)
{
	struct view fixed[64];
	size_t n = 0;
	parser_expect(p, TOK_LPAREN, "grouping opts", "\"(\"");
	while (p->tok.kind != TOK_RPAREN) {
		struct view name;
		if (p->tok.kind == TOK_STRING)
			name = unquote(p, &p->tok);
		else if (p->tok.kind == TOK_IDENT && label_name_plain(p->tok.text))
			name = p->tok.text;
		else
			parser_unexpected(p, "grouping opts", "label");
		if (!name.len)
			parser_die(p, p->tok.start, "invalid label name for grouping: \"\"");
		if (n == ARRAY_LEN(fixed))
			parser_die(p, p->tok.start, "more than %zu labels in one clause", ARRAY_LEN(fixed));
		fixed[n++] = name;
		parser_advance(p);
		if (p->tok.kind == TOK_RPAREN)
			break;
		parser_expect(p, TOK_COMMA, "grouping opts", "\",\" or \")\"");
	}
	parser_advance(p);
	struct node_labels out = { parser_alloc(p, (n + 1) * sizeof *out.v), n };
	memcpy(out.v, fixed, n * sizeof *out.v);
	return out;
}

/* ---- selectors ---- */

/* Copies of the matchers for the tree, which others may be put in the place of; the tree lets go of the originals. */
static void keep_matchers(struct promql_parser *p, struct node *n, struct selector_reader *r)
{
	size_t count = r->m.n;
	struct matcher *all = arena_calloc(&p->x->arena, 2 * count + 1, sizeof *all);
	for (size_t i = 0; i < count; i++) {
		if (!all) {
			matcher_release(&r->m.v[i]);
			continue;
		}
		all[i] = all[count + i] = r->m.v[i];
		vec_push(&p->x->matchers, &all[count + i]);
	}
	vec_free(&r->m);
	if (!all)
		parser_die(p, p->tok.start, "the query is too long");
	n->sel.m = all;
	n->sel.n = count;
}

static struct node *parse_selector(struct promql_parser *p)
{
	struct node *n = parser_node(p, NODE_SELECTOR, p->tok.start);
	struct selector_reader r = { .lex = &p->lex, .tok = &p->tok, .last_end = &p->last_end, .arena = &p->x->arena,
				     .shape_only = p->x->shape_only };
	struct err why = { 0 };
	int rc = selector_read(&r, &why);
	keep_matchers(p, n, &r);
	if (rc)
		parser_die(p, r.at, "%s", why.msg);
	n->sel.name = r.name;
	return parser_done(p, n);
}

/* ---- calls and aggregations ---- */

static struct node **parse_args(struct promql_parser *p, size_t *ret_n, const char *context)
{
	struct node *list[64];
	size_t n = 0;
	parser_expect(p, TOK_LPAREN, context, "\"(\"");
	while (p->tok.kind != TOK_RPAREN) {
		if (n == ARRAY_LEN(list))
			parser_die(p, p->tok.start, "more than %zu arguments", ARRAY_LEN(list));
		list[n++] = parse_binary(p, 0);
		if (p->tok.kind == TOK_RPAREN)
			break;
		if (p->tok.kind == TOK_EOF)
			parser_die(p, p->tok.start, "unclosed left parenthesis");
		uint32_t comma = p->tok.start;
		parser_expect(p, TOK_COMMA, context, "\",\" or \")\"");
		if (p->tok.kind == TOK_RPAREN)
			parser_die(p, comma, "trailing commas not allowed in function call args");
	}
	parser_advance(p);
	struct node **args = parser_alloc(p, (n + 1) * sizeof *args);
	memcpy(args, list, n * sizeof *args);
	*ret_n = n;
	return args;
}

static bool by_clause(struct promql_parser *p, struct node *n)
{
	if (!parser_word(&p->tok, "by") && !parser_word(&p->tok, "without"))
		return false;
	n->aggr.without = parser_word(&p->tok, "without");
	n->aggr.has_by = true;
	parser_advance(p);
	n->aggr.by = parse_labels(p);
	return true;
}

static struct node *parse_aggregate(struct promql_parser *p, enum aggregate_op op)
{
	struct node *n = parser_node(p, NODE_AGGREGATE, p->tok.start);
	const struct aggregate_info *info = aggregate_info(op);
	n->aggr.op = op;
	parser_advance(p);
	bool before = by_clause(p, n);
	size_t n_args;
	if (p->tok.kind != TOK_LPAREN)
		parser_unexpected(p, "aggregation", "");
	struct node **args = parse_args(p, &n_args, "aggregation");
	if (!before)
		by_clause(p, n);
	size_t want = info->param ? 2 : 1;
	if (n_args == 0)
		parser_die(p, n->start, "no arguments for aggregate expression provided");
	if (n_args != want)
		parser_die(p, n->start, "wrong number of arguments for aggregate expression provided, expected %zu, got %zu", want, n_args);
	if (op == AGGR_SPLIT && (!n->aggr.has_by || n->aggr.without || !n->aggr.by.n))
		parser_die(p, n->start, "split needs the sample labels to split by: split by (thread)(...)");
	n->aggr.expr = args[n_args - 1];
	n->aggr.param = info->param ? args[0] : NULL;
	return parser_done(p, n);
}

static struct node *parse_call(struct promql_parser *p)
{
	struct node *n = parser_node(p, NODE_CALL, p->tok.start);
	n->call.fn = func_lookup(p->tok.text);
	if (!n->call.fn)
		parser_die(p, p->tok.start, "unknown function with name \"%.*s\"", VIEW_ARG(p->tok.text));
	if (n->call.fn->form == FUNC_REFUSED)
		parser_die(p, p->tok.start, "function \"%s\" is not supported: %s", n->call.fn->name, n->call.fn->doc);
	if (n->call.fn->flags & FUNC_SWITCHED && !(promql_enabled() & PROMQL_EXPERIMENTAL))
		parser_die(p, p->tok.start, "function \"%s\" is experimental and not enabled: start with "
			   "--enable-feature=promql-experimental-functions", n->call.fn->name);
	parser_advance(p);
	n->call.args = parse_args(p, &n->call.n, "function call");
	return parser_done(p, n);
}

/* ---- operands ---- */

static struct node *parse_name(struct promql_parser *p)
{
	struct token next = parser_peek(p);
	enum aggregate_op op;
	bool clause = parser_word(&next, "by") || parser_word(&next, "without");
	if (aggregate_lookup(p->tok.text, &op) && (next.kind == TOK_LPAREN || clause))
		return parse_aggregate(p, op);
	if ((parser_word(&p->tok, "inf") || parser_word(&p->tok, "nan")) && next.kind != TOK_LPAREN && next.kind != TOK_LBRACE) {
		struct node *n = parser_node(p, NODE_NUMBER, p->tok.start);
		n->number.v = parser_word(&p->tok, "inf") ? INFINITY : NAN;
		parser_advance(p);
		return parser_done(p, n);
	}
	if (next.kind == TOK_LPAREN)
		return parse_call(p);
	return parse_selector(p);
}

static struct node *parse_primary(struct promql_parser *p)
{
	struct node *n;
	switch (p->tok.kind) {
	case TOK_NUMBER:
	case TOK_DURATION:
		n = parser_node(p, NODE_NUMBER, p->tok.start);
		n->number.v = p->tok.number;
		n->number.duration = p->tok.kind == TOK_DURATION;
		parser_advance(p);
		return parser_done(p, n);
	case TOK_STRING:
		n = parser_node(p, NODE_STRING, p->tok.start);
		n->string = unquote(p, &p->tok);
		parser_advance(p);
		return parser_done(p, n);
	case TOK_LPAREN:
		n = parser_node(p, NODE_PAREN, p->tok.start);
		parser_advance(p);
		n->paren = parse_binary(p, 0);
		if (p->tok.kind == TOK_EOF)
			parser_die(p, p->tok.start, "unclosed left parenthesis");
		parser_expect(p, TOK_RPAREN, "", "\")\"");
		return parser_done(p, n);
	case TOK_LBRACE:
		return parse_selector(p);
	case TOK_LT:
		if (selector_angle_opens(&p->lex, &p->tok))
			return parse_selector(p);
		break;
	case TOK_IDENT:
		return parse_name(p);
	case TOK_EOF:
		if (p->depth == 1 && p->last_end == 0)
			parser_die(p, 0, "no expression found in input");
		break;
	default:
		break;
	}
	parser_unexpected(p, "", "");
}

/* A sign binds looser than ^ and tighter than *. */
static struct node *parse_unary(struct promql_parser *p)
{
	if (p->tok.kind != TOK_ADD && p->tok.kind != TOK_SUB)
		return parser_time(p, parse_primary(p));
	bool minus = p->tok.kind == TOK_SUB;
	uint32_t start = p->tok.start;
	parser_advance(p);
	struct node *a = parse_binary(p, binary_op_info(OP_POW)->prec);
	if (a->kind == NODE_NUMBER) {
		a->number.v = minus ? -a->number.v : a->number.v;
		a->start = start;
		return a;
	}
	struct node *n = parser_node(p, NODE_UNARY, start);
	n->unary.minus = minus;
	n->unary.expr = a;
	return parser_done(p, n);
}

/* ---- binary operators ---- */

static bool binary_token(const struct promql_parser *p, enum binary_op *op)
{
	switch (p->tok.kind) {
	case TOK_ADD: *op = OP_ADD; return true;
	case TOK_SUB: *op = OP_SUB; return true;
	case TOK_MUL: *op = OP_MUL; return true;
	case TOK_DIV: *op = OP_DIV; return true;
	case TOK_MOD: *op = OP_MOD; return true;
	case TOK_POW: *op = OP_POW; return true;
	case TOK_EQLC: *op = OP_EQ; return true;
	case TOK_NEQ: *op = OP_NE; return true;
	case TOK_LT: *op = OP_LT; return true;
	case TOK_LE: *op = OP_LE; return true;
	case TOK_GT: *op = OP_GT; return true;
	case TOK_GE: *op = OP_GE; return true;
	case TOK_IDENT:
		*op = OP_ATAN2;
		if (parser_word(&p->tok, "atan2"))
			return true;
		*op = parser_word(&p->tok, "and") ? OP_AND : parser_word(&p->tok, "or") ? OP_OR : OP_UNLESS;
		return *op != OP_UNLESS || parser_word(&p->tok, "unless");
	default:
		return false;
	}
}

/* (number), where a sign may stand before it. */
static double parse_fill_value(struct promql_parser *p)
{
	double sign = 1;
	parser_expect(p, TOK_LPAREN, "fill modifier", "\"(\"");
	if (p->tok.kind == TOK_ADD || p->tok.kind == TOK_SUB) {
		sign = p->tok.kind == TOK_SUB ? -1 : 1;
		parser_advance(p);
	}
	bool inf = parser_word(&p->tok, "inf");
	if (p->tok.kind != TOK_NUMBER && p->tok.kind != TOK_DURATION && !inf && !parser_word(&p->tok, "nan"))
		parser_unexpected(p, "fill modifier", "number");
	double v = p->tok.kind != TOK_IDENT ? p->tok.number : inf ? INFINITY : NAN;
	parser_advance(p);
	parser_expect(p, TOK_RPAREN, "fill modifier", "\")\"");
	return sign * v;
}

/* fill(v), or fill_left(v) and fill_right(v) in either order. Without a parenthesis they are names of metrics. */
static void parse_fills(struct promql_parser *p, struct node *n)
{
	static const char *const words[] = { "fill_left", "fill_right", "fill" };
	struct node_fill *fill = NULL;
	n->binary.fill = no_fill;
	for (int at = -1; p->tok.kind == TOK_IDENT && parser_peek(p).kind == TOK_LPAREN;) {
		int k = 0;
		while (k < 3 && !parser_word(&p->tok, words[k]))
			k++;
		if (k == 3 || k == at || at == 2 || (k == 2 && at >= 0) || (n->binary.fill[0].set && n->binary.fill[1].set))
			return;
		if (at < 0)
			n->binary.fill = fill = parser_alloc(p, 2 * sizeof *fill);
		if (at < 0)
			n->binary.fill_start = p->tok.start;
		at = k;
		parser_advance(p);
		double v = parse_fill_value(p);
		for (int side = 0; side < 2; side++)
			if (k != 1 - side)
				fill[side] = (struct node_fill){ true, v };
	}
}

static void parse_matching(struct promql_parser *p, struct node *n)
{
	if (parser_word(&p->tok, "bool")) {
		n->binary.is_bool = true;
		parser_advance(p);
	}
	if (parser_word(&p->tok, "on") || parser_word(&p->tok, "ignoring")) {
		n->binary.on = parser_word(&p->tok, "on");
		n->binary.has_matching = true;
		parser_advance(p);
		n->binary.matching = parse_labels(p);
		if (parser_word(&p->tok, "group_left") || parser_word(&p->tok, "group_right")) {
			n->binary.card = parser_word(&p->tok, "group_left") ? CARD_MANY_TO_ONE : CARD_ONE_TO_MANY;
			parser_advance(p);
			if (p->tok.kind == TOK_LPAREN)
				n->binary.include = parse_labels(p);
		}
	}
	parse_fills(p, n);
}

static struct node *parse_binary(struct promql_parser *p, int min_prec)
{
	if (++p->depth > PARSER_MAX_DEPTH)
		parser_die(p, p->tok.start, "the query is nested deeper than %d levels", PARSER_MAX_DEPTH);
	struct node *lhs = parse_unary(p);
	enum binary_op op;
	while (binary_token(p, &op) && binary_op_info(op)->prec >= min_prec) {
		struct node *n = parser_node(p, NODE_BINARY, lhs->start);
		int prec = binary_op_info(op)->prec;
		n->binary.op = op;
		n->binary.op_start = p->tok.start;
		parser_advance(p);
		parse_matching(p, n);
		n->binary.lhs = lhs;
		n->binary.rhs = parse_binary(p, op == OP_POW ? prec : prec + 1);
		lhs = parser_done(p, n);
	}
	p->depth--;
	return lhs;
}

int parser_run(struct promql_expr *x, struct err *e)
{
	struct promql_parser p = { .x = x, .lex = { .src = x->src }, .e = e };
	if (setjmp(p.failed))
		return -ERR_BAD_DATA;
	parser_advance(&p);
	if (p.tok.kind == TOK_EOF)
		parser_die(&p, 0, "no expression found in input");
	x->root = parse_binary(&p, 0);
	if (p.tok.kind != TOK_EOF)
		parser_unexpected(&p, "", "");
	return 0;
}
