/* SPDX-License-Identifier: Apache-2.0 */
/* How much work a query is, guessed from its text alone: the steps that its nodes are evaluated at, and the minutes that its
 * selectors look at. */
#include "promql-like/syntax/ast.h"

#define MINUTE_MS 60000.0
#define UNKNOWN 1e12 /* of a duration that is not written out */

/* Steps of a node, and the time from the first to the last of them. */
struct extent {
	double steps, span_ms;
};

static double weigh(const struct node *n, struct extent at)
{
	double w = 0;
	switch (n->kind) {
	case NODE_NUMBER:
	case NODE_STRING:
	case NODE_FRAMES:
	case NODE_DURATION:
		return 0;
	case NODE_SELECTOR:
		return at.steps;
	case NODE_RANGE: /* windows that overlap are read once */
		if (n->range.expr)
			return UNKNOWN;
		return at.steps + (MIN((double)n->range.ms * at.steps, (double)n->range.ms + at.span_ms)) / MINUTE_MS;
	case NODE_SUBQUERY: {
		if (n->sub.range_expr || n->sub.step_expr)
			return UNKNOWN;
		double step = n->sub.step_ms > 0 ? (double)n->sub.step_ms : MINUTE_MS, range = (double)n->sub.range_ms;
		struct extent inner = { (range + at.span_ms) / step + 1, range + at.span_ms };
		return at.steps * (range / step + 1) + inner.steps + weigh(n->sub.expr, inner);
	}
	case NODE_UNARY:
		return at.steps + weigh(n->unary.expr, at);
	case NODE_PAREN:
		return weigh(n->paren, at);
	case NODE_BINARY:
		return at.steps + weigh(n->binary.lhs, at) + weigh(n->binary.rhs, at);
	case NODE_AGGREGATE:
		w = at.steps + weigh(n->aggr.expr, at);
		return n->aggr.param ? w + weigh(n->aggr.param, at) : w;
	case NODE_CALL:
		w = at.steps;
		for (size_t i = 0; i < n->call.n; i++)
			w += weigh(n->call.args[i], at);
		return w;
	}
	return 0;
}

static bool reads(const struct node *n)
{
	switch (n->kind) {
	case NODE_SELECTOR:
	case NODE_RANGE:
		return true;
	case NODE_SUBQUERY:
		return reads(n->sub.expr);
	case NODE_UNARY:
		return reads(n->unary.expr);
	case NODE_PAREN:
		return reads(n->paren);
	case NODE_BINARY:
		return reads(n->binary.lhs) || reads(n->binary.rhs);
	case NODE_AGGREGATE:
		return reads(n->aggr.expr);
	case NODE_CALL:
		for (size_t i = 0; i < n->call.n; i++)
			if (reads(n->call.args[i]))
				return true;
		return false;
	default:
		return false;
	}
}

double promql_weight(struct view query, int64_t start_ms, int64_t end_ms, int64_t step_ms, bool *ret_reads)
{
	struct promql_expr *x;
	struct extent at = { 1, 0 };
	struct err e;
	*ret_reads = false;
	if (step_ms > 0 && end_ms > start_ms) {
		at.span_ms = (double)end_ms - (double)start_ms;
		at.steps = at.span_ms / (double)step_ms + 1;
	}
	if (parse_shape(&x, query, &e))
		return 0;
	double w = weigh(x->root, at);
	*ret_reads = reads(x->root);
	promql_expr_free(x);
	return w;
}
