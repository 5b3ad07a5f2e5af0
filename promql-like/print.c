/* SPDX-License-Identifier: Apache-2.0 */
/* Printing: the canonical text on one line, broken over lines where it is long, and the tree as JSON. */
#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "base/units.h"
#include "func.h"
#include "lexer.h"

#define LINE_MAX_CHARS 100

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

void print_labels(const struct node_labels *l, struct buf *out)
{
	buf_putc(out, '(');
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_puts(out, ", ");
		put_label_name(l->v[i], out);
	}
	buf_putc(out, ')');
}

static void put_number(const struct node *n, struct buf *out)
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
		put_number(n, out);
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

void print_mods(const struct time_mods *m, struct buf *out)
{
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

void print_matchers(const struct node_selector *s, struct buf *out)
{
	double number;
	bool duration, plain = metric_name_plain(s->name) && !word_reserved(s->name) && !lexer_parse_number(s->name, &number, &duration);
	struct buf *texts = xcalloc(s->n + 1, sizeof *texts);
	size_t n = 0;
	if (plain)
		buf_putv(out, s->name);
	for (size_t i = 0; i < s->n; i++) {
		const struct matcher *m = &s->m[i];
		/* beside a name there is no other matcher of it: this may be what its alias stands for */
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

void print_binary_op(const struct node *n, struct buf *out)
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
}

void print_aggregate_op(const struct node *n, struct buf *out)
{
	buf_puts(out, aggregate_info(n->aggr.op)->name);
	if (n->aggr.without || n->aggr.by.n) {
		buf_puts(out, n->aggr.without ? " without " : " by ");
		print_labels(&n->aggr.by, out);
		buf_putc(out, ' ');
	}
}

void print_subquery_range(const struct node *n, struct buf *out)
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

static void print_args(const struct node *n, struct buf *out)
{
	for (size_t i = 0; i < n->call.n; i++) {
		if (i)
			buf_puts(out, ", ");
		print_node(n->call.args[i], out);
	}
}

static void print_frames(const struct node *n, struct buf *out)
{
	struct node_selector s = { .m = n->frames.m, .n = n->frames.n };
	print_matchers(&s, out);
}

/* The sign of "+Inf" would be read as one of the whole power. */
static void print_left(const struct node *n, struct buf *out)
{
	const struct node *l = n->binary.lhs;
	if (n->binary.op == OP_POW && l->kind == NODE_NUMBER && isinf(l->number.v))
		buf_puts(out, "Inf");
	else
		print_node(l, out);
}

void print_node(const struct node *n, struct buf *out)
{
	switch (n->kind) {
	case NODE_NUMBER: put_number(n, out); break;
	case NODE_STRING: quote_string(n->string, out); break;
	case NODE_SELECTOR:
		print_matchers(&n->sel, out);
		print_mods(&n->sel.mods, out);
		break;
	case NODE_RANGE: print_range(n, out); break;
	case NODE_SUBQUERY:
		print_node(n->sub.expr, out);
		print_subquery_range(n, out);
		break;
	case NODE_UNARY:
		buf_putc(out, n->unary.minus ? '-' : '+');
		print_node(n->unary.expr, out);
		break;
	case NODE_BINARY:
		print_left(n, out);
		buf_putc(out, ' ');
		print_binary_op(n, out);
		buf_putc(out, ' ');
		print_node(n->binary.rhs, out);
		break;
	case NODE_AGGREGATE:
		print_aggregate_op(n, out);
		buf_putc(out, '(');
		if (n->aggr.param) {
			print_node(n->aggr.param, out);
			buf_puts(out, ", ");
		}
		print_node(n->aggr.expr, out);
		buf_putc(out, ')');
		break;
	case NODE_CALL:
		buf_printf(out, "%s(", n->call.fn->name);
		print_args(n, out);
		buf_putc(out, ')');
		break;
	case NODE_PAREN:
		buf_putc(out, '(');
		print_node(n->paren, out);
		buf_putc(out, ')');
		break;
	case NODE_FRAMES: print_frames(n, out); break;
	case NODE_DURATION: put_duration_node(n, out); break;
	}
}

/* ---- over lines ---- */

static void indent(unsigned level, struct buf *out)
{
	for (unsigned i = 0; i < level; i++)
		buf_puts(out, "  ");
}

static bool is_long(const struct node *n)
{
	struct buf b = { 0 };
	print_node(n, &b);
	bool is = b.len > LINE_MAX_CHARS;
	buf_free(&b);
	return is;
}

static void pretty(const struct node *n, unsigned level, struct buf *out);

static void pretty_aggregate(const struct node *n, unsigned level, struct buf *out)
{
	indent(level, out);
	print_aggregate_op(n, out);
	buf_puts(out, "(\n");
	if (n->aggr.param) {
		pretty(n->aggr.param, level + 1, out);
		buf_puts(out, ",\n");
	}
	pretty(n->aggr.expr, level + 1, out);
	buf_putc(out, '\n');
	indent(level, out);
	buf_putc(out, ')');
}

static void pretty_call(const struct node *n, unsigned level, struct buf *out)
{
	indent(level, out);
	buf_printf(out, "%s(\n", n->call.fn->name);
	for (size_t i = 0; i < n->call.n; i++) {
		if (i)
			buf_puts(out, ",\n");
		pretty(n->call.args[i], level + 1, out);
	}
	buf_putc(out, '\n');
	indent(level, out);
	buf_putc(out, ')');
}

static void pretty(const struct node *n, unsigned level, struct buf *out)
{
	if (!is_long(n)) {
		indent(level, out);
		print_node(n, out);
		return;
	}
	switch (n->kind) {
	case NODE_AGGREGATE: pretty_aggregate(n, level, out); break;
	case NODE_CALL: pretty_call(n, level, out); break;
	case NODE_BINARY:
		pretty(n->binary.lhs, level + 1, out);
		buf_putc(out, '\n');
		indent(level, out);
		print_binary_op(n, out);
		buf_putc(out, '\n');
		pretty(n->binary.rhs, level + 1, out);
		break;
	case NODE_PAREN:
		indent(level, out);
		buf_puts(out, "(\n");
		pretty(n->paren, level + 1, out);
		buf_putc(out, '\n');
		indent(level, out);
		buf_putc(out, ')');
		break;
	case NODE_SUBQUERY:
		pretty(n->sub.expr, level, out);
		print_subquery_range(n, out);
		break;
	case NODE_UNARY: {
		struct buf inner = { 0 };
		pretty(n->unary.expr, level, &inner);
		indent(level, out);
		buf_putc(out, n->unary.minus ? '-' : '+');
		size_t skip = 0;
		while (skip < inner.len && inner.ptr[skip] == ' ')
			skip++;
		buf_put(out, inner.ptr + skip, inner.len - skip);
		buf_free(&inner);
		break;
	}
	default:
		indent(level, out);
		print_node(n, out);
	}
}

void promql_format(const struct promql_expr *x, struct buf *out)
{
	pretty(x->root, 0, out);
}

/* ---- JSON ---- */

static void json_names(const char *key, const struct node_labels *l, struct buf *out)
{
	buf_printf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_putc(out, ',');
		buf_json_string(out, l->v[i]);
	}
	buf_putc(out, ']');
}

static void json_mods(const struct time_mods *m, struct buf *out)
{
	buf_printf(out, ",\"offset\":%lld", (long long)m->offset_ms);
	if (m->at == AT_TIME)
		buf_printf(out, ",\"timestamp\":%lld", (long long)m->at_ms);
	else
		buf_puts(out, ",\"timestamp\":null");
	buf_printf(out, ",\"startOrEnd\":%s", m->at == AT_START ? "\"start\"" : m->at == AT_END ? "\"end\"" : "null");
}

static void json_matchers(const struct matcher *m, size_t n, struct buf *out)
{
	buf_puts(out, ",\"matchers\":[");
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ",{\"name\":" : "{\"name\":");
		buf_json_string(out, m[i].name);
		buf_printf(out, ",\"type\":\"%s\",\"value\":", matcher_op_text(m[i].op));
		buf_json_string(out, m[i].value);
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

static void json_selector(const struct node *n, struct buf *out)
{
	buf_puts(out, ",\"name\":");
	buf_json_string(out, n->sel.name.ptr ? n->sel.name : VIEW(""));
	json_matchers(n->sel.m, n->sel.n, out);
	json_mods(&n->sel.mods, out);
}

static void json_binary(const struct node *n, struct buf *out)
{
	static const char *const cards[] = { "one-to-one", "many-to-one", "one-to-many", "many-to-many" };
	buf_printf(out, "{\"type\":\"binaryExpr\",\"op\":\"%s\",\"bool\":%s,\"lhs\":", binary_op_info(n->binary.op)->text,
		   n->binary.is_bool ? "true" : "false");
	node_json(n->binary.lhs, out);
	buf_puts(out, ",\"rhs\":");
	node_json(n->binary.rhs, out);
	if (n->binary.lhs->type == PROMQL_VECTOR && n->binary.rhs->type == PROMQL_VECTOR) {
		buf_printf(out, ",\"matching\":{\"card\":\"%s\",\"on\":%s", cards[n->binary.card], n->binary.on ? "true" : "false");
		json_names("labels", &n->binary.matching, out);
		json_names("include", &n->binary.include, out);
		buf_putc(out, '}');
	} else {
		buf_puts(out, ",\"matching\":null");
	}
	buf_putc(out, '}');
}

static void json_call(const struct node *n, struct buf *out)
{
	const struct func *f = n->call.fn;
	int least, most;
	func_arity(f, &least, &most);
	buf_printf(out, "{\"type\":\"call\",\"func\":{\"name\":\"%s\",\"argTypes\":[", f->name);
	for (size_t i = 0; func_arg(f, i) && (most < 0 ? i <= (size_t)least : i < (size_t)most); i++) {
		char c = func_arg(f, i);
		const char *type = c == 's' ? "scalar" : c == 'v' ? "vector" : c == 'm' ? "matrix" : "string";
		buf_printf(out, "%s\"%s\"", i ? "," : "", type);
	}
	buf_printf(out, "],\"variadic\":%d,\"returnType\":\"%s\"},\"args\":[", most < 0 ? -1 : most - least,
		   promql_type_text(f->ret));
	for (size_t i = 0; i < n->call.n; i++) {
		if (i)
			buf_putc(out, ',');
		node_json(n->call.args[i], out);
	}
	buf_puts(out, "]}");
}

static void json_aggregate(const struct node *n, struct buf *out)
{
	buf_printf(out, "{\"type\":\"aggregation\",\"op\":\"%s\",\"expr\":", aggregate_info(n->aggr.op)->name);
	node_json(n->aggr.expr, out);
	buf_puts(out, ",\"param\":");
	if (n->aggr.param)
		node_json(n->aggr.param, out);
	else
		buf_puts(out, "null");
	json_names("grouping", &n->aggr.by, out);
	buf_printf(out, ",\"without\":%s}", n->aggr.without ? "true" : "false");
}

void node_json(const struct node *n, struct buf *out)
{
	struct buf text = { 0 };
	switch (n->kind) {
	case NODE_NUMBER:
		put_number(&(struct node){ .kind = NODE_NUMBER, .number = { n->number.v, false } }, &text);
		buf_puts(out, "{\"type\":\"numberLiteral\",\"val\":");
		buf_json_string(out, buf_view(&text));
		buf_putc(out, '}');
		break;
	case NODE_STRING:
		buf_puts(out, "{\"type\":\"stringLiteral\",\"val\":");
		buf_json_string(out, n->string);
		buf_putc(out, '}');
		break;
	case NODE_SELECTOR:
		buf_puts(out, "{\"type\":\"vectorSelector\"");
		json_selector(n, out);
		buf_putc(out, '}');
		break;
	case NODE_RANGE:
		buf_printf(out, "{\"type\":\"matrixSelector\",\"range\":%lld", (long long)n->range.ms);
		json_selector(n->range.sel, out);
		buf_putc(out, '}');
		break;
	case NODE_SUBQUERY:
		buf_puts(out, "{\"type\":\"subquery\",\"expr\":");
		node_json(n->sub.expr, out);
		buf_printf(out, ",\"range\":%lld,\"step\":%lld", (long long)n->sub.range_ms, (long long)n->sub.step_ms);
		json_mods(&n->sub.mods, out);
		buf_putc(out, '}');
		break;
	case NODE_UNARY:
		buf_printf(out, "{\"type\":\"unaryExpr\",\"op\":\"%s\",\"expr\":", n->unary.minus ? "-" : "+");
		node_json(n->unary.expr, out);
		buf_putc(out, '}');
		break;
	case NODE_PAREN:
		buf_puts(out, "{\"type\":\"parenExpr\",\"expr\":");
		node_json(n->paren, out);
		buf_putc(out, '}');
		break;
	case NODE_FRAMES:
		buf_puts(out, "{\"type\":\"frameMatcher\"");
		json_matchers(n->frames.m, n->frames.n, out);
		buf_putc(out, '}');
		break;
	case NODE_BINARY: json_binary(n, out); break;
	case NODE_CALL: json_call(n, out); break;
	case NODE_AGGREGATE: json_aggregate(n, out); break;
	case NODE_DURATION: break;
	}
	buf_free(&text);
}
