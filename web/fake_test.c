/* SPDX-License-Identifier: Apache-2.0 */
#include "web/fake_test.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/num.h"
#include "model/relabel.h"
#include "promql-like/promql.h"

atomic_bool fake_slow_runs, fake_slow_canceled, fake_answers_fail, fake_answers_late;
atomic_llong fake_timeout_ms, fake_lookback_ms;
atomic_int fake_partial;
atomic_bool fake_server_away;

/* ---- the language ---- */

/* What stands here for the language's struct promql_expr, which web only has pointers to. */
struct fake_expr {
	struct matcher m;
	char *text;
};

static struct fake_expr *fake_of(const struct promql_expr *x)
{
	return (struct fake_expr *)(uintptr_t)x;
}

const char *promql_type_text(enum promql_type t)
{
	static const char *const names[] = { "none", "scalar", "string", "vector", "matrix" };
	return names[t];
}

int promql_parse(struct promql_expr **ret, struct view query, struct err *e)
{
	if (view_eqs(query, "bad"))
		return err_set(e, ERR_BAD_DATA, "1:4: parse error: unexpected end of input");
	struct fake_expr *x = NEW(struct fake_expr);
	x->text = xstrndup(query.ptr ? query.ptr : "", query.len);
	*ret = (struct promql_expr *)x;
	return 0;
}

void promql_expr_free(struct promql_expr *x)
{
	free(fake_of(x)->text);
	free(x);
}

unsigned promql_enabled(void)
{
	return 0;
}

int promql_format(const struct promql_expr *x, const struct source_limits *lim, struct buf *out, struct err *e)
{
	if (!lim->canceled || !lim->deadline_mono_ns)
		return err_set(e, ERR_INTERNAL, "without a deadline and the client's flag");
	buf_printf(out, "formatted \"%s\"", fake_of(x)->text);
	return 0;
}

void promql_expr_print(const struct promql_expr *x, struct buf *out)
{
	buf_puts(out, fake_of(x)->text);
}

int promql_expr_json(const struct promql_expr *x, const struct source_limits *lim, struct buf *out, struct err *e)
{
	(void)x;
	if (!lim->canceled || !lim->deadline_mono_ns)
		return err_set(e, ERR_INTERNAL, "without a deadline and the client's flag");
	buf_puts(out, "{\"type\":\"numberLiteral\"}");
	return 0;
}

/* "name" only: __name__="name". */
int promql_parse_selector(struct promql_expr **ret, struct view text, const struct matcher **ret_m, size_t *ret_n,
			  struct err *e)
{
	int rc = promql_parse(ret, text, e);
	if (rc)
		return rc;
	struct fake_expr *x = fake_of(*ret);
	x->m = (struct matcher){ MATCH_EQ, VIEW(LABEL_NAME), view_of(x->text), NULL };
	*ret_m = &x->m;
	*ret_n = 1;
	return 0;
}

int promql_engine_selector(struct promql_engine *g, struct promql_expr **ret, struct view text, const struct matcher **ret_m, size_t *ret_n,
			   struct err *e)
{
	return promql_parse_selector(ret, text, ret_m, ret_n, e);
}

bool promql_engine_whole(struct promql_engine *g, enum promql_asker asker, enum promql_partial partial)
{
	(void)g;
	return asker == PROMQL_RULES || partial == PROMQL_PARTIAL_REFUSE;
}

const struct promql_function_info *promql_function_at(size_t i)
{
	static const struct promql_function_info one = { "rate", "rate(range)", "Per second.", false, true, "the same", "rate(cpu[5m])" };
	return i ? NULL : &one;
}

const struct promql_construct *promql_construct_at(size_t i)
{
	static const struct promql_construct one = { PROMQL_SELECTOR, "cpu", "profiles", "A type.", "cpu" };
	return i ? NULL : &one;
}

/* ---- the engine ---- */

static const struct ptype cpu_type = { { "process_cpu", 11 }, { "cpu", 3 }, { "nanoseconds", 11 }, { "cpu", 3 },
				       { "nanoseconds", 11 }, true, PROFILE_DELTA };
static const struct ptype heap_type = { { "memory", 6 }, { "inuse_space", 11 }, { "bytes", 5 }, { "space", 5 },
					{ "bytes", 5 }, false, PROFILE_GAUGE };

static uint32_t frame(struct symbols *s, const char *name)
{
	struct sym_mapping m = { .file = symbols_string(s, VIEW("/bin/demo")), .size = 4096, .has = SYM_HAS_FUNCTIONS };
	struct sym_function f = { .name = symbols_string(s, view_of(name)), .filename = symbols_string(s, VIEW("demo.c")) };
	struct sym_line line = { symbols_function(s, &f) + 1, 7, 0 };
	struct sym_location l = { .mapping = symbols_mapping(s, &m) + 1, .n_lines = 1, .address = f.name };
	return symbols_location(s, &l, &line);
}

/* main;work value, main value/10; the columns are in order. */
static struct stackvec *profile(struct symbols *s, int64_t value)
{
	uint32_t stack[] = { frame(s, "work;1"), frame(s, "main") };
	struct stackacc *a = stackacc_new(s);
	stackacc_add(a, symbols_column(s, symbols_stack(s, stack, 2), 0), value);
	stackacc_add(a, symbols_column(s, symbols_stack(s, stack + 1, 1), 0), value / 10);
	struct stackvec *v = stackacc_finish(a, NULL);
	stackacc_free(a);
	return v;
}

static void add_series(struct promql_result *r, size_t i, const char *pod, double v)
{
	struct label *l = arena_alloc(&r->arena, 2 * sizeof *l);
	l[0] = (struct label){ VIEW(LABEL_NAME), VIEW("cpu") };
	l[1] = (struct label){ VIEW("pod"), view_of(pod) };
	struct point *p = arena_alloc(&r->arena, 2 * sizeof *p);
	p[0] = (struct point){ r->t_ms, v };
	p[1] = (struct point){ r->t_ms + 1000, v };
	r->series[i] = (struct promql_series){ .labels = { l, 2 }, .n = r->type == PROMQL_MATRIX ? 2 : 1, .points = p };
}

static void add_profile(struct promql_result *r, size_t i, const struct ptype *t, struct symbols *s, int64_t value,
			int64_t base)
{
	struct promql_profile *p = arena_calloc(&r->arena, 1, sizeof *p);
	*p = (struct promql_profile){ .type = t, .vec = profile(s, value), .base = base ? profile(s, base) : NULL,
				      .value = (double)value / 1e9, .covered_s = 60, .weight = 1, .period = 10000000 };
	r->series[i].profiles = p;
}

/* "times:N", the profile of "one" times N; "minus:N", a diff of N, taken as it is, against INT64_MIN, or
 * half of that if N is as large. */
static bool add_unusual(struct promql_result *r, struct view query, struct symbols *s)
{
	double by;
	if (query.len < 6 || !num_parse_double(view_make(query.ptr + 6, query.len - 6), &by))
		return false;
	add_profile(r, 0, &cpu_type, s, 1000, 0);
	struct promql_profile *p = (struct promql_profile *)r->series[0].profiles;
	if (view_starts(query, VIEW("times:"))) {
		struct stackvec *times = stackvec_sum(s, &p->vec, &by, 1, NULL);
		stackvec_unref(p->vec);
		p->vec = times;
		return true;
	}
	p->base = profile(s, by < 1e18 ? INT64_MIN : INT64_MIN / 2);
	p->vec->ints[0] = (int64_t)by;
	return view_starts(query, VIEW("minus:"));
}

static void start_result(struct promql_result *r, enum promql_type type, int64_t t, size_t n)
{
	*r = (struct promql_result){ .type = type, .t_ms = t, .n_series = n };
	arena_init(&r->arena, 0);
	r->series = arena_calloc(&r->arena, n, sizeof *r->series);
	static const char *const pods[] = { "a", "b<c" };
	for (size_t i = 0; i < n; i++)
		add_series(r, i, pods[i % 2], i ? 1e-7 : 1.5);
}

/* What frame/function/values asks the engine about a minute of that selector. */
#define FAKE_FRAMES(selector) \
	"topk(100000, sum by (function) (total(merge by (__name__) (" selector "[60000ms]), \"function\")))"

/* main 2, Work 1; of the second selector main 1, more 5. */
static void start_frames(struct promql_result *r, int64_t t_ms, bool second)
{
	start_result(r, PROMQL_VECTOR, t_ms, 2);
	static const char *const names[][2] = { { "main", "Work" }, { "more", "main" } };
	static const double values[][2] = { { 2, 1 }, { 5, 1 } };
	for (size_t i = 0; i < 2; i++) {
		struct label *l = arena_alloc(&r->arena, sizeof *l);
		*l = (struct label){ VIEW("function"), view_of(names[second][i]) };
		r->series[i].labels = (struct labels){ l, 1 };
		r->series[i].points[0].v = values[second][i];
	}
}

static int wait_for_cancel(const struct promql_params *p, struct err *e)
{
	atomic_store(&fake_slow_runs, true);
	for (int i = 0; i < 2000 && !atomic_load(p->canceled); i++)
		clock_sleep_ms(5);
	atomic_store(&fake_slow_canceled, atomic_load(p->canceled));
	return err_set(e, ERR_CANCELED, "query was canceled in query execution");
}

static int fail(struct view query, const struct promql_params *p, struct err *e)
{
	if (view_eqs(query, "bad"))
		return err_set(e, ERR_BAD_DATA, "1:4: parse error: unexpected end of input");
	if (view_eqs(query, "timeout"))
		return err_set(e, ERR_TIMEOUT, "query timed out in expression evaluation");
	if (view_eqs(query, "limit"))
		return err_set(e, ERR_LIMIT, "query processing would load too many samples into memory (--query.max-samples)");
	return view_eqs(query, "slow") ? wait_for_cancel(p, e) : 0;
}

double promql_weight(struct view query, int64_t start_ms, int64_t end_ms, int64_t step_ms, bool *ret_reads)
{
	(void)start_ms, (void)end_ms, (void)step_ms;
	*ret_reads = !view_eqs(query, "1");
	return view_eqs(query, "slow") ? 1e9 : 1;
}

int promql_instant(struct promql_engine *g, struct view query, int64_t t_ms, const struct promql_params *p,
		   struct promql_result *r, struct err *e)
{
	static struct view warning = { "it is \"fake\"", 12 };
	(void)g;
	atomic_store(&fake_timeout_ms, p->timeout_ms);
	atomic_store(&fake_lookback_ms, p->lookback_ms);
	atomic_store(&fake_partial, (int)p->partial);
	int rc = fail(query, p, e);
	if (rc)
		return rc;
	struct symbols *s = symbols_new();
	if (view_eqs(query, "1")) {
		start_result(r, PROMQL_SCALAR, t_ms, 0);
		r->scalar = 1;
	} else if (view_eqs(query, "nan")) {
		start_result(r, PROMQL_SCALAR, t_ms, 0);
		r->scalar = NAN;
	} else if (view_eqs(query, "text")) {
		start_result(r, PROMQL_STRING, t_ms, 0);
		r->string = VIEW("say \"x\"");
	} else if (view_eqs(query, "range")) {
		start_result(r, PROMQL_MATRIX, t_ms, 1);
	} else if (view_eqs(query, "none")) {
		start_result(r, PROMQL_VECTOR, t_ms, 0);
	} else if (view_eqs(query, FAKE_FRAMES("one")) || view_eqs(query, FAKE_FRAMES("two"))) {
		start_frames(r, t_ms, view_eqs(query, FAKE_FRAMES("two")));
	} else {
		bool unusual = view_starts(query, VIEW("times:")) || view_starts(query, VIEW("minus:"));
		start_result(r, PROMQL_VECTOR, t_ms, unusual || view_eqs(query, "one") || view_eqs(query, "diff") ? 1 : 2);
		if (unusual && !add_unusual(r, query, s))
			rc = err_set(e, ERR_INTERNAL, "the test is wrong");
		if (view_eqs(query, "one") || view_eqs(query, "two"))
			for (size_t i = 0; i < r->n_series; i++)
				add_profile(r, i, &cpu_type, s, 1000 * (int64_t)(i + 1), 0);
		if (view_eqs(query, "diff"))
			add_profile(r, 0, &cpu_type, s, 1000, 400);
		if (view_eqs(query, "types")) {
			add_profile(r, 0, &cpu_type, s, 1000, 0);
			add_profile(r, 1, &heap_type, s, 1000, 0);
		}
	}
	symbols_unref(s);
	if (view_eqs(query, "vector")) {
		r->warnings = &warning;
		r->n_warnings = 1;
	}
	return rc;
}

int promql_range(struct promql_engine *g, struct view query, int64_t start_ms, int64_t end_ms, int64_t step_ms,
		 const struct promql_params *p, struct promql_result *r, struct err *e)
{
	(void)g, (void)end_ms, (void)step_ms;
	int rc = fail(query, p, e);
	if (!rc)
		start_result(r, PROMQL_MATRIX, start_ms, 2);
	return rc;
}

int promql_result_need(struct promql_result *r, uint64_t bytes, struct err *e)
{
	(void)r, (void)bytes;
	return atomic_load(&fake_answers_fail) ? err_set(e, ERR_LIMIT, "the answer takes too much of memory") : 0;
}

int promql_result_go_on(const struct promql_result *r, struct err *e)
{
	(void)r;
	return atomic_load(&fake_answers_late) ? err_set(e, ERR_TIMEOUT, "query timed out while its answer was made") : 0;
}

void promql_result_release(struct promql_result *r)
{
	for (size_t i = 0; i < r->n_series; i++)
		if (r->series[i].profiles) {
			stackvec_unref(r->series[i].profiles[0].vec);
			stackvec_unref(r->series[i].profiles[0].base);
		}
	arena_free(&r->arena);
}

/* ---- storage: three series ---- */

static const struct label labels_cpu_a[] = {
	{ { LABEL_NAME, 8 }, { "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", 49 } }, { { "pod", 3 }, { "a", 1 } } };
static const struct label labels_cpu_b[] = {
	{ { LABEL_NAME, 8 }, { "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", 49 } }, { { "pod", 3 }, { "b", 1 } } };
static const struct label labels_up[] = { { { LABEL_NAME, 8 }, { "up", 2 } } };

static const struct source_series all_series[] = {
	{ { labels_cpu_a, 2 }, &cpu_type, 1 }, { { labels_cpu_b, 2 }, &cpu_type, 2 }, { { labels_up, 1 }, NULL, 3 },
};

static void release(struct source_view *v)
{
	(void)v;
}

static int lack_server(const struct source_limits *lim, struct err *e)
{
	if (!atomic_load(&fake_server_away))
		return 0;
	if (lim->whole)
		return err_set(e, ERR_UNAVAILABLE, FAKE_AWAY);
	source_missing_add(lim->damage, "https://eu-1:7070", "connection refused", INT64_MIN / 4, INT64_MAX / 4);
	return 0;
}

static int select_series(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			 const struct source_limits *lim, struct source_series **ret, size_t *ret_n, struct err *e)
{
	(void)v;
	int rc = lack_server(lim, e);
	if (rc)
		return rc;
	*ret = xcalloc(ARRAY_LEN(all_series), sizeof **ret);
	*ret_n = 0;
	for (size_t i = 0; i < ARRAY_LEN(all_series); i++)
		if (after_ms < 1000 && until_ms >= 1000 && matchers_match(m, n, all_series[i].labels, NULL, e) == 1)
			(*ret)[(*ret_n)++] = all_series[i];
	return 0;
}

static int list_types(struct source_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		      struct err *e)
{
	(void)v;
	int rc = lack_server(lim, e);
	if (rc)
		return rc;
	*ret = xcalloc(1, sizeof **ret);
	**ret = (struct source_type){ labels_cpu_a[0].value, &cpu_type, 2 };
	*ret_n = after_ms < 1000 && until_ms >= 1000;
	return 0;
}

static int label_names(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		       const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	(void)v, (void)after_ms, (void)until_ms;
	int rc = lack_server(lim, e);
	if (rc)
		return rc;
	*ret = xcalloc(2, sizeof **ret);
	(*ret)[(*ret_n)++] = VIEW(LABEL_NAME);
	if (!n || !view_eqs(m->value, "up"))
		(*ret)[(*ret_n)++] = VIEW("pod");
	return 0;
}

static int label_values(struct source_view *v, struct view name, const struct matcher *m, size_t n, int64_t after_ms,
			int64_t until_ms, const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	(void)v, (void)m, (void)n, (void)after_ms, (void)until_ms;
	static const char *const values[] = { "a", "b" };
	int rc = lack_server(lim, e);
	if (rc)
		return rc;
	*ret = xcalloc(3, sizeof **ret);
	for (size_t i = 0; i < 2 && view_eqs(name, "pod"); i++)
		(*ret)[(*ret_n)++] = view_of(values[i]);
	if (view_eqs(name, "my.name"))
		(*ret)[(*ret_n)++] = VIEW("dotted");
	return 0;
}

static const struct source_ops ops = { .release = release, .select = select_series, .types = list_types, .label_names = label_names,
				       .label_values = label_values };

static int open_view(struct source *s, struct source_view **ret, struct err *e)
{
	static struct source_view v = { &ops };
	(void)s, (void)e;
	*ret = &v;
	return 0;
}

struct source fake_source = { open_view };

/* ---- targets: two active ones and one that rule 1 of "shop" drops ---- */

static const struct label job_label[] = { { { "job", 3 }, { "shop", 4 } } };
static const struct label address_label[] = { { { "__address__", 11 }, { "h:1", 3 } } };

/* Whether the row is within what q asks for, by its place among those that match. */
static bool within(const struct status_query *q, size_t at)
{
	return at >= q->offset && (!q->limit || at - q->offset < q->limit);
}

static size_t each_active(struct status_targets *s, const struct status_query *q,
			  bool (*row)(void *arg, const struct status_target *t), void *arg)
{
	struct status_target rows[2] = { {
		.pool = VIEW("shop"), .discovered = { address_label, 1 }, .labels = { job_label, 1 },
		.scrape_url = VIEW("http://h:1/debug/pprof/allocs"), .profile = VIEW("memory"),
		.note = VIEW("sampled less"), .last_error = VIEW("server returned HTTP status 500"), .last_scrape_ms = 1500, .last_duration_ns = 250000000,
		.interval_ms = 10000, .timeout_ms = 13000, .health = TARGET_DOWN,
	} };
	size_t n = 0;
	rows[1] = rows[0];
	rows[1].pool = VIEW("other");
	rows[1].last_scrape_ms = 0;
	rows[1].health = TARGET_UNKNOWN;
	for (size_t i = 0; i < 2; i++)
		if ((!q->pool.len || view_eq(q->pool, rows[i].pool)) && (!q->health || (q->health & HEALTH_BIT(rows[i].health))) &&
		    status_target_has(&rows[i], q->search) && within(q, n++))
			row(arg, &rows[i]);
	return n;
}

static size_t each_dropped(struct status_targets *s, const struct status_query *q,
			   bool (*row)(void *arg, const struct status_dropped *d), void *arg)
{
	struct status_dropped d = { .pool = VIEW("shop"), .discovered = { address_label, 1 }, .profile = VIEW("memory"),
				    .reason = VIEW("relabel_configs, rule 1: drop") };
	bool match = (!q->pool.len || view_eq(q->pool, d.pool)) && status_dropped_has(&d, q->search);
	if (match && within(q, 0))
		row(arg, &d);
	return match;
}

static void each_job(struct status_targets *s, void (*job)(void *arg, const struct status_job *j), void *arg)
{
	static const struct status_source sources[] = {
		{ .kind = { "http_sd_configs", 15 }, .name = { "http://sd/", 10 }, .groups = 1, .targets = 2, .ready = true,
		  .error = { "HTTP status 500", 15 }, .error_since_ms = 2000, .changed_ms = 1000 },
		{ .kind = { "kubernetes_sd_configs", 21 }, .role = { "pod", 3 } },
	};
	job(arg, &(struct status_job){ .pool = VIEW("shop"), .targets = 1, .down = 1, .endpoints = 1, .dropped = 1, .dropped_rows = 5,
				       .sources = sources, .n_sources = 2 });
	job(arg, &(struct status_job){ .pool = VIEW("other"), .targets = 1, .endpoints = 1 });
}

static int relabel(struct status_targets *s, struct view pool, struct labels l,
		   void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg, struct err *e)
{
	static const char *const from[] = { "a", "b" };
	struct relabel_rule rules[2] = {
		{ .action = RELABEL_REPLACE, .source_labels = from, .n_source_labels = 2, .separator = ";", .regex = "(.*)",
		  .target_label = "__param_token", .replacement = "hidden" },
		{ .action = RELABEL_DROP, .separator = ";", .regex = "x", .target_label = "", .replacement = "$1", .modulus = 2 },
	};
	if (!view_eqs(pool, "shop"))
		return err_set(e, ERR_BAD_DATA, "there is no job \"%.*s\"", VIEW_ARG(pool));
	step(arg, &rules[0], l, true);
	step(arg, &rules[1], (struct labels){ 0 }, false);
	return 0;
}

static int config(struct status_targets *s, struct view pool, struct buf *out, struct err *e)
{
	if (!view_eqs(pool, "shop"))
		return err_set(e, ERR_BAD_DATA, "there is no job \"%.*s\"", VIEW_ARG(pool));
	buf_puts(out, "job_name: shop\n");
	return 0;
}

static void metadata(struct status_targets *s, const struct status_metadata_query *q)
{
	const struct status_family all[] = { { VIEW("up"), VIEW("gauge"), VIEW("of two targets") }, { VIEW("x_total"), VIEW("counter"), VIEW("a \"help\"") } };
	for (size_t t = 0; t < 2; t++) {
		const struct label l[] = { { VIEW("job"), t ? VIEW("other") : VIEW("shop") } };
		int wanted = q->target(q->arg, (struct labels){ l, 1 });
		for (size_t i = 0; i < ARRAY_LEN(all) && wanted > 0; i++)
			if ((!q->metric.len || view_eq(q->metric, all[i].name)) && !q->family(q->arg, &all[i]))
				return;
		if (wanted < 0)
			return;
	}
}

struct status_targets fake_targets = { each_active, each_dropped, each_job, relabel, config, metadata };
