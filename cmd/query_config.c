/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/query_config.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "model/labels.h"
#include "model/ptype.h"

struct query_config {
	struct arena arena;
	struct promql_alias *aliases;
	size_t n_aliases;
	struct config_strings replica_labels;
};

/* Labels that a query may write without quotes. */
static bool is_name(struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || (i && c >= '0' && c <= '9')))
			return false;
	}
	return v.len;
}

static int add_alias(struct query_config *c, struct config_ctx *ctx, const struct config_pair *p, struct err *e)
{
	static const struct config_field text = { .type = CONFIG_STRING };
	struct promql_alias *a = &c->aliases[c->n_aliases];
	struct view alias = p->key->text, means = ptype_alias(alias);
	struct ptype type;
	if (!is_name(alias))
		return config_error(ctx, p->key, e, "an alias is made of letters, digits, _ and :");
	if (means.len)
		return config_error(ctx, p->key, e, "%.*s stands for %.*s already", VIEW_ARG(alias), VIEW_ARG(means));
	int rc = config_decode_value(ctx, &text, p->value, &a->name, e);
	if (!rc && !ptype_parse(view_of(a->name), &type))
		rc = config_error(ctx, p->value, e, "\"%s\" is not a profile type, NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT[:delta]", a->name);
	a->alias = arena_strndup(ctx->arena, alias.ptr, alias.len);
	c->n_aliases += !rc;
	return rc;
}

static int add_aliases(struct query_config *c, struct config_ctx *ctx, const struct config_node *n, struct err *e)
{
	if (!n || n->type == CONFIG_NODE_NULL)
		return 0;
	size_t in = config_enter(ctx, "aliases");
	int rc = n->type == CONFIG_NODE_MAP ? 0 : config_error(ctx, n, e, "a map from aliases to profile types is wanted");
	if (!rc)
		c->aliases = arena_calloc(ctx->arena, n->n + 1, sizeof *c->aliases);
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter(ctx, n->pairs[i].key->text.ptr);
		rc = add_alias(c, ctx, &n->pairs[i], e);
		config_leave(ctx, mark);
	}
	config_leave(ctx, in);
	return rc;
}

static int add_replica_labels(struct query_config *c, struct config_ctx *ctx, const struct config_node *n, struct err *e)
{
	static const struct config_field texts = { .type = CONFIG_STRINGS };
	if (!n || n->type == CONFIG_NODE_NULL)
		return 0;
	size_t in = config_enter(ctx, "replica_labels");
	int rc = config_decode_value(ctx, &texts, n, &c->replica_labels, e);
	for (size_t i = 0; i < c->replica_labels.n && !rc; i++) {
		const char *label = c->replica_labels.v[i];
		if (!*label || !utf8_valid(view_of(label)) || strcmp(label, LABEL_NAME) == 0)
			rc = config_error(ctx, n, e, "\"%s\" cannot tell replicas apart: the name of a label is wanted, not __name__", label);
	}
	config_leave(ctx, in);
	return rc;
}

int query_config_parse(struct query_config **ret, const struct config_tree *t, void (*warn)(void *, const char *), void *warn_arg,
		       struct err *e)
{
	struct query_config *c = NEW(struct query_config);
	arena_init(&c->arena, CONFIG_MAX_BYTES);
	struct config_ctx ctx = { .arena = &c->arena, .warn = warn, .warn_arg = warn_arg };
	int rc = add_aliases(c, &ctx, config_get(config_root(t), "aliases"), e);
	if (!rc)
		rc = add_replica_labels(c, &ctx, config_get(config_root(t), "replica_labels"), e);
	config_ctx_release(&ctx);
	if (rc)
		query_config_free(c);
	else
		*ret = c;
	return rc;
}

void query_config_free(struct query_config *c)
{
	if (c)
		arena_free(&c->arena);
	free(c);
}

void query_config_apply(const struct query_config *c, struct promql_engine *g)
{
	promql_engine_rename(g, c->aliases, c->n_aliases, c->replica_labels.v, c->replica_labels.n);
}

void query_config_check(const struct query_config *c, struct buf *out)
{
	for (size_t i = 0; i < c->n_aliases; i++)
		buf_printf(out, "alias: %s is %s\n", c->aliases[i].alias, c->aliases[i].name);
	for (size_t i = 0; i < c->replica_labels.n; i++)
		buf_printf(out, "replica label: %s\n", c->replica_labels.v[i]);
}
