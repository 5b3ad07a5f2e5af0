/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that need few of a readout's rows: topk(10, self(P)), share(P) > 0.1, share(A) - share(B) > 0.1. */
#include <string.h>

#include "promql-like/eval/readout_calls.h"
#include "promql-like/values/explain.h"

/* ---- calls that have rows ---- */

static const struct kind {
	const char *name;
	enum measure measure;
	enum bound bound;
} kinds[] = {
	{ "self", SELF, NO_BOUND }, { "total", TOTAL, NO_BOUND }, { "share", SHARE, NO_BOUND }, { "self_share", SELF_SHARE, NO_BOUND },
	{ "share_low", SHARE, LOW }, { "share_high", SHARE, HIGH }, { "self_share_low", SELF_SHARE, LOW },
	{ "self_share_high", SELF_SHARE, HIGH },
};

static const struct kind *kind_of(const struct node *n)
{
	if (n->kind != NODE_CALL)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) { /* the name first: others may have no arguments */
		if (strcmp(n->call.fn->name, kinds[i].name) != 0)
			continue;
		size_t n_args = n->call.n - (kinds[i].bound != NO_BOUND);
		bool rows = n_args == 1 || n_args == 3 || node_unwrap(n->call.args[1])->kind == NODE_STRING;
		return rows ? &kinds[i] : NULL;
	}
	return NULL;
}

static int run(struct eval *q, struct node *n, const struct span *sp, struct row_choice *c, struct value *ret, struct err *e)
{
	const struct kind *k = kind_of(n);
	struct explaining at = explain_begin(q, n);
	int rc = readout_run(q, n, sp, k->measure, k->bound, c, ret, e);
	explain_end(q, n, rc ? NULL : ret, at);
	return eval_error_at(q, n, rc, e);
}

bool readout_has_rows(const struct node *n)
{
	return kind_of(n) != NULL;
}

bool readout_can_choose(const struct node *n)
{
	const struct kind *k = kind_of(n);
	return k && k->bound == NO_BOUND && n->call.n < 3;
}

int readout_best(struct eval *q, struct node *n, const struct span *sp, bool greatest, const struct value *k,
		 struct value *ret, struct err *e)
{
	return run(q, n, sp, &(struct row_choice){ .best_k = k, .greatest = greatest }, ret, e);
}

int readout_compared(struct eval *q, struct node *n, const struct span *sp, enum binary_op op, bool row_left, double number,
		     struct value *ret, struct err *e)
{
	return run(q, n, sp, &(struct row_choice){ .compared = true, .op = op, .row_left = row_left, .number = number }, ret, e);
}

/* ---- two readouts ----
 *
 * a - b > c where no b is below 0 needs a > c: those rows of a are returned, and the rows of b with their names. a - b < -c likewise
 * needs b > c. */

int readout_minus(struct eval *q, struct node *a, struct node *b, const struct span *sp, bool large_left, enum binary_op op,
		  double number, struct value *ret_a, struct value *ret_b, bool *ret_done, struct err *e)
{
	struct row_set names = { 0 };
	struct row_choice large = { .compared = true, .op = op, .row_left = true, .number = number, .put = &names };
	struct row_choice small = { .only = &names };
	struct value *first = large_left ? ret_a : ret_b, *second = large_left ? ret_b : ret_a;
	uint64_t counted = atomic_load(&q->counted);
	*ret_done = false;
	int rc = run(q, large_left ? a : b, sp, &large, first, e);
	if (!rc && !large.twins)
		rc = run(q, large_left ? b : a, sp, &small, second, e);
	if (!rc)
		*ret_done = !large.twins && !small.twins && !small.negative;
	row_set_free(&names);
	if (rc || *ret_done)
		return rc;
	atomic_store(&q->counted, counted);
	value_free(first);
	value_free(second);
	return 0;
}
