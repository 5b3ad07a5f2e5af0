/* SPDX-License-Identifier: Apache-2.0 */
/* All groups: which one is due, which thread evaluates it, and what a change of the files does to them. Threads take the group whose
 * slot is the oldest; one group is never with two. Threads are of two kinds, and a group is with the patient ones as long as its
 * evaluations take a small part of its interval. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "rules/group.h"

#define LOOK_AGAIN_MS 1000 /* the wall clock may be set */
/* Steps of nice(2). A group that has time leaves a query nearly all of a busy CPU (its own share is a thirtieth); one that would be
 * late gets a third of the query's share. */
#define GIVE_WAY_PATIENT 15
#define GIVE_WAY_HURRIED 5
#define CALM_SHARE 10   /* a group is hurried until it took less than that part of its interval, CALM_ROUNDS times */
#define GRACE_MS 2000   /* a reload waits that long for what runs, then it is cut off */

/* The kind of thread that asks for due groups. */
enum evaluators { EVALUATORS_PATIENT, EVALUATORS_HURRIED, EVALUATORS_ALL };

/* ---- when ---- */

/* The slot that is due at that time, or the next; *ret_missed: the earlier ones that will not be evaluated. */
static int64_t due_slot(const struct live_group *g, int64_t now_ms, int64_t *ret_missed)
{
	int64_t interval = g->def->interval_ms, behind = now_ms - g->next_ms;
	*ret_missed = behind < interval ? 0 : behind / interval;
	return g->next_ms + *ret_missed * interval;
}

/* It is slow, or its time is not known yet. */
static bool is_slow(const struct live_group *g, int64_t now_ns)
{
	return g->took_ns < 0 || g->took_ns > GROUP_SLOW_NS || (g->running && now_ns - g->began_ns > GROUP_SLOW_NS);
}

/* Whether slow groups have all threads but those that are left to quick ones. */
static bool slow_are_many(const struct rules *m, int64_t now_ns) REQUIRES(m->lock)
{
	unsigned most = m->o.max_concurrent - MAX(m->o.max_concurrent / 4, m->o.max_concurrent > 1), n = 0;
	for (size_t i = 0; i < m->groups.n; i++)
		n += m->groups.v[i]->running && is_slow(m->groups.v[i], now_ns);
	return n >= most;
}

static unsigned n_running(const struct rules *m) REQUIRES(m->lock)
{
	unsigned n = 0;
	for (size_t i = 0; i < m->groups.n; i++)
		n += m->groups.v[i]->running;
	return n;
}

/* Which kind of thread evaluates it next: by how long it took. */
static void judge_hurry(struct live_group *g)
{
	int64_t interval_ns = g->def->interval_ms * 1000000;
	if (g->took_ns > interval_ns / HURRY_SHARE)
		g->hurried = CALM_ROUNDS;
	else if (g->hurried && g->took_ns < interval_ns / CALM_SHARE)
		g->hurried--;
}

/* NULL: nothing is due for such a thread; *ret_next is when something is. */
static struct live_group *take_due(struct rules *m, enum evaluators by, int64_t now_ms, int64_t *ret_next) REQUIRES(m->lock)
{
	struct live_group *first = NULL;
	int64_t now_ns = clock_mono_ns();
	bool only_quick = slow_are_many(m, now_ns);
	*ret_next = INT64_MAX;
	if (n_running(m) >= m->o.max_concurrent)
		return NULL;
	for (size_t i = 0; i < m->groups.n; i++) {
		struct live_group *g = m->groups.v[i];
		if (g->running || g->leaving || (by != EVALUATORS_ALL && (by == EVALUATORS_HURRIED) != (g->hurried > 0)))
			continue;
		if (g->next_ms - now_ms > 2 * g->def->interval_ms) /* the clock was set back */
			g->next_ms = group_slot(g, now_ms) + g->def->interval_ms;
		if ((!first || g->next_ms < first->next_ms) && !(only_quick && g->took_ns > GROUP_SLOW_NS))
			first = g;
	}
	if (!first)
		return NULL;
	*ret_next = first->next_ms;
	return first->next_ms <= now_ms ? first : NULL;
}

static void run_group(struct rules *m, struct live_group *g, int64_t now_ms) REQUIRES(m->lock)
{
	int64_t missed, slot = due_slot(g, now_ms, &missed);
	g->on_trial = g->took_ns < 0 && slow_are_many(m, clock_mono_ns());
	g->running = true;
	g->began_ns = clock_mono_ns();
	g->next_ms = slot + g->def->interval_ms;
	if (missed)
		g->hurried = CALM_ROUNDS;
	mutex_unlock(&m->lock);
	if (missed) {
		mutex_lock(&g->lock);
		g->missed += (uint64_t)missed;
		mutex_unlock(&g->lock);
		rules_count(g, M_MISSED, (double)missed);
		rules_count(g, M_ITERATIONS, (double)missed);
	}
	group_evaluate(g, slot);
	mutex_lock(&m->lock);
	g->running = false;
	g->took_ns = clock_mono_ns() - g->began_ns;
	judge_hurry(g);
	pthread_cond_broadcast(&m->wake);
}

/* ---- series of rules that are gone ---- */

static void orphan_free(struct orphan *o)
{
	label_sets_free(&o->series);
	label_sets_free(&o->profiles);
	for (size_t i = 0; i < o->types.n; i++)
		kept_type_free(&o->types.v[i]);
	vec_free(&o->types);
	free(o);
}

struct living {
	VEC(struct live_group *) v;
};

static bool anyone_writes(const struct living *groups, struct labels l)
{
	for (size_t g = 0; g < groups->v.n; g++)
		if (group_writes(groups->v.v[g], l))
			return true;
	return false;
}

static void end_series(struct rules *m, struct orphan *o, const struct living *groups)
{
	VEC(struct sink_float) floats = { 0 };
	VEC(struct sink_profile) profiles = { 0 };
	struct sink_column *columns = xcalloc(o->profiles.v.n + 1, sizeof *columns);
	struct err e = { 0 };
	for (size_t i = 0; i < o->series.v.n; i++)
		if (!anyone_writes(groups, *o->series.v.v[i]))
			vec_push(&floats, ((struct sink_float){ .labels = *o->series.v.v[i], .t_ms = o->t_ms, .v = value_from_bits(VALUE_STALE_BITS) }));
	for (size_t i = 0; i < o->profiles.v.n; i++) {
		columns[i] = (struct sink_column){ .labels = *o->profiles.v.v[i], .type = o->types.v[i].type };
		if (!anyone_writes(groups, columns[i].labels))
			vec_push(&profiles, ((struct sink_profile){ .columns = &columns[i], .n_columns = 1, .t_ms = o->t_ms }));
	}
	const struct sink_batch b = { .floats = floats.v, .n_floats = floats.n, .profiles = profiles.v, .n_profiles = profiles.n };
	if (floats.n + profiles.n && m->o.sink->append(m->o.sink, &b, NULL, &e))
		metric_add(&rules_metrics[M_DISCARDED], (double)(floats.n + profiles.n));
	vec_free(&floats);
	vec_free(&profiles);
	free(columns);
}

static void end_orphan(struct rules *m, struct orphan *o) REQUIRES(m->lock)
{
	struct living groups = { 0 };
	unsigned at = m->generation & 1;
	for (size_t i = 0; i < m->groups.n; i++)
		vec_push(&groups.v, m->groups.v[i]);
	m->readers[at]++;
	mutex_unlock(&m->lock); /* thousands of series and groups take their time */
	end_series(m, o, &groups);
	mutex_lock(&m->lock);
	m->readers[at]--;
	pthread_cond_broadcast(&m->wake);
	vec_free(&groups.v);
	orphan_free(o);
}

static bool end_due_orphan(struct rules *m, int64_t now_ms, int64_t *next) REQUIRES(m->lock)
{
	for (size_t i = 0; i < m->orphans.n; i++) {
		struct orphan *o = m->orphans.v[i];
		if (o->due_ms > now_ms) {
			*next = MIN(*next, o->due_ms);
			continue;
		}
		m->orphans.v[i] = m->orphans.v[--m->orphans.n];
		end_orphan(m, o);
		return true;
	}
	return false;
}

/* ---- threads ---- */

static void wait_until(struct rules *m, int64_t next_ms, int64_t now_ms) REQUIRES(m->lock)
{
	mutex_wait_ms(&m->lock, &m->wake, clock_mono_ms() + MIN(MAX(next_ms - now_ms, 1), LOOK_AGAIN_MS));
}

static void evaluate_all(struct rules *m, enum evaluators by)
{
	mutex_lock(&m->lock);
	while (!m->stopping || (by == EVALUATORS_HURRIED && m->rests)) {
		if (by == EVALUATORS_HURRIED && rules_run_rest(m))
			continue;
		int64_t now = clock_now_ms(), next;
		struct live_group *g = take_due(m, by, now, &next);
		if (g)
			run_group(m, g, now);
		else if (!end_due_orphan(m, now, &next))
			wait_until(m, next, now);
	}
	mutex_unlock(&m->lock);
}

/* A thread may lower its priority, but not raise it again: so there are two kinds. */
static void *evaluate_patiently(void *arg)
{
	thread_give_way(GIVE_WAY_PATIENT);
	evaluate_all(arg, EVALUATORS_PATIENT);
	return NULL;
}

static void *evaluate_hurried(void *arg)
{
	thread_give_way(GIVE_WAY_HURRIED);
	evaluate_all(arg, EVALUATORS_HURRIED);
	return NULL;
}

void rules_run_late(struct rules *m, int64_t now_ms)
{
	int64_t next;
	struct live_group *g = take_due(m, EVALUATORS_ALL, now_ms, &next);
	if (g)
		run_group(m, g, now_ms);
}

int64_t rules_step(struct rules *m, int64_t now_ms)
{
	int64_t next;
	mutex_lock(&m->lock);
	m->manual_now = now_ms;
	for (;;) {
		struct live_group *g = take_due(m, EVALUATORS_ALL, now_ms, &next);
		if (g)
			run_group(m, g, g->next_ms); /* slot after slot */
		else if (!end_due_orphan(m, now_ms, &next))
			break;
	}
	mutex_unlock(&m->lock);
	return next;
}

void rules_evaluate(struct rules *m, int64_t t_ms)
{
	mutex_lock(&m->lock);
	for (size_t i = 0; i < m->groups.n; i++) {
		struct live_group *g = m->groups.v[i];
		mutex_unlock(&m->lock);
		group_evaluate(g, t_ms);
		mutex_lock(&m->lock);
	}
	mutex_unlock(&m->lock);
}

/* ---- new files ---- */

static struct live_group *find_group(struct rules *m, const struct rule_group *def) REQUIRES(m->lock)
{
	for (size_t i = 0; i < m->groups.n; i++)
		if (view_eq(m->groups.v[i]->def->file, def->file) && view_eq(m->groups.v[i]->def->name, def->name))
			return m->groups.v[i];
	return NULL;
}

/* The rule with the same name and labels inherits its state. */
static void move_rule(struct live_rule *to, struct live_rule *from)
{
	to->previous = from->previous;
	from->previous = (struct label_sets){ 0 };
	to->types.v = from->types.v;
	to->types.n = from->types.n;
	to->types.cap = from->types.cap;
	memset(&from->types, 0, sizeof from->types);
	to->alerts.v = from->alerts.v;
	to->alerts.n = from->alerts.n;
	to->alerts.cap = from->alerts.cap;
	memset(&from->alerts, 0, sizeof from->alerts);
	to->delta = from->delta;
	memset(&from->delta, 0, sizeof from->delta);
	to->writes_state = from->writes_state;
	to->health = from->health;
	to->error = from->error;
	to->evaluated_ms = from->evaluated_ms;
	to->evaluation_ns = from->evaluation_ns;
}

static void move_state(struct live_group *to, struct live_group *from)
{
	for (size_t i = 0; i < to->def->n_rules; i++)
		for (size_t k = 0; k < from->def->n_rules; k++)
			if (to->rules[i].key == from->rules[k].key)
				move_rule(&to->rules[i], &from->rules[k]);
	to->forgotten.v = from->forgotten.v;
	to->forgotten.n = from->forgotten.n;
	to->forgotten.cap = from->forgotten.cap;
	memset(&from->forgotten, 0, sizeof from->forgotten);
	to->lost = from->lost;
	to->commits.error = from->commits.error; /* of its last batches */
	to->last_slot = from->last_slot;
	to->noted_at = from->noted_at;
	to->restore = from->restore;
	to->resumed = from->resumed;
	to->hold_until = from->hold_until;
	to->evaluations = from->evaluations;
	to->took_ns = from->took_ns;
	to->hurried = from->hurried;
	to->evaluated_ms = from->evaluated_ms;
	to->evaluation_ns = from->evaluation_ns;
	to->shown_slot = from->shown_slot;
	to->missed = from->missed;
}

/* What is left of a group that is no more: series to be ended later, notes to be forgotten. */
static void bury(struct rules *m, struct live_group *g, int64_t now_ms) REQUIRES(m->lock)
{
	struct orphan *o = NEW(struct orphan);
	o->t_ms = now_ms - g->def->query_offset_ms;
	o->due_ms = now_ms + 2 * g->def->interval_ms;
	for (size_t i = 0; i < g->def->n_rules; i++)
		for (size_t k = 0; k < g->rules[i].previous.v.n; k++) {
			bool profiles = g->rules[i].rule->profiles;
			if (label_sets_add(profiles ? &o->profiles : &o->series, *g->rules[i].previous.v.v[k]) && profiles)
				kept_type_set(vec_add(&o->types), &g->rules[i].types.v[k].type);
		}
	if (o->series.v.n + o->profiles.v.n)
		vec_push(&m->orphans, o);
	else
		orphan_free(o);
	notes_bury(g);
	if (!find_group(m, g->def))
		rules_forget_metrics(g);
	group_free(g);
}

/* Until it does not run any more; from that time on its rule's query is canceled, and those behind it are left out. */
static void wait_for(struct rules *m, struct live_group *g, int64_t until_mono_ms) REQUIRES(m->lock)
{
	g->leaving = true;
	while (g->running && mutex_wait_ms(&m->lock, &m->wake, until_mono_ms))
		;
	if (g->running)
		flag_raise(&g->cut);
	while (g->running)
		mutex_wait(&m->lock, &m->wake);
}

static struct live_group *begin_group(struct rules *m, struct rules_config *c, const struct rule_group *def, int64_t now_ms) REQUIRES(m->apply, m->lock)
{
	mutex_unlock(&m->lock); /* thousands of rules take their time; under m->apply groups stay what they are */
	struct live_group *g = group_new(m, c, def);
	mutex_lock(&m->lock);
	g->took_ns = -1;
	g->hurried = 1; /* not known yet */
	g->next_ms = group_slot(g, now_ms) + def->interval_ms;
	g->restore = !m->applied && !m->o.no_restore;
	for (size_t i = 0; i < def->n_rules; i++)
		g->rules[i].writes_state = !g->restore;
	return g;
}

static void replace_groups(struct rules *m, struct rules_config *c, int64_t now_ms) REQUIRES(m->apply, m->lock)
{
	int64_t until_mono_ms = clock_mono_ms() + GRACE_MS;
	VEC(struct live_group *) groups = { 0 }, gone = { 0 };
	for (size_t i = 0; i < c->n_groups; i++) {
		const struct rule_group *def = &c->groups[i];
		struct live_group *old = find_group(m, def);
		if (old && view_eq(old->def->text, def->text)) {
			vec_push(&groups, old);
			continue;
		}
		struct live_group *g = begin_group(m, c, def, now_ms);
		if (old) {
			wait_for(m, old, until_mono_ms);
			group_settle(old);
			move_state(g, old);
		}
		vec_push(&groups, g);
	}
	for (size_t i = 0; i < m->groups.n; i++) {
		struct live_group *g = m->groups.v[i];
		size_t k = 0;
		while (k < groups.n && groups.v[k] != g)
			k++;
		if (k == groups.n)
			vec_push(&gone, g);
	}
	for (size_t i = 0; i < gone.n; i++)
		wait_for(m, gone.v[i], until_mono_ms);
	vec_free(&m->groups);
	m->groups.v = groups.v;
	m->groups.n = groups.n;
	m->groups.cap = groups.cap;
	unsigned before = m->generation++ & 1; /* readers from now on see the new ones */
	while (m->readers[before])
		mutex_wait(&m->lock, &m->wake);
	for (size_t i = 0; i < gone.n; i++)
		bury(m, gone.v[i], now_ms);
	vec_free(&gone);
}

int rules_apply(struct rules *m, struct rules_config *c, struct err *e)
{
	(void)e;
	mutex_lock(&m->apply);
	mutex_lock(&m->lock);
	if (!m->stopping) {
		replace_groups(m, c, m->o.manual ? m->manual_now : clock_now_ms());
		if (!m->applied)
			notes_read(m);
		m->applied = true;
		rules_config_unref(m->config);
		m->config = rules_config_ref(c);
		pthread_cond_broadcast(&m->wake);
	}
	mutex_unlock(&m->lock);
	mutex_unlock(&m->apply);
	return 0;
}

/* ---- begin and end ---- */

static void defaults(struct rules_options *o)
{
	o->outage_tolerance_ms = o->outage_tolerance_ms ? o->outage_tolerance_ms : 3600000;
	o->grace_ms = o->grace_ms ? o->grace_ms : 600000;
	o->resend_ms = o->resend_ms ? o->resend_ms : 60000;
	o->max_concurrent = o->max_concurrent ? o->max_concurrent : 4;
	o->memory_bytes = o->memory_bytes ? o->memory_bytes : RULES_MEMORY;
}

static void init_lock(struct rules *m)
{
	mutex_init(&m->lock, RANK_RULES, "rules");
	mutex_init(&m->apply, RANK_RULES_APPLY, "rules change");
	pthread_cond_init(&m->wake, NULL);
}

int rules_new(struct rules **ret, const struct rules_options *o, struct err *e)
{
	struct rules *m = NEW(struct rules);
	int rc = 0;
	m->o = *o;
	m->o.queried = o->queried ? o->queried : o->source;
	defaults(&m->o);
	m->texts.max = m->o.memory_bytes;
	m->external_url = xstrdup(o->external_url ? o->external_url : "");
	for (size_t n = strlen(m->external_url); n && m->external_url[n - 1] == '/';)
		m->external_url[--n] = 0;
	init_lock(m);
	rules_status_init(m);
	for (unsigned i = 0; i < 2 * m->o.max_concurrent && !o->manual && !rc; i++) {
		pthread_t t;
		rc = thread_start(&t, i % 2 ? "rules hurried" : "rules", i % 2 ? evaluate_hurried : evaluate_patiently, m, e);
		if (!rc)
			vec_push(&m->threads, t);
	}
	if (rc) {
		rules_free(m);
		return rc;
	}
	*ret = m;
	return 0;
}

void rules_stop(struct rules *m)
{
	if (!m)
		return;
	mutex_lock(&m->lock);
	m->stopping = true;
	for (size_t i = 0; i < m->groups.n; i++)
		flag_raise(&m->groups.v[i]->cut);
	pthread_cond_broadcast(&m->wake);
	mutex_unlock(&m->lock);
	for (size_t i = 0; i < m->threads.n; i++)
		pthread_join(m->threads.v[i], NULL);
	m->threads.n = 0;
}

void rules_free(struct rules *m)
{
	if (!m)
		return;
	rules_stop(m);
	for (size_t i = 0; i < m->groups.n; i++)
		group_free(m->groups.v[i]);
	for (size_t i = 0; i < m->orphans.n; i++)
		orphan_free(m->orphans.v[i]);
	vec_free(&m->groups);
	vec_free(&m->orphans);
	vec_free(&m->threads);
	mutex_destroy(&m->lock);
	mutex_destroy(&m->apply);
	pthread_cond_destroy(&m->wake);
	rules_config_unref(m->config);
	free(m->external_url);
	free(m);
}
