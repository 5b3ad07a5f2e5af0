/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that are kept for the head against each row added up: of any ranges, by views of any age, while rows come, late ones too, while some
 * are deleted; of multiples, and of values so large that they do not fit twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "tsdb/head/head_sums.h"
#include "tsdb/head/remove.h"

enum { COLUMNS = 400, LATER = 6000, SERIES = 3 }; /* a column that only later rows have */

struct fixture {
	struct window *w;
	struct record_profile p;
	struct dense d, work, want;
	uint64_t random, seq;
	uint64_t read, read_want; /* of all questions */
	bool large;
};

static uint64_t next(struct fixture *f, uint64_t n)
{
	return hash_u64(++f->random) % n;
}

/* Series 0, 1, a multiple of it, and 2, whose samples are few and never the same. */
static void append(struct fixture *f, int64_t t_ms)
{
	struct record_profile *p = &f->p;
	p->n_series = SERIES;
	p->t_ms = t_ms;
	p->cover_ms = 10000;
	p->stale = next(f, 40) == 0;
	p->columns.n = p->values.n = 0;
	for (uint32_t i = 0; i < COLUMNS && !p->stale; i++)
		if (next(f, 3) == 0)
			vec_push(&p->columns, i);
	if (t_ms > 1000000 && !p->stale)
		vec_push(&p->columns, LATER);
	p->n = p->columns.n;
	for (uint32_t s = 0; s < SERIES; s++) {
		p->series[s] = s;
		p->times_of[s] = s == 1 ? 0 : 0xff;
		p->factor[s] = s == 1 ? 1000 : 0;
		for (size_t i = 0; i < p->n; i++) {
			int64_t v = s == 1 ? p->values.v[i] * 1000 : (int64_t)next(f, 1000) - (s == 2 ? 500 : 0);
			vec_push(&p->values, f->large && s == 2 ? (INT64_MAX / 4000) * (i % 2 ? 1 : -1) : v);
		}
	}
	rwlock_write(&f->w->lock);
	window_add_profile(f->w, p, f->seq, f->seq);
	rwlock_unlock(&f->w->lock);
	f->seq++;
}

static void ask(struct fixture *f, uint32_t series, uint64_t seq, int64_t after_ms, int64_t until_ms)
{
	struct chunk *c = window_chunk(f->w, series);
	static uint32_t columns[2][LATER + DENSE_SLACK + 64];
	static int64_t sums[2][LATER + DENSE_SLACK + 64];
	struct err e;
	size_t visible = chunk_visible(c, seq);
	bool later = visible && c->rows.v[visible - 1].t_ms > 1000000;
	dense_release(&f->d); /* of an older view there is no more room than it needs */
	dense_reserve(&f->d, later ? LATER + 1 : COLUMNS);
	dense_reserve(&f->want, LATER + 1);
	assert_int_equal(head_sums_add(f->w, c, visible, after_ms, until_ms, &f->d, &f->work, &f->read, &e), 0);
	assert_int_equal(chunk_sum(c, visible, after_ms, until_ms, &f->want, &f->read_want, &e), 0);
	assert_true(dense_is_empty(&f->work));
	size_t n = dense_take(&f->d, columns[0], sums[0]);
	assert_int_equal(dense_take(&f->want, columns[1], sums[1]), n);
	assert_memory_equal(columns[0], columns[1], n * sizeof *columns[0]);
	assert_memory_equal(sums[0], sums[1], n * sizeof *sums[0]);
}

/* Beside others, with which they do not fit in 64 bits. */
static void ask_full(struct fixture *f)
{
	const uint32_t columns[] = { 0, 1, 2, 3 };
	const int64_t sums[] = { INT64_MAX - 5, INT64_MAX - 5, INT64_MAX - 5, INT64_MAX - 5 };
	struct chunk *c = window_chunk(f->w, 0);
	struct err e;
	dense_reserve(&f->d, LATER + 1);
	dense_add(&f->d, columns, sums, 4, 1);
	assert_int_equal(head_sums_add(f->w, c, c->rows.n, 0, INT64_MAX, &f->d, &f->work, &f->read, &e), -ERR_EXECUTION);
	dense_release(&f->d);
}

static void ask_many(struct fixture *f, int64_t now_ms)
{
	for (uint32_t s = 0; s < SERIES; s++) {
		ask(f, s, f->seq, 0, now_ms);
		ask(f, s, f->seq, (int64_t)next(f, 100) * 10000, now_ms);
		ask(f, s, next(f, f->seq + 1), (int64_t)next(f, 50) * 10000, now_ms);
		ask(f, s, f->seq, (int64_t)next(f, 50) * 10000, (int64_t)next(f, 360) * 10000);
	}
}

static void init(struct fixture *f, bool large)
{
	*f = (struct fixture){ .w = window_new(0), .random = 7, .seq = 1, .large = large };
}

static void release(struct fixture *f)
{
	window_unref(f->w);
	record_profile_release(&f->p);
	dense_release(&f->d);
	dense_release(&f->work);
	dense_release(&f->want);
}

static void test_random(void **state)
{
	(void)state;
	for (int large = 0; large < 2; large++) {
		struct fixture f;
		init(&f, large);
		for (int64_t i = 1; i <= 360; i++) {
			append(&f, i * 10000);
			if (i % 5 == 0)
				ask_many(&f, i * 10000);
		}
		if (!large)
			ask_full(&f);
		if (!large)
			assert_true(f.read < f.read_want / 2 && atomic_load(&f.w->sums_bytes) > COLUMNS * 12);
		struct tombstone_fact gone = { .after_ms = 500000, .until_ms = 700000 };
		vec_push(&gone.series, 0);
		rwlock_write(&f.w->lock);
		remove_from_window(f.w, &gone);
		rwlock_unlock(&f.w->lock);
		for (int i = 0; i < 10; i++)
			ask_many(&f, 3600000);
		append(&f, 1005000); /* late */
		for (int i = 0; i < 10; i++)
			ask_many(&f, 3600000);
		vec_free(&gone.series);
		release(&f);
	}
}

/* All that is kept is let go with the chunks. */
static void test_memory(void **state)
{
	struct fixture f;
	(void)state;
	init(&f, false);
	for (int64_t i = 1; i <= 100; i++)
		append(&f, i * 10000);
	ask_many(&f, 1000000);
	assert_true(window_memory(f.w) > f.w->bytes);
	struct tombstone_fact gone = { .after_ms = 10000, .until_ms = 20000 };
	vec_push(&gone.series, 0);
	rwlock_write(&f.w->lock);
	remove_from_window(f.w, &gone);
	rwlock_unlock(&f.w->lock);
	vec_free(&gone.series);
	ask_many(&f, 1000000);
	for (uint32_t s = 0; s < SERIES; s++)
		head_sums_drop(f.w, window_chunk(f.w, s));
	assert_int_equal(window_memory(f.w), f.w->bytes);
	release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random), cmocka_unit_test(test_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
