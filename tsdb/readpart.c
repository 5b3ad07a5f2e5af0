/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/readpart.h"

void part_scratch_release(struct part_scratch *s)
{
	sealed_rollup_release(&s->rollup);
	sealed_totals_release(&s->totals);
	vec_free(&s->sums);
	vec_free(&s->hit);
}

/* The rollup of the series, or of what it is a multiple of; *series becomes that one's id. */
static int get_rollup(const struct part *p, uint32_t *series, struct part_scratch *w, int64_t *factor, struct err *e)
{
	*factor = 1;
	for (int hops = 0; hops < 2; hops++) {
		PART_VALUE v = { 0 };
		int rc = part_get(p, PART_ROLLUP, *series, 0, &v, e);
		if (!rc)
			rc = sealed_get_rollup(v.payload, &w->rollup, e);
		if (rc || !w->rollup.times.factor)
			return rc;
		*factor = w->rollup.times.factor;
		*series = w->rollup.times.series;
	}
	return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of a multiple");
}

static int get_totals(const struct part *p, uint32_t series, struct part_scratch *w, int64_t *factor, struct err *e)
{
	*factor = 1;
	for (int hops = 0; hops < 2; hops++) {
		PART_VALUE v = { 0 };
		int rc = part_get(p, PART_TOTALS, series, 0, &v, e);
		if (!rc)
			rc = sealed_get_totals(v.payload, &w->totals, e);
		if (rc || !w->totals.times.factor)
			return rc;
		*factor = w->totals.times.factor;
		series = w->totals.times.series;
	}
	return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of a multiple");
}

int part_totals(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e)
{
	int64_t factor;
	int rc = get_totals(p, series, w, &factor, e);
	for (size_t i = 0; !rc && factor != 1 && i < w->totals.rows.n; i++)
		if (__builtin_mul_overflow(w->totals.rows.v[i].total, factor, &w->totals.rows.v[i].total))
			rc = err_set(e, ERR_CORRUPT, "a sealed total does not fit in 64 bits");
	return rc;
}

/* The first row stamped after t. */
static uint32_t first_after(const struct sealed_totals *t, int64_t t_ms)
{
	size_t a = 0, b = t->rows.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (t->rows.v[m].t_ms <= t_ms)
			a = m + 1;
		else
			b = m;
	}
	return (uint32_t)a;
}

struct detail_values {
	struct part_value v[3];
};

static void detail_values_release(struct detail_values *d)
{
	for (int i = 0; i < 3; i++)
		part_value_release(&d->v[i]);
}

static int get_detail(const struct part *p, uint32_t series, const struct sealed_rollup *r, struct detail_values *v,
		      struct sealed_detail *ret, struct err *e)
{
	for (uint8_t i = 0; i < 3; i++) {
		int rc = part_get(p, PART_DETAIL, series, i, &v->v[i], e);
		if (rc)
			return rc;
	}
	*ret = (struct sealed_detail){ v->v[0].payload, v->v[1].payload, v->v[2].payload, r };
	return 0;
}

int part_sum(const struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, struct part_scratch *w,
	     struct chunk_sums *ret, size_t *ret_n, uint64_t *ret_read, struct err *e)
{
	const struct part_series *s = part_find(p, series);
	int64_t start = part_start_ms(p), factor;
	*ret_n = 0;
	if (!s || s->is_float || start + s->max_ms <= after_ms || start + s->min_ms > until_ms)
		return 0;
	int rc = get_rollup(p, &series, w, &factor, e);
	if (rc || !w->rollup.columns.n)
		return rc;
	bool whole = start + s->min_ms > after_ms && start + s->max_ms <= until_ms;
	*ret = (struct chunk_sums){ w->rollup.columns.v, w->rollup.sums.v, factor, w->rollup.columns.n };
	*ret_n = 1;
	if (whole)
		return 0;
	int64_t same;
	rc = get_totals(p, series, w, &same, e);
	if (rc)
		return rc;
	uint32_t lo = first_after(&w->totals, after_ms), hi = first_after(&w->totals, until_ms);
	*ret_n = lo < hi;
	if (lo >= hi || (lo == 0 && hi == w->totals.rows.n))
		return 0;
	CLEANUP(detail_values_release) struct detail_values values = { 0 };
	struct sealed_detail d;
	rc = get_detail(p, series, &w->rollup, &values, &d, e);
	if (rc)
		return rc;
	vec_reserve(&w->sums, w->rollup.columns.n);
	ret->sums = w->sums.v;
	return sealed_sum_rows(&d, lo, hi, w->sums.v, ret_read, e);
}

static bool find_hits(struct part_scratch *w, const uint64_t *match, uint32_t n_match)
{
	bool any = false;
	vec_reserve(&w->hit, w->rollup.columns.n + 1);
	for (size_t i = 0; i < w->rollup.columns.n; i++) {
		uint32_t c = w->rollup.columns.v[i];
		w->hit.v[i] = c < n_match && (match[c / 64] >> c % 64 & 1);
		any |= w->hit.v[i];
	}
	return any;
}

int part_row_sums(const struct part *p, uint32_t series, const uint64_t *match, uint32_t n_match, struct part_scratch *w,
		  size_t *ret_rows, uint64_t *ret_read, struct err *e)
{
	int64_t factor, same;
	*ret_rows = 0;
	int rc = get_rollup(p, &series, w, &factor, e);
	if (rc || !find_hits(w, match, n_match))
		return rc;
	rc = get_totals(p, series, w, &same, e);
	if (rc)
		return rc;
	CLEANUP(detail_values_release) struct detail_values values = { 0 };
	struct sealed_detail d;
	rc = get_detail(p, series, &w->rollup, &values, &d, e);
	if (rc)
		return rc;
	vec_reserve(&w->sums, w->totals.rows.n + 1);
	memset(w->sums.v, 0, w->totals.rows.n * sizeof *w->sums.v);
	rc = sealed_sum_columns(&d, w->hit.v, w->sums.v, (uint32_t)w->totals.rows.n, ret_read, e);
	for (size_t i = 0; !rc && factor != 1 && i < w->totals.rows.n; i++)
		if (__builtin_mul_overflow(w->sums.v[i], factor, &w->sums.v[i]))
			rc = err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range");
	*ret_rows = w->totals.rows.n;
	return rc;
}

bool part_has_stamp(const struct part *p, uint32_t series, int64_t t_ms)
{
	const struct part_series *s = part_find(p, series);
	int64_t at = t_ms - part_start_ms(p);
	bool found = false;
	if (!s || at < s->min_ms || at > s->max_ms)
		return false;
	if (s->is_float) {
		PART_VALUE v = { 0 };
		struct sealed_floats f = { 0 };
		if (part_get(p, PART_FLOATS, series, 0, &v, NULL) == 0 && sealed_get_floats(v.payload, &f, NULL) == 0)
			for (size_t i = 0; i < f.points.n && !found; i++)
				found = f.points.v[i].t_ms == t_ms;
		vec_free(&f.points);
		return found;
	}
	struct part_scratch w = { 0 };
	int64_t factor;
	if (get_totals(p, series, &w, &factor, NULL) == 0) {
		uint32_t i = first_after(&w.totals, t_ms - 1);
		found = i < w.totals.rows.n && w.totals.rows.v[i].t_ms == t_ms;
	}
	part_scratch_release(&w);
	return found;
}
