/* SPDX-License-Identifier: Apache-2.0 */
/* The places where an expression compares shares with a number. A share is an estimate. Its certainty depends on the number of samples
 * in the profile, which only the owner of the profiles knows. */
#include "promql-like/syntax/ast.h"
#include "promql-like/syntax/func.h"

struct search {
	promql_threshold_fn fn;
	void *arg;
};

static bool number_of(struct node *n, double *ret)
{
	n = node_unwrap(n);
	bool minus = n->kind == NODE_UNARY && n->unary.minus;
	if (n->kind == NODE_UNARY)
		n = node_unwrap(n->unary.expr);
	if (n->kind != NODE_NUMBER)
		return false;
	*ret = minus ? -n->number.v : n->number.v;
	return true;
}

/* A difference has no number of samples. */
static void look_for_difference(struct node *n, void *arg)
{
	bool *is = arg;
	*is |= n->kind == NODE_BINARY && n->binary.op == OP_SUB && n->type == PROMQL_VECTOR;
	*is |= n->kind == NODE_CALL && strcmp(n->call.fn->name, "diff") == 0;
	node_each_child(n, look_for_difference, arg);
}

static bool is_share(struct node *n)
{
	bool difference = false;
	if (n->kind != NODE_CALL || (strcmp(n->call.fn->name, "share") != 0 && strcmp(n->call.fn->name, "self_share") != 0))
		return false;
	look_for_difference(n->call.args[0], &difference);
	return !difference;
}

static void tell(const struct search *s, struct node *share, double number)
{
	struct buf text = { 0 }, profiles = { 0 };
	print_node(share, &text);
	print_node(share->call.args[0], &profiles);
	const struct promql_threshold t = { .share = buf_view(&text), .profiles = buf_view(&profiles), .number = number, .at = share->start };
	s->fn(s->arg, &t);
	buf_free(&text);
	buf_free(&profiles);
}

static void look(struct node *n, void *arg)
{
	if (n->kind == NODE_BINARY && binary_op_info(n->binary.op)->comparison) {
		struct node *l = node_unwrap(n->binary.lhs), *r = node_unwrap(n->binary.rhs);
		double number;
		if (is_share(l) && number_of(r, &number))
			tell(arg, l, number);
		else if (is_share(r) && number_of(l, &number))
			tell(arg, r, number);
	}
	if (n->kind != NODE_SUBQUERY) /* what is asked now is not what it has at its steps */
		node_each_child(n, look, arg);
}

void promql_thresholds(const struct promql_expr *x, promql_threshold_fn fn, void *arg)
{
	struct search s = { fn, arg };
	look(x->root, &s);
}
