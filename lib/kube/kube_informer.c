/* SPDX-License-Identifier: Apache-2.0 */
/* One list and watch for all who want the same objects. An informer keeps no objects: it passes on what comes.
 *
 *	kube_subscribe ──► registry: equal (source, path, selectors)? ──► informer: thread "kube-watch", kube_watch_run
 *	                                                                     │ begin, put, del, end, problem
 *	                                                                     └──► each of its subscribers
 *
 * A subscriber waits until a list begins that is for him, takes part in it, and has events after its end. Later subscribers of a
 * running watch get a separate list (kube_watch's list_wanted); all that subscribed before it begins share it.
 *
 * No lock is held while a subscriber is called, so it may take any lock. `called` names the subscriber that is being called, and
 * kube_unsubscribe waits for it. */
#include <assert.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/thread.h"
#include "base/vec.h"
#include "kube/kube_private.h"

#define PAGE 500                     /* objects, where the server honours it */

enum phase {
	WAITING = 1,                 /* for a list that is for him */
	LISTING = 2,                 /* had a begin and no end yet */
	LIVE = 4,
	ANY = WAITING | LISTING | LIVE
};

struct kube_subscription {
	struct kube_informer *of;
	struct kube_events ev;
	enum phase phase;            /* the informer's lock guards it */
	bool told;                   /* of how things are; the informer's lock guards it */
	bool left, last;             /* the subscriber's: it left; as the last one */
};

struct kube_informer {
	struct arena arena;          /* owner of config's memory */
	struct kube_informer_config config;
	struct kube_client *client;
	pthread_t thread;
	atomic_bool cancel;
	bool listing;                /* the thread's */
	size_t refs;                 /* registry_lock guards it */

	struct mutex lock;           /* guards all below */
	pthread_cond_t returned;     /* called became NULL */
	VEC(struct kube_subscription *) subs; /* NULL: one that left. Only the thread takes these out */
	struct kube_subscription *called;
	struct err problem;          /* code 0: none */
};

static struct mutex registry_lock = MUTEX_INIT(RANK_KUBE_REGISTRY, "kube registry");
static VEC(struct kube_informer *) registry; /* registry_lock guards it */

/* --- on the thread: calls --- */

typedef void call_fn(const struct kube_events *ev, const void *what);

/* Lets the lock go for the call. */
static void call_one(struct kube_informer *i, struct kube_subscription *s, call_fn *fn, const void *what) REQUIRES(i->lock)
{
	i->called = s;
	mutex_unlock(&i->lock);
	fn(&s->ev, what);
	mutex_lock(&i->lock);
	i->called = NULL;
	pthread_cond_broadcast(&i->returned);
}

/* Subscribers that left during a call. */
static void forget_gone(struct kube_informer *i) REQUIRES(i->lock)
{
	size_t kept = 0;
	for (size_t k = 0; k < i->subs.n; k++)
		if (i->subs.v[k])
			i->subs.v[kept++] = i->subs.v[k];
	i->subs.n = kept;
}

/* Calls those whose phase is one of `from`; they are `to` then. */
static void call_all(struct kube_informer *i, unsigned from, enum phase to, call_fn *fn, const void *what)
{
	mutex_lock(&i->lock);
	forget_gone(i);
	for (size_t k = 0; k < i->subs.n; k++) {
		struct kube_subscription *s = i->subs.v[k];
		if (!s || !(s->phase & from))
			continue;
		s->phase = to;
		call_one(i, s, fn, what);
	}
	mutex_unlock(&i->lock);
}

static void say_begin(const struct kube_events *ev, const void *what)
{
	ev->begin(ev->arg);
}

static void say_put(const struct kube_events *ev, const void *what)
{
	ev->put(ev->arg, what);
}

static void say_del(const struct kube_events *ev, const void *what)
{
	ev->del(ev->arg, what);
}

static void say_end(const struct kube_events *ev, const void *what)
{
	ev->end(ev->arg);
}

static void say_problem(const struct kube_events *ev, const void *what)
{
	if (ev->problem)
		ev->problem(ev->arg, what);
}

static void on_begin(void *arg)
{
	struct kube_informer *i = arg;
	i->listing = true;
	call_all(i, ANY, LISTING, say_begin, NULL);
}

static void on_begin_wanted(void *arg)
{
	struct kube_informer *i = arg;
	i->listing = true;
	call_all(i, WAITING | LISTING, LISTING, say_begin, NULL);
}

static void on_put(void *arg, const json_t *object)
{
	struct kube_informer *i = arg;
	enum phase p = i->listing ? LISTING : LIVE;
	call_all(i, p, p, say_put, object);
}

static void on_del(void *arg, const json_t *object)
{
	call_all(arg, LIVE, LIVE, say_del, object);
}

/* Reports the current state to subscribers that do not have it yet. New subscribers need no report while there is no problem. */
static void tell(struct kube_informer *i)
{
	mutex_lock(&i->lock);
	forget_gone(i);
	for (size_t k = 0; k < i->subs.n; k++) {
		struct kube_subscription *s = i->subs.v[k];
		struct err e = i->problem;
		if (!s || s->told)
			continue;
		s->told = true;
		call_one(i, s, say_problem, e.code ? &e : NULL);
	}
	mutex_unlock(&i->lock);
}

static void on_problem(void *arg, const struct err *e)
{
	struct kube_informer *i = arg;
	i->listing = false;          /* it broke off, or was over */
	mutex_lock(&i->lock);
	i->problem = e ? *e : (struct err){ 0 };
	for (size_t k = 0; k < i->subs.n; k++)
		if (i->subs.v[k])
			i->subs.v[k]->told = false;
	mutex_unlock(&i->lock);
	tell(i);
}

static void on_end(void *arg)
{
	struct kube_informer *i = arg;
	i->listing = false;
	call_all(i, LISTING, LIVE, say_end, NULL);
}

/* Whether somebody waits for a list. */
static bool on_list_wanted(void *arg)
{
	struct kube_informer *i = arg;
	bool wanted = false;
	tell(i);
	mutex_lock(&i->lock);
	for (size_t k = 0; k < i->subs.n; k++)
		wanted |= i->subs.v[k] && i->subs.v[k]->phase != LIVE;
	mutex_unlock(&i->lock);
	return wanted;
}

static void *run(void *arg)
{
	struct kube_informer *i = arg;
	const struct kube_informer_config *c = &i->config;
	kube_watch_run(&(struct kube_watch){ .client = i->client, .path = c->path, .label_selector = c->label_selector,
					     .field_selector = c->field_selector, .cancel = &i->cancel, .begin = on_begin,
					     .begin_wanted = on_begin_wanted, .list_wanted = on_list_wanted, .put = on_put,
					     .del = on_del, .end = on_end, .problem = on_problem, .arg = i, .page = PAGE });
	return NULL;
}

/* --- subscribing and unsubscribing --- */

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static struct kube_informer *find(const struct kube_informer_config *c) REQUIRES(registry_lock)
{
	for (size_t k = 0; k < registry.n; k++) {
		const struct kube_informer_config *o = &registry.v[k]->config;
		if (same_text(o->path, c->path) && same_text(o->label_selector, c->label_selector) &&
		    same_text(o->field_selector, c->field_selector) && kube_source_same(&o->client, &c->client))
			return registry.v[k];
	}
	return NULL;
}

static void informer_free(struct kube_informer *i)
{
	kube_client_free(i->client);
	arena_free(&i->arena);
	vec_free(&i->subs);
	pthread_cond_destroy(&i->returned);
	mutex_destroy(&i->lock);
	free(i);
}

/* Without a thread yet. */
static int informer_new(struct kube_informer **ret, const struct kube_informer_config *c, struct err *e)
{
	struct kube_informer *i = NEW(struct kube_informer);
	arena_init(&i->arena, 0);
	mutex_init(&i->lock, RANK_KUBE_INFORMER, "kube informer");
	pthread_cond_init(&i->returned, NULL);
	i->config = (struct kube_informer_config){ .client = kube_source_copy(&i->arena, &c->client),
						   .path = kube_text_copy(&i->arena, c->path),
						   .label_selector = kube_text_copy(&i->arena, c->label_selector),
						   .field_selector = kube_text_copy(&i->arena, c->field_selector) };
	int rc = kube_client_of(&i->client, &i->config.client, e);
	if (rc)
		informer_free(i);
	else
		*ret = i;
	return rc;
}

static void add(struct kube_informer *i, struct kube_subscription *s) REQUIRES(registry_lock)
{
	mutex_lock(&i->lock);
	s->of = i;
	s->told = !i->problem.code;
	vec_push(&i->subs, s);
	mutex_unlock(&i->lock);
	i->refs++;
}

static int join(struct kube_subscription *s, const struct kube_informer_config *c, struct err *e) REQUIRES(registry_lock)
{
	struct kube_informer *i = find(c);
	if (i) {
		add(i, s);
		return 0;
	}
	int rc = informer_new(&i, c, e);
	if (rc)
		return rc;
	add(i, s);
	rc = thread_start(&i->thread, "kube-watch", run, i, e);
	if (rc)
		informer_free(i);
	else
		vec_push(&registry, i);
	return rc;
}

int kube_subscribe(struct kube_subscription **ret, const struct kube_informer_config *c, const struct kube_events *ev,
		   struct err *e)
{
	struct kube_subscription *s = NEW(struct kube_subscription);
	s->ev = *ev;
	s->phase = WAITING;
	mutex_lock(&registry_lock);
	int rc = join(s, c, e);
	mutex_unlock(&registry_lock);
	if (rc)
		free(s);
	else
		*ret = s;
	return rc;
}

/* After it s is neither called nor known. */
static void leave(struct kube_informer *i, struct kube_subscription *s)
{
	mutex_lock(&i->lock);
	for (size_t k = 0; k < i->subs.n; k++)
		if (i->subs.v[k] == s)
			i->subs.v[k] = NULL;
	while (i->called == s)
		mutex_wait(&i->lock, &i->returned);
	mutex_unlock(&i->lock);
}

/* Removes it from the registry if it has no subscribers left; true: its thread has to be ended. */
static bool let_go(struct kube_informer *i)
{
	mutex_lock(&registry_lock);
	bool last = --i->refs == 0;
	for (size_t k = 0; last && k < registry.n; k++)
		if (registry.v[k] == i)
			registry.v[k--] = registry.v[--registry.n];
	if (last && !registry.n)
		vec_free(&registry);
	mutex_unlock(&registry_lock);
	return last;
}

void kube_unsubscribe_soon(struct kube_subscription *s)
{
	if (!s || s->left)
		return;
	assert(!pthread_equal(pthread_self(), s->of->thread));
	leave(s->of, s);
	s->left = true;
	s->last = let_go(s->of);
	if (s->last)
		atomic_store(&s->of->cancel, true);
}

void kube_unsubscribe(struct kube_subscription *s)
{
	if (!s)
		return;
	kube_unsubscribe_soon(s);
	if (s->last) {
		pthread_join(s->of->thread, NULL);
		informer_free(s->of);
	}
	free(s);
}
