/* SPDX-License-Identifier: Apache-2.0 */
/* Printing: the canonical text on one line, and broken over lines where it is long. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/units.h"
#include "promql-like/syntax/func.h"
#include "model/lexer.h"
#include "promql-like/syntax/printer.h"

#define LINE_MAX_CHARS 100

bool printer_goes_on(struct printer *p)
{
	if (p->rc)
		return false;
	if (p->out->overflow)
		p->rc = err_set(p->e, ERR_LIMIT, "the query's text would be longer than %zu bytes", p->out->max);
	else if (p->lim && p->printed++ % 256 == 0)
		p->rc = source_limits_check(p->lim, p->e);
	return !p->rc;
}

static void put_duration(int64_t ms, struct buf *out)
{
	char text[DURATION_LEN];
	buf_puts(out, units_format_duration(ms, text));
}

static void put_label_name(struct view v, struct buf *out)
{
	if (label_name_plain(v))
		buf_putv(out, v);
	else
		quote_string(v, out);
}

static void print_labels(const struct node_labels *l, struct buf *out)
{
	buf_putc(out, '(');
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_puts(out, ", ");
		put_label_name(l->v[i], out);
	}
	buf_putc(out, ')');
}

void print_number(const struct node *n, struct buf *out)
{
	char text[400];
	double v = n->number.v;
	if (n->number.duration) {
		put_duration(llround(v * 1000), out);
	} else if (isnan(v) || isinf(v)) {
		buf_puts(out, num_format(v, text));
	} else {
		num_format(v, text); /* the digits; never an exponent in the language's own text */
		if (strchr(text, 'e')) {
			snprintf(text, sizeof text, "%.*f", fabs(v) < 1 ? (int)MIN(340.0, 17 - floor(log10(fabs(v)))) : 0, v);
			if (strchr(text, '.')) {
				size_t len = strlen(text);
				while (len && text[len - 1] == '0')
					text[--len] = 0;
			}
		}
		buf_puts(out, text);
	}
}

static void put_duration_node(const struct node *n, struct buf *out)
{
	if (n->kind == NODE_NUMBER) {
		print_number(n, out);
		return;
	}
	if (n->dur.wrapped)
		buf_putc(out, '(');
	const char *op = binary_op_info(n->dur.op)->text;
	if (n->dur.op == OP_STEP || n->dur.op == OP_RANGE) {
		buf_puts(out, op);
	} else if (n->dur.op == OP_MIN_OF || n->dur.op == OP_MAX_OF) {
		buf_printf(out, "%s(", op);
		put_duration_node(n->dur.lhs, out);
		buf_puts(out, ", ");
		put_duration_node(n->dur.rhs, out);
		buf_putc(out, ')');
	} else if (!n->dur.lhs) {
		buf_puts(out, op);
		put_duration_node(n->dur.rhs, out);
	} else {
		put_duration_node(n->dur.lhs, out);
		buf_printf(out, " %s ", op);
		put_duration_node(n->dur.rhs, out);
	}
	if (n->dur.wrapped)
		buf_putc(out, ')');
}

static void print_mods(const struct time_mods *m, struct buf *out)
{
	if (m->edges)
		buf_printf(out, " %s", edges_text(m->edges));
	if (m->at == AT_TIME)
		buf_printf(out, " @ %.3f", (double)m->at_ms / 1000);
	else if (m->at != AT_NONE)
		buf_puts(out, m->at == AT_START ? " @ start()" : " @ end()");
	if (m->offset_expr) {
		buf_puts(out, " offset ");
		put_duration_node(m->offset_expr, out);
	} else if (m->has_offset && m->offset_ms) {
		buf_puts(out, " offset ");
		put_duration(m->offset_ms, out);
	}
}

static int by_text(const void *a, const void *b)
{
	return view_cmp(buf_view(a), buf_view(b));
}

static void print_matchers(const struct node_selector *s, struct buf *out)
{
	double number;
	bool duration, plain = metric_name_plain(s->name) && !word_reserved(s->name) && !lexer_parse_number(s->name, &number, &duration);
	struct buf *texts = xcalloc(s->n + 1, sizeof *texts);
	size_t n = 0;
	if (plain)
		buf_putv(out, s->name);
	for (size_t i = 0; i < s->n; i++) {
		const struct matcher *m = &s->m[i];
		/* a named selector has no other matcher of the name: this may be its alias's */
		bool is_name = view_eqs(m->name, LABEL_NAME) && s->name.len;
		if (is_name && plain)
			continue;
		if (is_name) {
			quote_string(s->name, &texts[n++]);
			continue;
		}
		put_label_name(m->name, &texts[n]);
		buf_puts(&texts[n], matcher_op_text(m->op));
		quote_string(m->value, &texts[n++]);
	}
	qsort(texts, n, sizeof *texts, by_text);
	if (n || !plain)
		buf_putc(out, '{');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ',');
		buf_putv(out, buf_view(&texts[i]));
	}
	if (n || !plain)
		buf_putc(out, '}');
	for (size_t i = 0; i < n; i++)
		buf_free(&texts[i]);
	free(texts);
}

static void put_fill(const char *word, double v, struct buf *out)
{
	buf_puts(out, word);
	print_number(&(struct node){ .kind = NODE_NUMBER, .number = { v, false } }, out);
	buf_putc(out, ')');
}

/* " + on (a)" without operands. */
static void print_binary_op(const struct node *n, struct buf *out)
{
	buf_puts(out, binary_op_info(n->binary.op)->text);
	if (n->binary.is_bool)
		buf_puts(out, " bool");
	bool grouped = n->binary.card == CARD_MANY_TO_ONE || n->binary.card == CARD_ONE_TO_MANY;
	if (n->binary.matching.n || n->binary.on || grouped) {
		buf_puts(out, n->binary.on ? " on " : " ignoring ");
		print_labels(&n->binary.matching, out);
	}
	if (grouped) {
		buf_puts(out, n->binary.card == CARD_MANY_TO_ONE ? " group_left " : " group_right ");
		print_labels(&n->binary.include, out);
	}
	const struct node_fill *f = n->binary.fill;
	if (f[0].set && f[1].set && f[0].v == f[1].v) {
		put_fill(" fill (", f[0].v, out);
		return;
	}
	if (f[0].set)
		put_fill(" fill_left (", f[0].v, out);
	if (f[1].set)
		put_fill(" fill_right (", f[1].v, out);
}

static void print_aggregate_op(const struct node *n, struct buf *out)
{
	buf_puts(out, aggregate_info(n->aggr.op)->name);
	if (n->aggr.without || n->aggr.by.n) {
		buf_puts(out, n->aggr.without ? " without " : " by ");
		print_labels(&n->aggr.by, out);
		buf_putc(out, ' ');
	}
}

/* "[range:step]" of a subquery, its modifiers included. */
static void print_subquery_range(const struct node *n, struct buf *out)
{
	buf_putc(out, '[');
	if (n->sub.range_expr)
		put_duration_node(n->sub.range_expr, out);
	else
		put_duration(n->sub.range_ms, out);
	buf_putc(out, ':');
	if (n->sub.step_expr)
		put_duration_node(n->sub.step_expr, out);
	else if (n->sub.step_ms)
		put_duration(n->sub.step_ms, out);
	buf_putc(out, ']');
	print_mods(&n->sub.mods, out);
}

static void print_range(const struct node *n, struct buf *out)
{
	print_matchers(&n->range.sel->sel, out);
	buf_putc(out, '[');
	if (n->range.expr)
		put_duration_node(n->range.expr, out);
	else
		put_duration(n->range.ms, out);
	buf_putc(out, ']');
	print_mods(&n->range.sel->sel.mods, out);
}

static void put_node(struct printer *p, const struct node *n);

static void put_args(struct printer *p, const struct node *n)
{
	for (size_t i = 0; i < n->call.n; i++) {
		if (i)
			buf_puts(p->out, ", ");
		put_node(p, n->call.args[i]);
	}
}

static void print_frames(const struct node *n, struct buf *out)
{
	struct node_selector s = { .m = n->frames.m, .n = n->frames.n };
	print_matchers(&s, out);
}

/* The sign of "+Inf" would be read as that of the whole power. */
static void put_left(struct printer *p, const struct node *n)
{
	const struct node *l = n->binary.lhs;
	if (n->binary.op == OP_POW && l->kind == NODE_NUMBER && isinf(l->number.v))
		buf_puts(p->out, "Inf");
	else
		put_node(p, l);
}

static void put_kind(struct printer *p, const struct node *n)
{
	struct buf *out = p->out;
	switch (n->kind) {
	case NODE_NUMBER: print_number(n, out); break;
	case NODE_STRING: quote_string(n->string, out); break;
	case NODE_SELECTOR:
		print_matchers(&n->sel, out);
		print_mods(&n->sel.mods, out);
		break;
	case NODE_RANGE: print_range(n, out); break;
	case NODE_SUBQUERY:
		put_node(p, n->sub.expr);
		print_subquery_range(n, out);
		break;
	case NODE_UNARY:
		buf_putc(out, n->unary.minus ? '-' : '+');
		put_node(p, n->unary.expr);
		break;
	case NODE_BINARY:
		put_left(p, n);
		buf_putc(out, ' ');
		print_binary_op(n, out);
		buf_putc(out, ' ');
		put_node(p, n->binary.rhs);
		break;
	case NODE_AGGREGATE:
		print_aggregate_op(n, out);
		buf_putc(out, '(');
		if (n->aggr.param) {
			put_node(p, n->aggr.param);
			buf_puts(out, ", ");
		}
		put_node(p, n->aggr.expr);
		buf_putc(out, ')');
		break;
	case NODE_CALL:
		buf_printf(out, "%s(", n->call.fn->name);
		put_args(p, n);
		buf_putc(out, ')');
		break;
	case NODE_PAREN:
		buf_putc(out, '(');
		put_node(p, n->paren);
		buf_putc(out, ')');
		break;
	case NODE_FRAMES: print_frames(n, out); break;
	case NODE_DURATION: put_duration_node(n, out); break;
	}
}

static void put_node(struct printer *p, const struct node *n)
{
	if (!printer_goes_on(p))
		return;
	size_t from = p->out->len;
	put_kind(p, n);
	if (p->texts)
		p->texts[n->id] = (struct node_text){ (uint32_t)from, (uint32_t)(p->out->len - from) };
}

void print_node(const struct node *n, struct buf *out)
{
	put_node(&(struct printer){ .out = out }, n);
}

struct node_text *print_texts(const struct promql_expr *x, struct buf *out)
{
	struct printer p = { .out = out, .texts = xcalloc(x->n_nodes, sizeof *p.texts) };
	out->max = MAX_TEXT;
	put_node(&p, x->root);
	return p.texts;
}

/* ---- over lines ---- */

static void indent(struct printer *p, unsigned level)
{
	for (unsigned i = 0; i < level && !p->no_indent; i++)
		buf_puts(p->out, "  ");
	p->no_indent = false;
}

static void pretty(struct printer *p, const struct node *n, unsigned level);

static void pretty_aggregate(struct printer *p, const struct node *n, unsigned level)
{
	indent(p, level);
	print_aggregate_op(n, p->out);
	buf_puts(p->out, "(\n");
	if (n->aggr.param) {
		pretty(p, n->aggr.param, level + 1);
		buf_puts(p->out, ",\n");
	}
	pretty(p, n->aggr.expr, level + 1);
	buf_putc(p->out, '\n');
	indent(p, level);
	buf_putc(p->out, ')');
}

static void pretty_call(struct printer *p, const struct node *n, unsigned level)
{
	indent(p, level);
	buf_printf(p->out, "%s(\n", n->call.fn->name);
	for (size_t i = 0; i < n->call.n; i++) {
		if (i)
			buf_puts(p->out, ",\n");
		pretty(p, n->call.args[i], level + 1);
	}
	buf_putc(p->out, '\n');
	indent(p, level);
	buf_putc(p->out, ')');
}

static void pretty(struct printer *p, const struct node *n, unsigned level)
{
	struct buf *out = p->out;
	if (!printer_goes_on(p))
		return;
	if (p->texts[n->id].len <= LINE_MAX_CHARS) {
		indent(p, level);
		print_node(n, out);
		return;
	}
	switch (n->kind) {
	case NODE_AGGREGATE: pretty_aggregate(p, n, level); break;
	case NODE_CALL: pretty_call(p, n, level); break;
	case NODE_BINARY:
		pretty(p, n->binary.lhs, level + 1);
		buf_putc(out, '\n');
		indent(p, level);
		print_binary_op(n, out);
		buf_putc(out, '\n');
		pretty(p, n->binary.rhs, level + 1);
		break;
	case NODE_PAREN:
		indent(p, level);
		buf_puts(out, "(\n");
		pretty(p, n->paren, level + 1);
		buf_putc(out, '\n');
		indent(p, level);
		buf_putc(out, ')');
		break;
	case NODE_SUBQUERY:
		pretty(p, n->sub.expr, level);
		print_subquery_range(n, out);
		break;
	case NODE_UNARY: /* the sign stands where its operand's first line would begin */
		indent(p, level);
		buf_putc(out, n->unary.minus ? '-' : '+');
		p->no_indent = true;
		pretty(p, n->unary.expr, level);
		break;
	default:
		indent(p, level);
		print_node(n, out);
	}
}

/* Each node is printed twice: on one line, to know what is long, and where it goes. */
int promql_format(const struct promql_expr *x, const struct source_limits *lim, struct buf *out, struct err *e)
{
	struct buf line = { .max = MAX_TEXT }, text = { .max = MAX_TEXT };
	struct printer p = { .out = &line, .texts = xcalloc(x->n_nodes, sizeof *p.texts), .lim = lim, .e = e };
	put_node(&p, x->root);
	p.out = &text;
	if (printer_goes_on(&p))
		pretty(&p, x->root, 0);
	if (printer_goes_on(&p))
		buf_putv(out, buf_view(&text));
	buf_free(&line);
	buf_free(&text);
	free(p.texts);
	return p.rc;
}

void promql_expr_print(const struct promql_expr *x, struct buf *out)
{
	print_node(x->root, out);
}
