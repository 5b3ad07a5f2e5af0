/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a query. Nodes, strings and arrays are in the expression's arena. The parser makes it, the checker fills in types, the
 * engine the times that depend on the query (marked "engine"). */
#ifndef PYRRHA_PROMQL_AST_H
#define PYRRHA_PROMQL_AST_H

#include "model/matcher.h"
#include "promql-like/promql.h"
#include "promql-like/syntax/engine_names.h"

/* Loops of the parser make trees as high as the chain is long that they read: `1 + 1 + ...`, `x[1m:][1m:]...`. */
#define NODE_MAX_HEIGHT 2000

enum node_kind {
	NODE_NUMBER, NODE_STRING, NODE_SELECTOR, NODE_RANGE, NODE_SUBQUERY, NODE_UNARY, NODE_BINARY, NODE_AGGREGATE,
	NODE_CALL, NODE_PAREN,
	NODE_FRAMES,   /* F: a frame matcher in argument position */
	NODE_DURATION  /* duration arithmetic in [] and after offset */
};

/* In the order of the table in ast.c. */
enum binary_op {
	OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MOD, OP_POW, OP_ATAN2,
	OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE,
	OP_AND, OP_OR, OP_UNLESS,
	/* only in durations */
	OP_STEP, OP_RANGE, OP_MIN_OF, OP_MAX_OF
};

enum aggregate_op {
	AGGR_SUM, AGGR_AVG, AGGR_COUNT, AGGR_MIN, AGGR_MAX, AGGR_GROUP, AGGR_STDDEV, AGGR_STDVAR, AGGR_TOPK,
	AGGR_BOTTOMK, AGGR_COUNT_VALUES, AGGR_QUANTILE, AGGR_LIMITK, AGGR_LIMIT_RATIO, AGGR_MERGE, AGGR_SPLIT,
	AGGR_OPS
};

/* Whether its outputs are some of its inputs. */
static inline bool aggregate_passes_on(enum aggregate_op op)
{
	return op == AGGR_TOPK || op == AGGR_BOTTOMK || op == AGGR_LIMITK || op == AGGR_LIMIT_RATIO;
}

enum match_card { CARD_ONE_TO_ONE, CARD_MANY_TO_ONE, CARD_ONE_TO_MANY, CARD_MANY_TO_MANY };

struct node_labels {
	struct view *v;
	size_t n;
};

enum at_kind { AT_NONE, AT_TIME, AT_START, AT_END };

/* offset and @, of a selector or a subquery. */
/* How a selector treats the ends of its range, or for an instant selector its moment. */
enum range_edges {
	EDGES_AS_THEY_ARE,
	EDGES_ANCHORED, /* the newest sample before the range begins it */
	EDGES_SMOOTHED, /* values at the ends are interpolated between the samples around them */
};
const char *edges_text(uint8_t edges); /* "anchored", "smoothed", "" */

struct time_mods {
	enum at_kind at;
	int64_t at_ms;             /* engine fills it in for start() and end() */
	bool has_offset;
	uint8_t edges;             /* enum range_edges */
	int64_t offset_ms;         /* literal; engine, if offset_expr */
	struct node *offset_expr;
};

struct node_selector {
	struct view name;          /* outside the braces, or the quoted one inside; alias not expanded */
	struct matcher *m;         /* written ones, __name__ last if `name` is set */
	size_t n;
	struct time_mods mods;
};

struct func;

struct node {
	enum node_kind kind;
	enum promql_type type;
	uint32_t start, end;       /* byte offsets of its text */
	uint32_t height;           /* 1 + that of its highest child; at most NODE_MAX_HEIGHT, so that walks of the tree may recurse */
	bool invariant;            /* engine: the same at every step */
	bool values_only;          /* engine: of its profiles only the values are looked at */
	bool once;                 /* engine: to be computed once (shared.h) */
	uint32_t id;               /* dense, for what the engine keeps per node */
	union {
		struct { double v; bool duration; } number;
		struct view string;
		struct node_selector sel;
		struct { struct node *sel; int64_t ms; struct node *expr; } range; /* ms: engine, if expr */
		struct {
			struct node *expr;
			int64_t range_ms, step_ms;     /* step 0 = default; engine, if *_expr */
			struct node *range_expr, *step_expr;
			struct time_mods mods;
		} sub;
		struct { bool minus; struct node *expr; } unary;
		struct {
			enum binary_op op;
			struct node *lhs, *rhs;
			bool is_bool, on, has_matching; /* has_matching: on or ignoring was written */
			enum match_card card;
			struct node_labels matching, include;
			const struct node_fill { bool set; double v; } *fill; /* of both operands; never NULL */
			uint32_t op_start, fill_start;
		} binary;
		struct {
			enum aggregate_op op;
			struct node *expr, *param;
			bool without, has_by;
			struct node_labels by;
		} aggr;
		struct { const struct func *fn; struct node **args; size_t n; } call;
		struct node *paren;
		struct { struct matcher *m; size_t n; } frames;
		struct { enum binary_op op; struct node *lhs, *rhs; bool wrapped; } dur;
	};
};

extern const struct node_fill no_fill[2];

struct promql_expr {
	struct arena arena;
	struct view src;
	struct node *root;
	uint32_t n_nodes;
	VEC(struct matcher *) matchers; /* all, to release their expressions */
	bool shape_only; /* regular expressions are not compiled, types are not checked: not to be evaluated */
};

struct binary_op_info {
	const char *text;
	int prec; /* higher binds tighter */
	bool comparison, set;
};
const struct binary_op_info *binary_op_info(enum binary_op op);

struct aggregate_info {
	const char *name;
	char param; /* 0 none, 's' scalar, 'S' string */
	const char *signature, *doc;
	bool profiles;
};
const struct aggregate_info *aggregate_info(enum aggregate_op op);
/* By name, any case; false if it is unknown. */
bool aggregate_lookup(struct view name, enum aggregate_op *ret);

/* "instant vector" and so on, for messages. */
const char *type_documented(enum promql_type t);

/* Sets *e to "LINE:COLUMN: parse error: ..." for a place in the query. */
int parse_error(struct err *e, struct view src, uint32_t at, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Parses what a shape_only expression has; quick, whatever the query is. */
int parse_shape(struct promql_expr **ret, struct view query, struct err *e) MUST_USE;

/* parser.c, check.c, print.c */
int parser_run(struct promql_expr *x, struct err *e) MUST_USE;
int check_expr(struct promql_expr *x, struct node *n, struct err *e) MUST_USE;
void print_node(const struct node *n, struct buf *out);
/* The position of each node's text, by node id, in the whole text, which is written to out; malloc'd. Zero where it does not fit in 16
 * MiB. */
struct node_text {
	uint32_t from, len;
};
struct node_text *print_texts(const struct promql_expr *x, struct buf *out);

/* Calls fn for each direct child. */
void node_each_child(struct node *n, void (*fn)(struct node *child, void *arg), void *arg);
/* Without the parentheses around it. */
struct node *node_unwrap(struct node *n);

/* promql_parse_selector, with these aliases; names may be NULL. */
int parse_selector_alone(const struct engine_names *names, struct promql_expr **ret, struct view text, const struct matcher **ret_m,
			 size_t *ret_n, struct err *e) MUST_USE;
/* The string of a string argument (a literal, maybe in parentheses). */
struct view string_arg(const struct node *n);

#endif
