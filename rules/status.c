/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the page and the API show. A group is locked only while its changing parts are copied: its evaluation does not wait
 * for readers. The texts of its rules do not change during its lifetime. */
#include <stdlib.h>

#include "base/lock.h"
#include "rules/group.h"

struct shown {
	struct arena arena;          /* the texts of alerts */
	struct status_rule *rules;
	struct status_alert *alerts; /* of all rules */
	bool cut;
};

/* false: there is no more room. */
static bool copy_alert(struct arena *a, const struct live_alert *from, struct status_alert *to)
{
	*to = (struct status_alert){ .labels = labels_copy(a, *from->labels), .annotations = labels_copy(a, *from->annotations),
				     .state = from->state, .value = from->value, .active_at_ms = from->active_at, .fired_at_ms = from->fired_at,
				     .resolved_at_ms = from->resolved_at, .keep_firing_since_ms = from->keep_since,
				     .last_sent_ms = from->last_sent };
	return (to->labels.v || !to->labels.n) && (to->annotations.v || !to->annotations.n);
}

static struct status_rule copy_rule(struct shown *w, const struct live_rule *r, struct status_alert *alerts)
{
	const struct rule *x = r->rule;
	struct status_rule s = { .alerting = x->alerting, .profiles = x->profiles, .name = x->name, .query = x->canonical, .labels = x->labels,
				 .annotations = x->annotations, .for_ms = x->for_ms, .keep_firing_for_ms = x->keep_firing_for_ms,
				 .state = x->alerting && r->evaluated_ms ? ALERT_INACTIVE : ALERT_UNKNOWN, .health = r->health,
				 .last_error = r->error.code ? arena_view(&w->arena, view_of(r->error.msg)) : VIEW(""),
				 .last_evaluation_ms = r->evaluated_ms, .evaluation_ns = r->evaluation_ns, .alerts = alerts };
	for (size_t i = 0; i < r->alerts.n; i++) {
		s.state = MAX(s.state, r->alerts.v[i]->state);
		if (!alerts || w->cut)
			continue;
		if (copy_alert(&w->arena, r->alerts.v[i], &alerts[s.n_alerts]))
			s.n_alerts++;
		else
			w->cut = true;
	}
	return s;
}

/* Bytes of a copy of all alerts that the group has now. */
static size_t alerts_size(struct live_group *g)
{
	size_t n = 0;
	mutex_lock(&g->lock);
	for (size_t i = 0; i < g->def->n_rules; i++)
		for (size_t k = 0; k < g->rules[i].alerts.n; k++) {
			const struct live_alert *a = g->rules[i].alerts.v[k];
			n += sizeof(struct status_alert) + rule_labels_bytes(*a->labels) + rule_labels_bytes(*a->annotations);
		}
	mutex_unlock(&g->lock);
	return MIN(n, RULES_STATUS_MAX);
}

static void copy_group(struct live_group *g, bool with_alerts, struct shown *w, struct status_rule_group *ret)
{
	size_t n = 0, at = 0;
	w->rules = xcalloc(g->def->n_rules + 1, sizeof *w->rules);
	mutex_lock(&g->lock);
	for (size_t i = 0; i < g->def->n_rules; i++)
		n += g->rules[i].alerts.n;
	if (with_alerts)
		w->alerts = xcalloc(n + 1, sizeof *w->alerts);
	for (size_t i = 0; i < g->def->n_rules; i++) {
		w->rules[i] = copy_rule(w, &g->rules[i], with_alerts ? w->alerts + at : NULL);
		at += w->rules[i].n_alerts;
	}
	*ret = (struct status_rule_group){ .name = g->def->name, .file = g->def->file, .interval_ms = g->def->interval_ms,
					   .query_offset_ms = g->def->query_offset_ms, .limit = g->def->limit,
					   .last_evaluation_ms = g->evaluated_ms, .evaluation_ns = g->evaluation_ns,
					   .last_slot_ms = g->shown_slot, .missed = g->missed, .rules = w->rules,
					   .n_rules = g->def->n_rules, .cut = w->cut };
	mutex_unlock(&g->lock);
}

static int by_labels(const void *a, const void *b)
{
	return labels_cmp(((const struct status_alert *)a)->labels, ((const struct status_alert *)b)->labels);
}

static bool show_group(struct live_group *g, const struct status_rules_query *q)
{
	struct shown w = { 0 };
	struct status_rule_group s;
	size_t at = 0;
	if (q->alerts && q->room && !q->room(q->arg, alerts_size(g)))
		return false;
	arena_init(&w.arena, RULES_STATUS_MAX);
	copy_group(g, q->alerts, &w, &s);
	for (size_t i = 0; i < s.n_rules; at += w.rules[i++].n_alerts)
		if (w.rules[i].n_alerts)
			qsort(w.alerts + at, w.rules[i].n_alerts, sizeof *w.alerts, by_labels);
	bool more = q->group(q->arg, &s);
	arena_free(&w.arena);
	free(w.alerts);
	free(w.rules);
	return more;
}

static int by_file_and_name(const void *a, const void *b)
{
	const struct rule_group *x = (*(struct live_group *const *)a)->def, *y = (*(struct live_group *const *)b)->def;
	int c = view_cmp(x->file, y->file);
	return c ? c : view_cmp(x->name, y->name);
}

static void groups(struct status_rules *s, const struct status_rules_query *q)
{
	struct rules *m = (struct rules *)(void *)s;
	VEC(struct live_group *) all = { 0 };
	mutex_lock(&m->lock);
	unsigned at = m->generation & 1;
	m->readers[at]++;
	for (size_t i = 0; i < m->groups.n; i++)
		vec_push(&all, m->groups.v[i]);
	mutex_unlock(&m->lock);
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, by_file_and_name);
	for (size_t i = 0; i < all.n && show_group(all.v[i], q); i++)
		;
	vec_free(&all);
	mutex_lock(&m->lock);
	m->readers[at]--;
	pthread_cond_broadcast(&m->wake);
	mutex_unlock(&m->lock);
}

void rules_status_init(struct rules *m)
{
	m->status.groups = groups;
}

struct status_rules *rules_status(struct rules *m)
{
	return &m->status;
}
