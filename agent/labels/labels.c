/* SPDX-License-Identifier: Apache-2.0 */
/* The labeler: who a process is, once per process, and again when the rules or the names of its container have changed.
 *
 * The name of a pod's container comes from the API server about a second after the container has started, often after its first programs
 * have ended. Such a process waits (unnamed.h): it gets the labels that it would have without a name, and a copy of it gets the final ones
 * when the name comes, or after GROUP_NAME_WAIT_MS. The windows that it is in are not answered with before (core/windows.c). */
#include "agent/labels/labels.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/labels/group_paths.h"
#include "agent/labels/groups.h"
#include "agent/labels/meta.h"
#include "agent/labels/unnamed.h"
#include "base/clock.h"
#include "base/vec.h"

#define SCRATCH_MAX ((size_t)1 << 20)
/* For one process, after relabelling: a rule may make any number of labels of a hostile command line. */
#define LABELS_BYTES_MAX ((size_t)16 << 10)

#define NAMED_AT_ONCE 256            /* processes that labeler_tick gives final labels: the agent's lock is held meanwhile */

struct labeler {
	char node[256];
	struct labels external;
	const struct agent_config *config;
	struct meta *meta;
	struct sampled_groups *groups;
	struct group_paths *paths;
	struct unnamed_list unnamed;
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
	unnamed_release(&l->unnamed);
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

static bool has_rules(const struct labeler *l)
{
	return l->config && l->config->relabel.n;
}

/* "kworker/3:1-events" and its many brothers are one kworker. */
static struct view fold_comm(const struct process_info *p)
{
	struct view v = view_make(p->comm, strnlen(p->comm, sizeof p->comm));
	return p->kernel_thread && view_starts(v, VIEW("kworker/")) ? VIEW("kworker") : v;
}

/* Sets the labels of a process that do not come from its control group; with rules, also its __meta_ labels. */
static void set_own_labels(struct labeler *l, struct labels_builder *b, const struct process_info *p)
{
	char hex[2 * BUILD_ID_MAX + 1];
	labels_builder_set(b, VIEW("node"), view_of(l->node));
	labels_builder_set(b, VIEW("comm"), meta_text(&l->scratch, fold_comm(p)));
	labels_builder_set(b, VIEW("runtime"), arena_view(&l->scratch, view_of(p->runtime)));
	if (p->exe) {
		labels_builder_set(b, VIEW("exe"), meta_text(&l->scratch, view_of(p->exe->path ? p->exe->path : "")));
		labels_builder_set(b, VIEW("exe_build_id"), arena_view(&l->scratch, view_of(image_build_id_hex(p->exe, hex))));
	}
	if (has_rules(l))
		meta_add_process(l->meta, b, &l->scratch, p);
}

/* Sets the labels of a process where no rules are configured: its own ones, and those of its group. */
static void set_plain_labels(struct labeler *l, struct labels_builder *b, struct labels own, const struct sampled_group *g)
{
	for (size_t i = 0; i < own.n; i++)
		if (!view_starts(own.v[i].name, VIEW("__")))
			labels_builder_set(b, own.v[i].name, own.v[i].value);
	if (g)
		group_add_labels(b, &l->scratch, g);
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
static bool relabel(struct labeler *l, struct labels_builder *b, struct labels own, const struct sampled_group *g)
{
	struct err e;
	meta_add_host(l->meta, b, view_of(l->node));
	if (g)
		group_add_meta(b, &l->scratch, g, view_of(l->node));
	for (size_t i = 0; i < own.n; i++)
		if (view_starts(own.v[i].name, VIEW("__")))
			labels_builder_set(b, own.v[i].name, own.v[i].value);
	int rc = relabel_apply(l->config->relabel.v, l->config->relabel.n, b, &l->scratch, &e);
	if (rc < 0) {
		l->errors++;
		b->l.n = 0;
		set_external(l, b);
		set_plain_labels(l, b, own, g);
	}
	l->errors += !tidy(b);
	return rc != 0;
}

/* Sets the labels of the process, and what follows of them. */
static void set_labels(struct labeler *l, struct process_info *p, struct labels own, struct sampled_group *g)
{
	struct labels_builder b;
	labels_builder_init(&b, l->external);
	set_plain_labels(l, &b, own, g);
	if (has_rules(l))
		p->dropped = !relabel(l, &b, own, g);
	/* Labels given by --external-label come last: rules cannot change them. */
	set_external(l, &b);
	p->labels = labels_dup(labels_builder_finish(&b));
	p->generation = l->generation;
	p->group = g;
	labels_builder_free(&b);
}

/* The known group with this cgroup path; NULL if none has it. */
static struct sampled_group *find_group(struct labeler *l, struct view path)
{
	uint32_t edition = groups_edition(l->groups);
	struct sampled_group *g = path.len ? groups_get(l->groups, path) : NULL;

	/* To make room others were forgotten, and what points to them with them. */
	l->generation += edition != groups_edition(l->groups);
	return g;
}

void labeler_process(struct labeler *l, struct process_info *p)
{
	struct labels_builder b;
	struct view path = p->kernel_thread ? VIEW("") : group_paths_get(l->paths, p->cgroup_id, p->pid);
	struct sampled_group *g = find_group(l, path);

	arena_reset(&l->scratch);
	labels_builder_init(&b, (struct labels){ NULL, 0 });
	set_own_labels(l, &b, p);
	struct labels own = labels_builder_finish(&b);
	set_labels(l, p, own, g);
	p->waits = g && g->waits && unnamed_add(&l->unnamed, p, g->path, own);
	if (p->dropped && g && !g->waits)
		groups_drop(l->groups, g, p->cgroup_id);
	labels_builder_free(&b);
}

/* --- names that came later --- */

/* True: the process has its final labels. */
static bool name_process(struct labeler *l, const struct unnamed *x, int64_t now_ms)
{
	struct sampled_group *g = find_group(l, view_of(x->path));

	/* A group that was forgotten and made anew would wait again; the process does not. */
	if (g->waits && now_ms - x->since_mono_ms < GROUP_NAME_WAIT_MS)
		return false;
	l->unnamed.left_out |= g->waits;
	struct process_info *n = process_info_copy(x->info);
	arena_reset(&l->scratch);
	set_labels(l, n, *x->own, g);
	process_info_made(n);
	x->info->named = n;
	x->info->waits = false;
	return true;
}

bool labeler_tick(struct labeler *l, bool all)
{
	int64_t now_ms = clock_mono_ms();
	bool named = false;

	if (all)
		l->generation += groups_tick(l->groups, now_ms);
	else
		groups_tick_waiting(l->groups, now_ms);
	unsigned left = NAMED_AT_ONCE;
	for (size_t i = l->unnamed.v.n; i-- > 0 && left;) {
		if (!name_process(l, &l->unnamed.v.v[i], now_ms))
			continue;
		unnamed_remove(&l->unnamed, i);
		named = true;
		left--;
	}
	/* What did not wait, though its group did, finds out with its next sample. */
	if (named && l->unnamed.left_out) {
		l->unnamed.left_out = false;
		l->generation++;
	}
	return named;
}

bool labeler_waits(const struct labeler *l)
{
	return l->unnamed.v.n > 0;
}
