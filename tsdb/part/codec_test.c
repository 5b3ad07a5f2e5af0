/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs without a database: records, symbols, the index, sealed windows; and that damaged bytes are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tsdb/dict/dict.h"
#include "tsdb/log/record.h"
#include "tsdb/part/sealed.h"
#include "tsdb/testkit.h"
#include "tsdb/write/sort.h"

static void test_record_frame(void **state)
{
	struct buf b = { 0 };
	struct record r;
	struct err e;
	record_begin(&b, RECORD_FACT, 20000);
	buf_puts(&b, "payload");
	record_end(&b, 7);
	assert_int_equal(record_parse(7, buf_view(&b), &r, &e), 0);
	assert_int_equal(r.kind, RECORD_FACT);
	assert_int_equal(r.partition, 20000);
	assert_true(view_eqs(r.payload, "payload"));
	assert_int_equal(record_parse(8, buf_view(&b), &r, &e), -ERR_CORRUPT); /* another number's record */
	for (size_t i = 0; i < b.len; i++) {
		b.ptr[i] ^= 1;
		assert_int_equal(record_parse(7, buf_view(&b), &r, &e), -ERR_CORRUPT);
		b.ptr[i] ^= 1;
		assert_int_equal(record_parse(7, view_make(b.ptr, i), &r, &e), -ERR_CORRUPT);
	}
	b.ptr[0] = 9;
	b.len -= 8;
	record_end(&b, 7);
	assert_int_equal(record_parse(7, buf_view(&b), &r, &e), -ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "newer"));
	buf_free(&b);
}

static void make_profile(struct record_profile *p, uint64_t *random, uint32_t n, int64_t t_ms, bool large)
{
	p->n_series = 3;
	for (uint32_t s = 0; s < 3; s++)
		p->series[s] = 5 + s;
	p->t_ms = t_ms;
	p->cover_ms = 10000;
	p->stale = false;
	p->meta = (struct sample_meta){ 10000000000 + (int64_t)(kit_random(random) % 1000), 10000000, 10000, 10000 };
	p->n = p->columns.n = n;
	vec_reserve(&p->columns, n + 1);
	vec_reserve(&p->values, 3 * n + 1);
	p->values.n = 3 * n;
	uint32_t c = 0;
	for (uint32_t i = 0; i < n; i++) {
		p->columns.v[i] = c += 1 + (uint32_t)(kit_random(random) % 6);
		int64_t v = 1 + (int64_t)(kit_random(random) % (large ? 100000 : 4)) * (large ? 512 : 1);
		p->values.v[i] = v;
		p->values.v[n + i] = v * 10000000;
		p->values.v[2 * n + i] = (int64_t)(kit_random(random) % 2000) - 1000;
	}
}

static void test_record_profiles(void **state)
{
	struct buf b = { 0 };
	struct record_profile in = { 0 }, out = { 0 };
	uint64_t random = 1, again = 1;
	for (uint32_t i = 0; i < 20; i++) {
		make_profile(&in, &random, i * 7, 1700000000000 + i * 10000, i % 2);
		in.stale = i == 5;
		record_put_profile(&b, &in);
	}
	struct cursor c = cursor_of(buf_view(&b));
	for (uint32_t i = 0; i < 20; i++) {
		make_profile(&in, &again, i * 7, 1700000000000 + i * 10000, i % 2);
		assert_true(record_get_profile(&c, &out));
		assert_int_equal(out.n_series, 3);
		assert_true(out.t_ms == in.t_ms);
		assert_int_equal(out.stale, i == 5);
		if (i == 5)
			continue;
		assert_int_equal(out.n, in.n);
		assert_true(out.meta.duration_ns == in.meta.duration_ns && out.cover_ms == 10000);
		if (in.n) {
			assert_memory_equal(out.columns.v, in.columns.v, in.n * sizeof *in.columns.v);
			assert_memory_equal(out.values.v, in.values.v, 3 * in.n * sizeof *in.values.v);
			assert_int_equal(out.times_of[1], 0);
			assert_true(out.factor[1] == 10000000);
		}
	}
	assert_false(record_get_profile(&c, &out));
	assert_false(c.bad);
	/* Cut anywhere, or with any byte changed, it ends and does not read beyond. */
	for (size_t i = 0; i < b.len; i++) {
		AUTOFREE char *copy = xmalloc(b.len);
		memcpy(copy, b.ptr, b.len);
		copy[i] ^= 0x41;
		c = cursor_of(view_make(copy, b.len - i % 3));
		while (record_get_profile(&c, &out))
			;
	}
	record_profile_release(&in);
	record_profile_release(&out);
	buf_free(&b);
}

static void test_sort(void **state)
{
	uint64_t random = 3, v[500], tmp[500];
	for (size_t n = 0; n <= 500; n += 25) {
		for (size_t i = 0; i < n; i++)
			v[i] = (kit_random(&random) % 200000) << 32 | i;
		uint64_t *s = sort_by_high(v, tmp, n);
		for (size_t i = 1; i < n; i++)
			assert_true(s[i - 1] < s[i]); /* stable: the lower half ascends among equals */
	}
}

/* ---- symbols ---- */

static void fill_symbols(struct symbols *s, struct index *x, uint64_t seed)
{
	struct profile p;
	struct err e;
	kit_profile(&p, seed, 60);
	uint32_t *columns = arena_alloc(&p.arena, p.n_samples * sizeof *columns);
	assert_int_equal(symbols_add_profile(s, &p, columns, NULL, &e), 0);
	struct sym_label l[] = { { .key = symbols_string(s, VIEW("bytes")), .is_num = true, .num = 512,
				   .unit = symbols_string(s, VIEW("bytes")) },
				 { .key = symbols_string(s, VIEW("tenant")), .str = symbols_string(s, VIEW("a")) } };
	symbols_column(s, symbols_get_column(s, columns[0])->stack, symbols_label_set(s, l, 1 + seed % 2));
	char pod[24];
	snprintf(pod, sizeof pod, "pod-%u", (unsigned)seed);
	struct label labels[] = { { VIEW("__name__"), VIEW("cpu") }, { VIEW("pod"), view_of(pod) } };
	struct labels set = { labels, 2 };
	struct ptype type;
	assert_true(ptype_parse(VIEW(KIT_CPU), &type));
	index_add(x, set, labels_hash(set), seed % 3 ? &type : NULL);
	profile_release(&p);
}

static void same_symbols(const struct symbols *a, const struct symbols *b)
{
	for (enum symbols_table t = SYMBOLS_STRINGS; t < SYMBOLS_TABLES; t++)
		assert_int_equal(symbols_count(a, t), symbols_count(b, t));
	for (uint32_t i = 0; i < symbols_count(a, SYMBOLS_STRINGS); i++)
		assert_true(view_eq(symbols_get_string(a, i), symbols_get_string(b, i)));
	for (uint32_t i = 1; i < symbols_count(a, SYMBOLS_NODES); i++)
		assert_memory_equal(symbols_get_node(a, i), symbols_get_node(b, i), sizeof(struct sym_node));
	for (uint32_t i = 0; i < symbols_count(a, SYMBOLS_COLUMNS); i++)
		assert_memory_equal(symbols_get_column(a, i), symbols_get_column(b, i), sizeof(struct sym_column));
}

static void test_symbols(void **state)
{
	struct symbols *a = symbols_new(), *b = symbols_new();
	struct index xa, xb;
	struct dict_marks from, to;
	struct buf out = { 0 };
	struct err e;
	uint64_t lost = 0;
	index_init(&xa, a);
	index_init(&xb, b);
	dict_marks_start(&from);
	for (uint64_t i = 0; i < 12; i++) {
		fill_symbols(a, &xa, i);
		dict_marks_now(&to, a, &xa);
		buf_reset(&out);
		dict_encode(&out, a, &xa, &from, &to, NULL);
		assert_int_equal(dict_apply(buf_view(&out), b, &xb, &lost, &e), 0);
		assert_int_equal(dict_apply(buf_view(&out), b, &xb, &lost, &e), 0); /* twice does no harm */
		for (size_t k = 0; k < out.len; k += 7) { /* nor does a cut one, beyond itself */
			struct symbols *s = symbols_new();
			struct index x;
			index_init(&x, s);
			IGNORE(dict_apply(view_make(out.ptr, k), s, &x, NULL, &e)); /* or not */
			index_release(&x);
			symbols_unref(s);
		}
		from = to;
	}
	assert_int_equal(lost, 0);
	same_symbols(a, b);
	assert_int_equal(xa.series.n, xb.series.n);
	for (size_t i = 0; i < xa.series.n; i++) {
		assert_true(labels_eq(xa.series.v[i]->labels, xb.series.v[i]->labels));
		assert_int_equal(xa.series.v[i]->is_float, xb.series.v[i]->is_float);
		if (!xa.series.v[i]->is_float)
			assert_true(ptype_eq(&xa.series.v[i]->type, &xb.series.v[i]->type));
	}
	index_release(&xa);
	index_release(&xb);
	symbols_unref(a);
	symbols_unref(b);
	buf_free(&out);
}

/* ---- the index ---- */

static struct rwlock lock; /* of every index here */

static size_t selected(const struct index *x, enum matcher_op op, const char *name, const char *value)
{
	struct matcher m;
	struct err e;
	uint32_t *ids;
	size_t n;
	assert_int_equal(matcher_init(&m, op, view_of(name), view_of(value), &e), 0);
	assert_int_equal(index_select(x, &lock, &m, 1, 0, 100, NULL, &ids, &n, &e), 0);
	free(ids);
	matcher_release(&m);
	return n;
}

static void test_index(void **state)
{
	struct symbols *s = symbols_new();
	struct index x;
	uint32_t id;
	index_init(&x, s);
	for (unsigned i = 0; i < 100; i++) {
		char pod[24];
		snprintf(pod, sizeof pod, "pod-%u", i);
		struct label l[] = { { VIEW("__name__"), i % 2 ? VIEW("cpu") : VIEW("up") }, { VIEW("pod"), view_of(pod) },
				     { VIEW("zone"), VIEW("a") } };
		struct labels set = { l, i % 10 ? 2 : 3 };
		assert_false(index_find(&x, set, labels_hash(set), &id));
		assert_int_equal(index_add(&x, set, labels_hash(set), NULL), i);
		assert_true(index_find(&x, set, labels_hash(set), &id));
		assert_int_equal(id, i);
		if (i < 90)
			series_saw(x.series.v[i], i < 80 ? 50 : 500);
	}
	assert_int_equal(selected(&x, MATCH_NE, "nothing", "x"), 80); /* those with stamps in range */
	assert_int_equal(selected(&x, MATCH_EQ, "__name__", "cpu"), 40);
	assert_int_equal(selected(&x, MATCH_NE, "__name__", "cpu"), 40);
	assert_int_equal(selected(&x, MATCH_EQ, "zone", ""), 72);
	assert_int_equal(selected(&x, MATCH_NE, "zone", ""), 8);
	assert_int_equal(selected(&x, MATCH_RE, "pod", "pod-1.?"), 11);
	assert_int_equal(selected(&x, MATCH_NRE, "pod", "pod-1.?"), 69);
	assert_int_equal(selected(&x, MATCH_RE, "zone", "a|"), 80);
	assert_int_equal(selected(&x, MATCH_EQ, "zone", "b"), 0);
	index_release(&x);
	symbols_unref(s);
}

/* An expression that would take minutes, stopped after two seconds. */
static void *select_slowly(void *arg)
{
	struct regex_meter meter = { .max_ns = INT64_C(2000000000), .max_name = "2 s of a test" };
	struct matcher m;
	struct err e = { 0 };
	uint32_t *ids;
	size_t n;
	if (matcher_init(&m, MATCH_RE, VIEW("v"), VIEW("((.*)*(.*)*(.*)*(.*)*)*[xq]$"), &e))
		return "matcher_init";
	int rc = index_select(arg, &lock, &m, 1, 0, 100, &meter, &ids, &n, &e);
	matcher_release(&m);
	return rc ? NULL : "the expression was not slow";
}

/* Appends write under the lock: they do not wait for it. */
static void test_slow_expressions(void **state)
{
	struct symbols *s = symbols_new();
	struct index x;
	pthread_t thread;
	void *failed;
	index_init(&x, s);
	for (unsigned i = 0; i < 1000; i++) {
		char text[64];
		snprintf(text, sizeof text, "a value of some length, number %u", i);
		struct label l = { VIEW("v"), view_of(text) };
		struct labels set = { &l, 1 };
		uint32_t id = index_add(&x, set, labels_hash(set), NULL);
		series_saw(x.series.v[id], 50);
	}
	assert_int_equal(pthread_create(&thread, NULL, select_slowly, &x), 0);
	clock_sleep_ms(200);
	int64_t from = clock_mono_ms();
	rwlock_write(&lock);
	int64_t waited = clock_mono_ms() - from;
	rwlock_unlock(&lock);
	pthread_join(thread, &failed);
	int64_t took = clock_mono_ms() - from;
	if (failed)
		fail_msg("%s", (const char *)failed);
	if (took > 1000)
		assert_true(waited < took / 2);
	index_release(&x);
	symbols_unref(s);
}

/* ---- sealed windows ---- */

/* Any range of any rows adds up to what the head says. */
static void check_sealed(const struct chunk *c)
{
	struct sealed_buffers b = { 0 };
	struct sealed_rollup u = { 0 };
	struct sealed_totals t = { 0 };
	struct sealed_scratch scratch = { 0 };
	struct dense sum = { 0 };
	struct err e;
	assert_int_equal(sealed_encode(c, &scratch, &b, &e), 0);
	dense_reserve(&sum, c->n_columns);
	uint32_t *columns = xcalloc(sum.room + 1, sizeof *columns);
	int64_t *values = xcalloc(sum.room + 1, sizeof *values);
	assert_int_equal(sealed_get_totals(buf_view(&b.totals), &t, &e), 0);
	assert_int_equal(sealed_get_rollup(buf_view(&b.rollup), &u, &e), 0);
	struct sealed_detail d = { buf_view(&b.detail[0]), buf_view(&b.detail[1]), buf_view(&b.detail[2]), &u };
	int64_t *sums = xcalloc(u.columns.n + 1, sizeof *sums);
	assert_int_equal(t.rows.n, c->rows.n);
	for (uint32_t lo = 0; lo <= t.rows.n; lo += 3)
		for (uint32_t hi = lo; hi <= t.rows.n; hi += 5) {
			uint64_t read = 0;
			int64_t after = lo ? t.rows.v[lo - 1].t_ms : 0, until = hi ? t.rows.v[hi - 1].t_ms : 0;
			assert_int_equal(sealed_sum_rows(&d, lo, hi, sums, &read, &e), 0);
			assert_int_equal(chunk_sum(c, c->rows.n, after, until, &sum, &read, &e), 0);
			size_t n = dense_take(&sum, columns, values);
			int64_t want = 0, have = 0;
			for (size_t i = 0; i < u.columns.n; i++)
				have += sums[i] * (int64_t)(u.columns.v[i] + 1);
			for (size_t k = 0; k < n; k++)
				want += values[k] * (int64_t)(columns[k] + 1);
			assert_true(want == have);
		}
	/* Per row, with every column, it is the total. */
	uint8_t *hit = xmalloc(u.columns.n + 1);
	int64_t *rows = xcalloc(t.rows.n + 1, sizeof *rows);
	uint64_t read = 0;
	memset(hit, 1, u.columns.n + 1);
	assert_int_equal(sealed_sum_columns(&d, hit, rows, (uint32_t)t.rows.n, &read, &e), 0);
	for (size_t i = 0; i < t.rows.n; i++)
		assert_true(rows[i] == t.rows.v[i].total);
	/* What one choice of columns has and what the others have is all. */
	for (size_t k = 2; k < 40; k = k * 2 + 1) {
		int64_t *others = xcalloc(t.rows.n + 1, sizeof *others);
		memset(rows, 0, t.rows.n * sizeof *rows);
		for (int side = 0; side < 2; side++) {
			for (size_t i = 0; i < u.columns.n; i++)
				hit[i] = (hash_u64(i / 3) % k == 0) == side;
			assert_int_equal(sealed_sum_columns(&d, hit, side ? rows : others, (uint32_t)t.rows.n, &read, &e), 0);
		}
		for (size_t i = 0; i < t.rows.n; i++)
			assert_true(rows[i] + others[i] == t.rows.v[i].total);
		free(others);
	}
	/* Damage is refused or wrong, never a read beyond the end. */
	for (int stream = 0; stream < 3; stream++)
		for (size_t i = 0; i < b.detail[stream].len; i += 1 + b.detail[stream].len / 50) {
			struct sealed_detail bad = d;
			struct view *v = stream == 0 ? &bad.counts : stream == 1 ? &bad.gaps : &bad.values;
			AUTOFREE char *copy = xmalloc(v->len);
			memcpy(copy, v->ptr, v->len);
			copy[i] ^= 0x5a;
			*v = view_make(copy, v->len - i % 2);
			IGNORE(sealed_sum_rows(&bad, 0, UINT32_MAX, sums, &read, &e)); /* or not */
			IGNORE(sealed_sum_columns(&bad, hit, rows, (uint32_t)t.rows.n, &read, &e)); /* or not */
		}
	free(hit);
	free(rows);
	free(sums);
	free(columns);
	free(values);
	dense_release(&sum);
	sealed_scratch_release(&scratch);
	sealed_rollup_release(&u);
	sealed_totals_release(&t);
	sealed_buffers_release(&b);
}

static void test_sealed(void **state)
{
	for (int large = 0; large < 2; large++) {
		struct record_profile p = { 0 };
		struct row_memory memory = { 0 };
		struct sealed_scratch scratch = { 0 };
		struct chunk c[3] = { { .series = 5 }, { .series = 6 }, { .series = 7 } };
		uint64_t random = 11;
		for (uint32_t i = 0; i < 300; i++) {
			make_profile(&p, &random, i % 40, 1700000000000 + (int64_t)(i % 10 < 2 ? i ^ 1 : i) * 10000, large);
			p.stale = i == 150;
			for (uint32_t s = 0; s < 3; s++) {
				p.times_of[s] = 0xff;
				p.factor[s] = 0;
			}
			p.times_of[1] = 0;
			p.factor[1] = 10000000;
			for (uint32_t s = 0; s < 3; s++)
				chunk_add(&c[s], &memory, &p, s, s == 1 ? &c[0] : NULL, 1);
		}
		check_sealed(&c[0]);
		check_sealed(&c[2]);
		struct sealed_buffers b = { 0 };
		struct err e;
		assert_int_equal(sealed_encode(&c[1], &scratch, &b, &e), 0);
		assert_int_equal(b.times.series, 5);
		assert_true(b.times.factor == 10000000);
		sealed_buffers_release(&b);
		for (int s = 0; s < 3; s++)
			chunk_release(&c[s]);
		row_memory_release(&memory);
		sealed_scratch_release(&scratch);
		record_profile_release(&p);
	}
}

/* Sums of n columns as series have them: kind 0 mostly small and dense, 1 with escapes everywhere, 2 signed and large. */
static uint32_t make_sums(uint64_t *random, size_t n, int kind, uint32_t *columns, int64_t *sums)
{
	uint32_t next = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t r = hash_u64(++*random), far = kind == 1 ? 8 : 90;
		uint32_t gap = r % far == 0 ? 250 + (uint32_t)(r >> 20) % 9000 : r % 5 == 0 ? (uint32_t)(r >> 20) % 20 : 0;
		columns[i] = next + gap;
		next = columns[i] + 1;
		uint64_t size = r >> 32;
		sums[i] = kind == 2 ? (int64_t)(size << (r % 8)) * (r % 2 ? 1 : -1)
				    : (int64_t)(r % far == 1 ? 250 + size % 10 : r % far == 2 ? size + 1 : size % 255 + 1);
	}
	return next;
}

/* What was put is got, and added as it lies it is the same as added one by one. Damage is refused, or is another profile. */
static void check_sums(const uint32_t *columns, const int64_t *sums, size_t n, uint32_t n_columns)
{
	struct buf b = { 0 };
	struct sealed_rollup u = { 0 };
	struct dense a = { 0 }, want = { 0 };
	struct err e;
	uint64_t read = 0;
	sealed_put_rollup(&b, columns, sums, n);
	assert_int_equal(sealed_get_rollup(buf_view(&b), &u, &e), 0);
	assert_int_equal(u.columns.n, n);
	assert_true(!n || !memcmp(u.columns.v, columns, n * sizeof *columns));
	assert_true(!n || !memcmp(u.sums.v, sums, n * sizeof *sums));
	dense_reserve(&a, n_columns);
	dense_reserve(&want, n_columns);
	const int64_t factors[] = { 1, 1, 1000, -3 };
	for (size_t f = 0; f < ARRAY_LEN(factors); f++) {
		assert_int_equal(sealed_add_rollup(buf_view(&b), &u, &a, n_columns, factors[f], &read, &e), 0);
		assert_true(dense_add(&want, columns, sums, n, factors[f]));
	}
	assert_int_equal(read, n * ARRAY_LEN(factors));
	assert_memory_equal(a.sums, want.sums, a.room * sizeof *a.sums);
	for (size_t i = 0; i < n; i++)
		assert_true(a.marks[columns[i] / 64]);
	if (n)
		assert_int_equal(sealed_add_rollup(buf_view(&b), &u, &a, n_columns - 1, 1, &read, &e), -ERR_CORRUPT);
	for (size_t i = 0; i < b.len; i += 1 + b.len / 150) {
		AUTOFREE char *copy = xmalloc(b.len);
		memcpy(copy, b.ptr, b.len);
		copy[i] ^= (char)(i % 3 ? 0x5a : 0xff);
		struct view damaged = view_make(copy, b.len - i % 2);
		IGNORE(sealed_get_rollup(damaged, &u, &e)); /* or not */
		IGNORE(sealed_add_rollup(damaged, &u, &a, n_columns, 1, &read, &e)); /* or not */
	}
	dense_release(&a);
	dense_release(&want);
	sealed_rollup_release(&u);
	buf_free(&b);
}

static void test_sums(void **state)
{
	static const size_t counts[] = { 0, 1, 2, 7, 8, 9, 63, 64, 200, 3000 };
	uint32_t *columns = xcalloc(3000, sizeof *columns);
	int64_t *sums = xcalloc(3000, sizeof *sums);
	uint64_t random = 5;
	for (size_t i = 0; i < 3 * ARRAY_LEN(counts); i++) {
		uint32_t n_columns = make_sums(&random, counts[i / 3], (int)(i % 3), columns, sums);
		check_sums(columns, sums, counts[i / 3], n_columns);
	}
	free(columns);
	free(sums);
}

/* A sum that does not fit is an error, however it is added. */
static void test_sums_overflow(void **state)
{
	uint32_t columns[64];
	int64_t sums[64];
	struct sealed_rollup u = { 0 };
	struct dense d = { 0 };
	struct buf b = { 0 };
	struct err e;
	uint64_t read = 0;
	for (uint32_t i = 0; i < 64; i++) {
		columns[i] = i;
		sums[i] = i == 40 ? INT64_MAX - 10 : 2;
	}
	sealed_put_rollup(&b, columns, sums, 64);
	dense_reserve(&d, 64);
	assert_int_equal(sealed_add_rollup(buf_view(&b), &u, &d, 64, 1, &read, &e), 0);
	assert_int_equal(d.sums[40], INT64_MAX - 10);
	assert_int_equal(d.sums[39], 2);
	assert_int_equal(sealed_add_rollup(buf_view(&b), &u, &d, 64, -1, &read, &e), 0);
	assert_int_equal(d.sums[40], 0);
	assert_int_equal(sealed_add_rollup(buf_view(&b), &u, &d, 64, 2, &read, &e), -ERR_EXECUTION);
	dense_release(&d);
	sealed_rollup_release(&u);
	buf_free(&b);
}

static void test_overflow(void **state)
{
	struct record_profile p = { .n_series = 1, .t_ms = 1000, .n = 1 };
	struct chunk c = { .series = 0 };
	struct row_memory memory = { 0 };
	struct dense sum = { 0 };
	struct err e;
	uint32_t columns[64];
	int64_t values[64];
	uint64_t read = 0;
	dense_reserve(&sum, 4);
	vec_push(&p.columns, 3);
	vec_push(&p.values, INT64_MAX / 2 + 1);
	p.times_of[0] = 0xff;
	for (int i = 0; i < 2; i++, p.t_ms += 1000)
		chunk_add(&c, &memory, &p, 0, NULL, 1);
	assert_int_equal(chunk_sum(&c, 2, 0, 5000, &sum, &read, &e), -ERR_EXECUTION);
	dense_take(&sum, columns, values);
	assert_int_equal(chunk_sum(&c, 2, 1000, 5000, &sum, &read, &e), 0);
	assert_int_equal(dense_take(&sum, columns, values), 1);
	assert_true(columns[0] == 3 && values[0] == INT64_MAX / 2 + 1);
	assert_true(dense_add(&sum, &columns[0], &values[0], 1, 1) && !dense_add(&sum, &columns[0], &values[0], 1, 1));
	chunk_release(&c);
	row_memory_release(&memory);
	dense_release(&sum);
	record_profile_release(&p);
}

static void test_floats(void **state)
{
	struct fpoint p[200];
	struct buf b = { 0 };
	struct sealed_floats f = { 0 };
	struct err e;
	for (int i = 0; i < 200; i++)
		p[i] = (struct fpoint){ .t_ms = 1700000000000 + i * 15000 + i % 3, .bits = value_bits(i % 5 ? 1.0 : i / 7.0) };
	p[199].bits = VALUE_STALE_BITS;
	sealed_put_floats(&b, p, 200);
	assert_true(b.len < 200 * 6);
	assert_int_equal(sealed_get_floats(buf_view(&b), &f, &e), 0);
	assert_int_equal(f.points.n, 200);
	for (int i = 0; i < 200; i++)
		assert_true(f.points.v[i].t_ms == p[i].t_ms && f.points.v[i].bits == p[i].bits);
	assert_int_equal(sealed_get_floats(view_make(b.ptr, b.len - 1), &f, &e), -ERR_CORRUPT);
	vec_free(&f.points);
	buf_free(&b);
}

int main(void)
{
	rwlock_init(&lock, LOCK_ANY, "index");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_frame), cmocka_unit_test(test_record_profiles), cmocka_unit_test(test_sort),
		cmocka_unit_test(test_symbols), cmocka_unit_test(test_index), cmocka_unit_test(test_slow_expressions), cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_sums), cmocka_unit_test(test_sums_overflow), cmocka_unit_test(test_overflow), cmocka_unit_test(test_floats),
	};
	return cmocka_run_group_tests_name("tsdb codecs", tests, NULL, NULL);
}
