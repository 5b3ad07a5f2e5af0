/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/group.h"

#include <malloc.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "rules/notes.h"
#include "rules/texts.h"

#define OUTPUT_MAX ((size_t)256 << 20)
#define FLUSH_FLOATS 50000
#define FLUSH_PROFILES 50
#define MUCH 10000             /* samples of an evaluation */
#define TRIM_NS INT64_C(1000000000)
#define TWINS_LOOKED_FOR 1000 /* samples before one that is refused */

/* ---- made of what the file says ---- */

static uint64_t rule_key(const struct rule *x, unsigned nth)
{
	struct buf b = { 0 };
	buf_printf(&b, "%u %d ", nth, x->alerting);
	buf_putv(&b, x->name);
	for (size_t i = 0; i < x->labels.n; i++) {
		buf_putc(&b, 0);
		buf_putv(&b, x->labels.v[i].name);
		buf_putc(&b, 0);
		buf_putv(&b, x->labels.v[i].value);
	}
	uint64_t h = hash_stable_view(buf_view(&b));
	buf_free(&b);
	return h;
}

/* The number of preceding equal rules identifies each; a file may have thousands. */
static void set_keys(struct live_group *g)
{
	struct map firsts = { 0 };
	unsigned *equal = xcalloc(g->def->n_rules + 1, sizeof *equal); /* to each first: itself and those behind it */
	for (size_t i = 0; i < g->def->n_rules; i++) {
		uint64_t key = rule_key(&g->def->rules[i], 0);
		uint32_t first;
		g->rules[i].key = key;
		if (MAP_FIND_OR_ADD(&firsts, key, first, i, g->rules[first].key == key))
			g->rules[i].key = rule_key(&g->def->rules[i], equal[first]++);
		else
			equal[i] = 1;
	}
	map_free(&firsts);
	free(equal);
}

static bool reads(const struct rule *by, const struct rule *what)
{
	if (!what->alerting)
		return promql_may_read(by->parsed, what->name);
	return promql_may_read(by->parsed, VIEW("ALERTS")) || promql_may_read(by->parsed, VIEW("ALERTS_FOR_STATE"));
}

static bool texts_ask(const struct rule *x)
{
	for (size_t i = 0; i < x->labels.n; i++)
		if (texts_reads(&x->label_texts[i]))
			return true;
	for (size_t i = 0; i < x->annotations.n; i++)
		if (texts_reads(&x->annotation_texts[i]))
			return true;
	return false;
}

/* The number of rules before it whose output it may read. */
static size_t waits_for(const struct rule_group *def, size_t at)
{
	if (texts_ask(&def->rules[at]))
		return at;
	for (size_t i = at; i > 0; i--)
		if (reads(&def->rules[at], &def->rules[i - 1]))
			return i;
	return 0;
}

struct live_group *group_new(struct rules *m, struct rules_config *c, const struct rule_group *def)
{
	struct live_group *g = NEW(struct live_group);
	g->m = m;
	g->config = rules_config_ref(c);
	g->def = def;
	g->metric_name = xasprintf("%.*s;%.*s", VIEW_ARG(def->file), VIEW_ARG(def->name));
	g->key = hash_stable(g->metric_name, strlen(g->metric_name));
	g->rules = xcalloc(def->n_rules + 1, sizeof *g->rules);
	mutex_init(&g->lock, RANK_RULES_GROUP, "rule group");
	mutex_init(&g->commits.lock, LOCK_LEAF, "commits");
	pthread_cond_init(&g->commits.none, NULL);
	for (size_t i = 0; i < def->n_rules; i++) {
		g->rules[i].rule = &def->rules[i];
		g->rules[i].waits_for = waits_for(def, i);
		g->rules[i].writes_state = true;
	}
	set_keys(g);
	rules_gauge(g, M_RULES, (double)def->n_rules);
	rules_gauge(g, M_INTERVAL, (double)def->interval_ms / 1000);
	rules_count(g, M_MISSED, 0);
	rules_count(g, M_FAILURES, 0);
	return g;
}

void group_free(struct live_group *g)
{
	group_settle(g);
	for (size_t i = 0; i < g->def->n_rules; i++) {
		label_sets_free(&g->rules[i].previous);
		record_types_free(&g->rules[i]);
		vec_free(&g->rules[i].delta.recorded);
		for (size_t k = 0; k < g->rules[i].alerts.n; k++)
			alert_free(g->rules[i].alerts.v[k]);
		vec_free(&g->rules[i].alerts);
	}
	free(g->rules);
	vec_free(&g->forgotten);
	rules_config_unref(g->config);
	free(g->metric_name);
	mutex_destroy(&g->lock);
	mutex_destroy(&g->commits.lock);
	pthread_cond_destroy(&g->commits.none);
	free(g);
}

int64_t group_slot(const struct live_group *g, int64_t now_ms)
{
	int64_t interval = g->def->interval_ms, offset = (int64_t)(g->key % (uint64_t)interval);
	int64_t since = (now_ms - offset) % interval;
	return now_ms - (since < 0 ? since + interval : since);
}

bool group_writes(struct live_group *g, struct labels l)
{
	struct view name = labels_get(l, VIEW(LABEL_NAME));
	bool is = false, state = view_eqs(name, "ALERTS") || view_eqs(name, "ALERTS_FOR_STATE");
	mutex_lock(&g->lock);
	for (size_t i = 0; i < g->def->n_rules && !is; i++)
		if (g->rules[i].rule->alerting ? state : view_eq(g->rules[i].rule->name, name))
			is = label_sets_has(&g->rules[i].previous, l);
	mutex_unlock(&g->lock);
	return is;
}

/* ---- batches ---- */

static void on_commit(void *arg, const struct err *e)
{
	struct commits *c = arg;
	mutex_lock(&c->lock);
	if (e->code)
		c->error = *e;
	if (!--c->outstanding)
		pthread_cond_broadcast(&c->none);
	mutex_unlock(&c->lock);
}

void group_settle(struct live_group *g)
{
	mutex_lock(&g->commits.lock);
	while (g->commits.outstanding)
		mutex_wait(&g->commits.lock, &g->commits.none);
	mutex_unlock(&g->commits.lock);
}

static void fail_rule(struct evaluation *r, struct live_rule *rule, const struct err *e)
{
	mutex_lock(&r->g->lock);
	rule->health = RULE_ERR;
	rule->error = *e;
	mutex_unlock(&r->g->lock);
	rules_count(r->g, M_FAILURES, 1);
}

static void note_written(struct evaluation *r, size_t at)
{
	struct group_output *o = &r->out;
	struct written *w = vec_add(&o->written);
	*w = (struct written){ .rule = at, .floats = o->floats.n, .profiles = o->profiles.n };
}

/* Two rules, or two alerts, may say the same: that is no problem of the later one. */
static bool said_before(const struct group_output *o, size_t at)
{
	const struct sink_float *f = &o->floats.v[at];
	for (size_t i = at; i-- && at - i <= TWINS_LOOKED_FOR;)
		if (o->floats.v[i].t_ms == f->t_ms && value_bits(o->floats.v[i].v) == value_bits(f->v) && labels_eq(o->floats.v[i].labels, f->labels))
			return true;
	return false;
}

/* That a marker is refused says that someone else writes the series. */
static void on_refused(void *arg, bool profile, size_t i, const char *why)
{
	struct evaluation *r = arg;
	struct group_output *o = &r->out;
	size_t k = 0;
	if (profile ? !o->profiles.v[i].profile : value_is_stale(o->floats.v[i].v) || said_before(o, i))
		return;
	while (k < o->written.n && (profile ? o->written.v[k].profiles : o->written.v[k].floats) <= i)
		k++;
	if (k == o->written.n)
		return;
	o->written.v[k].refused++;
	o->written.v[k].why = why;
}

/* As in Prometheus: the rule is not well, though it was evaluated. */
static void blame(struct evaluation *r)
{
	struct group_output *o = &r->out;
	for (size_t k = 0; k < o->written.n; k++) {
		const struct written *w = &o->written.v[k];
		if (!w->refused)
			continue;
		mutex_lock(&r->g->lock);
		r->g->rules[w->rule].health = RULE_ERR;
		err_set(&r->g->rules[w->rule].error, ERR_EXECUTION, "%zu of the samples that it wrote were refused: %s", w->refused, w->why);
		mutex_unlock(&r->g->lock);
	}
	o->written.n = 0;
}

/* Sends the collected writes; rules before `upto` have written them. */
static void flush(struct evaluation *r, size_t upto)
{
	struct live_group *g = r->g;
	struct group_output *o = &r->out;
	struct sink_result res = { 0 };
	struct err e = { 0 };
	const struct sink_batch b = { .profiles = o->profiles.v, .n_profiles = o->profiles.n, .floats = o->floats.v, .n_floats = o->floats.n,
				      .notes = o->notes.v, .n_notes = o->notes.n, .done = on_commit, .done_arg = &g->commits,
				      .refused = on_refused, .refused_arg = r };
	if (b.n_profiles + b.n_floats + b.n_notes) {
		mutex_lock(&g->commits.lock);
		g->commits.outstanding++;
		mutex_unlock(&g->commits.lock);
		if (g->m->o.sink->append(g->m->o.sink, &b, &res, &e)) {
			if (!g->m->o.aside)
				LOG_WARN("msg", "what rules wrote was not taken in", "group", g->metric_name, "err", e.msg);
			on_commit(&g->commits, &e);
		}
		blame(r);
		rules_count(g, M_DISCARDED, res.duplicates + res.too_old + res.too_new + res.over_series_limit);
		if (res.over_notes)
			LOG_WARN("msg", "the state of alerts is too large to be stored: after a restart they start again", "group", g->metric_name);
		output_drop_profiles(o, 0);
		o->floats.n = o->notes.n = 0;
	}
	o->written.n = 0;
	o->sent_rules = upto;
}

/* Takes the error of what was committed since the last look. */
static void take_commit_error(struct evaluation *r, size_t from, size_t upto)
{
	struct commits *c = &r->g->commits;
	mutex_lock(&c->lock);
	struct err e = c->error;
	err_clear(&c->error);
	mutex_unlock(&c->lock);
	if (e.code)
		notes_lost(r->g);
	for (size_t i = from; e.code && i < upto; i++) {
		fail_rule(r, &r->g->rules[i], &e);
		r->g->rules[i].delta.next_slot = r->g->rules[i].delta.before; /* once more */
	}
}

/* All that rules before `upto` wrote can be read from now on. */
static void make_visible(struct evaluation *r, size_t upto)
{
	struct group_output *o = &r->out;
	flush(r, upto);
	group_settle(r->g);
	take_commit_error(r, o->flushed_rules, upto);
	for (size_t i = o->flushed_rules; i < upto; i++) {
		const struct rule *x = r->g->rules[i].rule;
		promql_shared_wrote(r->shared, x->alerting ? VIEW("ALERTS") : x->name);
		if (x->alerting)
			promql_shared_wrote(r->shared, VIEW("ALERTS_FOR_STATE"));
	}
	o->flushed_rules = upto;
}

/* ---- an evaluation ---- */

static bool group_ends(const struct live_group *g)
{
	return atomic_load_explicit(rules_canceled(g), memory_order_relaxed);
}

static int evaluate_rule(struct evaluation *r, struct live_rule *rule, struct err *e)
{
	struct promql_result q;
	if (rule->rule->delta)
		return record_deltas(r, rule, e);
	int rc = rule_query(r, rule, r->t_ms, &q, e);
	if (rc)
		return rc;
	rc = rule->rule->alerting ? alert_result(r, rule, &q, e) : record_result(r, rule, &q, e);
	promql_result_release(&q);
	return rc;
}

static void run_rule(struct evaluation *r, size_t at)
{
	struct live_group *g = r->g;
	struct live_rule *rule = &g->rules[at];
	struct err e = { 0 };
	int64_t begin = clock_mono_ns();
	r->failed_texts = 0;
	if (rule->waits_for > r->out.flushed_rules)
		make_visible(r, at);
	int rc = evaluate_rule(r, rule, &e);
	int64_t took = clock_mono_ns() - begin;
	mutex_lock(&g->lock);
	rule->evaluated_ms = g->m->o.manual ? r->slot_ms : clock_now_ms();
	rule->evaluation_ns = took;
	if (!rc) {
		rule->health = RULE_OK;
		err_clear(&rule->error);
	}
	mutex_unlock(&g->lock);
	rules_count(g, M_EVALUATIONS, 1);
	rules_observe(g, M_EVALUATION_SECONDS, (double)took / 1e9);
	if (rc) {
		char *name AUTOFREE = xstrndup(rule->rule->name.ptr, rule->rule->name.len);
		if (e.code != ERR_CANCELED) /* by the program's end, or by a reload */
			fail_rule(r, rule, &e);
		if (e.code != ERR_CANCELED && !g->m->o.aside)
			LOG_WARN("msg", "evaluating a rule failed", "group", g->metric_name, "rule", name, "err", e.msg);
	} else if (rule->rule->alerting) {
		alert_tell(r, rule);
	}
	if (rule->rule->alerting)
		notes_rule(r, rule);
	note_written(r, at);
	if (r->out.floats.n > FLUSH_FLOATS || r->out.profiles.n > FLUSH_PROFILES)
		flush(r, at + 1);
}

/* Alerts are sent once their state is durable. Otherwise a receiver could hear of a firing alert, while the server, killed in between,
 * later says otherwise. A storage that cannot write does not silence them. */
static void tell(struct evaluation *r)
{
	const struct alert_sink *to = r->g->m->o.alerts;
	if (!r->told.n)
		return;
	group_settle(r->g);
	to->send(to->arg, r->told.v, r->told.n);
}

static void finish(struct evaluation *r, int64_t begin_ms, int64_t took_ns)
{
	struct live_group *g = r->g;
	mutex_lock(&g->lock);
	g->evaluated_ms = begin_ms;
	g->evaluation_ns = took_ns;
	g->shown_slot = r->slot_ms;
	mutex_unlock(&g->lock);
	rules_count(g, M_ITERATIONS, 1);
	rules_gauge(g, M_LAST_DURATION, (double)took_ns / 1e9);
	rules_gauge(g, M_LAST_EVALUATION, (double)begin_ms / 1000);
	rules_gauge(g, M_SAMPLES, (double)r->samples);
	rules_observe(g, M_GROUP_SECONDS, (double)took_ns / 1e9);
}

static void free_output(struct group_output *o)
{
	output_drop_profiles(o, 0);
	vec_free(&o->profiles);
	vec_free(&o->floats);
	vec_free(&o->notes);
	vec_free(&o->written);
	arena_free(&o->arena);
}

/* Memory used by large evaluations would stay fragmented in some threads' heaps: half of it, with 20,000 alerts. Takes a few
 * milliseconds. */
static void give_memory_back(uint64_t samples)
{
	static atomic_llong last_ns;
	long long now = clock_mono_ns(), last = atomic_load(&last_ns);
	if (samples >= MUCH && now - last >= TRIM_NS && atomic_compare_exchange_strong(&last_ns, &last, now))
		malloc_trim(0);
}

static bool takes_too_long(const struct evaluation *r)
{
	return r->g->on_trial && clock_mono_ns() - r->begin_ns > GROUP_SLOW_NS;
}

static bool loses_patience(const struct evaluation *r)
{
	return r->patient && clock_mono_ns() - r->begin_ns > r->interval_ms * 1000000 / HURRY_SHARE;
}

static void run_rules(struct evaluation *r)
{
	while (r->at < r->g->def->n_rules && !group_ends(r->g) && !takes_too_long(r) && !loses_patience(r))
		run_rule(r, r->at++);
}

static void run_rest_hurried(struct evaluation *r)
{
	r->patient = false;
	run_rules(r);
}

void group_evaluate(struct live_group *g, int64_t slot_ms)
{
	struct evaluation r = { .g = g, .slot_ms = slot_ms, .t_ms = slot_ms - g->def->query_offset_ms, .interval_ms = g->def->interval_ms,
			   .begin_ns = clock_mono_ns(), .patient = !g->m->o.manual && !g->hurried };
	int64_t begin_ms = g->m->o.manual ? slot_ms : clock_now_ms();
	arena_init(&r.out.arena, MIN(OUTPUT_MAX, (size_t)g->m->o.memory_bytes));
	group_settle(g);
	take_commit_error(&r, 0, g->def->n_rules);
	notes_forget_again(&r);
	if (g->resumed)
		notes_resume(g, slot_ms, r.interval_ms);
	r.shared = promql_shared_new(g->m->o.engine, 0);
	run_rules(&r);
	if (loses_patience(&r) && r.at < g->def->n_rules)
		rules_hurry(g->m, run_rest_hurried, &r);
	if (r.at < g->def->n_rules && !group_ends(g))
		LOG_WARN("msg", "a group takes long and others wait: its last rules are left out, this once", "group", g->metric_name,
			 "rules", LOG_NUM(g->def->n_rules - r.at));
	notes_group(&r);
	g->last_slot = slot_ms;
	g->resumed = false;
	flush(&r, r.at);
	promql_shared_free(r.shared);
	tell(&r);
	vec_free(&r.told);
	free_output(&r.out);
	if (++g->evaluations == 2 && g->restore) {
		group_settle(g);
		restore_for_state(g, begin_ms);
		g->restore = false;
	}
	finish(&r, begin_ms, clock_mono_ns() - r.begin_ns);
	give_memory_back(r.samples);
}
