/* SPDX-License-Identifier: Apache-2.0 */
/* YAML into a tree: the only place that sees libyaml. One document per file. An alias is the anchored node itself,
 * shared; an anchor is known only once its node is complete, so there are no cycles. A merge key (<<) adds the keys
 * that the map does not name itself. All memory is in the tree's arena. Any thread; a tree does not change. */
#include "config/config.h"

#include <stdio.h>
#include <yaml.h>

#include "base/vec.h"
#include "config/config_expand.h"
#include "config/config_sources.h"

#define MAX_DEPTH 64
#define YAML_BINARY_TAG "tag:yaml.org,2002:binary"
#define MAX_NODES 2000000 /* after merge keys: what a 16 MiB file cannot reach by itself */

struct config_tree {
	struct arena arena;
	const char *file;
	struct view text;
	const struct config_node *root;
	struct config_how how;
	bool empty;
};

struct anchor {
	struct view name;
	const struct config_node *node;
	size_t nodes;   /* it and what is below */
	unsigned below; /* levels */
};

struct reader {
	struct config_tree *t;
	yaml_parser_t yaml;
	VEC(struct anchor) anchors;
	size_t nodes;     /* as a walk of the tree sees them: an alias counts as its anchored node */
	unsigned depth;   /* of the node at hand */
	unsigned deepest; /* level that the node at hand reaches so far, aliases included */
};

static int fail_at(const struct reader *r, yaml_mark_t m, struct err *e, const char *fmt, ...) PRINTF_LIKE(4, 5);
static int fail_at(const struct reader *r, yaml_mark_t m, struct err *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	return err_wrap(e, "%s:%zu:%zu", r->t->file, m.line + 1, m.column + 1);
}

static int next_event(struct reader *r, yaml_event_t *ev, struct err *e)
{
	if (yaml_parser_parse(&r->yaml, ev))
		return 0;
	const yaml_parser_t *y = &r->yaml;
	yaml_mark_t at = y->problem_mark;
	if (y->error == YAML_READER_ERROR)
		return err_set(e, ERR_BAD_DATA, "%s: byte %zu: %s", r->t->file, y->problem_offset,
			       y->problem ? y->problem : "not valid UTF-8");
	if (y->context)
		return fail_at(r, at, e, "YAML: %s %s (from line %zu)", y->problem ? y->problem : "syntax error",
			       y->context, y->context_mark.line + 1);
	return fail_at(r, at, e, "YAML: %s", y->problem ? y->problem : "syntax error");
}

static struct config_node *new_node(struct reader *r, enum config_node_type type, const yaml_event_t *ev)
{
	struct config_node *n = arena_calloc(&r->t->arena, 1, sizeof *n);
	*n = (struct config_node){ .type = type, .line = (uint32_t)ev->start_mark.line + 1,
				   .column = (uint32_t)ev->start_mark.column + 1, .file = r->t->file };
	return n;
}

static const struct anchor *find_anchor(const struct reader *r, struct view name)
{
	for (size_t i = r->anchors.n; i-- > 0;) /* the latest of a name counts */
		if (view_eq(r->anchors.v[i].name, name))
			return &r->anchors.v[i];
	return NULL;
}

static int read_node(struct reader *r, yaml_event_t *ev, const struct config_node **ret, struct err *e);

/* The next event into *ret_end = true if it is `end`, else the node that begins there. */
static int read_next(struct reader *r, yaml_event_type_t end, bool *ret_end, const struct config_node **ret,
		     struct err *e)
{
	yaml_event_t ev;
	int rc = next_event(r, &ev, e);
	if (rc)
		return rc;
	*ret_end = ev.type == end;
	if (!*ret_end)
		rc = read_node(r, &ev, ret, e);
	yaml_event_delete(&ev);
	return rc;
}

static int read_list(struct reader *r, struct config_node *n, struct err *e)
{
	VEC(const struct config_node *) items = { 0 };
	const struct config_node *item = NULL;
	bool end = false;
	int rc;
	while (!(rc = read_next(r, YAML_SEQUENCE_END_EVENT, &end, &item, e)) && !end)
		vec_push(&items, item);
	if (!rc && items.n) {
		const struct config_node **copy = arena_alloc(&r->t->arena, items.n * sizeof *copy);
		memcpy(copy, items.v, items.n * sizeof *copy);
		n->items = copy;
		n->n = items.n;
	}
	vec_free(&items);
	return rc;
}

struct pairs {
	VEC(struct config_pair) v;
};

struct nodes {
	VEC(const struct config_node *) v;
};

static const struct config_pair *find_pair(const struct config_pair *v, size_t n, struct view key)
{
	for (size_t i = 0; i < n; i++)
		if (view_eq(v[i].key->text, key))
			return &v[i];
	return NULL;
}

/* Adds the entries of `from` that the map does not have; keys of the map itself always win. */
static int merge_map(struct reader *r, struct pairs *p, const struct config_node *from, struct err *e)
{
	if (from->type == CONFIG_NODE_LIST) {
		for (size_t i = 0; i < from->n; i++) {
			int rc = from->items[i]->type == CONFIG_NODE_MAP ? merge_map(r, p, from->items[i], e) : -ERR_BAD_DATA;
			if (rc)
				return rc;
		}
		return 0;
	}
	if (from->type != CONFIG_NODE_MAP)
		return -ERR_BAD_DATA;
	for (size_t i = 0; i < from->n; i++) {
		if (find_pair(p->v.v, p->v.n, from->pairs[i].key->text))
			continue;
		if (++r->nodes > MAX_NODES)
			return err_set(e, ERR_LIMIT, "%s: over %d nodes, merge keys included", r->t->file, MAX_NODES);
		vec_push(&p->v, from->pairs[i]);
	}
	return 0;
}

static int put_pair(struct reader *r, struct pairs *p, struct nodes *merges, const struct config_node *key,
		    const struct config_node *value, struct err *e)
{
	const yaml_mark_t at = { .line = key->line - 1, .column = key->column - 1 };
	if (key->type != CONFIG_NODE_SCALAR)
		return fail_at(r, at, e, "a key must be a plain string");
	if (!key->quoted && view_eqs(key->text, "<<")) {
		vec_push(&merges->v, value);
		return 0;
	}
	const struct config_pair *was = find_pair(p->v.v, p->v.n, key->text);
	if (was)
		return fail_at(r, at, e, "field %.*s: given twice, first at line %u", VIEW_ARG(key->text), was->key->line);
	vec_push(&p->v, (struct config_pair){ key, value });
	return 0;
}

static int read_pairs(struct reader *r, struct pairs *p, struct nodes *merges, struct err *e)
{
	for (;;) {
		const struct config_node *key = NULL, *value = NULL;
		bool end = false;
		int rc = read_next(r, YAML_MAPPING_END_EVENT, &end, &key, e);
		if (rc || end)
			return rc;
		rc = read_next(r, YAML_NO_EVENT, &end, &value, e);
		if (!rc)
			rc = put_pair(r, p, merges, key, value, e);
		if (rc)
			return rc;
	}
}

static int read_map(struct reader *r, struct config_node *n, struct err *e)
{
	struct pairs p = { 0 };
	struct nodes merges = { 0 };
	int rc = read_pairs(r, &p, &merges, e);
	for (size_t i = 0; i < merges.v.n && !rc; i++) {
		rc = merge_map(r, &p, merges.v.v[i], e);
		if (rc == -ERR_BAD_DATA)
			fail_at(r, (yaml_mark_t){ .line = n->line - 1, .column = n->column - 1 }, e,
				"a merge key (<<) needs a map or a list of maps");
	}
	if (!rc && p.v.n) {
		struct config_pair *copy = arena_alloc(&r->t->arena, p.v.n * sizeof *copy);
		memcpy(copy, p.v.v, p.v.n * sizeof *copy);
		n->pairs = copy;
		n->n = p.v.n;
	}
	vec_free(&p.v);
	vec_free(&merges.v);
	return rc;
}

static bool is_null(struct view v)
{
	return v.len == 0 || view_eqs(v, "~") || view_eqs(v, "null") || view_eqs(v, "Null") || view_eqs(v, "NULL");
}

static int read_scalar(struct reader *r, const yaml_event_t *ev, const struct config_node **ret, struct err *e)
{
	const yaml_char_t *text = ev->data.scalar.value;
	size_t len = ev->data.scalar.length;
	struct config_node *n = new_node(r, CONFIG_NODE_SCALAR, ev);
	n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	if (ev->data.scalar.tag && strcmp((const char *)ev->data.scalar.tag, YAML_BINARY_TAG) == 0)
		return fail_at(r, ev->start_mark, e, "!!binary is not understood: values are text");
	if (memchr(text, 0, len))
		return fail_at(r, ev->start_mark, e, "a NUL character in a value");
	n->text = arena_view(&r->t->arena, view_make((const char *)text, len));
	if (!n->quoted && is_null(n->text))
		n->type = CONFIG_NODE_NULL;
	*ret = n;
	return 0;
}

static int read_alias(struct reader *r, const yaml_event_t *ev, const struct config_node **ret, struct err *e)
{
	const char *name = (const char *)ev->data.alias.anchor;
	const struct anchor *a = find_anchor(r, view_of(name));
	if (!a)
		return fail_at(r, ev->start_mark, e, "alias *%s: no such anchor before it", name);
	if (r->depth + a->below >= MAX_DEPTH)
		return fail_at(r, ev->start_mark, e, "alias *%s: nested over %d levels deep", name, MAX_DEPTH);
	r->nodes += a->nodes - 1;
	if (r->nodes > MAX_NODES)
		return fail_at(r, ev->start_mark, e, "alias *%s: over %d nodes, aliases included", name, MAX_NODES);
	r->deepest = MAX(r->deepest, r->depth + a->below);
	*ret = a->node;
	return 0;
}

static const yaml_char_t *anchor_of(const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT: return ev->data.scalar.anchor;
	case YAML_MAPPING_START_EVENT: return ev->data.mapping_start.anchor;
	case YAML_SEQUENCE_START_EVENT: return ev->data.sequence_start.anchor;
	default: return NULL;
	}
}

static int read_kind(struct reader *r, const yaml_event_t *ev, const struct config_node **ret, struct err *e)
{
	if (ev->type == YAML_ALIAS_EVENT)
		return read_alias(r, ev, ret, e);
	if (ev->type == YAML_SCALAR_EVENT)
		return read_scalar(r, ev, ret, e);
	bool is_map = ev->type == YAML_MAPPING_START_EVENT;
	struct config_node *n = new_node(r, is_map ? CONFIG_NODE_MAP : CONFIG_NODE_LIST, ev);
	*ret = n;
	r->depth++;
	int rc = is_map ? read_map(r, n, e) : read_list(r, n, e);
	r->depth--;
	return rc;
}

static int read_node(struct reader *r, yaml_event_t *ev, const struct config_node **ret, struct err *e)
{
	if (++r->nodes > MAX_NODES)
		return err_set(e, ERR_LIMIT, "%s: over %d nodes", r->t->file, MAX_NODES);
	if (r->depth >= MAX_DEPTH)
		return fail_at(r, ev->start_mark, e, "nested over %d levels deep", MAX_DEPTH);
	size_t before = r->nodes - 1;
	unsigned outer = r->deepest;
	r->deepest = r->depth;
	int rc = read_kind(r, ev, ret, e);
	const char *anchor = rc ? NULL : (const char *)anchor_of(ev);
	if (anchor) {
		struct view name = arena_view(&r->t->arena, view_of(anchor));
		vec_push(&r->anchors, (struct anchor){ name, *ret, r->nodes - before, r->deepest - r->depth });
	}
	r->deepest = MAX(outer, r->deepest);
	return rc;
}

/* Stream: start, at most one document, end. */
static int read_stream(struct reader *r, struct err *e)
{
	for (;;) {
		yaml_event_t ev;
		int rc = next_event(r, &ev, e);
		if (rc)
			return rc;
		yaml_event_type_t type = ev.type;
		if (type == YAML_SCALAR_EVENT || type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT ||
		    type == YAML_ALIAS_EVENT)
			rc = r->t->root ? fail_at(r, ev.start_mark, e, "a second document in one file")
					: read_node(r, &ev, &r->t->root, e);
		yaml_event_delete(&ev);
		if (rc || type == YAML_STREAM_END_EVENT)
			return rc;
	}
}

static void empty_root(struct config_tree *t)
{
	t->empty = true;
	struct config_node *n = arena_calloc(&t->arena, 1, sizeof *n);
	*n = (struct config_node){ .type = CONFIG_NODE_MAP, .line = 1, .column = 1, .file = t->file };
	t->root = n;
}

int config_parse_how(struct config_tree **ret, struct view text, const char *name, const struct config_how *how, struct err *e)
{
	if (text.len > CONFIG_MAX_BYTES)
		return err_set(e, ERR_LIMIT, "%s: over %zu bytes", name, CONFIG_MAX_BYTES);
	struct config_tree *t = NEW(struct config_tree);
	struct reader r = { .t = t };
	arena_init(&t->arena, 0);
	t->file = arena_strndup(&t->arena, name, strlen(name));
	t->text = arena_view(&t->arena, text);
	t->how = how ? *how : (struct config_how){ 0 };
	int rc = yaml_parser_initialize(&r.yaml) ? 0 : err_set(e, ERR_INTERNAL, "%s: no memory for YAML", name);
	if (!rc) {
		yaml_parser_set_input_string(&r.yaml, (const yaml_char_t *)t->text.ptr, t->text.len);
		rc = read_stream(&r, e);
		yaml_parser_delete(&r.yaml);
	}
	vec_free(&r.anchors);
	if (!rc && t->root && t->how.expand_env)
		rc = config_expand(&t->arena, t->root, &t->root, e);
	if (rc) {
		config_free(t);
		return rc;
	}
	if (!t->root || t->root->type == CONFIG_NODE_NULL)
		empty_root(t);
	*ret = t;
	return 0;
}

int config_parse(struct config_tree **ret, struct view text, const char *name, struct err *e)
{
	return config_parse_how(ret, text, name, NULL, e);
}

const struct config_how *config_how(const struct config_tree *t)
{
	return &t->how;
}

bool config_is_empty(const struct config_tree *t)
{
	return t->empty;
}

int config_load_how(struct config_tree **ret, const char *path, const struct config_how *how, struct err *e)
{
	struct buf text = { .max = CONFIG_MAX_BYTES };
	int rc = buf_read_file(&text, path, e);
	struct view v = buf_view(&text);
	if (how && how->sources)
		config_sources_note(how->sources, path, rc ? NULL : &v);
	if (!rc)
		rc = config_parse_how(ret, v, path, how, e);
	buf_free(&text);
	return rc;
}

int config_load(struct config_tree **ret, const char *path, struct err *e)
{
	return config_load_how(ret, path, NULL, e);
}

void config_free(struct config_tree *t)
{
	if (!t)
		return;
	arena_free(&t->arena);
	free(t);
}

const struct config_node *config_root(const struct config_tree *t)
{
	return t->root;
}

struct view config_text(const struct config_tree *t)
{
	return t->text;
}

const struct config_node *config_get(const struct config_node *n, const char *key)
{
	if (!n || n->type != CONFIG_NODE_MAP)
		return NULL;
	const struct config_pair *p = find_pair(n->pairs, n->n, view_of(key));
	return p ? p->value : NULL;
}
