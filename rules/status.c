/* SPDX-License-Identifier: Apache-2.0 */
/* What the page and the API see. A group is locked while it is shown, which is when it would publish a result. */
#include <stdlib.h>

#include "rules/group.h"

static struct status_alert show_alert(const struct live_alert *a)
{
	return (struct status_alert){ .labels = *a->labels, .annotations = *a->annotations, .state = a->state, .value = a->value,
				      .active_at_ms = a->active_at, .fired_at_ms = a->fired_at, .resolved_at_ms = a->resolved_at,
				      .keep_firing_since_ms = a->keep_since, .last_sent_ms = a->last_sent };
}

static int by_labels(const void *a, const void *b)
{
	return labels_cmp(((const struct status_alert *)a)->labels, ((const struct status_alert *)b)->labels);
}

static struct status_rule show_rule(const struct live_rule *r, struct status_alert *alerts)
{
	const struct rule *x = r->rule;
	struct status_rule s = { .alerting = x->alerting, .profiles = x->profiles, .name = x->name, .query = x->canonical, .labels = x->labels,
				 .annotations = x->annotations, .for_ms = x->for_ms, .keep_firing_for_ms = x->keep_firing_for_ms,
				 .state = x->alerting && r->evaluated_ms ? ALERT_INACTIVE : ALERT_UNKNOWN, .health = r->health,
				 .last_error = r->error.code ? view_of(r->error.msg) : VIEW(""), .last_evaluation_ms = r->evaluated_ms,
				 .evaluation_ns = r->evaluation_ns, .alerts = alerts, .n_alerts = r->alerts.n };
	for (size_t i = 0; i < r->alerts.n; i++) {
		alerts[i] = show_alert(r->alerts.v[i]);
		s.state = MAX(s.state, alerts[i].state);
	}
	if (r->alerts.n)
		qsort(alerts, r->alerts.n, sizeof *alerts, by_labels);
	return s;
}

static bool show_group(struct group *g, bool (*show)(void *arg, const struct status_rule_group *g), void *arg)
{
	struct status_rule *rules = xcalloc(g->def->n_rules + 1, sizeof *rules);
	size_t n = 0;
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->def->n_rules; i++)
		n += g->rules[i].alerts.n;
	struct status_alert *alerts = xcalloc(n + 1, sizeof *alerts), *at = alerts;
	for (size_t i = 0; i < g->def->n_rules; i++) {
		rules[i] = show_rule(&g->rules[i], at);
		at += g->rules[i].alerts.n;
	}
	const struct status_rule_group s = { .name = g->def->name, .file = g->def->file, .interval_ms = g->def->interval_ms,
					     .query_offset_ms = g->def->query_offset_ms, .limit = g->def->limit,
					     .last_evaluation_ms = g->evaluated_ms, .evaluation_ns = g->evaluation_ns,
					     .last_slot_ms = g->shown_slot, .missed = g->missed, .rules = rules, .n_rules = g->def->n_rules };
	bool more = show(arg, &s);
	pthread_mutex_unlock(&g->lock);
	free(alerts);
	free(rules);
	return more;
}

static int by_file_and_name(const void *a, const void *b)
{
	const struct rule_group *x = (*(struct group *const *)a)->def, *y = (*(struct group *const *)b)->def;
	int c = view_cmp(x->file, y->file);
	return c ? c : view_cmp(x->name, y->name);
}

static void groups(struct status_rules *s, bool (*show)(void *arg, const struct status_rule_group *g), void *arg)
{
	struct rules *m = (struct rules *)(void *)s;
	VEC(struct group *) all = { 0 };
	pthread_mutex_lock(&m->lock);
	m->readers++;
	for (size_t i = 0; i < m->groups.n; i++)
		vec_push(&all, m->groups.v[i]);
	pthread_mutex_unlock(&m->lock);
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, by_file_and_name);
	for (size_t i = 0; i < all.n && show_group(all.v[i], show, arg); i++)
		;
	vec_free(&all);
	pthread_mutex_lock(&m->lock);
	m->readers--;
	pthread_cond_broadcast(&m->wake);
	pthread_mutex_unlock(&m->lock);
}

void rules_status_init(struct rules *m)
{
	m->status.groups = groups;
}

struct status_rules *rules_status(struct rules *m)
{
	return &m->status;
}
