/* SPDX-License-Identifier: Apache-2.0 */
/* Rule files: found, read, kept as long as somebody evaluates them. */
#include <glob.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "config/config_sources.h"
#include "rules/rule_file.h"
#include "rules/texts.h"

static void begin(struct rule_files *f, const struct config_global *g, const struct rules_how *how)
{
	static const struct rules_how usual;
	*f = (struct rule_files){ .config = NEW(struct rules_config), .how = how ? how : &usual };
	f->config->refs = 1;
	arena_init(&f->config->arena, 0);
	f->config->evaluation_interval_ms = g->evaluation_interval_ms > 0 ? g->evaluation_interval_ms : 60000;
	f->config->query_offset_ms = g->rule_query_offset_ms;
	f->config->late_ms = g->scrape_interval_ms + (g->scrape_timeout_ms ? g->scrape_timeout_ms : MAX(10000, g->scrape_interval_ms));
	f->config->external_labels = config_external_labels(g, &f->config->arena);
}

/* The configuration, or, if there was any problem, the first one. */
static int end(struct rule_files *f, struct rules_config **ret, struct err *e)
{
	struct rules_config *c = f->config;
	struct rule_group *groups = arena_calloc(&c->arena, f->groups.n + 1, sizeof *groups);
	if (f->groups.n)
		memcpy(groups, f->groups.v, f->groups.n * sizeof *groups);
	c->groups = groups;
	c->n_groups = f->groups.n;
	c->n_files = f->n_files;
	vec_free(&f->groups);
	if (!f->n_problems) {
		*ret = c;
		return 0;
	}
	rules_config_unref(c);
	*e = f->first;
	if (f->n_problems > 1)
		err_set(e, e->code, "%.*s (and %zu more)", (int)sizeof e->msg - 32, f->first.msg, f->n_problems - 1);
	return -(int)e->code;
}

struct rules_config *rules_config_ref(struct rules_config *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void rule_release(const struct rule *r)
{
	promql_expr_free(r->parsed);
	for (size_t i = 0; i < r->labels.n; i++)
		texts_free(&r->label_texts[i]);
	for (size_t i = 0; i < r->annotations.n; i++)
		texts_free(&r->annotation_texts[i]);
}

void rules_config_unref(struct rules_config *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < c->groups[g].n_rules; i++)
			rule_release(&c->groups[g].rules[i]);
	arena_free(&c->arena);
	free(c);
}

/* The file's bytes as YAML; ${...} in rules is theirs, no variable of ours. */
static void load(struct rule_files *f, const char *path)
{
	const struct config_how how = { .sources = f->how->sources };
	struct config_tree *t;
	struct err e = { 0 };
	if (config_load_how(&t, path, &how, &e)) {
		rule_file_problem(f, &e);
		return;
	}
	if (config_is_empty(t) && !f->config->empty_file)
		f->config->empty_file = arena_strndup(&f->config->arena, path, strlen(path));
	rule_file_read(f, t, path);
	config_free(t);
}

static void load_pattern(struct rule_files *f, struct config_ctx *c, const struct config_node *n)
{
	glob_t found = { 0 };
	struct err e = { 0 };
	bool absolute = n->text.len && n->text.ptr[0] == '/';
	char *pattern = absolute || !c->dir ? xstrndup(n->text.ptr, n->text.len) : xasprintf("%s/%.*s", c->dir, VIEW_ARG(n->text));
	int g = glob(pattern, 0, NULL, &found);
	if (f->how->sources)
		config_sources_note_pattern(f->how->sources, pattern, &found);
	if (g && g != GLOB_NOMATCH) {
		config_error(c, n, &e, "cannot be looked up");
		rule_file_problem(f, &e);
	}
	if (g == GLOB_NOMATCH)
		config_warn(c, n, "no file has that name");
	for (size_t i = 0; i < found.gl_pathc; i++)
		load(f, found.gl_pathv[i]);
	globfree(&found);
	free(pattern);
}

static void load_section(struct rule_files *f, struct config_ctx *c, const struct config_node *n)
{
	struct err e = { 0 };
	size_t mark = config_enter(c, "rule_files");
	bool list = n->type == CONFIG_NODE_LIST;
	if (!list) {
		config_error(c, n, &e, "a list of files is wanted");
		rule_file_problem(f, &e);
	}
	for (size_t i = 0; list && i < n->n; i++) {
		if (n->items[i]->type == CONFIG_NODE_SCALAR) {
			load_pattern(f, c, n->items[i]);
			continue;
		}
		config_error(c, n->items[i], &e, "the name of a file is wanted");
		rule_file_problem(f, &e);
	}
	config_leave(c, mark);
}

int rules_config_parse(struct rules_config **ret, const struct config_tree *t, const struct rules_how *how, struct err *e)
{
	struct config_global g;
	struct arena a;
	struct rule_files f;
	arena_init(&a, CONFIG_MAX_BYTES);
	struct config_ctx c = { .arena = &a };
	const struct config_node *root = config_root(t), *n = config_get(root, "rule_files");
	int rc = config_global_decode(t, &c, &g, e); /* others that depend on it cause warnings */
	if (!rc) {
		begin(&f, &g, how);
		c.warn = f.how->warn;
		c.warn_arg = f.how->arg;
		c.dir = config_dirname(&a, root->file);
		f.aliases = config_get(root, "aliases");
		if (n && n->type != CONFIG_NODE_NULL)
			load_section(&f, &c, n);
		rc = end(&f, ret, e);
	}
	config_ctx_release(&c);
	arena_free(&a);
	return rc;
}

int rules_config_load(struct rules_config **ret, const char *const *files, size_t n, const struct config_global *g,
		      const struct rules_how *how, struct err *e)
{
	struct rule_files f;
	begin(&f, g, how);
	for (size_t i = 0; i < n; i++)
		load(&f, files[i]);
	return end(&f, ret, e);
}

int rules_config_read(struct rules_config **ret, struct view text, const char *name, const struct config_global *g,
		      const struct rules_how *how, struct err *e)
{
	struct rule_files f;
	struct config_tree *t;
	struct err why = { 0 };
	begin(&f, g, how);
	if (config_parse(&t, text, name, &why)) {
		rule_file_problem(&f, &why);
	} else {
		rule_file_read(&f, t, name);
		config_free(t);
	}
	return end(&f, ret, e);
}

void rules_config_check(const struct rules_config *c, struct buf *out)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n_groups; i++)
		n += c->groups[i].n_rules;
	if (c->n_files)
		buf_printf(out, "rule_files: %zu files, %zu groups, %zu rules\n", c->n_files, c->n_groups, n);
}
