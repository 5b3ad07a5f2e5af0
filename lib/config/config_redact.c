/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration as it may be shown: the tree as YAML again, with secrets replaced. What is a secret is decided by
 * the key alone, so that a section this program does not decode is covered as well. Any thread. */
#include "base/utf8.h"
#include "config/config.h"

#define REDACT_MAX ((size_t)32 << 20) /* aliases may repeat a part many times */

static const char *const secret_keys[] = { "password", "credentials", "client_secret", "bearer_token", "secrets", "key",
					   "secret_key", "secret", "token" };

static bool is_secret(struct view key)
{
	for (size_t i = 0; i < ARRAY_LEN(secret_keys); i++)
		if (view_eqs(key, secret_keys[i]))
			return true;
	return false;
}

static bool plain(struct view v)
{
	if (!v.len || v.ptr[0] == '-' || v.ptr[0] == ' ' || v.ptr[v.len - 1] == ' ')
		return false;
	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.ptr[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_./+-() ", c);
		if (!word)
			return false;
	}
	return true;
}

/* What YAML lets stand in double quotes as it is, line breaks of Unicode excepted. */
static bool printable(uint32_t cp)
{
	if (cp < 0x7f)
		return cp >= 0x20 && cp != '"' && cp != '\\';
	return (cp >= 0xa0 && cp < 0x2028) || (cp > 0x2029 && cp < 0xd800) || (cp >= 0xe000 && cp < 0xfffe && cp != 0xfeff) ||
	       cp >= 0x10000;
}

static void put_quoted(struct buf *out, struct view v)
{
	buf_putc(out, '"');
	for (size_t i = 0; i < v.len;) {
		uint32_t cp = 0xfffd;
		unsigned n = utf8_decode(v.ptr + i, v.len - i, &cp);
		if (n && printable(cp))
			buf_put(out, v.ptr + i, n);
		else if (cp == '"' || cp == '\\')
			buf_put(out, (char[2]){ '\\', (char)cp }, 2);
		else
			buf_printf(out, "\\U%08x", cp);
		i += n ? n : 1;
	}
	buf_putc(out, '"');
}

static void put_text(struct buf *out, struct view v, bool quoted)
{
	if (!quoted && plain(v))
		buf_putv(out, v);
	else
		put_quoted(out, v);
}

/* scheme://user:secret@host: the part before the @ is not shown. */
static void put_value(struct buf *out, const struct config_node *n)
{
	struct view v = n->text;
	const char *scheme = memmem(v.ptr, v.len, "://", 3);
	if (scheme) {
		const char *from = scheme + 3, *end = v.ptr + v.len, *at = NULL;
		for (const char *p = from; p < end && *p != '/' && *p != '?' && *p != '#'; p++)
			if (*p == '@')
				at = p;
		if (at) {
			struct buf u = { 0 };
			buf_put(&u, v.ptr, (size_t)(from - v.ptr));
			buf_puts(&u, "<secret>");
			buf_put(&u, at, (size_t)(end - at));
			put_quoted(out, buf_view(&u));
			buf_free(&u);
			return;
		}
	}
	put_text(out, v, n->quoted);
}

static void put_node(struct buf *out, const struct config_node *n, unsigned depth, bool secret);

static void indent(struct buf *out, unsigned depth)
{
	for (unsigned i = 0; i < depth; i++)
		buf_puts(out, "  ");
}

/* A key longer than YAML's simple ones (1024 characters) takes the explicit form, "? key" and ": value". */
static void put_key(struct buf *out, const struct config_node *key, unsigned depth)
{
	struct buf text = { 0 };
	put_text(&text, key->text, key->quoted);
	bool is_long = text.len > 1000;
	if (is_long)
		buf_puts(out, "? ");
	buf_putv(out, buf_view(&text));
	if (is_long) {
		buf_putc(out, '\n');
		indent(out, depth);
	}
	buf_putc(out, ':');
	buf_free(&text);
}

static void put_map(struct buf *out, const struct config_node *n, unsigned depth, bool secret)
{
	for (size_t i = 0; i < n->n && !out->overflow; i++) {
		if (i)
			indent(out, depth);
		put_key(out, n->pairs[i].key, depth);
		const struct config_node *v = n->pairs[i].value;
		bool hide = secret || is_secret(n->pairs[i].key->text);
		if ((v->type == CONFIG_NODE_MAP || v->type == CONFIG_NODE_LIST) && v->n) {
			buf_putc(out, '\n');
			indent(out, depth + 1);
			put_node(out, v, depth + 1, hide);
		} else {
			buf_putc(out, ' ');
			put_node(out, v, depth, hide);
		}
	}
}

/* The caller has indented already. */
static void put_node(struct buf *out, const struct config_node *n, unsigned depth, bool secret)
{
	switch (n->type) {
	case CONFIG_NODE_NULL:
		buf_puts(out, "null\n");
		return;
	case CONFIG_NODE_SCALAR:
		if (secret)
			buf_puts(out, "<secret>");
		else
			put_value(out, n);
		buf_putc(out, '\n');
		return;
	case CONFIG_NODE_MAP:
		if (!n->n)
			buf_puts(out, "{}\n");
		put_map(out, n, depth, secret);
		return;
	case CONFIG_NODE_LIST:
		if (!n->n)
			buf_puts(out, "[]\n");
		for (size_t i = 0; i < n->n && !out->overflow; i++) {
			if (i)
				indent(out, depth);
			buf_puts(out, "- ");
			put_node(out, n->items[i], depth + 1, secret);
		}
	}
}

void config_redact(const struct config_tree *t, struct buf *out)
{
	if (!out->max)
		out->max = REDACT_MAX;
	put_node(out, config_root(t), 0, false);
}
