/* SPDX-License-Identifier: Apache-2.0 */
/* Tables onto the tree: each row is a key, the functions here turn its node into the struct's field. All allocations are in the
 * context's arena. The context's path is the field that is being decoded, for messages. Any thread, one at a time per context. */
#include <stdio.h>

#include "base/num.h"
#include "base/typo.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "config/config.h"


void config_ctx_release(struct config_ctx *c)
{
	buf_free(&c->path);
}

const char *config_dirname(struct arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return ".";
	return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

size_t config_enter(struct config_ctx *c, const char *key)
{
	size_t mark = c->path.len;
	buf_printf(&c->path, "%s%s", mark ? "." : "", key);
	return mark;
}

size_t config_enter_index(struct config_ctx *c, size_t i)
{
	size_t mark = c->path.len;
	buf_printf(&c->path, "[%zu]", i);
	return mark;
}

void config_leave(struct config_ctx *c, size_t mark)
{
	c->path.len = mark;
	if (c->path.ptr)
		c->path.ptr[mark] = 0;
}

static void put_place(const struct config_ctx *c, const struct config_node *n, struct buf *out)
{
	if (n && n->field)
		buf_printf(out, "%s: field %s: ", n->file, n->field);
	else if (n)
		buf_printf(out, "%s:%u:%u: ", n->file, n->line, n->column);
	if (c->path.len && !(n && n->field))
		buf_printf(out, "field %.*s: ", VIEW_ARG(buf_view(&c->path)));
}

int config_error(const struct config_ctx *c, const struct config_node *n, struct err *e, const char *fmt, ...)
{
	struct err inner = { 0 };
	struct buf place = { 0 };
	va_list ap;
	va_start(ap, fmt);
	err_vset(&inner, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	put_place(c, n, &place);
	err_set(e, ERR_BAD_DATA, "%.*s%s", VIEW_ARG(buf_view(&place)), inner.msg);
	buf_free(&place);
	return -ERR_BAD_DATA;
}

void config_warn(const struct config_ctx *c, const struct config_node *n, const char *fmt, ...)
{
	if (!c->warn)
		return;
	struct err inner = { 0 };
	struct buf line = { 0 };
	va_list ap;
	va_start(ap, fmt);
	err_vset(&inner, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	put_place(c, n, &line);
	buf_puts(&line, inner.msg);
	c->warn(c->warn_arg, line.ptr);
	buf_free(&line);
}

static const char *node_kind(const struct config_node *n)
{
	static const char *const kinds[] = { "nothing", "a single value", "a map", "a list" };
	return kinds[n->type];
}

/* A scalar's text (null is ""), or an error that says what was wanted. */
static int scalar(const struct config_ctx *c, const struct config_node *n, const char *wanted, struct view *ret,
		  struct err *e)
{
	if (n->type == CONFIG_NODE_MAP || n->type == CONFIG_NODE_LIST)
		return config_error(c, n, e, "%s is wanted, here is %s", wanted, node_kind(n));
	*ret = n->text;
	return 0;
}

static const char *dup(struct config_ctx *c, struct view v)
{
	return arena_strndup(c->arena, v.ptr ? v.ptr : "", v.len);
}

static bool parse_bool(struct view v, bool *ret)
{
	static const char *const words[] = { "false", "true", "False", "True", "FALSE", "TRUE",
					     "no",    "yes",  "off",   "on" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (view_eqs(v, words[i])) {
			*ret = i & 1;
			return true;
		}
	return false;
}

/* Index of the word in "a|b|c", or -1. */
static int find_word(const char *words, struct view v)
{
	int i = 0;
	for (const char *w = words;; i++) {
		size_t len = strcspn(w, "|");
		if (len == v.len && strncasecmp(w, v.ptr, len) == 0)
			return i;
		if (!w[len])
			return -1;
		w += len + 1;
	}
}

static const char *resolve_path(struct config_ctx *c, struct view v)
{
	if (!v.len || v.ptr[0] == '/' || !c->dir)
		return dup(c, v);
	return arena_printf(c->arena, "%s/%.*s", c->dir, VIEW_ARG(v));
}

/* It may be there later: what is named is read when it is needed. */
static void check_path(const struct config_ctx *c, const struct config_node *n, const char *path)
{
	struct err e;
	if (c->check_files && n && path[0] && buf_check_file(path, &e))
		config_warn(c, n, "%s", e.msg);
}

static int get_number(const struct config_ctx *c, const struct config_field *f, const struct config_node *n,
		      struct view v, void *at, struct err *e)
{
	bool ok = f->type == CONFIG_FLOAT ? num_parse_double(v, at) : num_parse_i64(v, at);
	if (!ok)
		return config_error(c, n, e, "\"%.*s\" is not a %s", VIEW_ARG(v),
				    f->type == CONFIG_FLOAT ? "number" : "whole number");
	if (f->type == CONFIG_COUNT && *(int64_t *)at < 0)
		return config_error(c, n, e, "must not be negative");
	return 0;
}

/* All types that are one scalar. n only places errors. */
static int get_scalar(struct config_ctx *c, const struct config_field *f, const struct config_node *n, struct view v,
		      void *at, struct err *e)
{
	switch (f->type) {
	case CONFIG_STRING:
	case CONFIG_SECRET:
		if (!utf8_valid(v))
			return config_error(c, n, e, "not valid UTF-8");
		*(const char **)at = dup(c, v);
		return 0;
	case CONFIG_PATH:
		*(const char **)at = resolve_path(c, v);
		check_path(c, n, *(const char **)at);
		return 0;
	case CONFIG_BOOL:
		return parse_bool(v, at) ? 0 : config_error(c, n, e, "\"%.*s\" is neither true nor false", VIEW_ARG(v));
	case CONFIG_INT:
	case CONFIG_COUNT:
	case CONFIG_FLOAT:
		return get_number(c, f, n, v, at, e);
	case CONFIG_DURATION:
		if (units_parse_duration(v, at))
			return 0;
		return config_error(c, n, e, "\"%.*s\" is not a duration; write for example 15s, 1m or 1h30m", VIEW_ARG(v));
	case CONFIG_SIZE:
		if (units_parse_size(v, at))
			return 0;
		return config_error(c, n, e, "\"%.*s\" is not a size; write for example 10MB", VIEW_ARG(v));
	case CONFIG_ENUM:
		if ((*(int *)at = find_word(f->words, v)) >= 0)
			return 0;
		return config_error(c, n, e, "\"%.*s\" is not one of %s", VIEW_ARG(v), f->words);
	default:
		return err_set(e, ERR_INTERNAL, "a table row of type %d has no scalar form", (int)f->type);
	}
}

static const char *scalar_name(enum config_type t)
{
	switch (t) {
	case CONFIG_BOOL: return "true or false";
	case CONFIG_INT: case CONFIG_COUNT: case CONFIG_FLOAT: return "a number";
	case CONFIG_DURATION: return "a duration";
	case CONFIG_SIZE: return "a size";
	default: return "a string";
	}
}

static int get_strings(struct config_ctx *c, const struct config_node *n, bool one_is_fine, struct config_strings *ret,
		       struct err *e)
{
	if (n->type == CONFIG_NODE_SCALAR && one_is_fine) {
		ret->v = arena_alloc(c->arena, sizeof *ret->v);
		ret->v[0] = dup(c, n->text);
		ret->n = 1;
		return 0;
	}
	if (n->type != CONFIG_NODE_LIST)
		return config_error(c, n, e, "a list of strings is wanted, here is %s", node_kind(n));
	ret->v = arena_calloc(c->arena, n->n + 1, sizeof *ret->v);
	ret->n = n->n;
	for (size_t i = 0; i < n->n; i++) {
		struct view v = VIEW("");
		size_t mark = config_enter_index(c, i);
		int rc = scalar(c, n->items[i], "a string", &v, e);
		if (!rc && !utf8_valid(v))
			rc = config_error(c, n->items[i], e, "not valid UTF-8");
		config_leave(c, mark);
		if (rc)
			return rc;
		ret->v[i] = dup(c, v);
	}
	return 0;
}

static int want_map(const struct config_ctx *c, const struct config_node *n, struct err *e)
{
	return n->type == CONFIG_NODE_MAP ? 0 : config_error(c, n, e, "a map is wanted, here is %s", node_kind(n));
}

static int get_map(struct config_ctx *c, const struct config_node *n, struct config_map *ret, struct err *e)
{
	int rc = want_map(c, n, e);
	if (rc)
		return rc;
	ret->v = arena_calloc(c->arena, n->n + 1, sizeof *ret->v);
	ret->n = n->n;
	for (size_t i = 0; i < n->n && !rc; i++) {
		const struct config_pair *p = &n->pairs[i];
		struct view v = VIEW("");
		size_t mark = config_enter(c, p->key->text.ptr);
		rc = scalar(c, p->value, "a string", &v, e);
		config_leave(c, mark);
		if (!rc)
			ret->v[i] = (struct config_kv){ dup(c, p->key->text), dup(c, p->value->type == CONFIG_NODE_NULL ? VIEW("") : v) };
	}
	return rc;
}

static int get_multimap(struct config_ctx *c, const struct config_node *n, struct config_multimap *ret, struct err *e)
{
	int rc = want_map(c, n, e);
	if (rc)
		return rc;
	ret->v = arena_calloc(c->arena, n->n + 1, sizeof *ret->v);
	ret->n = n->n;
	for (size_t i = 0; i < n->n && !rc; i++) {
		const struct config_pair *p = &n->pairs[i];
		size_t mark = config_enter(c, p->key->text.ptr);
		ret->v[i].key = dup(c, p->key->text);
		rc = get_strings(c, p->value, true, &ret->v[i].values, e);
		config_leave(c, mark);
	}
	return rc;
}

static int get_structs(struct config_ctx *c, const struct config_table *t, const struct config_node *n,
		       struct config_list *ret, struct err *e)
{
	if (n->type != CONFIG_NODE_LIST)
		return config_error(c, n, e, "a list is wanted, here is %s", node_kind(n));
	ret->v = arena_calloc(c->arena, n->n + 1, t->size);
	ret->n = n->n;
	int rc = 0;
	for (size_t i = 0; i < n->n && !rc; i++) {
		size_t mark = config_enter_index(c, i);
		rc = n->items[i]->type == CONFIG_NODE_NULL
			     ? config_error(c, n->items[i], e, "a map is wanted, here is nothing")
			     : config_decode(c, t, n->items[i], (char *)ret->v + i * t->size, e);
		config_leave(c, mark);
	}
	return rc;
}

int config_decode_value(struct config_ctx *c, const struct config_field *f, const struct config_node *n, void *at,
			struct err *e)
{
	struct view v = VIEW("");
	int rc;
	switch (f->type) {
	case CONFIG_STRINGS:
		return get_strings(c, n, false, at, e);
	case CONFIG_MAP:
		return get_map(c, n, at, e);
	case CONFIG_MULTIMAP:
		return get_multimap(c, n, at, e);
	case CONFIG_STRUCT:
		return config_decode(c, f->table, n, at, e);
	case CONFIG_POINTER:
		*(void **)at = arena_calloc(c->arena, 1, f->table->size);
		return config_decode(c, f->table, n, *(void **)at, e);
	case CONFIG_STRUCTS:
		return get_structs(c, f->table, n, at, e);
	case CONFIG_NODE:
		*(const struct config_node **)at = n;
		return 0;
	case CONFIG_CUSTOM:
		return f->custom(c, n, at, e);
	case CONFIG_IGNORED:
		config_warn(c, n, "%s", f->words);
		return 0;
	case CONFIG_REFUSED:
		return config_error(c, n, e, "%s", f->words);
	default:
		rc = scalar(c, n, scalar_name(f->type), &v, e);
		return rc ? rc : get_scalar(c, f, n, v, at, e);
	}
}

/* The row of a key, and where its struct begins (rows of inline structs lie deeper). */
static const struct config_field *find_row(const struct config_table *t, struct view key, char *at, char **ret_at)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct config_field *f = &t->fields[i];
		if (f->type == CONFIG_INLINE) {
			const struct config_field *in = find_row(f->table, key, at + f->offset, ret_at);
			if (in)
				return in;
		} else if (view_eqs(key, f->key)) {
			*ret_at = at;
			return f;
		}
	}
	return NULL;
}

static int set_defaults(struct config_ctx *c, const struct config_table *t, const struct config_node *n, char *at,
			struct err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct config_field *f = &t->fields[i];
		int rc = 0;
		if (f->type == CONFIG_INLINE)
			rc = set_defaults(c, f->table, n, at + f->offset, e);
		else if (f->type == CONFIG_STRUCT) /* its own defaults, should its key be absent */
			rc = set_defaults(c, f->table, n, at + f->offset, e);
		else if (f->def)
			rc = get_scalar(c, f, n, view_of(f->def), at + f->offset, e);
		if (rc)
			return rc;
	}
	return 0;
}

static int check_required(struct config_ctx *c, const struct config_table *t, const struct config_node *n, struct err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct config_field *f = &t->fields[i];
		if (f->type == CONFIG_INLINE) {
			int rc = check_required(c, f->table, n, e);
			if (rc)
				return rc;
			continue;
		}
		const struct config_node *v = f->flags & CONFIG_REQUIRED ? config_get(n, f->key) : NULL;
		if ((f->flags & CONFIG_REQUIRED) && (!v || v->type == CONFIG_NODE_NULL)) {
			size_t mark = config_enter(c, f->key);
			int rc = config_error(c, n, e, "is missing");
			config_leave(c, mark);
			return rc;
		}
	}
	return 0;
}

static void compare_keys(struct typo *t, const struct config_table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		const struct config_field *f = &table->fields[i];
		if (f->type == CONFIG_INLINE)
			compare_keys(t, f->table);
		else
			typo_compare(t, view_of(f->key));
	}
}

static int unknown_key(struct config_ctx *c, const struct config_table *t, const struct config_node *key, struct err *e)
{
	struct typo typo = typo_of(key->text, typo_most(key->text));
	compare_keys(&typo, t);
	size_t mark = config_enter(c, key->text.ptr);
	int rc = typo.meant.len ? config_error(c, key, e, "unknown; did you mean %.*s?", VIEW_ARG(typo.meant)) : config_error(c, key, e, "unknown");
	config_leave(c, mark);
	return rc;
}

static int run_checks(struct config_ctx *c, const struct config_table *t, const struct config_node *n, char *at,
		      struct err *e)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->fields[i].type == CONFIG_INLINE) {
			int rc = run_checks(c, t->fields[i].table, n, at + t->fields[i].offset, e);
			if (rc)
				return rc;
		}
	return t->check ? t->check(c, n, at, e) : 0;
}

int config_decode(struct config_ctx *c, const struct config_table *t, const struct config_node *n, void *at,
		  struct err *e)
{
	static const struct config_node nothing = { .type = CONFIG_NODE_MAP, .file = "(defaults)" };
	if (!n)
		n = &nothing;
	int rc = n->type == CONFIG_NODE_NULL ? 0 : want_map(c, n, e);
	if (!rc)
		rc = set_defaults(c, t, n, at, e);
	for (size_t i = 0; i < n->n && !rc; i++) {
		const struct config_pair *p = &n->pairs[i];
		char *base = NULL;
		const struct config_field *f = find_row(t, p->key->text, at, &base);
		if (!f && t->other_key && t->other_key(p->key->text))
			continue;
		if (!f)
			return unknown_key(c, t, p->key, e);
		if (p->value->type == CONFIG_NODE_NULL && f->type != CONFIG_REFUSED)
			continue;
		size_t mark = config_enter(c, f->key);
		rc = config_decode_value(c, f, p->value, base + f->offset, e);
		config_leave(c, mark);
	}
	if (!rc)
		rc = check_required(c, t, n, e);
	return rc ? rc : run_checks(c, t, n, at, e);
}

int config_decode_at(struct config_ctx *c, const char *field, const struct config_table *t, const struct config_node *n,
		     void *at, struct err *e)
{
	size_t mark = config_enter(c, field);
	int rc = config_decode(c, t, n, at, e);
	config_leave(c, mark);
	return rc;
}
