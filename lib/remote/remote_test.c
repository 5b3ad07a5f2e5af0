/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/vec.h"
#include "remote/remote.h"

struct memory_sink {
	struct sink sink;
	VEC(struct sink_float) got;
	VEC(struct labels *) owned;
};

static int memory_append(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct memory_sink *m = (struct memory_sink *)s;
	for (size_t i = 0; i < b->n_floats; i++) {
		struct labels *l = labels_dup(b->floats[i].labels);
		vec_push(&m->owned, l);
		vec_push(&m->got, (struct sink_float){ *l, b->floats[i].t_ms, b->floats[i].v });
	}
	ret->floats = (uint32_t)b->n_floats;
	struct err none = { 0 };
	b->done(b->done_arg, &none);
	return 0;
}

static void release(struct memory_sink *m)
{
	for (size_t i = 0; i < m->owned.n; i++)
		free(m->owned.v[i]);
	vec_free(&m->owned);
	vec_free(&m->got);
}

static const struct label up_a[] = { { { "__name__", 8 }, { "up", 2 } }, { { "job", 3 }, { "a", 1 } } };
static const struct label up_b[] = { { { "__name__", 8 }, { "up", 2 } }, { { "job", 3 }, { "b", 1 } } };
static const struct label nameless[] = { { { "job", 3 }, { "b", 1 } } };
static const struct label unsorted[] = { { { "job", 3 }, { "b", 1 } }, { { "__name__", 8 }, { "up", 2 } } };
static const struct label not_utf8[] = { { { "__name__", 8 }, { "u\xff", 2 } } };

static void test_round_trip(void **state)
{
	double stale = value_from_bits(VALUE_STALE_BITS);
	struct sink_float in[] = {
		{ { up_a, 2 }, 1000, 1.5 }, { { up_a, 2 }, 2000, stale }, { { up_b, 2 }, 1000, -0.25 },
	};
	struct memory_sink m = { .sink = { memory_append } };
	struct buf body = { 0 };
	struct remote_result r;
	struct err e;
	assert_int_equal(remote_encode(in, ARRAY_LEN(in), &body, &e), 0);
	assert_int_equal(remote_receive(&m.sink, buf_view(&body), NULL, &r, &e), 0);
	assert_int_equal(r.samples, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_true(labels_eq(m.got.v[i].labels, in[i].labels));
		assert_int_equal(m.got.v[i].t_ms, in[i].t_ms);
		assert_true(value_bits(m.got.v[i].v) == value_bits(in[i].v));
	}
	/* every cut of the body is refused, none crashes */
	for (size_t n = 0; n < body.len; n++)
		assert_true(remote_receive(&m.sink, view_make(body.ptr, n), NULL, &r, &e) < 0);
	struct remote_limits few = { .max_bytes = 10 };
	assert_int_equal(remote_receive(&m.sink, buf_view(&body), &few, &r, &e), -ERR_LIMIT);
	few = (struct remote_limits){ .max_labels = 1 };
	assert_int_equal(remote_receive(&m.sink, buf_view(&body), &few, &r, &e), -ERR_LIMIT);
	assert_int_equal(m.got.n, 3);
	buf_free(&body);
	release(&m);
}

static void test_bad_labels(void **state)
{
	static const struct { const struct label *l; size_t n; const char *error; } bad[] = {
		{ nameless, 1, "no __name__" }, { unsorted, 2, "not sorted" }, { not_utf8, 1, "UTF-8" },
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct sink_float in = { { bad[i].l, bad[i].n }, 1, 1 };
		struct memory_sink m = { .sink = { memory_append } };
		struct buf body = { 0 };
		struct remote_result r;
		struct err e;
		assert_int_equal(remote_encode(&in, 1, &body, &e), 0);
		assert_int_equal(remote_receive(&m.sink, buf_view(&body), NULL, &r, &e), -ERR_BAD_DATA);
		assert_non_null(strstr(e.msg, bad[i].error));
		assert_int_equal(m.got.n, 0);
		buf_free(&body);
		release(&m);
	}
}

/* A block of n bytes, each pair of them an empty series: a literal of 48, and copies of it. */
static void empty_series(size_t n, struct buf *out)
{
	for (size_t left = n; left; left >>= 7)
		buf_putc(out, (char)((left & 127) | (left > 127 ? 128 : 0)));
	buf_putc(out, (char)(47 << 2));
	for (size_t i = 0; i < 48; i += 2)
		buf_put(out, "\x0a\x00", 2);
	for (size_t i = 48; i < n; i += 48)
		buf_put(out, "\xbe\x30\x00", 3);
}

static void test_memory(void **state)
{
	(void)state;
	struct memory_sink m = { .sink = { memory_append } };
	struct sink_float in = { { up_a, 2 }, 1000, 1.5 };
	struct budget memory = { .max = 1 << 20 };
	const struct remote_limits lim = { .memory = &memory };
	struct buf small = { 0 }, large = { 0 };
	struct remote_result r;
	struct err e;
	empty_series(48 * 10000, &large);
	assert_true(large.len < 32 << 10);
	assert_int_equal(remote_encode(&in, 1, &small, &e), 0);
	assert_int_equal(remote_receive(&m.sink, buf_view(&large), &lim, &r, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "1.0MiB"));
	assert_true(budget_take(&memory, (1 << 20) - 1000, BUDGET_ALL)); /* by another message */
	assert_int_equal(remote_receive(&m.sink, buf_view(&small), &lim, &r, &e), -ERR_BUSY);
	assert_int_equal(remote_receive(&m.sink, buf_view(&large), &lim, &r, &e), -ERR_BUSY);
	budget_give(&memory, (1 << 20) - 1000);
	assert_int_equal(remote_receive(&m.sink, buf_view(&small), &lim, &r, &e), 0);
	assert_int_equal(budget_used(&memory), 0);
	assert_int_equal(m.got.n, 1);
	buf_free(&small);
	buf_free(&large);
	release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_bad_labels),
					    cmocka_unit_test(test_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
