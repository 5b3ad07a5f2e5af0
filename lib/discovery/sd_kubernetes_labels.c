/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/sd_kubernetes_labels.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "kube/kube.h"

struct view kube_sd_text(const json_t *object, const char *path)
{
	const json_t *s = kube_get(object, path);
	return json_is_string(s) ? view_make(json_string_value(s), json_string_length(s)) : VIEW("");
}

const json_t *kube_sd_find(const struct kube_sd_build *b, enum kube_sd_kind kind, struct view ns, struct view name)
{
	return name.len ? b->w->find(b->w->arg, kind, ns, name) : NULL;
}

struct view kube_sd_lower(struct kube_sd_build *b, struct view v)
{
	char *copy = arena_strndup(b->arena, v.ptr, v.len);
	if (!copy)
		b->too_large = true;
	for (size_t i = 0; copy && i < v.len; i++)
		copy[i] = (char)tolower((unsigned char)copy[i]);
	return copy ? view_make(copy, v.len) : VIEW("");
}

/* --- sets --- */

void kube_sd_put(struct kube_sd_build *b, const char *name, struct view value)
{
	vec_push(&b->set, (struct kube_sd_label){ { view_of(name), value }, b->set.n });
}

void kube_sd_put_all(struct kube_sd_build *b, struct labels l)
{
	for (size_t i = 0; i < l.n; i++)
		vec_push(&b->set, (struct kube_sd_label){ l.v[i], b->set.n });
}

/* A label whose name or value had to be made. */
static void put_made(struct kube_sd_build *b, const char *name, const char *value)
{
	if (name && value)
		kube_sd_put(b, name, view_of(value));
	else
		b->too_large = true;
}

void kube_sd_put_int(struct kube_sd_build *b, const char *name, int64_t v)
{
	put_made(b, name, arena_printf(b->arena, "%" PRId64, v));
}

void kube_sd_put_bool(struct kube_sd_build *b, const char *name, bool v)
{
	kube_sd_put(b, name, v ? VIEW("true") : VIEW("false"));
}

void kube_sd_put_address(struct kube_sd_build *b, struct view host, int64_t port)
{
	bool brackets = memchr(host.ptr, ':', host.len);
	if (port < 0)
		kube_sd_put(b, "__address__", host);
	else
		put_made(b, "__address__", arena_printf(b->arena, brackets ? "[%.*s]:%" PRId64 : "%.*s:%" PRId64, VIEW_ARG(host), port));
}

/* One '_' for each character that a label's name may not have, however many bytes it takes. */
static const char *label_name(struct arena *a, const char *prefix, struct view key)
{
	size_t n = sizeof META - 1 + strlen(prefix);
	char *name = arena_alloc(a, n + key.len + 1);
	if (!name)
		return NULL;
	memcpy(name, META, sizeof META - 1);
	memcpy(name + sizeof META - 1, prefix, n - (sizeof META - 1));
	for (size_t i = 0; i < key.len; i++) {
		unsigned char ch = (unsigned char)key.ptr[i];
		if ((ch & 0xc0) != 0x80)
			name[n++] = ch < 0x80 && isalnum(ch) ? (char)ch : '_';
	}
	name[n] = 0;
	return name;
}

void kube_sd_put_key(struct kube_sd_build *b, const char *prefix, const char *present, struct view key, struct view value)
{
	const char *name = label_name(b->arena, prefix, key);
	if (name)
		kube_sd_put(b, name, value);
	else
		b->too_large = true;
	if (present)
		put_made(b, label_name(b->arena, present, key), "true");
}

static int by_name(const void *x, const void *y)
{
	const struct kube_sd_label *a = x, *b = y;
	int c = view_cmp(a->label.name, b->label.name);
	return c ? c : (a->order > b->order) - (a->order < b->order);
}

struct labels kube_sd_finish(struct kube_sd_build *b)
{
	struct label *to = arena_alloc(b->arena, b->set.n * sizeof *to);
	size_t n = 0;
	if (!to)
		b->too_large = true;
	if (b->set.n)
		qsort(b->set.v, b->set.n, sizeof *b->set.v, by_name);
	for (size_t i = 0; to && i < b->set.n; i++) {
		const struct label *l = &b->set.v[i].label;
		bool again = i + 1 < b->set.n && view_eq(l->name, b->set.v[i + 1].label.name);
		if (again || !l->value.len)
			continue;
		to[n++] = *l;
		b->bytes += sizeof *l + l->name.len + l->value.len + 2;
	}
	b->set.n = 0;
	b->too_large |= b->bytes > KUBE_SD_GROUP_BYTES_MAX;
	return (struct labels){ to, n };
}

void kube_sd_target(struct kube_sd_build *b)
{
	struct labels l = kube_sd_finish(b);
	if (!b->too_large)
		vec_push(&b->targets, l);
}

/* --- what objects have in common --- */

static void put_members(struct kube_sd_build *b, const json_t *map, const char *role, const char *what)
{
	char prefix[64], present[64];
	const char *key;
	json_t *value;
	snprintf(prefix, sizeof prefix, "%s_%s_", role, what);
	snprintf(present, sizeof present, "%s_%spresent_", role, what);
	json_object_foreach((json_t *)(uintptr_t)map, key, value) {
		struct view text = json_is_string(value) ? view_make(json_string_value(value), json_string_length(value)) : VIEW("");
		kube_sd_put_key(b, prefix, present, view_of(key), text);
	}
}

void kube_sd_put_meta(struct kube_sd_build *b, enum kube_sd_kind kind, const json_t *object, bool with_name)
{
	const char *role = kube_sd_kinds[kind].role;
	const json_t *meta = json_object_get(object, "metadata");
	if (with_name)
		kube_sd_put_key(b, role, NULL, VIEW("_name"), kube_sd_text(meta, "name"));
	put_members(b, json_object_get(meta, "labels"), role, "label");
	put_members(b, json_object_get(meta, "annotations"), role, "annotation");
}

void kube_sd_put_node(struct kube_sd_build *b, struct view name)
{
	const json_t *node = kube_sd_find(b, KUBE_SD_NODE, VIEW(""), name);
	if (node)
		kube_sd_put_meta(b, KUBE_SD_NODE, node, true);
}

void kube_sd_put_namespace(struct kube_sd_build *b, struct view name)
{
	const json_t *ns = b->w->attach.namespace ? kube_sd_find(b, KUBE_SD_NAMESPACE, VIEW(""), name) : NULL;
	if (ns)
		kube_sd_put_meta(b, KUBE_SD_NAMESPACE, ns, false);
}

/* --- pods --- */

static const json_t *controller_of(const json_t *object)
{
	const json_t *owners = kube_get(object, "metadata.ownerReferences");
	for (size_t i = 0; i < json_array_size(owners); i++)
		if (json_is_true(json_object_get(json_array_get(owners, i), "controller")))
			return json_array_get(owners, i);
	return NULL;
}

/* The name of the controller of the pod's controller, if that is of this kind. */
static struct view grand_owner(const struct kube_sd_build *b, enum kube_sd_kind kind, const json_t *pod, struct view name, const char *wanted)
{
	const json_t *between = kube_sd_find(b, kind, kube_sd_text(pod, "metadata.namespace"), name);
	const json_t *owner = controller_of(between);
	return view_eqs(kube_sd_text(owner, "kind"), wanted) ? kube_sd_text(owner, "name") : VIEW("");
}

static void put_owners(struct kube_sd_build *b, const json_t *pod)
{
	const json_t *owner = controller_of(pod);
	struct view kind = kube_sd_text(owner, "kind"), name = kube_sd_text(owner, "name");

	kube_sd_put(b, META "pod_controller_kind", kind);
	kube_sd_put(b, META "pod_controller_name", name);
	if (view_eqs(kind, "ReplicaSet") && b->w->attach.deployment)
		kube_sd_put(b, META "pod_deployment_name", grand_owner(b, KUBE_SD_REPLICASET, pod, name, "Deployment"));
	if (!view_eqs(kind, "Job"))
		return;
	if (b->w->attach.job)
		kube_sd_put(b, META "pod_job_name", name);
	if (b->w->attach.cronjob)
		kube_sd_put(b, META "pod_cronjob_name", grand_owner(b, KUBE_SD_JOB, pod, name, "CronJob"));
}

static struct view ready(struct kube_sd_build *b, const json_t *pod)
{
	const json_t *conditions = kube_get(pod, "status.conditions");
	for (size_t i = 0; i < json_array_size(conditions); i++)
		if (view_eqs(kube_sd_text(json_array_get(conditions, i), "type"), "Ready"))
			return kube_sd_lower(b, kube_sd_text(json_array_get(conditions, i), "status"));
	return VIEW("unknown");
}

void kube_sd_put_pod(struct kube_sd_build *b, const json_t *pod)
{
	kube_sd_put(b, META "pod_ip", kube_sd_text(pod, "status.podIP"));
	kube_sd_put(b, META "pod_ready", ready(b, pod));
	kube_sd_put(b, META "pod_phase", kube_sd_text(pod, "status.phase"));
	kube_sd_put(b, META "pod_node_name", kube_sd_text(pod, "spec.nodeName"));
	kube_sd_put(b, META "pod_host_ip", kube_sd_text(pod, "status.hostIP"));
	kube_sd_put(b, META "pod_uid", kube_sd_text(pod, "metadata.uid"));
	kube_sd_put_meta(b, KUBE_SD_POD, pod, true);
	put_owners(b, pod);
}

bool kube_sd_container(const json_t *pod, size_t i, struct kube_sd_container *ret)
{
	const json_t *c = kube_get(pod, "spec.containers");
	size_t n = json_array_size(c);
	ret->init = i >= n;
	if (ret->init)
		c = kube_get(pod, "spec.initContainers");
	ret->container = json_array_get(c, ret->init ? i - n : i);
	return ret->container;
}
