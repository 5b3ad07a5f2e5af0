/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads, one per list (pods, this node), turn objects into labels as they come; of an object nothing else is kept.
 * Values come from whoever may create pods: labels are small by the API's rules, annotations above VALUE_MAX are left
 * out, and a pod's labels have a cap. */
#include "agent/labels/pods.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/labels/meta.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"

#define PODS_MAX 4096
#define LISTED_MAX (8 * (size_t)PODS_MAX) /* with those that have ended, of which none is kept */
#define POD_BYTES_MAX ((size_t)64 << 10)
#define VALUE_MAX 1024
#define CONTAINERS_MAX 64
/* The samples of its last seconds are still to come when a pod is deleted. */
#define LINGER_MS 60000
/* A lasting problem is logged again after this time. */
#define REPEAT_MS 600000

struct label_vec {
	struct label *v;
	size_t n, cap;
};

struct pod {
	struct arena arena;
	struct view uid, hash;       /* a static pod's processes are in a group named by the hash of its file */
	struct view name, namespace_, workload;
	struct label_vec meta;
	struct pod_part {
		struct view id, name, image;
		bool init;
	} parts[CONTAINERS_MAX];
	size_t n_parts;
	bool started, all_started;   /* one, each of the specification's containers has an id */
	bool seen;                   /* in the list that is being read */
	int64_t gone_ms;             /* monotonic; 0 = it is there */
};

struct pods {
	struct kube_client *client;
	char pod_selector[400], node_selector[320];
	uint32_t pause_ms;
	pthread_t threads[2];
	unsigned n_threads;
	atomic_bool cancel;
	_Atomic uint64_t version, problems;
	struct said {
		char text[256];
		int64_t mono_ms;
	} said[2];                   /* each its thread's own */
	bool node_seen;              /* the node thread's */

	struct mutex lock;           /* guards all below */
	VEC(struct pod *) all;
	bool listing;                /* a list is being read, not a watch */
	atomic_bool listed;          /* a list was read to its end */
	struct arena node_arena;
	struct label_vec node;
};

/* --- objects into labels --- */

static void push(struct arena *a, struct label_vec *to, struct view name, struct view value)
{
	struct view v = value.len ? arena_view(a, value) : VIEW("");
	if (name.ptr && v.ptr && v.len)
		vec_push(to, (struct label){ name, v });
}

static void push_map(struct arena *a, struct label_vec *to, const char *prefix, const char *present, const json_t *map)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)map, key, value) {
		const char *text = json_string_value(value);
		if (!text || strlen(text) > VALUE_MAX || strlen(key) > VALUE_MAX)
			continue;
		push(a, to, meta_label_name(a, prefix, view_of(key)), view_of(text));
		push(a, to, meta_label_name(a, present, view_of(key)), VIEW("true"));
	}
}

/* "containerd://ID" */
static const char *bare_id(const char *s)
{
	const char *at = strstr(s, "://");
	return at ? at + 3 : s;
}

/* Adds the container that a status describes, with the id found at id_path in it: the present id, or the one before a restart. False: the status has
 * no such id. */
static bool add_part(struct pod *p, const json_t *status, const char *id_path, bool init)
{
	if (p->n_parts == CONTAINERS_MAX)
		return false;
	struct pod_part part = { arena_view(&p->arena, view_of(bare_id(kube_text(status, id_path)))),
				 arena_view(&p->arena, view_of(kube_text(status, "name"))),
				 arena_view(&p->arena, view_of(kube_text(status, "image"))), init };
	if (!part.id.len || !part.name.len)
		return false;
	p->parts[p->n_parts++] = part;
	return true;
}

/* Returns how many of the containers have an id. */
static size_t take_statuses(struct pod *p, const json_t *list, bool init)
{
	size_t i, n = 0;
	const json_t *s;
	json_array_foreach(list, i, s) {
		n += add_part(p, s, "containerID", init);
		/* The run before: its samples are of this container, too. */
		add_part(p, s, "lastState.terminated.containerID", init);
	}
	return n;
}

/* The specification has the image as requested; a status may have a digest instead. */
static void take_images(struct pod *p, const json_t *list)
{
	size_t i;
	const json_t *s;
	json_array_foreach(list, i, s) {
		struct view image = arena_view(&p->arena, view_of(kube_text(s, "image")));
		for (size_t k = 0; image.len && k < p->n_parts; k++)
			if (view_eqs(p->parts[k].name, kube_text(s, "name")))
				p->parts[k].image = image;
	}
}

static const char *ready(const json_t *pod)
{
	size_t i;
	const json_t *c;
	json_array_foreach(kube_get(pod, "status.conditions"), i, c)
		if (strcmp(kube_text(c, "type"), "Ready") == 0)
			return strcmp(kube_text(c, "status"), "True") == 0 ? "true" :
			       strcmp(kube_text(c, "status"), "False") == 0 ? "false" : "unknown";
	return "unknown";
}

/* json_object_get of a key with dots in it, in the pod's "metadata.labels" or "metadata.annotations". */
static const char *pod_text(const json_t *pod, const char *map, const char *key)
{
	const char *s = json_string_value(json_object_get(kube_get(pod, map), key));
	return s ? s : "";
}

/* NAME of "NAME-SUFFIX"; empty if the text is not of that form. */
static struct view without_suffix(struct view v, struct view suffix)
{
	if (!suffix.len || v.len < suffix.len + 2 || !view_ends(v, suffix) || v.ptr[v.len - suffix.len - 1] != '-')
		return VIEW("");
	return view_make(v.ptr, v.len - suffix.len - 1);
}

/* The digits behind the last dash of a Job's name: the minute for which a CronJob started it. Empty if there are fewer than eight. */
static struct view minute_of_job(struct view name)
{
	size_t n = 0;
	while (n < name.len && name.ptr[name.len - n - 1] >= '0' && name.ptr[name.len - n - 1] <= '9')
		n++;
	return n >= 8 ? view_make(name.ptr + name.len - n, n) : VIEW("");
}

/* The workload of a pod from its controller's kind and name. A Deployment's and a CronJob's pods have a controller that is made anew at each
 * deploy or run: its name is the workload's with something behind it. A static pod's controller is its node. */
static void find_workload(const json_t *pod, struct view *kind, struct view *name)
{
	struct view is = *kind, stem = VIEW("");
	if (view_eqs(*kind, "ReplicaSet")) {
		is = VIEW("Deployment");
		stem = without_suffix(*name, view_of(pod_text(pod, "metadata.labels", "pod-template-hash")));
	} else if (view_eqs(*kind, "Job")) {
		is = VIEW("CronJob");
		stem = without_suffix(*name, minute_of_job(*name));
	} else if (view_eqs(*kind, "Node")) { /* the kubelet names the pod after its file, with `-NODE` at the end */
		struct view node = *name;
		is = VIEW("Pod");
		*name = view_of(kube_text(pod, "metadata.name"));
		stem = without_suffix(*name, node);
	}
	if (stem.len) {
		*kind = is;
		*name = stem;
	}
}

static void take_controller(struct pod *p, const json_t *pod, struct label_vec *to)
{
	size_t i;
	const json_t *o;
	json_array_foreach(kube_get(pod, "metadata.ownerReferences"), i, o) {
		if (!json_is_true(json_object_get(o, "controller")))
			continue;
		struct view kind = view_of(kube_text(o, "kind")), name = view_of(kube_text(o, "name"));
		push(&p->arena, to, VIEW("__meta_kubernetes_pod_controller_kind"), kind);
		push(&p->arena, to, VIEW("__meta_kubernetes_pod_controller_name"), name);
		find_workload(pod, &kind, &name);
		push(&p->arena, to, VIEW("__meta_kubernetes_pod_workload_kind"), kind);
		push(&p->arena, to, VIEW("__meta_kubernetes_pod_workload_name"), name);
		p->workload = arena_view(&p->arena, name);
		return;
	}
}

static void free_pod(struct pod *p)
{
	arena_free(&p->arena);
	vec_free(&p->meta);
	free(p);
}

static struct pod *read_pod(const json_t *j)
{
	struct pod *p = NEW(struct pod);
	struct label_vec meta = { 0 };
	struct arena *a = &p->arena;

	arena_init(a, POD_BYTES_MAX);
	p->uid = arena_view(a, view_of(kube_text(j, "metadata.uid")));
	p->hash = arena_view(a, view_of(pod_text(j, "metadata.annotations", "kubernetes.io/config.hash")));
	p->name = arena_view(a, view_of(kube_text(j, "metadata.name")));
	p->namespace_ = arena_view(a, view_of(kube_text(j, "metadata.namespace")));
	size_t ids = take_statuses(p, kube_get(j, "status.containerStatuses"), false), wanted = json_array_size(kube_get(j, "spec.containers"));
	p->all_started = wanted && ids >= wanted;
	take_statuses(p, kube_get(j, "status.initContainerStatuses"), true);
	take_statuses(p, kube_get(j, "status.ephemeralContainerStatuses"), false);
	p->started = p->n_parts > 0;
	take_images(p, kube_get(j, "spec.containers"));
	take_images(p, kube_get(j, "spec.initContainers"));
	take_images(p, kube_get(j, "spec.ephemeralContainers"));
	push(a, &meta, VIEW("__meta_kubernetes_namespace"), view_of(kube_text(j, "metadata.namespace")));
	push(a, &meta, VIEW("__meta_kubernetes_pod_name"), view_of(kube_text(j, "metadata.name")));
	push(a, &meta, VIEW("__meta_kubernetes_pod_uid"), view_of(kube_text(j, "metadata.uid")));
	push(a, &meta, VIEW("__meta_kubernetes_pod_ip"), view_of(kube_text(j, "status.podIP")));
	push(a, &meta, VIEW("__meta_kubernetes_pod_host_ip"), view_of(kube_text(j, "status.hostIP")));
	push(a, &meta, VIEW("__meta_kubernetes_pod_phase"), view_of(kube_text(j, "status.phase")));
	push(a, &meta, VIEW("__meta_kubernetes_pod_ready"), view_of(ready(j)));
	push(a, &meta, VIEW("__meta_kubernetes_pod_node_name"), view_of(kube_text(j, "spec.nodeName")));
	p->workload = VIEW("");
	take_controller(p, j, &meta);
	push_map(a, &meta, "__meta_kubernetes_pod_label_", "__meta_kubernetes_pod_labelpresent_", kube_get(j, "metadata.labels"));
	push_map(a, &meta, "__meta_kubernetes_pod_annotation_", "__meta_kubernetes_pod_annotationpresent_",
		 kube_get(j, "metadata.annotations"));
	p->meta = meta;
	return p;
}

/* --- the list --- */

static struct pod **slot_of(struct pods *p, struct view uid) REQUIRES(p->lock)
{
	for (size_t i = 0; i < p->all.n; i++)
		if (view_eq(p->all.v[i]->uid, uid))
			return &p->all.v[i];
	return NULL;
}

static void remove_slot(struct pods *p, struct pod **slot) REQUIRES(p->lock)
{
	free_pod(*slot);
	*slot = p->all.v[--p->all.n];
}

static void remove_gone(struct pods *p) REQUIRES(p->lock)
{
	int64_t now_ms = clock_mono_ms();
	for (size_t i = p->all.n; i-- > 0;)
		if (p->all.v[i]->gone_ms && now_ms - p->all.v[i]->gone_ms > LINGER_MS)
			remove_slot(p, &p->all.v[i]);
}

/* Its containers have ended. */
static bool has_ended(const json_t *pod)
{
	const char *phase = kube_text(pod, "status.phase");
	return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

void pods_put(struct pods *p, const json_t *j)
{
	bool ended = has_ended(j);
	struct pod *n = read_pod(j);
	mutex_lock(&p->lock);
	remove_gone(p);
	struct pod **slot = slot_of(p, n->uid);
	n->seen = true;
	/* The id of a container that runs for a second may come with the end of its pod. */
	if (ended)
		n->gone_ms = slot && (*slot)->gone_ms ? (*slot)->gone_ms : clock_mono_ms();
	if (ended && !slot && (p->listing || p->all.n >= PODS_MAX)) {
		free_pod(n);         /* a first list has many pods that ended long ago: they are not kept */
	} else if (!n->uid.len || (!slot && p->all.n >= PODS_MAX)) {
		free_pod(n);
		p->problems++;
	} else if (slot) {
		free_pod(*slot);
		*slot = n;
	} else {
		vec_push(&p->all, n);
	}
	mutex_unlock(&p->lock);
	atomic_fetch_add(&p->version, 1);
}

void pods_del(struct pods *p, const json_t *j)
{
	struct pod *last = read_pod(j);
	mutex_lock(&p->lock);
	struct pod **slot = slot_of(p, last->uid);
	/* Its last state may be the first one with the ids of its containers. */
	if (slot && last->n_parts >= (*slot)->n_parts) {
		struct pod *before = *slot;
		*slot = last;
		last = before;
	}
	if (slot)
		(*slot)->gone_ms = clock_mono_ms();
	free_pod(last);
	remove_gone(p);
	mutex_unlock(&p->lock);
	atomic_fetch_add(&p->version, 1);
}

static void list_begins(void *arg)
{
	struct pods *p = arg;
	mutex_lock(&p->lock);
	for (size_t i = 0; i < p->all.n; i++)
		p->all.v[i]->seen = false;
	p->listing = true;
	mutex_unlock(&p->lock);
}

void pods_list_ends(struct pods *p)
{
	mutex_lock(&p->lock);
	for (size_t i = p->all.n; i-- > 0;)
		if (!p->all.v[i]->seen && !p->all.v[i]->gone_ms)
			p->all.v[i]->gone_ms = clock_mono_ms();
	p->listing = false;
	atomic_store(&p->listed, true);
	mutex_unlock(&p->lock);
	atomic_fetch_add(&p->version, 1);
}

static void list_ends(void *arg)
{
	pods_list_ends(arg);
}

/* --- the threads --- */

static void on_put(void *arg, const json_t *j)
{
	pods_put(arg, j);
}

static void on_del(void *arg, const json_t *j)
{
	pods_del(arg, j);
}

static void say(struct said *last, const char *text)
{
	int64_t now_ms = clock_mono_ms();
	if (strncmp(last->text, text, sizeof last->text - 1) == 0 && now_ms - last->mono_ms < REPEAT_MS)
		return;
	snprintf(last->text, sizeof last->text, "%s", text);
	last->mono_ms = now_ms;
	LOG_WARN("msg", "Kubernetes", "err", text);
}

static void pods_problem(void *arg, const struct err *e)
{
	struct pods *p = arg;
	if (!e)
		return;
	p->problems++;
	say(&p->said[0], e->msg);
}

static void node_problem(void *arg, const struct err *e)
{
	struct pods *p = arg;
	if (!e)
		return;
	p->problems++;
	say(&p->said[1], e->msg);
}

static void put_node(void *arg, const json_t *j)
{
	struct pods *p = arg;
	struct label_vec meta = { 0 };
	struct arena a;

	p->node_seen = true;
	arena_init(&a, POD_BYTES_MAX);
	push(&a, &meta, VIEW("__meta_kubernetes_node_name"), view_of(kube_text(j, "metadata.name")));
	push_map(&a, &meta, "__meta_kubernetes_node_label_", "__meta_kubernetes_node_labelpresent_", kube_get(j, "metadata.labels"));
	push_map(&a, &meta, "__meta_kubernetes_node_annotation_", "__meta_kubernetes_node_annotationpresent_",
		 kube_get(j, "metadata.annotations"));
	mutex_lock(&p->lock);
	/* A node's status changes all the time, its labels hardly ever. */
	bool same = labels_eq((struct labels){ p->node.v, p->node.n }, (struct labels){ meta.v, meta.n });
	free(p->node.v);
	arena_free(&p->node_arena);
	p->node = meta;
	p->node_arena = a;
	mutex_unlock(&p->lock);
	if (!same)
		atomic_fetch_add(&p->version, 1);
}

static void node_list_begins(void *arg)
{
	((struct pods *)arg)->node_seen = false;
}

/* Then its pods are gone as well, and no other event would say so. */
static void node_list_ends(void *arg)
{
	struct pods *p = arg;
	char text[512];
	if (p->node_seen)
		return;
	snprintf(text, sizeof text, "the cluster has no node with %s: say its name with --node, or pods have no labels",
		 p->node_selector);
	p->problems++;
	say(&p->said[1], text);
}

static void no_node(void *arg, const json_t *j)
{
	(void)arg;
	(void)j;
}

static void *watch_pods(void *arg)
{
	struct pods *p = arg;
	kube_watch_run(&(struct kube_watch){ .client = p->client, .path = "/api/v1/pods", .field_selector = p->pod_selector,
					     .cancel = &p->cancel, .begin = list_begins, .put = on_put, .del = on_del,
					     .end = list_ends, .problem = pods_problem, .arg = p, .page = 100,
					     .max_objects = LISTED_MAX, .pause_ms = p->pause_ms });
	return NULL;
}

static void *watch_node(void *arg)
{
	struct pods *p = arg;
	kube_watch_run(&(struct kube_watch){ .client = p->client, .path = "/api/v1/nodes", .field_selector = p->node_selector,
					     .cancel = &p->cancel, .begin = node_list_begins, .put = put_node, .del = no_node,
					     .end = node_list_ends, .problem = node_problem, .arg = p, .max_objects = 1, .pause_ms = p->pause_ms });
	return NULL;
}

struct pods *pods_new(void)
{
	struct pods *p = NEW(struct pods);
	mutex_init(&p->lock, LOCK_LEAF, "pods");
	arena_init(&p->node_arena, POD_BYTES_MAX);
	return p;
}

int pods_start(struct pods **ret, const struct pods_options *o, struct err *e)
{
	static void *(*const run[])(void *arg) = { watch_pods, watch_node };
	struct pods *p = pods_new();
	int rc = 0;

	p->client = o->client;
	p->pause_ms = o->pause_ms;
	/* Pods that have ended, which may be many, are watched, too. A watch that leaves them out reports the end of a pod with the state before the
	 * end, and that of a pod that runs for a second does not have the ids of its containers yet. */
	snprintf(p->pod_selector, sizeof p->pod_selector, "spec.nodeName=%s", o->node);
	snprintf(p->node_selector, sizeof p->node_selector, "metadata.name=%s", o->node);
	for (size_t i = 0; i < ARRAY_LEN(run) && !rc; i++) {
		rc = thread_start(&p->threads[i], i ? "kube-node" : "kube-pods", run[i], p, e);
		p->n_threads += !rc;
	}
	if (rc)
		pods_stop(p);
	else
		*ret = p;
	return rc;
}

void pods_stop(struct pods *p)
{
	if (!p)
		return;
	atomic_store(&p->cancel, true);
	for (unsigned i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	for (size_t i = 0; i < p->all.n; i++)
		free_pod(p->all.v[i]);
	vec_free(&p->all);
	free(p->node.v);
	arena_free(&p->node_arena);
	kube_client_free(p->client);
	mutex_destroy(&p->lock);
	free(p);
}

/* --- look-ups --- */

static const struct pod *find(const struct pods *p, struct view id, struct view uid, const struct pod_part **ret_part) REQUIRES(p->lock)
{
	*ret_part = NULL;
	for (size_t i = 0; id.len && i < p->all.n; i++) {
		const struct pod *pod = p->all.v[i];
		for (size_t k = 0; k < pod->n_parts; k++) {
			if (!view_eq(pod->parts[k].id, id))
				continue;
			*ret_part = &pod->parts[k];
			return pod;
		}
	}
	for (size_t i = 0; uid.len && i < p->all.n; i++)
		if (view_eq(p->all.v[i]->uid, uid))
			return p->all.v[i];
	/* The annotation is anybody's to write, the uid is not. */
	for (size_t i = 0; uid.len && i < p->all.n; i++)
		if (view_eq(p->all.v[i]->hash, uid))
			return p->all.v[i];
	return NULL;
}

static void copy_out(const struct pods *p, const struct pod *pod, const struct pod_part *part, struct arena *a,
		     struct pod_container *ret) REQUIRES(p->lock)
{
	struct label_vec meta = { 0 };
	for (size_t i = 0; i < pod->meta.n; i++)
		vec_push(&meta, pod->meta.v[i]);
	for (size_t i = 0; i < p->node.n; i++)
		vec_push(&meta, p->node.v[i]);
	if (part) {
		vec_push(&meta, (struct label){ VIEW("__meta_kubernetes_pod_container_name"), part->name });
		vec_push(&meta, (struct label){ VIEW("__meta_kubernetes_pod_container_id"), part->id });
		vec_push(&meta, (struct label){ VIEW("__meta_kubernetes_pod_container_image"), part->image });
		vec_push(&meta, (struct label){ VIEW("__meta_kubernetes_pod_container_init"), part->init ? VIEW("true") : VIEW("false") });
		ret->container = arena_view(a, part->name);
		ret->image = arena_view(a, part->image);
	}
	ret->pod = arena_view(a, pod->name);
	ret->namespace_ = arena_view(a, pod->namespace_);
	ret->workload = arena_view(a, pod->workload);
	ret->started = pod->started;
	ret->all_started = pod->all_started;
	ret->meta = labels_copy(a, (struct labels){ meta.v, meta.n });
	vec_free(&meta);
}

bool pods_find(struct pods *p, struct view container_id, struct view pod_uid, struct arena *a, struct pod_container *ret)
{
	const struct pod_part *part;
	*ret = (struct pod_container){ VIEW(""), VIEW(""), VIEW(""), VIEW(""), VIEW(""), { NULL, 0 }, false, false };
	mutex_lock(&p->lock);
	const struct pod *pod = find(p, container_id, pod_uid, &part);
	if (pod)
		copy_out(p, pod, part, a, ret);
	mutex_unlock(&p->lock);
	return pod;
}

bool pods_listed(const struct pods *p)
{
	return atomic_load(&p->listed);
}

uint64_t pods_version(const struct pods *p)
{
	return atomic_load(&p->version);
}

void pods_stats(struct pods *p, size_t *ret_pods, uint64_t *ret_problems)
{
	*ret_pods = 0;
	mutex_lock(&p->lock);
	for (size_t i = 0; i < p->all.n; i++)
		*ret_pods += !p->all.v[i]->gone_ms;
	mutex_unlock(&p->lock);
	*ret_problems = p->problems;
}
