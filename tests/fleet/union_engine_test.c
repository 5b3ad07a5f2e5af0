/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of the language over a union of peers have the results that they have over one source that has everything, instants and ranges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "promql-like/promql.h"
#include "tests/fleet/unionkit.h"

static const char *const queries[] = {
	"m", "m{pod=\"a\"}", "{pod=\"b\"}", "{zone=\"x\"}", "{region=~\"e.*\"}", "m{region=\"\"}", "{region!=\"eu\",__name__=~\"m|c_total\"}",
	"sum(m)", "sum by (region) (m)", "avg by (zone) (m)", "count by (region, pod) ({__name__=~\".+\"})", "topk(2, m)", "quantile(0.5, m)",
	"rate(c_total[1m])", "increase(c_total[2m])", "sum by (pod) (rate(c_total[35s]))", "irate(c_total[1m])", "delta(m[1m])",
	"max_over_time(m[1m])", "min_over_time(m[35s])", "avg_over_time(m[2m])", "sum_over_time(m[1m])", "count_over_time(m[1m])",
	"last_over_time(m[1m])", "stddev_over_time(m[1m])", "changes(m[2m])", "resets(c_total[2m])", "absent(nothing)", "m offset 30s", "m @ 3590",
	"max_over_time(sum(m)[1m:10s])", "m - on (pod) group_left c_total", "cpu", "cpu{region=\"eu\"}", "cpu{pod!=\"a\"}", "merge(cpu)",
	"merge by (region) (cpu)", "merge(cpu[1m])", "merge by (zone) (cpu[2m])", "rate(cpu[1m])", "sum(rate(cpu[2m]))",
	"sum by (pod) (rate(cpu[1m]))", "increase(cpu[1m])", "sum_over_time(cpu[1m])", "avg_over_time(heap_inuse_space[1m])",
	"avg by (region) (avg_over_time(goroutines[2m]))", "max_over_time(goroutines[1m])", "heap_inuse_space", "sum(heap_inuse_space)",
	"goroutines", "self(merge(cpu[1m]))", "total(merge(cpu[1m]), \"line\")", "self(rate(cpu[1m]))", "total(cpu)",
	"self(merge by (pod) (cpu[30s]), \"function\")", "share(merge(cpu[1m]), {function=\"f\"}, \"function\")",
	"share(merge by (region) (cpu[1m]))", "self_share(rate(cpu[1m]))", "total(avg_over_time(heap_inuse_space[1m]))",
	"total(merge(heap_inuse_space[1m]))", "focus(merge(cpu[1m]), \"g\")", "total(focus(rate(cpu[2m]), \"f\"))",
	"total(rate(cpu[1m]), {function=\"f\"}, \"function\")", "self(avg_over_time(goroutines[2m]), \"line\")", "topk(3, self(merge(cpu[2m])))",
	"diff(merge(cpu[1m]), merge(cpu[1m] offset 1m))", "total(diff(merge(cpu[1m]), merge(cpu[1m] offset 1m)))",
	"split by (thread) (merge(cpu[1m]))", "rate(cpu[50s])", "{__name__=~\"process_cpu.*|memory.*\"}",
	"total(focus(merge by (region) (cpu[1m]), \"f\"))", "histogram_quantile(0.9, m)", "count(cpu)", "present_over_time(cpu[1m])",
	"timestamp(cpu)", "share(rate(cpu[1m]), {function=\"f\"}, \"function\")", "merge(avg_over_time(heap_inuse_space[1m]))",
};

static struct promql_engine *engines[2];

static bool is_same(double a, double b)
{
	if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
		return (isnan(a) && isnan(b)) || a == b;
	return fabs(a - b) <= 1e-11 * fmax(fabs(a), fabs(b));
}

static const struct promql_series *series_of(const struct promql_result *r, struct labels l)
{
	for (size_t i = 0; i < r->n_series; i++)
		if (labels_eq(r->series[i].labels, l))
			return &r->series[i];
	return NULL;
}

static void same_profile(const char *query, const struct promql_profile *a, const struct promql_profile *b)
{
	if (!is_same(a->value, b->value) || !is_same(a->covered_s, b->covered_s) || !is_same(a->weight, b->weight) || a->period != b->period ||
	    a->mixed != b->mixed)
		fail_msg("%s: %g %g %g, not %g %g %g", query, b->value, b->covered_s, b->weight, a->value, a->covered_s, a->weight);
	assert_true(!a->vec == !b->vec);
	if (a->vec && !is_same(stackvec_total(a->vec), stackvec_total(b->vec)))
		fail_msg("%s: stacks of %g, not %g", query, stackvec_total(b->vec), stackvec_total(a->vec));
}

static size_t n_points, n_profiles, n_errors;

static void same_result(const char *query, const struct promql_result *a, const struct promql_result *b)
{
	if (a->n_series != b->n_series)
		fail_msg("%s: %zu series, not %zu", query, b->n_series, a->n_series);
	for (size_t i = 0; i < a->n_series; i++) {
		const struct promql_series *x = &a->series[i], *y = series_of(b, x->labels);
		struct buf text = { 0 };
		labels_format(x->labels, &text);
		if (!y || x->n != y->n)
			fail_msg("%s: %s has %zu points, not %zu", query, text.ptr, y ? y->n : 0, x->n);
		for (size_t k = 0; k < x->n; k++, n_points++) {
			if (x->points[k].t_ms != y->points[k].t_ms || !is_same(x->points[k].v, y->points[k].v))
				fail_msg("%s: %s at %lld is %.17g, not %.17g", query, text.ptr, (long long)x->points[k].t_ms, y->points[k].v, x->points[k].v);
			if (x->profiles) {
				same_profile(query, &x->profiles[k], &y->profiles[k]);
				n_profiles++;
			}
		}
		buf_free(&text);
	}
}

static void compare(const char *query, int64_t start, int64_t end, bool range)
{
	struct promql_result r[2];
	struct promql_params p = { .profiles = !range };
	struct err e[2] = { { 0 }, { 0 } };
	int rc[2];
	for (int i = 0; i < 2; i++)
		rc[i] = range ? promql_range(engines[i], view_of(query), start, end, KIT_STEP, &p, &r[i], &e[i])
			      : promql_instant(engines[i], view_of(query), end, &p, &r[i], &e[i]);
	if (rc[0] != rc[1])
		fail_msg("%s: %s, not %s", query, e[1].msg, e[0].msg);
	if (rc[0]) {
		n_errors++;
		assert_string_equal(e[0].msg, e[1].msg);
		return;
	}
	same_result(query, &r[0], &r[1]);
	promql_result_release(&r[0]);
	promql_result_release(&r[1]);
}

static void test_queries(void **unused)
{
	(void)unused;
	struct pool *pool = pool_new(2, "union test");
	for (uint64_t r = 0, n = kit_rounds(8); r < n; r++) {
		kit_state = kit_first_seed() + r;
		kit_fill();
		struct promql_options o = { .lookback_ms = 30000, .subquery_step_ms = KIT_STEP, .pool = r % 2 ? pool : NULL };
		engines[0] = promql_engine_new(memsource_source(kit_all), &o);
		engines[1] = promql_engine_new(fleet_union_source(kit_joint), &o);
		for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
			compare(queries[i], KIT_START, KIT_START + (int64_t)kit_draw(40) * 7000, false);
			compare(queries[i], KIT_START - 2 * KIT_STEP, KIT_START + 31 * KIT_STEP, true);
		}
		promql_engine_free(engines[0]);
		promql_engine_free(engines[1]);
		kit_close_all();
	}
	print_message("%zu points and %zu profiles are equal, %zu errors too\n", n_points, n_profiles, n_errors);
	assert_true(n_points > 10000 && n_profiles > 500);
	pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_queries) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
