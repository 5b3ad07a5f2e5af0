/* SPDX-License-Identifier: Apache-2.0 */
/* A graph over stacks whose rows another makes: promql_rows and source_ops.rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "promql-like/graphkit.h"

static struct source_ops spied, real;

static struct promql_engine *rows_engine;
static size_t n_rows_asked, n_rows_got;

struct rows_spy {
	source_rows_fn fn;
	void *arg;
};

/* Each row in two halves, as two servers would have it. */
static int spy_row(void *arg, const struct source_graph_row *row, struct err *e)
{
	const struct rows_spy *spy = arg;
	int64_t ints[2][4096] = { { 0 } };
	n_rows_got++;
	for (size_t i = 0; i < ARRAY_LEN(ints[0]) && i < (END + 60000 - 12345) / 7000 + 1; i++) {
		ints[0][i] = row->ints[i] / 3;
		ints[1][i] = row->ints[i] - ints[0][i];
	}
	struct source_graph_row half = *row;
	half.ints = ints[0];
	int rc = spy->fn(spy->arg, &half, e);
	half.ints = ints[1];
	half.parts = NULL;
	return rc ? rc : spy->fn(spy->arg, &half, e);
}

static int spy_rows(struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *arg, struct err *e)
{
	n_rows_asked++;
	v->ops = &real;
	int rc = promql_rows(rows_engine, v, g, lim, ret_fits, spy_row, &(struct rows_spy){ fn, arg }, e);
	v->ops = &spied;
	return rc;
}

static void assert_same_results(const char *query, const struct promql_result *a, const struct promql_result *b)
{
	if (a->n_series != b->n_series)
		fail_msg("%s: %zu and %zu series", query, a->n_series, b->n_series);
	for (size_t i = 0; i < a->n_series; i++) {
		assert_true(labels_eq(a->series[i].labels, b->series[i].labels));
		assert_int_equal(a->series[i].n, b->series[i].n);
		if (a->series[i].n && memcmp(a->series[i].points, b->series[i].points, a->series[i].n * sizeof *a->series[i].points) != 0)
			fail_msg("%s: points of series %zu differ", query, i);
	}
}

/* What another adds up is what is added up here, bit by bit. */
static void test_rows_are_asked_for(void **unused)
{
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	rows_engine = promql_engine_new(source, &(struct promql_options){ 0 });
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "b");
	add_series(m, "memory:inuse_space:bytes:space:bytes", "a");
	for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
		struct promql_result mine, asked;
		if (promql_range(g, view_of(queries[i]), 12345, END + 60000, 7000, NULL, &mine, &e))
			fail_msg("%s: %s", queries[i], e.msg);
		assert_int_equal(source->open(source, &v, &e), 0);
		real = spied = *v->ops;
		spied.cells = NULL;
		spied.rows = spy_rows;
		const struct source_ops *before = v->ops;
		v->ops = &spied;
		v->ops->release(v);
		if (promql_range(g, view_of(queries[i]), 12345, END + 60000, 7000, NULL, &asked, &e))
			fail_msg("%s, asked: %s", queries[i], e.msg);
		assert_same_results(queries[i], &mine, &asked);
		assert_int_equal(source->open(source, &v, &e), 0);
		v->ops = before;
		v->ops->release(v);
		promql_result_release(&mine);
		promql_result_release(&asked);
	}
	assert_true(n_rows_asked > 20 && n_rows_got > 100);
	promql_engine_free(g);
	promql_engine_free(rows_engine);
	memsource_free(m);
}

/* What is no question for rows is refused. */
static void test_bad_questions_for_rows(void **unused)
{
	(void)unused;
	static const char *const texts[] = { "self(x", "samples(x)", "self(x, {function=\"f\"})", "self(merge(x[1m]))", "1", "callers(x, \"f\")", "self(focus(x, \"(\"))" };
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	bool fits;
	const struct source_limits lim = { 0 };
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	assert_int_equal(source->open(source, &v, &e), 0);
	const uint64_t refs[] = { 0, 0 };
	const uint32_t first[] = { 0, 1, 2 };
	struct source_graph_term terms[] = { { 0, 60000, 1, 0, 0 }, { 0, 60000, 0.5, 1, 0 } };
	const int bits[] = { 60 };
	struct source_graph a = { .n_steps = 2, .refs = refs, .first = first, .n_refs = 1, .terms = terms, .bits = bits, .n_lanes = 1 };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		a.readout = view_of(texts[i]);
		if (!promql_rows(g, v, &a, &lim, &fits, NULL, NULL, &e))
			fail_msg("%s: no error", texts[i]);
	}
	a.readout = VIEW("self(x)");
	a.n_refs = 2;
	assert_true(promql_rows(g, v, &a, &lim, &fits, NULL, NULL, &e) < 0); /* a series twice */
	a.n_refs = 1;
	a.n_steps = 1;
	assert_true(promql_rows(g, v, &a, &lim, &fits, NULL, NULL, &e) < 0);
	a.n_steps = 2;
	for (int i = 0; i < 5; i++) {
		struct source_graph_term was = terms[0], bad[] = { { 0, 60000, 1, 2, 0 }, { 0, 60000, 1, 0, 1 }, { 60000, 0, 1, 0, 0 }, { 0, 60000, NAN, 0, 0 }, { 0, 60000, 1e9, 0, 0 } };
		terms[0] = bad[i];
		assert_true(promql_rows(g, v, &a, &lim, &fits, NULL, NULL, &e) < 0);
		terms[0] = was;
	}
	v->ops->release(v);
	promql_engine_free(g);
	memsource_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows_are_asked_for), cmocka_unit_test(test_bad_questions_for_rows) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
