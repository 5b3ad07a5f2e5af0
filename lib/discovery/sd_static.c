/* SPDX-License-Identifier: Apache-2.0 */
/* static_configs: targets that the file itself names. Emits its groups once, from start; has no thread. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "discovery/discovery.h"

struct static_group {
	struct config_strings targets;
	struct config_map labels;
};

struct static_config {
	struct config_list groups;
};

/* Then the address may be empty. */
static bool has_socket(const struct static_group *g)
{
	for (size_t i = 0; i < g->labels.n; i++)
		if (strcmp(g->labels.v[i].key, "__unix_socket__") == 0)
			return g->labels.v[i].value[0] != 0;
	return false;
}

static int check_group(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct static_group *g = at;
	for (size_t i = 0; i < g->targets.n; i++) {
		const char *t = g->targets.v[i];
		if ((!t[0] && !has_socket(g)) || strpbrk(t, "/ ?#@"))
			return config_error(c, n, e, "target \"%s\" is not host:port (scheme, path and credentials have keys of "
					    "their own)", strchr(t, '@') ? "<secret>" : t);
	}
	for (size_t i = 0; i < g->labels.n; i++)
		if (!g->labels.v[i].key[0])
			return config_error(c, n, e, "a label without a name");
	return 0;
}

static const struct config_field rows[] = {
	{ "targets", CONFIG_STRINGS, offsetof(struct static_group, targets) },
	{ "labels", CONFIG_MAP, offsetof(struct static_group, labels) },
};
static const struct config_table table = CONFIG_TABLE(struct static_group, rows, check_group);

static int decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	static const struct config_field list = { .type = CONFIG_STRUCTS, .table = &table };
	struct static_config *s = arena_calloc(c->arena, 1, sizeof *s);
	*ret = s;
	return config_decode_value(c, &list, n, &s->groups, e);
}

static bool same_group(const struct static_group *a, const struct static_group *b)
{
	if (a->targets.n != b->targets.n || a->labels.n != b->labels.n)
		return false;
	for (size_t i = 0; i < a->targets.n; i++)
		if (strcmp(a->targets.v[i], b->targets.v[i]) != 0)
			return false;
	for (size_t i = 0; i < a->labels.n; i++)
		if (strcmp(a->labels.v[i].key, b->labels.v[i].key) != 0 ||
		    strcmp(a->labels.v[i].value, b->labels.v[i].value) != 0)
			return false;
	return true;
}

static bool same(const void *x, const void *y)
{
	const struct static_config *a = x, *b = y;
	const struct static_group *ga = a->groups.v, *gb = b->groups.v;
	if (a->groups.n != b->groups.n)
		return false;
	for (size_t i = 0; i < a->groups.n; i++)
		if (!same_group(&ga[i], &gb[i]))
			return false;
	return true;
}

static void emit_group(const struct static_group *g, size_t i, const struct discovery_emit *emit)
{
	char source[24];
	struct labels_builder b;
	struct label *address = xcalloc(g->targets.n, sizeof *address);
	struct labels *targets = xcalloc(g->targets.n, sizeof *targets);
	for (size_t k = 0; k < g->targets.n; k++) {
		address[k] = (struct label){ VIEW("__address__"), view_of(g->targets.v[k]) };
		targets[k] = (struct labels){ &address[k], 1 };
	}
	labels_builder_init(&b, (struct labels){ 0 });
	for (size_t k = 0; k < g->labels.n; k++)
		labels_builder_set(&b, view_of(g->labels.v[k].key), view_of(g->labels.v[k].value));
	snprintf(source, sizeof source, "%zu", i);
	emit->group(emit->arg, &(struct discovery_group){ source, labels_builder_finish(&b), targets, g->targets.n });
	labels_builder_free(&b);
	free(targets);
	free(address);
}

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	static struct discovery_provider nothing_to_run;
	const struct static_config *c = config;
	const struct static_group *g = c->groups.v;
	for (size_t i = 0; i < c->groups.n; i++)
		emit_group(&g[i], i, emit);
	emit->ready(emit->arg);
	*ret = &nothing_to_run;
	return 0;
}

static void stop(struct discovery_provider *p)
{
}

extern const struct discovery_ops sd_static;
const struct discovery_ops sd_static = { "static_configs", decode, same, start, stop, .whole_list = true };
