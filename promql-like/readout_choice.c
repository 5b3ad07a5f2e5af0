/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a readout are wanted: share(P) > 0.1, topk(10, self(P)), share(A) - share(B) > 0.1 want few of thousands, and the
 * others are neither named nor put out. Each number is made as ever and compared as ever, so that the answer is the same;
 * who asked compares once more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "readout.h"

/* ---- the rows of a profile ---- */

static bool fits(const struct row_sum *x)
{
	return x->i <= INT64_MAX && x->i >= INT64_MIN;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The k-th best number of all rows; a NaN, which is worse than any: all are wanted. */
static double worst_of_best(const struct readout *r, const struct sample *s, const struct reading *x, const struct row_choice *c)
{
	double want = value_scalar(c->best_k, graph_step(r->sp, s->t_ms)), v;
	double *all = xcalloc(r->touched.n + 1, sizeof *all);
	size_t n = 0;
	bool none = !(want >= 1);
	for (size_t i = 0; i < r->touched.n && !none; i++)
		if (reading_number(x, row_native(&r->sums[r->touched.v[i]]), &v)) {
			all[n++] = v;
			none = isnan(v);
		}
	v = NAN;
	if (!none && want < (double)n) {
		qsort(all, n, sizeof *all, by_number);
		v = c->greatest ? all[n - (size_t)want] : all[(size_t)want - 1];
	}
	free(all);
	return v;
}

static bool wanted(struct readout *r, const struct reading *x, uint32_t row, double worst)
{
	struct row_choice *c = r->choice;
	double v;
	if (!reading_number(x, row_native(&r->sums[row]), &v))
		return false;
	c->negative |= !(v >= 0);
	if (c->only && !readout_wants_name(r, c->only, row))
		return false;
	return choice_wants(c, v) && (isnan(worst) || (c->greatest ? v >= worst : v <= worst));
}

int readout_choose_rows(struct readout *r, const struct sample *s, const struct reading *x, struct err *e)
{
	for (size_t i = 0; i < r->touched.n; i++)
		if (!fits(&r->sums[r->touched.v[i]]))
			return readout_overflow(e);
	if (!r->choice)
		return 0;
	double worst = r->choice->best_k ? worst_of_best(r, s, x, r->choice) : NAN;
	size_t n = 0;
	for (size_t i = 0; i < r->touched.n; i++) {
		uint32_t row = r->touched.v[i];
		if (wanted(r, x, row, worst))
			r->touched.v[n++] = row;
		else
			r->sums[row] = (struct row_sum){ 0 };
	}
	r->touched.n = n;
	return 0;
}

/* Names are of one granularity, or say nothing. Two rows of one profile never have equal labels; of two they may if the labels of these differ in the name only, or in what gives
 * way to a row's label. */
void readout_find_twins(struct readout *r)
{
	struct map m = { 0 };
	r->choice->twins |= r->choice->only && r->choice->only->by != r->by;
	struct labels *l = xcalloc(r->ins.n + 1, sizeof *l);
	for (size_t i = 0; i < r->ins.n && !r->choice->twins; i++) {
		uint32_t id;
		l[i] = eval_drop_name(r->q, r->ins.v[i]);
		uint64_t h = labels_hash(l[i]);
		for (size_t at = map_start(&m, h); map_probe(&m, h, &at, &id);)
			r->choice->twins |= labels_eq(l[id], l[i]);
		map_insert(&m, h, (uint32_t)i);
		for (size_t k = 0; k < l[i].n; k++)
			for (size_t g = 0; g <= BY_PACKAGE; g++)
				r->choice->twins |= view_eqs(l[i].v[k].name, granularity_names[g]) || view_starts(l[i].v[k].name, VIEW("exported_"));
	}
	free(l);
	map_free(&m);
}

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
 * a - b > c where no b is below 0 needs a > c: of a those rows are put out, and of b those of their names. a - b < -c likewise
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
