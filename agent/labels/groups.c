/* SPDX-License-Identifier: Apache-2.0 */
/* A path is parsed once. A container without a known name is looked up again every RETRY_MS, as long as the name may still come (the
 * runtime writes its files a little later). Pods are looked up again after each change that the API server reports. */
#include "agent/labels/groups.h"

#include "agent/kernel/cgroup_id.h"
#include "agent/kernel/filter.h"
#include "agent/labels/labels.h"
#include "agent/labels/meta.h"
#include "agent/labels/relabel_group.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"

#define GROUPS_MAX 4096
#define FORGET_MS 3600000
#define SWEEP_AT (GROUPS_MAX / 2)
#define RETRY_MS 5000
#define RETRY_WAITING_MS 1000        /* for a pod's container without an API server: its name comes from the runtime's files only */
#define RETRIES_MAX 60
#define RECHECK_MS 30000
#define SCRATCH_MAX ((size_t)1 << 20)

struct sampled_groups {
	struct groups_options o;
	const struct agent_config *config;
	uint64_t pods_version, waiting_version; /* of pods, when all groups were looked up; when only the waiting ones were */
	uint32_t edition;
	size_t n_filtered;
	int64_t rechecked_mono_ms;
	struct arena scratch;        /* of one group's labels */
	struct map index;            /* hash of the path -> all[] */
	VEC(struct sampled_group *) all;
};

struct sampled_groups *groups_new(const struct groups_options *o)
{
	struct sampled_groups *gs = NEW(struct sampled_groups);
	gs->o = *o;
	arena_init(&gs->scratch, SCRATCH_MAX);
	return gs;
}

static void unfilter(struct sampled_groups *gs, struct sampled_group *g)
{
	struct err e;
	if (!g->filtered)
		return;
	IGNORE(filter_cgroup(gs->o.filter, g->filtered, FILTER_NONE, &e)); /* what stays takes room: no other group gets this id */
	g->filtered = 0;
	gs->n_filtered--;
}

static void free_group(struct sampled_groups *gs, struct sampled_group *g)
{
	unfilter(gs, g);
	arena_free(&g->arena);
	arena_free(&g->pod_arena);
	free(g->shared);
	free(g);
}

void groups_free(struct sampled_groups *gs)
{
	if (!gs)
		return;
	for (size_t i = 0; i < gs->all.n; i++)
		free_group(gs, gs->all.v[i]);
	vec_free(&gs->all);
	map_free(&gs->index);
	arena_free(&gs->scratch);
	free(gs);
}


uint32_t groups_edition(const struct sampled_groups *gs)
{
	return gs->edition;
}

size_t groups_count(const struct sampled_groups *gs)
{
	return gs->all.n;
}

/* --- labels --- */

static struct view first_of(struct view a, struct view b)
{
	return a.len ? a : b;
}

/* Whether it is the container that holds its pod's namespaces ("pause"). It is made before the others, and no status of the pod has its
 * id: the pod's other containers all have other ids, or it was waited for long enough. */
static bool group_is_sandbox(const struct sampled_group *g)
{
	return g->info.container_id.len && !g->info.nested && !g->pod.container.len && !g->names.container.len && g->pod.pod.len && g->early &&
	       (g->pod.all_started || g->gave_up);
}

static bool group_is_named(const struct sampled_groups *gs, const struct sampled_group *g)
{
	if (!g->info.container_id.len || !g->info.pod_uid[0] || g->info.nested)
		return true;         /* the group is no container of a pod, so the API server will never name it */
	if (!gs->o.pods)
		return g->names.container.len > 0;
	/* The runtime's files may name the container before the API server does. But only the API server has the pod's labels, and it spells the image in
	 * another way: labels made from the files would differ from the later ones. */
	return g->pod.container.len || group_is_sandbox(g) || (g->pod.pod.len && view_eqs(g->names.container, POD_SANDBOX));
}

void group_add_labels(struct labels_builder *b, struct arena *a, const struct sampled_group *g)
{
	labels_builder_set(b, VIEW("cgroup"), meta_text(a, g->info.path));
	labels_builder_set(b, VIEW("unit"), meta_text(a, g->info.unit));
	labels_builder_set(b, VIEW("container_id"), meta_text(a, g->info.container_id));
	/* A container without a known name is named by the short form of its id, as runtimes print it. */
	struct view short_id = view_make(g->info.container_id.ptr, MIN(g->info.container_id.len, (size_t)12));
	struct view container = first_of(g->pod.container, group_is_sandbox(g) ? VIEW(POD_SANDBOX) : g->names.container);
	labels_builder_set(b, VIEW("container"), first_of(container, meta_text(a, short_id)));
	labels_builder_set(b, VIEW("pod"), first_of(g->pod.pod, g->names.pod));
	labels_builder_set(b, VIEW("namespace"), first_of(g->pod.namespace_, g->names.namespace_));
	labels_builder_set(b, VIEW("image"), first_of(g->pod.image, g->names.image));
	labels_builder_set(b, VIEW("workload"), g->pod.workload);
	labels_builder_set(b, VIEW("pod_uid"), view_of(g->info.pod_uid));
}

void group_add_meta(struct labels_builder *b, struct arena *a, const struct sampled_group *g, struct view node)
{
	meta_add_group(b, a, &g->info, &g->names, node);
	for (size_t i = 0; i < g->pod.meta.n; i++)
		labels_builder_set(b, g->pod.meta.v[i].name, g->pod.meta.v[i].value);
	/* The API server knows a static pod by a copy ("mirror pod"), which has a uid of its own and gets another one each time the kubelet
	 * makes it anew. The uid in the group's path, the hash of the pod's file, stays. */
	if (g->info.pod_uid[0])
		labels_builder_set(b, VIEW("__meta_kubernetes_pod_uid"), view_of(g->info.pod_uid));
}

static void set_external(const struct sampled_groups *gs, struct labels_builder *b)
{
	for (size_t i = 0; i < gs->o.external.n; i++)
		labels_builder_set(b, gs->o.external.v[i].name, gs->o.external.v[i].value);
}

static void drop_internal(struct labels_builder *b)
{
	size_t kept = 0;
	for (size_t i = 0; i < b->l.n; i++)
		if (!view_starts(b->l.v[i].name, VIEW("__")))
			b->l.v[kept++] = b->l.v[i];
	b->l.n = kept;
}

static void decide(struct sampled_groups *gs, struct sampled_group *g)
{
	struct labels_builder b;
	struct arena *a = &gs->scratch;
	struct err e;
	int rc = 1;

	arena_reset(a);
	labels_builder_init(&b, gs->o.external);
	labels_builder_set(&b, VIEW("node"), gs->o.node);
	group_add_labels(&b, a, g);
	if (gs->config && gs->config->relabel.n) {
		meta_add_host(gs->o.meta, &b, gs->o.node);
		group_add_meta(&b, a, g, gs->o.node);
		rc = relabel_group(gs->config->relabel.v, gs->config->relabel.n, meta_names(gs->o.meta), &b, a, &e);
	}
	drop_internal(&b);
	set_external(gs, &b);
	g->dropped = rc == 0;
	free(g->shared);
	g->shared = rc > 0 ? labels_dup(labels_builder_finish(&b)) : NULL;
	g->decided = true;
	labels_builder_free(&b);
}

/* --- the kernel's filter --- */

void groups_drop(struct sampled_groups *gs, struct sampled_group *g, uint64_t cgroup_id)
{
	uint64_t id;
	char path[4096];
	struct err e;
	if (!gs->o.filter || g->filtered || g->path.len >= sizeof path)
		return;
	if (!g->decided)
		decide(gs, g);
	if (!g->dropped)
		return;
	/* Only if it is certainly this group: the process may have moved since its sample, and from another namespace the path may be
	 * another group's. */
	memcpy(path, g->path.ptr, g->path.len);
	path[g->path.len] = 0;
	if (cgroup_id_of(path, &id, &e) || id != cgroup_id || filter_cgroup(gs->o.filter, id, FILTER_DROP_SELF, &e))
		return;
	g->filtered = id;
	gs->n_filtered++;
}

/* The rules or what is known of the group have changed. */
static void reconsider(struct sampled_groups *gs, struct sampled_group *g)
{
	g->decided = false;
	if (!g->filtered)
		return;
	decide(gs, g);
	if (!g->dropped)
		unfilter(gs, g);
}

void groups_use(struct sampled_groups *gs, const struct agent_config *c)
{
	gs->config = c;
	for (size_t i = 0; i < gs->all.n; i++)
		reconsider(gs, gs->all.v[i]);
}

/* Groups that were deleted, or created again under the same path, leave the filter. */
static void recheck(struct sampled_groups *gs, int64_t now_ms)
{
	if (!gs->n_filtered || now_ms - gs->rechecked_mono_ms < RECHECK_MS)
		return;
	gs->rechecked_mono_ms = now_ms;
	for (size_t i = 0; i < gs->all.n; i++) {
		struct sampled_group *g = gs->all.v[i];
		uint64_t id;
		char path[4096];
		struct err e;
		if (!g->filtered || g->path.len >= sizeof path)
			continue;
		memcpy(path, g->path.ptr, g->path.len);
		path[g->path.len] = 0;
		if (cgroup_id_of(path, &id, &e) || id != g->filtered)
			unfilter(gs, g);
	}
}

/* --- what is known --- */

static void look_up(struct sampled_group *g)
{
	g->looked_up_mono_ms = clock_mono_ms();
	g->retries++;
	if (g->info.container_id.len)
		containers_lookup("", g->info.runtime, g->info.container_id, &g->arena, &g->names);
}

/* Looks up the cluster's data about it; true: it has changed. */
static bool look_up_pod(struct sampled_groups *gs, struct sampled_group *g)
{
	struct arena a;
	struct pod_container now;
	if (!gs->o.pods || !(g->info.container_id.len || g->info.pod_uid[0]))
		return false;
	arena_init(&a, 0);
	/* Known data is kept: its processes may outlive the pod for a moment, or the pod may already report the container that
	 * replaced this one. */
	if (!pods_find(gs->o.pods, g->info.container_id, view_of(g->info.pod_uid), &a, &now) ||
	    (!now.container.len && g->pod.container.len) ||
	    (view_eq(now.container, g->pod.container) && now.all_started == g->pod.all_started && labels_eq(now.meta, g->pod.meta))) {
		arena_free(&a);
		return false;
	}
	arena_free(&g->pod_arena);
	g->pod_arena = a;
	g->pod = now;
	return true;
}

static bool look_again(struct sampled_groups *gs, struct sampled_group *g, int64_t now_ms, bool pods)
{
	bool found = pods && look_up_pod(gs, g);
	if (g->info.container_id.len && !g->names.container.len && g->retries < RETRIES_MAX &&
	    now_ms - g->looked_up_mono_ms >= (g->waits && !gs->o.pods ? RETRY_WAITING_MS : RETRY_MS)) {
		look_up(g);
		found |= g->names.container.len > 0;
	}
	if (g->waits && (group_is_named(gs, g) || now_ms - g->met_mono_ms >= GROUP_NAME_WAIT_MS)) {
		g->gave_up = !group_is_named(gs, g);
		g->waits = false;
		found = true;
	}
	if (found)
		reconsider(gs, g);
	return found;
}

/* Drops those that were not sampled since. */
static void sweep(struct sampled_groups *gs, int64_t since_ms)
{
	size_t kept = 0;
	for (size_t i = 0; i < gs->all.n; i++) {
		if (gs->all.v[i]->sampled_mono_ms >= since_ms)
			gs->all.v[kept++] = gs->all.v[i];
		else
			free_group(gs, gs->all.v[i]);
	}
	if (kept == gs->all.n)
		return;
	gs->all.n = kept;
	gs->edition++;
	map_clear(&gs->index);
	for (size_t i = 0; i < kept; i++)
		map_insert(&gs->index, hash_view(gs->all.v[i]->path), (uint32_t)i);
}

bool groups_tick(struct sampled_groups *gs, int64_t now_ms)
{
	uint64_t version = gs->o.pods ? pods_version(gs->o.pods) : 0;
	uint32_t edition = gs->edition;
	bool found = false;
	for (size_t i = 0; i < gs->all.n; i++)
		found |= look_again(gs, gs->all.v[i], now_ms, version != gs->pods_version);
	gs->pods_version = version;
	recheck(gs, now_ms);
	if (gs->all.n > SWEEP_AT)
		sweep(gs, now_ms - FORGET_MS);
	return found || edition != gs->edition;
}

void groups_tick_waiting(struct sampled_groups *gs, int64_t now_ms)
{
	uint64_t version = gs->o.pods ? pods_version(gs->o.pods) : 0;
	for (size_t i = 0; i < gs->all.n; i++)
		if (gs->all.v[i]->waits)
			look_again(gs, gs->all.v[i], now_ms, version != gs->waiting_version);
	gs->waiting_version = version;
}

struct sampled_group *groups_get(struct sampled_groups *gs, struct view path)
{
	uint64_t h = hash_view(path);
	uint32_t id;
	for (size_t at = map_start(&gs->index, h); map_probe(&gs->index, h, &at, &id);)
		if (view_eq(gs->all.v[id]->path, path))
			return gs->all.v[id];
	if (gs->all.n >= GROUPS_MAX) /* hosts with many short-lived groups: the table is emptied rather than growing */
		sweep(gs, INT64_MAX);
	struct sampled_group *g = NEW(struct sampled_group);
	arena_init(&g->arena, 0);
	g->path = arena_view(&g->arena, path);
	cgroup_parse_path(g->path, &g->info);
	if (g->info.candidate.len && (g->info.runtime = containers_confirm("", g->info.candidate)) != CGROUP_RUNTIME_NONE)
		g->info.container_id = g->info.candidate;
	g->names.container = g->names.pod = g->names.namespace_ = g->names.image = VIEW("");
	g->sampled_mono_ms = g->met_mono_ms = clock_mono_ms();
	look_up(g);
	look_up_pod(gs, g);
	g->early = g->pod.pod.len ? !g->pod.started : gs->o.pods && pods_listed(gs->o.pods);
	g->waits = !group_is_named(gs, g);
	map_insert(&gs->index, h, (uint32_t)gs->all.n);
	vec_push(&gs->all, g);
	return g;
}

struct sampled_group *groups_at(struct sampled_groups *gs, size_t i)
{
	struct sampled_group *g = gs->all.v[i];
	if (!g->decided)
		decide(gs, g);
	return g;
}
