/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of many days is joined by names; stacks with their addresses are joined whole. Both must show the same. A thousand questions of all kinds and
 * forms, over one, two and fifteen days, are asked twice: as the server asks, and with whole stacks (whole_source.h). Their answers are equal byte by byte,
 * with two exceptions that are counted: which file is shown of a name that several functions have, and last digits of sums of fractions.
 *
 * PYRRHA_SEED=n draws others, PYRRHA_LONG=1 twenty times as many. What differs is printed as a question. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/thread.h"
#include "tests/many_days/fortnight.h"
#include "tests/many_days/agree.h"
#include "tests/many_days/whole_source.h"

#define QUESTIONS 1000
#define FORGET_EVERY 15

struct names_test {
	struct fortnight f;
	struct whole_source whole;
	struct pool *pool;
	struct agree agree; /* as the server asks, and with whole stacks */
	size_t names_bytes;
};

static void open_engines(struct names_test *a)
{
	struct promql_options o = { .subquery_step_ms = HOUR, .pool = a->pool };
	whole_source_init(&a->whole, tsdb_source(a->f.k.db));
	a->agree.one = promql_engine_new(tsdb_source(a->f.k.db), &o);
	o.pool = NULL;
	a->agree.other = promql_engine_new(&a->whole.base, &o);
}

static void close_engines(struct names_test *a)
{
	assert_int_equal(a->whole.merges, 0); /* queries that want addresses got them */
	promql_engine_free(a->agree.one);
	promql_engine_free(a->agree.other);
}

static void compare_some(struct names_test *a, unsigned first, unsigned n)
{
	open_engines(a);
	for (unsigned i = 0; i < n && a->agree.differ < AGREE_MOST_DIFFERENCES; i++) {
		if (i % FORGET_EVERY == FORGET_EVERY - 1)
			fortnight_forget(&a->f, i % (2 * FORGET_EVERY) == FORGET_EVERY - 1);
		agree_compare(&a->agree, first + i);
		a->names_bytes = MAX(a->names_bytes, fortnight_names_bytes(&a->f));
	}
	close_engines(a);
}

static void test_names_and_whole_stacks(void **state)
{
	const char *seed = getenv("PYRRHA_SEED"), *is_long = getenv("PYRRHA_LONG");
	unsigned n = QUESTIONS * (is_long && *is_long ? 20 : 1);
	struct names_test a = { .agree = { .other_addresses = true, .names = { "names", "whole" }, .state = seed ? strtoull(seed, NULL, 10) : 1 } };
	(void)state;
	promql_enable(PROMQL_ALL_FEATURES);
	outputs_init(&a.agree.outputs);
	a.pool = pool_new(2, "query");
	fortnight_make(&a.f, a.agree.state);
	compare_some(&a, 0, n * 8 / 20);
	fortnight_reopen_small(&a.f);
	compare_some(&a, n * 8 / 20, n * 3 / 20);
	fortnight_settle(&a.f);
	compare_some(&a, n * 11 / 20, n * 3 / 20);
	fortnight_change(&a.f);
	compare_some(&a, n * 14 / 20, n * 3 / 20);
	fortnight_upload(&a.f);
	compare_some(&a, n * 17 / 20, n * 3 / 20);
	fortnight_free(&a.f);
	outputs_release(&a.agree.outputs);
	pool_free(a.pool);
	agree_print(&a.agree);
	if (a.agree.differ)
		fail_msg("%u answers differ", a.agree.differ);
	assert_true(a.names_bytes > 0); /* answers were made by names */
	assert_true(a.agree.digits * 20 < n);
	assert_true((a.agree.errors + a.agree.empty) * 5 < n); /* an answer that is empty or an error shows little */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names_and_whole_stacks) };
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
