/* SPDX-License-Identifier: Apache-2.0 */
/* The targets that one job would scrape, for `pyrtool check service-discovery`, as promtool prints it. Discovery runs as in the
 * server. Relabelling runs once per profile type, so a target has as many results as types with different ones. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/lock.h"
#include "scraper/internal.h"

/* A target of one type, before and after the rules. */
struct result {
	struct labels *before, *after; /* owned; after is empty if it is dropped or an error */
	char *error;                   /* owned; NULL = none */
	uint64_t hash;
};

struct results {
	VEC(struct result) v;
	struct map index; /* hash -> place in v */
};

struct check {
	const struct job_config *job;
	struct arena arena;
	struct buf *out;
	size_t n; /* elements written */
};

/* Waits for discovery. */
struct waiter {
	struct mutex lock;
	pthread_cond_t changed;
	bool moved; /* something came since it was last looked at */
};

static void on_changed(void *arg)
{
	struct waiter *w = arg;
	mutex_lock(&w->lock);
	w->moved = true;
	pthread_cond_signal(&w->changed);
	mutex_unlock(&w->lock);
}

static void wait_ready(struct waiter *w, struct discovery *d, int64_t timeout_ms)
{
	int64_t end_ms = clock_mono_ms() + timeout_ms;
	while (!discovery_ready(d) && clock_mono_ms() < end_ms) {
		mutex_lock(&w->lock);
		while (!w->moved && mutex_wait_ms(&w->lock, &w->changed, end_ms))
			;
		w->moved = false;
		mutex_unlock(&w->lock);
	}
}

static void result_release(struct result *r)
{
	free(r->before);
	free(r->after);
	free(r->error);
}

static void results_release(struct results *r)
{
	for (size_t i = 0; i < r->v.n; i++)
		result_release(&r->v.v[i]);
	vec_free(&r->v);
	map_free(&r->index);
}

static bool result_eq(const struct result *a, const struct result *b)
{
	if (!a->error != !b->error || (a->error && strcmp(a->error, b->error) != 0))
		return false;
	return labels_eq(*a->before, *b->before) && labels_eq(*a->after, *b->after);
}

/* Takes it, unless it is there already. */
static void results_add(struct results *rs, struct result *r)
{
	uint32_t id;
	r->hash = hash_u64(labels_hash(*r->before)) ^ labels_hash(*r->after);
	if (MAP_FIND_OR_ADD(&rs->index, r->hash, id, rs->v.n, result_eq(&rs->v.v[id], r)))
		result_release(r);
	else
		vec_push(&rs->v, *r);
}

static bool of_type(struct view name)
{
	return view_eqs(name, "__profile_path__") || view_eqs(name, "__profile_path_prefix__") || view_eqs(name, LABEL_NAME);
}

/* Without the labels that targets of metrics do not have. Returns owned. */
static struct labels *without_type(struct labels l)
{
	struct labels_builder b;
	labels_builder_init(&b, l);
	for (size_t i = 0; i < l.n; i++)
		if (of_type(l.v[i].name))
			labels_builder_del(&b, l.v[i].name);
	struct labels *r = labels_dup(labels_builder_finish(&b));
	labels_builder_free(&b);
	return r;
}

static struct result explain(struct check *c, const struct type_config *t, struct labels group, struct labels target)
{
	struct target_plan plan;
	struct result r = { 0 };
	target_plan_explain(c->job, t, group, target, &c->arena, &plan, &r.after);
	r.before = target_discovered(c->job, t, group, target);
	r.error = TAKE_PTR(plan.problem);
	if (!r.after)
		r.after = labels_dup((struct labels){ 0 });
	target_plan_release(&plan);
	arena_reset(&c->arena);
	return r;
}

static struct result strip(const struct result *r)
{
	return (struct result){ .before = without_type(*r->before), .after = without_type(*r->after),
				.error = r->error ? xstrdup(r->error) : NULL };
}

static void add_target(struct check *c, struct results *rs, struct labels group, struct labels target)
{
	VEC(struct result) all = { 0 }, plain = { 0 };
	bool same = true;
	for (size_t i = 0; i < c->job->n_types; i++) {
		if (!c->job->types[i].enabled)
			continue;
		vec_push(&all, explain(c, &c->job->types[i], group, target));
		vec_push(&plain, strip(&all.v[all.n - 1]));
		same = same && result_eq(&plain.v[0], &plain.v[plain.n - 1]);
	}
	for (size_t i = 0; i < all.n; i++) {
		results_add(rs, same ? &plain.v[i] : &all.v[i]);
		result_release(same ? &all.v[i] : &plain.v[i]);
	}
	vec_free(&all);
	vec_free(&plain);
}

/* On a line of its own. */
static void put_key(struct buf *out, const char *key)
{
	json_line(out, 4);
	json_key(out, key);
	buf_putc(out, ' ');
}

static void put_labels(struct buf *out, const char *key, struct labels l)
{
	struct shown_labels s = { 0 };
	put_key(out, key);
	json_object_begin(out);
	l = shown_labels(&s, l);
	for (size_t i = 0; i < l.n; i++) {
		json_line(out, 6);
		json_key_view(out, l.v[i].name);
		buf_putc(out, ' ');
		json_text(out, l.v[i].value);
	}
	if (l.n)
		buf_puts(out, "\n    ");
	json_object_end(out);
	shown_free(&s);
}

static void put_result(struct check *c, const struct result *r)
{
	c->n++;
	json_line(c->out, 2);
	json_object_begin(c->out);
	put_labels(c->out, "discoveredLabels", *r->before);
	put_labels(c->out, "labels", *r->after);
	if (r->error) {
		put_key(c->out, "error");
		json_text(c->out, view_of(r->error));
	}
	buf_puts(c->out, "\n  ");
	json_object_end(c->out);
}

/* Equal results of one group are printed once, as promtool does. */
static void check_group(void *arg, const struct discovery_group *g)
{
	struct check *c = arg;
	struct results rs = { 0 };
	for (size_t i = 0; i < g->n_targets; i++)
		add_target(c, &rs, g->labels, g->targets[i]);
	for (size_t i = 0; i < rs.v.n; i++)
		put_result(c, &rs.v.v[i]);
	results_release(&rs);
}

static void put_problem(void *arg, const struct discovery_status *s)
{
	if (s->problem)
		buf_printf(arg, "%s%s%s: %s\n", s->kind, *s->name ? " " : "", s->name, s->problem);
	else if (!s->ready)
		buf_printf(arg, "%s%s%s: has not read everything yet\n", s->kind, *s->name ? " " : "", s->name);
}

static int no_such_job(const struct scraper_config *c, const char *job, struct err *e)
{
	struct buf have = { 0 };
	for (size_t i = 0; i < c->n_jobs; i++)
		buf_printf(&have, "%s%s", i ? ", " : "", c->jobs[i]->name);
	err_set(e, ERR_NOT_FOUND, "job %s is not there; there %s %s", job, c->n_jobs == 1 ? "is" : "are", have.len ? have.ptr : "none");
	buf_free(&have);
	return -ERR_NOT_FOUND;
}

int scraper_config_discover(const struct scraper_config *c, const char *job, int64_t timeout_ms, struct buf *out,
			    struct buf *problems, struct err *e)
{
	struct waiter w = { .lock = MUTEX_INIT(LOCK_LEAF, "check of discovery"), .changed = PTHREAD_COND_INITIALIZER };
	struct check k = { .job = scraper_config_job(c, job), .out = out };
	struct discovery_user user = { .job = job, .changed = on_changed, .arg = &w };
	struct discovery *d;
	if (!k.job)
		return no_such_job(c, job, e);
	int rc = discovery_start(&d, &k.job->sd, &user, e);
	if (!rc) {
		arena_init(&k.arena, (size_t)16 << 20);
		wait_ready(&w, d, timeout_ms);
		json_array_begin(out);
		discovery_each(d, check_group, &k);
		if (k.n)
			buf_putc(out, '\n');
		json_array_end(out);
		discovery_each_status(d, put_problem, problems);
		discovery_stop(d);
		discovery_finish();
		arena_free(&k.arena);
	}
	pthread_cond_destroy(&w.changed);
	return rc;
}
