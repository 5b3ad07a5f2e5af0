/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what the storage reads back: payloads of the head log's records and of values of sealed parts. On disk all of
 * them have checksums; this is about those that were made to fit. The first byte says which. */
#include <string.h>

#include "base/alloc.h"
#include "tests/fuzz/fuzz.h"
#include "tsdb/dict/dict.h"
#include "tsdb/dict/dict_names.h"
#include "tsdb/head/tombstone_fact.h"
#include "tsdb/part/part_ends.h"
#include "tsdb/part/sealed.h"

#define ROWS 512

const char fuzz_target[] = "tsdb";

static void samples(struct view v)
{
	struct cursor c = cursor_of(v);
	struct record_profile p = { 0 };
	while (record_get_profile(&c, &p)) {
		REQUIRE(p.n_series <= RECORD_MAX_TYPES, "%u series", p.n_series);
		if (p.stale)
			continue;
		REQUIRE(p.columns.n >= p.n && p.values.n >= p.n * p.n_series, "%zu samples", p.n);
		for (size_t i = 1; i < p.n; i++)
			REQUIRE(p.columns.v[i] > p.columns.v[i - 1], "column %zu", i);
		while (p.n_series > 1)
			record_drop_series(&p, p.n_series / 2);
	}
	record_profile_release(&p);
}

static void floats(struct view v)
{
	struct cursor c = cursor_of(v);
	struct record_float f;
	while (record_get_float(&c, &f))
		;
}

static void fact(struct view v)
{
	struct cursor c = cursor_of(v);
	struct tombstone_fact f = { 0 };
	if (tombstone_fact_get(&c, &f))
		for (size_t i = 1; i < f.series.n; i++)
			REQUIRE(f.series.v[i] > f.series.v[i - 1], "series %zu", i);
	vec_free(&f.series);
}

/* Twice: what is there already is passed over. */
static void symbols(struct view v)
{
	struct symbols *s = symbols_new();
	struct index x;
	struct err e = { 0 };
	struct dict_marks first;
	uint64_t lost = 0;
	index_init(&x, s);
	for (int i = 0; i < 2; i++)
		if (dict_apply(v, s, &x, &lost, &e))
			REQUIRE(e.code, "an error without a code");
	IGNORE(dict_first(v, s, &x, &first, &e)); /* most inputs are bad */
	index_release(&x);
	symbols_unref(s);
}

static void totals(struct view v)
{
	struct sealed_totals t = { .rows = { 0 } };
	struct sealed_points p = { .t_ms = { 0 } };
	struct err e = { 0 };
	int a = sealed_get_totals(v, &t, &e), b = sealed_get_points(v, &p, &e);
	if (!a && !b && !t.times.factor) {
		REQUIRE(t.rows.n == p.n, "%zu rows, %zu stamps", t.rows.n, p.n);
		for (size_t i = 0; i < p.n; i++) {
			int64_t t_ms = p.every_ms ? p.first_ms + (int64_t)i * p.every_ms : p.t_ms.v[i];
			REQUIRE(t_ms == t.rows.v[i].t_ms, "row %zu is stamped %lld and %lld", i, (long long)t.rows.v[i].t_ms, (long long)t_ms);
			REQUIRE(p.totals.v[i] == (t.rows.v[i].stale ? 0 : t.rows.v[i].total), "row %zu has another total", i);
		}
	}
	REQUIRE(!a == !b, "one reader takes it, the other does not");
	sealed_totals_release(&t);
	sealed_points_release(&p);
}

static void sealed_float(struct view v)
{
	struct sealed_floats f = { .points = { 0 } };
	struct err e = { 0 };
	IGNORE(sealed_get_floats(v, &f, &e)); /* most inputs are bad */
	vec_free(&f.points);
}

static struct view cut(struct view *v)
{
	size_t n = 0;
	if (v->len >= 2) {
		n = (uint8_t)v->ptr[0] | (size_t)(uint8_t)v->ptr[1] << 8;
		v->ptr += 2;
		v->len -= 2;
	}
	struct view r = view_make(v->ptr, MIN(n, v->len));
	v->ptr += r.len;
	v->len -= r.len;
	return r;
}

/* Weighed sums with all sums of the rollup, and with those alone that they need, without gaps where they need none. Both say the same. */
static void weigh(struct sealed_detail *d, struct view rollup, uint32_t n_rows)
{
	struct sealed_rollup r = { .columns = { 0 } };
	struct err e = { 0 };
	uint64_t read = 0;
	bool fits[2] = { false, false };
	size_t n = d->rollup->columns.n;
	int64_t *weights = xcalloc(n_rows + 1, sizeof *weights), *sums = xcalloc(2 * n + 2, sizeof *sums);
	for (uint32_t i = 0; i < n_rows; i++)
		weights[i] = (i % 3 == 1) * 30000 - (int64_t)(i % 7);
	int rc = sealed_weigh_rows(d, weights, n_rows, sums, &fits[0], &read, &e);
	struct sealed_detail few = { d->counts, d->gaps, d->values, &r, false };
	if (!sealed_get_rollup_columns(rollup, &r, &e) && !sealed_get_rollup_sums(&r, sealed_weighed_counts(&few), &e)) {
		few.full = sealed_is_full(&few, n_rows);
		if (few.full)
			few.gaps = VIEW(""); /* they are not read */
		int again = sealed_weigh_rows(&few, weights, n_rows, sums + n, &fits[1], &read, &e);
		if (!rc && !again)
			REQUIRE(fits[0] == fits[1] && (!fits[0] || !memcmp(sums, sums + n, n * sizeof *sums)), "sums of %zu columns", n);
	}
	free(weights);
	free(sums);
	sealed_rollup_release(&r);
}

/* Rollup, counts and gaps with their lengths in front, then values. */
static void detail(struct view v)
{
	struct sealed_rollup r = { .columns = { 0 } };
	struct err e = { 0 };
	struct cells cells = { .columns = { 0 } };
	uint64_t read = 0;
	struct view rollup = cut(&v), counts = cut(&v), gaps = cut(&v);
	struct sealed_detail d = { counts, gaps, v, &r, false };
	if (!sealed_get_rollup(rollup, &r, &e) && !r.times.factor) {
		int64_t *sums = xcalloc(r.columns.n + 1, sizeof *sums), *rows = xcalloc(ROWS, sizeof *rows);
		uint8_t *hit = xcalloc(r.columns.n + 1, 1);
		for (size_t i = 0; i < r.columns.n; i += 2)
			hit[i] = 1;
		IGNORE(sealed_sum_rows(&d, 0, UINT32_MAX, sums, &read, &e)); /* most inputs are bad */
		IGNORE(sealed_sum_rows(&d, 3, 7, sums, &read, &e)); /* most inputs are bad */
		IGNORE(sealed_sum_columns(&d, hit, rows, ROWS, &read, &e)); /* most inputs are bad */
		IGNORE(sealed_cells(&d, ROWS, NULL, &cells, &e)); /* most inputs are bad */
		for (size_t i = 0; i < cells.rows.n; i++)
			REQUIRE(cells.rows.v[i] < ROWS, "row %u", cells.rows.v[i]);
		weigh(&d, rollup, ROWS);
		weigh(&d, rollup, 3);
		free(sums);
		free(rows);
		free(hit);
	}
	cells_release(&cells);
	sealed_rollup_release(&r);
}

/* The covers of a part of an hour whose series the first bytes describe: their number, then four bytes of each. What is accepted lies within their bounds, and
 * stays the same when it is written again. */
static bool cut_series(struct view *v, struct part *p)
{
	size_t n = v->len ? (uint8_t)v->ptr[0] % 16 : 0;
	*p = (struct part){ .level = LEVEL_HOUR, .window = 472230 };
	if (v->len < 1 + 4 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		const uint8_t *x = (const uint8_t *)v->ptr + 1 + 4 * i;
		vec_push(&p->series, (struct part_series){ .series = (uint32_t)i, .min_ms = (uint32_t)x[0] * 15000 + x[1], .max_ms = (uint32_t)x[2] * 15000, .is_float = x[3] & 1 });
	}
	*v = view_make(v->ptr + 1 + 4 * n, v->len - 1 - 4 * n);
	return true;
}

static void covers(struct view v)
{
	struct part p;
	struct part_covers *c, *same;
	struct buf b = { 0 };
	struct err e = { 0 };
	if (!cut_series(&v, &p))
		return;
	size_t n = p.series.n;
	if (!part_covers_decode(&p, v, &c, &e)) {
		for (size_t i = 0; i < c->n_spans; i++)
			REQUIRE(c->spans[i].after_ms <= (int64_t)c->spans[i].until_ms && c->spans[i].until_ms <= HOUR_MS, "span %zu", i);
		part_covers_encode(&p, c, &b);
		REQUIRE(!part_covers_decode(&p, buf_view(&b), &same, &e), "%s", e.msg);
		REQUIRE(c->n_spans == same->n_spans && (!c->n_spans || !memcmp(c->spans, same->spans, c->n_spans * sizeof *c->spans)), "%zu spans", c->n_spans);
		REQUIRE(!memcmp(c->v, same->v, n * sizeof *c->v), "%zu series", n);
		free(same);
		free(c);
	} else {
		REQUIRE(e.code == ERR_CORRUPT && e.msg[0], "%s", e.msg);
	}
	buf_free(&b);
	vec_free(&p.series);
}

/* Names of a day. Those that are accepted are, written again from what they made, the same for whoever reads them. */
static void names(struct view v)
{
	struct symbols *to = symbols_new(), *again = symbols_new();
	struct buf b = { 0 };
	struct err e = { 0 };
	uint32_t *place, *same, n, n_same;
	uint64_t late = v.len && !(v.ptr[0] & 1);
	int rc = dict_names_join(v, to, late, &place, &n, &e);
	if (!rc) {
		for (uint32_t i = 0; i < n; i++)
			REQUIRE(place[i] <= symbols_count(to, SYMBOLS_COLUMNS), "place %u", place[i]);
		dict_names_put(&b, to, place, n, late);
		REQUIRE(!dict_names_join(buf_view(&b), again, late, &same, &n_same, &e) && n == n_same, "%s", e.msg);
		for (uint32_t i = 0; i < n; i++)
			REQUIRE(!place[i] == !same[i], "column %u", i);
		free(same);
		free(place);
	} else {
		REQUIRE((e.code == ERR_CORRUPT || e.code == ERR_NOT_FOUND) && e.msg[0], "%s", e.msg);
	}
	buf_free(&b);
	symbols_unref(to);
	symbols_unref(again);
}

/* The same of first and last profiles, behind covers with their length in front. */
static void ends(struct view v)
{
	struct part p;
	struct part_covers *c = NULL;
	struct part_ends *x, *same;
	struct buf b = { 0 };
	struct err e = { 0 };
	if (!cut_series(&v, &p))
		return;
	struct view known = cut(&v);
	if (!part_covers_decode(&p, known, &c, &e) && !part_ends_decode(&p, c, v, &x, &e)) {
		for (size_t i = 0; i < p.series.n; i++) {
			const struct part_end *y = &x->v[i];
			const struct part_cover *of = &c->v[i];
			bool several = of->n - of->n_stale > 1;
			if (!y->here)
				continue;
			REQUIRE(y->last_ms <= p.series.v[i].max_ms && y->first_cover_ms && y->last_cover_ms && y->first_total >= 0 && y->last_total >= 0, "series %zu", i);
			REQUIRE(several ? y->first_total <= of->total - y->last_total : y->first_total == of->total, "series %zu", i);
			REQUIRE(!several || (y->others_after_ms < (int64_t)y->last_ms && p.series.v[i].min_ms < y->last_ms), "series %zu", i);
		}
		part_ends_encode(&p, c, x, &b);
		REQUIRE(!part_ends_decode(&p, c, buf_view(&b), &same, &e), "%s", e.msg);
		REQUIRE(!memcmp(x->v, same->v, p.series.n * sizeof *x->v), "%zu series", p.series.n);
		free(same);
		free(x);
	} else {
		REQUIRE(e.code == ERR_CORRUPT && e.msg[0], "%s", e.msg);
	}
	free(c);
	buf_free(&b);
	vec_free(&p.series);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static void (*const readers[])(struct view) = { samples, floats, fact, symbols, totals, sealed_float, detail, covers, ends, names };
	if (n)
		readers[data[0] % ARRAY_LEN(readers)](view_make((const char *)data + 1, n - 1));
	return 0;
}
