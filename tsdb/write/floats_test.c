/* SPDX-License-Identifier: Apache-2.0 */
/* Very many new series of floats at once: who waits for the lock of the day's labels gets in meanwhile, whoever has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tsdb/log/record.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"
#include "tsdb/write/committer.h"

#define WRITERS 4
#define SERIES 25000
#define MOST_AT_ONCE 4096 /* entries, rows: a few milliseconds */
#define FIRST_DAY ((uint32_t)(KIT_T0 / DAY_MS))

/* ---- one who reads lets in who writes ---- */

void __real_rwlock_let_in(struct rwlock *lock);
void __wrap_rwlock_let_in(struct rwlock *lock);

/* Of one thread, so that it does not hang on how threads are scheduled. */
static uint32_t turns;
static pthread_t test_thread;

/* In the place of the real one (the linker's --wrap): counts, and sees that who calls had it for reading, once. */
void __wrap_rwlock_let_in(struct rwlock *lock) LOCKS_UNCHECKED /* in two modes */
{
	if (!pthread_equal(pthread_self(), test_thread)) {
		__real_rwlock_let_in(lock);
		return;
	}
	turns++;
	rwlock_unlock(lock);
	assert_true(rwlock_try_write(lock));
	rwlock_unlock(lock);
	rwlock_read(lock);
}

static void test_encoding_lets_in(void **state)
{
	struct symbols *s = symbols_new();
	struct index x;
	struct dict_marks from, to;
	struct buf alone = { 0 }, b = { 0 };
	struct rwlock lock;
	char text[24];
	(void)state;
	index_init(&x, s);
	for (int i = 0; i < SERIES; i++) {
		snprintf(text, sizeof text, "%d", i);
		const struct label l = { VIEW("id"), view_of(text) };
		index_add(&x, (struct labels){ &l, 1 }, labels_hash((struct labels){ &l, 1 }), NULL);
	}
	dict_marks_start(&from);
	dict_marks_now(&to, s, &x);
	dict_encode(&alone, s, &x, &from, &to, NULL);
	rwlock_init(&lock, LOCK_ANY, "test");
	rwlock_read(&lock);
	turns = 0;
	dict_encode(&b, s, &x, &from, &to, &lock);
	assert_in_range(turns, 2 * SERIES / MOST_AT_ONCE, 2 * SERIES); /* strings, and series */
	rwlock_unlock(&lock);
	assert_true(view_eq(buf_view(&alone), buf_view(&b)));
	rwlock_destroy(&lock);
	buf_free(&alone);
	buf_free(&b);
	index_release(&x);
	symbols_unref(s);
}

static void test_applying_lets_in(void **state)
{
	struct kit k;
	struct sink_result res;
	struct buf b = { 0 };
	(void)state;
	kit_init(&k);
	kit_open(&k);
	assert_int_equal(kit_append_float(&k, "first", KIT_T0 + 1000, 1, &res), 0);
	struct partition *p = tsdb_partition(k.db, FIRST_DAY);
	assert_non_null(p);
	for (int i = 0; i < SERIES; i++)
		record_put_float(&b, &(struct record_float){ 0, KIT_T0 + 2000 + i, value_bits(i) });
	mutex_lock(&k.db->apply_lock);
	struct version *v = tsdb_version(k.db, NULL);
	turns = 0;
	assert_true(tsdb_apply(k.db, &v, p, RECORD_FLOATS, buf_view(&b), 1000, k.db->seq));
	assert_in_range(turns, SERIES / MOST_AT_ONCE, SERIES);
	tsdb_publish(k.db, v, 0);
	mutex_unlock(&k.db->apply_lock);
	buf_free(&b);
	partition_unref(p);
	kit_free(&k);
}

/* ---- those who write let in who reads ---- */

struct writer {
	struct kit *k;
	int number;
	pthread_t thread;
	int rc;
	struct sink_result res;
};

static atomic_int at_work;

static void *write_many(void *arg)
{
	struct writer *w = arg;
	struct sink_float *f = xcalloc(SERIES, sizeof *f);
	struct label *l = xcalloc(2 * SERIES, sizeof *l);
	char (*text)[24] = xcalloc(SERIES, sizeof *text);
	struct err e;
	for (int i = 0; i < SERIES; i++) {
		snprintf(text[i], sizeof text[i], "%d-%d", w->number, i);
		l[2 * i] = (struct label){ VIEW("__name__"), VIEW("many") };
		l[2 * i + 1] = (struct label){ VIEW("id"), view_of(text[i]) };
		f[i] = (struct sink_float){ .labels = { &l[2 * i], 2 }, .t_ms = KIT_T0 + 1000, .v = i };
	}
	const struct sink_batch b = { .floats = f, .n_floats = SERIES };
	w->rc = tsdb_sink(w->k->db)->append(tsdb_sink(w->k->db), &b, &w->res, &e);
	atomic_fetch_sub(&at_work, 1);
	free(f);
	free(l);
	free(text);
	return NULL;
}

/* What counts is not time but how many series came in while it waited. */
static size_t read_meanwhile(struct partition *p, size_t *ret_times)
{
	size_t most = 0, last = 0, times = 0;
	while (atomic_load(&at_work)) {
		rwlock_read(&p->dict_lock);
		size_t n = p->index.series.n;
		rwlock_unlock(&p->dict_lock);
		most = MAX(most, n - last);
		times += n > last;
		last = n;
	}
	*ret_times = times;
	return most;
}

static void test_appending_lets_in(void **state)
{
	struct kit k;
	struct writer w[WRITERS];
	struct sink_result res;
	(void)state;
	kit_init(&k);
	kit_open(&k);
	atomic_store(&k.now_ms, KIT_T0 + 2000);
	assert_int_equal(kit_append_float(&k, "first", KIT_T0 + 1000, 1, &res), 0);
	struct partition *p = tsdb_partition(k.db, FIRST_DAY);
	assert_non_null(p);
	atomic_store(&at_work, WRITERS);
	for (int i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){ .k = &k, .number = i };
		assert_int_equal(pthread_create(&w[i].thread, NULL, write_many, &w[i]), 0);
	}
	size_t times, most = read_meanwhile(p, &times);
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].rc, 0);
		assert_int_equal(w[i].res.floats, SERIES);
	}
	print_message("got in %zu times, once behind %zu new series\n", times, most);
	assert_int_equal(p->index.series.n, 1 + WRITERS * SERIES);
	partition_unref(p);
	kit_free(&k);
}

int main(void)
{
	test_thread = pthread_self();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encoding_lets_in),
		cmocka_unit_test(test_applying_lets_in),
		cmocka_unit_test(test_appending_lets_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
