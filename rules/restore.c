/* SPDX-License-Identifier: Apache-2.0 */
/* Without notes (lost, or written by another program), the active times of alerts are read from the series ALERTS_FOR_STATE, as in
 * Prometheus, once, after the second evaluation. Only `for` is restored this way. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "model/matcher.h"
#include "rules/group.h"

#define LONGEST_NS (60 * INT64_C(1000000000)) /* for one rule */

/* The active times of the rule's alerts, as last written. */
struct state_series {
	struct source_view *view;
	const struct source_limits *lim;
	struct source_series *v;
	size_t n;
};

/* The series of a rule: equal in all labels that are no templates. */
static int select_series(struct state_series *s, const struct rule *x, int64_t after_ms, int64_t until_ms, struct err *e)
{
	VEC(struct matcher) m = { 0 };
	int rc = matcher_init(vec_add(&m), MATCH_EQ, VIEW(LABEL_NAME), VIEW("ALERTS_FOR_STATE"), e);
	if (!rc)
		rc = matcher_init(vec_add(&m), MATCH_EQ, VIEW("alertname"), x->name, e);
	for (size_t i = 0; i < x->labels.n && !rc; i++)
		if (!x->label_texts[i].parsed && !view_eqs(x->labels.v[i].name, "alertname"))
			rc = matcher_init(vec_add(&m), MATCH_EQ, x->labels.v[i].name, x->labels.v[i].value, e);
	if (!rc)
		rc = s->view->ops->select(s->view, m.v, m.n, after_ms, until_ms, s->lim, &s->v, &s->n, e);
	for (size_t i = 0; i < m.n; i++)
		matcher_release(&m.v[i]);
	vec_free(&m);
	return rc;
}

/* The series that stores the state of this alert (ALERTS_FOR_STATE), or NULL. */
static const struct source_series *find_series(const struct state_series *s, struct labels alert)
{
	for (size_t i = 0; i < s->n; i++) {
		struct labels_builder b;
		labels_builder_init(&b, s->v[i].labels);
		labels_builder_del(&b, VIEW(LABEL_NAME));
		bool is = labels_eq(labels_builder_finish(&b), alert);
		labels_builder_free(&b);
		if (is)
			return s->v[i].type ? NULL : &s->v[i];
	}
	return NULL;
}

static void restore_alert(const struct rules *m, struct live_alert *a, const struct rule *x, struct point last, int64_t now_ms)
{
	int64_t active_at = (int64_t)last.v * 1000, pending = last.t_ms - active_at, remaining = x->for_ms - pending;
	if (remaining > 0 && remaining < m->o.grace_ms)
		active_at = now_ms + m->o.grace_ms - x->for_ms;
	else if (remaining > 0)
		active_at += now_ms - last.t_ms;
	a->active_at = active_at;
	a->changed = true;
}

/* A rule whose alerts are restored. */
struct restoring {
	struct live_group *g;
	struct live_rule *rule;
	int64_t now_ms;
	VEC(uint64_t) refs;
	VEC(struct live_alert *) alerts; /* by ref */
};

static int restore_from(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	(void)e;
	const struct restoring *r = arg;
	if (n && !value_is_stale(v[n - 1].v)) {
		mutex_lock(&r->g->lock);
		restore_alert(r->g->m, r->alerts.v[series], r->rule->rule, v[n - 1], r->now_ms);
		mutex_unlock(&r->g->lock);
	}
	free(v);
	return 0;
}

static int restore_rule(struct live_group *g, struct live_rule *rule, struct source_view *view, int64_t now_ms, struct err *e)
{
	const struct rules *m = g->m;
	struct source_damage lacks = { .damaged = { 0 } }; /* what can be read is restored */
	const struct source_limits lim = { .deadline_mono_ns = clock_mono_ns() + LONGEST_NS, .canceled = &g->cut, .damage = &lacks };
	struct state_series s = { .view = view, .lim = &lim };
	struct restoring r = { .g = g, .rule = rule, .now_ms = now_ms };
	int64_t after = now_ms - m->o.outage_tolerance_ms;
	int rc = select_series(&s, rule->rule, after, now_ms, e);
	for (size_t i = 0; i < rule->alerts.n && !rc; i++) {
		const struct source_series *series = find_series(&s, *rule->alerts.v[i]->labels);
		if (!series)
			continue;
		vec_push(&r.refs, series->ref);
		vec_push(&r.alerts, rule->alerts.v[i]);
	}
	if (!rc && r.refs.n)
		rc = view->ops->floats(view, r.refs.v, r.refs.n, after, now_ms, &lim, restore_from, &r, e);
	vec_free(&r.refs);
	vec_free(&r.alerts);
	free(s.v);
	source_damage_release(&lacks);
	return rc;
}

void restore_for_state(struct live_group *g, int64_t now_ms)
{
	struct source *source = g->m->o.source;
	struct source_view *view = NULL;
	struct err e = { 0 };
	int rc = source ? source->open(source, &view, &e) : 0;
	for (size_t i = 0; i < g->def->n_rules; i++) {
		struct live_rule *rule = &g->rules[i];
		if (!rule->rule->alerting)
			continue;
		if (!rc && view && rule->rule->for_ms >= g->m->o.grace_ms)
			rc = restore_rule(g, rule, view, now_ms, &e);
		rule->writes_state = true;
	}
	if (rc)
		LOG_ERROR("msg", "alerts start again: their active times could not be read", "group", g->metric_name, "err", e.msg);
	if (view)
		view->ops->release(view);
}
