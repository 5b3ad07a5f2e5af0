/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a query as JSON, as Prometheus's parse_query has it; what profiles add is beside it. */
#include <math.h>

#include "base/json.h"
#include "promql-like/syntax/func.h"
#include "model/lexer.h"
#include "promql-like/syntax/printer.h"

static void json_names(const char *key, const struct node_labels *l, struct buf *out)
{
	json_array_begin_at(out, key);
	for (size_t i = 0; i < l->n; i++)
		json_text(out, l->v[i]);
	json_array_end(out);
}

/* An object with its type; members and the end follow. */
static void json_node(const char *type, struct buf *out)
{
	json_object_begin(out);
	json_field_text(out, "type", type);
}

static void json_number(double v, struct buf *out)
{
	struct buf text CLEANUP(buf_free) = { 0 };
	print_number(&(struct node){ .kind = NODE_NUMBER, .number = { v, false } }, &text);
	json_node("numberLiteral", out);
	json_field(out, "val", buf_view(&text));
}

/* "key": a calculated duration; null for a plain one, which is beside it in milliseconds. */
static void json_duration(const char *key, const struct node *n, struct buf *out)
{
	json_key(out, key);
	if (!n) {
		json_null_value(out);
	} else if (n->kind == NODE_NUMBER) {
		json_number(n->number.v, out);
		json_field_bool(out, "duration", n->number.duration);
		json_object_end(out);
	} else {
		struct view op = view_of(binary_op_info(n->dur.op)->text); /* step() and range() go without the parentheses */
		json_node("durationExpr", out);
		json_field(out, "op", view_make(op.ptr, view_ends(op, VIEW("()")) ? op.len - 2 : op.len));
		json_duration("lhs", n->dur.lhs, out);
		json_duration("rhs", n->dur.rhs, out);
		json_field_bool(out, "wrapped", n->dur.wrapped);
		json_object_end(out);
	}
}

static void json_mods(const struct time_mods *m, struct buf *out)
{
	json_field_int(out, "offset", m->offset_ms);
	json_duration("offsetExpr", m->offset_expr, out);
	json_key(out, "timestamp");
	if (m->at == AT_TIME)
		json_int(out, m->at_ms);
	else
		json_null_value(out);
	json_key(out, "startOrEnd");
	if (m->at == AT_START || m->at == AT_END)
		json_text(out, m->at == AT_START ? VIEW("start") : VIEW("end"));
	else
		json_null_value(out);
}

static void json_matchers(const struct matcher *m, size_t n, struct buf *out)
{
	json_array_begin_at(out, "matchers");
	for (size_t i = 0; i < n; i++) {
		json_object_begin(out);
		json_field(out, "name", m[i].name);
		json_field_text(out, "type", matcher_op_text(m[i].op));
		json_field(out, "value", m[i].value);
		json_object_end(out);
	}
	json_array_end(out);
}

static void json_selector(const struct node *n, struct buf *out)
{
	json_field(out, "name", n->sel.name.ptr ? n->sel.name : VIEW(""));
	json_matchers(n->sel.m, n->sel.n, out);
	json_mods(&n->sel.mods, out);
	json_field_bool(out, "anchored", n->sel.mods.edges == EDGES_ANCHORED);
	json_field_bool(out, "smoothed", n->sel.mods.edges == EDGES_SMOOTHED);
}

static void put_json(struct printer *p, const struct node *n);

/* JSON has no number for an infinity: a string, as of a literal. */
static void json_fill(const char *key, const struct node *n, size_t i, struct buf *out)
{
	struct buf text CLEANUP(buf_free) = { 0 };
	double v = n->binary.fill[i].v;
	json_key(out, key);
	if (!n->binary.fill[i].set) {
		json_null_value(out);
		return;
	}
	print_number(&(struct node){ .kind = NODE_NUMBER, .number = { v, false } }, &text);
	if (isfinite(v))
		json_raw(out, buf_view(&text));
	else
		json_text(out, buf_view(&text));
}

static void json_matching(const struct node *n, struct buf *out)
{
	static const char *const cards[] = { "one-to-one", "many-to-one", "one-to-many", "many-to-many" };
	json_key(out, "matching");
	if (n->binary.lhs->type != PROMQL_VECTOR || n->binary.rhs->type != PROMQL_VECTOR) {
		json_null_value(out);
		return;
	}
	json_object_begin(out);
	json_field_text(out, "card", cards[n->binary.card]);
	json_field_bool(out, "on", n->binary.on);
	json_names("labels", &n->binary.matching, out);
	json_names("include", &n->binary.include, out);
	json_object_begin_at(out, "fillValues");
	json_fill("lhs", n, 0, out);
	json_fill("rhs", n, 1, out);
	json_object_end(out);
	json_object_end(out);
}

static void json_child(struct printer *p, const char *key, const struct node *n)
{
	json_key(p->out, key);
	put_json(p, n);
}

static void json_binary(struct printer *p, const struct node *n)
{
	json_node("binaryExpr", p->out);
	json_field_text(p->out, "op", binary_op_info(n->binary.op)->text);
	json_field_bool(p->out, "bool", n->binary.is_bool);
	json_child(p, "lhs", n->binary.lhs);
	json_child(p, "rhs", n->binary.rhs);
	json_matching(n, p->out);
	json_object_end(p->out);
}

static void json_function(const struct node *n, struct buf *out)
{
	const struct func *f = n->call.fn;
	int least, most;
	func_arity(f, &least, &most);
	json_object_begin_at(out, "func");
	json_field_text(out, "name", f->name);
	json_array_begin_at(out, "argTypes");
	for (size_t i = 0, all = most < 0 ? n->call.n : (size_t)most; func_arg(f, all, i) && (most < 0 ? i <= (size_t)least : i < (size_t)most); i++) {
		char c = func_arg(f, all, i);
		json_text(out, view_of(c == 's' ? "scalar" : c == 'v' || c == 'l' ? "vector" : c == 'm' ? "matrix" : "string"));
	}
	json_array_end(out);
	json_field_int(out, "variadic", most < 0 ? -1 : most - least);
	json_field_text(out, "returnType", promql_type_text(f->ret));
	json_object_end(out);
}

static void json_call(struct printer *p, const struct node *n)
{
	json_node("call", p->out);
	json_function(n, p->out);
	json_array_begin_at(p->out, "args");
	for (size_t i = 0; i < n->call.n; i++)
		put_json(p, n->call.args[i]);
	json_array_end(p->out);
	json_object_end(p->out);
}

static void json_aggregate(struct printer *p, const struct node *n)
{
	json_node("aggregation", p->out);
	json_field_text(p->out, "op", aggregate_info(n->aggr.op)->name);
	json_child(p, "expr", n->aggr.expr);
	json_key(p->out, "param");
	if (n->aggr.param)
		put_json(p, n->aggr.param);
	else
		json_null_value(p->out);
	json_names("grouping", &n->aggr.by, p->out);
	json_field_bool(p->out, "without", n->aggr.without);
	json_object_end(p->out);
}

static void json_subquery(struct printer *p, const struct node *n)
{
	json_node("subquery", p->out);
	json_child(p, "expr", n->sub.expr);
	json_field_int(p->out, "range", n->sub.range_ms);
	json_field_int(p->out, "step", n->sub.step_ms);
	json_duration("rangeExpr", n->sub.range_expr, p->out);
	json_duration("stepExpr", n->sub.step_expr, p->out);
	json_mods(&n->sub.mods, p->out);
	json_object_end(p->out);
}

static void put_json(struct printer *p, const struct node *n)
{
	if (!printer_goes_on(p))
		return;
	struct buf *out = p->out;
	switch (n->kind) {
	case NODE_NUMBER:
		json_number(n->number.v, out);
		break;
	case NODE_STRING:
		json_node("stringLiteral", out);
		json_field(out, "val", n->string);
		break;
	case NODE_SELECTOR:
		json_node("vectorSelector", out);
		json_selector(n, out);
		break;
	case NODE_RANGE:
		json_node("matrixSelector", out);
		json_field_int(out, "range", n->range.ms);
		json_duration("rangeExpr", n->range.expr, out);
		json_selector(n->range.sel, out);
		break;
	case NODE_UNARY:
		json_node("unaryExpr", out);
		json_field_text(out, "op", n->unary.minus ? "-" : "+");
		json_child(p, "expr", n->unary.expr);
		break;
	case NODE_PAREN:
		json_node("parenExpr", out);
		json_child(p, "expr", n->paren);
		break;
	case NODE_FRAMES:
		json_node("frameMatcher", out);
		json_matchers(n->frames.m, n->frames.n, out);
		break;
	case NODE_SUBQUERY: json_subquery(p, n); return;
	case NODE_BINARY: json_binary(p, n); return;
	case NODE_CALL: json_call(p, n); return;
	case NODE_AGGREGATE: json_aggregate(p, n); return;
	case NODE_DURATION: return;
	}
	json_object_end(out);
}

int promql_expr_json(const struct promql_expr *x, const struct source_limits *lim, struct buf *out, struct err *e)
{
	struct buf text = { .max = MAX_TEXT };
	struct printer p = { .out = &text, .lim = lim, .e = e };
	put_json(&p, x->root);
	if (printer_goes_on(&p))
		buf_putv(out, buf_view(&text));
	buf_free(&text);
	return p.rc;
}
