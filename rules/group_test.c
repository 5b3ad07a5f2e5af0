/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation, a sentence of docs/rules.md each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/lock.h"
#include "base/testwait.h"
#include "rules/testkit.h"

static void records_values(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, labels: {g: h}, rules: [{record: 'job:up:sum', expr: 'sum by (pod) (up)', labels: {x: y}},"
		      "{record: one, expr: '1 + 1'}]}]");
	kit_set(&k, "up", "pod=a", 60, 1);
	kit_set(&k, "up", "pod=b", 60, 0);
	kit_at(&k, 60);
	expect_written(&k, "job:up:sum{g=\"h\", pod=\"a\", x=\"y\"} 1 @60\njob:up:sum{g=\"h\", pod=\"b\", x=\"y\"} 0 @60\none{g=\"h\"} 2 @60\n");
	expect_state(&k, "job:up:sum ok\none ok\n");
	assert_int_equal(k.batches, 1); /* nobody waits for anything */
	kit_free(&k);
}

/* Later rules see what earlier ones wrote; who does not read it does not wait. */
static void later_rules_see_earlier(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: x, expr: 'vector(1)'}, {record: z, expr: 'vector(5)'}, {record: y, expr: 'x + 1'},"
		      "{record: w, expr: 'y + z'}, {alert: A, expr: 'w > 6'}, {record: n, expr: 'count(ALERTS)'}]}]");
	kit_at(&k, 60);
	kit_at(&k, 120); /* ALERTS are written from the second evaluation on */
	buf_reset(&k.written);
	k.batches = 0;
	kit_at(&k, 180);
	expect_written(&k, "x 1 @180\nz 5 @180\ny 2 @180\nw 7 @180\n"
		       "ALERTS_FOR_STATE{alertname=\"A\"} 60 @180\nALERTS{alertname=\"A\", alertstate=\"firing\"} 1 @180\nn 1 @180\n");
	assert_int_equal(k.batches, 5); /* before y, w, A, n and at the end */
	kit_free(&k);
}

static void stamp_is_slot_less_offset(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, query_offset: 10s, rules: [{record: x, expr: 'm'}, {record: t, expr: 'time()'}]}]");
	kit_set(&k, "m", "", 50, 1);
	kit_set(&k, "m", "", 55, 2);
	kit_at(&k, 60);
	expect_written(&k, "x 1 @50\nt 50 @50\n");
	kit_free(&k);
}

static void equal_labels_fail(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: x, expr: m, labels: {pod: ''}}, {alert: B, expr: m, labels: {pod: z}}]}]");
	kit_set(&k, "m", "pod=a", 60, 1);
	kit_at(&k, 60);
	expect_written(&k, "x 1 @60\n");
	kit_set(&k, "m", "pod=b", 60, 1);
	kit_at(&k, 120);
	expect_written(&k, "");
	expect_state(&k, "x err: vector contains metrics with the same labelset after applying rule labels\n"
			 "B err: vector contains metrics with the same labelset after applying alert labels\n"
			 "  {alertname=\"B\", pod=\"z\"} firing since 60 value 1\n");
	kit_free(&k);
}

/* Over the limit a rule writes nothing, and its alerts are cleared. */
static void limit(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, limit: 1, rules: [{record: x, expr: m}, {alert: B, expr: m}]}]");
	kit_set(&k, "m", "pod=a", 60, 1);
	kit_at(&k, 60);
	expect_state(&k, "x ok\nB ok\n  {alertname=\"B\", pod=\"a\"} firing since 60 value 1\n");
	expect_written(&k, "x{pod=\"a\"} 1 @60\n");
	kit_set(&k, "m", "pod=b", 60, 1);
	kit_at(&k, 120);
	expect_written(&k, "");
	expect_state(&k, "x err: exceeded limit of 1 with 2 series\nB err: exceeded limit of 1 with 2 alerts\n");
	kit_free(&k);
}

/* A failed rule writes no stale markers; a series that is gone gets one. */
static void stale_markers(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: x, expr: 'm / on () group_left n'}]}]");
	kit_set(&k, "n", "", 60, 1);
	kit_set(&k, "m", "pod=a", 60, 1);
	kit_set(&k, "m", "pod=b", 60, 2);
	kit_at(&k, 60);
	expect_written(&k, "x{pod=\"a\"} 1 @60\nx{pod=\"b\"} 2 @60\n");
	kit_set(&k, "n", "other=c", 120, 1); /* two to one */
	kit_at(&k, 120);
	expect_written(&k, "");
	kit_stale(&k, "n", "other=c", 180);
	kit_stale(&k, "m", "pod=a", 180);
	kit_at(&k, 180);
	expect_written(&k, "x{pod=\"b\"} 2 @180\nx{pod=\"a\"} stale @180\n");
	kit_at(&k, 240);
	expect_written(&k, "x{pod=\"b\"} 2 @240\n");
	kit_free(&k);
}

#define TWO(b) "groups: [{name: a, interval: 60s, rules: [{record: x, expr: m}, " b "]}, {name: u, interval: 60s, rules: [{record: z, expr: m}]}]"

/* Those of a removed rule end after two intervals, unless somebody else writes them. */
static void removed_rules(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, TWO("{record: y, expr: m}, {record: q, expr: m}"));
	kit_set(&k, "m", "", 60, 1);
	rules_step(k.rules, 30000);
	kit_at(&k, 60);
	buf_reset(&k.written);
	rules_step(k.rules, 61000);
	buf_reset(&k.written);
	const struct live_group *u = k.rules->groups.v[1];
	kit_rules(&k, TWO("{record: w, expr: m}") "\n");
	assert_ptr_equal(k.rules->groups.v[1], u); /* did not change: runs on */
	assert_int_equal(k.rules->groups.v[0]->def->n_rules, 2);
	for (int64_t s = 61; s < 250 && !(k.written.len && strstr(k.written.ptr, "stale")); s++) {
		buf_reset(&k.written);
		rules_step(k.rules, s * 1000);
		if (k.written.len && strstr(k.written.ptr, "stale"))
			assert_true(s >= 181 && s <= 182);
	}
	expect_written(&k, "y stale @61\nq stale @61\n");
	kit_free(&k);
}

/* Of a group that is gone nothing is shown; one that changed goes on counting. */
static void metrics_of_gone_groups(void **state)
{
	struct kit k;
	struct buf b = { 0 };
	(void)state;
	kit_init(&k);
	rules_register_metrics();
	kit_rules(&k, "groups: [{name: a, rules: []}, {name: b, rules: [{record: x, expr: '1'}]}]");
	kit_at(&k, 60);
	assert_true(metric_get(&rules_metrics[M_ITERATIONS], "r.yml;a") == 1 && metric_get(&rules_metrics[M_EVALUATIONS], "r.yml;b") == 1);
	kit_rules(&k, "groups: [{name: a, rules: [{record: y, expr: '1'}]}]");
	metrics_render(&b);
	assert_non_null(strstr(b.ptr, "{rule_group=\"r.yml;a\"} 1"));
	assert_null(strstr(b.ptr, "r.yml;b"));
	buf_free(&b);
	kit_free(&k);
	metrics_free();
}

/* A storage that waits, as one does that is behind, when series of a rule that is gone are ended: nobody else does. */
struct waiting {
	struct sink sink; /* first */
	struct kit *k;
	atomic_bool waits, go;
};

static int append_waiting(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct waiting *w = (struct waiting *)(void *)s;
	const struct err none = { 0 };
	(void)ret, (void)e;
	if (!b->done && b->n_floats && value_is_stale(b->floats[0].v)) {
		atomic_store(&w->waits, true);
		(void)TEST_WAIT(atomic_load(&w->go));
		atomic_store(&w->waits, false);
	}
	if (b->done)
		b->done(b->done_arg, &none);
	return 0;
}

static bool newest_slot(void *arg, const struct status_rule_group *g)
{
	*(int64_t *)arg = g->last_slot_ms;
	return true;
}

static int64_t slot_shown(struct kit *k)
{
	int64_t slot = 0;
	struct status_rules *s = rules_status(k->rules);
	s->groups(s, &(struct status_rules_query){ false, newest_slot, &slot });
	return slot;
}

static void ending_series_holds_up_nobody(void **state)
{
	struct kit k;
	struct waiting w = { .sink.append = append_waiting, .k = &k };
	(void)state;
	kit_init(&k);
	k.o.manual = false;
	k.o.sink = &w.sink;
	kit_rules(&k, "groups: [{name: a, interval: 50ms, rules: [{record: x, expr: '1'}]}, {name: b, interval: 50ms, rules: [{record: y, expr: '1'}]}]");
	assert_true(TEST_WAIT(slot_shown(&k)));
	kit_rules(&k, "groups: [{name: a, interval: 50ms, rules: [{record: x, expr: '1'}]}]");
	assert_true(TEST_WAIT(atomic_load(&w.waits)));
	int64_t then = slot_shown(&k);
	assert_true(TEST_WAIT(slot_shown(&k) >= then + 150));
	assert_true(atomic_load(&w.waits));
	atomic_store(&w.go, true);
	kit_free(&k);
}

/* The rule whose samples are refused is not well; a marker, or what an equal rule said, is no problem. */
static void refused_samples(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: x, expr: m}, {record: bad, expr: m}, {record: y, expr: m}, {record: z, expr: bad}]}]");
	kit_set(&k, "m", "pod=a", 60, 1);
	kit_set(&k, "m", "pod=b", 60, 1);
	k.refused_name = "bad";
	kit_at(&k, 60);
	expect_state(&k, "x ok\nbad err: 2 of the samples that it wrote were refused: too old\ny ok\nz ok\n");
	kit_stale(&k, "m", "pod=a", 70);
	kit_stale(&k, "m", "pod=b", 70);
	kit_at(&k, 120);
	expect_state(&k, "x ok\nbad ok\ny ok\nz ok\n");
	kit_rules(&k, "groups: [{name: a, rules: [{record: bad, expr: '1'}, {record: bad, expr: '1'}, {record: bad, expr: '2'}, {record: y, expr: m}]}]");
	kit_at(&k, 180);
	expect_state(&k, "bad err: 1 of the samples that it wrote were refused: too old\nbad ok\n"
		     "bad err: 1 of the samples that it wrote were refused: too old\ny ok\n");
	kit_free(&k);
}

/* Unchanged groups run on over a reload; others keep the state of rules with equal name and labels. */
static void reload_keeps_state(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{alert: A, expr: m, for: 5m}, {alert: A, expr: m, for: 9m}, {alert: B, expr: m, for: 5m}]}]");
	kit_set(&k, "m", "", 60, 1);
	kit_at(&k, 60);
	/* of another order, one of two equal ones gone, one with other labels */
	kit_rules(&k, "groups: [{name: a, rules: [{alert: B, expr: 'm > 0', for: 1m, labels: {x: y}}, {alert: A, expr: 'm > 0', for: 2m}]}]");
	kit_at(&k, 180);
	expect_state(&k, "B ok\n  {alertname=\"B\", x=\"y\"} pending since 180 value 1\nA ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	/* a longer for: pending again */
	kit_rules(&k, "groups: [{name: a, rules: [{alert: A, expr: 'm > 0', for: 4m}]}]");
	kit_at(&k, 240);
	expect_state(&k, "A ok\n  {alertname=\"A\"} pending since 60 value 1\n");
	kit_at(&k, 300);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	kit_free(&k);
}

static void groups_missed(void *arg, uint64_t *ret)
{
	struct kit *k = arg;
	*ret = k->rules->groups.v[0]->missed;
}

/* A slot follows from file and group; who comes late skips slots, counts them, and evaluates the newest. */
/* Thousands of equal rules do not hold up a reload. */
static void many_equal_rules(void **state)
{
	struct kit k;
	struct buf b = { 0 };
	(void)state;
	kit_init(&k);
	buf_puts(&b, "groups: [{name: a, rules: [");
	for (int i = 0; i < 10000; i++)
		buf_puts(&b, "{record: x, expr: '1'},");
	buf_puts(&b, "]}]");
	kit_rules(&k, b.ptr);
	struct live_group *g = k.rules->groups.v[0];
	assert_true(g->rules[0].key != g->rules[1].key && g->rules[1].key != g->rules[9999].key);
	buf_free(&b);
	kit_free(&k);
}

/* ---- reloads while somebody looks ---- */

struct looking {
	struct kit *k;
	atomic_bool first_looks, first_goes, second_looks, reloaded;
	bool second_waited;
};

static bool first_look(void *arg, const struct status_rule_group *g)
{
	struct looking *l = arg;
	(void)g;
	l->first_looks = true;
	while (!l->first_goes)
		clock_sleep_ms(1);
	return false;
}

static bool second_look(void *arg, const struct status_rule_group *g)
{
	struct looking *l = arg;
	assert_true(view_eqs(g->name, "b"));
	l->second_looks = true;
	for (int i = 0; i < 10000 && !l->reloaded; i++)
		clock_sleep_ms(1);
	l->second_waited = l->reloaded;
	return false;
}

static void *look_first(void *arg)
{
	struct looking *l = arg;
	struct status_rules *s = rules_status(l->k->rules);
	s->groups(s, &(struct status_rules_query){ true, first_look, l });
	return NULL;
}

static void *look_second(void *arg)
{
	struct looking *l = arg;
	struct status_rules *s = rules_status(l->k->rules);
	s->groups(s, &(struct status_rules_query){ true, second_look, l });
	return NULL;
}

static void *reload(void *arg)
{
	struct looking *l = arg;
	kit_rules(l->k, "groups: [{name: b, rules: [{record: x, expr: '2'}]}]");
	l->reloaded = true;
	return NULL;
}

static bool has_group_b(struct rules *m)
{
	mutex_lock(&m->lock);
	bool has = view_eqs(m->groups.v[0]->def->name, "b");
	mutex_unlock(&m->lock);
	return has;
}

/* A reload waits for who looked before it, not for those who come all the time. */
static void who_looks_does_not_stop_reloads(void **state)
{
	struct kit k;
	struct looking l = { .k = &k };
	pthread_t first, second, reloading;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{record: x, expr: '1'}]}]");
	assert_int_equal(pthread_create(&first, NULL, look_first, &l), 0);
	while (!l.first_looks)
		clock_sleep_ms(1);
	assert_int_equal(pthread_create(&reloading, NULL, reload, &l), 0);
	while (!has_group_b(k.rules))
		clock_sleep_ms(1);
	assert_int_equal(pthread_create(&second, NULL, look_second, &l), 0);
	while (!l.second_looks)
		clock_sleep_ms(1);
	assert_false(l.reloaded);
	l.first_goes = true;
	pthread_join(second, NULL);
	pthread_join(first, NULL);
	pthread_join(reloading, NULL);
	assert_true(l.second_waited);
	kit_free(&k);
}

static void slots(void **state)
{
	struct kit k;
	uint64_t missed;
	(void)state;
	kit_init(&k);
	rules_register_metrics();
	kit_rules(&k, "groups: [{name: a, interval: 60s, rules: [{record: x, expr: 'time()'}]}, {name: b, interval: 60s, rules: []}]");
	struct live_group *a = k.rules->groups.v[0];
	int64_t offset = group_slot(a, 600000000) % 60000;
	assert_int_not_equal(offset, group_slot(k.rules->groups.v[1], 600000000) % 60000);
	assert_int_equal(group_slot(a, 600000000), group_slot(a, group_slot(a, 600000000)));
	assert_true(group_slot(a, 600000000) <= 600000000 && group_slot(a, 600000000) > 600000000 - 60000);
	int64_t first = a->next_ms;
	k.rules->groups.v[1]->leaving = true; /* not now */
	mutex_lock(&k.rules->lock);
	rules_run_late(k.rules, first + 59999); /* late, and in time for its slot */
	mutex_unlock(&k.rules->lock);
	assert_int_equal(a->last_slot, first);
	mutex_lock(&k.rules->lock);
	rules_run_late(k.rules, first + 60000 + 150000);
	mutex_unlock(&k.rules->lock);
	groups_missed(&k, &missed);
	assert_int_equal(missed, 2);
	assert_int_equal(a->last_slot, first + 180000);
	assert_int_equal(a->next_ms, first + 240000);
	k.rules->groups.v[1]->leaving = false;
	kit_free(&k);
	metrics_free();
}

/* The clock is set back: the group does not wait until it was again what it was. */
static void clock_set_back(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, interval: 60s, rules: [{record: x, expr: '1'}]}]");
	struct live_group *a = k.rules->groups.v[0];
	rules_step(k.rules, 10000000);
	assert_true(a->last_slot > 9900000);
	int64_t next = rules_step(k.rules, 5000000);
	assert_true(next > 5000000 && next <= 5060000);
	rules_step(k.rules, next);
	assert_int_equal(a->last_slot, next);
	kit_free(&k);
}

/* What cannot be stored is an error of its rules, and nobody is silenced by it. */
static void storage_fails(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{alert: A, expr: 'vector(1)'}, {record: x, expr: 'vector(1)'}]}]");
	k.fail = true;
	kit_at(&k, 60);
	expect_told(&k, "{alertname=\"A\"} firing 60-300\n");
	k.fail = false;
	kit_at(&k, 120);
	k.refuse = true;
	kit_at(&k, 180);
	k.refuse = false;
	kit_kill(&k);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_values), cmocka_unit_test(later_rules_see_earlier), cmocka_unit_test(stamp_is_slot_less_offset),
		cmocka_unit_test(equal_labels_fail), cmocka_unit_test(limit), cmocka_unit_test(stale_markers), cmocka_unit_test(removed_rules), cmocka_unit_test(metrics_of_gone_groups), cmocka_unit_test(refused_samples), cmocka_unit_test(ending_series_holds_up_nobody),
		cmocka_unit_test(reload_keeps_state), cmocka_unit_test(slots), cmocka_unit_test(many_equal_rules), cmocka_unit_test(who_looks_does_not_stop_reloads),
		cmocka_unit_test(clock_set_back), cmocka_unit_test(storage_fails),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
