/* SPDX-License-Identifier: Apache-2.0 */
/* One watch of the pods of a namespace serves all objects there (lib/kube shares it). Each object checks itself which pods it selects,
 * and remembers only the names of those pods. Everything happens on the informer's thread. */
#include "discovery/sd_object_pods.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "kube/kube.h"

/* --- selectors --- */

static int check_requirement(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct kube_requirement *r = at;
	bool set = r->op == KUBE_IN || r->op == KUBE_NOT_IN;
	if (!r->key[0])
		return config_error(c, n, e, "key is empty");
	if (set && !r->values.n)
		return config_error(c, n, e, "In and NotIn need values");
	if (!set && r->values.n)
		return config_error(c, n, e, "Exists and DoesNotExist take no values");
	return 0;
}

static const struct config_field requirement_rows[] = {
	{ "key", CONFIG_STRING, offsetof(struct kube_requirement, key), NULL, CONFIG_REQUIRED },
	{ "operator", CONFIG_ENUM, offsetof(struct kube_requirement, op), NULL, CONFIG_REQUIRED, .words = KUBE_OPERATORS },
	{ "values", CONFIG_STRINGS, offsetof(struct kube_requirement, values) },
};
static const struct config_table requirement_table = CONFIG_TABLE(struct kube_requirement, requirement_rows, check_requirement);

static const struct config_field selector_rows[] = {
	{ "matchLabels", CONFIG_MAP, offsetof(struct kube_label_selector, match_labels) },
	{ "matchExpressions", CONFIG_STRUCTS, offsetof(struct kube_label_selector, match_expressions), .table = &requirement_table },
};
const struct config_table kube_label_selector_table = CONFIG_TABLE(struct kube_label_selector, selector_rows, NULL);

static bool in(const struct config_strings *values, const char *v)
{
	for (size_t i = 0; i < values->n; i++)
		if (strcmp(values->v[i], v) == 0)
			return true;
	return false;
}

/* As Kubernetes: NotIn also holds where there is no such label. */
static bool holds(const struct kube_requirement *r, const char *value)
{
	switch ((enum kube_operator)r->op) {
	case KUBE_IN: return value && in(&r->values, value);
	case KUBE_NOT_IN: return !value || !in(&r->values, value);
	case KUBE_EXISTS: return value;
	case KUBE_DOES_NOT_EXIST: return !value;
	}
	return false;
}

bool kube_label_selector_matches(const struct kube_label_selector *s, const json_t *labels)
{
	const struct kube_requirement *r = s->match_expressions.v;
	for (size_t i = 0; i < s->match_labels.n; i++) {
		const char *value = json_string_value(json_object_get(labels, s->match_labels.v[i].key));
		if (!value || strcmp(value, s->match_labels.v[i].value) != 0)
			return false;
	}
	for (size_t i = 0; i < s->match_expressions.n; i++)
		if (!holds(&r[i], json_string_value(json_object_get(labels, r[i].key))))
			return false;
	return true;
}

/* --- the configuration: made by program, so that of the table only comparing is used --- */

static const struct config_field rows[] = {
	{ "namespace", CONFIG_STRING, offsetof(struct object_pods_config, namespace) },
	{ "selector", CONFIG_STRUCT, offsetof(struct object_pods_config, selector), .table = &kube_label_selector_table },
	{ "port", CONFIG_STRING, offsetof(struct object_pods_config, port) },
	{ "portNumber", CONFIG_COUNT, offsetof(struct object_pods_config, port_number) },
};
static const struct config_table table = CONFIG_TABLE(struct object_pods_config, rows, NULL);

static bool same(const void *x, const void *y)
{
	const struct object_pods_config *a = x, *b = y;
	return kube_sd_same_source(&a->source, &b->source) && config_same(&table, a, b);
}

/* --- at work --- */

struct run {
	struct discovery_provider provider;
	const struct object_pods_config *config;
	struct discovery_emit emit;
	struct kube_subscription *subscription;
	/* the informer's thread's */
	struct arena arena;
	VEC(char *) told;        /* names of pods that have a group */
	VEC(uint32_t) rounds;    /* the same order */
	struct map index;        /* hash of a name -> place in told */
	uint32_t round;
};

static size_t find(const struct run *r, const char *name)
{
	uint64_t hash = hash_bytes(name, strlen(name));
	uint32_t id;
	for (size_t at = map_start(&r->index, hash); map_probe(&r->index, hash, &at, &id);)
		if (strcmp(r->told.v[id], name) == 0)
			return id;
	return SIZE_MAX;
}

static void tell_gone(struct run *r, size_t at)
{
	char *name = r->told.v[at], *last = r->told.v[r->told.n - 1];
	r->emit.group(r->emit.arg, &(struct discovery_group){ .source = name });
	map_remove(&r->index, hash_bytes(name, strlen(name)), (uint32_t)at);
	if (last != name) {
		map_remove(&r->index, hash_bytes(last, strlen(last)), (uint32_t)r->told.n - 1);
		map_insert(&r->index, hash_bytes(last, strlen(last)), (uint32_t)at);
		r->told.v[at] = last;
		r->rounds.v[at] = r->rounds.v[r->told.n - 1];
	}
	r->told.n--;
	r->rounds.n--;
	free(name);
}

static void note_told(struct run *r, const char *name)
{
	size_t at = find(r, name);
	if (at != SIZE_MAX) {
		r->rounds.v[at] = r->round;
		return;
	}
	map_insert(&r->index, hash_bytes(name, strlen(name)), (uint32_t)r->told.n);
	vec_push(&r->told, xstrdup(name));
	vec_push(&r->rounds, r->round);
}

static struct view label(struct labels target, struct labels group, const char *name)
{
	struct view v = labels_get(target, view_of(name));
	return v.len ? v : labels_get(group, view_of(name));
}

static bool has_port(const struct run *r, struct labels target, struct labels group)
{
	char number[24];
	snprintf(number, sizeof number, "%lld", (long long)r->config->port_number);
	return r->config->port ? view_eqs(label(target, group, "__meta_kubernetes_pod_container_port_name"), r->config->port)
			       : view_eqs(label(target, group, "__meta_kubernetes_pod_container_port_number"), number);
}

/* A target with the labels that a job of an object has besides. */
static struct labels target_labels(struct run *r, struct labels group, struct labels target)
{
	struct labels_builder b;
	labels_builder_init(&b, target);
	labels_builder_set(&b, VIEW("namespace"), view_of(r->config->namespace));
	labels_builder_set(&b, VIEW("pod"), label(target, group, "__meta_kubernetes_pod_name"));
	labels_builder_set(&b, VIEW("container"), label(target, group, "__meta_kubernetes_pod_container_name"));
	labels_builder_set(&b, VIEW("endpoint"), r->config->port ? view_of(r->config->port)
				: label(target, group, "__meta_kubernetes_pod_container_port_number"));
	struct labels l = labels_builder_finish(&b);
	struct label *v = arena_alloc(&r->arena, (l.n + 1) * sizeof *v);
	if (v)
		memcpy(v, l.v, l.n * sizeof *v);
	labels_builder_free(&b);
	return (struct labels){ v, v ? l.n : 0 };
}

static bool selected(const struct run *r, const json_t *pod)
{
	const char *phase = kube_text(pod, "status.phase");
	return strcmp(kube_text(pod, "metadata.namespace"), r->config->namespace) == 0 && strcmp(phase, "Succeeded") != 0 &&
	       strcmp(phase, "Failed") != 0 && kube_label_selector_matches(&r->config->selector, kube_get(pod, "metadata.labels"));
}

static const json_t *find_nothing(void *arg, enum kube_sd_kind kind, struct view ns, struct view name)
{
	return NULL;
}

/* False: no target of the pod is scraped. */
static bool tell_pod(struct run *r, const json_t *pod, const char *name)
{
	struct kube_sd_world nobody = { .find = find_nothing };
	struct discovery_group g = { 0 };
	struct err e = { 0 };
	size_t n = 0;
	if (!selected(r, pod))
		return false;
	if (kube_sd_group(KUBE_SD_POD, pod, &nobody, &r->arena, &g, &e)) {
		LOG_WARN("msg", "a pod is left out", "namespace", r->config->namespace, "pod", name, "err", e.msg);
		return false;
	}
	struct labels *targets = arena_alloc(&r->arena, (g.n_targets + 1) * sizeof *targets);
	for (size_t i = 0; targets && i < g.n_targets; i++)
		if (has_port(r, g.targets[i], g.labels))
			n += (targets[n] = target_labels(r, g.labels, g.targets[i])).n > 0;
	if (!n)
		return false;
	r->emit.group(r->emit.arg, &(struct discovery_group){ name, g.labels, targets, n });
	note_told(r, name);
	return true;
}

static void on_begin(void *arg)
{
	struct run *r = arg;
	r->round++;
}

static void on_put(void *arg, const json_t *pod)
{
	struct run *r = arg;
	const char *name = kube_text(pod, "metadata.name");
	if (!*name)
		return;
	if (!tell_pod(r, pod, name)) {
		size_t at = find(r, name);
		if (at != SIZE_MAX)
			tell_gone(r, at);
	}
	arena_reset(&r->arena);
}

static void on_del(void *arg, const json_t *pod)
{
	struct run *r = arg;
	size_t at = find(r, kube_text(pod, "metadata.name"));
	if (at != SIZE_MAX)
		tell_gone(r, at);
}

static void on_end(void *arg)
{
	struct run *r = arg;
	for (size_t i = 0; i < r->told.n;)
		if (r->rounds.v[i] != r->round)
			tell_gone(r, i);
		else
			i++;
	r->emit.ready(r->emit.arg);
}

static void on_problem(void *arg, const struct err *e)
{
	struct run *r = arg;
	r->emit.problem(r->emit.arg, e && e->code ? e : NULL);
}

static void run_free(struct run *r)
{
	for (size_t i = 0; i < r->told.n; i++)
		free(r->told.v[i]);
	vec_free(&r->told);
	vec_free(&r->rounds);
	map_free(&r->index);
	arena_free(&r->arena);
	free(r);
}

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	struct run *r = NEW(struct run);
	struct buf path = { 0 };
	r->provider.ops = &sd_object_pods;
	r->config = config;
	r->emit = *emit;
	arena_init(&r->arena, 4 * KUBE_SD_GROUP_BYTES_MAX);
	kube_sd_path(KUBE_SD_POD, r->config->namespace, &path);
	const struct kube_events events = { on_begin, on_put, on_del, on_end, on_problem, r };
	int rc = kube_sd_subscribe(&r->subscription, &r->config->source, path.ptr, NULL, NULL, &events, e);
	buf_free(&path);
	if (rc)
		run_free(r);
	else
		*ret = &r->provider;
	return rc;
}

static struct run *run_of(struct discovery_provider *p)
{
	return (struct run *)((char *)p - offsetof(struct run, provider));
}

static void cancel(struct discovery_provider *p)
{
	kube_unsubscribe_soon(run_of(p)->subscription);
}

static void stop(struct discovery_provider *p)
{
	struct run *r = run_of(p);
	kube_unsubscribe(r->subscription);
	run_free(r);
}

static void name(const void *config, struct buf *out)
{
	buf_printf(out, "pods of %s", ((const struct object_pods_config *)config)->namespace);
}

const struct discovery_ops sd_object_pods = { .key = "kubernetes_scrape_configs", .same = same, .start = start, .stop = stop,
					      .cancel = cancel, .name = name };
