/* SPDX-License-Identifier: Apache-2.0 */
/* The engine around evaluation: limits, cancellation, concurrency, replicas, explain, what results carry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/metrics.h"
#include "model/sourcekit.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"

struct fixture {
	struct memsource *m;
	struct promql_engine *g;
};

static struct labels one_label(struct label *room, const char *name, const char *key, const char *value)
{
	room[0] = (struct label){ VIEW(LABEL_NAME), view_of(name) };
	room[1] = (struct label){ view_of(key), view_of(value) };
	return (struct labels){ room, key ? 2 : 1 };
}

static struct stackvec *one_stack(struct symbols *s, const char *name, int64_t value)
{
	uint32_t text = symbols_string(s, view_of(name));
	struct sym_function f = { .name = text, .system_name = text };
	struct sym_line line = { .function = symbols_function(s, &f) + 1 };
	struct sym_location l = { .n_lines = 1 };
	uint32_t location = symbols_location(s, &l, &line);
	uint32_t column = symbols_column(s, symbols_stack(s, &location, 1), 0);
	struct stackacc *a = stackacc_new(s);
	struct err e;
	stackacc_add(a, column, value);
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	return v;
}

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"

/* Of each step so much was measured. */
static void add_parts(struct memsource *m, const char *replica, int64_t first_ms, int64_t step_ms, int64_t measured_ms, int n, struct stackvec *v)
{
	struct label room[2];
	struct labels l = one_label(room, CPU, "replica", replica);
	struct ptype t;
	struct err e = { 0 };
	assert_true(ptype_parse(VIEW(CPU), &t));
	for (int i = 0; i < n; i++) {
		struct source_profile p = { .t_ms = first_ms + i * step_ms, .duration_ns = measured_ms * 1000000, .cover_ms = step_ms, .interval_ms = step_ms,
					    .weight = (double)step_ms / (double)measured_ms, .period = 10000000 };
		assert_int_equal(memsource_add_profile(m, l, &t, &p, v, &e), 0);
	}
	stackvec_unref(v);
}

static void add_profiles(struct memsource *m, const char *replica, int64_t first_ms, int64_t step_ms, int n, int64_t value)
{
	add_parts(m, replica, first_ms, step_ms, step_ms, n, one_stack(memsource_symbols(m), "f", value));
}

static int setup(void **state)
{
	struct fixture *f = NEW(struct fixture);
	struct promql_options o = { .max_samples = 100000, .max_concurrency = 2 };
	struct label room[2];
	struct err e;
	f->m = memsource_new();
	for (int64_t t = 0; t < 1000; t++)
		assert_int_equal(memsource_add_float(f->m, one_label(room, "x", "a", "b"), t * 1000, (double)t, &e), 0);
	add_profiles(f->m, "a", 10000, 10000, 10, 5000000000);
	f->g = promql_engine_new(memsource_source(f->m), &o);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	promql_engine_free(f->g);
	memsource_free(f->m);
	free(f);
	return 0;
}

static void test_results(void **state)
{
	struct fixture *f = *state;
	struct promql_result r;
	struct err e = { 0 };
	struct promql_params p = { .profiles = true, .explain = true };
	assert_int_equal(promql_instant(f->g, VIEW("rate(cpu[50s])"), 100000, &p, &r, &e), 0);
	assert_int_equal(r.type, PROMQL_VECTOR);
	assert_int_equal(r.n_series, 1);
	const struct promql_profile *x = r.series[0].profiles;
	assert_non_null(x);
	assert_true(x->value == 0.5 && x->per_s == 50 && x->covered_s == 50 && x->period == 10000000);
	assert_false(x->vec->is_float); /* nothing was cut: exact */
	int64_t total;
	assert_int_equal(stackvec_total_int(x->vec, &total, &e), 0);
	assert_true(total == 25000000000);
	assert_null(x->base);
	assert_true(view_eqs(x->type->name, "process_cpu"));
	assert_true(r.explain.len && r.explain.ptr[0] == '{');
	assert_non_null(strstr(r.explain.ptr, "\"read\":{\"chunks\":0,\"samples\":")); /* of a test's source */
	assert_null(strstr(r.explain.ptr, "\"read\":{\"chunks\":0,\"samples\":0,\"bytes\":0},\"plan\""));
	promql_result_release(&r);

	assert_int_equal(promql_instant(f->g, VIEW("diff(merge(cpu[20s]), merge(cpu[10s]))"), 100000, &p, &r, &e), 0);
	x = r.series[0].profiles;
	assert_true(x->value == 5 && x->vec->symbols == x->base->symbols);
	promql_result_release(&r);

	assert_int_equal(promql_instant(f->g, VIEW("cpu"), 100000, NULL, &r, &e), 0);
	assert_null(r.series[0].profiles[0].vec); /* nobody asked for stacks */
	promql_result_release(&r);
}

struct sent {
	const char *query;
	double value, covered_s, weight, rate;
	bool mixed;
};

static void check_sent(struct fixture *f, const struct sent *want)
{
	struct promql_result r;
	struct err e = { 0 };
	struct promql_params p = { .profiles = true };
	if (promql_instant(f->g, view_of(want->query), 100000, &p, &r, &e))
		fail_msg("%s: %s", want->query, e.msg);
	assert_int_equal(r.n_series, 1);
	const struct promql_profile *x = r.series[0].profiles;
	if (fabs(x->value - want->value) > 1e-9 || fabs(x->covered_s - want->covered_s) > 1e-9 || fabs(x->weight - want->weight) > 1e-8 || x->mixed != want->mixed ||
	    fabs(x->value * x->weight / x->covered_s - want->rate) > 1e-8)
		fail_msg("%s: value %g, %g s, weight %g, %s", want->query, x->value, x->covered_s, x->weight, x->mixed ? "mixed" : "one weight");
	promql_result_release(&r);
}

/* What an answer says for how long it was measured gives the rate, whatever was asked. */
static void test_sent_weights(void **state)
{
	static const struct sent rows[] = {
		{ "merge(cpu{replica='a'}[50s])", 25, 50, 1, 0.5, false }, { "merge(cpu{replica='c'}[50s])", 10, 50, 2.5, 0.5, false },
		{ "merge(cpu[50s])", 35, 50, 50 / 35., 1, true }, { "sum(merge by (replica)(cpu[50s]))", 35, 50, 50 / 35., 1, true },
		{ "sum(merge_over_time(cpu[50s]))", 35, 50, 50 / 35., 1, true }, { "merge_over_time(cpu{replica='c'}[50s])", 10, 50, 2.5, 0.5, false },
		{ "avg_over_time(cpu{replica='c'}[50s])", 2, 10, 2.5, 0.5, false }, { "sum(avg_over_time(cpu[50s]))", 7, 10, 10 / 7., 1, true },
		{ "max_over_time(cpu{replica='c'}[50s])", 2, 4, 1, 0.5, false }, { "cpu{replica='c'}", 2, 4, 1, 0.5, false },
		{ "sum(cpu)", 7, 10, 10 / 7., 1, true }, { "increase(cpu{replica='c'}[50s])", 25, 50, 1, 0.5, false },
		{ "sum(increase(cpu[50s]))", 50, 50, 1, 1, false }, { "merge(cpu{replica='c'}[50s]) * 2", 20, 50, 2.5, 1, false },
		{ "focus(merge(cpu[50s]), \"g\")", 10, 50, 50 / 35., 10 / 35., true }, /* the weight of all: hence approximate */
		{ "focus(merge(cpu{replica='c'}[50s]), \"none\")", 0, 50, 2.5, 0, false },
		{ "diff(merge(cpu{replica='c'}[50s]), merge(cpu{replica='a'}[50s]))", -15, 50, 2.5, -0.75, false },
		{ "diff(merge(cpu{replica='c'}[50s]), merge(cpu[50s]))", -25, 50, 2.5, -1.25, true },
	};
	struct fixture *f = *state;
	add_parts(f->m, "c", 10000, 10000, 4000, 10, one_stack(memsource_symbols(f->m), "g", 2000000000)); /* half a core, too */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_sent(f, &rows[i]);
}

static void test_sent_weights_of_many(void **state)
{
	static const struct sent rows[] = {
		/* Profiles of four series end at different times: each series is covered for the range, all together for more. */
		{ "merge(cpu{replica=~'p.'}[30s])", 120, 30, 1, 4, false }, { "merge(cpu{replica=~'p.'}[80s])", 320, 80, 1, 4, false },
		{ "merge(cpu{replica='p1'}[25s])", 20, 20, 1, 1, false },
		/* One series ended when the other began. */
		{ "merge(cpu{replica=~'old|new'}[80s])", 80, 80, 1, 1, false },
		/* A small part of the whole has another weight. */
		{ "merge(cpu{replica=~'heavy|tiny'}[50s])", 10.00005, 50, 25.00005 / 10.00005, 0.500001, true },
		{ "sum(merge_over_time(cpu{replica=~'heavy|tiny'}[50s]))", 10.00005, 50, 25.00005 / 10.00005, 0.500001, true },
		/* The snapshots of a subquery are added. */
		{ "sum_over_time(cpu{replica='p0'}[40s:10s])", 40, 40, 1, 1, false }, { "sum_over_time(cpu{replica='heavy'}[40s:10s])", 8, 16, 1, 0.5, false },
		{ "avg_over_time(cpu{replica='p0'}[40s:10s])", 10, 10, 1, 1, false },
	};
	struct fixture *f = *state;
	struct symbols *s = memsource_symbols(f->m);
	for (int i = 0; i < 4; i++) {
		char name[8];
		snprintf(name, sizeof name, "p%d", i);
		add_profiles(f->m, name, 10000 + 2500 * i, 10000, 10 - (i > 0), 10000000000);
	}
	add_profiles(f->m, "old", 30000, 10000, 4, 10000000000);
	add_profiles(f->m, "new", 70000, 10000, 4, 10000000000);
	add_parts(f->m, "heavy", 10000, 10000, 4000, 10, one_stack(s, "g", 2000000000));
	add_parts(f->m, "tiny", 10000, 10000, 10000, 10, one_stack(s, "h", 10000));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_sent(f, &rows[i]);
}

/* The parts of a split are in the order of their labels, and of several values of one key the first by text decides, in whatever order a dictionary
 * met them. */
static void test_split_order(void **state)
{
	static const char *const names[] = { "zeta", "alpha", "mid" };
	for (unsigned way = 0; way < 2; way++) {
		struct memsource *m = memsource_new();
		struct symbols *s = memsource_symbols(m);
		struct promql_options o = { .max_samples = 100000, .max_concurrency = 2 };
		struct stackacc *a = stackacc_new(s);
		struct err e = { 0 };
		uint32_t key = symbols_string(s, VIEW("thread")), text[3];
		for (unsigned i = 0; i < 3; i++) {
			unsigned at = way ? 2 - i : i;
			text[at] = symbols_string(s, view_of(names[at]));
		}
		for (unsigned i = 0; i < 3; i++) { /* zeta and alpha; alpha and mid; mid and zeta */
			unsigned at = way ? 2 - i : i, other = (at + 1) % 3;
			struct sym_label l[] = { { .key = key, .str = MIN(text[at], text[other]) }, { .key = key, .str = MAX(text[at], text[other]) } };
			stackacc_add(a, symbols_column(s, 0, symbols_label_set(s, l, 2)), INT64_C(1000000000) << at);
		}
		struct stackvec *v = stackacc_finish(a, &e);
		stackacc_free(a);
		add_parts(m, "r", 10000, 10000, 10000, 1, v);
		struct promql_engine *g = promql_engine_new(memsource_source(m), &o);
		struct promql_result r;
		assert_int_equal(promql_instant(g, VIEW("split by (thread) (cpu)"), 10000, NULL, &r, &e), 0);
		assert_int_equal(r.n_series, 2);
		assert_true(view_eqs(labels_get(r.series[0].labels, VIEW("thread")), "alpha") && r.series[0].profiles[0].value == 3);
		assert_true(view_eqs(labels_get(r.series[1].labels, VIEW("thread")), "mid") && r.series[1].profiles[0].value == 4);
		promql_result_release(&r);
		promql_engine_free(g);
		memsource_free(m);
	}
}

static void test_limits(void **state)
{
	struct fixture *f = *state;
	struct promql_result r;
	struct err e = { 0 };
	assert_int_equal(promql_range(f->g, VIEW("1"), 0, 1000000000, 1000, NULL, &r, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "--query.max-samples"));
	assert_int_equal(promql_range(f->g, VIEW("1"), 0, 10, 0, NULL, &r, &e), -ERR_BAD_DATA);
	assert_int_equal(promql_range(f->g, VIEW("1"), 10, 0, 1, NULL, &r, &e), -ERR_BAD_DATA);
	atomic_bool canceled = true;
	struct promql_params p = { .canceled = &canceled };
	assert_int_equal(promql_instant(f->g, VIEW("x"), 1000, &p, &r, &e), -ERR_CANCELED);
	p = (struct promql_params){ .timeout_ms = 1 };
	int64_t from = clock_mono_ms();
	int rc = promql_instant(f->g, VIEW("count_over_time(quantile_over_time(0.5, x[10m:1s])[1h:1ms])"), 1000000, &p, &r, &e);
	assert_true(rc < 0);
	assert_true(clock_mono_ms() - from < 5000);
}

/* The time-out also ends queries over many steps that find no samples: no limit counts those steps. Without it each of these would run for minutes. */
static void test_many_empty_steps(void **state)
{
	struct fixture *f = *state;
	static const char *const queries[] = { "max_over_time(sum(m)[300d:1s])", "max_over_time(timestamp(m)[300d:1s])", "max_over_time((m smoothed)[300d:1s])",
					       "max_over_time(absent_over_time(m[1s])[300d:1s])" };
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &(struct promql_options){ .max_concurrency = 2 });
	struct err e = { 0 };
	promql_enable(PROMQL_EXTENDED_RANGES);
	for (int i = 0; i < 10000; i++) {
		char text[12];
		struct label room[2];
		snprintf(text, sizeof text, "%d", i);
		assert_int_equal(memsource_add_float(f->m, one_label(room, "m", "i", text), INT64_C(26000000000), 1, &e), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
		struct promql_result r;
		int64_t from = clock_mono_ms();
		int rc = promql_instant(g, view_of(queries[i]), INT64_C(26000000000), &(struct promql_params){ .timeout_ms = 100 }, &r, &e);
		if (rc != -ERR_TIMEOUT || clock_mono_ms() - from > 15000)
			fail_msg("%s: %d after %lld ms: %s", queries[i], rc, (long long)(clock_mono_ms() - from), e.msg);
	}
	promql_enable(0);
	promql_engine_free(g);
}

/* What all hold together has a bound, and is given back, also by a query that failed. */
static void test_total_bytes(void **state)
{
	struct fixture *f = *state;
	static const char query[] = "self(merge(cpu[1m]))";
	struct promql_options small = { .max_total_bytes = 8, .max_concurrency = 1 }, enough = { .max_total_bytes = 4096, .max_concurrency = 1 };
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &small);
	struct promql_result r;
	struct err e = { 0 };
	assert_int_equal(promql_instant(g, view_of(query), 100000, NULL, &r, &e), -ERR_LIMIT); /* it is alone: trying again does not help */
	assert_non_null(strstr(e.msg, "--query.memory): ask for a shorter range"));
	assert_int_equal(promql_instant(g, VIEW("1"), 100000, NULL, &r, &e), 0); /* it holds nothing */
	promql_result_release(&r);
	promql_engine_free(g);
	g = promql_engine_new(memsource_source(f->m), &enough);
	for (int i = 0; i < 50; i++) {
		if (promql_instant(g, view_of(query), 100000, NULL, &r, &e))
			fail_msg("%d: %s", i, e.msg);
		promql_result_release(&r);
	}
	promql_engine_free(g);
}

/* 3000 series, and a query that gives each of them a label of 900 bytes. */
static struct memsource *long_labels(struct buf *query)
{
	struct memsource *m = memsource_new();
	struct err ignored;
	char value[16];
	for (int i = 0; i < 3000; i++) {
		snprintf(value, sizeof value, "%d", i);
		struct label l[] = { { VIEW(LABEL_NAME), VIEW("many") }, { VIEW("i"), view_of(value) } };
		assert_int_equal(memsource_add_float(m, (struct labels){ l, 2 }, 100000, 1, &ignored), 0);
	}
	buf_puts(query, "label_replace(many, \"a\", \"");
	for (int i = 0; i < 900; i++)
		buf_putc(query, 'x');
	buf_puts(query, "\", \"\", \"\")");
	return m;
}

/* Labels that a query makes count, and those of its result. */
static void test_label_bytes(void **state)
{
	(void)state;
	struct buf query = { 0 };
	struct memsource *m = long_labels(&query);
	for (int k = 0; k < 12; k++) {
		struct promql_options o = { .max_total_bytes = k < 2 ? (uint64_t)1 << (20 + 2 * k) : UINT64_C(16) << 20, .max_concurrency = 1 };
		static struct promql_engine *g;
		struct promql_result r;
		struct err e = { 0 };
		if (k <= 2)
			g = promql_engine_new(memsource_source(m), &o);
		int rc = promql_instant(g, buf_view(&query), 100000, NULL, &r, &e);
		if (rc != (k < 2 ? -ERR_LIMIT : 0)) /* 4 MiB are enough for the memory of the evaluation, not for the copy that is the result as well */
			fail_msg("%d: %d: %s", k, rc, e.msg);
		if (!rc)
			promql_result_release(&r);
		if (k < 2 || k == 11)
			promql_engine_free(g);
	}
	buf_free(&query);
	memsource_free(m);
}

/* What others hold, here results whose answers are not made yet, is free again later: a query that fits without them is told so. */
static void test_bytes_of_others(void **state)
{
	(void)state;
	struct buf query = { 0 };
	struct memsource *m = long_labels(&query);
	struct promql_options o = { .max_total_bytes = UINT64_C(16) << 20, .max_concurrency = 1 };
	struct promql_engine *g = promql_engine_new(memsource_source(m), &o);
	struct promql_result held[16], r;
	struct err e = { 0 };
	size_t n = 0;
	int rc;
	while (!(rc = promql_instant(g, buf_view(&query), 100000, NULL, &held[n], &e)))
		assert_in_range(++n, 1, ARRAY_LEN(held) - 1);
	assert_int_equal(rc, -ERR_BUSY);
	assert_non_null(strstr(e.msg, "try again"));
	while (n)
		promql_result_release(&held[--n]);
	assert_int_equal(promql_instant(g, buf_view(&query), 100000, NULL, &r, &e), 0);
	promql_result_release(&r);
	promql_engine_free(g);
	buf_free(&query);
	memsource_free(m);
}

/* So have the stamps and totals of a range's profiles, and its values, while they are looked at. */
static void test_list_bytes(void **state)
{
	struct fixture *f = *state;
	static const struct { const char *query; uint64_t too_small, enough; } cases[] = {
		{ "rate(x[1000s])", 1000, 8000 }, { "sum(rate(cpu[1000s]))", 500, 4000 }, { "cpu", 400, 4000 }, { "x", 200, 4000 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int k = 0; k < 50; k++) {
			struct promql_options o = { .max_total_bytes = k ? cases[i].enough : cases[i].too_small, .max_concurrency = 1 };
			static struct promql_engine *g;
			struct promql_result r;
			struct err e = { 0 };
			if (k < 2)
				g = promql_engine_new(memsource_source(f->m), &o);
			int rc = k % 2 ? promql_range(g, view_of(cases[i].query), 90000, 100000, 10000, NULL, &r, &e)
				       : promql_instant(g, view_of(cases[i].query), 100000, NULL, &r, &e);
			if (rc != (k ? 0 : -ERR_LIMIT))
				fail_msg("%s, %d: %d: %s", cases[i].query, k, rc, e.msg);
			if (!rc)
				promql_result_release(&r);
			if (!k || k == 49)
				promql_engine_free(g);
		}
}

/* And are given back as soon as nobody looks at them. */
static void test_list_bytes_again(void **state)
{
	struct fixture *f = *state;
	static const char *const terms[] = { "rate(x[1000s] offset %dms)", "x offset %dms", "sum(rate(cpu[1000s] offset %dms))" };
	for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
		struct promql_options o = { .max_total_bytes = 16000, .max_concurrency = 1 };
		struct promql_engine *g = promql_engine_new(memsource_source(f->m), &o);
		struct promql_result r;
		struct buf query = { 0 };
		struct err e = { 0 };
		for (int k = 0; k < 40; k++) {
			char term[64];
			snprintf(term, sizeof term, terms[i], k + 1);
			buf_printf(&query, "%s%s", k ? " + " : "", term);
		}
		if (promql_instant(g, buf_view(&query), 100000, NULL, &r, &e))
			fail_msg("%s: %s", terms[i], e.msg);
		promql_result_release(&r);
		buf_free(&query);
		promql_engine_free(g);
	}
}

static void test_weight(void **state)
{
	(void)state;
	static const struct { const char *query; int64_t end_ms, step_ms; double least, most; bool reads; } cases[] = {
		{ "1", 0, 0, 0, 0, false }, { "1 + 1", 3600000, 1000, 3601, 3601, false }, { "((", 0, 0, 0, 0, false },
		{ "up", 0, 0, 1, 1, true }, { "sum(rate(x[5m]))", 0, 0, 3, 10, true }, { "merge(cpu[15d])", 0, 0, 20000, 22000, true },
		{ "sum(rate(x[5m]))", 3600000, 14400, 800, 1000, true }, { "x[1h:1s]", 0, 0, 10000, 11000, true },
		{ "count_over_time(quantile_over_time(0.5, vector(1)[1h:1s])[1h:1ms])", 0, 0, 1e9, 1e11, false },
		{ "merge(cpu[1d * 2])", 0, 0, 1e9, 1e13, true },
		{ "up{a=~\"(\"}", 0, 0, 1, 1, true }, /* expressions are not compiled: it is asked before a worker is */
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool reads;
		double w = promql_weight(view_of(cases[i].query), 0, cases[i].end_ms, cases[i].step_ms, &reads);
		if (w < cases[i].least || w > cases[i].most || reads != cases[i].reads)
			fail_msg("%s: %g %d", cases[i].query, w, reads);
	}
}

/* ---- where the process is short of memory ---- */

static atomic_uint_fast64_t resident_asked;

static uint64_t resident_of_a_query(void)
{
	return atomic_fetch_add(&resident_asked, 1) ? (uint64_t)1 << 30 : 0;
}

static void test_stopped(void **state)
{
	struct fixture *f = *state;
	struct promql_options o = { .memory_limit = (uint64_t)1 << 30, .resident = resident_of_a_query };
	struct promql_result r;
	struct err e = { 0 };
	atomic_store(&resident_asked, 0);
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &o);
	assert_int_equal(promql_instant(g, VIEW("count_over_time(quantile_over_time(0.5, x[10m:1s])[1h:1ms])"), 1000000, NULL, &r, &e), -ERR_BUSY);
	assert_non_null(strstr(e.msg, "seven eighths of the 1.0GiB that the process may use"));
	promql_engine_free(g);
}

/* Each names itself and its flag. */
static void test_named_limits(void **state)
{
	struct fixture *f = *state;
	static const struct {
		struct promql_options o;
		const char *query, *flag;
		int code;
	} cases[] = {
		{ { .max_samples = 100 }, "x[1000s]", "--query.max-samples", ERR_LIMIT },
		{ { .max_bytes = 8 }, "self(merge(cpu[1m]))", "--query.max-bytes", ERR_LIMIT },
		{ { .max_bytes = 1000 }, "last_over_time(cpu[100s:10ms] @ 100)", "--query.max-bytes", ERR_LIMIT }, /* thousands of profiles */
		{ { .max_series = 1 }, "x or cpu", "--query.max-series", ERR_LIMIT },
		{ { .max_functions = 1 }, "self(merge(cpu[1m]))", "--query.max-functions", ERR_LIMIT },
		{ { .timeout_ms = 1 }, "count_over_time(quantile_over_time(0.5, x[10m:1s])[1h:1ms])", "--query.timeout", ERR_TIMEOUT },
	};
	add_profiles(f->m, "b", 10000, 10000, 10, 7);
	struct stackvec *v = one_stack(memsource_symbols(f->m), "g", 1);
	struct label room[2];
	struct ptype t;
	struct err e = { 0 };
	struct source_profile p = { .t_ms = 99000, .cover_ms = 1000, .interval_ms = 1000, .weight = 1 };
	assert_true(ptype_parse(VIEW(CPU), &t));
	assert_int_equal(memsource_add_profile(f->m, one_label(room, CPU, "replica", "c"), &t, &p, v, &e), 0);
	stackvec_unref(v);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct promql_result r;
		struct promql_engine *g = promql_engine_new(memsource_source(f->m), &cases[i].o);
		int rc = promql_instant(g, view_of(cases[i].query), 100000, NULL, &r, &e);
		if (rc != -cases[i].code || !strstr(e.msg, cases[i].flag))
			fail_msg("%s: %d: %s", cases[i].flag, rc, e.msg);
		/* a range goes another way */
		bool slow = cases[i].code == ERR_TIMEOUT, matrix = strstr(cases[i].query, "x[") != NULL;
		rc = slow || matrix ? 0 : promql_range(g, view_of(cases[i].query), 50000, 100000, 10000, NULL, &r, &e);
		if (!slow && !matrix && (rc != -cases[i].code || !strstr(e.msg, cases[i].flag)))
			fail_msg("%s, range: %d: %s", cases[i].flag, rc, e.msg);
		promql_engine_free(g);
	}
}

struct waiting {
	struct promql_engine *g;
	atomic_bool canceled, done;
	int rc;
	struct err e;
};

static void *wait_in_queue(void *arg)
{
	struct waiting *w = arg;
	struct promql_result r;
	w->rc = promql_instant(w->g, VIEW("count_over_time(quantile_over_time(0.5, x[10m:1s])[1h:1ms])"), 1000000,
			       &(struct promql_params){ .canceled = &w->canceled }, &r, &w->e);
	atomic_store(&w->done, true);
	return NULL;
}

/* At work or waiting, as the metric says. */
static int n_queries(void)
{
	struct buf b = { 0 };
	metrics_render(&b);
	buf_put(&b, "", 1);
	const char *at = strstr(b.ptr, "\npyrrha_engine_queries ");
	int n = at ? (int)strtol(at + strlen("\npyrrha_engine_queries "), NULL, 10) : -1;
	buf_free(&b);
	return n;
}

/* One at a time: who waits too long is told about the queue; who leaves while it waits, or while it runs, is let go. */
static void test_queue(void **state)
{
	struct fixture *f = *state;
	promql_register_metrics();
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &(struct promql_options){ .max_concurrency = 1 });
	struct waiting first = { .g = g };
	pthread_t thread;
	struct promql_result r;
	struct err e = { 0 };
	assert_int_equal(pthread_create(&thread, NULL, wait_in_queue, &first), 0);
	int rc;
	do { /* until the other has its place; on a slow machine this one may also run out of time by itself */
		rc = promql_instant(g, VIEW("1"), 0, &(struct promql_params){ .timeout_ms = 1 }, &r, &e);
		if (!rc)
			promql_result_release(&r);
	} while ((!rc || !strstr(e.msg, "--query.max-concurrency")) && !atomic_load(&first.done));
	assert_int_equal(rc, -ERR_TIMEOUT);
	assert_non_null(strstr(e.msg, "--query.max-concurrency"));
	atomic_bool gone = true;
	assert_int_equal(promql_instant(g, VIEW("1"), 0, &(struct promql_params){ .canceled = &gone }, &r, &e), -ERR_CANCELED);
	struct waiting second = { .g = g };
	pthread_t waits;
	assert_int_equal(pthread_create(&waits, NULL, wait_in_queue, &second), 0);
	for (int k = 0; k < 20000 && n_queries() != 2; k++)
		clock_sleep_ms(1);
	flag_raise(&second.canceled);
	pthread_join(waits, NULL);
	assert_int_equal(second.rc, -ERR_CANCELED);
	assert_non_null(strstr(second.e.msg, "in query queue"));
	/* rules have places of their own */
	assert_int_equal(promql_instant(g, VIEW("1"), 0, &(struct promql_params){ .asker = PROMQL_RULES }, &r, &e), 0);
	promql_result_release(&r);
	flag_raise(&first.canceled);
	pthread_join(thread, NULL);
	assert_int_equal(first.rc, -ERR_CANCELED);
	promql_engine_free(g);
}

struct in_order {
	struct promql_engine *g;
	int64_t began_ns;
	pthread_t thread;
};

static void *ask_in_order(void *arg)
{
	struct in_order *a = arg;
	struct promql_params p = { .arrived_ns = clock_mono_ns() };
	struct promql_result r;
	struct err e = { 0 };
	if (!promql_instant(a->g, VIEW("x"), 10000, &p, &r, &e)) {
		a->began_ns = p.arrived_ns + r.queue_ns;
		promql_result_release(&r);
	}
	return NULL;
}

/* Places are given in the order in which queries came, also to those that waited for long. */
static void test_order(void **state)
{
	struct fixture *f = *state;
	promql_register_metrics();
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &(struct promql_options){ .max_concurrency = 1 });
	struct waiting first = { .g = g };
	struct in_order those[8];
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, wait_in_queue, &first), 0);
	for (int i = 0; i <= (int)ARRAY_LEN(those); i++) {
		for (int k = 0; k < 20000 && n_queries() != i + 1; k++)
			clock_sleep_ms(1);
		assert_int_equal(n_queries(), i + 1);
		if (i == ARRAY_LEN(those))
			break;
		those[i] = (struct in_order){ .g = g };
		assert_int_equal(pthread_create(&those[i].thread, NULL, ask_in_order, &those[i]), 0);
	}
	flag_wake(NULL); /* those that wait look again */
	clock_sleep_ms(20);
	flag_raise(&first.canceled);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < ARRAY_LEN(those); i++) {
		pthread_join(those[i].thread, NULL);
		assert_true(those[i].began_ns > 0);
		assert_true(!i || those[i].began_ns > those[i - 1].began_ns);
	}
	promql_engine_free(g);
}

/* A source that fails leaves its outputs as they were. If it set them to a list that it then freed, the query would free the list again. */
static void test_outputs_of_an_error(void **state)
{
	struct fixture *f = *state;
	struct source *source = memsource_source(f->m);
	struct source_view *v;
	struct source_series *all;
	size_t n, before = 77, tried = 0;
	struct err e = { 0 };
	atomic_bool gone = true;
	struct source_limits lim = { .canceled = &gone };
	assert_int_equal(source->open(source, &v, &e), 0);
	assert_int_equal(v->ops->select(v, NULL, 0, INT64_MIN, INT64_MAX, NULL, &all, &n, &e), 0);
	for (size_t i = 0; i < n; i++) {
		struct point mine, *points = &mine;
		struct source_profile own, *profiles = &own;
		size_t n_points = before, n_profiles = before;
		assert_int_equal(one_series_floats(v, all[i].ref, INT64_MIN, INT64_MAX, &lim, &points, &n_points, &e), -ERR_CANCELED);
		assert_int_equal(one_series_profiles(v, all[i].ref, INT64_MIN, INT64_MAX, &lim, &profiles, &n_profiles, &e), -ERR_CANCELED);
		assert_true(points == &mine && n_points == before && profiles == &own && n_profiles == before);
		tried++;
	}
	assert_true(tried > 0);
	free(all);
	v->ops->release(v);
}

/* Queries that share see one state, until they are told of what was written. */
static void test_shared_state(void **state)
{
	struct fixture *f = *state;
	struct promql_shared *s = promql_shared_new(f->g, 0);
	struct promql_params p = { .asker = PROMQL_RULES, .shared = s };
	struct label l[] = { { VIEW(LABEL_NAME), VIEW("written") } };
	struct promql_result r;
	struct err e = { 0 };
	for (int i = 0; i < 3; i++) {
		assert_int_equal(promql_instant(f->g, VIEW("written"), 100000, &p, &r, &e), 0);
		assert_int_equal(r.n_series, i == 2);
		promql_result_release(&r);
		if (i == 0)
			assert_int_equal(memsource_add_float(f->m, (struct labels){ l, 1 }, 99000, 1, &e), 0);
		else
			promql_shared_wrote(s, VIEW("written"));
	}
	promql_shared_free(s);
}

/* Equal subexpressions are computed once: in one query, and in those that share; a write of another name changes nothing. */
static void test_once(void **state)
{
	struct fixture *f = *state;
	static const char one[] = "samples(merge(cpu[1m]))", two[] = "samples(merge(cpu[1m])) > 0 and share(merge(cpu[1m]), {function=\"none\"}) == 0";
	struct promql_result a, b;
	struct err e = { 0 };
	assert_int_equal(promql_instant(f->g, view_of(one), 100000, NULL, &a, &e), 0);
	assert_int_equal(promql_instant(f->g, view_of(two), 100000, NULL, &b, &e), 0);
	assert_true(a.samples > 0 && b.n_series == 1);
	assert_int_equal(b.samples, 2 * a.samples);
	assert_int_equal(b.samples_read, a.samples_read);
	promql_result_release(&a);
	promql_result_release(&b);
	struct promql_shared *s = promql_shared_new(f->g, 0);
	struct promql_params p = { .asker = PROMQL_RULES, .shared = s };
	for (int i = 0; i < 4; i++) {
		assert_int_equal(promql_instant(f->g, view_of(i % 2 ? one : two), 100000, &p, &a, &e), 0);
		promql_result_release(&a);
	}
	struct promql_shared_stats stats = promql_shared_stats(s);
	assert_int_equal(stats.kept, 1);
	assert_int_equal(stats.found, 5);
	promql_shared_wrote(s, VIEW("other")); /* it is a merge that is made of vectors by now */
	assert_int_equal(promql_instant(f->g, view_of(one), 100000, &p, &a, &e), 0);
	promql_result_release(&a);
	assert_int_equal(promql_shared_stats(s).found, stats.found + 1);
	promql_shared_free(s);
}

/* Who reads nothing that was written goes on with what is kept, also of profiles that nobody made stacks of yet. */
static void test_as_first(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *wrote;
		uint64_t found, kept; /* after it */
	} steps[] = {
		{ NULL, 0, 1 }, { NULL, 1, 1 }, { "other", 2, 1 }, { "", 2, 2 }, { "other", 3, 2 },
	};
	struct promql_shared *s = promql_shared_new(f->g, 0);
	struct promql_result r;
	struct err e = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		const struct promql_params p = { .asker = PROMQL_RULES, .shared = s, .as_first = true };
		if (steps[i].wrote)
			promql_shared_wrote(s, view_of(steps[i].wrote));
		assert_int_equal(promql_instant(f->g, VIEW("samples(merge(cpu[1m]))"), 100000, &p, &r, &e), 0);
		promql_result_release(&r);
		struct promql_shared_stats now = promql_shared_stats(s);
		if (now.found != steps[i].found || now.kept != steps[i].kept)
			fail_msg("step %zu: found %llu, kept %llu", i, (unsigned long long)now.found, (unsigned long long)now.kept);
	}
	promql_shared_free(s);
}

static void test_may_read(void **state)
{
	(void)state;
	static const struct {
		const char *query;
		bool a, b;
	} cases[] = {
		{ "a", true, false }, { "sum(rate({__name__=~\"a|c\"}[5m])) > 1", true, false }, { "{job=\"x\"}", true, true },
		{ "{__name__!=\"a\",job=\"x\"}", false, true }, { "vector(1)", false, false }, { "c and on () (c or max_over_time(b[5m:]))", false, true },
		{ "share(merge(cpu[5m]), {function=\"a\"})", false, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct promql_expr *x;
		struct err e;
		assert_int_equal(promql_parse(&x, view_of(cases[i].query), &e), 0);
		if (promql_may_read(x, VIEW("a")) != cases[i].a || promql_may_read(x, VIEW("b")) != cases[i].b)
			fail_msg("%s", cases[i].query);
		promql_expr_free(x);
	}
}

struct caller {
	struct promql_engine *g;
	struct promql_shared *shared;
	pthread_t thread;
	int failed;
};

static void *call_shared(void *arg)
{
	struct caller *c = arg;
	struct promql_params p = { .asker = PROMQL_RULES, .shared = c->shared };
	static const char *const queries[] = { "share(merge(cpu[30s]), {function=\"none\"})", "topk(1, self(merge(cpu[30s])))", "samples(merge(cpu[30s])) > 0",
					       "value(merge(cpu[30s])) + on () sum(rate(x[1m]))", "diff(focus(merge(cpu[30s]), {function=\"main\"}), merge(cpu[10s]))" };
	for (size_t i = 0; i < 60; i++) {
		p.profiles = i % ARRAY_LEN(queries) == 4; /* the diff: its result has both sides over one dictionary; other queries share the sides */
		struct promql_result r;
		struct err e = { 0 };
		if (promql_instant(c->g, view_of(queries[i % ARRAY_LEN(queries)]), 100000, &p, &r, &e)) {
			c->failed++;
			continue;
		}
		c->failed += r.n_series != 1;
		promql_result_release(&r);
		if (i % 17 == 0)
			promql_shared_wrote(c->shared, i % 34 ? VIEW("x") : VIEW(""));
	}
	return NULL;
}

static void *call(void *arg)
{
	struct caller *c = arg;
	for (int i = 0; i < 20; i++) {
		struct promql_result r;
		struct err e = { 0 };
		if (promql_range(c->g, VIEW("topk(1, self(merge(cpu[30s]))) + on() group_left sum(rate(x[1m]))"), 20000, 100000, 10000, NULL, &r, &e)) {
			c->failed++;
			continue;
		}
		c->failed += r.n_series != 1 || r.series[0].n != 9;
		promql_result_release(&r);
	}
	return NULL;
}

static void test_concurrency(void **state)
{
	struct fixture *f = *state;
	struct caller c[8];
	struct promql_shared *s = promql_shared_new(f->g, 0);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = (struct caller){ .g = f->g, .shared = s };
		assert_int_equal(pthread_create(&c[i].thread, NULL, i % 2 ? call_shared : call, &c[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		pthread_join(c[i].thread, NULL);
		assert_int_equal(c[i].failed, 0);
	}
	assert_true(promql_shared_stats(s).found > 0);
	promql_shared_free(s);
}

/* Two replicas that measured the same, one a little later: counted once. */
static void test_replicas(void **state)
{
	struct fixture *f = *state;
	const char *labels[] = { "replica" };
	struct promql_options o = { .replica_labels = labels, .n_replica_labels = 1 };
	add_profiles(f->m, "b", 13000, 10000, 9, 5000000000);
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &o);
	struct promql_result r, r2;
	struct err e = { 0 };
	assert_int_equal(promql_instant(g, VIEW("merge(cpu[1m])"), 100000, NULL, &r, &e), 0);
	assert_true(r.n_series == 1 && r.series[0].points[0].v == 30);
	promql_result_release(&r);
	assert_int_equal(promql_instant(g, VIEW("sum by (replica)(rate(cpu[1m]))"), 100000, NULL, &r, &e), 0);
	assert_int_equal(r.n_series, 1);
	assert_int_equal(r.series[0].labels.n, 0);
	promql_result_release(&r);
	add_profiles(f->m, "b", 113000, 10000, 9, 5000000000); /* then one of them alone: stacks are of the one that was counted, too */
	for (int64_t t = 100000; t <= 180000; t += 10000) {
		assert_int_equal(promql_instant(g, VIEW("sum(rate(cpu[1m]))"), t, NULL, &r, &e), 0);
		assert_int_equal(promql_instant(g, VIEW("sum(self(rate(cpu[1m])))"), t, NULL, &r2, &e), 0);
		assert_true(r.series[0].points[0].v > 0 && fabs(r2.series[0].points[0].v - r.series[0].points[0].v) < 1e-12);
		promql_result_release(&r2);
		promql_result_release(&r);
	}
	assert_int_equal(promql_instant(g, VIEW("merge(cpu{replica=~\".+\"}[1m])"), 100000, NULL, &r, &e), 0);
	assert_true(r.series[0].points[0].v == 60); /* whoever names the label gets both */
	promql_result_release(&r);
	promql_engine_free(g);
}

#define TURNS "turns:cpu:nanoseconds:cpu:nanoseconds:delta"

/* Of a core: 4 s out of each 10 s, from first_ms on. */
static void add_turns(struct memsource *m, const char *replica, int64_t first_ms, int n)
{
	struct label room[2];
	struct labels l = one_label(room, TURNS, "replica", replica);
	struct ptype t;
	struct err e = { 0 };
	assert_true(ptype_parse(VIEW(TURNS), &t));
	struct stackvec *v = one_stack(memsource_symbols(m), "f", 4000000000);
	for (int i = 0; i <= n; i++) {
		struct source_profile p = { .t_ms = first_ms + i * 10000, .duration_ns = 4000000000, .cover_ms = 10000,
					    .interval_ms = 10000, .weight = 2.5, .period = 10000000, .stale = i == n };
		assert_int_equal(memsource_add_profile(m, l, &t, &p, i < n ? v : NULL, &e), 0);
	}
	stackvec_unref(v);
}

static double number(struct promql_engine *g, const char *query, int64_t t_ms)
{
	struct promql_result r;
	struct err e = { 0 };
	if (promql_instant(g, view_of(query), t_ms, NULL, &r, &e))
		fail_msg("%s: %s", query, e.msg);
	assert_true(r.n_series <= 1);
	double v = r.n_series ? r.series[0].points[0].v : -1;
	promql_result_release(&r);
	return v;
}

/* Two replicas that take turns (--scrape.replica) stand for the time since the other one, together and when one is away. */
static void test_replicas_that_take_turns(void **state)
{
	struct fixture *f = *state;
	const char *labels[] = { "replica" };
	struct promql_options o = { .replica_labels = labels, .n_replica_labels = 1 };
	add_turns(f->m, "a", 10000, 30); /* 10, 20 ... 300, ends at 310 */
	add_turns(f->m, "b", 15000, 15); /* 15, 25 ... 155, ends at 165 */
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &o);
	assert_true(fabs(number(g, "rate({__name__=~\"turns:.*\"}[100s])", 150000) - 1) < 1e-9);
	assert_true(fabs(number(g, "coverage({__name__=~\"turns:.*\"}[100s])", 150000) - 1) < 1e-9);
	assert_true(fabs(number(g, "rate({__name__=~\"turns:.*\"}[60s])", 180000) - 1) < 1e-9);  /* b ends in it */
	assert_true(fabs(number(g, "rate({__name__=~\"turns:.*\"}[60s])", 290000) - 1) < 1e-9);
	assert_true(number(g, "merge({__name__=~\"turns:.*\"}[100s])", 150000) == 80);            /* what was measured, by both */
	/* The end of one is no end, that of all is. */
	assert_true(number(g, "{__name__=~\"turns:.*\"}", 306000) == 4);
	assert_true(number(g, "{__name__=~\"turns:.*\"}", 311000) == -1);
	promql_engine_free(g);
}

static bool matches(const struct matcher *m, const char *name)
{
	return m->op == MATCH_RE && strstr(m->value.ptr, name);
}

/* A reload brings other names to an engine at work. */
static void test_other_names(void **state)
{
	struct fixture *f = *state;
	const char *labels[] = { "replica" };
	struct promql_alias a = { "mine", CPU };
	const struct matcher *m;
	size_t n;
	struct promql_expr *x;
	struct err e = { 0 };
	add_profiles(f->m, "b", 13000, 10000, 9, 5000000000);
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &(struct promql_options){ 0 });
	assert_true(number(g, "sum(merge(cpu[1m]))", 100000) == 60);
	assert_true(number(g, "count(mine)", 100000) == -1);
	promql_engine_rename(g, &a, 1, labels, 1);
	assert_true(number(g, "sum(merge(cpu[1m]))", 100000) == 30);
	assert_true(number(g, "count(mine)", 100000) == 1);
	assert_int_equal(promql_engine_selector(g, &x, VIEW("mine"), &m, &n, &e), 0);
	assert_true(n == 1 && matches(&m[0], CPU));
	promql_expr_free(x);
	promql_engine_rename(g, NULL, 0, NULL, 0);
	assert_true(number(g, "sum(merge(cpu[1m]))", 100000) == 60);
	assert_int_equal(promql_engine_selector(g, &x, VIEW("mine"), &m, &n, &e), 0);
	assert_false(matches(&m[0], CPU));
	promql_expr_free(x);
	promql_engine_free(g);
}

static void test_aliases_and_active_file(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/promql-active-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2048), 0);
	assert_int_equal(pwrite(fd, "sum(up)", 7, 1024), 7);
	close(fd);
	struct promql_alias a = { "mine", "x" };
	struct promql_options o = { .aliases = &a, .n_aliases = 1, .active_query_file = path, .max_concurrency = 2 };
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &o);
	assert_string_equal(promql_engine_crashed_queries(g), "sum(up)\n");
	struct promql_result r;
	struct err e = { 0 };
	assert_int_equal(promql_instant(g, VIEW("mine"), 5000, NULL, &r, &e), 0);
	assert_true(r.n_series == 1 && r.series[0].points[0].v == 5);
	promql_result_release(&r);
	promql_engine_free(g);
	unlink(path);
}

/* What a full disk does to a mapped file, a file that was cut does too: a write to a page without a block ends the process. */
static void test_active_file_without_room(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/promql-active-XXXXXX", maps[4096];
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	struct promql_options o = { .active_query_file = path, .max_concurrency = 20 };
	struct promql_engine *g = promql_engine_new(memsource_source(f->m), &o);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size == (20 + 4) * 1024 && st.st_blocks * 512 >= st.st_size); /* its blocks are there */
	assert_int_equal(ftruncate(fd, 0), 0);
	FILE *m = fopen("/proc/self/maps", "re");
	assert_non_null(m);
	while (fgets(maps, sizeof maps, m))
		assert_null(strstr(maps, path));
	fclose(m);
	struct promql_result r;
	struct err e = { 0 };
	assert_int_equal(promql_instant(g, VIEW("x"), 5000, NULL, &r, &e), 0);
	promql_result_release(&r);
	promql_engine_free(g);
	close(fd);
	unlink(path);
}

/* ---- as high as a tree may be ---- */

struct deep {
	struct promql_engine *g;
	struct view query;
	struct err e;
	int rc;
};

static void *run_deep(void *arg)
{
	struct deep *d = arg;
	struct promql_params p = { .explain = true };
	struct promql_result r;
	d->rc = promql_instant(d->g, d->query, 100000, &p, &r, &d->e);
	if (d->rc)
		return NULL;
	promql_result_release(&r);
	d->rc = promql_range(d->g, d->query, 90000, 100000, 5000, NULL, &r, &d->e);
	if (!d->rc)
		promql_result_release(&r);
	return NULL;
}

/* Half the stack that a thread has. */
static void on_small_stack(struct deep *d)
{
	pthread_t t;
	pthread_attr_t a;
	pthread_attr_init(&a);
	assert_int_equal(pthread_attr_setstacksize(&a, THREAD_STACK / 2), 0);
	assert_int_equal(pthread_create(&t, &a, run_deep, d), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&a);
}

static void test_deep(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *head, *first, *more, *tail; /* nested `nest` times, around a chain that fills the height */
		int nest;
	} forms[] = {
		{ "", "x", " or x", "", 0 }, { "", "1", "+1", "", 0 }, { "", "x", "+x", "", 0 }, { "", "x", " and x", "", 0 },
		{ "", "cpu", "+cpu", "", 0 }, { "", "time()", "*2", "", 0 }, { "-", "x", "*1", "", 190 },
		{ "(", "x", " unless x", ")", 390 }, { "abs(", "x", "+1", ")", 390 }, { "sum(", "x", "+1", ")", 390 },
		{ "topk(1,", "x", "+1", ")", 190 }, { "max_over_time((", "x", "+1", ")[1s:1s])", 190 }, { "focus(", "cpu", "+cpu", ",\"x\")", 190 },
		{ "quantile(0.5,", "x", "+1", ")", 190 }, { "label_replace(", "x", "+1", ",\"b\",\"$1\",\"a\",\"(.*)\")", 390 },
		{ "round(", "x", "+1", ",1)", 390 }, { "histogram_quantile(0.5,", "x", "+1", ")", 390 }, { "merge(", "cpu", "+cpu", ")", 390 },
		{ "sort(", "x", "+1", ")", 390 }, { "total(", "cpu", "+cpu", ")", 1 }, { "hour(", "x", "+1", ")", 390 },
		{ "split by (a)(", "cpu", "+cpu", ")", 390 }, { "absent(", "x", "+1", ")", 390 },
	};
#ifdef __SANITIZE_THREAD__
	skip(); /* one thread, and 40 s: how deep it goes on its stack is said without it, and by the address sanitizer */
#endif
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct buf b = { 0 };
		for (int k = 0; k < forms[i].nest; k++)
			buf_puts(&b, forms[i].head);
		buf_puts(&b, forms[i].first);
		for (int k = 1; k < 1900 - 4 * forms[i].nest; k++)
			buf_puts(&b, forms[i].more);
		for (int k = 0; k < forms[i].nest; k++)
			buf_puts(&b, forms[i].tail);
		struct deep d = { f->g, buf_view(&b), { 0 }, 0 };
		on_small_stack(&d);
		if (d.rc && d.e.code != ERR_EXECUTION)
			fail_msg("%s: %s", forms[i].head, d.e.msg);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_results, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sent_weights, setup, teardown), cmocka_unit_test_setup_teardown(test_sent_weights_of_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_empty_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_named_limits, setup, teardown), cmocka_unit_test_setup_teardown(test_list_bytes, setup, teardown), cmocka_unit_test_setup_teardown(test_list_bytes_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_total_bytes, setup, teardown),
		cmocka_unit_test(test_bytes_of_others), cmocka_unit_test(test_label_bytes),
		cmocka_unit_test(test_weight), cmocka_unit_test(test_split_order),
		cmocka_unit_test_setup_teardown(test_queue, setup, teardown), cmocka_unit_test_setup_teardown(test_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outputs_of_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared_state, setup, teardown),
		cmocka_unit_test_setup_teardown(test_as_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_once, setup, teardown),
		cmocka_unit_test(test_may_read),
		cmocka_unit_test_setup_teardown(test_concurrency, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replicas, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replicas_that_take_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_aliases_and_active_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_active_file_without_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
