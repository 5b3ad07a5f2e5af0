/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in the values of a tree. The tree is not changed: where something below a node changes, the node is copied.
 * An alias is the anchored node itself. So a node may appear twice, as a key and as a value, or within external_labels and outside;
 * copies keep these apart. */
#include "config/config_expand.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_VALUE ((size_t)1 << 20) /* bytes of one value when expanded */

struct expansion {
	struct arena *arena;
	size_t bytes; /* of expanded values so far */
	struct err *e;
};

static bool name_char(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* The name if the text at i is "{NAME}". */
static bool name_at(struct view text, size_t i, struct view *ret)
{
	size_t n = 1;
	if (i >= text.len || text.ptr[i] != '{')
		return false;
	while (i + n < text.len && name_char(text.ptr[i + n], n == 1))
		n++;
	*ret = view_make(text.ptr + i + 1, n - 1);
	return n > 1 && i + n < text.len && text.ptr[i + n] == '}';
}

/* The next dollar signs at or after *i: how many stand before *i afterwards, 0 = no more; *ret_name if {NAME} follows. */
static size_t next_dollars(struct view text, size_t *i, struct view *ret_name, bool *ret_named)
{
	size_t n = 0;
	while (*i < text.len && text.ptr[*i] != '$')
		++*i;
	while (*i < text.len && text.ptr[*i] == '$') {
		++*i;
		n++;
	}
	*ret_named = n && name_at(text, *i, ret_name);
	return n;
}

bool config_expands_name(struct view text, struct view name)
{
	struct view found;
	bool named;
	for (size_t i = 0, n; (n = next_dollars(text, &i, &found, &named));)
		if (named && n % 2 && view_eq(found, name))
			return true;
	return false;
}

static int fail(struct expansion *x, const struct config_node *n, const char *fmt, ...) PRINTF_LIKE(3, 4);
static int fail(struct expansion *x, const struct config_node *n, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	err_vset(x->e, ERR_BAD_DATA, fmt, ap);
	va_end(ap);
	return err_wrap(x->e, "%s:%u:%u", n->file, n->line, n->column);
}

static int put_variable(struct expansion *x, const struct config_node *n, struct view name, struct buf *out)
{
	char *key = xstrndup(name.ptr, name.len);
	const char *value = getenv(key);
	free(key);
	if (!value)
		return fail(x, n, "the environment variable %.*s is not set (--config.expand-env; $${%.*s} is the text itself)",
			    VIEW_ARG(name), VIEW_ARG(name));
	if (!utf8_valid(view_of(value)))
		return fail(x, n, "the environment variable %.*s is not valid UTF-8", VIEW_ARG(name));
	buf_puts(out, value);
	return 0;
}

static int expand_text(struct expansion *x, const struct config_node *n, struct buf *out)
{
	struct view text = n->text, name;
	size_t from = 0, dollars;
	bool named;
	for (size_t i = 0; (dollars = next_dollars(text, &i, &name, &named));) {
		if (!named)
			continue;
		buf_put(out, text.ptr + from, i - dollars - from);
		for (size_t k = 0; k < dollars / 2; k++)
			buf_putc(out, '$');
		from = i;
		if (dollars % 2 == 0)
			continue;
		from = i += name.len + 2;
		int rc = put_variable(x, n, name, out);
		if (rc)
			return rc;
	}
	buf_put(out, text.ptr + from, text.len - from);
	if (out->overflow || x->bytes + out->len > CONFIG_MAX_BYTES)
		return fail(x, n, "the value is too large with its environment variables");
	x->bytes += out->len;
	return 0;
}

static bool any_variable(struct view text)
{
	struct view name;
	bool named;
	for (size_t i = 0; next_dollars(text, &i, &name, &named);)
		if (named)
			return true;
	return false;
}

static int expand_scalar(struct expansion *x, const struct config_node *n, const struct config_node **ret)
{
	struct buf out = { .max = MAX_VALUE };
	if (!any_variable(n->text))
		return 0;
	int rc = expand_text(x, n, &out);
	if (!rc) {
		struct config_node *copy = arena_alloc(x->arena, sizeof *copy);
		*copy = *n;
		copy->raw = n->text;
		copy->text = arena_view(x->arena, buf_view(&out));
		copy->quoted = true; /* the text of a variable is a value, also if it is empty or says null */
		*ret = copy;
	}
	buf_free(&out);
	return rc;
}

static int expand(struct expansion *x, const struct config_node *n, const struct config_node **ret, const char *const *spared);

static int expand_list(struct expansion *x, const struct config_node *n, const struct config_node **ret)
{
	const struct config_node **items = NULL;
	for (size_t i = 0; i < n->n; i++) {
		const struct config_node *item = n->items[i];
		int rc = expand(x, n->items[i], &item, NULL);
		if (rc)
			return rc;
		if (item != n->items[i] && !items) {
			items = arena_alloc(x->arena, n->n * sizeof *items);
			memcpy(items, n->items, n->n * sizeof *items);
		}
		if (items)
			items[i] = item;
	}
	if (items) {
		struct config_node *copy = arena_alloc(x->arena, sizeof *copy);
		*copy = *n;
		copy->items = items;
		*ret = copy;
	}
	return 0;
}

static int expand_map(struct expansion *x, const struct config_node *n, const struct config_node **ret, const char *const *spared)
{
	struct config_pair *pairs = NULL;
	for (size_t i = 0; i < n->n; i++) {
		const struct config_node *value = n->pairs[i].value;
		bool on_path = spared && view_eqs(n->pairs[i].key->text, spared[0]);
		if (on_path && !spared[1])
			continue;
		int rc = expand(x, n->pairs[i].value, &value, on_path ? spared + 1 : NULL);
		if (rc)
			return rc;
		if (value != n->pairs[i].value && !pairs) {
			pairs = arena_alloc(x->arena, n->n * sizeof *pairs);
			memcpy(pairs, n->pairs, n->n * sizeof *pairs);
		}
		if (pairs)
			pairs[i].value = value;
	}
	if (pairs) {
		struct config_node *copy = arena_alloc(x->arena, sizeof *copy);
		*copy = *n;
		copy->pairs = pairs;
		*ret = copy;
	}
	return 0;
}

/* spared: keys, from here on, that lead to parts that are not expanded; NULL = none. The depth is bounded by who parsed. */
static int expand(struct expansion *x, const struct config_node *n, const struct config_node **ret, const char *const *spared)
{
	switch (n->type) {
	case CONFIG_NODE_SCALAR: return expand_scalar(x, n, ret);
	case CONFIG_NODE_LIST: return expand_list(x, n, ret);
	case CONFIG_NODE_MAP: return expand_map(x, n, ret, spared);
	default: return 0;
	}
}

int config_expand(struct arena *a, const struct config_node *root, const struct config_node **ret, struct err *e)
{
	static const char *const external_labels[] = { "global", "external_labels", NULL };
	struct expansion x = { .arena = a, .e = e };
	const struct config_node *expanded = root;
	int rc = expand(&x, root, &expanded, external_labels);
	if (!rc)
		*ret = expanded;
	return rc;
}
