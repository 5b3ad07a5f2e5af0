/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts, a sentence of docs/rules.md each; and what is left of them after a restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "rules/testkit.h"

#define RULE(more) "groups: [{name: a, rules: [{alert: A, expr: 'm > 0', " more "}]}]"

static void pending_then_firing(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 2m, labels: {severity: page}, annotations: {what: broken}"));
	for (int64_t s = 60; s <= 240; s += 60)
		kit_set(&k, "m", "pod=a", s, (double)s);
	kit_at(&k, 60);
	expect_state(&k, "A ok\n  {alertname=\"A\", pod=\"a\", severity=\"page\"} pending since 60 value 60\n");
	kit_at(&k, 120);
	expect_told(&k, "");
	kit_at(&k, 180);
	expect_state(&k, "A ok\n  {alertname=\"A\", pod=\"a\", severity=\"page\"} firing since 60 value 180\n"); /* the value anew */
	expect_told(&k, "{alertname=\"A\", pod=\"a\", severity=\"page\"} firing 180-420\n");
	kit_free(&k);
}

static void for_zero_fires_at_once(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 0s"));
	kit_set(&k, "m", "", 60, 1);
	kit_at(&k, 60);
	expect_told(&k, "{alertname=\"A\"} firing 60-300\n");
	kit_free(&k);
}

/* A pending one that is absent once goes, and begins anew. */
static void pending_absent_once(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 3m"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 120, 0);
	kit_set(&k, "m", "", 180, 1);
	kit_at(&k, 60);
	kit_at(&k, 120);
	expect_state(&k, "A ok\n");
	kit_at(&k, 180);
	expect_state(&k, "A ok\n  {alertname=\"A\"} pending since 180 value 1\n");
	kit_free(&k);
}

static void keep_firing_for(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("keep_firing_for: 2m"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 120, 0);
	kit_at(&k, 60);
	kit_at(&k, 120);
	kit_at(&k, 180);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	kit_set(&k, "m", "", 200, 1); /* back: the time begins anew when it goes again */
	kit_set(&k, "m", "", 250, 0);
	kit_at(&k, 240);
	kit_at(&k, 300);
	kit_at(&k, 360);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	buf_reset(&k.told);
	kit_at(&k, 420);
	expect_state(&k, "A ok\n  {alertname=\"A\"} inactive since 60 value 1\n");
	expect_told(&k, "{alertname=\"A\"} resolved 60-420\n");
	kit_free(&k);
}

/* Told when it fires, after each resend delay, when it is resolved, and for 15 minutes more. */
static void told_again(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.resend_ms = 120000;
	kit_rules(&k, RULE("for: 0s"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 300, 0);
	for (int64_t s = 60; s < 300; s += 60)
		kit_at(&k, s);
	expect_told(&k, "{alertname=\"A\"} firing 60-540\n{alertname=\"A\"} firing 60-720\n");
	kit_at(&k, 300);
	expect_told(&k, "{alertname=\"A\"} resolved 60-300\n");
	unsigned n = 0;
	for (int64_t s = 360; s <= 300 + 900; s += 60) {
		kit_at(&k, s);
		n += k.told.len != 0;
		buf_reset(&k.told);
	}
	assert_int_equal(n, 5);
	expect_state(&k, "A ok\n  {alertname=\"A\"} inactive since 60 value 1\n");
	kit_at(&k, 1260);
	expect_state(&k, "A ok\n");
	expect_told(&k, "");
	kit_free(&k);
}

/* A resolved one that comes back is a new one. */
static void comes_back(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 1m"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 180, 0);
	kit_set(&k, "m", "", 240, 1);
	for (int64_t s = 60; s <= 300; s += 60)
		kit_at(&k, s);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 240 value 1\n");
	expect_told(&k, "{alertname=\"A\"} firing 120-360\n{alertname=\"A\"} resolved 120-180\n{alertname=\"A\"} firing 300-540\n");
	kit_free(&k);
}

static void series_of_alerts(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 1m"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 230, 0);
	kit_at(&k, 60);
	expect_written(&k, ""); /* not before what was before a restart is known */
	kit_at(&k, 120);
	expect_written(&k, "");
	kit_at(&k, 180);
	expect_written(&k, "ALERTS_FOR_STATE{alertname=\"A\"} 60 @180\nALERTS{alertname=\"A\", alertstate=\"firing\"} 1 @180\n");
	kit_at(&k, 240);
	expect_written(&k, "ALERTS_FOR_STATE{alertname=\"A\"} stale @240\nALERTS{alertname=\"A\", alertstate=\"firing\"} stale @240\n");
	kit_free(&k);
}

/* ---- over a restart ---- */

/* Killed while it is pending: the outage does not count towards `for`. */
static void restart_pending(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 5m"));
	for (int64_t s = 60; s <= 3600; s += 60)
		kit_set(&k, "m", "", s, 1);
	for (int64_t s = 60; s <= 240; s += 60) /* three minutes of five */
		kit_at(&k, s);
	kit_kill(&k);
	kit_rules(&k, RULE("for: 5m"));
	kit_at(&k, 1200); /* the minute from 240 to the slot after it passed as ever */
	expect_state(&k, "A ok\n  {alertname=\"A\"} pending since 960 value 1\n");
	kit_at(&k, 1260);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 960 value 1\n");
	expect_told(&k, "{alertname=\"A\"} firing 1260-1500\n");
	kit_free(&k);
}

/* No slot was missed: nothing is moved. */
static void restart_at_once(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 2m"));
	for (int64_t s = 60; s <= 600; s += 60)
		kit_set(&k, "m", "", s, 1);
	kit_at(&k, 60);
	kit_kill(&k);
	kit_rules(&k, RULE("for: 2m"));
	kit_at(&k, 120);
	kit_kill(&k);
	kit_rules(&k, RULE("for: 2m"));
	kit_at(&k, 180);
	expect_told(&k, "{alertname=\"A\"} firing 180-420\n");
	kit_kill(&k);
	kit_rules(&k, RULE("for: 2m"));
	kit_at(&k, 240); /* startsAt is what it was; it may not have been told */
	expect_told(&k, "{alertname=\"A\"} firing 180-480\n");
	kit_free(&k);
}

static void restart_kept(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("keep_firing_for: 4m"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 120, 0);
	kit_at(&k, 60);
	kit_at(&k, 120);
	kit_at(&k, 180); /* a minute of four */
	kit_kill(&k);
	kit_rules(&k, RULE("keep_firing_for: 4m"));
	buf_reset(&k.told);
	for (int64_t s = 240; s <= 300; s += 60)
		kit_at(&k, s);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	buf_reset(&k.told);
	kit_at(&k, 360);
	expect_told(&k, "{alertname=\"A\"} resolved 60-360\n");
	kit_free(&k);
}

/* The outage does not count towards keep_firing_for either. */
static void restart_kept_later(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("keep_firing_for: 4m"));
	kit_set(&k, "m", "", 60, 1);
	kit_set(&k, "m", "", 120, 0);
	for (int64_t s = 60; s <= 180; s += 60)
		kit_at(&k, s);
	kit_kill(&k);
	kit_rules(&k, RULE("keep_firing_for: 4m"));
	kit_at(&k, 1200);
	kit_at(&k, 1260);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	buf_reset(&k.told);
	kit_at(&k, 1320);
	expect_told(&k, "{alertname=\"A\"} resolved 60-1320\n");
	kit_free(&k);
}

/* What resolved meanwhile is told, once there was time to see it again. */
static void restart_resolved(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 0s"));
	kit_set(&k, "m", "", 60, 1);
	kit_at(&k, 60);
	kit_kill(&k);
	kit_rules(&k, RULE("for: 0s"));
	buf_reset(&k.told);
	kit_at(&k, 3600); /* nothing was scraped yet: that says nothing */
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	expect_told(&k, "{alertname=\"A\"} firing 60-3840\n");
	kit_at(&k, 3660);
	expect_told(&k, "{alertname=\"A\"} resolved 60-3660\n");
	kit_kill(&k);
	kit_rules(&k, RULE("for: 0s"));
	kit_at(&k, 3720); /* resolved stays resolved, and is told again */
	expect_state(&k, "A ok\n  {alertname=\"A\"} inactive since 60 value 1\n");
	expect_told(&k, "{alertname=\"A\"} resolved 60-3660\n");
	kit_free(&k);
}

/* A short outage empties short ranges: what is absent then is not resolved. */
static void restart_short_range(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, interval: 10s, rules: [{alert: A, expr: 'max_over_time(m[20s]) > 0'}]}]");
	for (int64_t s = 60; s <= 100; s += 10)
		kit_set(&k, "m", "", s, 1);
	for (int64_t s = 60; s <= 100; s += 10)
		kit_at(&k, s);
	kit_kill(&k);
	kit_rules(&k, "groups: [{name: a, interval: 10s, rules: [{alert: A, expr: 'max_over_time(m[20s]) > 0'}]}]");
	kit_at(&k, 140);
	kit_set(&k, "m", "", 150, 1);
	kit_at(&k, 150);
	expect_state(&k, "A ok\n  {alertname=\"A\"} firing since 60 value 1\n");
	kit_free(&k);
}

/* Its series end, too, if it was resolved while nobody looked. */
static void restart_ends_series(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 0s"));
	kit_set(&k, "m", "", 60, 1);
	for (int64_t s = 60; s <= 180; s += 60)
		kit_at(&k, s);
	kit_kill(&k);
	kit_set(&k, "m", "", 200, 0);
	kit_rules(&k, RULE("for: 0s"));
	buf_reset(&k.written);
	kit_at(&k, 240);
	expect_written(&k, "ALERTS_FOR_STATE{alertname=\"A\"} stale @240\nALERTS{alertname=\"A\", alertstate=\"firing\"} stale @240\n");
	kit_free(&k);
}

/* A pending one that cannot be seen yet after an outage waits, and that time counts for nothing. */
static void restart_pending_held(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 5m"));
	kit_set(&k, "m", "", 60, 1);
	kit_at(&k, 60);
	kit_at(&k, 120);
	kit_kill(&k);
	kit_rules(&k, RULE("for: 5m"));
	kit_at(&k, 3600);
	kit_set(&k, "m", "", 3650, 1);
	kit_at(&k, 3660); /* a minute, and the one of the slot after the outage; two of five */
	for (int64_t s = 3720; s < 3840; s += 60)
		kit_at(&k, s);
	expect_told(&k, "");
	for (int64_t s = 3840; s <= 3900; s += 60)
		kit_at(&k, s);
	expect_told(&k, "{alertname=\"A\"} firing 3840-4080\n");
	kit_free(&k);
}

/* Of a rule that is no more nothing is left; notes of what has gone are forgotten. */
static void notes_go(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 0s"));
	kit_set(&k, "m", "pod=a", 60, 1);
	kit_set(&k, "m", "pod=b", 60, 1);
	kit_at(&k, 60);
	assert_int_equal(k.notes.n, 3); /* and the group's */
	kit_kill(&k);
	kit_rules(&k, "groups: [{name: b, rules: []}]");
	assert_int_equal(k.notes.n, 0);
	kit_kill(&k);
	kit_rules(&k, RULE("for: 1m"));
	kit_set(&k, "m", "pod=a", 61, 0);
	kit_at(&k, 120);
	assert_int_equal(k.notes.n, 2);
	kit_set(&k, "m", "pod=b", 130, 0);
	kit_at(&k, 180);
	assert_int_equal(k.notes.n, 1);
	kit_free(&k);
}

/* As Prometheus 3: queries in templates, and now, are of the slot, though the rule looks at what was query_offset before. Links show what it saw. */
static void offset_and_templates(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, query_offset: 30s, rules: [{alert: A, expr: m, labels: {asked: '{{ with query \"m\" }}{{ . | first | value }}{{ end }}', "
		      "now: '{{ now }}', link: '{{ flameLink \"m\" | match \"to=30&\" }}', value: '{{ $value }}'}}]}]");
	kit_set(&k, "m", "", 30, 1);
	kit_set(&k, "m", "", 31, 2);
	kit_at(&k, 60);
	expect_told(&k, "{alertname=\"A\", asked=\"2\", link=\"true\", now=\"60\", value=\"1\"} firing 60-300\n");
	kit_free(&k);
}

/* What a lost batch noted, or forgot, is noted and forgotten with the next; also if the group was replaced in between. */
static void notes_of_a_lost_batch(void **state)
{
	(void)state;
	for (int reload = 0; reload < 2; reload++) {
		struct kit k;
		kit_init(&k);
		kit_rules(&k, RULE("for: 10m"));
		kit_set(&k, "m", "pod=a", 60, 1);
		kit_set(&k, "m", "pod=b", 60, 1);
		kit_at(&k, 60);
		kit_set(&k, "m", "pod=b", 110, 0);
		kit_set(&k, "m", "pod=c", 110, 1);
		k.fail = true;
		kit_at(&k, 120);
		k.fail = false;
		assert_int_equal(k.notes.n, 3);
		if (reload)
			kit_rules(&k, RULE("for: 11m"));
		kit_at(&k, 180);
		assert_int_equal(k.notes.n, 3);
		kit_kill(&k);
		kit_rules(&k, RULE("for: 10m"));
		expect_state(&k, "A unknown\n  {alertname=\"A\", pod=\"a\"} pending since 60 value 1\n  {alertname=\"A\", pod=\"c\"} pending since 120 value 1\n");
		kit_at(&k, 240);
		kit_at(&k, 300);
		assert_true(!k.rules->groups.v[0]->forgotten.n);
		kit_free(&k);
	}
}

/* Only what changed is written, and told of it once a day. */
/* One whose labels no note holds does not cost the others theirs; nor do so many that others had no room. */
static void notes_that_do_not_fit(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 0s"));
	struct buf b = { 0 };
	buf_puts(&b, "pod=");
	for (size_t i = 0; i < SINK_NOTE_VALUE_MAX; i++)
		buf_putc(&b, 'x');
	kit_set(&k, "m", b.ptr, 60, 1);
	kit_set(&k, "m", "pod=b", 60, 1);
	kit_at(&k, 60);
	assert_int_equal(k.notes.n, 2); /* of b, and the group's */
	kit_set(&k, "m", "pod=b", 110, 0);
	k.rules->n_noted = SINK_NOTES_MAX;
	kit_set(&k, "m", "pod=c", 110, 1);
	kit_at(&k, 120);
	assert_int_equal(k.notes.n, 2); /* b's is written again, as it was resolved; there is none for c */
	k.rules->n_noted = 0;
	kit_at(&k, 180);
	assert_int_equal(k.notes.n, 3); /* there is room again */
	buf_free(&b);
	kit_free(&k);
}

/* Many alerts with large texts fail their rule, before memory ends. */
static void texts_are_bounded(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, "groups: [{name: a, rules: [{alert: A, expr: m, annotations: {x: '{{ range 10000 }}" /* 1 MB */
		      "aaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbbaaaaaaaaaabbbbbbbbbb{{ end }}'}}]}]");
	for (int i = 0; i < 200; i++) {
		char pod[32];
		snprintf(pod, sizeof pod, "pod=%d", i);
		kit_set(&k, "m", pod, 60, 1);
	}
	kit_at(&k, 60);
	expect_state(&k, "A err: labels and annotations of the first 135 alerts are more than 128 MiB\n");
	kit_free(&k);
}

static void notes_change(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	k.o.alerts = NULL;
	kit_rules(&k, RULE("for: 0s"));
	for (int64_t s = 60; s <= 200000; s += 200)
		kit_set(&k, "m", "", s, 1);
	kit_at(&k, 60);
	kit_at(&k, 120);
	assert_int_equal(k.notes.n, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(k.notes.v[i].t_ms, k.notes.v[i].key_len > 20 ? 60000 : 120000);
	kit_at(&k, 60 + 86400);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(k.notes.v[i].t_ms, 86460000);
	kit_free(&k);
}

/* ---- without notes: Prometheus's restoration ---- */

static void restored_from_series(int64_t grace_s, int64_t for_s, int64_t down_s, int64_t up_s, int64_t want)
{
	struct kit k;
	char rule[200], want_state[100];
	snprintf(rule, sizeof rule, RULE("for: %llds"), (long long)for_s);
	snprintf(want_state, sizeof want_state, "since %lld ", (long long)want);
	kit_init(&k);
	k.no_notes = true;
	k.o.grace_ms = grace_s * 1000;
	for (int64_t s = 60; s <= up_s + 600; s += 60)
		kit_set(&k, "m", "", s, 1);
	kit_rules(&k, rule);
	for (int64_t s = 60; s <= down_s; s += 60)
		kit_at(&k, s);
	kit_kill(&k);
	kit_rules(&k, rule);
	kit_at(&k, up_s);
	kit_at(&k, up_s + 60);
	struct buf b = { 0 };
	rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ true, kit_state_line, &b });
	if (!strstr(b.ptr, want_state))
		fail_msg("%s: %s", want_state, b.ptr);
	buf_free(&b);
	kit_free(&k);
}

static void restored(void **state)
{
	(void)state;
	/* pending for 600 of 1800 s when it ended at 660: what was down does not count */
	restored_from_series(60, 1800, 660, 1500, 60 + 1560 - 660);
	/* 60 s were left, the least is the grace period of 300 s: from 60 s after the start on */
	restored_from_series(300, 660, 660, 1500, 1560 + 300 - 660);
	/* it was due already */
	restored_from_series(300, 540, 660, 1500, 60);
	/* shorter than the grace period: it begins anew */
	restored_from_series(600, 540, 660, 1500, 1500);
	/* longer down than the outage tolerance */
	restored_from_series(60, 1800, 660, 5000, 5000);
}

/* ---- who looks ---- */

struct look {
	struct kit *k;
	struct buf seen;
};

/* An evaluation while someone looks, in which what he looks at goes. */
static bool evaluates_meanwhile(void *arg, const struct status_rule_group *g)
{
	struct look *l = arg;
	kit_at(l->k, 120);
	return kit_state_line(&l->seen, g);
}

static void looking_holds_up_nothing(void **state)
{
	struct kit k;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 5m"));
	kit_set(&k, "m", "pod=a", 60, 1);
	kit_set(&k, "m", "pod=a", 120, 0);
	kit_at(&k, 60);
	struct look l = { .k = &k };
	rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ true, evaluates_meanwhile, &l });
	kit_expect(&l.seen, "A ok\n  {alertname=\"A\", pod=\"a\"} pending since 60 value 1\n", __FILE__, __LINE__);
	expect_state(&k, "A ok\n");
	buf_free(&l.seen);
	kit_free(&k);
}

static bool states_alone(void *arg, const struct status_rule_group *g)
{
	(void)arg;
	assert_int_equal(g->rules[0].state, ALERT_PENDING);
	assert_int_equal(g->rules[0].n_alerts, 0);
	assert_false(g->cut);
	return true;
}

static bool cut_after_some(void *arg, const struct status_rule_group *g)
{
	size_t *n = arg;
	*n = g->rules[0].n_alerts;
	assert_true(g->cut);
	assert_int_equal(g->rules[0].state, ALERT_PENDING);
	for (size_t i = 0; i < *n; i++)
		assert_true(labels_get(g->rules[0].alerts[i].annotations, VIEW("what")).len > 1000000);
	return true;
}

static bool refuse_room(void *arg, size_t bytes)
{
	*(size_t *)arg = bytes;
	return false;
}

static bool shown_nevertheless(void *arg, const struct status_rule_group *g)
{
	(void)arg;
	(void)g;
	fail();
	return false;
}

/* Annotations of more than RULES_STATUS_MAX: as many alerts as there is room for, and it is said. */
static void more_alerts_than_room(void **state)
{
	struct kit k;
	char label[32];
	size_t n = 0;
	(void)state;
	kit_init(&k);
	kit_rules(&k, RULE("for: 5m, annotations: {what: '{{ printf \"%01048000d\" 1 }}'}"));
	for (int i = 0; i < 70; i++) {
		snprintf(label, sizeof label, "pod=%d", i);
		kit_set(&k, "m", label, 60, 1);
	}
	kit_at(&k, 60);
	rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ false, states_alone, NULL });
	rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ true, cut_after_some, &n });
	assert_in_range(n, 60, 64);
	/* What a copy takes is announced, and without room there is none. */
	rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ true, shown_nevertheless, &n, refuse_room });
	assert_int_equal(n, RULES_STATUS_MAX);
	kit_set(&k, "m", "pod=0", 120, 1);
	kit_at(&k, 120);
	for (int i = 1; i < 70; i++) {
		snprintf(label, sizeof label, "pod=%d", i);
		kit_set(&k, "m", label, 420, 0);
	}
	kit_set(&k, "m", "pod=0", 420, 1);
	kit_at(&k, 420);
	rules_status(k.rules)->groups(rules_status(k.rules), &(struct status_rules_query){ true, shown_nevertheless, &n, refuse_room });
	assert_in_range(n, 1048000, 1200000);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pending_then_firing), cmocka_unit_test(for_zero_fires_at_once), cmocka_unit_test(pending_absent_once),
		cmocka_unit_test(keep_firing_for), cmocka_unit_test(told_again), cmocka_unit_test(comes_back), cmocka_unit_test(series_of_alerts),
		cmocka_unit_test(restart_pending), cmocka_unit_test(restart_at_once), cmocka_unit_test(restart_kept), cmocka_unit_test(restart_kept_later),
		cmocka_unit_test(restart_resolved), cmocka_unit_test(restart_ends_series), cmocka_unit_test(restart_short_range), cmocka_unit_test(restart_pending_held), cmocka_unit_test(notes_go), cmocka_unit_test(notes_of_a_lost_batch), cmocka_unit_test(offset_and_templates),
		cmocka_unit_test(notes_that_do_not_fit), cmocka_unit_test(texts_are_bounded), cmocka_unit_test(notes_change), cmocka_unit_test(restored), cmocka_unit_test(looking_holds_up_nothing),
		cmocka_unit_test(more_alerts_than_room),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
