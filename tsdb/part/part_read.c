/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/part_read.h"

void part_scratch_leave(struct part_scratch *s)
{
	part_reader_release(&s->rollups);
	part_reader_release(&s->stamps);
	for (int i = 0; i < 3; i++)
		part_reader_release(&s->details[i]);
}

#define VEC_BYTES(a) ((a)->cap * sizeof *(a)->v)

size_t part_scratch_bytes(const struct part_scratch *s)
{
	return VEC_BYTES(&s->rollup.columns) + VEC_BYTES(&s->rollup.sums) + VEC_BYTES(&s->totals.rows) + VEC_BYTES(&s->totals.points.t_ms) +
	       VEC_BYTES(&s->totals.points.totals) + VEC_BYTES(&s->points.t_ms) +
	       VEC_BYTES(&s->points.totals) + VEC_BYTES(&s->columns.points.t_ms) + VEC_BYTES(&s->columns.points.totals) +
	       VEC_BYTES(&s->columns.covers) + VEC_BYTES(&s->columns.intervals) + VEC_BYTES(&s->columns.periods) + VEC_BYTES(&s->columns.stale) + VEC_BYTES(&s->sums) + VEC_BYTES(&s->weights) + VEC_BYTES(&s->chosen) + VEC_BYTES(&s->hit) +
	       VEC_BYTES(&s->numbers);
}

void part_scratch_release(struct part_scratch *s)
{
	part_scratch_leave(s);
	sealed_rollup_release(&s->rollup);
	sealed_totals_release(&s->totals);
	sealed_points_release(&s->points);
	sealed_columns_release(&s->columns);
	vec_free(&s->sums);
	vec_free(&s->weights);
	vec_free(&s->chosen);
	vec_free(&s->hit);
	vec_free(&s->numbers);
}

typedef int (*rollup_decode_fn)(struct view v, struct sealed_rollup *ret, struct err *e);

/* The rollup of the series, or of what it is a multiple of; *series becomes that one's id. */
static int find_rollup(const struct part *p, uint32_t *series, struct part_scratch *w, rollup_decode_fn decode, int64_t *factor, struct err *e)
{
	*factor = 1;
	for (int hops = 0; hops < 2; hops++) {
		struct view v;
		int rc = part_reader_get(&w->rollups, p, PART_ROLLUP, *series, 0, &v, e);
		if (!rc)
			rc = decode(v, &w->rollup, e);
		if (rc || !w->rollup.times.factor)
			return rc;
		*factor = w->rollup.times.factor;
		*series = w->rollup.times.series;
	}
	return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of a multiple");
}

static int get_rollup(const struct part *p, uint32_t *series, struct part_scratch *w, int64_t *factor, struct err *e)
{
	return find_rollup(p, series, w, sealed_get_rollup, factor, e);
}

static int get_totals(const struct part *p, uint32_t series, struct part_scratch *w, int64_t *factor, struct err *e)
{
	*factor = 1;
	for (int hops = 0; hops < 2; hops++) {
		struct view v;
		int rc = part_reader_get(&w->stamps, p, PART_TOTALS, series, 0, &v, e);
		if (!rc)
			rc = sealed_get_totals(v, &w->totals, e);
		if (rc || !w->totals.times.factor)
			return rc;
		*factor = w->totals.times.factor;
		series = w->totals.times.series;
	}
	return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of a multiple");
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_CORRUPT, "a sealed total does not fit in 64 bits");
}

int part_totals(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e)
{
	int64_t factor;
	int rc = get_totals(p, series, w, &factor, e);
	for (size_t i = 0; !rc && factor != 1 && i < w->totals.rows.n; i++)
		if (__builtin_mul_overflow(w->totals.rows.v[i].total, factor, &w->totals.rows.v[i].total))
			rc = too_large(e);
	return rc;
}

static int multiply(struct sealed_points *p, int64_t factor, struct err *e)
{
	p->small &= factor == 1;
	for (size_t i = 0; factor != 1 && i < p->n; i++)
		if (__builtin_mul_overflow(p->totals.v[i], factor, &p->totals.v[i]))
			return too_large(e);
	return 0;
}

/* into: &w->points, or those of w->columns, which then are read with them. */
static int get_points(const struct part *p, uint32_t series, struct part_scratch *w, struct sealed_points *into, struct err *e)
{
	int64_t factor = 1;
	for (int hops = 0; hops < 2; hops++) {
		struct view v;
		int rc = part_reader_get(&w->stamps, p, PART_TOTALS, series, 0, &v, e);
		if (!rc)
			rc = into == &w->points ? sealed_get_points(v, into, e) : sealed_get_columns(v, &w->columns, e);
		if (rc)
			return rc;
		if (!into->times.factor)
			return multiply(into, factor, e);
		factor = into->times.factor;
		series = into->times.series;
	}
	return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of a multiple");
}

int part_points(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e)
{
	return get_points(p, series, w, &w->points, e);
}

int part_columns(const struct part *p, uint32_t series, struct part_scratch *w, struct err *e)
{
	return get_points(p, series, w, &w->columns.points, e);
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

static int bad_places(struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the detail of a sealed window does not say where its samples are");
}

/* Counts and values. The places of its samples may be given as those of another series, *places. */
static int detail_values(const struct part *p, uint32_t series, struct part_scratch *w, struct sealed_detail *ret, uint32_t *places, struct err *e)
{
	struct view v[2];
	*places = series;
	int rc = part_reader_get(&w->details[2], p, PART_DETAIL, series, 2, &v[1], e);
	if (!rc)
		rc = part_reader_get(&w->details[0], p, PART_DETAIL, series, 0, &v[0], e);
	if (!rc && !part_places_of(w->details[0].version, v[0], places))
		rc = bad_places(e);
	if (!rc && *places != series) {
		uint32_t same = *places;
		rc = part_reader_get(&w->details[0], p, PART_DETAIL, *places, 0, &v[0], e);
		if (!rc && (!part_places_of(w->details[0].version, v[0], &same) || same != *places))
			rc = bad_places(e);
	}
	if (!rc)
		*ret = (struct sealed_detail){ .counts = v[0], .values = v[1], .rollup = &w->rollup };
	return rc;
}

int part_detail(const struct part *p, uint32_t series, struct part_scratch *w, struct sealed_detail *ret, struct err *e)
{
	uint32_t places;
	int rc = detail_values(p, series, w, ret, &places, e);
	return rc ? rc : part_reader_get(&w->details[1], p, PART_DETAIL, places, 1, &ret->gaps, e);
}

/* The same for weighing rows: a full one has no gaps. */
static int weighed_detail(const struct part *p, uint32_t series, uint32_t n_rows, struct part_scratch *w, struct sealed_detail *ret, struct err *e)
{
	uint32_t places;
	int rc = detail_values(p, series, w, ret, &places, e);
	if (rc || (ret->full = sealed_is_full(ret, n_rows)))
		return rc;
	return part_reader_get(&w->details[1], p, PART_DETAIL, places, 1, &ret->gaps, e);
}

/* Bounds of a series or an aggregate; an aggregate's may be narrower than that. False: it has nothing in the range. */
static bool in_range(const struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, bool *whole)
{
	const struct part_series *s = series & PART_AGGREGATE ? NULL : part_find(p, series);
	int64_t first = part_start_ms(p), last = part_end_ms(p);
	if (!(series & PART_AGGREGATE) && (!s || s->is_float))
		return false;
	if (s) {
		last = first + s->max_ms;
		first += s->min_ms;
	}
	*whole = first > after_ms && last <= until_ms;
	return last > after_ms && first <= until_ms;
}

/* Adds rows [lo, hi) up, of n. Differences are weighed: what does not change is not looked at one by one then. */
static int sum_rows(const struct sealed_detail *d, uint32_t lo, uint32_t hi, uint32_t n, struct part_scratch *w, uint64_t *ret_read, struct err *e)
{
	bool fits = false;
	uint64_t read = 0;
	if (sealed_has_differences(d)) {
		vec_reserve(&w->chosen, n + 1);
		for (uint32_t i = 0; i < n; i++)
			w->chosen.v[i] = i >= lo && i < hi;
		int rc = sealed_weigh_rows(d, w->chosen.v, n, w->sums.v, &fits, &read, e);
		*ret_read += fits ? read : 0;
		if (rc || fits)
			return rc;
	}
	return sealed_sum_rows(d, lo, hi == n ? UINT32_MAX : hi, w->sums.v, ret_read, e);
}

int part_sum(const struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, struct part_scratch *w,
	     struct part_sums *ret, size_t *ret_n, uint64_t *ret_read, struct err *e)
{
	int64_t factor;
	bool whole;
	*ret_n = 0;
	if (!in_range(p, series, after_ms, until_ms, &whole))
		return 0;
	int rc = get_rollup(p, &series, w, &factor, e);
	if (rc || !w->rollup.columns.n)
		return rc;
	*ret = (struct part_sums){ w->rollup.columns.v, w->rollup.sums.v, factor, w->rollup.columns.n };
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
	struct sealed_detail d;
	rc = part_detail(p, series, w, &d, e);
	if (rc)
		return rc;
	vec_reserve(&w->sums, w->rollup.columns.n);
	ret->sums = w->sums.v;
	return sum_rows(&d, lo, hi, (uint32_t)w->totals.rows.n, w, ret_read, e);
}

/* The whole of a series, decoded no further than needed. */
static int add_whole(const struct part *p, uint32_t series, struct part_scratch *w, struct dense *d, uint32_t n_columns,
		     uint64_t *ret_read, struct err *e)
{
	int64_t factor = 1;
	for (int hops = 0; hops < 2; hops++) {
		struct view v;
		int rc = part_reader_get(&w->rollups, p, PART_ROLLUP, series, 0, &v, e);
		if (!rc)
			rc = sealed_add_rollup(v, &w->rollup, d, n_columns, factor, ret_read, e);
		if (rc || !w->rollup.times.factor)
			return rc;
		factor = w->rollup.times.factor;
		series = w->rollup.times.series;
	}
	return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of a multiple");
}

int part_add(const struct part *p, uint32_t series, int64_t after_ms, int64_t until_ms, struct part_scratch *w, struct dense *d,
	     uint32_t n_columns, uint64_t *ret_read, struct err *e)
{
	struct part_sums s;
	size_t n;
	bool whole;
	if (!in_range(p, series, after_ms, until_ms, &whole))
		return 0;
	if (whole)
		return add_whole(p, series, w, d, n_columns, ret_read, e);
	int rc = part_sum(p, series, after_ms, until_ms, w, &s, &n, ret_read, e);
	if (rc || !n || !s.n)
		return rc;
	*ret_read += s.n;
	if (s.columns[s.n - 1] >= n_columns)
		return err_set(e, ERR_CORRUPT, "a sealed window names a column that its dictionary lacks");
	if (!dense_add(d, s.columns, s.sums, s.n, s.factor))
		return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
	return 0;
}

int part_weigh(const struct part *p, uint32_t series, struct part_scratch *w, struct part_sums *ret, size_t *ret_n, bool *ret_fits, uint64_t *ret_read,
	       struct err *e)
{
	int64_t factor;
	struct sealed_detail d;
	*ret_n = 0;
	*ret_fits = true;
	int rc = find_rollup(p, &series, w, sealed_get_rollup_columns, &factor, e);
	if (rc || !w->rollup.columns.n)
		return rc;
	rc = weighed_detail(p, series, (uint32_t)w->columns.points.n, w, &d, e);
	if (!rc)
		rc = sealed_get_rollup_sums(&w->rollup, sealed_weighed_counts(&d), e);
	if (rc)
		return rc;
	vec_reserve(&w->sums, w->rollup.columns.n);
	rc = sealed_weigh_rows(&d, w->weights.v, (uint32_t)w->columns.points.n, w->sums.v, ret_fits, ret_read, e);
	*ret = (struct part_sums){ w->rollup.columns.v, w->sums.v, factor, w->rollup.columns.n };
	*ret_n = !rc && *ret_fits;
	return rc;
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

/* The sums of the columns that are hit, of each of n rows; the rollup is read. */
static int add_hits(const struct part *p, uint32_t series, int64_t factor, size_t n, struct part_scratch *w, uint64_t *ret_read, struct err *e)
{
	struct sealed_detail d;
	int rc = part_detail(p, series, w, &d, e);
	if (rc)
		return rc;
	vec_reserve(&w->sums, n + 1);
	memset(w->sums.v, 0, n * sizeof *w->sums.v);
	rc = sealed_sum_columns(&d, w->hit.v, w->sums.v, (uint32_t)n, ret_read, e);
	for (size_t i = 0; !rc && factor != 1 && i < n; i++)
		if (__builtin_mul_overflow(w->sums.v[i], factor, &w->sums.v[i]))
			rc = err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range");
	return rc;
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
	rc = add_hits(p, series, factor, w->totals.rows.n, w, ret_read, e);
	*ret_rows = w->totals.rows.n;
	return rc;
}

int part_match(const struct part *p, uint32_t series, const uint64_t *match, uint32_t n_match, size_t n, struct part_scratch *w,
	       uint64_t *ret_read, struct err *e)
{
	int64_t factor;
	vec_reserve(&w->sums, n + 1);
	memset(w->sums.v, 0, n * sizeof *w->sums.v);
	if (!match)
		return 0;
	int rc = get_rollup(p, &series, w, &factor, e);
	return rc || !find_hits(w, match, n_match) ? rc : add_hits(p, series, factor, n, w, ret_read, e);
}

/* Fills in which rows are wanted, a byte each, and of those their numbers, stamps and whether they are summed. */
static void choose_rows(const struct part *p, const struct part_choice *choice, struct part_scratch *w, struct cells *out)
{
	size_t n = w->totals.rows.n;
	vec_reserve(&w->hit, n + 1);
	vec_reserve(&w->numbers, n + 1);
	for (size_t i = 0; i < n; i++) {
		int64_t t = w->totals.rows.v[i].t_ms;
		uint64_t minute = part_minute(p, t);
		bool summed = minute & choice->few, wanted = summed ? choice->to->odd(choice->to->arg, choice->series, t) : (minute & choice->minutes) != 0;
		w->hit.v[i] = wanted;
		w->numbers.v[i] = (uint32_t)out->t_ms.n;
		if (!wanted)
			continue;
		vec_push(&out->t_ms, t);
		vec_push(&out->summed, summed);
	}
}

static int read_cells(const struct part *p, uint32_t series, const uint8_t *wanted, struct part_scratch *w, struct cells *out, struct err *e)
{
	struct sealed_detail d;
	int rc = part_detail(p, series, w, &d, e);
	return rc ? rc : sealed_cells(&d, (uint32_t)w->totals.rows.n, wanted, out, e);
}

int part_cells(const struct part *p, uint32_t series, const struct part_choice *choice, struct part_scratch *w, struct cells *out, struct err *e)
{
	int64_t factor, same;
	out->t_ms.n = out->summed.n = out->rows.n = out->columns.n = out->values.n = 0;
	int rc = get_rollup(p, &series, w, &factor, e);
	if (!rc)
		rc = get_totals(p, series, w, &same, e);
	if (rc || !w->rollup.columns.n)
		return rc;
	if (choice)
		choose_rows(p, choice, w, out);
	for (size_t i = 0; i < w->totals.rows.n && !choice; i++)
		vec_push(&out->t_ms, w->totals.rows.v[i].t_ms);
	if (!out->t_ms.n)
		return 0;
	rc = read_cells(p, series, choice ? w->hit.v : NULL, w, out, e);
	for (size_t i = 0; !rc && choice && i < out->rows.n; i++)
		out->rows.v[i] = w->numbers.v[out->rows.v[i]];
	for (size_t i = 0; !rc && factor != 1 && i < out->values.n; i++)
		if (__builtin_mul_overflow(out->values.v[i], factor, &out->values.v[i]))
			rc = err_set(e, ERR_CORRUPT, "a sealed value does not fit in 64 bits");
	return rc;
}

int part_sum_cells(const struct part *p, uint32_t series, int64_t t_ms, struct part_scratch *w, struct cells *out, struct err *e)
{
	int64_t factor;
	out->t_ms.n = out->summed.n = out->rows.n = out->columns.n = out->values.n = 0;
	int rc = get_rollup(p, &series, w, &factor, e);
	size_t n = w->rollup.columns.n;
	if (rc || !n)
		return rc;
	vec_push(&out->t_ms, t_ms);
	vec_reserve(&out->rows, n);
	vec_reserve(&out->columns, n);
	vec_reserve(&out->values, n);
	bool over = false;
	for (size_t i = 0; i < n; i++) {
		out->rows.v[i] = 0;
		out->columns.v[i] = w->rollup.columns.v[i];
		over |= __builtin_mul_overflow(w->rollup.sums.v[i], factor, &out->values.v[i]);
	}
	out->rows.n = out->columns.n = out->values.n = n;
	return over ? err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range") : 0;
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
