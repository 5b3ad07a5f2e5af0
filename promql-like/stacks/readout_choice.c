/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a readout are wanted: share(P) > 0.1, topk(10, self(P)), share(A) - share(B) > 0.1 want few of thousands, and the
 * others are neither named nor put out. Each number is computed and compared as usual, so the answer is the same; the caller compares
 * once more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "promql-like/stacks/readout.h"

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
static double worst_of_best(const struct readout *r, const struct value_sample *s, const struct readout_reading *x, const struct row_choice *c)
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

static bool wanted(struct readout *r, const struct readout_reading *x, uint32_t row, double worst)
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

int readout_choose_rows(struct readout *r, const struct value_sample *s, const struct readout_reading *x, struct err *e)
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

/* Names have one granularity, or are unknown. Two rows of one profile never have equal labels. Those of two profiles may, if the profiles' labels
 * differ only in the name, or in a label that a row's label replaces. */
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
