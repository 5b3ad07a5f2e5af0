/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of very many steps: a merge of them ends when its time or its memory does, not after a list of all of their units was made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tsdb/testkit.h"

#define STEPS (1u << 22)

/* A merge of each of STEPS ranges of a millisecond more; without vectors, as it fails. */
static enum err_code merge_steps(struct source_view *v, uint64_t ref, int64_t until_ms, const struct source_limits *lim)
{
	struct source_part p = { .ref = ref, .after_ms = KIT_T0, .until_ms = until_ms, .scale = 1, .n_steps = STEPS, .step_ms = 1 };
	struct stackvec **ret = xcalloc(STEPS, sizeof(*ret));
	struct err e = { 0 };
	int rc = v->ops->merge(v, &p, 1, STEPS, SYMBOLS_WHOLE, lim, ret, &e);
	assert_true(rc < 0);
	free(ret);
	return e.code;
}

static void test_steps(void **state)
{
	struct kit k;
	struct source_view *v;
	struct source_series *s;
	struct matcher m;
	struct err e;
	size_t n;
	(void)state;
	kit_init(&k);
	kit_open(&k);
	k.now_ms = KIT_T0 + 60000;
	for (int64_t t = 10000; t < 60000; t += 10000)
		assert_int_equal(kit_append(&k, 0, KIT_T0 + t, 1, 4, NULL), 0);
	tsdb_flush(k.db);
	assert_int_equal(tsdb_source(k.db)->open(tsdb_source(k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW("job"), VIEW("kit"), &e), 0);
	assert_int_equal(v->ops->select(v, &m, 1, 0, INT64_MAX, NULL, &s, &n, &e), 0);
	assert_true(n > 0);
	int64_t hour = KIT_T0 + 3600000; /* each step has units */
	assert_int_equal(merge_steps(v, s[0].ref, hour, &(struct source_limits){ .max_bytes = 1 << 20 }), ERR_LIMIT);
	int64_t begin = clock_mono_ms();
	assert_int_equal(merge_steps(v, s[0].ref, hour, &(struct source_limits){ .deadline_mono_ns = clock_mono_ns() + 10000000 }), ERR_TIMEOUT);
	int64_t timeout_ms = clock_mono_ms() - begin;
	begin = clock_mono_ms(); /* what the test itself and its large arrays take */
	const atomic_bool stopped = true;
	assert_int_equal(merge_steps(v, s[0].ref, hour, &(struct source_limits){ .stopped = &stopped }), ERR_BUSY);
	assert_true(timeout_ms <= 10 + 200 + 3 * (clock_mono_ms() - begin));
	free(s);
	matcher_release(&m);
	v->ops->release(v);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_steps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
