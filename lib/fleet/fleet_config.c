/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/fleet_config.h"

#include <stdlib.h>

#include "base/alloc.h"

static const struct config_field server_rows[] = {
	{ NULL, CONFIG_INLINE, offsetof(struct fleet_server_config, endpoints), .table = &endpoint_table },
};
static const struct config_table server_table = { server_rows, ARRAY_LEN(server_rows), sizeof(struct fleet_server_config), NULL, endpoint_other_key };

static int decode_servers(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct fleet_server_configs *s = at;
	int rc = n->type == CONFIG_NODE_LIST ? 0 : config_error(c, n, e, "a list of servers is wanted");
	if (rc)
		return rc;
	s->v = arena_calloc(c->arena, n->n + 1, sizeof *s->v);
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter_index(c, i);
		s->n = i + 1;
		rc = config_decode(c, &server_table, n->items[i], &s->v[i], e);
		if (!rc)
			rc = endpoint_config_finish(c, n->items[i], &s->v[i].endpoints, e);
		config_leave(c, mark);
	}
	return rc;
}

static int query_check(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct fleet_config *q = at;
	return q->timeout_ms > 0 ? 0 : config_error(c, config_get(n, "timeout"), e, "timeout must be longer than nothing");
}

static const struct config_field query_rows[] = {
	{ "partial_response", CONFIG_ENUM, offsetof(struct fleet_config, partial), "warn", .words = "warn|refuse" },
	{ "rules_partial_response", CONFIG_ENUM, offsetof(struct fleet_config, rules_partial), "refuse", .words = "warn|refuse" },
	{ "timeout", CONFIG_DURATION, offsetof(struct fleet_config, timeout_ms), "30s" },
	{ "servers", CONFIG_CUSTOM, offsetof(struct fleet_config, servers), .custom = decode_servers },
};
static const struct config_table query_table = CONFIG_TABLE(struct fleet_config, query_rows, query_check);

int fleet_config_parse(struct fleet_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
		       struct err *e)
{
	struct fleet_config *q = NEW(struct fleet_config);
	q->refs = 1;
	arena_init(&q->arena, 0);
	struct config_ctx c = { .arena = &q->arena, .warn = warn, .warn_arg = warn_arg, .check_files = config_how(t)->check_files };
	c.dir = config_dirname(&q->arena, config_root(t)->file);
	int rc = config_decode_at(&c, "query", &query_table, config_get(config_root(t), "query"), q, e);
	config_ctx_release(&c);
	if (rc)
		fleet_config_unref(q);
	else
		*ret = q;
	return rc;
}

struct fleet_config *fleet_config_ref(struct fleet_config *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void fleet_config_unref(struct fleet_config *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < c->servers.n; i++)
		endpoint_config_release(&c->servers.v[i].endpoints);
	arena_free(&c->arena);
	free(c);
}

void fleet_config_check(const struct fleet_config *c, struct buf *out)
{
	static const char *const words[] = { "warn", "refuse" };
	if (!c->servers.n)
		return;
	buf_puts(out, "query:");
	for (size_t i = 0; i < c->servers.n; i++)
		endpoint_config_check(&c->servers.v[i].endpoints, "servers", i == 0, out);
	buf_printf(out, "; without one that is away: %s, rules %s\n", words[c->partial], words[c->rules_partial]);
}
