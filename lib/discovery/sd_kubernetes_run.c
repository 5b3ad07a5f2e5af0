/* SPDX-License-Identifier: Apache-2.0 */
/* A kubernetes_sd_config at work: one list for each kind of object that its labels come from, in each of its namespaces.
 *
 *	informers' threads: begin, put, del, end ──► store (lock) ──► queue ──► sd-kubernetes: makes a group, tells of it
 *
 * Lists update the store under the lock. A thread of the provider makes groups under the lock, one at a time, and reports them without
 * it. It begins once each list was read once. A list that fails keeps what it had; one that was read again ends what it does not have
 * any more. */

#include "base/alloc.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "config.h"
#include "discovery/metrics.h"
#include "discovery/sd_kubernetes.h"
#include "discovery/sd_kubernetes_store.h"
#include "kube/kube.h"

#define GROUP_ARENA_MAX (4 * KUBE_SD_GROUP_BYTES_MAX)

struct run;

/* One list of objects of one kind, of one namespace or all. */
struct list {
	struct run *run;
	struct kube_subscription *subscription;
	enum kube_sd_kind kind;
	uint32_t index;              /* in the run's lists */
	char *path;
	const char *label, *field;   /* the config's */
	struct buf key, packed;      /* of the informer's thread */

	/* the run's lock guards these */
	uint32_t round;
	bool read;                   /* once */
	char *problem;
};

struct run {
	struct discovery_provider provider;
	const struct kube_sd_config *config;
	struct kube_sd_attach attach;
	struct discovery_emit emit;
	struct list *lists;
	size_t n_lists;
	pthread_t thread;

	struct mutex lock;           /* of the rest */
	pthread_cond_t moved;
	struct kube_sd_store store;
	bool stopping, problem_moved, told;
};

static struct run *run_of(struct discovery_provider *p)
{
	return (struct run *)((char *)p - offsetof(struct run, provider));
}

/* --- what the lists say: on the informers' threads --- */

static bool take_object(struct list *l, const json_t *object)
{
	buf_reset(&l->key);
	buf_reset(&l->packed);
	return kube_sd_key(object, &l->key);
}

static void count_event(const struct list *l, const char *event, size_t n)
{
	if (n)
		metric_add(&discovery_table[SD_KUBERNETES_EVENTS], (double)n, kube_sd_kinds[l->kind].role, event);
}

static void on_begin(void *arg)
{
	struct list *l = arg;
	mutex_lock(&l->run->lock);
	l->round++;
	mutex_unlock(&l->run->lock);
}

static void on_put(void *arg, const json_t *object)
{
	struct list *l = arg;
	struct run *r = l->run;
	if (!take_object(l, object))
		return;
	kube_sd_pack(l->kind, (int)l->kind != r->config->role, object, &l->packed);
	mutex_lock(&r->lock);
	enum kube_sd_change change = kube_sd_store_put(&r->store, l->kind, buf_view(&l->key), buf_view(&l->packed), l->index, l->round);
	pthread_cond_signal(&r->moved);
	mutex_unlock(&r->lock);
	count_event(l, change == KUBE_SD_ADDED ? "add" : "update", change != KUBE_SD_SAME);
}

static void on_del(void *arg, const json_t *object)
{
	struct list *l = arg;
	struct run *r = l->run;
	if (!take_object(l, object))
		return;
	mutex_lock(&r->lock);
	bool was = kube_sd_store_del(&r->store, l->kind, buf_view(&l->key));
	pthread_cond_signal(&r->moved);
	mutex_unlock(&r->lock);
	count_event(l, "delete", was);
}

static void on_end(void *arg)
{
	struct list *l = arg;
	struct run *r = l->run;
	mutex_lock(&r->lock);
	size_t gone = kube_sd_store_sweep(&r->store, l->index, l->round);
	l->read = true;
	pthread_cond_signal(&r->moved);
	mutex_unlock(&r->lock);
	count_event(l, "delete", gone);
}

static void on_problem(void *arg, const struct err *e)
{
	struct list *l = arg;
	struct run *r = l->run;
	bool wrong = e && e->code;
	if (wrong)
		metric_inc(&discovery_table[SD_KUBERNETES_FAILURES]);
	mutex_lock(&r->lock);
	free(l->problem);
	l->problem = wrong ? xstrdup(e->msg) : NULL;
	r->problem_moved = true;
	pthread_cond_signal(&r->moved);
	mutex_unlock(&r->lock);
}

/* --- what is told: on the run's thread, which lets the lock go while it tells --- */

static void tell_problem(struct run *r) REQUIRES(r->lock)
{
	struct err e = { 0 };
	for (size_t i = 0; i < r->n_lists && !e.code; i++)
		if (r->lists[i].problem)
			err_set(&e, ERR_UNAVAILABLE, "%s", r->lists[i].problem);
	r->problem_moved = false;
	mutex_unlock(&r->lock);
	r->emit.problem(r->emit.arg, e.code ? &e : NULL);
	mutex_lock(&r->lock);
}

static bool all_read(const struct run *r) REQUIRES(r->lock)
{
	for (size_t i = 0; i < r->n_lists; i++)
		if (!r->lists[i].read)
			return false;
	return true;
}

static bool tell_group(struct run *r, struct kube_sd_made *made) REQUIRES(r->lock)
{
	if (!kube_sd_store_next(&r->store, &r->attach, made))
		return false;
	mutex_unlock(&r->lock);
	if (!made->rc)
		r->emit.group(r->emit.arg, &made->group);
	else if (made->rc != -ERR_NOT_FOUND && !made->again)
		LOG_WARN("msg", "the target group of an object of Kubernetes stays unchanged", "err", made->err.msg);
	kube_sd_made_reset(made);
	mutex_lock(&r->lock);
	return true;
}

static void tell_ready(struct run *r) REQUIRES(r->lock)
{
	r->told = true;
	mutex_unlock(&r->lock);
	r->emit.ready(r->emit.arg);
	mutex_lock(&r->lock);
}

static void *run_main(void *arg)
{
	struct run *r = arg;
	struct kube_sd_made made = { 0 };
	arena_init(&made.arena, GROUP_ARENA_MAX);
	mutex_lock(&r->lock);
	while (!r->stopping) {
		bool read = all_read(r);
		if (r->problem_moved)
			tell_problem(r);
		else if (read && tell_group(r, &made))
			continue;
		else if (read && !r->told)
			tell_ready(r);
		else
			mutex_wait(&r->lock, &r->moved);
	}
	mutex_unlock(&r->lock);
	kube_sd_made_reset(&made);
	vec_free(&made.parsed);
	arena_free(&made.arena);
	return NULL;
}

/* --- which lists --- */

static void add_list(struct run *r, enum kube_sd_kind kind, const char *ns)
{
	const struct kube_sd_selector *s = r->config->selectors.v;
	struct list *l = &r->lists[r->n_lists];
	struct buf path = { 0 };
	kube_sd_path(kind, ns, &path);
	*l = (struct list){ .run = r, .kind = kind, .index = (uint32_t)r->n_lists, .path = buf_take(&path, NULL) };
	for (size_t i = 0; i < r->config->selectors.n; i++)
		if (s[i].role == (int)kind) {
			l->label = s[i].label;
			l->field = s[i].field;
		}
	r->n_lists++;
}

/* For one namespace, or for all: NULL. */
static void add_lists(struct run *r, const char *ns)
{
	enum kube_sd_kind role = (enum kube_sd_kind)r->config->role;
	bool endpoints = role == KUBE_SD_ENDPOINTS || role == KUBE_SD_ENDPOINTSLICE;
	add_list(r, role, ns);
	if (endpoints) {
		add_list(r, KUBE_SD_SERVICE, ns);
		add_list(r, KUBE_SD_POD, ns);
	}
	if (r->attach.deployment)
		add_list(r, KUBE_SD_REPLICASET, ns);
	if (r->attach.cronjob)
		add_list(r, KUBE_SD_JOB, ns);
}

#define LISTS_OF_NAMESPACE 5
#define LISTS_OF_CLUSTER 2

/* Kinds that the role does not use are not requested. */
static struct kube_sd_attach attach_of(const struct kube_sd_config *c)
{
	bool pods = c->role == KUBE_SD_POD || c->role == KUBE_SD_ENDPOINTS || c->role == KUBE_SD_ENDPOINTSLICE;
	return (struct kube_sd_attach){ .node = pods && c->attach.node, .namespace = c->role != KUBE_SD_NODE && c->attach.namespace,
					.deployment = pods && c->attach.deployment, .job = pods && c->attach.job,
					.cronjob = pods && c->attach.cronjob };
}

static int make_lists(struct run *r, struct err *e)
{
	struct arena a;
	struct config_strings names = { 0 };
	arena_init(&a, 0);
	int rc = r->config->role == KUBE_SD_NODE ? 0 : kube_sd_namespaces(r->config, &a, &names, e);

	r->lists = xcalloc((names.n + 1) * LISTS_OF_NAMESPACE + LISTS_OF_CLUSTER, sizeof *r->lists);
	if (!rc && !names.n)
		add_lists(r, NULL);
	for (size_t i = 0; i < names.n && !rc; i++)
		add_lists(r, names.v[i]);
	arena_free(&a);
	if (r->attach.node)
		add_list(r, KUBE_SD_NODE, NULL);
	if (r->attach.namespace)
		add_list(r, KUBE_SD_NAMESPACE, NULL);
	return rc;
}

/* --- begin and end --- */

static int subscribe(struct run *r, struct list *l, struct err *e)
{
	const struct kube_events events = { on_begin, on_put, on_del, on_end, on_problem, l };
	return kube_sd_subscribe(&l->subscription, r->config, l->path, l->label, l->field, &events, e);
}

static void run_free(struct run *r)
{
	for (size_t i = 0; i < r->n_lists; i++) {
		struct list *l = &r->lists[i];
		kube_unsubscribe(l->subscription);
		buf_free(&l->key);
		buf_free(&l->packed);
		free(l->problem);
		free(l->path);
	}
	free(r->lists);
	kube_sd_store_free(&r->store);
	pthread_cond_destroy(&r->moved);
	mutex_destroy(&r->lock);
	free(r);
}

int kube_sd_start(struct discovery_provider **ret, const struct discovery_ops *ops, const void *config, const struct discovery_emit *emit,
		  struct err *e)
{
	struct run *r = NEW(struct run);
	r->provider.ops = ops;
	r->config = config;
	r->emit = *emit;
	r->attach = attach_of(r->config);
	r->store.role = (enum kube_sd_kind)r->config->role;
	mutex_init(&r->lock, RANK_KUBE_RUN, "kubernetes_sd");
	pthread_cond_init(&r->moved, NULL);
	int rc = make_lists(r, e);
	for (size_t i = 0; i < r->n_lists && !rc; i++)
		rc = subscribe(r, &r->lists[i], e);
	if (!rc)
		rc = thread_start(&r->thread, "sd-kubernetes", run_main, r, e);
	if (rc)
		run_free(r);
	else
		*ret = &r->provider;
	return rc;
}

void kube_sd_cancel(struct discovery_provider *p)
{
	struct run *r = run_of(p);
	mutex_lock(&r->lock);
	r->stopping = true;
	pthread_cond_signal(&r->moved);
	mutex_unlock(&r->lock);
	for (size_t i = 0; i < r->n_lists; i++)
		kube_unsubscribe_soon(r->lists[i].subscription);
}

void kube_sd_stop(struct discovery_provider *p)
{
	struct run *r = run_of(p);
	kube_sd_cancel(p);
	pthread_join(r->thread, NULL);
	run_free(r);
}
