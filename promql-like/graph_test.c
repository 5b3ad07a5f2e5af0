/* SPDX-License-Identifier: Apache-2.0 */
/* A range query over stacks reads all steps at once; it must say at every step what an instant query says there, which
 * goes profile by profile. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "promql-like/graphkit.h"

static const struct promql_series *find(const struct promql_result *r, struct labels l)
{
	for (size_t i = 0; i < r->n_series; i++)
		if (labels_eq(r->series[i].labels, l))
			return &r->series[i];
	return NULL;
}

static void same_at(const char *query, const struct promql_result *range, const struct promql_result *at)
{
	size_t n = 0;
	for (size_t i = 0; i < range->n_series; i++)
		for (size_t k = 0; k < range->series[i].n; k++) {
			if (range->series[i].points[k].t_ms != at->t_ms)
				continue;
			const struct promql_series *s = find(at, range->series[i].labels);
			double v = range->series[i].points[k].v;
			n++;
			if (!s)
				fail_msg("%s at %lld: a series too many, with %g", query, (long long)at->t_ms, v);
			if (fabs(s->points[0].v - v) > 1e-12 * fabs(v) + 1e-18) /* of seconds: what a scaled difference of equals leaves */
				fail_msg("%s at %lld: %.17g in the range, %.17g at the instant", query, (long long)at->t_ms, v, s->points[0].v);
		}
	if (n != at->n_series)
		fail_msg("%s at %lld: %zu series in the range, %zu at the instant", query, (long long)at->t_ms, n, at->n_series);
}


static void test_range_equals_instants(void **unused)
{
	(void)unused;
	struct memsource *m = memsource_new();
	struct promql_engine *g = promql_engine_new(memsource_source(m), &(struct promql_options){ 0 });
	struct err e = { 0 };
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "b");
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "c");
	add_series(m, "memory:inuse_space:bytes:space:bytes", "a");
	add_series(m, "memory:inuse_space:bytes:space:bytes", "b");
	for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
		struct promql_result range, at;
		if (promql_range(g, view_of(queries[i]), 12345, END + 60000, 7000, NULL, &range, &e))
			fail_msg("%s: %s", queries[i], e.msg);
		for (int64_t t = 12345; t <= END + 60000; t += 7000) {
			if (promql_instant(g, view_of(queries[i]), t, NULL, &at, &e))
				fail_msg("%s: %s", queries[i], e.msg);
			same_at(queries[i], &range, &at);
			promql_result_release(&at);
		}
		assert_true(range.n_series > 0);
		promql_result_release(&range);
	}
	promql_engine_free(g);
	memsource_free(m);
}

/* ---- what is asked of storage ---- */

static struct source_ops spied, real;
static size_t n_parts, n_asked, n_differ;

/* All parts of an output have one range. */
static void note_parts(const struct source_part *parts, size_t n)
{
	n_parts += n;
	for (size_t i = 0; i < n; i++) {
		n_asked += MAX(parts[i].n_steps, 1);
		assert_true(parts[i].n_steps < 2 || parts[i].step_ms > 0);
	}
	for (size_t i = 1; i < n; i++)
		n_differ += parts[i].group == parts[i - 1].group && (parts[i].after_ms != parts[i - 1].after_ms || parts[i].until_ms != parts[i - 1].until_ms);
}

static int spy_sums(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		    const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	note_parts(parts, n);
	return real.sums(v, parts, n, n_groups, f, lim, ret, exact, e);
}

static int spy_shares(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		      const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	note_parts(parts, n);
	return real.shares(v, parts, n, n_groups, f, lim, ret, e);
}

/* Storage has sums of services: it takes them where all series of one are asked for the same whole minutes. */
static void test_a_group_asks_one_range(void **unused)
{
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct promql_result r;
	struct err e = { 0 };
	for (const char *pod = "abcd"; *pod; pod++)
		add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", (char[]){ *pod, 0 });
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	spied.sums = spy_sums;
	spied.shares = spy_shares;
	v->ops = &spied;
	v->ops->release(v);
	assert_int_equal(promql_range(g, VIEW("total(merge(cpu[1m]), {function=\"f\"})"), 60000, END, 60000, NULL, &r, &e), 0);
	assert_int_equal(n_asked, 4 * END / 60000); /* one that has none in a window, too */
	assert_int_equal(n_differ, 0);
	promql_result_release(&r);
	promql_engine_free(g);
	memsource_free(m);
}

/* Series of pods, a letter each, that are scraped each ten seconds until `end`. weight says how much a profile counts, 0: it is not there. */
static void add_pods(struct memsource *m, const char *pods, int64_t end, double (*weight)(char pod, int64_t t_ms))
{
	struct ptype type;
	struct err e = { 0 };
	for (const char *pod = pods; *pod; pod++) {
		struct label l[] = { { VIEW(LABEL_NAME), VIEW("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta") }, { VIEW("pod"), view_make(pod, 1) } };
		assert_true(ptype_parse(l[0].value, &type));
		for (int64_t t = 3700 + 10 * (*pod - 'a'); t < end; t += 10000) {
			struct source_profile p = { .t_ms = t, .duration_ns = 10000000000, .cover_ms = 10000, .interval_ms = 10000,
						    .weight = weight(*pod, t), .period = 10 };
			if (p.weight == 0)
				continue;
			struct stackvec *v = draw_stacks(m);
			assert_int_equal(memsource_add_profile(m, (struct labels){ l, 2 }, &type, &p, v, &e), 0);
			stackvec_unref(v);
		}
	}
}

/* Of pod c nothing is there for a while, pod b counts more at the end. */
static double regular_weight(char pod, int64_t t_ms)
{
	if (pod == 'c' && t_ms > END / 2 && t_ms < END / 2 + 100000)
		return 0;
	return pod == 'b' && t_ms > END - 150000 ? 1.25 : 1;
}

static void add_regular(struct memsource *m)
{
	add_pods(m, "abc", END, regular_weight);
}

/* Equal as they are stored. */
static void equal_at(const char *query, const struct promql_result *range, const struct promql_result *at)
{
	for (size_t i = 0; i < at->n_series; i++) {
		const struct promql_series *s = find(range, at->series[i].labels);
		bool found = false;
		for (size_t k = 0; s && k < s->n; k++)
			found |= s->points[k].t_ms == at->t_ms && memcmp(&s->points[k].v, &at->series[i].points[0].v, sizeof(double)) == 0;
		if (!found)
			fail_msg("%s at %lld: the range does not have the %.17g of the instant", query, (long long)at->t_ms, at->series[i].points[0].v);
	}
}

/* Steps that want the same, each a step later, are one question; what scaled profiles add up to is the same as step by step. */
static void test_steps_are_asked_at_once(void **unused)
{
	static const struct { const char *query; size_t most; } asked[] = {
		/* a part of the first profile, what is whole, and the newest, which reaches ahead */
		{ "total(merge(rate(cpu{pod=\"a\"}[1m])), {function=\"f\"})", 3 }, { "total(rate(cpu{pod=\"a\"}[1m] offset 20s), {function=\"f\"})", 3 },
		/* and as often as something changes while b or c does */
		{ "total(merge(rate(cpu[1m])), {function=\"f\"})", 220 }, { "self(merge(rate(cpu{pod!=\"b\"}[1m])) * 3, {function=\"f\"})", 100 },
		{ "share(merge(cpu[1m]), {function=\"f\"})", 3 },
		{ "total(merge(cpu[1m]) or label_replace(merge(cpu[1m]), \"x\", \"y\", \"\", \"\"), {function=\"f\"})", 6 },
	};
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	add_regular(m);
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	spied.sums = spy_sums;
	spied.shares = NULL;
	spied.matches = NULL;
	v->ops = &spied;
	v->ops->release(v);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct promql_result range, at;
		n_parts = n_asked = 0;
		assert_int_equal(promql_range(g, view_of(asked[i].query), 120000, END, 10000, NULL, &range, &e), 0);
		if (n_parts > asked[i].most || n_asked < 100)
			fail_msg("%s: %zu parts of %zu", asked[i].query, n_parts, n_asked);
		for (int64_t t = 120000; t <= END; t += 10000) {
			assert_int_equal(promql_instant(g, view_of(asked[i].query), t, NULL, &at, &e), 0);
			assert_true(at.n_series > 0);
			equal_at(asked[i].query, &range, &at);
			promql_result_release(&at);
		}
		promql_result_release(&range);
	}
	promql_engine_free(g);
	memsource_free(m);
}

static int no_profiles(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		       source_profiles_fn fn, void *arg, struct err *e)
{
	(void)v, (void)refs, (void)n, (void)after_ms, (void)until_ms, (void)lim, (void)fn, (void)arg;
	return err_set(e, ERR_EXECUTION, "profiles are listed");
}

/* Of windows that follow each other it is asked what they come to, and no profile is listed; the rows are those of each step alone, which
 * lists them. Pod c has nothing for some windows. */
static void test_windows_that_follow(void **unused)
{
	static const char *const asked[] = { "self(merge(cpu[30s]))", "total(merge by (pod) (cpu[30s] offset 13s))", "topk(2, self(merge(cpu{pod=\"c\"}[30s])))",
					     "self(merge(cpu{pod!=\"a\"}[30s] offset 1h) or merge(cpu[30s]))" };
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	add_regular(m);
	assert_int_equal(source->open(source, &v, &e), 0);
	real = *v->ops;
	v->ops->release(v);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct promql_result range, at;
		spied = real;
		spied.profiles = no_profiles;
		v->ops = &spied;
		assert_int_equal(promql_range(g, view_of(asked[i]), 30000, END, 30000, NULL, &range, &e), 0);
		spied.profiles = real.profiles;
		spied.covers = NULL;
		for (int64_t t = 30000; t <= END; t += 30000) {
			assert_int_equal(promql_instant(g, view_of(asked[i]), t, NULL, &at, &e), 0);
			equal_at(asked[i], &range, &at);
			promql_result_release(&at);
		}
		promql_result_release(&range);
	}
	promql_engine_free(g);
	memsource_free(m);
}

static atomic_size_t n_runs;

/* A call for points. */
struct listing {
	const struct source_windows *windows;
	source_points_fn fn;
	void *arg;
};

static int points_of_profiles(void *arg, size_t series, struct source_profile *p, size_t n, struct err *e)
{
	const struct listing *l = arg;
	struct source_points ret = { xcalloc(n + 1, sizeof *ret.v), 0, xcalloc(n + 1, sizeof *ret.before), true };
	int64_t begin = 0; /* of the first of a run */
	for (size_t i = 0; i < n; i++) {
		struct source_point x = { p[i].t_ms, p[i].total, (uint32_t)p[i].cover_ms, 0, (uint32_t)p[i].interval_ms & SOURCE_POINT_AHEAD_MAX };
		ret.plain &= p[i].weight == 1 && !p[i].stale;
		bool whole = i + 1 < n && !source_windows_edge(l->windows, x.t_ms - x.cover_ms + 1, p[i + 1].t_ms);
		struct source_point *last = ret.n ? &ret.v[ret.n - 1] : NULL;
		if (whole && last && last->is_run && !source_windows_edge(l->windows, begin + 1, x.t_ms)) {
			*last = (struct source_point){ x.t_ms, last->total + x.total, (uint32_t)(x.t_ms - begin), 1, (last->ahead + 1) & SOURCE_POINT_AHEAD_MAX };
		} else {
			begin = x.t_ms - x.cover_ms;
			if (whole)
				x = (struct source_point){ x.t_ms, x.total, x.cover_ms, 1, 1 };
			ret.v[ret.n++] = x;
		}
		ret.before[ret.n] = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < ret.n && ret.plain; i++)
		atomic_fetch_add(&n_runs, ret.v[i].is_run && ret.v[i].ahead > 1);
	free(p);
	if (!ret.plain) {
		source_points_release(&ret);
		ret = (struct source_points){ .plain = false };
	}
	return l->fn(l->arg, series, &ret, e);
}

/* As of storage that knows of most profiles only what several come to. */
static int list_points(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
		       const struct source_limits *lim, source_points_fn fn, void *arg, struct err *e)
{
	return real.profiles(v, refs, n, after_ms, until_ms, lim, points_of_profiles, &(struct listing){ windows, fn, arg }, e);
}

/* Values alone are what the profiles' are: those times 1 are profiles. Of series as most are, and of one that has weights; of storage that lists
 * all profiles, and of storage that has runs of them. */
static void test_values_alone(void **runs)
{
	static const char *const pairs[][2] = { { "rate(cpu[1m])", "rate(cpu[1m]) * 1" }, { "increase(cpu[35s])", "increase(cpu[35s]) * 1" },
						{ "rate(cpu[7s] offset 13s)", "rate(cpu[7s] offset 13s) * 1" }, { "rate(cpu[5m] @ 300)", "rate(cpu[5m] @ 300) * 1" },
						{ "sum_over_time(cpu[1m])", "sum_over_time(cpu[1m]) * 1" }, { "merge_over_time(cpu[31s] offset 13s)", "merge_over_time(cpu[31s] offset 13s) * 1" },
						{ "sum_over_time(cpu[5m] @ 300)", "sum_over_time(cpu[5m] @ 300) * 1" } };
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	add_regular(m);
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	spied.points = *runs ? list_points : NULL;
	v->ops = &spied;
	v->ops->release(v);
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		size_t before = atomic_load(&n_runs);
		for (int64_t step = 777; step < 100000; step *= 10) {
			struct promql_result values, profiles;
			assert_int_equal(promql_range(g, view_of(pairs[i][0]), 1, END + 60000, step, NULL, &values, &e), 0);
			assert_int_equal(promql_range(g, view_of(pairs[i][1]), 1, END + 60000, step, NULL, &profiles, &e), 0);
			assert_true(values.n_series == 3 && profiles.n_series == 3);
			for (size_t k = 0; k < 3; k++) {
				assert_true(values.series[k].n > 5 && values.series[k].n == profiles.series[k].n);
				for (size_t p = 0; p < values.series[k].n; p++)
					if (memcmp(&values.series[k].points[p], &profiles.series[k].points[p], sizeof(struct point)) != 0)
						fail_msg("%s at %lld: %.17g, of a profile %.17g", pairs[i][0], (long long)values.series[k].points[p].t_ms,
							 values.series[k].points[p].v, profiles.series[k].points[p].v);
			}
			promql_result_release(&values);
			promql_result_release(&profiles);
		}
		assert_true(!*runs || atomic_load(&n_runs) > before);
	}
	promql_engine_free(g);
	memsource_free(m);
}

static VEC(uint64_t) read_refs;

static int select_backwards(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
			    struct source_series **ret, size_t *ret_n, struct err *e)
{
	int rc = real.select(v, m, n, after_ms, until_ms, lim, ret, ret_n, e);
	for (size_t i = 0; i < *ret_n && !rc; i++)
		(*ret)[i].ref = *ret_n - 1 - (*ret)[i].ref;
	return rc;
}

/* A call for profiles. */
struct noting {
	struct source_view *v;
	const uint64_t *refs;
	int64_t after_ms, until_ms;
	source_profiles_fn fn;
	void *arg;
	size_t series;
};

static int note_profiles(void *arg, size_t series, struct source_profile *p, size_t n, struct err *e)
{
	const struct noting *x = arg;
	(void)series;
	return x->fn(x->arg, x->series, p, n, e);
}

static int note_one(void *arg, size_t series, struct err *e)
{
	struct noting x = *(struct noting *)arg;
	x.series = series;
	vec_push(&read_refs, x.refs[series]);
	return real.profiles(x.v, &(uint64_t){ 2 - x.refs[series] }, 1, x.after_ms, x.until_ms, NULL, note_profiles, &x, e);
}

static int note_refs(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		     source_profiles_fn fn, void *arg, struct err *e)
{
	return source_each(refs, n, lim, note_one, &(struct noting){ v, refs, after_ms, until_ms, fn, arg, 0 }, e);
}

/* Storage numbers series by the day in which they begin: they are read in that order, whatever their labels are. */
static void test_series_are_read_by_ref(void **unused)
{
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct promql_result r;
	struct source_view *v;
	struct err e = { 0 };
	add_regular(m);
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	spied.select = select_backwards;
	spied.profiles = note_refs;
	v->ops = &spied;
	v->ops->release(v);
	assert_int_equal(promql_range(g, VIEW("rate(cpu[1m])"), 60000, END, 60000, NULL, &r, &e), 0);
	assert_true(r.n_series == 3 && read_refs.n == 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(read_refs.v[i], i);
		assert_int_equal(labels_get(r.series[i].labels, VIEW("pod")).ptr[0], "abc"[i]);
	}
	promql_result_release(&r);
	vec_free(&read_refs);
	promql_engine_free(g);
	memsource_free(m);
}

/* ---- who adds what first ---- */

struct kept_cells {
	struct source_cells c;
	int64_t t_ms;
	uint8_t summed;
};
static VEC(struct kept_cells) handed;

static int keep_cells(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	(void)arg, (void)worker, (void)e;
	assert_int_equal(c->n_rows, 1);
	struct kept_cells *k = vec_add(&handed);
	*k = (struct kept_cells){ *c, *c->t_ms, c->summed && *c->summed };
	k->c.rows = memcpy(xcalloc(c->n + 1, sizeof *c->rows), c->rows, c->n * sizeof *c->rows);
	return 0;
}

/* As storage whose threads hand out what they read in any order. */
static int mix_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		     const struct source_cells_reader *to, struct err *e)
{
	const struct source_cells_reader keep = { keep_cells, to->alike, to->odd, to->detail, to->arg };
	handed.n = 0;
	int rc = real.cells(v, refs, n, after, until, lim, &keep, e);
	for (; handed.n; handed.n--) {
		struct kept_cells *k = &handed.v[draw((uint32_t)handed.n)], last = handed.v[handed.n - 1];
		k->c.t_ms = &k->t_ms;
		k->c.summed = &k->summed;
		rc = rc ? rc : to->take(to->arg, &k->c, 0, e);
		free((void *)k->c.rows);
		*k = last;
	}
	return rc;
}

/* Parts of profiles are added up to the last bit, in whatever order. */
static void test_order_does_not_matter(void **unused)
{
	static const char *const rates[] = { "self(merge(rate(cpu[35s])))", "total(merge(rate(cpu[35s])))", "total(merge(rate(cpu[4m])) / 7)",
					     "self(diff(merge(rate(cpu[1m])), merge(rate(cpu[1m] offset 1m))))" };
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	for (const char *pod = "abcdefgh"; *pod; pod++)
		add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", (char[]){ *pod, 0 });
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	spied.cells = mix_cells;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		struct promql_result in_order, mixed;
		v->ops = &real;
		assert_int_equal(promql_range(g, view_of(rates[i]), 60000, END, 7000, NULL, &in_order, &e), 0);
		v->ops = &spied;
		assert_int_equal(promql_range(g, view_of(rates[i]), 60000, END, 7000, NULL, &mixed, &e), 0);
		assert_true(in_order.n_series > 0 && in_order.n_series == mixed.n_series);
		for (size_t k = 0; k < mixed.n_series; k++)
			for (size_t p = 0; p < mixed.series[k].n; p++)
				if (memcmp(&mixed.series[k].points[p], &in_order.series[k].points[p], sizeof(struct point)) != 0)
					fail_msg("%s: %.17g and %.17g", rates[i], mixed.series[k].points[p].v, in_order.series[k].points[p].v);
		promql_result_release(&in_order);
		promql_result_release(&mixed);
	}
	v->ops->release(v);
	vec_free(&handed);
	promql_engine_free(g);
	memsource_free(m);
}

static size_t n_cells_calls;

static int count_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		       const struct source_cells_reader *to, struct err *e)
{
	n_cells_calls++;
	return real.cells(v, refs, n, after, until, lim, to, e);
}

static void equal_ranges(const char *query, const struct promql_result *a, const struct promql_result *b)
{
	if (a->n_series != b->n_series || !a->n_series)
		fail_msg("%s: %zu series and %zu", query, a->n_series, b->n_series);
	for (size_t i = 0; i < a->n_series; i++) {
		const struct promql_series *x = &a->series[i], *y = find(b, x->labels);
		if (!y || x->n != y->n)
			fail_msg("%s: series %zu lacks points", query, i);
		for (size_t k = 0; k < x->n; k++)
			if (x->points[k].t_ms != y->points[k].t_ms || fabs(x->points[k].v - y->points[k].v) > 1e-12 * fabs(x->points[k].v) + 1e-18)
				fail_msg("%s at %lld: %.17g and %.17g", query, (long long)x->points[k].t_ms, x->points[k].v, y->points[k].v);
	}
}

/* A source on other servers has no cells: each step is a sum of its own there. */
static void test_without_cells(void **unused)
{
	static const char *const rows[] = { "self(merge(cpu[1m]))", "self(merge(rate(cpu[35s])))", "total(merge by (pod)(cpu[20s]), \"line\")", "topk(2, self(merge(cpu[1m])))",
					    "topk by (pod)(1, share(rate(cpu[1m])))", "bottomk(2, total(rate(cpu[35s])))", "self(merge(cpu[1m]) - merge(cpu[1m] offset 1m))" };
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	for (const char *pod = "abc"; *pod; pod++)
		add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", (char[]){ *pod, 0 });
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	v->ops = &spied;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct promql_result with, without;
		n_cells_calls = 0;
		spied.cells = count_cells;
		assert_int_equal(promql_range(g, view_of(rows[i]), 60000, END, 7000, NULL, &with, &e), 0);
		assert_true(n_cells_calls > 0);
		spied.cells = NULL;
		assert_int_equal(promql_range(g, view_of(rows[i]), 60000, END, 7000, NULL, &without, &e), 0);
		equal_ranges(rows[i], &with, &without);
		promql_result_release(&with);
		promql_result_release(&without);
	}
	v->ops->release(v);
	promql_engine_free(g);
	memsource_free(m);
}

/* ---- what may not fit ---- */

static size_t n_merged;

static int count_merges(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
			const struct source_limits *lim,
			struct stackvec **ret, struct err *e)
{
	n_merged++;
	return real.merge(v, parts, n, n_groups, detail, lim, ret, e);
}

/* A large gauge counts in each step by another scale: what it counts in one of them has to fit, not what it counts in all of them. */
static void test_a_large_gauge_is_read_once(void **unused)
{
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct label l[] = { { VIEW(LABEL_NAME), VIEW("memory:inuse_space:bytes:space:bytes") }, { VIEW("pod"), VIEW("a") } };
	struct promql_result range;
	struct source_view *v;
	struct ptype type;
	struct arena a;
	struct err e = { 0 };
	const char *error = "";
	arena_init(&a, 0);
	assert_true(ptype_parse(l[0].value, &type));
	struct stackvec *stacks = testlang_stacks(&a, memsource_symbols(m), VIEW("main@m.go:1!app 36028797018963968"), &error);
	assert_non_null(stacks);
	for (int64_t t = 10000; t <= END; t += 10000) {
		struct source_profile p = { .t_ms = t, .cover_ms = 10000, .interval_ms = 10000, .weight = 1 };
		assert_int_equal(memsource_add_profile(m, (struct labels){ l, 2 }, &type, &p, stacks, &e), 0);
	}
	stackvec_unref(stacks);
	arena_free(&a);
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	spied.merge = count_merges;
	v->ops = &spied;
	v->ops->release(v);
	n_merged = 0;
	assert_int_equal(promql_range(g, VIEW("self(merge(heap_inuse_space[1m]) / time())"), 60000, END, 1000, NULL, &range, &e), 0);
	assert_int_equal(range.n_series, 1);
	assert_int_equal(range.series[0].n, 541);
	for (size_t i = 0; i < range.series[0].n; i++)
		assert_true(fabs(range.series[0].points[i].v * (double)(60 + i) / 0x1p55 - 1) < 1e-12);
	assert_int_equal(n_merged, 0);
	promql_result_release(&range);
	promql_engine_free(g);
	memsource_free(m);
}

/* ---- sums in place of profiles ---- */

/* All of pod d counts one and a half times. */
static double hour_weight(char pod, int64_t t_ms)
{
	(void)t_ms;
	return pod == 'd' ? 1.5 : 1;
}

/* Where windows begin and end on whole minutes a source may hand out what series add up to in place of their profiles: not where these
 * count by another scale, from or to another time, or an hour as a whole that is only begun. */
static void test_sums_stand_for_what_counts_alike(void **unused)
{
	static const char *const of_minutes[] = {
		"self(sum(merge by (pod)(cpu{pod=\"a\"}[5m]) * 2 or merge by (pod)(cpu{pod!=\"a\"}[5m])))",
		"total(sum(merge by (pod)(cpu{pod=\"a\"}[3m]) or merge by (pod)(cpu{pod!=\"a\"}[5m])))",
		"total(sum(merge by (pod)(cpu{pod=\"a\"}[5m]) or merge by (pod)(cpu{pod!=\"a\"}[3m] offset 2m)))",
		"self(merge(rate(cpu[5m])))", "total(merge(rate(cpu{pod=~\"c|d\"}[10m])))", "self(merge(cpu[5m]))", "total(merge(cpu[45m]))",
		"self(merge(cpu[2h]))", "self(merge(rate(cpu[5m] offset 5s)))", "self(merge(rate(cpu[5m] offset 11s)))",
	};
	static const struct { int64_t start, end, step; } spans[] = { { 60000, 900000, 60000 }, { 3300000, 3900000, 60000 }, { 600000, 4200000, 600000 },
		{ 3600000, 4200000, 600000 } };
	(void)unused;
	struct memsource *m = memsource_new();
	struct promql_engine *g = promql_engine_new(memsource_source(m), &(struct promql_options){ 0 });
	struct err e = { 0 };
	add_pods(m, "abcd", 3900000, hour_weight); /* a bit more than an hour */
	for (size_t i = 0; i < ARRAY_LEN(of_minutes) * ARRAY_LEN(spans); i++) {
		const char *query = of_minutes[i / ARRAY_LEN(spans)];
		__auto_type sp = &spans[i % ARRAY_LEN(spans)];
		struct promql_result range, at;
		if (promql_range(g, view_of(query), sp->start, sp->end, sp->step, NULL, &range, &e))
			fail_msg("%s: %s", query, e.msg);
		assert_true(range.n_series > 0);
		for (int64_t t = sp->start; t <= sp->end; t += sp->step) {
			assert_int_equal(promql_instant(g, view_of(query), t, NULL, &at, &e), 0);
			same_at(query, &range, &at);
			promql_result_release(&at);
		}
		promql_result_release(&range);
	}
	promql_engine_free(g);
	memsource_free(m);
}

/* ---- without profiles ---- */

static const char *const of_function[] = {
	"%s(merge(cpu[%s]), {function=\"f\"})", "%s(merge by (pod)(cpu[%s] offset 13s), {function=~\"f|h\"})", "%s(merge without (pod)(cpu{pod!=\"b\"}[%s]), {function=\"none\"})",
	"%s(rate(cpu[%s]), {function=\"f\"})", "%s(increase(cpu[%s] offset 13s), {function=\"g\"})", "%s(merge(rate(cpu[%s])), {function=\"f\"})",
	"%s(sum by (zone)(rate(cpu[%s])), {function=\"f\"})", "%s(merge by (zone)(increase(cpu{pod!=\"c\"}[%s])), {function=~\"f|h\"})",
	"%s(merge(heap_inuse_space[%s]), {function=\"f\"})",
};

/* Pods of two zones whose stamps are off by up to some tenths of a second, some by seconds; one comes late, one ends, one is idle for a
 * while; two have the same stamps, as those that a server asks at once. */
static void add_jittered(struct memsource *m)
{
	struct ptype type;
	struct err e = { 0 };
	for (const char *pod = "abcdefgh"; *pod; pod++) {
		struct label l[] = { { VIEW(LABEL_NAME), VIEW("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta") }, { VIEW("pod"), view_make(pod, 1) },
				     { VIEW("zone"), *pod % 2 ? VIEW("x") : VIEW("y") } };
		assert_true(ptype_parse(l[0].value, &type));
		for (int64_t t = *pod == 'e' ? END / 2 : 3000, last = t - 10000; t < (*pod == 'c' ? END / 3 : END); t += 10000) {
			int64_t off = *pod == 'b' ? 0 : *pod > 'f' ? (*pod - 'f') * 70 : *pod == 'd' || *pod == 'f' ? t / 10000 % 7 * 100 : (int64_t)(draw(300) + (draw(20) ? 0 : 4000));
			struct source_profile p = { .t_ms = t + off, .duration_ns = 9000000000, .cover_ms = draw(25) ? MIN(t + off - last, 15000) : 0, .interval_ms = 10000,
						    .weight = draw(8) ? 1 : 1.25, .period = 10, .stale = !draw(30) };
			if (draw(30) == 0)
				t += 50000;
			last = p.t_ms;
			struct stackvec *v = p.stale ? NULL : *pod == 'a' && t < END / 4 ? stackvec_empty(memsource_symbols(m)) : draw_stacks(m);
			assert_int_equal(memsource_add_profile(m, (struct labels){ l, 3 }, &type, &p, v, &e), 0);
			stackvec_unref(v);
		}
	}
}

static size_t n_shares, n_matches;

static int count_shares(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
			const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	n_shares++;
	return real.shares(v, parts, n, n_groups, f, lim, ret, e);
}

static int count_matches(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_frame_filter *f,
			 const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e)
{
	n_matches++;
	return real.matches(v, refs, n, after, until, f, lim, fn, arg, e);
}

static void same_bytes(const char *query, const struct promql_result *x, const struct promql_result *y)
{
	if (x->n_series != y->n_series)
		fail_msg("%s: %zu series, and %zu of profiles", query, x->n_series, y->n_series);
	for (size_t i = 0; i < x->n_series; i++) {
		const struct promql_series *a = &x->series[i], *b = &y->series[i];
		if (!labels_eq(a->labels, b->labels) || a->n != b->n)
			fail_msg("%s: series %zu has %zu points, and %zu of profiles", query, i, a->n, b->n);
		for (size_t k = 0; k < a->n; k++)
			if (a->points[k].t_ms != b->points[k].t_ms || memcmp(&a->points[k].v, &b->points[k].v, sizeof(double)))
				fail_msg("%s: %.17g at %lld, and %.17g at %lld of profiles", query, a->points[k].v, (long long)a->points[k].t_ms,
					 b->points[k].v, (long long)b->points[k].t_ms);
	}
}

static void check_without_profiles(struct promql_engine *g, const char *query, int64_t start, int64_t step)
{
	struct promql_result with, without;
	struct err e = { 0 };
	spied.shares = NULL;
	spied.matches = NULL;
	if (promql_range(g, view_of(query), start, END + 90000, step, NULL, &with, &e))
		fail_msg("%s: %s", query, e.msg);
	spied.shares = count_shares;
	spied.matches = count_matches;
	if (promql_range(g, view_of(query), start, END + 90000, step, NULL, &without, &e))
		fail_msg("%s: %s", query, e.msg);
	same_bytes(query, &without, &with);
	promql_result_release(&with);
	promql_result_release(&without);
}

/* A query of a template: %s is the measure first, then the range. */
static void write_query(char query[256], const char *text, const char *measure, const char *range)
{
	size_t n = 0;
	for (const char *next = measure; *text; text++) {
		bool slot = text[0] == '%' && text[1] == 's';
		n += (size_t)snprintf(query + n, 256 - n, "%.*s", slot ? (int)strlen(next) : 1, slot ? next : text);
		text += slot;
		next = slot ? range : next;
	}
}

/* Graphs of a function are the same to the last bit whether profiles are made for them or not, also where scraping is not to the
 * millisecond. */
static void test_without_profiles(void **unused)
{
	static const char *const measures[] = { "total", "self", "share", "self_share" }, *const ranges[] = { "3s", "10s", "61s", "5m" };
	static const struct { int64_t start, step; } spans[] = { { 60000, 60000 }, { 61234, 7000 } };
	(void)unused;
	struct memsource *m = memsource_new();
	struct source *source = memsource_source(m);
	struct promql_engine *g = promql_engine_new(source, &(struct promql_options){ 0 });
	struct source_view *v;
	struct err e = { 0 };
	char query[256];
	add_jittered(m);
	add_series(m, "memory:inuse_space:bytes:space:bytes", "a");
	assert_int_equal(source->open(source, &v, &e), 0);
	real = spied = *v->ops;
	v->ops = &spied;
	v->ops->release(v);
	for (size_t i = 0; i < ARRAY_LEN(of_function); i++)
		for (size_t k = 0; k < ARRAY_LEN(measures) * ARRAY_LEN(ranges) * ARRAY_LEN(spans); k++) {
			size_t s = k / ARRAY_LEN(measures) / ARRAY_LEN(ranges);
			write_query(query, of_function[i], measures[k % 4], ranges[k / 4 % 4]);
			check_without_profiles(g, query, spans[s].start, spans[s].step);
		}
	assert_int_equal(n_shares, 3 * 32);
	assert_int_equal(n_matches, 5 * 32);
	promql_engine_free(g);
	memsource_free(m);
}

/* ---- the order of ids ---- */

static void same_elements(const char *query, const struct promql_result *a, const struct promql_result *b)
{
	if (a->n_series != b->n_series)
		fail_msg("%s: %zu and %zu elements", query, a->n_series, b->n_series);
	for (size_t i = 0; i < a->n_series; i++) {
		const struct promql_series *x = &a->series[i], *y = &b->series[i];
		if (!labels_eq(x->labels, y->labels))
			fail_msg("%s: element %zu differs", query, i);
		if (memcmp(&x->points[0].v, &y->points[0].v, sizeof(double)) != 0)
			fail_msg("%s: element %zu is %.17g and %.17g", query, i, x->points[0].v, y->points[0].v);
	}
}

static struct memsource *make_profiles(uint64_t met_before)
{
	struct memsource *m = memsource_new();
	graphkit_state = met_before;
	for (size_t i = 0; met_before && i < 50; i++)
		stackvec_unref(draw_stacks(m));
	graphkit_state = 1;
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	add_series(m, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "b");
	add_series(m, "memory:inuse_space:bytes:space:bytes", "a");
	add_series(m, "memory:inuse_space:bytes:space:bytes", "b");
	return m;
}

/* A dictionary that met stacks in another order gives them other ids. Answers are the same to the last bit, in the same order. */
static void test_ids_do_not_matter(void **unused)
{
	(void)unused;
	struct memsource *m[2] = { make_profiles(0), make_profiles(1000) };
	struct promql_engine *g[2];
	struct err e = { 0 };
	for (size_t k = 0; k < 2; k++)
		g[k] = promql_engine_new(memsource_source(m[k]), &(struct promql_options){ 0 });
	for (size_t i = 0; i < ARRAY_LEN(queries); i++)
		for (int64_t t = 120000; t <= END; t += 60000) {
			struct promql_result r[2];
			for (size_t k = 0; k < 2; k++)
				if (promql_instant(g[k], view_of(queries[i]), t, NULL, &r[k], &e))
					fail_msg("%s: %s", queries[i], e.msg);
			same_elements(queries[i], &r[0], &r[1]);
			for (size_t k = 0; k < 2; k++)
				promql_result_release(&r[k]);
		}
	for (size_t k = 0; k < 2; k++) {
		promql_engine_free(g[k]);
		memsource_free(m[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_range_equals_instants), cmocka_unit_test(test_a_group_asks_one_range),
					    cmocka_unit_test(test_steps_are_asked_at_once), cmocka_unit_test(test_order_does_not_matter), cmocka_unit_test(test_without_cells),
					    cmocka_unit_test(test_sums_stand_for_what_counts_alike), cmocka_unit_test(test_windows_that_follow),
					    cmocka_unit_test(test_values_alone), cmocka_unit_test_prestate(test_values_alone, &n_runs), cmocka_unit_test(test_series_are_read_by_ref), cmocka_unit_test(test_a_large_gauge_is_read_once),
					    cmocka_unit_test(test_without_profiles), cmocka_unit_test(test_ids_do_not_matter) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
