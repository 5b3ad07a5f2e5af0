/* SPDX-License-Identifier: Apache-2.0 */
/* Who is handed every float: what was accepted, once, with numbers; after a restart what came behind the number that it has, also of
 * what was sealed meanwhile; and the log waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "tsdb/testkit.h"
#include "tsdb/version/db.h"

/* Remembers "name@seconds=value " of all. */
struct tap_listener {
	struct tap tap;
	uint64_t has, last, ready, durable, number;
	struct buf got;
	struct mutex lock;
};

static int on_open(struct tap *t, uint64_t *ret_has, uint64_t *ret_last, struct err *e)
{
	struct tap_listener *x = (struct tap_listener *)(void *)t;
	(void)e;
	*ret_has = x->has;
	*ret_last = x->last;
	return 0;
}

static void on_ready(struct tap *t, uint64_t number)
{
	((struct tap_listener *)(void *)t)->ready = number;
}

static void on_take(struct tap *t, uint64_t number, const struct sink_float *f, size_t n)
{
	struct tap_listener *x = (struct tap_listener *)(void *)t;
	mutex_lock(&x->lock);
	assert_true(number >= x->number + (n > 0));
	x->number = number;
	for (size_t i = 0; i < n; i++) {
		labels_format(f[i].labels, &x->got);
		buf_printf(&x->got, "@%d=%g ", (int)((f[i].t_ms - KIT_T0) / 1000), f[i].v);
	}
	mutex_unlock(&x->lock);
}

static uint64_t on_durable(struct tap *t)
{
	return ((struct tap_listener *)(void *)t)->durable;
}

static void begin(struct tap_listener *x, struct kit *k)
{
	*x = (struct tap_listener){ .tap = { .open = on_open, .ready = on_ready, .take = on_take, .durable = on_durable }, .has = UINT64_MAX };
	mutex_init(&x->lock, LOCK_LEAF, "test");
	atomic_store(&x->tap.wanted, true);
	kit_init(k);
	k->now_ms = KIT_T0 + 3600000;
	k->o.tap = &x->tap;
	kit_open(k);
}

static void end(struct tap_listener *x, struct kit *k)
{
	kit_free(k);
	buf_free(&x->got);
	mutex_destroy(&x->lock);
}

static void expect(struct tap_listener *x, const char *text)
{
	assert_string_equal(x->got.ptr ? x->got.ptr : "", text);
	buf_reset(&x->got);
}

static void put(struct kit *k, const char *name, int64_t seconds, double v)
{
	assert_int_equal(kit_append_float(k, name, KIT_T0 + seconds * 1000, v, NULL), 0);
	tsdb_flush(k->db);
}

static void again(struct tap_listener *x, struct kit *k, uint64_t has)
{
	x->has = has;
	x->number = 0;
	kit_reopen(k);
}

static void test_accepted_once(void **state)
{
	struct tap_listener x;
	struct kit k;
	begin(&x, &k);
	put(&k, "a", 10, 1);
	put(&k, "a", 10, 2);      /* a duplicate */
	put(&k, "a", 5, 3);       /* late, and taken */
	put(&k, "a", 7200, 4);    /* too new */
	assert_int_equal(kit_append(&k, 1, KIT_T0 + 1000, 7, 10, NULL), 0);
	tsdb_flush(k.db);
	put(&k, "b", 11, 5);
	expect(&x, "a{job=\"test\"}@10=1 a{job=\"test\"}@5=3 b{job=\"test\"}@11=5 ");
	atomic_store(&x.tap.wanted, false);
	put(&k, "b", 12, 6);
	uint64_t last = x.number; /* it is told that, all the same */
	expect(&x, "");
	again(&x, &k, UINT64_MAX);
	expect(&x, "");
	assert_int_equal(x.ready, last);
	end(&x, &k);
	(void)state;
}

static void test_restarts(void **state)
{
	struct tap_listener x;
	struct kit k;
	struct err e;
	begin(&x, &k);
	put(&k, "a", 1, 1);
	uint64_t first = x.number;
	put(&k, "a", 2, 2);
	uint64_t second = x.number;
	put(&k, "b", 3, 3);
	expect(&x, "a{job=\"test\"}@1=1 a{job=\"test\"}@2=2 b{job=\"test\"}@3=3 ");
	again(&x, &k, first);
	expect(&x, "a{job=\"test\"}@2=2 b{job=\"test\"}@3=3 ");
	again(&x, &k, second);
	expect(&x, "b{job=\"test\"}@3=3 ");
	/* sealed, and the log would be trimmed: it waits for what is not durable there */
	x.durable = first;
	assert_int_equal(tsdb_seal(k.db, true, &e), 0);
	put(&k, "a", 4, 4);
	assert_int_equal(tsdb_seal(k.db, true, &e), 0); /* nothing else needs the log now */
	expect(&x, "a{job=\"test\"}@4=4 ");
	again(&x, &k, first);
	expect(&x, "a{job=\"test\"}@2=2 b{job=\"test\"}@3=3 a{job=\"test\"}@4=4 ");
	struct tsdb_stats s;
	tsdb_stats(k.db, &s);
	assert_int_equal(s.first_record, first + 1);
	/* what comes is numbered above what it has seen, whatever became of the log */
	x.last = 5000;
	again(&x, &k, 5000);
	expect(&x, "");
	put(&k, "b", 5, 5);
	assert_true(x.number > 5000);
	expect(&x, "b{job=\"test\"}@5=5 ");
	end(&x, &k);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_accepted_once), cmocka_unit_test(test_restarts) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
