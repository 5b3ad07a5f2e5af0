/* SPDX-License-Identifier: Apache-2.0 */
/* The labeler. What a control group's path says is found once per path and kept; a container whose name is not known
 * yet (the runtime writes its files a little later) is looked up again every RETRY_MS, for as long as it may still come.
 * Rules are applied once per process, and again when the rules or the names of its container have changed. */
#include "agent/labels.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/containers.h"
#include "agent/meta.h"
#include "agent/pods.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"

#define GROUPS_MAX 8192
#define RETRY_MS 5000
#define RETRIES_MAX 60
#define CGROUP_TEXT_MAX 4096
#define SCRATCH_MAX ((size_t)1 << 20)
/* Of one process, after relabelling: a rule may make any number of labels of a hostile command line. */
#define LABELS_BYTES_MAX ((size_t)16 << 10)

struct group {
	struct arena arena;
	struct view path;
	struct cgroup_info info;
	struct container_names names;
	struct arena pod_arena;
	struct pod_container pod; /* what the API server says; wins over the files */
	int64_t looked_up_mono_ms;
	unsigned retries;
};

struct labeler {
	char node[256];
	struct labels external;
	const struct agent_config *config;
	struct pods *pods;
	uint64_t pods_version;
	struct meta *meta;
	struct arena scratch;    /* of one process's labels */
	uint32_t generation;
	uint64_t errors;
	struct map index;        /* hash of the path -> groups[] */
	VEC(struct group *) groups;
};

struct labeler *labeler_new(const struct labeler_options *o, struct err *e)
{
	struct labeler *l = NEW(struct labeler);
	(void)e;
	if (o->node && *o->node)
		snprintf(l->node, sizeof l->node, "%s", o->node);
	else if (gethostname(l->node, sizeof l->node - 1))
		snprintf(l->node, sizeof l->node, "unknown");
	l->external = o->external;
	l->pods = o->pods;
	l->meta = meta_new();
	l->generation = 1;
	arena_init(&l->scratch, SCRATCH_MAX);
	return l;
}

void labeler_use(struct labeler *l, const struct agent_config *c)
{
	l->config = c;
	l->generation++;
	meta_use(l->meta, c);
}

uint32_t labeler_generation(const struct labeler *l)
{
	return l->generation;
}

uint64_t labeler_errors(const struct labeler *l)
{
	return l->errors;
}

static void drop_groups(struct labeler *l)
{
	for (size_t i = 0; i < l->groups.n; i++) {
		arena_free(&l->groups.v[i]->arena);
		arena_free(&l->groups.v[i]->pod_arena);
		free(l->groups.v[i]);
	}
	l->groups.n = 0;
	map_clear(&l->index);
}

void labeler_free(struct labeler *l)
{
	if (!l)
		return;
	drop_groups(l);
	vec_free(&l->groups);
	map_free(&l->index);
	meta_free(l->meta);
	arena_free(&l->scratch);
	free(l);
}

static size_t read_cgroup(uint32_t pid, char *out, size_t max)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%u/cgroup", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, max) : 0;
	if (fd >= 0)
		close(fd);
	return n > 0 ? (size_t)n : 0;
}

/* --- groups --- */

static bool unresolved(const struct group *g)
{
	return g->info.container_id.len && !g->names.container.len && g->retries < RETRIES_MAX;
}

static void look_up(struct group *g)
{
	g->looked_up_mono_ms = clock_mono_ms();
	g->retries++;
	if (g->info.container_id.len)
		containers_lookup("", g->info.runtime, g->info.container_id, &g->arena, &g->names);
}

/* Asks what the cluster knows of it; true: something else than before. */
static bool look_up_pod(struct labeler *l, struct group *g)
{
	struct arena a;
	struct pod_container now;
	if (!l->pods || !(g->info.container_id.len || g->info.pod_uid[0]))
		return false;
	arena_init(&a, 0);
	/* What was known stays known: its processes may outlive the pod by a little. */
	if (!pods_find(l->pods, g->info.container_id, view_of(g->info.pod_uid), &a, &now) ||
	    (view_eq(now.container, g->pod.container) && labels_eq(now.meta, g->pod.meta))) {
		arena_free(&a);
		return false;
	}
	arena_free(&g->pod_arena);
	g->pod_arena = a;
	g->pod = now;
	return true;
}

void labeler_tick(struct labeler *l)
{
	bool found = false;
	int64_t now_ms = clock_mono_ms();
	uint64_t version = l->pods ? pods_version(l->pods) : 0;
	for (size_t i = 0; i < l->groups.n && version != l->pods_version; i++)
		found |= look_up_pod(l, l->groups.v[i]);
	l->pods_version = version;
	for (size_t i = 0; i < l->groups.n; i++) {
		struct group *g = l->groups.v[i];
		if (!unresolved(g) || now_ms - g->looked_up_mono_ms < RETRY_MS)
			continue;
		look_up(g);
		found |= g->names.container.len > 0;
	}
	l->generation += found;
}

static struct group *group_of(struct labeler *l, struct view path)
{
	uint64_t h = hash_view(path);
	uint32_t id;
	for (size_t at = map_start(&l->index, h); map_probe(&l->index, h, &at, &id);)
		if (view_eq(l->groups.v[id]->path, path))
			return l->groups.v[id];
	if (l->groups.n >= GROUPS_MAX) /* hosts that churn through groups: begin anew rather than grow */
		drop_groups(l);
	struct group *g = NEW(struct group);
	arena_init(&g->arena, 0);
	g->path = arena_view(&g->arena, path);
	cgroup_parse_path(g->path, &g->info);
	g->names.container = g->names.pod = g->names.namespace_ = g->names.image = VIEW("");
	look_up(g);
	look_up_pod(l, g);
	map_insert(&l->index, h, (uint32_t)l->groups.n);
	vec_push(&l->groups, g);
	return g;
}

/* --- labels --- */

static struct view first_of(struct view a, struct view b)
{
	return a.len ? a : b;
}

static void set_group_labels(struct labels_builder *b, struct arena *a, const struct group *g)
{
	labels_builder_set(b, VIEW("cgroup"), meta_text(a, g->info.path));
	labels_builder_set(b, VIEW("unit"), meta_text(a, g->info.unit));
	labels_builder_set(b, VIEW("container_id"), meta_text(a, g->info.container_id));
	/* A container without a known name goes by the short form of its id, as runtimes print it. */
	struct view short_id = view_make(g->info.container_id.ptr, MIN(g->info.container_id.len, (size_t)12));
	struct view container = first_of(g->pod.container, g->names.container);
	labels_builder_set(b, VIEW("container"), first_of(container, meta_text(a, short_id)));
	labels_builder_set(b, VIEW("pod"), first_of(g->pod.pod, g->names.pod));
	labels_builder_set(b, VIEW("namespace"), first_of(g->pod.namespace_, g->names.namespace_));
	labels_builder_set(b, VIEW("image"), first_of(g->pod.image, g->names.image));
	labels_builder_set(b, VIEW("pod_uid"), view_of(g->info.pod_uid));
}

/* "kworker/3:1-events" and its many brothers are one kworker. */
static struct view fold_comm(const struct process_info *p)
{
	struct view v = view_make(p->comm, strnlen(p->comm, sizeof p->comm));
	return p->kernel_thread && view_starts(v, VIEW("kworker/")) ? VIEW("kworker") : v;
}

/* What a process has without any rules. */
static void set_own_labels(struct labeler *l, struct labels_builder *b, const struct process_info *p,
			   const struct group *g)
{
	char hex[2 * BUILD_ID_MAX + 1];
	labels_builder_set(b, VIEW("node"), view_of(l->node));
	labels_builder_set(b, VIEW("comm"), meta_text(&l->scratch, fold_comm(p)));
	if (g)
		set_group_labels(b, &l->scratch, g);
	if (!p->exe)
		return;
	labels_builder_set(b, VIEW("exe"), meta_text(&l->scratch, view_of(p->exe->path ? p->exe->path : "")));
	labels_builder_set(b, VIEW("exe_build_id"), arena_view(&l->scratch, view_of(image_build_id_hex(p->exe, hex))));
}

static void set_external(const struct labeler *l, struct labels_builder *b)
{
	for (size_t i = 0; i < l->external.n; i++)
		labels_builder_set(b, l->external.v[i].name, l->external.v[i].value);
}

/* Drops what relabelling alone may see, and cuts off what is too much. */
static void tidy(struct labels_builder *b)
{
	size_t kept = 0, bytes = 0;
	for (size_t i = 0; i < b->l.n; i++) {
		struct label x = b->l.v[i];
		if (view_starts(x.name, VIEW("__")) || bytes + x.name.len + x.value.len > LABELS_BYTES_MAX)
			continue;
		bytes += x.name.len + x.value.len;
		b->l.v[kept++] = x;
	}
	b->l.n = kept;
}

/* True: the process is to be sampled. */
static bool relabel(struct labeler *l, struct labels_builder *b, const struct process_info *p, const struct group *g)
{
	struct err e;
	meta_add_host(l->meta, b, view_of(l->node));
	if (g)
		meta_add_group(b, &l->scratch, &g->info, &g->names, view_of(l->node));
	for (size_t i = 0; g && i < g->pod.meta.n; i++)
		labels_builder_set(b, g->pod.meta.v[i].name, g->pod.meta.v[i].value);
	meta_add_process(l->meta, b, &l->scratch, p);
	int rc = relabel_apply(l->config->relabel.v, l->config->relabel.n, b, &l->scratch, &e);
	if (rc < 0) {
		l->errors++;
		b->l.n = 0;
		set_external(l, b);
		set_own_labels(l, b, p, g);
	}
	tidy(b);
	return rc != 0;
}

void labeler_process(struct labeler *l, struct process_info *p)
{
	struct labels_builder b;
	char text[CGROUP_TEXT_MAX];
	struct cgroup_info info;
	size_t n = p->kernel_thread ? 0 : read_cgroup(p->pid, text, sizeof text);
	struct group *g = n && cgroup_parse(view_make(text, n), &info) ? group_of(l, info.path) : NULL;

	arena_reset(&l->scratch);
	labels_builder_init(&b, l->external);
	set_own_labels(l, &b, p, g);
	if (l->config && l->config->relabel.n)
		p->dropped = !relabel(l, &b, p, g);
	/* The flags' external labels have the last word. */
	set_external(l, &b);
	p->labels = labels_dup(labels_builder_finish(&b));
	p->generation = l->generation;
	labels_builder_free(&b);
}
