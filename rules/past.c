/* SPDX-License-Identifier: Apache-2.0 */
/* Trying rules: a separate manager evaluates a file over the past, slot after slot, over an overlay, and the states of its alerts are recorded.
 * Rules that record the past: the same, into the storage. One at a time, with a separate engine beside the server's: it delays no queries. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "config/config_top.h"
#include "rules/group.h"
#include "rules/overlay.h"
#include "rules/rule_file.h"

#define FARTHEST_SLOTS 10    /* a recorded delta whose interval is more than this many of ours is not found */
#define LONGEST_GAP_MS 3600000 /* a group of a longer interval does not know what it wrote before the start */
#define MAX_EVALUATIONS 2000000
#define MAX_SAMPLES 10000000 /* 160 MB */
#define MAX_ALERTS 10000
#define ANSWER_BYTES ((size_t)64 << 20)

/* For a rule. */
struct tried_rule {
	bool wanted;                 /* as in the file; the fields below count the existing ones */
	uint64_t evaluations, failures;
	struct err error;            /* the last */
};

struct trial {
	struct sink sink;            /* first. Recorded samples go to the storage */
	struct sink *storage;
	struct source *source;       /* ... as it is read */
	struct commits commits;      /* of the storage; the error of any of them */
	const struct past_question *q;
	struct rules_config *config;
	struct tried_rule **rules;   /* by group and rule */
	struct past_answer answer;
	VEC(struct past_alert) alerts;
	VEC(struct view) warnings;
	struct map by_alert;         /* of each alert the last in alerts */
	struct {
		VEC(size_t) v;       /* alerts that have not ended */
	} open;
	VEC(int64_t) seen;           /* as many as alerts: when it was last there */
	int64_t slot;                /* that was evaluated last */
	bool cut;
};

/* ---- what alerts do ---- */

static size_t new_alert(struct trial *t, const struct status_rule_group *g, const struct status_rule *r, const struct status_alert *a)
{
	struct arena *ar = &t->answer.arena;
	struct past_alert x = { .group = arena_view(ar, g->name), .name = arena_view(ar, r->name), .labels = labels_copy(ar, a->labels),
				.active_at_ms = a->active_at_ms };
	if (t->alerts.n == MAX_ALERTS || (a->labels.n && !x.labels.v)) {
		t->cut = true;
		return SIZE_MAX;
	}
	vec_push(&t->open.v, t->alerts.n);
	vec_push(&t->alerts, x);
	vec_push(&t->seen, t->slot);
	return t->alerts.n - 1;
}

/* The index of this alert, which becomes known now if it is not; SIZE_MAX: there is no room for it. */
static size_t alert_index(struct trial *t, const struct status_rule_group *g, const struct status_rule *r, const struct status_alert *a)
{
	uint64_t hash = hash_bytes_seed(r->name.ptr, r->name.len, labels_hash(a->labels) ^ hash_view(g->name));
	uint32_t id;
	for (size_t at = map_start(&t->by_alert, hash); map_probe(&t->by_alert, hash, &at, &id);) {
		const struct past_alert *x = &t->alerts.v[id];
		if (!view_eq(x->group, g->name) || !view_eq(x->name, r->name) || !labels_eq(x->labels, a->labels))
			continue;
		if (x->active_at_ms == a->active_at_ms)
			return id;
		map_remove(&t->by_alert, hash, id);
		break;
	}
	size_t at = a->state == ALERT_INACTIVE ? SIZE_MAX : new_alert(t, g, r, a);
	if (at != SIZE_MAX)
		map_insert(&t->by_alert, hash, (uint32_t)at);
	return at;
}

static void look_at_alert(struct trial *t, const struct status_rule_group *g, const struct status_rule *r, const struct status_alert *a)
{
	size_t at = alert_index(t, g, r, a);
	if (at == SIZE_MAX || t->alerts.v[at].ended_at_ms)
		return;
	struct past_alert *x = &t->alerts.v[at];
	t->seen.v[at] = t->slot;
	x->value = a->value;
	x->fired_at_ms = x->fired_at_ms ? x->fired_at_ms : a->fired_at_ms;
	x->ended_at_ms = a->state == ALERT_INACTIVE ? a->resolved_at_ms : 0;
}

/* Alerts that are no longer in the group, and resolved ones. */
static void close_alerts(struct trial *t, const struct status_rule_group *g)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->open.v.n; i++) {
		size_t at = t->open.v.v[i];
		struct past_alert *x = &t->alerts.v[at];
		if (!x->ended_at_ms && t->seen.v[at] != t->slot && view_eq(x->group, g->name))
			x->ended_at_ms = t->slot;
		if (!x->ended_at_ms)
			t->open.v.v[kept++] = at;
	}
	t->open.v.n = kept;
}

static void count_rule(struct trial *t, const struct status_rule_group *g, size_t at)
{
	size_t i = 0;
	while (!view_eq(t->config->groups[i].name, g->name))
		i++;
	struct tried_rule *x = &t->rules[i][at];
	x->evaluations++;
	t->answer.evaluations++;
	if (g->rules[at].last_error.len) {
		x->failures++;
		err_set(&x->error, ERR_EXECUTION, "%.*s", VIEW_ARG(g->rules[at].last_error));
	}
}

static bool look(void *arg, const struct status_rule_group *g)
{
	struct trial *t = arg;
	if (g->last_slot_ms != t->slot)
		return true;
	for (size_t i = 0; i < g->n_rules; i++) {
		count_rule(t, g, i);
		for (size_t k = 0; k < g->rules[i].n_alerts; k++)
			look_at_alert(t, g, &g->rules[i], &g->rules[i].alerts[k]);
	}
	close_alerts(t, g);
	t->cut |= g->cut;
	return true;
}

/* ---- what is recorded ---- */

struct way {
	struct trial *t;
	void (*done)(void *arg, const struct err *e);
	void *arg;
};

static void on_stored(void *arg, const struct err *e)
{
	struct way *w = arg;
	mutex_lock(&w->t->commits.lock);
	if (e->code)
		w->t->commits.error = *e;
	mutex_unlock(&w->t->commits.lock);
	if (w->done)
		w->done(w->arg, e);
	free(w);
}

/* A profile that is about to be stored, and whether its time is there already. */
struct past_slot {
	const struct sink_profile *p;
	bool there;
};

/* Whether a series has something of that time, whatever its stamps are: slots of another file, or of another interval, lie elsewhere. */
static int past_note_covers(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	(void)series, (void)e;
	struct past_slot *slot = arg;
	for (size_t i = 0; i < n; i++)
		slot->there |= v[i].t_ms - (v[i].stale ? 1 : MAX(v[i].cover_ms, 1)) < slot->p->t_ms;
	free(v);
	return 0;
}

/* Of deltas that would count twice, storage refuses only those of equal stamps. */
static int is_there(struct source_view *v, const struct sink_profile *p, bool *ret, struct err *e)
{
	struct labels l = p->columns[0].labels;
	struct matcher *m = xcalloc(l.n + 1, sizeof *m);
	struct source_series *found = NULL;
	struct past_slot slot = { .p = p };
	VEC(uint64_t) refs = { 0 };
	size_t n = 0;
	int64_t after = p->t_ms - MAX(p->cover_ms, 1), until = p->t_ms + FARTHEST_SLOTS * p->cover_ms;
	for (size_t i = 0; i < l.n; i++)
		m[i] = (struct matcher){ .op = MATCH_EQ, .name = l.v[i].name, .value = l.v[i].value };
	int rc = v->ops->select(v, m, l.n, after, until, NULL, &found, &n, e);
	for (size_t i = 0; i < n && !rc; i++)
		if (found[i].type && labels_eq(found[i].labels, l))
			vec_push(&refs, found[i].ref);
	if (!rc && refs.n)
		rc = v->ops->profiles(v, refs.v, refs.n, after, until, NULL, past_note_covers, &slot, e);
	*ret = slot.there;
	vec_free(&refs);
	free(found);
	free(m);
	return rc;
}

/* Those that are not stored yet; *ret: as many as b has, owned. */
static int new_profiles(struct trial *t, const struct sink_batch *b, struct sink_profile **ret, size_t *ret_n, struct err *e)
{
	struct source_view *v;
	*ret_n = 0;
	*ret = NULL;
	if (!b->n_profiles)
		return 0;
	int rc = t->source->open(t->source, &v, e);
	if (rc)
		return rc;
	*ret = xcalloc(b->n_profiles, sizeof **ret);
	for (size_t i = 0; i < b->n_profiles && !rc; i++) {
		bool there;
		rc = is_there(v, &b->profiles[i], &there, e);
		if (!rc && !there)
			(*ret)[(*ret_n)++] = b->profiles[i];
		t->answer.there += !rc && there && b->profiles[i].profile;
	}
	v->ops->release(v);
	return rc;
}

/* From the start on; notes are those of the rules at work. */
static int store(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct trial *t = (struct trial *)(void *)s;
	const struct err none = { 0 };
	struct sink_result r = { 0 };
	struct sink_batch out = { .floats = b->floats, .n_floats = b->n_floats, .done = on_stored };
	struct sink_profile *profiles = NULL;
	int rc = t->slot < t->q->start_ms ? 0 : new_profiles(t, b, &profiles, &out.n_profiles, e);
	if (!rc && (t->slot < t->q->start_ms || !(b->n_floats + out.n_profiles))) {
		if (b->done)
			b->done(b->done_arg, &none);
		free(profiles);
		return 0;
	}
	struct way *w = NEW(struct way);
	*w = (struct way){ t, b->done, b->done_arg };
	out.done_arg = w;
	out.profiles = profiles;
	rc = rc ? rc : t->storage->append(t->storage, &out, &r, e);
	free(profiles);
	if (rc) {
		t->commits.error = *e;
		free(w);
		return rc;
	}
	t->answer.written += r.floats + r.profiles;
	t->answer.there += r.duplicates;
	t->answer.refused += r.too_old + r.too_new + r.over_series_limit;
	if (ret)
		*ret = r;
	return 0;
}

/* The writes of a group in the slot before the start show which series end, so that the parts of a time give the same as the whole. */
static int64_t begin_before(const struct trial *t)
{
	int64_t longest = 0;
	for (size_t g = 0; g < t->config->n_groups && t->q->record; g++)
		longest = MAX(longest, MIN(t->config->groups[g].interval_ms, LONGEST_GAP_MS));
	return MAX(t->q->start_ms - longest, 1);
}

/* ---- the evaluation ---- */

static int check_time(const struct trial *t, int64_t deadline_ns, struct err *e)
{
	char when[RFC3339_LEN];
	if (atomic_load_explicit(t->q->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "the client has left");
	if (clock_mono_ns() < deadline_ns)
		return 0;
	return err_set(e, ERR_TIMEOUT, "there was no time for more than what is before %s: ask for a shorter time, or with a longer timeout",
		       clock_rfc3339_ms(t->slot, when));
}

static int step_through(struct trial *t, struct rules *m, struct err *e)
{
	int64_t deadline_ns = clock_mono_ns() + t->q->timeout_ms * 1000000, next;
	struct status_rules *s = rules_status(m);
	rules_step(m, begin_before(t) - 1); /* the groups begin after it */
	int rc = rules_apply(m, t->config, e);
	for (next = rules_step(m, begin_before(t) - 1); !rc && next <= t->q->end_ms;) {
		t->slot = next;
		next = rules_step(m, t->slot);
		s->groups(s, &(struct status_rules_query){ true, look, t });
		if (t->q->record && t->slot >= t->q->start_ms && clock_mono_ns() >= deadline_ns)
			break;
		rc = check_time(t, t->q->record ? INT64_MAX : deadline_ns, e);
	}
	t->answer.next_ms = t->q->record && next <= t->q->end_ms ? next : 0;
	return rc;
}

static void warn(struct trial *t, const char *text)
{
	vec_push(&t->warnings, arena_view(&t->answer.arena, view_of(text)));
}

static void tell_failures(struct trial *t)
{
	for (size_t g = 0; g < t->config->n_groups; g++)
		for (size_t i = 0; i < t->config->groups[g].n_rules; i++) {
			const struct tried_rule *x = &t->rules[g][i];
			if (!x->failures)
				continue;
			char *text AUTOFREE = xasprintf("%.*s of group %.*s failed %llu of %llu times, at last: %s",
							VIEW_ARG(t->config->groups[g].rules[i].name), VIEW_ARG(t->config->groups[g].name),
							(unsigned long long)x->failures, (unsigned long long)x->evaluations, x->error.msg);
			warn(t, text);
		}
}

typedef VEC(struct view) views;

/* Deltas are recorded as late as the server does it. */
static int try_over(struct trial *t, struct rules *m, const struct overlay_hidden *hidden, int64_t late_ms, struct err *e)
{
	struct overlay *over = overlay_new(m->o.queried, hidden, MAX_SAMPLES, m->o.memory_bytes);
	const struct rules_options o = { .engine = promql_engine_beside(m->o.engine, overlay_source(over)), .source = overlay_source(over),
					 .sink = overlay_sink(over), .external_url = m->external_url, .late_ms = late_ms > 0 ? late_ms : -1, .manual = true,
					 .no_restore = true, .aside = true, .memory_bytes = m->o.memory_bytes, .canceled = t->q->canceled };
	struct rules *own = NULL;
	int rc = rules_new(&own, &o, e);
	if (!rc)
		rc = step_through(t, own, e);
	rules_free(own);
	promql_engine_free(o.engine);
	overlay_free(over);
	return rc;
}

static int record_all(struct trial *t, struct rules *m, struct err *e)
{
	const struct rules_options o = { .engine = promql_engine_beside(m->o.engine, m->o.queried), .source = m->o.source, .sink = &t->sink,
					 .external_url = m->external_url, .late_ms = -1, .manual = true, .no_restore = true, .aside = true, .memory_bytes = m->o.memory_bytes,
					 .canceled = t->q->canceled };
	struct rules *own = NULL;
	t->sink.append = store;
	t->storage = m->o.sink;
	t->source = m->o.source;
	mutex_init(&t->commits.lock, LOCK_LEAF, "commits");
	int rc = rules_new(&own, &o, e);
	if (!rc)
		rc = step_through(t, own, e);
	rules_free(own); /* all of it is durable, or has failed */
	promql_engine_free(o.engine);
	if (!rc && t->commits.error.code) {
		*e = t->commits.error;
		rc = -(int)e->code;
	}
	mutex_destroy(&t->commits.lock);
	return rc;
}

/* The writes of the rules. */
static int try_all(struct trial *t, struct rules *m, const struct rules_config *like, struct err *e)
{
	views names = { 0 }, alerts = { 0 };
	for (size_t g = 0; g < t->config->n_groups; g++)
		for (size_t i = 0; i < t->config->groups[g].n_rules; i++) {
			const struct rule *x = &t->config->groups[g].rules[i];
			if (x->alerting)
				vec_push(&alerts, x->name);
			else
				vec_push(&names, x->name);
		}
	const struct overlay_hidden hidden = { names.v, names.n, alerts.v, alerts.n };
	int rc = try_over(t, m, &hidden, like ? like->late_ms : -1, e);
	vec_free(&names);
	vec_free(&alerts);
	return rc;
}

/* ---- what is asked ---- */

static bool anyone_reads(const struct rules_config *c, const struct rule *what)
{
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n_rules; i++)
			if (&c->groups[g].rules[i] != what && promql_may_read(c->groups[g].rules[i].parsed, what->name))
				return true;
	return false;
}

static struct view base_of(struct view path)
{
	const char *slash = memrchr(path.ptr, '/', path.len);
	return slash ? view_make(slash + 1, (size_t)(path.ptr + path.len - slash) - 1) : path;
}

/* The server's group of that name, in a file of that name: its slots are those of this one. */
static void take_slots(struct rule_group *def, const struct rules_config *like)
{
	for (size_t i = 0; like && i < like->n_groups; i++)
		if (view_eq(like->groups[i].name, def->name) && view_eq(base_of(like->groups[i].file), base_of(def->file))) {
			def->file = like->groups[i].file;
			return;
		}
}

/* Recording skips alerts; trying skips profiles that no rule reads. */
static void leave_out(struct trial *t, const struct rules_config *like)
{
	for (size_t g = 0; g < t->config->n_groups; g++)
		for (size_t i = 0; i < t->config->groups[g].n_rules; i++) {
			const struct rule *x = &t->config->groups[g].rules[i];
			t->rules[g][i].wanted = t->q->record ? !x->alerting : !x->profiles || anyone_reads(t->config, x);
		}
	for (size_t g = 0; g < t->config->n_groups; g++) {
		struct rule_group *def = (struct rule_group *)&t->config->groups[g];
		struct rule *rules = (struct rule *)def->rules;
		size_t n = 0;
		for (size_t i = 0; i < def->n_rules; i++)
			if (t->rules[g][i].wanted)
				rules[n++] = rules[i];
			else
				rule_release(&rules[i]);
		def->n_rules = n;
		take_slots(def, like);
	}
}

static int check_size(const struct trial *t, struct err *e)
{
	double n = 0;
	if (t->q->start_ms > t->q->end_ms)
		return err_set(e, ERR_BAD_DATA, "the end is before the start");
	for (size_t g = 0; g < t->config->n_groups; g++)
		n += ((double)(t->q->end_ms - t->q->start_ms) / (double)t->config->groups[g].interval_ms + 1) * (double)t->config->groups[g].n_rules;
	if (n <= MAX_EVALUATIONS)
		return 0;
	return err_set(e, ERR_LIMIT, "%.0f evaluations of rules are more than %d: ask for a shorter time", n, MAX_EVALUATIONS);
}

/* As the server would read it now. *ret_like is held for what it borrows. */
static int read_rules(struct rules *m, const struct past_question *q, struct rules_config **ret, struct rules_config **ret_like, struct err *e)
{
	struct config_global g = { .scrape_interval_ms = 60000, .scrape_timeout_ms = 10000, .evaluation_interval_ms = 60000 };
	mutex_lock(&m->lock);
	struct rules_config *like = m->config ? rules_config_ref(m->config) : NULL;
	mutex_unlock(&m->lock);
	if (like && like->evaluation_interval_ms) {
		g.evaluation_interval_ms = like->evaluation_interval_ms;
		g.rule_query_offset_ms = like->query_offset_ms;
	}
	char *name AUTOFREE = xstrndup(q->name.ptr, q->name.len);
	int rc = rules_config_read(ret, q->text, name, &g, NULL, e);
	if (!rc && like)
		(*ret)->external_labels = like->external_labels;
	*ret_like = like;
	return rc;
}

static const void *keep(struct arena *a, const void *p, size_t n)
{
	void *copy = n ? arena_alloc(a, n) : NULL;
	return copy ? memcpy(copy, p, n) : NULL;
}

static void finish(struct trial *t, struct past_answer *ret)
{
	struct past_answer *a = &t->answer;
	tell_failures(t);
	a->alerts = keep(&a->arena, t->alerts.v, t->alerts.n * sizeof *t->alerts.v);
	a->warnings = keep(&a->arena, t->warnings.v, t->warnings.n * sizeof *t->warnings.v);
	a->n_alerts = a->alerts ? t->alerts.n : 0;
	a->n_warnings = a->warnings ? t->warnings.n : 0;
	a->cut = t->cut || a->n_alerts < t->alerts.n;
	*ret = *a;
}

static int try_text(struct rules *m, const struct past_question *q, struct past_answer *ret, struct err *e)
{
	struct trial t = { .q = q };
	struct rules_config *like = NULL;
	int rc = read_rules(m, q, &t.config, &like, e);
	arena_init(&t.answer.arena, MIN(ANSWER_BYTES, (size_t)m->o.memory_bytes));
	if (!rc) {
		t.rules = xcalloc(t.config->n_groups + 1, sizeof *t.rules);
		for (size_t g = 0; g < t.config->n_groups; g++)
			t.rules[g] = xcalloc(t.config->groups[g].n_rules + 1, sizeof **t.rules);
		leave_out(&t, like);
		rc = check_size(&t, e);
		if (!rc)
			rc = q->record ? record_all(&t, m, e) : try_all(&t, m, like, e);
		if (!rc)
			finish(&t, ret);
		for (size_t g = 0; g < t.config->n_groups; g++)
			free(t.rules[g]);
		free(t.rules);
		rules_config_unref(t.config);
	}
	if (rc)
		arena_free(&t.answer.arena);
	rules_config_unref(like);
	vec_free(&t.alerts);
	vec_free(&t.warnings);
	vec_free(&t.open.v);
	vec_free(&t.seen);
	map_free(&t.by_alert);
	return rc;
}

static int evaluate(struct rules_past *p, const struct past_question *q, struct past_answer *ret, struct err *e)
{
	struct rules *m = (struct rules *)(void *)((char *)p - offsetof(struct rules, past));
	if (atomic_exchange(&m->past_at_work, true))
		return err_set(e, ERR_BUSY, "other rules are being tried: try again later");
	int rc = try_text(m, q, ret, e);
	atomic_store(&m->past_at_work, false);
	return rc;
}

struct rules_past *rules_past(struct rules *m)
{
	m->past.evaluate = evaluate;
	return &m->past;
}
