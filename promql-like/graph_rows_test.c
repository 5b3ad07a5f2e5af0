/* SPDX-License-Identifier: Apache-2.0 */
/* A graph over stacks whose rows another makes: promql_rows and source_ops.rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "promql-like/graphkit.h"

static struct source_ops spied, real;

static struct promql_engine *rows_engine;
static size_t n_rows_asked, n_rows_got;

struct rows_spy {
	size_t n_steps;              /* of the graph: a part of the query's steps */
	source_rows_fn fn;
	void *arg;
};

/* Each row in two halves, as two servers would have it. */
static int spy_row(void *arg, const struct source_graph_row *row, struct err *e)
{
	const struct rows_spy *spy = arg;
	int64_t ints[2][4096] = { { 0 } };
	n_rows_got++;
	assert_true(spy->n_steps <= ARRAY_LEN(ints[0]));
	for (size_t i = 0; i < spy->n_steps; i++) {
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
	int rc = promql_rows(rows_engine, v, g, lim, ret_fits, spy_row, &(struct rows_spy){ g->n_steps, fn, arg }, e);
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

static int no_row(void *arg, const struct source_graph_row *row, struct err *e)
{
	(void)arg, (void)row, (void)e;
	fail_msg("a row of nothing");
	return 0;
}

/* A stranger's graph without series has no rows. One with many terms of one profile, lanes or steps takes no more memory and time than allowed. */
static void test_absurd_graphs(void **unused)
{
	(void)unused;
	enum { MANY = 1 << 20 };
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	bool fits = false;
	struct source_limits lim = { 0 };
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	assert_int_equal(source->open(source, &v, &e), 0);
	const uint64_t refs[] = { 0 };
	uint32_t first[] = { 0, 0 };
	int *bits = xcalloc(MANY, sizeof *bits);
	struct source_graph_term *terms = xcalloc(MANY, sizeof *terms);
	struct source_graph a = { .readout = VIEW("self(x)"), .n_steps = 2, .refs = refs, .first = first, .terms = terms, .bits = bits, .n_lanes = 1 };
	assert_int_equal(promql_rows(g, v, &a, &lim, &fits, no_row, NULL, &e), 0);
	assert_true(fits);
	/* Each profile counts in a million parts of its own: comparing them takes hours. */
	a.n_refs = 1;
	first[1] = MANY;
	for (size_t i = 0; i < MANY; i++)
		terms[i] = (struct source_graph_term){ 0, END, 1 + (double)(i + 1) / MANY / 4, 0, 0 };
	lim.deadline_mono_ns = clock_mono_ns() + 200000000;
	assert_int_equal(promql_rows(g, v, &a, &lim, &fits, no_row, NULL, &e), -ERR_TIMEOUT);
	/* As many lanes. */
	lim = (struct source_limits){ .max_bytes = 64 << 20 };
	assert_int_equal(promql_rows(g, v, &a, &lim, &fits, no_row, NULL, &e), -ERR_LIMIT);
	lim.max_bytes = 512 << 20;
	a.n_lanes = MANY;
	for (size_t i = 0; i < MANY; i++)
		terms[i] = (struct source_graph_term){ 0, END, 1, 0, (uint32_t)i };
	lim.deadline_mono_ns = clock_mono_ns() + 2000000000;
	assert_true(promql_rows(g, v, &a, &lim, &fits, no_row, NULL, &e) < 0);
	/* A million steps of 20 lanes: each row takes 8 MB. */
	lim = (struct source_limits){ .max_bytes = 32 << 20 };
	a.n_steps = MANY;
	first[1] = a.n_lanes = 20;
	for (size_t i = 0; i < 20; i++)
		terms[i] = (struct source_graph_term){ 0, END, 1, (uint32_t)i, (uint32_t)i };
	assert_int_equal(promql_rows(g, v, &a, &lim, &fits, no_row, NULL, &e), -ERR_LIMIT);
	free(bits);
	free(terms);
	v->ops->release(v);
	promql_engine_free(g);
	memsource_free(m);
}

/* A server's row whose numbers cannot be subtracted from others does not fit: stacks are merged instead. */
static int lying_rows(struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *arg, struct err *e)
{
	(void)v, (void)lim;
	int64_t *ints = xcalloc(g->n_steps, sizeof *ints);
	int rc = 0;
	*ret_fits = true;
	n_rows_asked++;
	for (size_t i = 0; i < g->n_steps; i++)
		ints[i] = INT64_MIN;
	for (uint32_t lane = 0; lane < g->n_lanes && !rc; lane++)
		rc = fn(arg, &(struct source_graph_row){ lane, VIEW("f"), VIEW(""), VIEW(""), ints, NULL }, e);
	free(ints);
	return rc;
}

static void test_rows_that_do_not_fit(void **unused)
{
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct promql_result mine, asked;
	struct source_view *v;
	struct err e = { 0 };
	const char *query = "self(diff(rate(process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta[1m]), rate(process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta[2m])))";
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	assert_int_equal(source->open(source, &v, &e), 0);
	const struct source_ops *before = v->ops;
	spied = *before;
	spied.cells = NULL;
	v->ops = &spied;
	v->ops->release(v);
	if (promql_range(g, view_of(query), 12345, END + 60000, 7000, NULL, &mine, &e)) /* of stacks */
		fail_msg("%s", e.msg);
	spied.rows = lying_rows;
	n_rows_asked = 0;
	if (promql_range(g, view_of(query), 12345, END + 60000, 7000, NULL, &asked, &e))
		fail_msg("%s", e.msg);
	assert_true(n_rows_asked);
	assert_same_results(query, &mine, &asked);
	assert_int_equal(source->open(source, &v, &e), 0);
	v->ops = before;
	v->ops->release(v);
	promql_result_release(&mine);
	promql_result_release(&asked);
	promql_engine_free(g);
	memsource_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows_are_asked_for), cmocka_unit_test(test_bad_questions_for_rows),
					    cmocka_unit_test(test_absurd_graphs), cmocka_unit_test(test_rows_that_do_not_fit) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
