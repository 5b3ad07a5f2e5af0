/* SPDX-License-Identifier: Apache-2.0 */
/* Time in a query: durations, which may be calculated ([5m * 2], [step() + 1s]), and the suffixes of an operand: ranges, subqueries,
 * offset and @. A duration that is a literal becomes milliseconds here, anything else is kept as a tree for the engine, which knows
 * the query's start, end and step. */
#include <math.h>

#include "promql-like/syntax/parser.h"

/* ---- durations ---- */

static struct node *parse_duration(struct promql_parser *p, int min_prec);

static bool duration_call(const struct promql_parser *p, const char *name)
{
	return parser_word(&p->tok, name) && parser_peek(p).kind == TOK_LPAREN;
}

static struct node *parse_duration_call(struct promql_parser *p, enum binary_op op, bool args)
{
	struct node *n = parser_node(p, NODE_DURATION, p->tok.start);
	n->dur.op = op;
	parser_advance(p);
	parser_expect(p, TOK_LPAREN, "duration", "\"(\"");
	if (args) {
		n->dur.lhs = parse_duration(p, 0);
		parser_expect(p, TOK_COMMA, "duration", "\",\"");
		n->dur.rhs = parse_duration(p, 0);
	}
	parser_expect(p, TOK_RPAREN, "duration", "\")\"");
	return parser_done(p, n);
}

static struct node *negate_duration(struct promql_parser *p, struct node *a, uint32_t start)
{
	if (a->kind == NODE_NUMBER) {
		a->number.v = -a->number.v;
		a->start = start;
		return a;
	}
	struct node *n = parser_node(p, NODE_DURATION, start);
	n->dur.op = OP_SUB;
	n->dur.rhs = a;
	return parser_done(p, n);
}

static struct node *parse_duration_operand(struct promql_parser *p)
{
	uint32_t start = p->tok.start;
	if (p->tok.kind == TOK_NUMBER || p->tok.kind == TOK_DURATION) {
		struct node *n = parser_node(p, NODE_NUMBER, start);
		n->number.v = p->tok.number;
		n->number.duration = p->tok.kind == TOK_DURATION;
		if (!(fabs(n->number.v) < 9.2e9))
			parser_die(p, start, "duration out of range");
		parser_advance(p);
		return parser_done(p, n);
	}
	if (p->tok.kind == TOK_ADD || p->tok.kind == TOK_SUB) {
		bool minus = p->tok.kind == TOK_SUB;
		parser_advance(p);
		struct node *a = parse_duration(p, 6);
		return minus ? negate_duration(p, a, start) : a;
	}
	if (p->tok.kind == TOK_LPAREN) {
		parser_advance(p);
		struct node *a = parse_duration(p, 0);
		parser_expect(p, TOK_RPAREN, "duration", "\")\"");
		if (a->kind == NODE_DURATION)
			a->dur.wrapped = true;
		return a;
	}
	if (duration_call(p, "step"))
		return parse_duration_call(p, OP_STEP, false);
	if (duration_call(p, "range"))
		return parse_duration_call(p, OP_RANGE, false);
	if (duration_call(p, "min_of") || duration_call(p, "max_of"))
		return parse_duration_call(p, parser_word(&p->tok, "min_of") ? OP_MIN_OF : OP_MAX_OF, true);
	parser_unexpected(p, p->lex.in_bracket ? "subquery or range selector" : "offset", "number, duration, step(), or range()");
}

static int duration_op(const struct token *t, enum binary_op *op)
{
	switch (t->kind) {
	case TOK_ADD: *op = OP_ADD; return 4;
	case TOK_SUB: *op = OP_SUB; return 4;
	case TOK_MUL: *op = OP_MUL; return 5;
	case TOK_DIV: *op = OP_DIV; return 5;
	case TOK_MOD: *op = OP_MOD; return 5;
	case TOK_POW: *op = OP_POW; return 6;
	default: return -1;
	}
}

static struct node *parse_duration(struct promql_parser *p, int min_prec)
{
	if (++p->depth > PARSER_MAX_DEPTH)
		parser_die(p, p->tok.start, "the query is nested deeper than %d levels", PARSER_MAX_DEPTH);
	struct node *lhs = parse_duration_operand(p);
	enum binary_op op;
	int prec;
	while ((prec = duration_op(&p->tok, &op)) >= 0 && prec >= min_prec) {
		uint32_t at = p->tok.start;
		parser_advance(p);
		struct node *rhs = parse_duration(p, op == OP_POW ? prec : prec + 1);
		if ((op == OP_DIV || op == OP_MOD) && rhs->kind == NODE_NUMBER && rhs->number.v == 0)
			parser_die(p, at, op == OP_DIV ? "division by zero" : "modulo by zero");
		struct node *n = parser_node(p, NODE_DURATION, lhs->start);
		n->dur.op = op;
		n->dur.lhs = lhs;
		n->dur.rhs = rhs;
		lhs = parser_done(p, n);
	}
	p->depth--;
	return lhs;
}

/* A literal goes into *ret_ms, anything else is returned. */
static struct node *duration_or_ms(struct promql_parser *p, struct node *d, bool positive, int64_t *ret_ms)
{
	if (d->kind != NODE_NUMBER)
		return d;
	if (positive && d->number.v <= 0)
		parser_die(p, d->start, "duration must be greater than 0");
	*ret_ms = llround(d->number.v * 1000);
	if (positive && !*ret_ms)
		parser_die(p, d->start, "duration must be a millisecond at least");
	return NULL;
}

/* ---- what follows an operand ---- */

static struct time_mods *mods_of(struct node *n)
{
	switch (n->kind) {
	case NODE_SELECTOR: return &n->sel.mods;
	case NODE_RANGE: return &n->range.sel->sel.mods;
	case NODE_SUBQUERY: return &n->sub.mods;
	default: return NULL;
	}
}

static void parse_offset(struct promql_parser *p, struct node *n)
{
	parser_advance(p);
	/* A sign, then one operand: `offset 5m + x` adds to the value, `offset -2 ^ 2` squares it. */
	uint32_t start = p->tok.start;
	bool minus = p->tok.kind == TOK_SUB;
	if (minus || p->tok.kind == TOK_ADD)
		parser_advance(p);
	struct node *d = parse_duration_operand(p);
	/* `offset ++3^2` is calculated as a whole, and has to be printed so. */
	for (struct node *x = d; x && x->kind == NODE_DURATION; x = x->dur.lhs ? NULL : x->dur.rhs)
		if (x->dur.lhs && x->dur.op != OP_MIN_OF && x->dur.op != OP_MAX_OF)
			x->dur.wrapped = true;
	if (minus)
		d = negate_duration(p, d, start);
	struct time_mods *m = mods_of(n);
	if (!m)
		parser_die(p, n->start, "offset modifier must be preceded by an instant vector selector or range vector selector or a subquery");
	if (m->has_offset)
		parser_die(p, n->start, "offset may not be set multiple times");
	m->has_offset = true;
	m->offset_expr = duration_or_ms(p, d, false, &m->offset_ms);
	parser_done(p, n);
}

static void parse_at(struct promql_parser *p, struct node *n)
{
	parser_advance(p);
	struct time_mods *m = mods_of(n);
	if (!m)
		parser_die(p, n->start, "@ modifier must be preceded by an instant vector selector or range vector selector or a subquery");
	if (m->at != AT_NONE)
		parser_die(p, n->start, "@ <timestamp> may not be set multiple times");
	if (parser_word(&p->tok, "start") || parser_word(&p->tok, "end")) {
		m->at = parser_word(&p->tok, "start") ? AT_START : AT_END;
		parser_advance(p);
		parser_expect(p, TOK_LPAREN, "@", "\"(\"");
		parser_expect(p, TOK_RPAREN, "@", "\")\"");
		n->end = p->last_end;
		return;
	}
	double sign = p->tok.kind == TOK_SUB ? -1 : 1;
	if (p->tok.kind == TOK_ADD || p->tok.kind == TOK_SUB)
		parser_advance(p);
	double v = p->tok.number;
	bool named = p->tok.kind == TOK_IDENT && (parser_word(&p->tok, "inf") || parser_word(&p->tok, "nan"));
	if (named)
		parser_die(p, p->tok.start, "timestamp out of bounds for @ modifier: %.*s", VIEW_ARG(p->tok.text));
	if (p->tok.kind != TOK_NUMBER && p->tok.kind != TOK_DURATION)
		parser_unexpected(p, "@", "timestamp");
	if (!(v < 9223372036854774.0))
		parser_die(p, p->tok.start, "timestamp out of bounds for @ modifier: %g", v * sign);
	m->at = AT_TIME;
	m->at_ms = llround(sign * v * 1000);
	parser_advance(p);
	n->end = p->last_end;
}

static void parse_edges(struct promql_parser *p, struct node *n, enum range_edges edges)
{
	const char *word = edges_text(edges);
	if (!(promql_enabled() & PROMQL_EXTENDED_RANGES))
		parser_die(p, n->start, "%s modifier is experimental and not enabled: start with "
			   "--enable-feature=promql-extended-range-selectors", word);
	if (n->kind == NODE_SUBQUERY)
		parser_die(p, n->start, "%s modifier is not supported for subqueries", word);
	struct time_mods *m = mods_of(n);
	if (!m)
		parser_die(p, n->start, "%s modifier must be preceded by an instant vector selector or range vector selector", word);
	if (m->edges && m->edges != edges)
		parser_die(p, n->start, "anchored and smoothed modifiers cannot be used together");
	m->edges = edges;
	n->end = p->tok.end;
	parser_advance(p);
}

static struct node *parse_subquery(struct promql_parser *p, struct node *expr, struct node *range)
{
	struct node *n = parser_node(p, NODE_SUBQUERY, expr->start);
	n->sub.expr = expr;
	n->sub.range_expr = duration_or_ms(p, range, true, &n->sub.range_ms);
	parser_advance(p);
	if (p->tok.kind != TOK_RBRACKET)
		n->sub.step_expr = duration_or_ms(p, parse_duration(p, 0), true, &n->sub.step_ms);
	if (p->tok.kind != TOK_RBRACKET)
		parser_unexpected(p, "subquery selector", "\"]\"");
	p->lex.in_bracket = false;
	parser_advance(p);
	return parser_done(p, n);
}

static struct node *parse_bracket(struct promql_parser *p, struct node *expr)
{
	uint32_t at = p->tok.start;
	p->lex.in_bracket = true;
	parser_advance(p);
	struct node *range = parse_duration(p, 0);
	if (p->tok.kind == TOK_COLON)
		return parse_subquery(p, expr, range);
	if (p->tok.kind != TOK_RBRACKET)
		parser_unexpected(p, "subquery or range", "\":\" or \"]\"");
	if (expr->kind != NODE_SELECTOR)
		parser_die(p, at, "ranges only allowed for vector selectors");
	if (expr->sel.mods.has_offset)
		parser_die(p, at, "no offset modifiers allowed before range");
	if (expr->sel.mods.at != AT_NONE)
		parser_die(p, at, "no @ modifiers allowed before range");
	struct node *n = parser_node(p, NODE_RANGE, expr->start);
	n->range.sel = expr;
	n->range.expr = duration_or_ms(p, range, true, &n->range.ms);
	p->lex.in_bracket = false;
	parser_advance(p);
	return parser_done(p, n);
}

struct node *parser_time(struct promql_parser *p, struct node *n)
{
	for (;;) {
		if (p->tok.kind == TOK_LBRACKET)
			n = parse_bracket(p, n);
		else if (p->tok.kind == TOK_AT)
			parse_at(p, n);
		else if (parser_word(&p->tok, "offset"))
			parse_offset(p, n);
		else if (parser_word(&p->tok, "anchored") || parser_word(&p->tok, "smoothed"))
			parse_edges(p, n, parser_word(&p->tok, "anchored") ? EDGES_ANCHORED : EDGES_SMOOTHED);
		else
			return n;
	}
}
