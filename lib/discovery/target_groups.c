/* SPDX-License-Identifier: Apache-2.0 */
/* JSON by jansson, YAML by lib/config's parser and a table. Both fill a group_builder, one group at a time. */
#include "discovery/target_groups.h"

#include <jansson.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define YAML_ARENA ((size_t)1 << 30)

struct group_builder {
	const struct target_origin *origin;
	struct target_groups *out;
	size_t targets; /* of all groups until now */
	struct labels_builder labels;
	VEC(struct label) addresses;
};

static void begin_group(struct group_builder *b)
{
	labels_builder_init(&b->labels, (struct labels){ 0 });
	b->addresses.n = 0;
}

static int add_target(struct group_builder *b, struct view address, struct err *e)
{
	if (++b->targets > TARGET_GROUPS_MAX)
		return err_set(e, ERR_LIMIT, "%s: over %zu targets", b->origin->name, TARGET_GROUPS_MAX);
	vec_push(&b->addresses, (struct label){ VIEW("__address__"), address });
	return 0;
}

static int add_label(struct group_builder *b, struct view name, struct view value, struct err *e)
{
	size_t i = b->out->v.n;
	if (!name.len || !utf8_valid(name) || !utf8_valid(value))
		return err_set(e, ERR_BAD_DATA, "%s: group %zu: a label %s", b->origin->name, i,
			       name.len ? "that is not valid UTF-8" : "without a name");
	labels_builder_set(&b->labels, name, value);
	return 0;
}

static int end_group(struct group_builder *b, struct err *e)
{
	struct labels *targets AUTOFREE = xcalloc(b->addresses.n, sizeof *targets);
	char *source AUTOFREE = xasprintf("%s:%zu", b->origin->name, b->out->v.n);
	if (b->out->v.n >= TARGET_GROUPS_MAX)
		return err_set(e, ERR_LIMIT, "%s: over %zu groups", b->origin->name, TARGET_GROUPS_MAX);
	for (size_t i = 0; i < b->addresses.n; i++)
		targets[i] = (struct labels){ &b->addresses.v[i], b->addresses.v[i].value.len > 0 }; /* no label is empty */
	labels_builder_set(&b->labels, view_of(b->origin->label), view_of(b->origin->value));
	const struct discovery_group g = { source, labels_builder_finish(&b->labels), targets, b->addresses.n };
	vec_push(&b->out->v, discovery_group_copy(&g));
	return 0;
}

void target_groups_release(struct target_groups *g)
{
	for (size_t i = 0; i < g->v.n; i++)
		discovery_group_unref(g->v.v[i]);
	vec_free(&g->v);
}

static int finish(struct group_builder *b, int rc, struct target_groups *ret)
{
	labels_builder_free(&b->labels);
	vec_free(&b->addresses);
	if (rc)
		target_groups_release(b->out);
	else
		*ret = *b->out;
	return rc;
}

/* ---- JSON ---- */

static struct view text_of(const json_t *j)
{
	return view_make(json_string_value(j), json_string_length(j));
}

static int bad_group(const struct group_builder *b, struct err *e, const char *what)
{
	return err_set(e, ERR_BAD_DATA, "%s: group %zu: %s", b->origin->name, b->out->v.n, what);
}

static int json_targets(struct group_builder *b, const json_t *list, struct err *e)
{
	size_t i;
	const json_t *t;
	if (json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return bad_group(b, e, "targets: a list of strings is wanted");
	json_array_foreach(list, i, t) {
		int rc = json_is_string(t) ? add_target(b, text_of(t), e) : bad_group(b, e, "targets: a string is wanted");
		if (rc)
			return rc;
	}
	return 0;
}

static int json_labels(struct group_builder *b, json_t *map, struct err *e)
{
	const char *name;
	json_t *value;
	if (json_is_null(map))
		return 0;
	if (!json_is_object(map))
		return bad_group(b, e, "labels: a map of strings is wanted");
	json_object_foreach(map, name, value) {
		int rc = json_is_string(value) ? add_label(b, view_of(name), text_of(value), e)
					       : bad_group(b, e, "labels: a value that is not a string");
		if (rc)
			return rc;
	}
	return 0;
}

static int unknown_field(const struct group_builder *b, const char *key, struct err *e)
{
	return err_set(e, ERR_BAD_DATA, "%s: group %zu: unknown field \"%.100s\"; there are targets and labels", b->origin->name,
		       b->out->v.n, key);
}

static int json_group(struct group_builder *b, json_t *j, struct err *e)
{
	const char *key;
	json_t *value;
	if (!json_is_object(j))
		return bad_group(b, e, "{\"targets\": [...], \"labels\": {...}} is wanted");
	begin_group(b);
	json_object_foreach(j, key, value) {
		int rc = strcasecmp(key, "targets") == 0  ? json_targets(b, value, e)
			 : strcasecmp(key, "labels") == 0 ? json_labels(b, value, e)
							  : unknown_field(b, key, e);
		if (rc)
			return rc;
	}
	return end_group(b, e);
}

static int json_list(struct group_builder *b, const json_t *list, struct err *e)
{
	size_t i;
	json_t *j;
	if (json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return err_set(e, ERR_BAD_DATA, "%s: a list of target groups is wanted", b->origin->name);
	json_array_foreach(list, i, j) {
		int rc = json_group(b, j, e);
		labels_builder_free(&b->labels);
		if (rc)
			return rc;
	}
	return 0;
}

int target_groups_json(struct view text, const struct target_origin *o, struct target_groups *ret, struct err *e)
{
	struct target_groups out = { 0 };
	struct group_builder b = { .origin = o, .out = &out };
	json_error_t at;
	if (text.len > TARGET_GROUPS_MAX_BYTES)
		return err_set(e, ERR_LIMIT, "%s: over %zu bytes", o->name, TARGET_GROUPS_MAX_BYTES);
	json_t *root = json_loadb(text.len ? text.ptr : "", text.len, JSON_DECODE_ANY, &at);
	if (!root)
		return err_set(e, ERR_BAD_DATA, "%s:%d:%d: JSON: %s", o->name, at.line, at.column, at.text);
	int rc = json_list(&b, root, e);
	json_decref(root);
	return finish(&b, rc, ret);
}

/* ---- YAML ---- */

struct yaml_group {
	struct config_strings targets;
	struct config_map labels;
};

static int yaml_group(struct group_builder *b, const struct yaml_group *g, struct err *e)
{
	int rc = 0;
	begin_group(b);
	for (size_t i = 0; i < g->targets.n && !rc; i++)
		rc = add_target(b, view_of(g->targets.v[i]), e);
	for (size_t i = 0; i < g->labels.n && !rc; i++)
		rc = add_label(b, view_of(g->labels.v[i].key), view_of(g->labels.v[i].value), e);
	return rc ? rc : end_group(b, e);
}

static int yaml_list(struct group_builder *b, const struct config_node *root, struct err *e)
{
	static const struct config_field rows[] = {
		{ "targets", CONFIG_STRINGS, offsetof(struct yaml_group, targets) },
		{ "labels", CONFIG_MAP, offsetof(struct yaml_group, labels) },
	};
	static const struct config_table table = CONFIG_TABLE(struct yaml_group, rows, NULL);
	struct arena arena;
	struct config_ctx c = { .arena = &arena };
	int rc = 0;
	arena_init(&arena, YAML_ARENA);
	if (root->type != CONFIG_NODE_LIST)
		rc = config_error(&c, root, e, "a list of target groups is wanted");
	for (size_t i = 0; i < root->n && !rc; i++) {
		struct yaml_group g = { 0 };
		size_t mark = config_enter_index(&c, i);
		rc = root->items[i]->type == CONFIG_NODE_NULL
			     ? config_error(&c, root->items[i], e, "{targets: [...], labels: {...}} is wanted")
			     : config_decode(&c, &table, root->items[i], &g, e);
		config_leave(&c, mark);
		if (!rc)
			rc = yaml_group(b, &g, e);
		labels_builder_free(&b->labels);
		arena_reset(&arena);
	}
	config_ctx_release(&c);
	arena_free(&arena);
	return rc;
}

int target_groups_yaml(struct view text, const struct target_origin *o, struct target_groups *ret, struct err *e)
{
	struct target_groups out = { 0 };
	struct group_builder b = { .origin = o, .out = &out };
	struct config_tree *t = NULL;
	int rc = config_parse(&t, text, o->name, e);
	if (rc)
		return rc;
	if (config_is_empty(t))
		rc = err_set(e, ERR_BAD_DATA, "%s: the file is empty; [] says that there are no targets", o->name);
	else
		rc = yaml_list(&b, config_root(t), e);
	config_free(t);
	return finish(&b, rc, ret);
}
