/* SPDX-License-Identifier: Apache-2.0 */
/* Rules against Prometheus: an hour of floats with gaps, resets and stale markers, evaluated here; what comes of it, recorded
 * series, ALERTS, ALERTS_FOR_STATE and the alerts that fire, is written as a unit test of rules that promtool judges. Skipped
 * unless PYRRHA_PROMTOOL names promtool 3 (2.x has closed ranges). PYRRHA_SEED: other data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "rules/testkit.h"

#define STEP_S 15
#define STEPS 241
#define LOOK_EVERY 4

static const char rules[] =
	"groups:\n"
	"- name: a\n"
	"  labels: {team: core}\n"
	"  rules:\n"
	"  - {record: r_rate, expr: 'sum by (job) (rate(c_total[1m]))'}\n"
	"  - {record: r_dep, expr: 'r_rate * 2', labels: {team: other, kind: dep}}\n"
	"  - {record: r_top, expr: 'topk(2, g)'}\n"
	"  - {record: r_avg, expr: 'avg_over_time(g[2m])'}\n"
	"  - {record: r_sub, expr: 'max_over_time(sum(g)[3m:30s])'}\n"
	"  - {record: r_scalar, expr: 'scalar(sum(g)) + time()'}\n"
	"  - alert: High\n"
	"    expr: g > 50\n"
	"    for: 1m\n"
	"    labels: {sev: '{{ if gt $value 80.0 }}high{{ else }}low{{ end }}'}\n"
	"    annotations: {text: '{{ $labels.pod }} is at {{ $value | humanize }}, {{ $value }}', r: '{{ query \"r_rate\" | len }}'}\n"
	"  - {alert: Kept, expr: 'g > 70', keep_firing_for: 2m, annotations: {v: '{{ $value }}'}}\n"
	"  - {alert: KeptLater, expr: 'g{pod=~\"p[12]\"} > 60', for: 30s, keep_firing_for: 1m}\n"
	"  - {alert: Gone, expr: 'absent(g{pod=\"p1\"})', for: 45s}\n"
	"  - {record: r_alerts, expr: 'count by (alertname, alertstate) (ALERTS)'}\n"
	"- name: b\n"
	"  query_offset: 30s\n"
	"  rules:\n"
	"  - {record: r_off, expr: g}\n"
	"  - {alert: Off, expr: 'g > 60', for: 1m}\n"
	"- name: c\n"
	"  limit: 4\n" /* as many as there are: promtool ends where a rule fails */
	"  rules:\n"
	"  - {record: r_limited, expr: 'g > 40'}\n"
	"  - {alert: Limited, expr: 'g > 30', for: 30s}\n";

static uint64_t seed;

static unsigned draw(unsigned below)
{
	seed = hash_u64(seed);
	return (unsigned)(seed % below);
}

/* One series, into memory and as promtool spells it. */
static void make_series(struct kit *k, const char *name, unsigned pod, bool counter, struct buf *out)
{
	char label[16];
	double v = draw(100);
	bool gap = false;
	snprintf(label, sizeof label, "p%u", pod);
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("job"), pod % 2 ? VIEW("x") : VIEW("y") }, { VIEW("pod"), view_of(label) } };
	struct labels labels = { l, 3 };
	struct err e = { 0 };
	buf_puts(out, "  - series: '");
	labels_format(labels, out);
	buf_puts(out, "'\n    values: '");
	for (int i = 0; i < STEPS; i++) {
		bool was = gap;
		gap = draw(gap ? 6 : 30) == 0 ? !gap : gap;
		if (gap && !was && draw(2)) {
			assert_int_equal(memsource_add_float(k->mem, labels, i * STEP_S * 1000, value_from_bits(VALUE_STALE_BITS), &e), 0);
			buf_puts(out, "stale ");
			continue;
		}
		v = counter ? (draw(25) ? v + draw(50) : 0) : MIN(MAX(v + (double)draw(41) - 20, 0), 100);
		if (gap) {
			buf_puts(out, "_ ");
			continue;
		}
		double told = v + pod / 8.0; /* no ties for topk */
		buf_printf(out, "%.3f ", told);
		assert_int_equal(memsource_add_float(k->mem, labels, i * STEP_S * 1000, told, &e), 0);
	}
	buf_puts(out, "'\n");
}

struct looking {
	struct buf *out;
	int64_t s;
};

static void put_map(struct labels l, struct buf *out)
{
	buf_putc(out, '{');
	for (size_t i = 0, n = 0; i < l.n; i++) {
		if (view_eqs(l.v[i].name, "alertname"))
			continue;
		buf_printf(out, "%s%.*s: ", n++ ? ", " : "", VIEW_ARG(l.v[i].name));
		buf_json_string(out, l.v[i].value);
	}
	buf_putc(out, '}');
}

static bool put_alerts(void *arg, const struct status_rule_group *g)
{
	const struct looking *at = arg;
	for (size_t i = 0; i < g->n_rules; i++) {
		const struct status_rule *r = &g->rules[i];
		if (!r->alerting)
			continue;
		buf_printf(at->out, "  - {eval_time: %llds, alertname: %.*s, exp_alerts: [", (long long)at->s, VIEW_ARG(r->name));
		bool first = true;
		for (size_t k = 0; k < r->n_alerts; k++) {
			if (r->alerts[k].state != ALERT_FIRING)
				continue;
			buf_puts(at->out, first ? "{exp_labels: " : ", {exp_labels: ");
			first = false;
			put_map(r->alerts[k].labels, at->out);
			buf_puts(at->out, ", exp_annotations: ");
			put_map(r->alerts[k].annotations, at->out);
			buf_putc(at->out, '}');
		}
		buf_puts(at->out, "]}\n");
	}
	return true;
}

static void put_samples(struct kit *k, const char *query, int64_t s, struct buf *out)
{
	struct promql_result q;
	struct err e = { 0 };
	char number[NUM_LEN];
	if (promql_instant(k->engine, view_of(query), s * 1000, &(struct promql_params){ .asker = PROMQL_PEOPLE }, &q, &e))
		fail_msg("%s: %s", query, e.msg);
	buf_printf(out, "  - eval_time: %llds\n    expr: '%s'\n    exp_samples:%s\n", (long long)s, query, q.n_series ? "" : " []");
	for (size_t i = 0; i < q.n_series; i++) {
		buf_puts(out, "    - labels: '");
		labels_format(q.series[i].labels, out);
		buf_printf(out, "'\n      value: %s\n", num_format(q.series[i].points[0].v, number));
	}
	promql_result_release(&q);
}

static void write_file(const char *dir, const char *name, struct view text)
{
	char *path AUTOFREE = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text.ptr, 1, text.len, f), text.len);
	assert_int_equal(fclose(f), 0);
}

static void an_hour(void **state)
{
	struct kit k;
	struct buf test = { 0 }, alerts = { 0 }, samples = { 0 };
	char dir[] = "/tmp/pyrrha-rules-XXXXXX";
	(void)state;
	const char *promtool = getenv("PYRRHA_PROMTOOL"), *number = getenv("PYRRHA_SEED");
	if (!promtool)
		skip();
	seed = number ? strtoull(number, NULL, 10) : 1;
	kit_init(&k);
	k.o.no_restore = true;
	buf_puts(&test, "rule_files: [rules.yml]\nevaluation_interval: 15s\nfuzzy_compare: true\ngroup_eval_order: [a, b, c]\ntests:\n- interval: 15s\n  input_series:\n");
	for (unsigned pod = 0; pod < 4; pod++) {
		make_series(&k, "g", pod, false, &test);
		make_series(&k, "c_total", pod, true, &test);
	}
	kit_rules(&k, rules);
	struct looking at = { .out = &alerts };
	for (int i = 0; i < STEPS; i++) {
		kit_at(&k, i * STEP_S);
		if (i % LOOK_EVERY)
			continue;
		at.s = i * STEP_S;
		rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ true, put_alerts, &at });
	}
	for (int i = 0; i < STEPS; i += LOOK_EVERY)
		put_samples(&k, "{__name__=~\"r_.*|ALERTS|ALERTS_FOR_STATE\"}", i * STEP_S, &samples);
	buf_puts(&test, "  alert_rule_test:\n");
	buf_putv(&test, buf_view(&alerts));
	buf_puts(&test, "  promql_expr_test:\n");
	buf_putv(&test, buf_view(&samples));
	assert_non_null(mkdtemp(dir));
	write_file(dir, "rules.yml", view_of(rules));
	write_file(dir, "test.yml", buf_view(&test));
	char *command AUTOFREE = xasprintf("'%s' test rules %s/test.yml > %s/out 2>&1", promtool, dir, dir);
	if (system(command))
		fail_msg("promtool disagrees: %s/out", dir);
	char *clean AUTOFREE = xasprintf("rm -r %s", dir);
	assert_int_equal(system(clean), 0);
	buf_free(&test);
	buf_free(&alerts);
	buf_free(&samples);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(an_hour) };
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
