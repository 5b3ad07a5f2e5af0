/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/rule_tests.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/units.h"
#include "base/vec.h"
#include "config/config_top.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "promql-like/testlang/testlang_data.h"
#include "rules/rules.h"

/* ---- the file ---- */

struct input_series {
	const char *series, *values, *profiles;
};

struct expected_alert {
	struct config_map labels, annotations;
};

struct alert_test {
	int64_t eval_ms;
	const char *alertname;
	struct config_list alerts;
};

struct expected_sample {
	const char *labels, *histogram;
	double value;
};

struct expr_test {
	const char *expr;
	int64_t eval_ms;
	struct config_list samples;
};

struct test_group {
	int64_t interval_ms, start_ms;
	struct config_list series, alert_tests, expr_tests;
	struct config_map external_labels;
	const char *external_url, *name;
};

struct test_file {
	struct config_strings rule_files, order;
	int64_t interval_ms;
	bool fuzzy;
	struct config_list tests;
};

/* As YAML and Go write floats. */
static int decode_float(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct view v = n->text;
	double sign = 1;
	if (v.len > 1 && v.ptr[0] == '-' && v.ptr[1] == '.')
		sign = -1;
	if (view_eqs(v, ".inf") || view_eqs(v, "-.inf") || view_eqs(v, "+.inf") || view_eqs(v, ".Inf") || view_eqs(v, "-.Inf"))
		*(double *)at = sign * INFINITY;
	else if (view_eqs(v, ".nan") || view_eqs(v, ".NaN"))
		*(double *)at = NAN;
	else if (n->type != CONFIG_NODE_SCALAR || !num_parse_double(v, at))
		return config_error(c, n, e, "a number is wanted");
	return 0;
}

static int decode_time(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	if (n->type != CONFIG_NODE_SCALAR || !clock_parse_time_ms(n->text, at))
		return config_error(c, n, e, "a time is wanted: seconds since 1970, or RFC 3339");
	return 0;
}

#define FIELD(name, kind, type, member, ...) { name, kind, offsetof(struct type, member), __VA_ARGS__ }

static const struct config_field series_fields[] = {
	FIELD("series", CONFIG_STRING, input_series, series, .def = ""),
	FIELD("values", CONFIG_STRING, input_series, values, .def = ""),
	FIELD("profiles", CONFIG_STRING, input_series, profiles, .def = ""),
};
static const struct config_table series_table = CONFIG_TABLE(struct input_series, series_fields, NULL);

static const struct config_field alert_fields[] = {
	FIELD("exp_labels", CONFIG_MAP, expected_alert, labels, 0),
	FIELD("exp_annotations", CONFIG_MAP, expected_alert, annotations, 0),
};
static const struct config_table alert_table = CONFIG_TABLE(struct expected_alert, alert_fields, NULL);

static const struct config_field alert_test_fields[] = {
	FIELD("eval_time", CONFIG_DURATION, alert_test, eval_ms, .def = "0s"),
	FIELD("alertname", CONFIG_STRING, alert_test, alertname, .def = ""),
	FIELD("exp_alerts", CONFIG_STRUCTS, alert_test, alerts, .table = &alert_table),
};
static const struct config_table alert_test_table = CONFIG_TABLE(struct alert_test, alert_test_fields, NULL);

static const struct config_field sample_fields[] = {
	FIELD("labels", CONFIG_STRING, expected_sample, labels, .def = ""),
	FIELD("histogram", CONFIG_STRING, expected_sample, histogram, .def = ""),
	FIELD("value", CONFIG_CUSTOM, expected_sample, value, .custom = decode_float),
};
static const struct config_table sample_table = CONFIG_TABLE(struct expected_sample, sample_fields, NULL);

static const struct config_field expr_test_fields[] = {
	FIELD("expr", CONFIG_STRING, expr_test, expr, .def = ""),
	FIELD("eval_time", CONFIG_DURATION, expr_test, eval_ms, .def = "0s"),
	FIELD("exp_samples", CONFIG_STRUCTS, expr_test, samples, .table = &sample_table),
};
static const struct config_table expr_test_table = CONFIG_TABLE(struct expr_test, expr_test_fields, NULL);

static const struct config_field group_fields[] = {
	FIELD("interval", CONFIG_DURATION, test_group, interval_ms, .def = "0s"),
	FIELD("input_series", CONFIG_STRUCTS, test_group, series, .table = &series_table),
	FIELD("alert_rule_test", CONFIG_STRUCTS, test_group, alert_tests, .table = &alert_test_table),
	FIELD("promql_expr_test", CONFIG_STRUCTS, test_group, expr_tests, .table = &expr_test_table),
	FIELD("external_labels", CONFIG_MAP, test_group, external_labels, 0),
	FIELD("external_url", CONFIG_STRING, test_group, external_url, .def = ""),
	FIELD("name", CONFIG_STRING, test_group, name, .def = ""),
	FIELD("start_timestamp", CONFIG_CUSTOM, test_group, start_ms, .custom = decode_time),
};
static const struct config_table group_table = CONFIG_TABLE(struct test_group, group_fields, NULL);

static const struct config_field file_fields[] = {
	FIELD("rule_files", CONFIG_STRINGS, test_file, rule_files, 0),
	FIELD("evaluation_interval", CONFIG_DURATION, test_file, interval_ms, .def = "1m"),
	FIELD("group_eval_order", CONFIG_STRINGS, test_file, order, 0),
	FIELD("fuzzy_compare", CONFIG_BOOL, test_file, fuzzy, .def = "false"),
	FIELD("tests", CONFIG_STRUCTS, test_file, tests, .table = &group_table),
};
static const struct config_table file_table = CONFIG_TABLE(struct test_file, file_fields, NULL);

/* ---- a test ---- */

struct loaded {
	struct labels labels;
	struct testlang_values values;
	size_t next;               /* the first that is not in the storage yet */
};

/* The profiles of a line. */
struct loaded_profiles {
	const struct testlang_profiles *series;
	struct testlang_profile_line line;
	size_t next;
};

struct run {
	struct sink sink;          /* first: what rules write goes to mem */
	const struct rule_tests_how *how;
	const struct test_file *file;
	const struct test_group *group;
	struct arena *arena;
	const char *const *rule_files;
	size_t n_rule_files, problems;
	struct memsource *mem;
	struct promql_engine *engine;
	struct rules *rules;
	VEC(struct loaded) series;
	VEC(struct loaded_profiles) profiles;
	/* while alerts are looked for */
	const struct alert_test *at;
	VEC(char *) found;
	bool failed;
};

static void say(struct run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct run *r, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	r->problems++;
	r->how->problem(r->how->arg, text);
	free(text);
}

static void warn(struct run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void warn(struct run *r, const char *fmt, ...)
{
	va_list ap;
	char text[512];
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (r->how->warn)
		r->how->warn(r->how->arg, text);
}

static int keep(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct run *r = (struct run *)(void *)s;
	struct err none = { 0 };
	int rc = 0;
	(void)ret;
	for (size_t i = 0; i < b->n_floats && !rc; i++)
		rc = memsource_add_float(r->mem, b->floats[i].labels, b->floats[i].t_ms, b->floats[i].v, e);
	if (!rc && b->n_profiles)
		rc = err_set(e, ERR_EXECUTION, "unit tests do not record profiles");
	if (!rc && b->done)
		b->done(b->done_arg, &none);
	return rc;
}

static bool say_series(struct run *r, const struct input_series *in, const char *error)
{
	say(r, "    input_series %s %s: %s", in->series, *in->profiles ? in->profiles : in->values, error);
	return false;
}

/* A block of lines, as under load_profiles in tests/lang. */
static bool parse_profiles(struct run *r, const struct input_series *in, size_t *n, size_t max)
{
	struct testlang_profiles *s = arena_alloc(r->arena, sizeof *s);
	struct view rest = view_of(in->profiles);
	const char *error = *in->values ? "a series has either values or profiles" : NULL;
	if (error || !testlang_profile_series(r->arena, r->group->interval_ms, view_of(in->series), s, &error))
		return say_series(r, in, error);
	while (rest.len) {
		const char *end = memchr(rest.ptr, '\n', rest.len);
		struct view line = testlang_trimmed(view_make(rest.ptr, end ? (size_t)(end - rest.ptr) : rest.len));
		rest = end ? view_make(end + 1, rest.len - (size_t)(end + 1 - rest.ptr)) : VIEW("");
		if (!line.len || line.ptr[0] == '#')
			continue;
		struct loaded_profiles l = { .series = s };
		if (!testlang_profile_line(r->arena, memsource_symbols(r->mem), r->group->interval_ms, line, &l.line, &error))
			return say_series(r, in, error);
		vec_push(&r->profiles, l);
		if ((*n += l.line.n) > max)
			return say_series(r, in, "more values than a test may have");
	}
	return true;
}

static bool parse_series(struct run *r)
{
	const struct input_series *in = r->group->series.v;
	size_t values = 0, max = r->how->max_values ? r->how->max_values : 50000000;
	for (size_t i = 0; i < r->group->series.n; i++) {
		if (*in[i].profiles) {
			if (!parse_profiles(r, &in[i], &values, max))
				return false;
			continue;
		}
		struct loaded *l = vec_add(&r->series);
		struct view name = view_of(in[i].series);
		const char *error = NULL;
		bool ok = testlang_labels(r->arena, &name, &l->labels, &error) && testlang_values(view_of(in[i].values), &l->values, &error);
		if (ok && l->values.histogram) { /* there are none in our storage, so that no rule can see them */
			warn(r, "native histograms are not supported: input_series %s is left out", in[i].series);
			l->next = l->values.v.n;
		}
		if (!ok || (values += l->values.v.n) > max)
			return say_series(r, &in[i], error ? error : "more values than a test may have");
	}
	return true;
}

/* What has arrived by then. */
static void load_floats(struct run *r, int64_t t_ms)
{
	struct err e = { 0 };
	for (size_t i = 0; i < r->series.n; i++) {
		struct loaded *l = &r->series.v[i];
		for (; l->next < l->values.v.n; l->next++) {
			int64_t at = r->group->start_ms + (int64_t)l->next * r->group->interval_ms;
			if (at > t_ms)
				break;
			if (!l->values.v.v[l->next].absent && memsource_add_float(r->mem, l->labels, at, l->values.v.v[l->next].v, &e))
				say(r, "    %s", e.msg);
		}
	}
}

static void load_profiles(struct run *r, int64_t t_ms)
{
	struct err e = { 0 };
	for (size_t i = 0; i < r->profiles.n; i++) {
		struct loaded_profiles *l = &r->profiles.v[i];
		for (; l->next < l->line.n; l->next++) {
			struct source_profile p = testlang_profile_at(l->series, &l->line, l->next);
			p.t_ms += r->group->start_ms;
			if (p.t_ms > t_ms)
				break;
			if (memsource_add_profile(r->mem, l->series->labels, &l->series->type, &p, l->line.stacks, &e))
				say(r, "    %s", e.msg);
		}
	}
}

static void rule_problem(void *arg, const char *text)
{
	struct run *r = arg;
	say(r, "%s", text);
}

static void rule_warning(void *arg, const char *text)
{
	struct run *r = arg;
	warn(r, "%s", text);
}

static size_t place_of(const struct test_file *f, struct view group)
{
	for (size_t i = 0; i < f->order.n; i++)
		if (view_eqs(group, f->order.v[i]))
			return i;
	return 0;
}

/* By group_eval_order, those that it does not name with its first; else as they stand. */
static const struct rule_group *ordered(struct run *r, const struct rules_config *c)
{
	struct rule_group *v = xcalloc(c->n_groups + 1, sizeof *v);
	size_t n = 0;
	for (size_t place = 0; place <= r->file->order.n; place++)
		for (size_t i = 0; i < c->n_groups; i++)
			if (place_of(r->file, c->groups[i].name) == place)
				v[n++] = c->groups[i];
	return v;
}

/* A series of native histograms, which is left out, that the expression may read; NULL: none. */
static const struct loaded *reads_left_out(const struct run *r, const struct promql_expr *x)
{
	for (size_t i = 0; i < r->series.n; i++)
		if (r->series.v[i].values.histogram && promql_may_read(x, labels_get(r->series.v[i].labels, VIEW(LABEL_NAME))))
			return &r->series.v[i];
	return NULL;
}

/* What they record, or alert of, is not what it is elsewhere. */
static bool rules_read_left_out(struct run *r, const struct rules_config *c)
{
	size_t before = r->problems;
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n_rules; i++) {
			const struct rule *x = &c->groups[g].rules[i];
			const struct loaded *l = reads_left_out(r, x->parsed);
			if (l)
				say(r, "    %.*s:%u:%u: rule %.*s reads %.*s, whose native histograms are not supported: it cannot be checked",
				    VIEW_ARG(c->groups[g].file), x->line, x->column, VIEW_ARG(x->name), VIEW_ARG(labels_get(l->labels, VIEW(LABEL_NAME))));
		}
	return r->problems > before;
}

static bool load_rules(struct run *r)
{
	const struct config_global g = { .scrape_interval_ms = r->group->interval_ms, .evaluation_interval_ms = r->group->interval_ms,
					 .external_labels = r->group->external_labels };
	const struct rules_how how = { .ignore_unknown_fields = r->how->ignore_unknown_fields, .problem = rule_problem, .warn = rule_warning,
				       .arg = r };
	struct rules_config *c;
	struct err e = { 0 };
	size_t before = r->problems;
	int rc = r->how->rules.ptr ? rules_config_read(&c, r->how->rules, "rules", &g, &how, &e) :
				     rules_config_load(&c, r->rule_files, r->n_rule_files, &g, &how, &e);
	if (rc) {
		if (r->problems == before)
			say(r, "%s", e.msg);
		return false;
	}
	if (rules_read_left_out(r, c)) {
		rules_config_unref(c);
		return false;
	}
	const struct rules_options o = { .engine = r->engine, .source = memsource_source(r->mem), .sink = &r->sink,
					 .external_url = r->group->external_url, .late_ms = -1, .manual = true, .no_restore = true };
	struct rule_group *groups = (struct rule_group *)ordered(r, c);
	memcpy((struct rule_group *)c->groups, groups, c->n_groups * sizeof *groups);
	free(groups);
	rc = rules_new(&r->rules, &o, &e);
	if (!rc)
		rc = rules_apply(r->rules, c, &e);
	rules_config_unref(c);
	if (rc)
		say(r, "%s", e.msg);
	return !rc;
}

/* ---- alerts ---- */

static char *alert_text(struct labels labels, struct labels annotations)
{
	struct buf b = { 0 };
	buf_puts(&b, "Labels:");
	labels_format(labels, &b);
	buf_puts(&b, "\n              Annotations:");
	labels_format(annotations, &b);
	return buf_take(&b, NULL);
}

static char *expected_text(const struct config_map *labels, const char *alertname, const struct config_map *annotations)
{
	struct labels_builder l, a;
	labels_builder_init(&l, (struct labels){ 0 });
	labels_builder_init(&a, (struct labels){ 0 });
	for (size_t i = 0; i < labels->n; i++)
		labels_builder_set(&l, view_of(labels->v[i].key), view_of(labels->v[i].value));
	labels_builder_set(&l, VIEW("alertname"), view_of(alertname));
	for (size_t i = 0; i < annotations->n; i++)
		labels_builder_set(&a, view_of(annotations->v[i].key), view_of(annotations->v[i].value));
	char *text = alert_text(labels_builder_finish(&l), labels_builder_finish(&a));
	labels_builder_free(&l);
	labels_builder_free(&a);
	return text;
}

static bool find_alerts(void *arg, const struct status_rule_group *g)
{
	struct run *r = arg;
	for (size_t i = 0; i < g->n_rules; i++) {
		const struct status_rule *rule = &g->rules[i];
		for (size_t k = 0; rule->alerting && view_eqs(rule->name, r->at->alertname) && k < rule->n_alerts; k++)
			if (rule->alerts[k].state == ALERT_FIRING)
				vec_push(&r->found, alert_text(rule->alerts[k].labels, rule->alerts[k].annotations));
	}
	return true;
}

static int cmp_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_texts(char **v, size_t n, struct buf *out)
{
	buf_puts(out, n ? "[" : "[]");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "\n            %zu:\n              %s%s", i, v[i], i + 1 < n ? "," : "\n            ]");
}

static void free_texts(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

static void check_alerts(struct run *r, const struct alert_test *t)
{
	const struct expected_alert *want = t->alerts.v;
	struct status_rules *s = rules_status(r->rules);
	char **expected = xcalloc(t->alerts.n + 1, sizeof *expected), time[DURATION_LEN];
	for (size_t i = 0; i < t->alerts.n; i++)
		expected[i] = expected_text(&want[i].labels, t->alertname, &want[i].annotations);
	r->at = t;
	s->groups(s, &(struct status_rules_query){ true, find_alerts, r });
	qsort(expected, t->alerts.n, sizeof *expected, cmp_texts);
	if (r->found.n)
		qsort(r->found.v, r->found.n, sizeof *r->found.v, cmp_texts);
	bool same = t->alerts.n == r->found.n;
	for (size_t i = 0; same && i < r->found.n; i++)
		same = strcmp(expected[i], r->found.v[i]) == 0;
	if (!same) {
		struct buf exp = { 0 }, got = { 0 };
		put_texts(expected, t->alerts.n, &exp);
		put_texts(r->found.v, r->found.n, &got);
		say(r, "%s%s%s    alertname: %s, time: %s, \n        exp:%s, \n        got:%s", *r->group->name ? "    name: " : "", r->group->name,
		    *r->group->name ? ",\n" : "", t->alertname, units_format_duration(t->eval_ms, time), exp.ptr, got.ptr);
		buf_free(&exp);
		buf_free(&got);
	}
	free_texts(expected, t->alerts.n);
	free_texts(r->found.v, r->found.n);
	memset(&r->found, 0, sizeof r->found);
}

/* ---- evaluation ---- */

static bool find_errors(void *arg, const struct status_rule_group *g)
{
	struct run *r = arg;
	for (size_t i = 0; i < g->n_rules; i++)
		if (g->rules[i].last_error.len) {
			char time[DURATION_LEN];
			r->failed = true;
			say(r, "    rule: %.*s, time: %s, err: %.*s", VIEW_ARG(g->rules[i].name), units_format_duration(g->last_slot_ms, time),
			    VIEW_ARG(g->rules[i].last_error));
		}
	return true;
}

static int64_t last_time(const struct test_group *g)
{
	const struct alert_test *a = g->alert_tests.v;
	const struct expr_test *x = g->expr_tests.v;
	int64_t last = 0;
	for (size_t i = 0; i < g->alert_tests.n; i++)
		last = MAX(last, a[i].eval_ms);
	for (size_t i = 0; i < g->expr_tests.n; i++)
		last = MAX(last, x[i].eval_ms);
	return last;
}

/* Every group each interval, and the alerts of the tests in between. False: a rule failed. */
static bool evaluate(struct run *r)
{
	const struct alert_test *t = r->group->alert_tests.v;
	struct status_rules *s = rules_status(r->rules);
	int64_t last = last_time(r->group), step = r->file->interval_ms, max = r->how->max_evaluations ? r->how->max_evaluations : 10000000;
	if (last / step >= max) {
		say(r, "    tests take more than %lld evaluations", (long long)max);
		return false;
	}
	for (int64_t at = 0; at <= last && !r->failed; at += step) {
		load_floats(r, r->group->start_ms + at);
		load_profiles(r, r->group->start_ms + at);
		rules_evaluate(r->rules, r->group->start_ms + at);
		s->groups(s, &(struct status_rules_query){ false, find_errors, r });
		for (size_t i = 0; i < r->group->alert_tests.n && !r->failed; i++)
			if (t[i].eval_ms >= at && t[i].eval_ms < at + step)
				check_alerts(r, &t[i]);
	}
	return !r->failed;
}

/* ---- expressions ---- */

struct outcome {
	struct labels labels;
	double value;
};

static int cmp_outcomes(const void *a, const void *b)
{
	return labels_cmp(((const struct outcome *)a)->labels, ((const struct outcome *)b)->labels);
}

static bool same_value(const struct run *r, double a, double b)
{
	return a == b || (r->file->fuzzy && (nextafter(a, -INFINITY) == b || nextafter(a, INFINITY) == b));
}

static void put_outcomes(const struct outcome *v, size_t n, struct buf *out)
{
	char number[NUM_LEN];
	if (!n)
		buf_puts(out, "nil");
	for (size_t i = 0; i < n; i++) {
		buf_puts(out, i ? ", {" : "{");
		labels_format(v[i].labels, out);
		buf_printf(out, " %s}", num_format(v[i].value, number));
	}
}

/* NULL: said what is wrong. */
static struct outcome *expected_outcomes(struct run *r, const struct expr_test *t)
{
	const struct expected_sample *want = t->samples.v;
	struct outcome *v = xcalloc(t->samples.n + 1, sizeof *v);
	char time[DURATION_LEN];
	for (size_t i = 0; i < t->samples.n; i++) {
		struct view text = view_of(want[i].labels);
		const char *error = NULL;
		bool ok = !text.len || testlang_labels(r->arena, &text, &v[i].labels, &error);
		v[i].value = want[i].value;
		if (ok)
			continue;
		say(r, "    expr: \"%s\", time: %s, err: labels \"%s\": %s", t->expr, units_format_duration(t->eval_ms, time), want[i].labels,
		    error);
		free(v);
		return NULL;
	}
	qsort(v, t->samples.n, sizeof *v, cmp_outcomes);
	return v;
}

static struct outcome *outcomes_of(const struct promql_result *q, size_t *ret_n)
{
	struct outcome *v = xcalloc(q->n_series + 1, sizeof *v);
	if (q->type == PROMQL_SCALAR)
		v[0].value = q->scalar;
	for (size_t i = 0; q->type == PROMQL_VECTOR && i < q->n_series; i++)
		v[i] = (struct outcome){ q->series[i].labels, q->series[i].points[0].v };
	*ret_n = q->type == PROMQL_SCALAR ? 1 : q->n_series;
	qsort(v, *ret_n, sizeof *v, cmp_outcomes);
	return v;
}

static void compare_outcomes(struct run *r, const struct expr_test *t, const struct promql_result *q)
{
	struct outcome *want = expected_outcomes(r, t), *got;
	struct buf exp = { 0 }, is = { 0 };
	char time[DURATION_LEN];
	size_t n;
	if (!want)
		return;
	got = outcomes_of(q, &n);
	bool same = n == t->samples.n;
	for (size_t i = 0; same && i < n; i++)
		same = labels_eq(want[i].labels, got[i].labels) && same_value(r, want[i].value, got[i].value);
	if (!same) {
		put_outcomes(want, t->samples.n, &exp);
		put_outcomes(got, n, &is);
		say(r, "    expr: \"%s\", time: %s,\n        exp: %s\n        got: %s", t->expr, units_format_duration(t->eval_ms, time), exp.ptr, is.ptr);
	}
	free(want);
	free(got);
	buf_free(&exp);
	buf_free(&is);
}

static void check_expr(struct run *r, const struct expr_test *t)
{
	const struct promql_params p = { .asker = PROMQL_PEOPLE };
	const struct expected_sample *want = t->samples.v;
	struct promql_result q;
	struct err e = { 0 };
	char time[DURATION_LEN];
	for (size_t i = 0; i < t->samples.n; i++)
		if (*want[i].histogram) {
			warn(r, "native histograms are not supported: the test of \"%s\" is left out", t->expr);
			return;
		}
	struct promql_expr *x;
	const struct loaded *left_out = promql_parse(&x, view_of(t->expr), &e) ? NULL : reads_left_out(r, x);
	if (!e.code)
		promql_expr_free(x);
	if (left_out) {
		say(r, "    expr: \"%s\", time: %s, err: it reads %.*s, whose native histograms are not supported: it cannot be checked", t->expr,
		    units_format_duration(t->eval_ms, time), VIEW_ARG(labels_get(left_out->labels, VIEW(LABEL_NAME))));
		return;
	}
	int rc = promql_instant(r->engine, view_of(t->expr), r->group->start_ms + t->eval_ms, &p, &q, &e);
	if (rc) {
		say(r, "    expr: \"%s\", time: %s, err: %s", t->expr, units_format_duration(t->eval_ms, time), e.msg);
		return;
	}
	if (q.type != PROMQL_SCALAR && q.type != PROMQL_VECTOR)
		say(r, "    expr: \"%s\", time: %s, err: rule result is not a vector or scalar", t->expr, units_format_duration(t->eval_ms, time));
	else
		compare_outcomes(r, t, &q);
	promql_result_release(&q);
}

static bool names_missing(struct run *r)
{
	const struct alert_test *t = r->group->alert_tests.v;
	for (size_t i = 0; i < r->group->alert_tests.n; i++)
		if (!*t[i].alertname) {
			char time[DURATION_LEN];
			say(r, "an item under alert_rule_test misses required attribute alertname at eval_time %s%s%s%s",
			    units_format_duration(t[i].eval_ms, time), *r->group->name ? " (in TestGroup " : "", r->group->name,
			    *r->group->name ? ")" : "");
			return true;
		}
	return false;
}

static size_t run_group(struct run *r)
{
	const struct expr_test *x = r->group->expr_tests.v;
	r->sink.append = keep;
	r->mem = memsource_new();
	const struct promql_options o = { .subquery_step_ms = r->file->interval_ms };
	r->engine = promql_engine_new(memsource_source(r->mem), &o);
	if (parse_series(r) && load_rules(r) && !names_missing(r) && evaluate(r))
		for (size_t i = 0; i < r->group->expr_tests.n; i++)
			check_expr(r, &x[i]);
	rules_free(r->rules);
	promql_engine_free(r->engine);
	for (size_t i = 0; i < r->profiles.n; i++)
		stackvec_unref(r->profiles.v[i].line.stacks);
	vec_free(&r->profiles);
	memsource_free(r->mem);
	for (size_t i = 0; i < r->series.n; i++)
		vec_free(&r->series.v[i].values.v);
	vec_free(&r->series);
	return r->problems;
}

/* ---- all of a file ---- */

static size_t run_tests(const struct test_file *f, const struct rule_tests_how *how, struct arena *a, glob_t *rules)
{
	struct test_group *g = f->tests.v;
	size_t problems = 0;
	for (size_t i = 0; i < f->tests.n; i++) {
		struct run r = { .how = how, .file = f, .group = &g[i], .arena = a, .rule_files = (const char *const *)rules->gl_pathv,
				 .n_rule_files = rules->gl_pathc };
		char unnamed[32];
		struct err e = { 0 };
		if (how->run && regex_match(how->run, view_of(g[i].name), NULL, &e) != 1)
			continue;
		snprintf(unnamed, sizeof unnamed, "unnamed#%zu", i);
		how->test(how->arg, *g[i].name ? g[i].name : unnamed);
		g[i].interval_ms = g[i].interval_ms ? g[i].interval_ms : f->interval_ms;
		problems += run_group(&r);
	}
	return problems;
}

static void find_rule_files(const struct test_file *f, struct arena *a, const char *dir, const struct rule_tests_how *how, glob_t *ret)
{
	for (size_t i = 0; i < f->rule_files.n; i++) {
		const char *name = f->rule_files.v[i], *path = *name == '/' ? name : arena_printf(a, "%s/%s", dir, name);
		size_t before = ret->gl_pathc;
		glob(path, i ? GLOB_APPEND : 0, NULL, ret);
		if (ret->gl_pathc == before && how->warn)
			how->warn(how->arg, arena_printf(a, "no file match pattern %s", path));
	}
}

/* A problem with the file as a whole. */
static size_t refuse(const struct rule_tests_how *how, const struct err *e)
{
	how->problem(how->arg, e->msg);
	return 1;
}

/* Takes the tree. */
static size_t run_tree(struct config_tree *t, const char *path, const struct rule_tests_how *how)
{
	struct test_file f = { 0 };
	struct err e = { 0 };
	struct arena a;
	glob_t rules = { 0 };
	size_t problems;
	arena_init(&a, 0);
	struct config_ctx c = { .arena = &a };
	int rc = config_decode(&c, &file_table, config_root(t), &f, &e);
	for (size_t i = 0; i < f.order.n && !rc; i++)
		if (place_of(&f, view_of(f.order.v[i])) != i)
			rc = err_set(&e, ERR_BAD_DATA, "group name repeated in evaluation order: %s", f.order.v[i]);
	f.interval_ms = f.interval_ms ? f.interval_ms : 60000;
	if (rc) {
		problems = refuse(how, &e);
	} else {
		if (!how->rules.ptr)
			find_rule_files(&f, &a, config_dirname(&a, path), how, &rules);
		problems = run_tests(&f, how, &a, &rules);
	}
	globfree(&rules);
	config_free(t);
	config_ctx_release(&c);
	arena_free(&a);
	return problems;
}

size_t rule_tests_run(const char *path, const struct rule_tests_how *how)
{
	struct config_tree *t;
	struct err e = { 0 };
	return config_load(&t, path, &e) ? refuse(how, &e) : run_tree(t, path, how);
}

size_t rule_tests_run_text(struct view text, const char *name, const struct rule_tests_how *how)
{
	struct config_tree *t;
	struct err e = { 0 };
	return config_parse(&t, text, name, &e) ? refuse(how, &e) : run_tree(t, name, how);
}
