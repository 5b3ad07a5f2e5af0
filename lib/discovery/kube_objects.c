/* SPDX-License-Identifier: Apache-2.0 */
/* A list of each kind in each namespace (or one of each kind over all of them), kept up to date by informers:
 *
 *	informers' threads: begin, put, del, end ──► objects (lock) ──► changed() ──► who asks by kube_objects_each
 *
 * A list that fails keeps what it had. Objects that a new list no longer has are deleted. An object that is being deleted is gone: its
 * finalizer may be of an operator that is not there any more. */
#include "discovery/kube_objects.h"

#include "base/alloc.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"
#include "kube/kube.h"

static const struct {
	const char *name, *group, *resource;
} kinds[KUBE_OBJECT_KINDS_] = {
	[KUBE_PROFILE_SCRAPE_CONFIG] = { "ProfileScrapeConfig", "/apis/pyrrha.dev/v1alpha1", "profilescrapeconfigs" },
	[KUBE_PARCA_SCRAPE_CONFIG] = { "ParcaScrapeConfig", "/apis/parca.ricoberger.de/v1alpha1", "parcascrapeconfigs" },
};

const char *kube_object_kind_name(enum kube_object_kind kind)
{
	return kinds[kind].name;
}

struct entry {
	enum kube_object_kind kind;
	char *namespace, *name, *spec;
	const char *problem;         /* static */
	uint64_t hash;               /* of kind, namespace and name */
	uint32_t list, round;
};

/* One list of one kind. */
struct list {
	struct kube_objects *owner;
	enum kube_object_kind kind;
	char *path;
	struct kube_subscription *subscription;
	/* the owner's lock guards these */
	uint32_t index, round;
	bool read;
	char *problem;
	size_t left_out;             /* objects over the limits, since the list began */
};

struct kube_objects {
	void (*changed)(void *arg);
	void *arg;
	struct list *lists;
	size_t n_lists;
	struct mutex lock;           /* of the rest */
	struct map index;            /* hash -> place in entries */
	VEC(struct entry *) entries;
};

static void entry_free(struct entry *x)
{
	free(x->namespace);
	free(x->name);
	free(x->spec);
	free(x);
}

static uint64_t hash_of(enum kube_object_kind kind, const char *ns, const char *name)
{
	return hash_bytes_seed(name, strlen(name), hash_bytes_seed(ns, strlen(ns), (uint64_t)kind + 1));
}

static struct entry *find(const struct kube_objects *o, enum kube_object_kind kind, const char *ns, const char *name) REQUIRES(o->lock)
{
	uint64_t hash = hash_of(kind, ns, name);
	uint32_t id;
	for (size_t at = map_start(&o->index, hash); map_probe(&o->index, hash, &at, &id);) {
		struct entry *x = o->entries.v[id];
		if (x->kind == kind && strcmp(x->namespace, ns) == 0 && strcmp(x->name, name) == 0)
			return x;
	}
	return NULL;
}

static void drop_at(struct kube_objects *o, uint32_t place) REQUIRES(o->lock)
{
	struct entry *x = o->entries.v[place], *last = o->entries.v[o->entries.n - 1];
	map_remove(&o->index, x->hash, place);
	if (last != x) {
		map_remove(&o->index, last->hash, (uint32_t)o->entries.n - 1);
		map_insert(&o->index, last->hash, place);
		o->entries.v[place] = last;
	}
	o->entries.n--;
	entry_free(x);
}

static void drop(struct kube_objects *o, const struct entry *x) REQUIRES(o->lock)
{
	for (uint32_t i = 0; i < o->entries.n; i++)
		if (o->entries.v[i] == x) {
			drop_at(o, i);
			return;
		}
}

static bool room_for(const struct kube_objects *o, const char *ns) REQUIRES(o->lock)
{
	size_t n = 0;
	for (size_t i = 0; i < o->entries.n; i++)
		n += strcmp(o->entries.v[i]->namespace, ns) == 0;
	return n < KUBE_OBJECTS_PER_NAMESPACE && o->entries.n < KUBE_OBJECTS_MAX;
}

static struct entry *add(struct kube_objects *o, enum kube_object_kind kind, const char *ns, const char *name) REQUIRES(o->lock)
{
	if (!room_for(o, ns))
		return NULL;
	struct entry *x = NEW(struct entry);
	*x = (struct entry){ .kind = kind, .namespace = xstrdup(ns), .name = xstrdup(name), .hash = hash_of(kind, ns, name) };
	map_insert(&o->index, x->hash, (uint32_t)o->entries.n);
	vec_push(&o->entries, x);
	return x;
}

/* --- from informers' threads --- */

static void on_begin(void *arg)
{
	struct list *l = arg;
	mutex_lock(&l->owner->lock);
	l->round++;
	l->left_out = 0;
	mutex_unlock(&l->owner->lock);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Takes spec. True: something is different now. */
static bool put(struct list *l, const char *ns, const char *name, char *spec, const char *problem)
{
	struct kube_objects *o = l->owner;
	mutex_assert_held(&o->lock);
	struct entry *x = find(o, l->kind, ns, name);
	bool fresh = !x;
	x = x ? x : add(o, l->kind, ns, name);
	if (!x) {
		l->left_out++;
		free(spec);
		return true;
	}
	bool moved = fresh || !same_text(x->spec, spec) || x->problem != problem;
	free(x->spec);
	x->spec = spec;
	x->problem = problem;
	x->list = l->index;
	x->round = l->round;
	return moved;
}

/* The spec as text with its members in one order, or NULL with the reason if it is malformed. */
static char *spec_of(const json_t *object, const char **ret_problem)
{
	static const char *const none = "spec is missing", *const large = "spec is larger than 64 KiB";
	const json_t *spec = kube_get(object, "spec");
	*ret_problem = none;
	if (!spec || !json_is_object(spec))
		return NULL;
	char *text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
	if (text && strlen(text) <= KUBE_OBJECT_BYTES_MAX) {
		*ret_problem = NULL;
		return text;
	}
	*ret_problem = large;
	free(text);
	return NULL;
}

static void on_del(void *arg, const json_t *object)
{
	struct list *l = arg;
	struct kube_objects *o = l->owner;
	mutex_lock(&o->lock);
	struct entry *x = find(o, l->kind, kube_text(object, "metadata.namespace"), kube_text(object, "metadata.name"));
	if (x)
		drop(o, x);
	mutex_unlock(&o->lock);
	if (x)
		o->changed(o->arg);
}

static void on_put(void *arg, const json_t *object)
{
	struct list *l = arg;
	struct kube_objects *o = l->owner;
	const char *ns = kube_text(object, "metadata.namespace"), *name = kube_text(object, "metadata.name"), *problem;
	if (*kube_text(object, "metadata.deletionTimestamp")) {
		on_del(arg, object);
		return;
	}
	if (!*ns || !*name || strlen(ns) > 253 || strlen(name) > 253)
		return;
	char *spec = spec_of(object, &problem);
	mutex_lock(&o->lock);
	bool moved = put(l, ns, name, spec, problem);
	mutex_unlock(&o->lock);
	if (moved)
		o->changed(o->arg);
}

static void set_problem(struct list *l, const struct err *e)
{
	mutex_assert_held(&l->owner->lock);
	free(l->problem);
	l->problem = e && e->code && e->code != ERR_NOT_FOUND ? xasprintf("%s: %s", kinds[l->kind].name, e->msg) : NULL;
	if (e && e->code == ERR_NOT_FOUND)
		l->read = true; /* the CRD is not installed: there are no objects of that kind */
}

static void on_end(void *arg)
{
	struct list *l = arg;
	struct kube_objects *o = l->owner;
	mutex_lock(&o->lock);
	for (uint32_t i = 0; i < o->entries.n;)
		if (o->entries.v[i]->list == l->index && o->entries.v[i]->round != l->round)
			drop_at(o, i);
		else
			i++;
	l->read = true;
	set_problem(l, NULL);
	mutex_unlock(&o->lock);
	o->changed(o->arg);
}

static void on_problem(void *arg, const struct err *e)
{
	struct list *l = arg;
	mutex_lock(&l->owner->lock);
	set_problem(l, e);
	mutex_unlock(&l->owner->lock);
	l->owner->changed(l->owner->arg);
}

/* --- begin and end --- */

static void add_lists(struct kube_objects *o, const char *ns)
{
	for (int k = 0; k < KUBE_OBJECT_KINDS_; k++) {
		struct list *l = &o->lists[o->n_lists];
		*l = (struct list){ .owner = o, .kind = (enum kube_object_kind)k, .index = (uint32_t)o->n_lists };
		l->path = ns ? xasprintf("%s/namespaces/%s/%s", kinds[k].group, ns, kinds[k].resource)
			     : xasprintf("%s/%s", kinds[k].group, kinds[k].resource);
		o->n_lists++;
	}
}

static int make_lists(struct kube_objects *o, const struct kube_sd_config *c, struct err *e)
{
	struct arena a;
	struct config_strings names = { 0 };
	arena_init(&a, 0);
	int rc = kube_sd_namespaces(c, &a, &names, e);
	o->lists = xcalloc((names.n + 1) * KUBE_OBJECT_KINDS_, sizeof *o->lists);
	if (!rc && !names.n)
		add_lists(o, NULL);
	for (size_t i = 0; i < names.n && !rc; i++)
		add_lists(o, names.v[i]);
	arena_free(&a);
	return rc;
}

int kube_objects_start(struct kube_objects **ret, const struct kube_sd_config *c, void (*changed)(void *arg), void *arg,
		       struct err *e)
{
	struct kube_objects *o = NEW(struct kube_objects);
	mutex_init(&o->lock, RANK_KUBE_OBJECTS, "kube objects");
	o->changed = changed;
	o->arg = arg;
	int rc = make_lists(o, c, e);
	for (size_t i = 0; i < o->n_lists && !rc; i++) {
		struct list *l = &o->lists[i];
		const struct kube_events events = { on_begin, on_put, on_del, on_end, on_problem, l };
		rc = kube_sd_subscribe(&l->subscription, c, l->path, NULL, NULL, &events, e);
	}
	if (rc)
		kube_objects_stop(o);
	else
		*ret = o;
	return rc;
}

void kube_objects_cancel(struct kube_objects *o)
{
	for (size_t i = 0; o && i < o->n_lists; i++)
		kube_unsubscribe_soon(o->lists[i].subscription);
}

void kube_objects_stop(struct kube_objects *o)
{
	if (!o)
		return;
	kube_objects_cancel(o); /* all of them before the first is waited for: there may be two for each of many namespaces */
	for (size_t i = 0; i < o->n_lists; i++)
		kube_unsubscribe(o->lists[i].subscription);
	for (size_t i = 0; i < o->n_lists; i++) {
		free(o->lists[i].path);
		free(o->lists[i].problem);
	}
	for (size_t i = 0; i < o->entries.n; i++)
		entry_free(o->entries.v[i]);
	vec_free(&o->entries);
	map_free(&o->index);
	mutex_destroy(&o->lock);
	free(o->lists);
	free(o);
}

void kube_objects_each(struct kube_objects *o, void (*fn)(void *arg, const struct kube_object *object), void *arg)
{
	mutex_lock(&o->lock);
	for (size_t i = 0; i < o->entries.n; i++) {
		const struct entry *x = o->entries.v[i];
		fn(arg, &(struct kube_object){ x->kind, x->namespace, x->name, x->spec, x->problem });
	}
	mutex_unlock(&o->lock);
}

bool kube_objects_ready(struct kube_objects *o)
{
	bool ready = true;
	mutex_lock(&o->lock);
	for (size_t i = 0; i < o->n_lists; i++)
		ready &= o->lists[i].read || o->lists[i].problem;
	mutex_unlock(&o->lock);
	return ready;
}

char *kube_objects_problem(struct kube_objects *o)
{
	char *text = NULL;
	size_t left_out = 0;
	mutex_lock(&o->lock);
	for (size_t i = 0; i < o->n_lists && !text; i++) {
		left_out += o->lists[i].left_out;
		if (o->lists[i].problem)
			text = xstrdup(o->lists[i].problem);
	}
	if (!text && left_out)
		text = xasprintf("%zu objects were left out: at most %d of one namespace and %d in all are taken; once there is room, "
				 "a change of the object or a restart takes it in", left_out,
				 KUBE_OBJECTS_PER_NAMESPACE, KUBE_OBJECTS_MAX);
	mutex_unlock(&o->lock);
	return text;
}
