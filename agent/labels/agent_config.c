/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/agent_config.h"

#include "base/alloc.h"

struct top {
	struct relabel_config relabel;
};

static const struct config_field rows[] = {
	{ "relabel_configs", CONFIG_CUSTOM, offsetof(struct top, relabel), .custom = config_relabel_decode },
	/* Sections of older parca-agents, which name servers to push to. */
	{ "object_storage", CONFIG_REFUSED, .words = "the agent stores nothing; Pyrrha pulls from it" },
	{ "remote_store", CONFIG_REFUSED, .words = "the agent pushes nothing; Pyrrha pulls from it" },
};
static const struct config_table table = CONFIG_TABLE(struct top, rows, NULL);

/* Labels of single samples, which rules cannot see: they are applied once per process. */
static bool per_sample(struct view name)
{
	return view_starts(name, VIEW("__meta_thread_")) || view_eqs(name, "__meta_cpu") || view_eqs(name, "thread_id") ||
	       view_eqs(name, "thread_name") || view_eqs(name, "cpu");
}

static void warn_of_samples(struct config_ctx *c, const struct relabel_config *r, const struct config_node *list)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < r->v[i].n_source_labels; k++)
			if (per_sample(view_of(r->v[i].source_labels[k])))
				config_warn(c, list->items[i], "%s is a label of single samples: rules are applied once per "
					    "process and find it empty", r->v[i].source_labels[k]);
}

static void find_targets(struct agent_config *c)
{
	c->targets = arena_calloc(&c->arena, c->relabel.n + 1, sizeof *c->targets);
	for (size_t i = 0; i < c->relabel.n; i++) {
		const struct relabel_rule *r = &c->relabel.v[i];
		struct view name = view_of(r->target_label);
		bool sets = r->action == RELABEL_REPLACE || r->action == RELABEL_HASHMOD || r->action == RELABEL_LOWERCASE ||
			    r->action == RELABEL_UPPERCASE;
		if (sets && label_name_plain(name) && !view_starts(name, VIEW("__")))
			c->targets[c->n_targets++] = name;
	}
}

static int decode(struct agent_config *c, const struct config_tree *t, struct config_ctx *ctx, struct err *e)
{
	struct top top = { 0 };
	const struct config_node *root = config_root(t);
	int rc = config_decode(ctx, &table, root, &top, e);
	if (rc) {
		config_relabel_release(&top.relabel);
		return rc;
	}
	c->relabel = top.relabel;
	find_targets(c);
	if (c->relabel.n)
		warn_of_samples(ctx, &c->relabel, config_get(root, "relabel_configs"));
	return 0;
}

int agent_config_load(struct agent_config **ret, const char *path, const struct config_how *how,
		      void (*warn)(void *arg, const char *text), void *arg, struct err *e)
{
	struct agent_config *c = NEW(struct agent_config);
	struct config_tree *t = NULL;
	struct config_ctx ctx = { .arena = &c->arena, .warn = warn, .warn_arg = arg };
	int rc = 0;

	arena_init(&c->arena, 0);
	if (path && *path)
		rc = config_load_how(&t, path, how, e);
	if (!rc && t)
		rc = decode(c, t, &ctx, e);
	c->empty = t && config_is_empty(t);
	config_ctx_release(&ctx);
	config_free(t);
	if (rc)
		agent_config_free(c);
	else
		*ret = c;
	return rc;
}

void agent_config_free(struct agent_config *c)
{
	if (!c)
		return;
	config_relabel_release(&c->relabel);
	arena_free(&c->arena);
	free(c);
}

bool agent_config_uses(const struct agent_config *c, struct view label)
{
	struct err e;
	for (size_t i = 0; c && i < c->relabel.n; i++) {
		const struct relabel_rule *r = &c->relabel.v[i];
		for (size_t k = 0; k < r->n_source_labels; k++)
			if (view_eqs(label, r->source_labels[k]))
				return true;
		if ((r->action == RELABEL_KEEPEQUAL || r->action == RELABEL_DROPEQUAL) && view_eqs(label, r->target_label))
			return true;
		if (r->action == RELABEL_LABELMAP && regex_match(r->re, label, NULL, &e) != 0)
			return true;
	}
	return false;
}
