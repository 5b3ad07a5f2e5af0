/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts: what a rule's result makes of them. Each element of the result is an alert, identified by its labels:
 *
 *	           in the result           in it for `for`
 *	(nothing) ---------------> pending ---------------> firing
 *	    ^                         |                       |  not in the result, and keep_firing_for is over
 *	    +---- not in the result --+                       v
 *	    +------------------ 15 minutes later --------- inactive (resolved; in the result again: a new one)
 *
 * Times are those of slots, so that an alert is the same however long an evaluation takes. */
#include "base/lock.h"
#include "rules/group.h"
#include "rules/texts.h"

#define RESOLVED_MS (15 * 60000)
#define TEXTS_MAX ((size_t)128 << 20) /* labels and annotations of a rule's alerts */

/* ---- the result as alerts ---- */

struct found {
	struct labels *labels, *annotations; /* owned */
	uint64_t hash;
	double value;
};

struct all_found {
	VEC(struct found) v;
	struct map by_hash;
	size_t bytes;
	size_t taken;                /* bytes of rules.texts: its own, and as much again for alerts that live on */
};

static void free_found(struct all_found *f)
{
	for (size_t i = 0; i < f->v.n; i++) {
		free(f->v.v[i].labels);
		free(f->v.v[i].annotations);
	}
	vec_free(&f->v);
	map_free(&f->by_hash);
}

static const struct found *find(const struct all_found *f, uint64_t hash, struct labels l)
{
	uint32_t id;
	for (size_t at = map_start(&f->by_hash, hash); map_probe(&f->by_hash, hash, &at, &id);)
		if (labels_eq(*f->v.v[id].labels, l))
			return &f->v.v[id];
	return NULL;
}

static void expand_into(struct labels_builder *b, const struct rule_text *texts, size_t n, const struct texts_env *env, struct arena *a)
{
	for (size_t i = 0; i < n; i++)
		labels_builder_set(b, texts[i].name, texts_expand(&texts[i], env, a));
}

static int add_found(struct evaluation *r, const struct rule *x, struct labels sample, double value, struct arena *a, struct all_found *f,
		     struct err *e)
{
	const struct texts_env env = { .round = r, .labels = sample, .value = value };
	struct labels_builder b;
	labels_builder_init(&b, sample);
	labels_builder_del(&b, VIEW(LABEL_NAME));
	expand_into(&b, x->label_texts, x->labels.n, &env, a);
	labels_builder_set(&b, VIEW("alertname"), x->name);
	struct labels l = labels_builder_finish(&b);
	struct found new = { .hash = labels_hash(l), .value = value };
	if (find(f, new.hash, l)) {
		labels_builder_free(&b);
		return err_set(e, ERR_EXECUTION, "vector contains metrics with the same labelset after applying alert labels");
	}
	new.labels = labels_dup(l);
	labels_builder_free(&b);
	labels_builder_init(&b, (struct labels){ 0 });
	expand_into(&b, x->annotation_texts, x->annotations.n, &env, a);
	new.annotations = labels_dup(labels_builder_finish(&b));
	labels_builder_free(&b);
	map_insert(&f->by_hash, new.hash, (uint32_t)f->v.n);
	vec_push(&f->v, new);
	size_t bytes = rule_labels_bytes(*new.labels) + rule_labels_bytes(*new.annotations);
	f->bytes += bytes;
	if (!budget_take(&r->g->m->texts, 2 * bytes, BUDGET_ALL))
		return texts_too_large(r, e);
	f->taken += 2 * bytes;
	if (f->bytes > TEXTS_MAX)
		return err_set(e, ERR_LIMIT, "labels and annotations of the first %zu alerts are more than %zu MiB", f->v.n, TEXTS_MAX >> 20);
	return 0;
}

static int find_alerts(struct evaluation *r, const struct rule *x, const struct promql_result *q, struct all_found *f, struct err *e)
{
	struct arena a;
	int rc = 0;
	arena_init(&a, 0);
	if (q->type == PROMQL_SCALAR)
		rc = add_found(r, x, (struct labels){ 0 }, q->scalar, &a, f, e);
	for (size_t i = 0; i < q->n_series && !rc && q->type == PROMQL_VECTOR; i++) {
		if (atomic_load_explicit(rules_canceled(r->g), memory_order_relaxed))
			rc = err_set(e, ERR_CANCELED, "canceled");
		else
			rc = add_found(r, x, q->series[i].labels, q->series[i].points[0].v, &a, f, e);
		arena_reset(&a);
	}
	arena_free(&a);
	return rc;
}

/* ---- the states of an alert ---- */

/* What is found has taken as much before, and has given it back now. */
static void count_alert(struct live_alert *a, struct budget *budget)
{
	size_t bytes = rule_labels_bytes(*a->labels) + rule_labels_bytes(*a->annotations);
	if (a->budget)
		budget_give(a->budget, a->bytes);
	a->budget = budget;
	a->bytes = budget_take(budget, bytes, BUDGET_ALL) ? bytes : 0;
}

static struct live_alert *new_alert(const struct found *f, int64_t ts, struct budget *budget)
{
	struct live_alert *a = NEW(struct live_alert);
	*a = (struct live_alert){ .hash = f->hash, .state = ALERT_PENDING, .value = f->value, .active_at = ts, .seen = true, .changed = true };
	a->labels = labels_dup(*f->labels);
	a->annotations = labels_dup(*f->annotations);
	count_alert(a, budget);
	return a;
}

static void take_value(struct live_alert *a, const struct found *f, struct budget *budget)
{
	a->value = f->value;
	a->seen = true;
	free(a->annotations);
	a->annotations = labels_dup(*f->annotations);
	count_alert(a, budget);
}

/* Alerts that are there get their new value; the others are added. A resolved alert starts again. */
static void match_alerts(struct live_rule *rule, const struct all_found *f, int64_t ts, struct budget *budget)
{
	VEC(bool) known = { 0 };
	vec_reserve(&known, f->v.n + 1);
	memset(known.v, 0, f->v.n + 1);
	for (size_t i = 0; i < rule->alerts.n; i++) {
		struct live_alert *a = rule->alerts.v[i];
		const struct found *is = find(f, a->hash, *a->labels);
		a->seen = false;
		if (!is)
			continue;
		known.v[is - f->v.v] = true;
		if (a->state != ALERT_INACTIVE) {
			take_value(a, is, budget);
			continue;
		}
		rule->alerts.v[i] = new_alert(is, ts, budget);
		rule->alerts.v[i]->noted_at = a->noted_at; /* the note has its place */
		rule->alerts.v[i]->note_bytes = a->note_bytes;
		alert_free(a);
	}
	for (size_t i = 0; i < f->v.n; i++)
		if (!known.v[i])
			vec_push(&rule->alerts, new_alert(&f->v.v[i], ts, budget));
	vec_free(&known);
}

/* Whether an alert that is not in the result goes on firing. */
static bool keeps_firing(struct live_alert *a, const struct rule *x, int64_t ts)
{
	if (a->state != ALERT_FIRING || x->keep_firing_for_ms <= 0)
		return false;
	if (!a->keep_since) {
		a->keep_since = ts;
		a->changed = true;
	}
	return ts - a->keep_since < x->keep_firing_for_ms;
}

enum fate { FATE_ACTIVE, FATE_INACTIVE, FATE_GONE };

static enum fate step_absent(const struct live_group *g, struct live_alert *a, const struct rule *x, int64_t ts)
{
	if (a->restored && a->state != ALERT_INACTIVE && ts < g->hold_until) {
		if (a->state == ALERT_PENDING) { /* nobody evaluated it meanwhile: that time does not count */
			a->active_at += g->def->interval_ms;
			a->changed = true;
		}
		return FATE_ACTIVE;
	}
	bool keep = keeps_firing(a, x, ts);
	if (a->state == ALERT_PENDING || (a->resolved_at && ts - a->resolved_at > RESOLVED_MS))
		return FATE_GONE;
	if (a->state != ALERT_INACTIVE && !keep) {
		a->state = ALERT_INACTIVE;
		a->resolved_at = ts;
		a->changed = true;
	}
	return keep ? FATE_ACTIVE : FATE_INACTIVE;
}

static enum fate step(const struct live_group *g, struct live_alert *a, const struct rule *x, int64_t ts)
{
	if (!a->seen) {
		enum fate fate = step_absent(g, a, x, ts);
		if (fate != FATE_ACTIVE || (a->restored && a->state == ALERT_PENDING))
			return fate;
	} else {
		a->changed |= a->keep_since != 0;
		a->keep_since = 0;
		a->restored = false;
	}
	if (a->state == ALERT_PENDING && ts - a->active_at >= x->for_ms) {
		a->state = ALERT_FIRING;
		a->fired_at = ts;
		a->changed = true;
	}
	if (a->state == ALERT_FIRING && ts - a->active_at < x->for_ms) { /* for became longer */
		a->state = ALERT_PENDING;
		a->fired_at = a->last_sent = a->keep_since = 0;
		a->changed = true;
	}
	return FATE_ACTIVE;
}

/* ---- what is written ---- */

struct writing {
	struct evaluation *r;
	struct label_sets *now;
};

static int write_series(void *arg, struct labels l, double v, struct err *e)
{
	struct writing *w = arg;
	return output_float(w->r, w->now, l, v, e);
}

static void forget(struct evaluation *r, struct live_rule *rule, size_t i)
{
	notes_forget(r, rule, rule->alerts.v[i]);
	alert_free(rule->alerts.v[i]);
	rule->alerts.v[i] = NULL;
}

/* Processes each current alert; resolved ones leave the list. Returns how many are active. */
static size_t step_all(struct evaluation *r, struct live_rule *rule)
{
	size_t kept = 0, active = 0;
	for (size_t i = 0; i < rule->alerts.n; i++) {
		struct live_alert *a = rule->alerts.v[i];
		enum fate fate = step(r->g, a, rule->rule, r->slot_ms);
		if (fate == FATE_GONE) {
			forget(r, rule, i);
			continue;
		}
		rule->alerts.v[kept++] = a;
		active += fate == FATE_ACTIVE;
	}
	rule->alerts.n = kept;
	return active;
}

static int limit_alerts(struct evaluation *r, struct live_rule *rule, size_t active, struct err *e)
{
	int64_t limit = r->g->def->limit;
	if (!limit || (int64_t)active <= limit)
		return 0;
	for (size_t i = 0; i < rule->alerts.n; i++)
		forget(r, rule, i);
	rule->alerts.n = 0;
	return err_set(e, ERR_EXECUTION, "exceeded limit of %lld with %zu alerts", (long long)limit, active);
}

static int write_all(struct evaluation *r, struct live_rule *rule, struct err *e)
{
	struct label_sets now = { 0 };
	struct writing w = { r, &now };
	size_t before = r->out.floats.n;
	int rc = 0;
	for (size_t i = 0; i < rule->alerts.n && !rc && rule->writes_state; i++)
		if (rule->alerts.v[i]->state != ALERT_INACTIVE)
			rc = alert_each_series(rule->rule, rule->alerts.v[i], write_series, &w, e);
	if (!rc)
		rc = output_end_gone(r, rule, &now, e);
	if (rc)
		r->out.floats.n = before;
	else
		r->samples += r->out.floats.n - before;
	label_sets_free(&now);
	return rc;
}

int alert_result(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, struct err *e)
{
	struct all_found f = { 0 };
	struct budget *texts = &r->g->m->texts;
	int rc = find_alerts(r, rule->rule, q, &f, e);
	if (!rc) {
		mutex_lock(&r->g->lock);
		budget_give(texts, f.taken / 2);
		f.taken -= f.taken / 2;
		match_alerts(rule, &f, r->slot_ms, texts);
		rc = limit_alerts(r, rule, step_all(r, rule), e);
		mutex_unlock(&r->g->lock);
	}
	if (!rc)
		rc = write_all(r, rule, e);
	free_found(&f);
	budget_give(texts, f.taken);
	return rc;
}

/* ---- sending ---- */

static bool needs_telling(const struct rules *m, const struct live_alert *a, int64_t ts)
{
	if (a->state == ALERT_PENDING)
		return false;
	return !a->last_sent || a->resolved_at > a->last_sent || a->last_sent + m->o.resend_ms < ts;
}

void alert_tell(struct evaluation *r, struct live_rule *rule)
{
	const struct rules *m = r->g->m;
	for (size_t i = 0; i < rule->alerts.n; i++) {
		struct live_alert *a = rule->alerts.v[i];
		if (!m->o.alerts || !needs_telling(m, a, r->slot_ms))
			continue;
		mutex_lock(&r->g->lock);
		a->last_sent = r->slot_ms;
		a->changed = true;
		mutex_unlock(&r->g->lock);
		struct alert out = { .labels = labels_copy(&r->out.arena, *a->labels), .annotations = labels_copy(&r->out.arena, *a->annotations),
				     .starts_at_ms = a->fired_at, .ends_at_ms = a->resolved_at, .resolved = a->resolved_at != 0,
				     .generator_url = texts_generator_url(r, rule->rule) };
		if (!a->resolved_at)
			out.ends_at_ms = r->slot_ms + 4 * MAX(r->interval_ms, m->o.resend_ms);
		vec_push(&r->told, out);
	}
}
