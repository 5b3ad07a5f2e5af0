/* SPDX-License-Identifier: Apache-2.0 */
/* The labeler: who a process is, once per process, and again when the rules or the names of its container have changed. */
#include "agent/labels/labels.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/labels/group_paths.h"
#include "agent/labels/groups.h"
#include "agent/labels/meta.h"
#include "base/clock.h"
#include "base/vec.h"

#define SCRATCH_MAX ((size_t)1 << 20)
/* For one process, after relabelling: a rule may make any number of labels of a hostile command line. */
#define LABELS_BYTES_MAX ((size_t)16 << 10)

struct labeler {
	char node[256];
	struct labels external;
	const struct agent_config *config;
	struct meta *meta;
	struct sampled_groups *groups;
	struct group_paths *paths;
	struct arena scratch;    /* of one process's labels */
	uint32_t generation;
	uint64_t errors;
};

const char *labeler_node(const struct labeler *l)
{
	return l->node;
}

struct labeler *labeler_new(const struct labeler_options *o, struct err *e)
{
	struct labeler *l = NEW(struct labeler);
	(void)e;
	if (o->node && *o->node)
		snprintf(l->node, sizeof l->node, "%s", o->node);
	else if (gethostname(l->node, sizeof l->node - 1))
		snprintf(l->node, sizeof l->node, "unknown");
	l->external = o->external;
	l->meta = meta_new(o->env_vars, o->n_env_vars, o->show_command_lines);
	l->groups = groups_new(&(struct groups_options){ view_of(l->node), o->external, l->meta, o->pods,
							 o->filter });
	l->paths = group_paths_new();
	l->generation = 1;
	arena_init(&l->scratch, SCRATCH_MAX);
	return l;
}

void labeler_free(struct labeler *l)
{
	if (!l)
		return;
	groups_free(l->groups);
	group_paths_free(l->paths);
	meta_free(l->meta);
	arena_free(&l->scratch);
	free(l);
}

void labeler_use(struct labeler *l, const struct agent_config *c)
{
	l->config = c;
	l->generation++;
	meta_use(l->meta, c);
	groups_use(l->groups, c);
}

void labeler_tick(struct labeler *l)
{
	l->generation += groups_tick(l->groups, clock_mono_ms());
}

uint32_t labeler_generation(const struct labeler *l)
{
	return l->generation;
}

uint64_t labeler_errors(const struct labeler *l)
{
	return l->errors;
}

struct sampled_groups *labeler_groups(struct labeler *l)
{
	return l->groups;
}

void labeler_touch(struct labeler *l, const struct process_info *p)
{
	if (p->group && p->generation == l->generation)
		p->group->sampled_mono_ms = clock_mono_ms();
}

/* --- labels --- */

/* "kworker/3:1-events" and its many brothers are one kworker. */
static struct view fold_comm(const struct process_info *p)
{
	struct view v = view_make(p->comm, strnlen(p->comm, sizeof p->comm));
	return p->kernel_thread && view_starts(v, VIEW("kworker/")) ? VIEW("kworker") : v;
}

/* The labels of a process without any rules. */
static void set_own_labels(struct labeler *l, struct labels_builder *b, const struct process_info *p,
			   const struct sampled_group *g)
{
	char hex[2 * BUILD_ID_MAX + 1];
	labels_builder_set(b, VIEW("node"), view_of(l->node));
	labels_builder_set(b, VIEW("comm"), meta_text(&l->scratch, fold_comm(p)));
	if (g)
		group_add_labels(b, &l->scratch, g);
	labels_builder_set(b, VIEW("runtime"), arena_view(&l->scratch, view_of(p->runtime)));
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

/* Drops what relabelling alone may see, and labels that are too much; false if there were any. */
static bool tidy(struct labels_builder *b)
{
	size_t kept = 0, bytes = 0;
	bool all = true;
	for (size_t i = 0; i < b->l.n; i++) {
		struct label x = b->l.v[i];
		bool internal = view_starts(x.name, VIEW("__")), fits = bytes + x.name.len + x.value.len <= LABELS_BYTES_MAX;
		all &= internal || fits;
		if (internal || !fits)
			continue;
		bytes += x.name.len + x.value.len;
		b->l.v[kept++] = x;
	}
	b->l.n = kept;
	return all;
}

/* True: the process is to be sampled. */
static bool relabel(struct labeler *l, struct labels_builder *b, const struct process_info *p, const struct sampled_group *g)
{
	struct err e;
	meta_add_host(l->meta, b, view_of(l->node));
	if (g)
		group_add_meta(b, &l->scratch, g, view_of(l->node));
	meta_add_process(l->meta, b, &l->scratch, p);
	int rc = relabel_apply(l->config->relabel.v, l->config->relabel.n, b, &l->scratch, &e);
	if (rc < 0) {
		l->errors++;
		b->l.n = 0;
		set_external(l, b);
		set_own_labels(l, b, p, g);
	}
	l->errors += !tidy(b);
	return rc != 0;
}

void labeler_process(struct labeler *l, struct process_info *p)
{
	struct labels_builder b;
	struct view path = p->kernel_thread ? VIEW("") : group_paths_get(l->paths, p->cgroup_id, p->pid);
	uint32_t edition = groups_edition(l->groups);
	struct sampled_group *g = path.len ? groups_get(l->groups, path) : NULL;

	/* To make room others were forgotten, and what points to them with them. */
	l->generation += edition != groups_edition(l->groups);
	arena_reset(&l->scratch);
	labels_builder_init(&b, l->external);
	set_own_labels(l, &b, p, g);
	if (l->config && l->config->relabel.n)
		p->dropped = !relabel(l, &b, p, g);
	if (p->dropped && g)
		groups_drop(l->groups, g, p->cgroup_id);
	/* The flags' external labels have the last word. */
	set_external(l, &b);
	p->labels = labels_dup(labels_builder_finish(&b));
	p->generation = l->generation;
	p->group = g;
	labels_builder_free(&b);
}
