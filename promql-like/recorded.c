/* SPDX-License-Identifier: Apache-2.0 */
/* The kind of an expression whose profiles a rule records (rule 8 of docs/profql.md). A delta is the sum of a range of deltas, each profile in one
 * range only. Filtering, scaling and adding deltas gives a delta too. Everything else is a gauge, a state as it was at the time. */
#include "base/units.h"
#include "model/ptype.h"
#include "promql-like/syntax/ast.h"
#include "promql-like/syntax/func.h"

enum shape {
	SHAPE_GAUGE,
	SHAPE_DELTA,  /* if what is selected are deltas */
	SHAPE_NEWEST, /* a profile as it stands, which only a gauge may be */
};

struct recorded {
	const struct promql_expr *x;
	int64_t interval_ms;
};

/* The kind of a selector's series, if its name gives it; 0 = unknown. */
static enum profile_kind kind_of(const struct node_selector *s)
{
	struct ptype t;
	for (size_t i = 0; i < s->n; i++) {
		if (s->m[i].op != MATCH_EQ || !view_eqs(s->m[i].name, LABEL_NAME))
			continue;
		struct view full = ptype_alias(s->m[i].value);
		return ptype_parse(full.len ? full : s->m[i].value, &t) ? t.kind : 0;
	}
	return 0;
}

/* A plain range of deltas, each of which shall count once. */
static int check_range(const struct recorded *r, const struct node *range, enum shape *ret, struct err *e)
{
	char want[DURATION_LEN], is[DURATION_LEN];
	const struct node_selector *s = &range->range.sel->sel;
	*ret = SHAPE_GAUGE;
	if (kind_of(s) == PROFILE_GAUGE)
		return 0;
	*ret = SHAPE_DELTA;
	if (s->mods.at != AT_NONE)
		return parse_error(e, r->x->src, range->start, "@ in what profiles are recorded of: they would count once per evaluation");
	if (range->range.expr || s->mods.offset_expr)
		return parse_error(e, r->x->src, range->start, "the range of what is recorded as profiles has to be a plain duration, the group's "
				   "interval: %s", units_format_duration(r->interval_ms, want));
	if (range->range.ms != r->interval_ms)
		return parse_error(e, r->x->src, range->start, "the range of what is recorded as profiles is %s, and the group's interval %s: they have "
				   "to be equal, so that each profile counts once", units_format_duration(range->range.ms, is),
				   units_format_duration(r->interval_ms, want));
	return 0;
}

static int shape_of(const struct recorded *r, struct node *n, enum shape *ret, struct err *e);

/* For two that are combined: if one is not a delta, the result is none. */
static int both(const struct recorded *r, struct node *a, struct node *b, enum shape *ret, struct err *e)
{
	enum shape x = SHAPE_GAUGE, y = SHAPE_GAUGE;
	int rc = shape_of(r, a, &x, e);
	if (!rc)
		rc = shape_of(r, b, &y, e);
	if (!rc && x != y && (x == SHAPE_DELTA || y == SHAPE_DELTA))
		return parse_error(e, r->x->src, b->start, "what is recorded as profiles puts together what was observed in an interval and "
				   "something else");
	*ret = x == SHAPE_NEWEST || y == SHAPE_NEWEST ? SHAPE_NEWEST : x;
	return rc;
}

static int shape_of_binary(const struct recorded *r, struct node *n, enum shape *ret, struct err *e)
{
	const struct binary_op_info *info = binary_op_info(n->binary.op);
	if (n->binary.op == OP_ADD || n->binary.op == OP_SUB || n->binary.op == OP_OR)
		return both(r, n->binary.lhs, n->binary.rhs, ret, e);
	if (n->binary.op == OP_MUL && n->binary.lhs->type == PROMQL_SCALAR)
		return shape_of(r, n->binary.rhs, ret, e);
	if (n->binary.op == OP_MUL || n->binary.op == OP_DIV || info->comparison || info->set)
		return shape_of(r, n->binary.lhs, ret, e);
	return 0;
}

static bool is_range(const struct node *n)
{
	return n->kind == NODE_RANGE;
}

static bool named(const struct func *f, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(f->name, names[i]) == 0)
			return true;
	return false;
}

static int shape_of_call(const struct recorded *r, struct node *n, enum shape *ret, struct err *e)
{
	static const char *const adds[] = { "merge_over_time", "sum_over_time", "increase" };
	static const char *const filters[] = { "focus", "ignore", "hide", "show", "show_from", "prune_from", "where", "collapse", "invert",
					       "trim", "tagroot", "label_replace", "label_join", "sort", "sort_desc", "sort_by_label", "sort_by_label_desc" };
	const struct func *f = n->call.fn;
	struct node *first = n->call.n ? node_unwrap(n->call.args[0]) : NULL;
	if (first && is_range(first) && named(f, adds, ARRAY_LEN(adds)))
		return check_range(r, first, ret, e);
	if (first && named(f, filters, ARRAY_LEN(filters)))
		return shape_of(r, first, ret, e);
	if (n->call.n >= 2 && strcmp(f->name, "diff") == 0)
		return both(r, n->call.args[0], n->call.args[1], ret, e);
	return 0;
}

static int shape_of_aggregate(const struct recorded *r, struct node *n, enum shape *ret, struct err *e)
{
	struct node *of = node_unwrap(n->aggr.expr);
	if (n->aggr.op == AGGR_MERGE && is_range(of))
		return check_range(r, of, ret, e);
	return shape_of(r, of, ret, e);
}

static int shape_of(const struct recorded *r, struct node *n, enum shape *ret, struct err *e)
{
	*ret = SHAPE_GAUGE;
	n = node_unwrap(n);
	switch (n->kind) {
	case NODE_SELECTOR:
		if (kind_of(&n->sel) != PROFILE_GAUGE)
			*ret = SHAPE_NEWEST;
		return 0;
	case NODE_UNARY:
		return shape_of(r, n->unary.expr, ret, e);
	case NODE_BINARY:
		return shape_of_binary(r, n, ret, e);
	case NODE_AGGREGATE:
		return shape_of_aggregate(r, n, ret, e);
	case NODE_CALL:
		return shape_of_call(r, n, ret, e);
	default:
		return 0;
	}
}

/* Whether some selector names a kind that adds up: its newest profile would be recorded as it stands. */
static void find_delta(struct node *n, void *arg)
{
	bool *found = arg;
	if (n->kind == NODE_SELECTOR)
		*found |= kind_of(&n->sel) == PROFILE_DELTA || kind_of(&n->sel) == PROFILE_CUMULATIVE;
	node_each_child(n, find_delta, arg);
}

int promql_recorded(const struct promql_expr *x, int64_t interval_ms, enum promql_recorded *ret, struct err *e)
{
	struct recorded r = { .x = x, .interval_ms = interval_ms };
	bool known = false;
	enum shape s;
	if (x->root->type != PROMQL_VECTOR)
		return parse_error(e, x->src, x->root->start, "only an instant vector can be recorded as profiles, this is a %s",
				   type_documented(x->root->type));
	int rc = shape_of(&r, x->root, &s, e);
	if (rc)
		return rc;
	if (s == SHAPE_NEWEST)
		find_delta(x->root, &known);
	if (known)
		return parse_error(e, x->src, x->root->start, "the newest profile as it stands would be recorded once per evaluation: write "
				   "merge_over_time(...) of a range as long as the group's interval");
	*ret = s == SHAPE_DELTA ? PROMQL_RECORDED_DELTA : s == SHAPE_NEWEST ? PROMQL_RECORDED_NEWEST : PROMQL_RECORDED_GAUGE;
	return 0;
}
