/* SPDX-License-Identifier: Apache-2.0 */
/* The parser: recursive descent, binary operators by precedence climbing. It looks at most a few tokens ahead (by
 * copying the lexer). Selectors, frame matchers and aggregations are told apart by what follows, since every keyword
 * but a few is also a legal name. The first error ends it. */
#include "ast.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <strings.h>

#include "func.h"
#include "lexer.h"

#define MAX_DEPTH 400

struct parser {
	struct promql_expr *x;
	struct lexer lex;
	struct token tok;   /* the one to look at next */
	uint32_t last_end;  /* where the token before it ended */
	unsigned depth;
	struct err *e;
	jmp_buf failed;
};

static struct node *parse_binary(struct parser *p, int min_prec);

static NORETURN void die(struct parser *p, uint32_t at, const char *fmt, ...) PRINTF_LIKE(3, 4);
static NORETURN void die(struct parser *p, uint32_t at, const char *fmt, ...)
{
	char msg[800];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	parse_error(p->e, p->x->src, at, "%s", msg);
	longjmp(p->failed, 1);
}

static NORETURN void die_lexer(struct parser *p)
{
	const struct token *t = &p->tok;
	if (t->end)
		die(p, t->start, "%s\"%.*s\"", t->error, (int)(t->end - t->start), p->x->src.ptr + t->start);
	die(p, t->start, t->bad[0] ? "%s'%s'" : "%s", t->error, t->bad);
}

static void advance(struct parser *p)
{
	p->last_end = p->tok.end;
	lexer_next(&p->lex, &p->tok);
}

/* "unexpected X in CONTEXT, expected Y". */
static NORETURN void unexpected(struct parser *p, const char *context, const char *expected)
{
	if (p->tok.kind == TOK_ERROR)
		die_lexer(p);
	struct buf what = { .max = 400 };
	token_describe(&p->tok, &what);
	char text[420];
	snprintf(text, sizeof text, "%s", what.overflow || !what.ptr ? "a long token" : what.ptr);
	buf_free(&what);
	die(p, p->tok.start, "unexpected %s%s%s%s%s", text, *context ? " in " : "", context, *expected ? ", expected " : "",
	    expected);
}

static void expect(struct parser *p, enum token_kind kind, const char *context, const char *expected)
{
	if (p->tok.kind != kind)
		unexpected(p, context, expected);
	advance(p);
}

static struct token peek(const struct parser *p)
{
	struct lexer ahead = p->lex;
	struct token t;
	lexer_next(&ahead, &t);
	return t;
}

static bool word(const struct token *t, const char *w)
{
	return t->kind == TOK_IDENT && t->text.len == strlen(w) && strncasecmp(t->text.ptr, w, t->text.len) == 0;
}

static void *alloc(struct parser *p, size_t n)
{
	void *m = arena_calloc(&p->x->arena, 1, n);
	if (!m)
		die(p, p->tok.start, "the query is too long");
	return m;
}

static struct node *new_node(struct parser *p, enum node_kind kind, uint32_t start)
{
	struct node *n = alloc(p, sizeof *n);
	n->kind = kind;
	n->start = start;
	n->id = p->x->n_nodes++;
	return n;
}

static struct node *done(struct parser *p, struct node *n)
{
	n->end = p->last_end;
	return n;
}

static struct view unquote(struct parser *p, const struct token *t)
{
	struct view v;
	const char *error = "";
	if (!lexer_unquote(&p->x->arena, t->text, &v, &error))
		die(p, t->start, "%s", error);
	return v;
}

/* ---- label lists ---- */

/* (a, "b c", by) */
static struct node_labels parse_labels(struct parser *p)
{
	struct view fixed[64];
	size_t n = 0;
	expect(p, TOK_LPAREN, "grouping opts", "\"(\"");
	while (p->tok.kind != TOK_RPAREN) {
		struct view name;
		if (p->tok.kind == TOK_STRING)
			name = unquote(p, &p->tok);
		else if (p->tok.kind == TOK_IDENT && label_name_plain(p->tok.text))
			name = p->tok.text;
		else
			unexpected(p, "grouping opts", "label");
		if (!name.len)
			die(p, p->tok.start, "invalid label name for grouping: \"\"");
		if (n == ARRAY_LEN(fixed))
			die(p, p->tok.start, "more than %zu labels in one clause", ARRAY_LEN(fixed));
		fixed[n++] = name;
		advance(p);
		if (p->tok.kind == TOK_RPAREN)
			break;
		expect(p, TOK_COMMA, "grouping opts", "\",\" or \")\"");
	}
	advance(p);
	struct node_labels out = { alloc(p, (n + 1) * sizeof *out.v), n };
	memcpy(out.v, fixed, n * sizeof *out.v);
	return out;
}

/* ---- selectors ---- */

static struct matcher *new_matcher(struct parser *p, enum matcher_op op, struct view name, struct view value, uint32_t at)
{
	struct matcher *m = alloc(p, sizeof *m);
	struct err e = { 0 };
	if (matcher_init(m, op, name, value, &e))
		die(p, at, "%s", e.msg);
	vec_push(&p->x->matchers, m);
	return m;
}

static enum matcher_op parse_match_op(struct parser *p)
{
	enum matcher_op op;
	switch (p->tok.kind) {
	case TOK_EQL: op = MATCH_EQ; break;
	case TOK_NEQ: op = MATCH_NE; break;
	case TOK_EQ_RE: op = MATCH_RE; break;
	case TOK_NE_RE: op = MATCH_NRE; break;
	default: unexpected(p, "label matching", "label matching operator");
	}
	advance(p);
	return op;
}

/* One matcher; a lone quoted string is the metric's name. */
static struct matcher *parse_matcher(struct parser *p, struct view *quoted_name)
{
	struct token name = p->tok;
	struct view label;
	if (name.kind == TOK_STRING)
		label = unquote(p, &name);
	else if (name.kind == TOK_IDENT && label_name_plain(name.text))
		label = name.text;
	else
		unexpected(p, "label matching", p->lex.in_angle ? "identifier or \">\"" : "identifier or \"}\"");
	advance(p);
	bool ends = p->tok.kind == TOK_COMMA || p->tok.kind == (p->lex.in_angle ? TOK_GT : TOK_RBRACE);
	if (name.kind == TOK_STRING && ends) {
		*quoted_name = label;
		return new_matcher(p, MATCH_EQ, VIEW(LABEL_NAME), label, name.start);
	}
	enum matcher_op op = parse_match_op(p);
	if (p->tok.kind != TOK_STRING)
		unexpected(p, "label matching", "string");
	struct view value = unquote(p, &p->tok);
	struct matcher *m = new_matcher(p, op, label, value, p->tok.start);
	advance(p);
	return m;
}

/* Between the braces; the closing one is left as the current token, with the lexer's mode switched back. */
static void parse_matchers(struct parser *p, struct node *n)
{
	enum token_kind close = p->lex.in_angle ? TOK_GT : TOK_RBRACE;
	struct matcher *list[128];
	size_t count = 0;
	while (p->tok.kind != close) {
		if (p->tok.kind == TOK_EOF)
			die(p, p->tok.start, "unexpected end of input inside braces");
		if (count == ARRAY_LEN(list))
			die(p, p->tok.start, "more than %zu matchers in one selector", ARRAY_LEN(list));
		struct view quoted = { 0 };
		list[count++] = parse_matcher(p, &quoted);
		if (quoted.ptr) {
			if (n->sel.name.ptr)
				die(p, n->start, "metric name must not be set twice: \"%.*s\" or \"%.*s\"", VIEW_ARG(n->sel.name),
				    VIEW_ARG(quoted));
			n->sel.name = quoted;
		}
		if (p->tok.kind == close)
			break;
		if (p->tok.kind != TOK_COMMA)
			unexpected(p, "label matching", close == TOK_GT ? "\",\" or \">\"" : "\",\" or \"}\"");
		advance(p);
	}
	size_t names = 0;
	n->sel.m = alloc(p, (count + 1) * sizeof *n->sel.m);
	for (size_t i = 0; i < count; i++) {
		n->sel.m[i] = *list[i];
		names += view_eqs(list[i]->name, LABEL_NAME);
	}
	if (n->sel.name.ptr && names > 1)
		die(p, n->start, "metric name must not be set twice: \"%.*s\" and another matcher of " LABEL_NAME,
		    VIEW_ARG(n->sel.name));
	n->sel.n = count;
}

/* `<` opens a selector when `label matchop string` or a quoted name follows. */
static bool angle_opens(const struct parser *p)
{
	if (p->tok.kind != TOK_LT)
		return false;
	struct lexer ahead = p->lex;
	ahead.in_angle = true;
	struct token a, b, c;
	lexer_next(&ahead, &a);
	lexer_next(&ahead, &b);
	lexer_next(&ahead, &c);
	bool op = b.kind == TOK_EQL || b.kind == TOK_NEQ || b.kind == TOK_EQ_RE || b.kind == TOK_NE_RE;
	if (a.kind == TOK_STRING && (b.kind == TOK_GT || b.kind == TOK_COMMA))
		return true;
	return (a.kind == TOK_IDENT || a.kind == TOK_STRING) && op && c.kind == TOK_STRING;
}

static void add_name_matcher(struct parser *p, struct node *n, uint32_t at)
{
	for (size_t i = 0; i < n->sel.n; i++)
		if (view_eqs(n->sel.m[i].name, LABEL_NAME))
			die(p, at, "metric name must not be set twice: \"%.*s\" or \"%.*s\"", VIEW_ARG(n->sel.name),
			    VIEW_ARG(n->sel.m[i].value));
	n->sel.m[n->sel.n++] = *new_matcher(p, MATCH_EQ, VIEW(LABEL_NAME), n->sel.name, at);
}

static struct node *parse_selector(struct parser *p)
{
	struct node *n = new_node(p, NODE_SELECTOR, p->tok.start);
	struct view name = { 0 };
	if (p->tok.kind == TOK_IDENT) {
		name = p->tok.text;
		advance(p);
	}
	bool angle = angle_opens(p);
	if (angle || p->tok.kind == TOK_LBRACE) {
		*(angle ? &p->lex.in_angle : &p->lex.in_brace) = true;
		if (name.ptr)
			n->sel.name = (struct view){ NULL, 0 };
		advance(p);
		parse_matchers(p, n);
		p->lex.in_angle = p->lex.in_brace = false;
		advance(p);
	} else {
		n->sel.m = alloc(p, sizeof *n->sel.m);
	}
	if (name.ptr) {
		struct view quoted = n->sel.name;
		n->sel.name = name;
		if (quoted.ptr)
			die(p, n->start, "metric name must not be set twice: \"%.*s\" or \"%.*s\"", VIEW_ARG(name),
			    VIEW_ARG(quoted));
		add_name_matcher(p, n, n->start);
	}
	return done(p, n);
}

/* ---- durations ---- */

static struct node *parse_duration(struct parser *p, int min_prec);

static bool duration_call(const struct parser *p, const char *name)
{
	return word(&p->tok, name) && peek(p).kind == TOK_LPAREN;
}

static struct node *parse_duration_call(struct parser *p, enum binary_op op, bool args)
{
	struct node *n = new_node(p, NODE_DURATION, p->tok.start);
	n->dur.op = op;
	advance(p);
	expect(p, TOK_LPAREN, "duration", "\"(\"");
	if (args) {
		n->dur.lhs = parse_duration(p, 0);
		expect(p, TOK_COMMA, "duration", "\",\"");
		n->dur.rhs = parse_duration(p, 0);
	}
	expect(p, TOK_RPAREN, "duration", "\")\"");
	return done(p, n);
}

static struct node *negate_duration(struct parser *p, struct node *a, uint32_t start)
{
	if (a->kind == NODE_NUMBER) {
		a->number.v = -a->number.v;
		a->start = start;
		return a;
	}
	struct node *n = new_node(p, NODE_DURATION, start);
	n->dur.op = OP_SUB;
	n->dur.rhs = a;
	return done(p, n);
}

static struct node *parse_duration_operand(struct parser *p)
{
	uint32_t start = p->tok.start;
	if (p->tok.kind == TOK_NUMBER || p->tok.kind == TOK_DURATION) {
		struct node *n = new_node(p, NODE_NUMBER, start);
		n->number.v = p->tok.number;
		n->number.duration = p->tok.kind == TOK_DURATION;
		if (!(fabs(n->number.v) < 9.2e9))
			die(p, start, "duration out of range");
		advance(p);
		return done(p, n);
	}
	if (p->tok.kind == TOK_ADD || p->tok.kind == TOK_SUB) {
		bool minus = p->tok.kind == TOK_SUB;
		advance(p);
		struct node *a = parse_duration(p, 6);
		return minus ? negate_duration(p, a, start) : a;
	}
	if (p->tok.kind == TOK_LPAREN) {
		advance(p);
		struct node *a = parse_duration(p, 0);
		expect(p, TOK_RPAREN, "duration", "\")\"");
		if (a->kind == NODE_DURATION)
			a->dur.wrapped = true;
		return a;
	}
	if (duration_call(p, "step"))
		return parse_duration_call(p, OP_STEP, false);
	if (duration_call(p, "range"))
		return parse_duration_call(p, OP_RANGE, false);
	if (duration_call(p, "min_of") || duration_call(p, "max_of"))
		return parse_duration_call(p, word(&p->tok, "min_of") ? OP_MIN_OF : OP_MAX_OF, true);
	unexpected(p, p->lex.in_bracket ? "subquery or range selector" : "offset", "number, duration, step(), or range()");
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

static struct node *parse_duration(struct parser *p, int min_prec)
{
	if (++p->depth > MAX_DEPTH)
		die(p, p->tok.start, "the query is nested deeper than %d levels", MAX_DEPTH);
	struct node *lhs = parse_duration_operand(p);
	enum binary_op op;
	int prec;
	while ((prec = duration_op(&p->tok, &op)) >= 0 && prec >= min_prec) {
		uint32_t at = p->tok.start;
		advance(p);
		struct node *rhs = parse_duration(p, op == OP_POW ? prec : prec + 1);
		if ((op == OP_DIV || op == OP_MOD) && rhs->kind == NODE_NUMBER && rhs->number.v == 0)
			die(p, at, op == OP_DIV ? "division by zero" : "modulo by zero");
		struct node *n = new_node(p, NODE_DURATION, lhs->start);
		n->dur.op = op;
		n->dur.lhs = lhs;
		n->dur.rhs = rhs;
		lhs = done(p, n);
	}
	p->depth--;
	return lhs;
}

/* A literal goes into *ret_ms, anything else is returned. */
static struct node *duration_or_ms(struct parser *p, struct node *d, bool positive, int64_t *ret_ms)
{
	if (d->kind != NODE_NUMBER)
		return d;
	if (positive && d->number.v <= 0)
		die(p, d->start, "duration must be greater than 0");
	*ret_ms = llround(d->number.v * 1000);
	if (positive && !*ret_ms)
		die(p, d->start, "duration must be a millisecond at least");
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

static void parse_offset(struct parser *p, struct node *n)
{
	advance(p);
	/* A sign, then one operand: `offset 5m + x` adds to the value, `offset -2 ^ 2` squares it. */
	uint32_t start = p->tok.start;
	bool minus = p->tok.kind == TOK_SUB;
	if (minus || p->tok.kind == TOK_ADD)
		advance(p);
	struct node *d = parse_duration_operand(p);
	/* `offset ++3^2` is calculated as a whole, and has to be printed so. */
	for (struct node *x = d; x && x->kind == NODE_DURATION; x = x->dur.lhs ? NULL : x->dur.rhs)
		if (x->dur.lhs && x->dur.op != OP_MIN_OF && x->dur.op != OP_MAX_OF)
			x->dur.wrapped = true;
	if (minus)
		d = negate_duration(p, d, start);
	struct time_mods *m = mods_of(n);
	if (!m)
		die(p, n->start, "offset modifier must be preceded by an instant vector selector or range vector selector or a subquery");
	if (m->has_offset)
		die(p, n->start, "offset may not be set multiple times");
	m->has_offset = true;
	m->offset_expr = duration_or_ms(p, d, false, &m->offset_ms);
	n->end = p->last_end;
}

static void parse_at(struct parser *p, struct node *n)
{
	advance(p);
	struct time_mods *m = mods_of(n);
	if (!m)
		die(p, n->start, "@ modifier must be preceded by an instant vector selector or range vector selector or a subquery");
	if (m->at != AT_NONE)
		die(p, n->start, "@ <timestamp> may not be set multiple times");
	if (word(&p->tok, "start") || word(&p->tok, "end")) {
		m->at = word(&p->tok, "start") ? AT_START : AT_END;
		advance(p);
		expect(p, TOK_LPAREN, "@", "\"(\"");
		expect(p, TOK_RPAREN, "@", "\")\"");
		n->end = p->last_end;
		return;
	}
	double sign = p->tok.kind == TOK_SUB ? -1 : 1;
	if (p->tok.kind == TOK_ADD || p->tok.kind == TOK_SUB)
		advance(p);
	double v = p->tok.number;
	bool named = p->tok.kind == TOK_IDENT && (word(&p->tok, "inf") || word(&p->tok, "nan"));
	if (named)
		die(p, p->tok.start, "timestamp out of bounds for @ modifier: %.*s", VIEW_ARG(p->tok.text));
	if (p->tok.kind != TOK_NUMBER && p->tok.kind != TOK_DURATION)
		unexpected(p, "@", "timestamp");
	if (!(v < 9223372036854774.0))
		die(p, p->tok.start, "timestamp out of bounds for @ modifier: %g", v * sign);
	m->at = AT_TIME;
	m->at_ms = llround(sign * v * 1000);
	advance(p);
	n->end = p->last_end;
}

static struct node *parse_subquery(struct parser *p, struct node *expr, struct node *range)
{
	struct node *n = new_node(p, NODE_SUBQUERY, expr->start);
	n->sub.expr = expr;
	n->sub.range_expr = duration_or_ms(p, range, true, &n->sub.range_ms);
	advance(p);
	if (p->tok.kind != TOK_RBRACKET)
		n->sub.step_expr = duration_or_ms(p, parse_duration(p, 0), true, &n->sub.step_ms);
	if (p->tok.kind != TOK_RBRACKET)
		unexpected(p, "subquery selector", "\"]\"");
	p->lex.in_bracket = false;
	advance(p);
	return done(p, n);
}

static struct node *parse_bracket(struct parser *p, struct node *expr)
{
	uint32_t at = p->tok.start;
	p->lex.in_bracket = true;
	advance(p);
	struct node *range = parse_duration(p, 0);
	if (p->tok.kind == TOK_COLON)
		return parse_subquery(p, expr, range);
	if (p->tok.kind != TOK_RBRACKET)
		unexpected(p, "subquery or range", "\":\" or \"]\"");
	if (expr->kind != NODE_SELECTOR)
		die(p, at, "ranges only allowed for vector selectors");
	if (expr->sel.mods.has_offset)
		die(p, at, "no offset modifiers allowed before range");
	if (expr->sel.mods.at != AT_NONE)
		die(p, at, "no @ modifiers allowed before range");
	struct node *n = new_node(p, NODE_RANGE, expr->start);
	n->range.sel = expr;
	n->range.expr = duration_or_ms(p, range, true, &n->range.ms);
	p->lex.in_bracket = false;
	advance(p);
	return done(p, n);
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
	for (;;) {
		if (p->tok.kind == TOK_LBRACKET)
			n = parse_bracket(p, n);
		else if (p->tok.kind == TOK_AT)
			parse_at(p, n);
		else if (word(&p->tok, "offset"))
			parse_offset(p, n);
		else if (word(&p->tok, "anchored") || word(&p->tok, "smoothed"))
			die(p, p->tok.start, "the modifier \"%.*s\" is experimental in Prometheus and not supported here",
			    VIEW_ARG(p->tok.text));
		else
			return n;
	}
}

/* ---- calls and aggregations ---- */

static struct node **parse_args(struct parser *p, size_t *ret_n, const char *context)
{
	struct node *list[64];
	size_t n = 0;
	expect(p, TOK_LPAREN, context, "\"(\"");
	while (p->tok.kind != TOK_RPAREN) {
		if (n == ARRAY_LEN(list))
			die(p, p->tok.start, "more than %zu arguments", ARRAY_LEN(list));
		list[n++] = parse_binary(p, 0);
		if (p->tok.kind == TOK_RPAREN)
			break;
		if (p->tok.kind == TOK_EOF)
			die(p, p->tok.start, "unclosed left parenthesis");
		uint32_t comma = p->tok.start;
		expect(p, TOK_COMMA, context, "\",\" or \")\"");
		if (p->tok.kind == TOK_RPAREN)
			die(p, comma, "trailing commas not allowed in function call args");
	}
	advance(p);
	struct node **args = alloc(p, (n + 1) * sizeof *args);
	memcpy(args, list, n * sizeof *args);
	*ret_n = n;
	return args;
}

static bool by_clause(struct parser *p, struct node *n)
{
	if (!word(&p->tok, "by") && !word(&p->tok, "without"))
		return false;
	n->aggr.without = word(&p->tok, "without");
	n->aggr.has_by = true;
	advance(p);
	n->aggr.by = parse_labels(p);
	return true;
}

static struct node *parse_aggregate(struct parser *p, enum aggregate_op op)
{
	struct node *n = new_node(p, NODE_AGGREGATE, p->tok.start);
	const struct aggregate_info *info = aggregate_info(op);
	n->aggr.op = op;
	advance(p);
	bool before = by_clause(p, n);
	size_t n_args;
	if (p->tok.kind != TOK_LPAREN)
		unexpected(p, "aggregation", "");
	struct node **args = parse_args(p, &n_args, "aggregation");
	if (!before)
		by_clause(p, n);
	done(p, n);
	size_t want = info->param ? 2 : 1;
	if (n_args == 0)
		die(p, n->start, "no arguments for aggregate expression provided");
	if (n_args != want)
		die(p, n->start, "wrong number of arguments for aggregate expression provided, expected %zu, got %zu", want, n_args);
	if (op == AGGR_SPLIT && (!n->aggr.has_by || n->aggr.without || !n->aggr.by.n))
		die(p, n->start, "split needs the sample labels to split by: split by (thread)(...)");
	n->aggr.expr = args[n_args - 1];
	n->aggr.param = info->param ? args[0] : NULL;
	return n;
}

static struct node *parse_call(struct parser *p)
{
	struct node *n = new_node(p, NODE_CALL, p->tok.start);
	n->call.fn = func_lookup(p->tok.text);
	if (!n->call.fn)
		die(p, p->tok.start, "unknown function with name \"%.*s\"", VIEW_ARG(p->tok.text));
	if (n->call.fn->form == FUNC_REFUSED)
		die(p, p->tok.start, "function \"%s\" is not supported: %s", n->call.fn->name, n->call.fn->doc);
	advance(p);
	n->call.args = parse_args(p, &n->call.n, "function call");
	return done(p, n);
}

/* ---- operands ---- */

static struct node *parse_name(struct parser *p)
{
	struct token next = peek(p);
	enum aggregate_op op;
	bool clause = word(&next, "by") || word(&next, "without");
	if (aggregate_lookup(p->tok.text, &op) && (next.kind == TOK_LPAREN || clause))
		return parse_aggregate(p, op);
	if ((word(&p->tok, "inf") || word(&p->tok, "nan")) && next.kind != TOK_LPAREN && next.kind != TOK_LBRACE) {
		struct node *n = new_node(p, NODE_NUMBER, p->tok.start);
		n->number.v = word(&p->tok, "inf") ? INFINITY : NAN;
		advance(p);
		return done(p, n);
	}
	if (next.kind == TOK_LPAREN)
		return parse_call(p);
	if (p->tok.kind == TOK_IDENT && word_reserved(p->tok.text))
		unexpected(p, "", "");
	return parse_selector(p);
}

static struct node *parse_primary(struct parser *p)
{
	struct node *n;
	switch (p->tok.kind) {
	case TOK_NUMBER:
	case TOK_DURATION:
		n = new_node(p, NODE_NUMBER, p->tok.start);
		n->number.v = p->tok.number;
		n->number.duration = p->tok.kind == TOK_DURATION;
		advance(p);
		return done(p, n);
	case TOK_STRING:
		n = new_node(p, NODE_STRING, p->tok.start);
		n->string = unquote(p, &p->tok);
		advance(p);
		return done(p, n);
	case TOK_LPAREN:
		n = new_node(p, NODE_PAREN, p->tok.start);
		advance(p);
		n->paren = parse_binary(p, 0);
		if (p->tok.kind == TOK_EOF)
			die(p, p->tok.start, "unclosed left parenthesis");
		expect(p, TOK_RPAREN, "", "\")\"");
		return done(p, n);
	case TOK_LBRACE:
		return parse_selector(p);
	case TOK_LT:
		if (angle_opens(p))
			return parse_selector(p);
		break;
	case TOK_IDENT:
		return parse_name(p);
	case TOK_EOF:
		if (p->depth == 1 && p->last_end == 0)
			die(p, 0, "no expression found in input");
		break;
	default:
		break;
	}
	unexpected(p, "", "");
}

/* A sign binds looser than ^ and tighter than *. */
static struct node *parse_unary(struct parser *p)
{
	if (p->tok.kind != TOK_ADD && p->tok.kind != TOK_SUB)
		return parse_postfix(p, parse_primary(p));
	bool minus = p->tok.kind == TOK_SUB;
	uint32_t start = p->tok.start;
	advance(p);
	struct node *a = parse_binary(p, binary_op_info(OP_POW)->prec);
	if (a->kind == NODE_NUMBER) {
		a->number.v = minus ? -a->number.v : a->number.v;
		a->start = start;
		return a;
	}
	struct node *n = new_node(p, NODE_UNARY, start);
	n->unary.minus = minus;
	n->unary.expr = a;
	return done(p, n);
}

/* ---- binary operators ---- */

static bool binary_token(const struct parser *p, enum binary_op *op)
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
		if (word(&p->tok, "atan2"))
			return true;
		*op = word(&p->tok, "and") ? OP_AND : word(&p->tok, "or") ? OP_OR : OP_UNLESS;
		return *op != OP_UNLESS || word(&p->tok, "unless");
	default:
		return false;
	}
}

static void parse_matching(struct parser *p, struct node *n)
{
	if (word(&p->tok, "bool")) {
		n->binary.is_bool = true;
		advance(p);
	}
	if (word(&p->tok, "on") || word(&p->tok, "ignoring")) {
		n->binary.on = word(&p->tok, "on");
		n->binary.has_matching = true;
		advance(p);
		n->binary.matching = parse_labels(p);
		if (word(&p->tok, "group_left") || word(&p->tok, "group_right")) {
			n->binary.card = word(&p->tok, "group_left") ? CARD_MANY_TO_ONE : CARD_ONE_TO_MANY;
			advance(p);
			if (p->tok.kind == TOK_LPAREN)
				n->binary.include = parse_labels(p);
		}
	}
	if ((word(&p->tok, "fill") || word(&p->tok, "fill_left") || word(&p->tok, "fill_right")) && peek(p).kind == TOK_LPAREN)
		die(p, p->tok.start, "the modifier \"%.*s\" is experimental in Prometheus and not supported here",
		    VIEW_ARG(p->tok.text));
}

static struct node *parse_binary(struct parser *p, int min_prec)
{
	if (++p->depth > MAX_DEPTH)
		die(p, p->tok.start, "the query is nested deeper than %d levels", MAX_DEPTH);
	struct node *lhs = parse_unary(p);
	enum binary_op op;
	while (binary_token(p, &op) && binary_op_info(op)->prec >= min_prec) {
		struct node *n = new_node(p, NODE_BINARY, lhs->start);
		int prec = binary_op_info(op)->prec;
		n->binary.op = op;
		n->binary.op_start = p->tok.start;
		advance(p);
		parse_matching(p, n);
		n->binary.lhs = lhs;
		n->binary.rhs = parse_binary(p, op == OP_POW ? prec : prec + 1);
		lhs = done(p, n);
	}
	p->depth--;
	return lhs;
}

int parser_run(struct promql_expr *x, struct err *e)
{
	struct parser p = { .x = x, .lex = { .src = x->src }, .e = e };
	if (setjmp(p.failed))
		return -ERR_BAD_DATA;
	advance(&p);
	if (p.tok.kind == TOK_EOF)
		die(&p, 0, "no expression found in input");
	x->root = parse_binary(&p, 0);
	if (p.tok.kind != TOK_EOF)
		unexpected(&p, "", "");
	return 0;
}
