/* SPDX-License-Identifier: Apache-2.0 */
/* The scraper as the page shows it. There may be 100,000 endpoints, and scrapes need the lock. So a reader first takes a reference of
 * each, and then, CHUNK at a time, copies the changing fields of the selected ones. Everything else (texts, searching, handing out)
 * happens without the lock. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "scraper/internal.h"

#define CHUNK 64            /* endpoints looked at under one lock */
#define STEPS_ARENA ((size_t)16 << 20)

/* A group with targets that are not scraped, and the data to report them. */
struct lost {
	const struct discovery_group *group; /* reference */
	struct scraper_config *config;       /* reference; job points into it */
	const struct job_config *job;
	struct dropped_type *v;                   /* owned, with their problems */
	size_t n;
};

/* A job with what it had when it was asked. */
struct shown_job {
	char *name;
	struct setup *setup;             /* reference */
	const struct job_config *job;    /* of the setup */
	struct endpoint **endpoints;     /* references */
	size_t n;
	VEC(struct lost) lost;
	size_t dropped, failed, rows;    /* targets without any type, rows that have a problem, all rows */
};

struct parts {
	VEC(struct shown_job) v;
};

/* The changing fields of an endpoint, copied. */
struct row {
	enum target_health health;
	const struct discovery_group *group; /* reference */
	uint32_t group_target;
	struct scraper_config *config;       /* reference; job and type point into it */
	const struct job_config *job;
	const struct type_config *type;
	char *error, *lost, *note;
	int64_t last_scrape_ms, last_duration_ns, last_bytes, last_samples, interval_ms, timeout_ms;
};

static struct scraper *scraper_of(struct status_targets *st)
{
	return (struct scraper *)((char *)st - offsetof(struct scraper, status));
}

static enum target_health health(const struct endpoint *ep)
{
	switch (ep->outcome) {
	case OUTCOME_OK: return TARGET_UP;
	case OUTCOME_UNKNOWN:
	case OUTCOME_ABSENT: return TARGET_UNKNOWN; /* not served there: neither good nor bad */
	default: return TARGET_DOWN;
	}
}

static bool is_secret_label(struct view name)
{
	struct view param = VIEW("__param_");
	return view_starts(name, param) && config_secret_name(view_make(name.ptr + param.len, name.len - param.len));
}

void shown_free(struct shown_labels *s)
{
	labels_builder_free(&s->b);
	for (size_t i = 0; i < s->texts.n; i++)
		free(s->texts.v[i]);
	vec_free(&s->texts);
}

/* The displayed form of a value that is a URL or its path; the value itself if there is nothing to hide. */
static struct view shown_url(struct shown_labels *s, struct view value)
{
	struct buf b = { 0 };
	config_redact_url(value, &b);
	if (view_eq(buf_view(&b), value)) {
		buf_free(&b);
		return value;
	}
	size_t n;
	vec_push(&s->texts, buf_take(&b, &n));
	return view_make(s->texts.v[s->texts.n - 1], n);
}

static struct view shown_value(struct shown_labels *s, const struct label *l)
{
	if (is_secret_label(l->name))
		return VIEW("<secret>");
	bool path = view_eqs(l->name, "__profile_path__") || view_eqs(l->name, "__metrics_path__");
	return path || view_contains(l->value, VIEW("://")) ? shown_url(s, l->value) : l->value;
}

struct labels shown_labels(struct shown_labels *s, struct labels l)
{
	bool copied = false;
	for (size_t i = 0; i < l.n; i++) {
		struct view value = shown_value(s, &l.v[i]);
		if (value.ptr == l.v[i].value.ptr)
			continue;
		if (!copied)
			labels_builder_init(&s->b, l);
		copied = true;
		labels_builder_set(&s->b, l.v[i].name, value);
	}
	return copied ? labels_builder_finish(&s->b) : l;
}

/* ---- what there is ---- */

static void take_endpoints(struct shown_job *t, const struct scrape_pool *p)
{
	t->n = p->endpoints.n;
	t->endpoints = xcalloc(t->n, sizeof(struct endpoint *));
	for (size_t i = 0; i < t->n; i++) {
		t->endpoints[i] = p->endpoints.v[i];
		t->endpoints[i]->refs++;
	}
}

/* n: at most this many rows of it. */
static void take_lost(struct shown_job *t, const struct pool_group *g, size_t n)
{
	struct lost *l = vec_add(&t->lost);
	*l = (struct lost){ discovery_group_ref(g->group), scraper_config_ref(g->config), g->job, xcalloc(n, sizeof *l->v), n };
	memcpy(l->v, g->dropped.v, n * sizeof *l->v);
	for (size_t i = 0; g->failed && i < n; i++)
		l->v[i].problem = l->v[i].problem ? xstrdup(l->v[i].problem) : NULL;
}

/* Targets of a group whose types are all dropped; the rows of one target follow each other. */
static size_t count_lost(const struct pool_group *g)
{
	size_t types = 0, targets = 0;
	for (size_t i = 0; i < g->job->n_types; i++)
		types += g->job->types[i].enabled;
	for (size_t i = 0, run = 0; i < g->dropped.n; i++) {
		run = i && g->dropped.v[i - 1].target == g->dropped.v[i].target ? run + 1 : 1;
		targets += run == types;
	}
	return targets;
}

static void take_dropped(struct shown_job *t, const struct scrape_pool *p, bool rows)
{
	size_t room = t->job->keep_dropped_targets ? (size_t)t->job->keep_dropped_targets : SIZE_MAX;
	for (size_t i = 0; i < p->groups.n; i++) {
		const struct pool_group *g = p->groups.v[i];
		if (!g->dropped.n)
			continue;
		t->rows += g->dropped.n;
		t->dropped += count_lost(g);
		t->failed += g->failed;
		size_t n = rows ? MIN(g->dropped.n, room) : 0;
		if (n)
			take_lost(t, g, n);
		room -= n;
	}
}

static void take_parts(struct scraper *s, struct view pool, bool endpoints, bool dropped, struct parts *ret)
{
	*ret = (struct parts){ 0 };
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->pools.n; i++) {
		const struct scrape_pool *p = s->pools.v[i];
		if (pool.len && !view_eqs(pool, p->name))
			continue;
		struct shown_job *t = vec_add(&ret->v);
		t->name = xstrdup(p->name);
		t->setup = setup_ref(pool_setup(p));
		t->job = t->setup->job;
		if (endpoints)
			take_endpoints(t, p);
		take_dropped(t, p, dropped);
	}
	mutex_unlock(&s->lock);
}

static void free_lost(struct lost *l)
{
	discovery_group_unref(l->group);
	scraper_config_unref(l->config);
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].problem);
	free(l->v);
}

static void free_part(struct scraper *s, struct shown_job *t)
{
	for (size_t i = 0; i < t->n;) {
		mutex_lock(&s->lock);
		for (size_t end = MIN(i + CHUNK, t->n); i < end; i++)
			endpoint_unref(t->endpoints[i]);
		mutex_unlock(&s->lock);
	}
	for (size_t i = 0; i < t->lost.n; i++)
		free_lost(&t->lost.v[i]);
	free(t->endpoints);
	vec_free(&t->lost);
	free(t->name);
	setup_unref(t->setup);
}

static void free_parts(struct scraper *s, struct parts *p)
{
	for (size_t i = 0; i < p->v.n; i++)
		free_part(s, &p->v.v[i]);
	vec_free(&p->v);
}

/* The position of a walk over selected rows. */
struct walk {
	const struct status_query *q;
	bool (*row)(void *arg, const struct status_target *t);
	bool (*dropped)(void *arg, const struct status_dropped *d);
	void *arg;
	size_t matched;
	bool ended;             /* the reader wants no more */
};

/* Whether to show the next matching one; count: it is counted here, otherwise it was counted before. */
static bool take_one(struct walk *w, bool count)
{
	if (!count)
		return true;
	size_t at = w->matched++;
	return at >= w->q->offset && (!w->q->limit || at - w->q->offset < w->q->limit);
}

/* ---- active ---- */

static void row_copy(struct row *r, const struct endpoint *ep, enum target_health h, char *lost)
{
	*r = (struct row){ .health = h, .group = discovery_group_ref(ep->group), .group_target = ep->group_target,
			   .config = scraper_config_ref(ep->config), .job = ep->job, .type = ep->type, .error = ep->last_error ? xstrdup(ep->last_error) : NULL, .note = ep->note ? xstrdup(ep->note) : NULL,
			   .lost = lost, .last_scrape_ms = ep->last_scrape_ms, .last_duration_ns = ep->last_duration_ns,
			   .last_bytes = ep->last_bytes, .last_samples = ep->last_samples, .interval_ms = ep->interval_ms,
			   .timeout_ms = ep->deadline_ms };
}

static void row_free(struct row *r)
{
	discovery_group_unref(r->group);
	scraper_config_unref(r->config);
	free(r->error);
	free(r->lost);
	free(r->note);
}

static struct view text_of(const char *s)
{
	return view_of(s ? s : "");
}

/* ep's name, url and target's labels never change. */
static void show_row(struct walk *w, const struct shown_job *p, const struct endpoint *ep, const struct row *r)
{
	struct shown_labels before = { 0 };
	struct buf url = { 0 };
	struct labels *discovered AUTOFREE = target_discovered(r->job, r->type, r->group->labels, r->group->targets[r->group_target]);
	char *lost AUTOFREE = r->lost ? xasprintf("not stored: %s", r->lost) : NULL;
	config_redact_url(view_of(ep->url), &url);
	struct status_target t = {
		.pool = view_of(p->name), .discovered = shown_labels(&before, *discovered), .labels = *ep->target->labels,
		.scrape_url = buf_view(&url), .global_url = buf_view(&url), .socket = text_of(ep->socket), .profile = view_of(ep->name),
		.last_error = lost ? view_of(lost) : text_of(r->error), .note = text_of(r->note), .last_scrape_ms = r->last_scrape_ms,
		.last_duration_ns = r->last_duration_ns, .last_bytes = r->last_bytes, .last_samples = r->last_samples,
		.interval_ms = r->interval_ms, .timeout_ms = r->timeout_ms, .health = r->health,
	};
	if (status_target_has(&t, w->q->search) && take_one(w, w->q->search.len > 0))
		w->ended = !w->row(w->arg, &t);
	shown_free(&before);
	buf_free(&url);
}

/* Without a search the selection is known under the lock; with one, all must be read. */
static void walk_chunk(struct walk *w, struct scraper *s, const struct shown_job *p, size_t from, size_t n)
{
	const struct endpoint *found[CHUNK];
	struct row rows[CHUNK];
	size_t have = 0;
	unsigned wanted = w->q->health ? w->q->health : HEALTH_ANY;
	mutex_lock(&s->lock);
	for (size_t i = from; i < from + n; i++) {
		const struct endpoint *ep = p->endpoints[i];
		char *lost = receipt_failure(ep->receipt);
		enum target_health h = lost ? TARGET_DOWN : health(ep);
		if (!(wanted & HEALTH_BIT(h)) || (!w->q->search.len && !take_one(w, true))) {
			free(lost);
			continue;
		}
		row_copy(&rows[have], ep, h, lost);
		found[have++] = ep;
	}
	mutex_unlock(&s->lock);
	for (size_t i = 0; i < have; i++) {
		if (!w->ended)
			show_row(w, p, found[i], &rows[i]);
		row_free(&rows[i]);
	}
}

/* Discovery may find targets in any order, and one that leaves moves another. Labels, names and URLs never change. */
static int status_endpoint_order(const void *a, const void *b)
{
	const struct endpoint *x = *(struct endpoint *const *)a, *y = *(struct endpoint *const *)b;
	int c = x->target == y->target ? 0 : labels_cmp(*x->target->labels, *y->target->labels);
	c = c ? c : strcmp(x->name, y->name);
	return c ? c : strcmp(x->url, y->url);
}

size_t status_active(struct status_targets *st, const struct status_query *q,
		     bool (*row)(void *arg, const struct status_target *t), void *arg)
{
	struct scraper *s = scraper_of(st);
	struct walk w = { .q = q, .row = row, .arg = arg };
	struct parts parts;
	take_parts(s, q->pool, true, false, &parts);
	for (size_t i = 0; i < parts.v.n; i++) {
		const struct shown_job *p = &parts.v.v[i];
		if (p->n && !w.ended)
			qsort(p->endpoints, p->n, sizeof *p->endpoints, status_endpoint_order);
		for (size_t k = 0; k < p->n && !w.ended; k += CHUNK)
			walk_chunk(&w, s, p, k, MIN(p->n - k, (size_t)CHUNK));
	}
	free_parts(s, &parts);
	return w.matched;
}

/* ---- dropped ---- */

static char *why_dropped(const struct job_config *j, const struct dropped_type *d)
{
	if (d->problem)
		return xstrdup(d->problem);
	if (d->rule >= j->relabel.n)
		return NULL;
	if (d->rule == UINT16_MAX)
		return xstrdup("relabel_configs, a rule after the first 65535");
	return xasprintf("relabel_configs, rule %u: %s", d->rule + 1u, relabel_action_text(j->relabel.v[d->rule].action));
}

static void show_dropped(struct walk *w, const struct shown_job *p, const struct lost *l, const struct dropped_type *one)
{
	struct shown_labels before = { 0 };
	if (!w->q->search.len && !take_one(w, true))
		return;
	struct labels *discovered AUTOFREE = target_discovered(l->job, &l->job->types[one->type], l->group->labels,
							       l->group->targets[one->target]);
	struct status_dropped d = { .pool = view_of(p->name), .discovered = shown_labels(&before, *discovered),
				    .profile = l->job->types[one->type].metrics ? VIEW("metrics") : labels_get(*discovered, VIEW(LABEL_NAME)), .failed = one->problem != NULL };
	char *why AUTOFREE = why_dropped(l->job, one);
	d.reason = text_of(why);
	if (status_dropped_has(&d, w->q->search) && take_one(w, w->q->search.len > 0))
		w->ended = !w->dropped(w->arg, &d);
	shown_free(&before);
}

static void walk_lost(struct walk *w, const struct shown_job *p)
{
	for (size_t i = 0; i < p->lost.n; i++)
		for (size_t k = 0; k < p->lost.v[i].n && !w->ended; k++)
			show_dropped(w, p, &p->lost.v[i], &p->lost.v[i].v[k]);
}

/* Within a group targets are in the order in which discovery has them. */
static int status_lost_order(const void *a, const void *b)
{
	const struct lost *x = a, *y = b;
	return strcmp(x->group->source, y->group->source);
}

size_t status_dropped(struct status_targets *st, const struct status_query *q,
		      bool (*row)(void *arg, const struct status_dropped *d), void *arg)
{
	struct scraper *s = scraper_of(st);
	struct walk w = { .q = q, .dropped = row, .arg = arg };
	struct parts parts;
	take_parts(s, q->pool, false, true, &parts);
	for (size_t i = 0; i < parts.v.n; i++) {
		struct shown_job *p = &parts.v.v[i];
		if (p->lost.n)
			qsort(p->lost.v, p->lost.n, sizeof *p->lost.v, status_lost_order);
		walk_lost(&w, p);
	}
	free_parts(s, &parts);
	return w.matched;
}

/* ---- jobs ---- */

/* A target is down if one of its types is, and up if one is and none is down. */
static void count_target(const struct target *t, struct status_job *j)
{
	bool up = false, down = false;
	for (size_t i = 0; i < t->endpoints.n; i++) {
		up |= health(t->endpoints.v[i]) == TARGET_UP;
		down |= health(t->endpoints.v[i]) == TARGET_DOWN;
	}
	j->targets++;
	j->down += down;
	j->up += up && !down;
}

static void count_job(struct scraper *s, const struct shown_job *p, struct status_job *j)
{
	for (size_t i = 0; i < p->n;) {
		mutex_lock(&s->lock);
		for (size_t end = MIN(i + CHUNK, p->n); i < end; i++) {
			const struct target *t = p->endpoints[i]->target;
			if (t->endpoints.n && t->endpoints.v[0] == p->endpoints[i])
				count_target(t, j);
		}
		mutex_unlock(&s->lock);
	}
}

/* Sources, with texts of their own: those of discovery are lent for one call. */
struct sources {
	VEC(struct status_source) v;
	struct arena texts;
};

static struct view keep_text(struct sources *k, const char *s)
{
	return s && s[0] ? arena_view(&k->texts, view_of(s)) : VIEW("");
}

static void add_source(void *arg, const struct discovery_status *d)
{
	struct sources *k = arg;
	vec_push(&k->v, (struct status_source){
		.kind = view_of(d->kind), .role = keep_text(k, d->role), .name = keep_text(k, d->name), .groups = d->groups,
		.targets = d->targets, .ready = d->ready, .error = keep_text(k, d->problem), .error_since_ms = d->problem_since_ms,
		.changed_ms = d->changed_ms });
}

/* Objects of a cluster that are jobs, or should be; there may be as many as jobs. */
struct job_objects {
	struct object_statuses all;
	struct map by_job;       /* hash of the job's name -> place */
};

static void take_objects(struct scraper *s, struct job_objects *ret)
{
	*ret = (struct job_objects){ 0 };
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->objects.v.n; i++) {
		struct object_status o = s->objects.v.v[i];
		o.job = xstrdup(o.job);
		o.problem = o.problem ? xstrdup(o.problem) : NULL;
		vec_push(&ret->all.v, o);
	}
	mutex_unlock(&s->lock);
	for (size_t i = 0; i < ret->all.v.n; i++)
		map_insert(&ret->by_job, hash_view(view_of(ret->all.v.v[i].job)), (uint32_t)i);
}

/* The objects that are that job, as sources of it; those are shown then. Texts are borrowed of objects. */
static void add_objects(struct sources *k, struct job_objects *objects, const char *job)
{
	uint64_t hash = hash_view(view_of(job));
	uint32_t id;
	for (size_t at = map_start(&objects->by_job, hash); map_probe(&objects->by_job, hash, &at, &id);) {
		struct object_status *o = &objects->all.v.v[id];
		if (o->shown || strcmp(o->job, job) != 0)
			continue;
		o->shown = true;
		vec_push(&k->v, (struct status_source){ .kind = view_of(o->kind), .name = view_of(o->job), .ready = true,
							.error = o->problem ? view_of(o->problem) : VIEW(""),
							.error_since_ms = o->problem ? o->problem_ms : 0 });
	}
}

/* For malformed objects that never were a job. */
static void show_objects(struct job_objects *objects, void (*job)(void *arg, const struct status_job *j), void *arg)
{
	struct sources k = { 0 };
	for (size_t i = 0; i < objects->all.v.n; i++) {
		const char *name = objects->all.v.v[i].job;
		k.v.n = 0;
		add_objects(&k, objects, name);
		if (k.v.n)
			job(arg, &(struct status_job){ .pool = view_of(name), .sources = k.v.v, .n_sources = k.v.n });
	}
	vec_free(&k.v);
}

static void show_job(struct scraper *s, const struct shown_job *p, struct job_objects *objects,
		     void (*job)(void *arg, const struct status_job *j), void *arg)
{
	struct sources k = { 0 };
	arena_init(&k.texts, 0);
	discovery_each_status(p->setup->discovery, add_source, &k);
	add_objects(&k, objects, p->name);
	struct status_job j = { .pool = view_of(p->name), .endpoints = p->n, .dropped = p->dropped, .dropped_rows = p->rows,
				.failed = p->failed, .sources = k.v.v, .n_sources = k.v.n };
	count_job(s, p, &j);
	job(arg, &j);
	vec_free(&k.v);
	arena_free(&k.texts);
}

void object_statuses_release(struct object_statuses *o)
{
	for (size_t i = 0; i < o->v.n; i++) {
		free(o->v.v[i].job);
		free(o->v.v[i].problem);
	}
	vec_free(&o->v);
}

void status_jobs(struct status_targets *st, void (*job)(void *arg, const struct status_job *j), void *arg)
{
	struct scraper *s = scraper_of(st);
	struct parts parts;
	struct job_objects objects;
	take_parts(s, VIEW(""), true, false, &parts);
	take_objects(s, &objects);
	for (size_t i = 0; i < parts.v.n; i++)
		show_job(s, &parts.v.v[i], &objects, job, arg);
	show_objects(&objects, job, arg);
	object_statuses_release(&objects.all);
	map_free(&objects.by_job);
	free_parts(s, &parts);
}

static int one_part(struct scraper *s, struct view pool, struct parts *ret, struct err *e)
{
	*ret = (struct parts){ 0 };
	if (pool.len)
		take_parts(s, pool, false, false, ret);
	return ret->v.n ? 0 : err_set(e, ERR_BAD_DATA, "there is no job \"%.*s\"", (int)MIN(pool.len, 200), pool.ptr);
}

int status_config(struct status_targets *st, struct view pool, struct buf *out, struct err *e)
{
	struct parts parts;
	int rc = one_part(scraper_of(st), pool, &parts, e);
	if (!rc)
		buf_putv(out, parts.v.v[0].job->shown);
	free_parts(scraper_of(st), &parts);
	return rc;
}

struct step {
	void (*fn)(void *arg, const struct relabel_rule *r, struct labels after, bool keep);
	void *arg;
};

static void show_step(void *arg, const struct relabel_rule *r, struct labels after, bool keep)
{
	const struct step *t = arg;
	struct shown_labels l = { 0 };
	t->fn(t->arg, r, shown_labels(&l, after), keep);
	shown_free(&l);
}

int status_relabel(struct status_targets *st, struct view pool, struct labels l,
		   void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg, struct err *e)
{
	struct step t = { step, arg };
	struct parts parts;
	int rc = one_part(scraper_of(st), pool, &parts, e);
	if (!rc) {
		const struct relabel_config *r = &parts.v.v[0].job->relabel;
		struct labels_builder b;
		struct arena a CLEANUP(arena_free);
		arena_init(&a, STEPS_ARENA);
		labels_builder_init(&b, l);
		rc = relabel_trace(r->v, r->n, &b, &a, show_step, &t, NULL, e);
		labels_builder_free(&b);
	}
	free_parts(scraper_of(st), &parts);
	return MIN(rc, 0);
}
