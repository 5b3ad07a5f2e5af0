/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs from objects of a cluster, beside those of the files:
 *
 *	sources (lib/discovery/kube_objects) ──► thread "object-jobs": each changed object → a configuration of one job
 *	                                               │ `parts`: the good ones
 *	files ──► object_jobs_apply ──► base ──────────┴──► scraper_config_join ──► scraper_apply
 *
 * An object that is wrong keeps its last good version, and what is wrong with it is told; all others go on. Jobs that did not
 * change keep what they are (their configuration is the same one), so that nothing of them is disturbed. A round begins at once
 * the first time, then at most every scraper_options' reload_interval_ms. What takes long (conversion) happens without the lock that a reload needs. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "scraper/internal.h"
#include "scraper/config/object_config.h"

#define SECTION "kubernetes_scrape_configs"
#define JOBS_PER_NAMESPACE 100

enum { M_OBJECTS, M_BAD, M_REFUSED, M_SOURCE_PROBLEMS };
static struct metric metrics[] = {
	[M_OBJECTS] = { "pyrrha_scrape_objects", "Objects of a cluster that define scrape jobs.", METRIC_GAUGE, "kind" },
	[M_BAD] = { "pyrrha_scrape_objects_bad", "Those whose current version is malformed; the last valid one stays.", METRIC_GAUGE,
		    "kind" },
	[M_REFUSED] = { "pyrrha_scrape_objects_refused_total", "Versions of objects that were refused.", METRIC_COUNTER, "kind" },
	[M_SOURCE_PROBLEMS] = { "pyrrha_scrape_objects_sources_failing", "Items of kubernetes_scrape_configs that cannot be read now.",
				METRIC_GAUGE },
};

/* One item of kubernetes_scrape_configs at work. */
struct running_source {
	struct object_jobs *owner;
	struct scraper_config *config;   /* reference: what the objects borrow from */
	struct object_source said;       /* lies there */
	struct kube_objects *objects;
	uint64_t order;                  /* in order of begin; those of one file in its order */
	char *problem;                   /* the thread's, as the next: what is wrong with it, unchanged logged; NULL = nothing */
	int64_t problem_ms;              /* since when */
};

/* An object as of the last round; the thread's. */
struct known {
	struct kube_object object;       /* texts owned */
	const struct running_source *source;
	uint64_t order;                  /* of the source, which may be gone */
	struct scraper_config *good;     /* of good_spec; NULL = there never was one */
	char *good_spec;
	uint64_t serial;                 /* of the base that object.spec was tried with */
	char *wrong;                     /* what came of that; NULL = a job */
	char *problem;                   /* that, or why the job cannot run beside the others; as reported */
	int64_t problem_ms;
};

struct config_part {
	struct scraper_config *config;   /* reference */
	const struct running_source *source;
};

struct object_jobs {
	struct scraper *scraper;
	pthread_t thread;
	VEC(struct known *) known;       /* the thread's, sorted */

	struct mutex apply;              /* one scraper_apply at a time; guards: */
	struct scraper_config *base;
	VEC(struct running_source *) sources;
	VEC(struct config_part) parts;
	uint64_t n_begun;                /* sources, ever */
	bool untaken;                    /* parts that the scraper refused: tried again each round */

	struct mutex lock;               /* guards: */
	pthread_cond_t moved;
	bool dirty, stopping;
	VEC(struct running_source *) ended;      /* the thread stops them */
};

static void note_change(void *arg)
{
	struct object_jobs *o = ((struct running_source *)arg)->owner;
	mutex_lock(&o->lock);
	o->dirty = true;
	pthread_cond_signal(&o->moved);
	mutex_unlock(&o->lock);
}

/* --- sources --- */

static void source_free(struct running_source *s)
{
	kube_objects_stop(s->objects);
	scraper_config_unref(s->config);
	free(s->problem);
	free(s);
}

/* All are told before the first is waited for. */
static void sources_free(struct running_source *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kube_objects_cancel(v[i]->objects);
	for (size_t i = 0; i < n; i++)
		source_free(v[i]);
}

static int source_new(struct object_jobs *o, struct scraper_config *c, const struct object_source *said, struct running_source **ret,
		      struct err *e)
{
	struct running_source *s = NEW(struct running_source);
	*s = (struct running_source){ .owner = o, .config = scraper_config_ref(c), .said = *said, .order = o->n_begun++ };
	int rc = kube_objects_start(&s->objects, said->config, note_change, s, e);
	if (rc)
		source_free(s);
	else
		*ret = s;
	return rc;
}

static struct running_source *find_source(struct running_source *const *v, size_t n, struct view fingerprint)
{
	for (size_t i = 0; i < n; i++)
		if (view_eq(v[i]->said.fingerprint, fingerprint))
			return v[i];
	return NULL;
}

static bool has_source(const struct object_jobs *o, const struct running_source *s)
{
	for (size_t i = 0; i < o->sources.n; i++)
		if (o->sources.v[i] == s)
			return true;
	return false;
}

/* The sources that c wants, in ret (room for all): running ones, and new ones. Equal ones once. */
static int choose_sources(struct object_jobs *o, struct scraper_config *c, struct running_source **ret, size_t *ret_n, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < c->n_sources && !rc; i++) {
		struct view f = c->sources[i].fingerprint;
		if (find_source(ret, *ret_n, f))
			continue;
		ret[*ret_n] = find_source(o->sources.v, o->sources.n, f);
		if (!ret[*ret_n])
			rc = source_new(o, c, &c->sources[i], &ret[*ret_n], e);
		*ret_n += !rc;
	}
	return rc;
}

/* Ends those of from that are not in keep; their thread does it, since that takes up to a second. */
static void end_sources(struct object_jobs *o, struct running_source *const *from, size_t n_from, struct running_source *const *keep, size_t n_keep)
{
	mutex_lock(&o->lock);
	for (size_t i = 0; i < n_from; i++)
		if (!find_source(keep, n_keep, from[i]->said.fingerprint))
			vec_push(&o->ended, from[i]);
	o->dirty = true;
	pthread_cond_signal(&o->moved);
	mutex_unlock(&o->lock);
}

/* --- what is applied; under apply --- */

/* base and those parts that are from a source of v, and whose names no job of a file has. */
static struct scraper_config *join(const struct object_jobs *o, struct scraper_config *base, struct running_source *const *v, size_t n)
{
	struct scraper_config **parts AUTOFREE = xcalloc(o->parts.n, sizeof(struct scraper_config *));
	size_t kept = 0;
	for (size_t i = 0; i < o->parts.n; i++)
		if (find_source(v, n, o->parts.v[i].source->said.fingerprint) &&
		    !scraper_config_job(base, o->parts.v[i].config->jobs[0]->name))
			parts[kept++] = o->parts.v[i].config;
	return scraper_config_join(base, parts, kept);
}

static int apply_with(struct object_jobs *o, struct scraper_config *base, struct running_source *const *v, size_t n, struct err *e)
{
	struct scraper_config *all = join(o, base, v, n);
	int rc = scraper_apply(o->scraper, all, e);
	scraper_config_unref(all);
	return rc;
}

static void drop_parts(struct object_jobs *o)
{
	for (size_t i = 0; i < o->parts.n; i++)
		scraper_config_unref(o->parts.v[i].config);
	o->parts.n = 0;
}

/* Parts of sources that are not there any more. */
static void forget_parts(struct object_jobs *o)
{
	size_t kept = 0;
	for (size_t i = 0; i < o->parts.n; i++)
		if (has_source(o, o->parts.v[i].source))
			o->parts.v[kept++] = o->parts.v[i];
		else
			scraper_config_unref(o->parts.v[i].config);
	o->parts.n = kept;
}

int object_jobs_apply(struct object_jobs *o, struct scraper_config *c, struct err *e)
{
	struct running_source **wanted AUTOFREE = xcalloc(c->n_sources, sizeof(struct running_source *));
	size_t n = 0;
	mutex_lock(&o->apply);
	int rc = choose_sources(o, c, wanted, &n, e);
	if (!rc)
		rc = apply_with(o, c, wanted, n, e);
	if (rc) {
		end_sources(o, wanted, n, o->sources.v, o->sources.n);
	} else {
		end_sources(o, o->sources.v, o->sources.n, wanted, n);
		o->sources.n = 0;
		for (size_t i = 0; i < n; i++)
			vec_push(&o->sources, wanted[i]);
		forget_parts(o);
		o->untaken = false;
		scraper_config_unref(o->base);
		o->base = scraper_config_ref(c);
	}
	mutex_unlock(&o->apply);
	return rc;
}

/* --- a round; on the thread --- */

struct round {
	VEC(struct known *) v;       /* objects as they are; sorted */
	const struct running_source *source; /* that is being read */
	struct scraper_config *base; /* reference */
	struct object_statuses failing; /* sources */
};

static char *dup_text(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static void known_free(struct known *k)
{
	free((char *)(uintptr_t)k->object.namespace);
	free((char *)(uintptr_t)k->object.name);
	free((char *)(uintptr_t)k->object.spec);
	scraper_config_unref(k->good);
	free(k->good_spec);
	free(k->wrong);
	free(k->problem);
	free(k);
}

static void add_object(void *arg, const struct kube_object *object)
{
	struct round *r = arg;
	struct known *k = NEW(struct known);
	k->source = r->source;
	k->order = r->source->order;
	k->object = (struct kube_object){ object->kind, xstrdup(object->namespace), xstrdup(object->name), dup_text(object->spec),
					  object->problem };
	vec_push(&r->v, k);
}

/* By namespace, name, kind, then the order of the sources: of those with one name the first is the job. */
static int compare(const void *x, const void *y)
{
	const struct known *a = *(struct known *const *)x, *b = *(struct known *const *)y;
	int c = strcmp(a->object.namespace, b->object.namespace);
	c = c ? c : strcmp(a->object.name, b->object.name);
	c = c ? c : (int)a->object.kind - (int)b->object.kind;
	return c ? c : a->order < b->order ? -1 : a->order > b->order;
}

/* Takes text; NULL: all is well. */
static void note_problem(struct running_source *s, char *text)
{
	if (text && (!s->problem || !err_same_but_for_numbers(s->problem, text)))
		LOG_WARN("msg", "objects cannot be read; those that were read before stay", "section", SECTION, "err", text);
	else if (!text && s->problem)
		LOG_INFO("msg", "objects are read again", "section", SECTION, "was", s->problem);
	if (text && !s->problem)
		s->problem_ms = clock_now_ms();
	free(s->problem);
	s->problem = text;
}

static void read_sources(struct object_jobs *o, struct round *r)
{
	mutex_lock(&o->apply);
	r->base = o->base ? scraper_config_ref(o->base) : NULL;
	for (size_t i = 0; i < o->sources.n; i++) {
		struct running_source *s = o->sources.v[i];
		note_problem(s, kube_objects_problem(s->objects));
		if (s->problem)
			vec_push(&r->failing.v, (struct object_status){ SECTION, xstrdup(SECTION), xstrdup(s->problem), s->problem_ms });
		r->source = s;
		kube_objects_each(s->objects, add_object, r);
	}
	mutex_unlock(&o->apply);
	if (r->v.n)
		qsort(r->v.v, r->v.n, sizeof *r->v.v, compare);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The state of the same object is kept. */
static void inherit(struct known *k, struct known *was)
{
	if (same_text(k->object.spec, was->object.spec) && k->object.problem == was->object.problem) {
		k->serial = was->serial;
		k->wrong = TAKE_PTR(was->wrong);
	}
	k->good = TAKE_PTR(was->good);
	k->good_spec = TAKE_PTR(was->good_spec);
	k->problem = TAKE_PTR(was->problem);
	k->problem_ms = was->problem_ms;
}

static struct known *find_known(const struct object_jobs *o, const struct known *k)
{
	struct known **at = o->known.n ? bsearch(&k, o->known.v, o->known.n, sizeof *o->known.v, compare) : NULL;
	return at ? *at : NULL;
}

/* runs: whether the good version, if there is one, runs all the same. */
static void set_problem(struct known *k, const char *text, bool runs)
{
	const char *kind = kube_object_kind_name(k->object.kind);
	if (same_text(k->problem, text))
		return;
	if (text) {
		metric_add(&metrics[M_REFUSED], 1, kind);
		LOG_WARN("msg", "an object is refused", "kind", kind, "namespace", k->object.namespace, "name", k->object.name, "err", text,
			 "good", !runs ? "nothing of it runs" : "its last good version stays");
		k->problem_ms = clock_now_ms();
	}
	free(k->problem);
	k->problem = dup_text(text);
}

/* Makes a job of spec, if there is one that works. The base may have changed what it inherits. */
static bool try_spec(struct known *k, const struct kube_object *o, const struct scraper_config *base, struct err *e)
{
	struct scraper_config *fresh = NULL;
	if (object_config_parse(&fresh, o, &k->source->said, base, e))
		return false;
	if (k->good && view_eq(k->good->jobs[0]->fingerprint, fresh->jobs[0]->fingerprint)) {
		scraper_config_unref(fresh);
		return true;
	}
	scraper_config_unref(k->good);
	k->good = fresh;
	return true;
}

static void convert(struct known *k, const struct scraper_config *base)
{
	struct err e = { 0 };
	if (k->serial == base->serial)
		return; /* as it was */
	free(k->wrong);
	k->wrong = NULL;
	if (try_spec(k, &k->object, base, &e)) {
		free(k->good_spec);
		k->good_spec = dup_text(k->object.spec);
	} else {
		struct kube_object last = k->object;
		last.spec = k->good_spec;
		if (k->good_spec)
			(void)try_spec(k, &last, base, NULL); /* fails: what it was before stays */
		k->wrong = xstrdup(e.msg);
	}
	k->serial = base->serial;
}

/* Whether the object's job may run beside the others. */
static bool place(struct known *k, const struct known *before, const struct scraper_config *base, size_t n_namespace)
{
	const char *name = k->good->jobs[0]->name;
	char *why = NULL;
	if (before && strcmp(before->object.namespace, k->object.namespace) == 0 && strcmp(before->object.name, k->object.name) == 0)
		why = xasprintf("job_name %s is taken by the %s of that name", name, kube_object_kind_name(before->object.kind));
	else if (scraper_config_job(base, name))
		why = xasprintf("job_name %s is taken by a job of the configuration file", name);
	else if (n_namespace >= JOBS_PER_NAMESPACE)
		why = xasprintf("the namespace has more than %d objects; this one is left out", JOBS_PER_NAMESPACE);
	set_problem(k, why ? why : k->wrong, !why);
	free(why);
	return !why;
}

/* The parts of the round, or false: they are the running ones. Under apply. */
static bool take_parts(struct object_jobs *o, struct round *r)
{
	VEC(struct config_part) fresh = { 0 };
	const struct known *before = NULL;
	size_t n_namespace = 0;
	for (size_t i = 0; i < r->v.n; i++) {
		struct known *k = r->v.v[i];
		if (!k->good)
			set_problem(k, k->wrong, false);
		if (!k->good || !has_source(o, k->source))
			continue;
		n_namespace = before && strcmp(before->object.namespace, k->object.namespace) == 0 ? n_namespace : 0;
		if (!place(k, before, r->base, n_namespace))
			continue;
		vec_push(&fresh, (struct config_part){ k->good, k->source });
		before = k;
		n_namespace++;
	}
	bool same = fresh.n == o->parts.n;
	for (size_t i = 0; i < fresh.n && same; i++)
		same = fresh.v[i].config == o->parts.v[i].config && fresh.v[i].source == o->parts.v[i].source;
	if (!same) {
		for (size_t i = 0; i < fresh.n; i++)
			scraper_config_ref(fresh.v[i].config);
		drop_parts(o);
		for (size_t i = 0; i < fresh.n; i++)
			vec_push(&o->parts, fresh.v[i]);
	}
	vec_free(&fresh);
	return !same;
}

static void apply_round(struct object_jobs *o, struct round *r)
{
	struct err e = { 0 };
	mutex_lock(&o->apply);
	if (take_parts(o, r) || o->untaken) {
		bool refused = apply_with(o, o->base, o->sources.v, o->sources.n, &e) != 0;
		if (refused && !o->untaken)
			LOG_ERROR("msg", "jobs from objects are not taken; this is tried again", "err", e.msg);
		o->untaken = refused;
	}
	if (o->untaken) {
		mutex_lock(&o->lock);
		o->dirty = true;
		mutex_unlock(&o->lock);
	}
	mutex_unlock(&o->apply);
}

static void count_objects(const struct round *r)
{
	size_t all[KUBE_OBJECT_KINDS_] = { 0 }, bad[KUBE_OBJECT_KINDS_] = { 0 };
	for (size_t i = 0; i < r->v.n; i++) {
		all[r->v.v[i]->object.kind]++;
		bad[r->v.v[i]->object.kind] += r->v.v[i]->problem != NULL;
	}
	for (int i = 0; i < KUBE_OBJECT_KINDS_; i++) {
		metric_set(&metrics[M_OBJECTS], (double)all[i], kube_object_kind_name((enum kube_object_kind)i));
		metric_set(&metrics[M_BAD], (double)bad[i], kube_object_kind_name((enum kube_object_kind)i));
	}
	metric_set(&metrics[M_SOURCE_PROBLEMS], (double)r->failing.v.n);
}

/* Takes failing. */
static void tell(struct object_jobs *o, struct round *r)
{
	struct object_statuses fresh = r->failing;
	count_objects(r);
	for (size_t i = 0; i < r->v.n; i++) {
		const struct known *k = r->v.v[i];
		vec_push(&fresh.v, (struct object_status){ kube_object_kind_name(k->object.kind),
							   xasprintf("%s/%s", k->object.namespace, k->object.name),
							   dup_text(k->problem), k->problem_ms });
	}
	mutex_lock(&o->scraper->lock);
	struct object_statuses old = o->scraper->objects;
	o->scraper->objects = fresh;
	mutex_unlock(&o->scraper->lock);
	object_statuses_release(&old);
}

static void forget(struct object_jobs *o)
{
	for (size_t i = 0; i < o->known.n; i++)
		known_free(o->known.v[i]);
	o->known.n = 0;
}

static void run_round(struct object_jobs *o)
{
	struct round r = { 0 };
	read_sources(o, &r);
	for (size_t i = 0; i < r.v.n; i++) {
		struct known *was = find_known(o, r.v.v[i]);
		if (was)
			inherit(r.v.v[i], was);
		convert(r.v.v[i], r.base);
	}
	if (r.base)
		apply_round(o, &r);
	tell(o, &r);
	forget(o);
	for (size_t i = 0; i < r.v.n; i++)
		vec_push(&o->known, r.v.v[i]);
	vec_free(&r.v);
	scraper_config_unref(r.base);
}

/* --- its life --- */

/* Lets the lock go. What is known of their objects is forgotten by the round that follows. */
static void stop_ended(struct object_jobs *o) REQUIRES(o->lock)
{
	VEC(struct running_source *) ended = { 0 };
	for (size_t i = 0; i < o->ended.n; i++)
		vec_push(&ended, o->ended.v[i]);
	o->ended.n = 0;
	mutex_unlock(&o->lock);
	sources_free(ended.v, ended.n);
	vec_free(&ended);
	mutex_lock(&o->lock);
}

/* All lists have been read or cannot be, so that the first round has all jobs. */
static bool all_ready(struct object_jobs *o)
{
	bool ready = true;
	mutex_lock(&o->apply);
	for (size_t i = 0; i < o->sources.n; i++)
		ready &= kube_objects_ready(o->sources.v[i]->objects);
	mutex_unlock(&o->apply);
	return ready;
}

static void *jobs_main(void *arg)
{
	struct object_jobs *o = arg;
	int64_t last_ms = INT64_MIN / 2, dirty_ms = 0;
	mutex_lock(&o->lock);
	while (!o->stopping) {
		if (!o->dirty) {
			dirty_ms = 0;
			mutex_wait(&o->lock, &o->moved);
			continue;
		}
		mutex_unlock(&o->lock);
		bool ready = all_ready(o);
		mutex_lock(&o->lock);
		dirty_ms = dirty_ms ? dirty_ms : clock_mono_ms();
		int64_t left = (ready ? last_ms : MAX(last_ms, dirty_ms)) + o->scraper->sync_interval_ms - clock_mono_ms();
		if (left > 0) {
			if (!o->stopping)
				mutex_wait_ms(&o->lock, &o->moved, clock_mono_ms() + left);
			continue;
		}
		o->dirty = false;
		mutex_unlock(&o->lock);
		run_round(o);
		last_ms = clock_mono_ms();
		mutex_lock(&o->lock);
		stop_ended(o);
	}
	mutex_unlock(&o->lock);
	return NULL;
}

int object_jobs_new(struct object_jobs **ret, struct scraper *s, struct err *e)
{
	static bool known;
	struct object_jobs *o = NEW(struct object_jobs);
	if (!known)
		metrics_register(metrics, ARRAY_LEN(metrics));
	known = true;
	o->scraper = s;
	mutex_init(&o->apply, RANK_OBJECT_JOBS_APPLY, "object jobs change");
	mutex_init(&o->lock, LOCK_LEAF, "object jobs");
	pthread_cond_init(&o->moved, NULL);
	int rc = thread_start(&o->thread, "object-jobs", jobs_main, o, e);
	if (rc)
		free(o);
	else
		*ret = o;
	return rc;
}

void object_jobs_free(struct object_jobs *o)
{
	if (!o)
		return;
	mutex_lock(&o->lock);
	o->stopping = true;
	pthread_cond_signal(&o->moved);
	mutex_unlock(&o->lock);
	pthread_join(o->thread, NULL);
	for (size_t i = 0; i < o->ended.n; i++)
		vec_push(&o->sources, o->ended.v[i]);
	sources_free(o->sources.v, o->sources.n);
	drop_parts(o);
	forget(o);
	vec_free(&o->sources);
	vec_free(&o->parts);
	vec_free(&o->known);
	vec_free(&o->ended);
	scraper_config_unref(o->base);
	mutex_destroy(&o->apply);
	mutex_destroy(&o->lock);
	pthread_cond_destroy(&o->moved);
	free(o);
}
