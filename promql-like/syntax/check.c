/* SPDX-License-Identifier: Apache-2.0 */
/* Types: PromQL's static rules. Whether a selector matches floats or profiles is never a type error; that is decided per element when
 * the query runs. In argument position a selector may turn out to be a frame matcher. */
#include <stdio.h>

#include "promql-like/syntax/func.h"

static int check(struct promql_expr *x, struct node *n, struct err *e);

/* Of a node that was checked. Each is checked once: twice per level would be 2^depth times at the bottom. */
static int want_type(struct promql_expr *x, const struct node *n, enum promql_type want, const char *where, struct err *e)
{
	if (n->type == want)
		return 0;
	return parse_error(e, x->src, n->start, "expected type %s in %s, got %s", type_documented(want), where,
			   type_documented(n->type));
}

static int expect_type(struct promql_expr *x, struct node *n, enum promql_type want, const char *where, struct err *e)
{
	int rc = check(x, n, e);
	return rc ? rc : want_type(x, n, want, where, e);
}

static int check_selector(struct promql_expr *x, struct node *n, struct err *e)
{
	n->type = PROMQL_VECTOR;
	if (n->sel.name.len)
		return 0;
	for (size_t i = 0; i < n->sel.n; i++) {
		int rc = matcher_matches(&n->sel.m[i], VIEW(""), NULL, e);
		if (rc < 0)
			return rc;
		if (!rc)
			return 0;
	}
	return parse_error(e, x->src, n->start, "vector selector must contain at least one non-empty matcher");
}

static int check_aggregate(struct promql_expr *x, struct node *n, struct err *e)
{
	const struct aggregate_info *info = aggregate_info(n->aggr.op);
	n->type = PROMQL_VECTOR;
	int rc = check(x, n->aggr.expr, e);
	if (!rc && n->aggr.op == AGGR_MERGE && n->aggr.expr->type == PROMQL_MATRIX)
		return 0;
	if (!rc)
		rc = want_type(x, n->aggr.expr, PROMQL_VECTOR, "aggregation expression", e);
	if (!rc && info->param)
		rc = expect_type(x, n->aggr.param, info->param == 's' ? PROMQL_SCALAR : PROMQL_STRING, "aggregation parameter", e);
	return rc;
}

static void look_for_readout(struct node *n, void *yes)
{
	if (n->kind == NODE_CALL && func_is_readout(n->call.fn))
		*(bool *)yes = true;
	else
		node_each_child(n, look_for_readout, yes);
}

/* A function that a profile does not have counts 0: that is no experiment. */
static bool has_readout(struct node *n)
{
	bool yes = false;
	look_for_readout(n, &yes);
	return yes;
}

static int check_matching(struct promql_expr *x, struct node *n, bool vectors, struct err *e)
{
	const struct binary_op_info *op = binary_op_info(n->binary.op);
	uint32_t at = n->binary.op_start;
	for (size_t i = 0; i < n->binary.matching.n && n->binary.on; i++)
		for (size_t k = 0; k < n->binary.include.n; k++)
			if (view_eq(n->binary.matching.v[i], n->binary.include.v[k]))
				return parse_error(e, x->src, at, "label \"%.*s\" must not occur in ON and GROUP clause at once",
						   VIEW_ARG(n->binary.matching.v[i]));
	bool fills = n->binary.fill[0].set || n->binary.fill[1].set;
	if (fills && !(promql_enabled() & PROMQL_FILL) && !has_readout(n->binary.lhs) && !has_readout(n->binary.rhs))
		return parse_error(e, x->src, n->binary.fill_start, "binop fill modifiers of numbers are experimental and not enabled: start with "
				   "--enable-feature=promql-binop-fill-modifiers; those of readouts such as share(...) need no switch");
	if (!vectors && fills)
		return parse_error(e, x->src, n->start, "filling in missing series only allowed between instant vectors");
	if (vectors && op->set && fills)
		return parse_error(e, x->src, n->start, "filling in missing series not allowed for set operators");
	if (!vectors && n->binary.matching.n)
		return parse_error(e, x->src, n->start, "vector matching only allowed between instant vectors");
	if (vectors && op->set && n->binary.card != CARD_ONE_TO_ONE)
		return parse_error(e, x->src, n->start, "no grouping allowed for \"%s\" operation", op->text);
	if (!vectors && op->set)
		return parse_error(e, x->src, n->start, "set operator \"%s\" not allowed in binary scalar expression", op->text);
	return 0;
}

static int check_binary(struct promql_expr *x, struct node *n, struct err *e)
{
	struct node *l = n->binary.lhs, *r = n->binary.rhs;
	const struct binary_op_info *op = binary_op_info(n->binary.op);
	int rc = check(x, l, e);
	if (!rc)
		rc = check(x, r, e);
	if (rc)
		return rc;
	if (n->binary.is_bool && !op->comparison)
		return parse_error(e, x->src, n->binary.op_start, "bool modifier can only be used on comparison operators");
	struct node *both[] = { l, r };
	for (size_t i = 0; i < 2; i++)
		if (both[i]->type != PROMQL_SCALAR && both[i]->type != PROMQL_VECTOR)
			return parse_error(e, x->src, both[i]->start,
					   "binary expression must contain only scalar and instant vector types");
	bool scalars = l->type == PROMQL_SCALAR && r->type == PROMQL_SCALAR;
	if (scalars && op->comparison && !n->binary.is_bool)
		return parse_error(e, x->src, n->binary.op_start, "comparisons between scalars must use BOOL modifier");
	n->type = scalars ? PROMQL_SCALAR : PROMQL_VECTOR;
	bool vectors = l->type == PROMQL_VECTOR && r->type == PROMQL_VECTOR;
	rc = check_matching(x, n, vectors, e);
	if (!rc && vectors && op->set)
		n->binary.card = CARD_MANY_TO_MANY;
	return rc;
}

/* {function="x"} as an argument. */
static bool to_frames(struct node *n)
{
	struct node *s = node_unwrap(n);
	if (s->kind != NODE_SELECTOR || (s->sel.name.len && s->sel.name.ptr != NULL) || s->sel.mods.has_offset ||
	    s->sel.mods.at != AT_NONE)
		return false;
	struct matcher *m = s->sel.m;
	size_t count = s->sel.n;
	uint32_t start = n->start, end = n->end, id = n->id;
	*n = (struct node){ .kind = NODE_FRAMES, .start = start, .end = end, .id = id };
	n->frames.m = m;
	n->frames.n = count;
	return true;
}

static const struct {
	char letter;
	const char *what;
} arg_words[] = {
	{ 'f', "a frame matcher such as {function=\"x\"}, or a string" },
	{ 'r', "a frame matcher such as {function=\"x\"}, or a granularity (\"function\", \"line\", \"file\", \"binary\", \"package\")" },
	{ 'g', "a granularity (\"function\", \"line\", \"file\", \"binary\", \"package\")" },
	{ 'w', "sample label matchers such as {thread=\"x\"}, or a string" },
};

static bool frames_call(const struct node *n)
{
	return n->kind == NODE_CALL && n->call.fn->form == FUNC_FRAMES;
}

static int check_frame_keys(struct promql_expr *x, const struct node *n, struct err *e)
{
	static const char *const keys[] = { "function", "binary", "file", "line" };
	for (size_t i = 0; i < n->frames.n; i++) {
		bool known = false;
		for (size_t k = 0; k < ARRAY_LEN(keys); k++)
			known |= view_eqs(n->frames.m[i].name, keys[k]);
		if (!known)
			return parse_error(e, x->src, n->start,
					   "unknown key \"%.*s\" in a frame matcher: use function, binary, file or line",
					   VIEW_ARG(n->frames.m[i].name));
	}
	return 0;
}

/* A string that frames are to match, so that what is wrong with it has a place. */
static int check_expression(struct promql_expr *x, struct node *n, struct err *e)
{
	struct regex *re;
	struct err why;
	int rc = regex_new(&re, node_unwrap(n)->string, false, &why);
	if (rc)
		return parse_error(e, x->src, n->start, "%s", why.msg);
	regex_unref(re);
	return 0;
}

static int check_label_matchers(struct promql_expr *x, const struct func *f, struct node *n, struct err *e)
{
	if (to_frames(n)) {
		n->type = PROMQL_NONE;
		return 0;
	}
	int rc = check(x, n, e);
	if (!rc && n->type != PROMQL_VECTOR)
		return parse_error(e, x->src, n->start, "expected type %s in call to function \"%s\", got %s", type_documented(PROMQL_VECTOR),
				   f->name, type_documented(n->type));
	return rc ? rc : parse_error(e, x->src, n->start, "expected label selectors only%s",
				     node_unwrap(n)->kind == NODE_SELECTOR ? ", got vector selector instead" : "");
}

static int check_special_arg(struct promql_expr *x, const struct func *f, char letter, struct node *n, struct err *e)
{
	if (node_unwrap(n)->kind == NODE_STRING || (letter != 'g' && to_frames(n))) {
		n->type = n->kind == NODE_FRAMES ? PROMQL_NONE : PROMQL_STRING;
		if (n->kind != NODE_FRAMES)
			return letter == 'f' ? check_expression(x, n, e) : 0;
		return letter != 'w' ? check_frame_keys(x, n, e) : 0;
	}
	if (letter != 'w' && letter != 'g' && frames_call(node_unwrap(n))) {
		int rc = check(x, n, e);
		return rc ? rc : check_expression(x, node_unwrap(n)->call.args[0], e);
	}
	const char *what = "";
	for (size_t i = 0; i < ARRAY_LEN(arg_words); i++)
		if (arg_words[i].letter == letter)
			what = arg_words[i].what;
	return parse_error(e, x->src, n->start, "expected %s in call to function \"%s\"", what, f->name);
}

static int check_arg(struct promql_expr *x, const struct func *f, size_t n_args, size_t i, struct node *n, struct err *e)
{
	char where[96], letter = func_arg(f, n_args, i);
	snprintf(where, sizeof where, "call to function \"%s\"", f->name);
	switch (letter) {
	case 's': return expect_type(x, n, PROMQL_SCALAR, where, e);
	case 'S': return expect_type(x, n, PROMQL_STRING, where, e);
	case 'v': return expect_type(x, n, PROMQL_VECTOR, where, e);
	case 'm': return expect_type(x, n, PROMQL_MATRIX, where, e);
	case 'l': return check_label_matchers(x, f, n, e);
	default: return check_special_arg(x, f, letter, n, e);
	}
}

static int check_call(struct promql_expr *x, struct node *n, struct err *e)
{
	const struct func *f = n->call.fn;
	int least, most, got = (int)n->call.n;
	func_arity(f, &least, &most);
	n->type = f->ret;
	if (least == most && got != least)
		return parse_error(e, x->src, n->start, "expected %d argument(s) in call to \"%s\", got %d", least, f->name, got);
	if (got < least)
		return parse_error(e, x->src, n->start, "expected at least %d argument(s) in call to \"%s\", got %d", least, f->name, got);
	if (most >= 0 && got > most)
		return parse_error(e, x->src, n->start, "expected at most %d argument(s) in call to \"%s\", got %d", most, f->name, got);
	for (size_t i = 0; i < n->call.n; i++) {
		int rc = check_arg(x, f, n->call.n, i, n->call.args[i], e);
		if (rc)
			return rc;
	}
	return 0;
}

static int check_unary(struct promql_expr *x, struct node *n, struct err *e)
{
	int rc = check(x, n->unary.expr, e);
	n->type = n->unary.expr->type;
	if (!rc && n->type != PROMQL_SCALAR && n->type != PROMQL_VECTOR)
		return parse_error(e, x->src, n->start,
				   "unary expression only allowed on expressions of type scalar or instant vector, got \"%s\"",
				   type_documented(n->type));
	return rc;
}

static int check(struct promql_expr *x, struct node *n, struct err *e)
{
	int rc = 0;
	switch (n->kind) {
	case NODE_NUMBER: n->type = PROMQL_SCALAR; break;
	case NODE_STRING: n->type = PROMQL_STRING; break;
	case NODE_SELECTOR: return check_selector(x, n, e);
	case NODE_RANGE:
		n->type = PROMQL_MATRIX;
		return check(x, n->range.sel, e);
	case NODE_SUBQUERY:
		n->type = PROMQL_MATRIX;
		rc = check(x, n->sub.expr, e);
		if (!rc && n->sub.expr->type != PROMQL_VECTOR)
			return parse_error(e, x->src, n->start, "subquery is only allowed on instant vector, got %s instead",
					   promql_type_text(n->sub.expr->type));
		break;
	case NODE_UNARY: return check_unary(x, n, e);
	case NODE_BINARY: return check_binary(x, n, e);
	case NODE_AGGREGATE: return check_aggregate(x, n, e);
	case NODE_CALL: return check_call(x, n, e);
	case NODE_PAREN:
		rc = check(x, n->paren, e);
		n->type = n->paren->type;
		break;
	case NODE_FRAMES:
	case NODE_DURATION: break;
	}
	return rc;
}

int check_expr(struct promql_expr *x, struct node *n, struct err *e)
{
	int rc = check(x, n, e);
	if (!rc && n->type == PROMQL_NONE)
		return parse_error(e, x->src, n->start, "a frame matcher is only an argument of a function, not a query");
	return rc;
}
