/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of operators and aggregations, and what every user of the tree needs. */
#include "promql-like/syntax/ast.h"

#include <stdio.h>
#include <strings.h>

static const struct binary_op_info ops[] = {
	[OP_ADD] = { "+", 4 }, [OP_SUB] = { "-", 4 }, [OP_MUL] = { "*", 5 }, [OP_DIV] = { "/", 5 }, [OP_MOD] = { "%", 5 },
	[OP_POW] = { "^", 6 }, [OP_ATAN2] = { "atan2", 5 },
	[OP_EQ] = { "==", 3, true }, [OP_NE] = { "!=", 3, true }, [OP_LT] = { "<", 3, true },
	[OP_LE] = { "<=", 3, true }, [OP_GT] = { ">", 3, true }, [OP_GE] = { ">=", 3, true },
	[OP_AND] = { "and", 2, false, true }, [OP_OR] = { "or", 1, false, true }, [OP_UNLESS] = { "unless", 2, false, true },
	[OP_STEP] = { "step()", 9 }, [OP_RANGE] = { "range()", 9 }, [OP_MIN_OF] = { "min_of", 9 },
	[OP_MAX_OF] = { "max_of", 9 },
};

const struct binary_op_info *binary_op_info(enum binary_op op)
{
	return &ops[op];
}

static const struct aggregate_info aggregates[AGGR_OPS] = {
	[AGGR_SUM] = { "sum", 0, "sum [by|without (...)] (vector)", "The sum; profiles of one type are merged.", true },
	[AGGR_AVG] = { "avg", 0, "avg [by|without (...)] (vector)", "The mean; of profiles stack by stack.", true },
	[AGGR_COUNT] = { "count", 0, "count [by|without (...)] (vector)", "Number of elements." },
	[AGGR_MIN] = { "min", 0, "min [by|without (...)] (vector)", "The least value." },
	[AGGR_MAX] = { "max", 0, "max [by|without (...)] (vector)", "The greatest value." },
	[AGGR_GROUP] = { "group", 0, "group [by|without (...)] (vector)", "1 for each group that is there." },
	[AGGR_STDDEV] = { "stddev", 0, "stddev [by|without (...)] (vector)", "Population standard deviation." },
	[AGGR_STDVAR] = { "stdvar", 0, "stdvar [by|without (...)] (vector)", "Population variance." },
	[AGGR_TOPK] = { "topk", 's', "topk [by|without (...)] (k, vector)", "The k greatest elements.", true },
	[AGGR_BOTTOMK] = { "bottomk", 's', "bottomk [by|without (...)] (k, vector)", "The k least elements.", true },
	[AGGR_COUNT_VALUES] = { "count_values", 'S', "count_values [by|without (...)] (\"label\", vector)",
				"How many elements have each value." },
	[AGGR_QUANTILE] = { "quantile", 's', "quantile [by|without (...)] (q, vector)", "The q-quantile over elements." },
	[AGGR_LIMITK] = { "limitk", 's', "limitk [by|without (...)] (k, vector)", "Any k elements, the same ones each time.", true },
	[AGGR_LIMIT_RATIO] = { "limit_ratio", 's', "limit_ratio [by|without (...)] (r, vector)",
			       "About a share r of the elements, the same ones each time.", true },
	[AGGR_MERGE] = { "merge", 0, "merge [by|without (...)] (profiles or profiles[range])",
			 "One profile per group: what was observed, added up over time and series.", true },
	[AGGR_SPLIT] = { "split", 0, "split by (label, ...) (profiles)", "One profile per value of sample labels.", true },
};

const struct aggregate_info *aggregate_info(enum aggregate_op op)
{
	return &aggregates[op];
}

bool aggregate_lookup(struct view name, enum aggregate_op *ret)
{
	for (unsigned i = 0; i < AGGR_OPS; i++)
		if (view_eq_nocase(name, view_of(aggregates[i].name))) {
			*ret = (enum aggregate_op)i;
			return true;
		}
	return false;
}

const char *edges_text(uint8_t edges)
{
	static const char *const text[] = { "", "anchored", "smoothed" };
	return text[edges];
}

const char *promql_type_text(enum promql_type t)
{
	static const char *const text[] = { "none", "scalar", "string", "vector", "matrix" };
	return text[t];
}

const char *type_documented(enum promql_type t)
{
	static const char *const text[] = { "none", "scalar", "string", "instant vector", "range vector" };
	return text[t];
}

const struct node_fill no_fill[2];

static unsigned enabled;

void promql_enable(unsigned features)
{
	enabled = features;
}

unsigned promql_enabled(void)
{
	return enabled;
}

unsigned promql_feature(struct view name)
{
	static const struct {
		const char *name;
		unsigned feature;
	} table[] = {
		{ "promql-binop-fill-modifiers", PROMQL_FILL }, { "promql-extended-range-selectors", PROMQL_EXTENDED_RANGES },
		{ "promql-experimental-functions", PROMQL_EXPERIMENTAL },
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (view_eqs(name, table[i].name))
			return table[i].feature;
	return 0;
}

int parse_error(struct err *e, struct view src, uint32_t at, const char *fmt, ...)
{
	char msg[860];
	unsigned line = 1, column = 1;
	for (uint32_t i = 0; i < at && i < src.len; i++) {
		column++;
		if (src.ptr[i] == '\n') {
			line++;
			column = 1;
		}
	}
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	return err_set(e, ERR_BAD_DATA, "%u:%u: parse error: %s", line, column, msg);
}

struct node *node_unwrap(struct node *n)
{
	while (n && n->kind == NODE_PAREN)
		n = n->paren;
	return n;
}

struct view string_arg(const struct node *n)
{
	while (n->kind == NODE_PAREN)
		n = n->paren;
	return n->kind == NODE_STRING ? n->string : VIEW("");
}

static void visit(struct node *n, void (*fn)(struct node *, void *), void *arg)
{
	if (n)
		fn(n, arg);
}

void node_each_child(struct node *n, void (*fn)(struct node *, void *), void *arg)
{
	switch (n->kind) {
	case NODE_RANGE: visit(n->range.sel, fn, arg); break;
	case NODE_SUBQUERY: visit(n->sub.expr, fn, arg); break;
	case NODE_UNARY: visit(n->unary.expr, fn, arg); break;
	case NODE_BINARY:
		visit(n->binary.lhs, fn, arg);
		visit(n->binary.rhs, fn, arg);
		break;
	case NODE_AGGREGATE:
		visit(n->aggr.param, fn, arg);
		visit(n->aggr.expr, fn, arg);
		break;
	case NODE_CALL:
		for (size_t i = 0; i < n->call.n; i++)
			visit(n->call.args[i], fn, arg);
		break;
	case NODE_PAREN: visit(n->paren, fn, arg); break;
	case NODE_NUMBER: case NODE_STRING: case NODE_SELECTOR: case NODE_FRAMES: case NODE_DURATION: break;
	}
}

void promql_expr_free(struct promql_expr *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->matchers.n; i++)
		matcher_release(x->matchers.v[i]);
	vec_free(&x->matchers);
	arena_free(&x->arena);
	free(x);
}
