/* SPDX-License-Identifier: Apache-2.0 */
/* The labeler. What a control group's path says is found once per path and kept; a container whose name is not known
 * yet (the runtime writes its files a little later) is looked up again after RETRY_MS. */
#include "agent/labels.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/cgroup.h"
#include "agent/containers.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"

#define GROUPS_MAX 8192
#define RETRY_MS 5000
#define CGROUP_TEXT_MAX 4096

struct group {
	struct arena arena;
	struct view path;
	struct cgroup_info info;
	struct container_names names;
	int64_t looked_up_mono_ms;
};

struct labeler {
	char node[256];
	struct labels external;
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
	return l;
}

static void drop_groups(struct labeler *l)
{
	for (size_t i = 0; i < l->groups.n; i++) {
		arena_free(&l->groups.v[i]->arena);
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
	free(l);
}

static size_t read_proc(uint32_t pid, const char *file, char *out, size_t max)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%u/%s", pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, max) : 0;
	if (fd >= 0)
		close(fd);
	return n > 0 ? (size_t)n : 0;
}

static void look_up(struct group *g)
{
	g->looked_up_mono_ms = clock_mono_ms();
	if (g->info.container_id.len)
		containers_lookup("", g->info.runtime, g->info.container_id, &g->arena, &g->names);
}

static struct group *group_of(struct labeler *l, struct view path)
{
	uint64_t h = hash_view(path);
	uint32_t id;
	for (size_t at = map_start(&l->index, h); map_probe(&l->index, h, &at, &id);) {
		struct group *g = l->groups.v[id];
		if (!view_eq(g->path, path))
			continue;
		if (g->info.container_id.len && !g->names.container.len && clock_mono_ms() - g->looked_up_mono_ms > RETRY_MS)
			look_up(g);
		return g;
	}
	if (l->groups.n >= GROUPS_MAX) /* hosts that churn through groups: begin anew rather than grow */
		drop_groups(l);
	struct group *g = NEW(struct group);
	arena_init(&g->arena, 0);
	g->path = arena_view(&g->arena, path);
	cgroup_parse_path(g->path, &g->info);
	g->names.container = g->names.pod = g->names.namespace_ = g->names.image = VIEW("");
	look_up(g);
	map_insert(&l->index, h, (uint32_t)l->groups.n);
	vec_push(&l->groups, g);
	return g;
}

static void set_group_labels(struct labels_builder *b, const struct group *g)
{
	labels_builder_set(b, VIEW("cgroup"), g->info.path);
	labels_builder_set(b, VIEW("unit"), g->info.unit);
	labels_builder_set(b, VIEW("container_id"), g->info.container_id);
	/* A container without a known name goes by the short form of its id, as runtimes print it. */
	struct view short_id = view_make(g->info.container_id.ptr, MIN(g->info.container_id.len, (size_t)12));
	labels_builder_set(b, VIEW("container"), g->names.container.len ? g->names.container : short_id);
	labels_builder_set(b, VIEW("pod"), g->names.pod);
	labels_builder_set(b, VIEW("namespace"), g->names.namespace_);
	labels_builder_set(b, VIEW("image"), g->names.image);
	labels_builder_set(b, VIEW("pod_uid"), view_of(g->info.pod_uid));
}

/* "kworker/3:1-events" and its many brothers are one kworker. */
static struct view fold_comm(const struct process_info *p)
{
	struct view v = view_make(p->comm, strnlen(p->comm, sizeof p->comm));
	return p->kernel_thread && view_starts(v, VIEW("kworker/")) ? VIEW("kworker") : v;
}

void labeler_process(struct labeler *l, struct process_info *p)
{
	struct labels_builder b;
	labels_builder_init(&b, l->external);
	labels_builder_set(&b, VIEW("node"), view_of(l->node));
	labels_builder_set(&b, VIEW("comm"), fold_comm(p));
	char text[CGROUP_TEXT_MAX], hex[2 * BUILD_ID_MAX + 1];
	size_t n = p->kernel_thread ? 0 : read_proc(p->pid, "cgroup", text, sizeof text);
	struct cgroup_info info;
	if (n && cgroup_parse(view_make(text, n), &info))
		set_group_labels(&b, group_of(l, info.path));
	if (p->exe) {
		labels_builder_set(&b, VIEW("exe"), view_of(p->exe->path ? p->exe->path : ""));
		labels_builder_set(&b, VIEW("exe_build_id"), view_of(image_build_id_hex(p->exe, hex)));
	}
	/* The configuration's external labels have the last word. */
	for (size_t i = 0; i < l->external.n; i++)
		labels_builder_set(&b, l->external.v[i].name, l->external.v[i].value);
	p->labels = labels_dup(labels_builder_finish(&b));
	labels_builder_free(&b);
}
