/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration as it may be shown: the tree as YAML again, with secrets replaced. Only the key decides whether a value is a secret,
 * so sections that this program does not decode are covered as well. Parameters of URLs have arbitrary names: those with secret-like
 * words in them are secrets. Any thread. */
#include <strings.h>

#include "base/redact.h"
#include "base/utf8.h"
#include "config/config.h"

#define REDACT_MAX ((size_t)32 << 20) /* aliases may repeat a part many times */

static const char *const secret_keys[] = { "password", "credentials", "client_secret", "bearer_token", "secrets", "key",
					   "access_key", "secret_key", "session_token", "secret", "token", "proxy_connect_header" };
/* Within the name of a parameter, or as the whole name. */
static const char *const secret_words[] = { "passw", "passphrase", "pwd", "secret", "token", "credential", "apikey", "api_key",
					    "api-key", "access_key", "access-key", "accesskey", "private", "signature", "auth",
					    "session", "cookie", "bearer" };
static const char *const secret_names[] = { "key", "pass", "sig", "jwt", "pw" };
#define PARAM_LABEL VIEW("__param_")

static bool is_secret(struct view key)
{
	for (size_t i = 0; i < ARRAY_LEN(secret_keys); i++)
		if (view_eqs(key, secret_keys[i]))
			return true;
	return false;
}

static bool has_word(struct view name, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= name.len; i++)
		if (strncasecmp(name.ptr + i, word, n) == 0)
			return true;
	return false;
}

bool config_secret_name(struct view name)
{
	for (size_t i = 0; i < ARRAY_LEN(secret_words); i++)
		if (has_word(name, secret_words[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(secret_names); i++)
		if (name.len == strlen(secret_names[i]) && has_word(name, secret_names[i]))
			return true;
	return false;
}

/* __param_token, in labels and as the target of a rule. */
static bool is_secret_label(struct view name)
{
	return view_starts(name, PARAM_LABEL) &&
	       config_secret_name(view_make(name.ptr + PARAM_LABEL.len, name.len - PARAM_LABEL.len));
}

/* From the ? on: key=value&key=value. */
static void redact_query(struct view q, struct buf *out)
{
	for (size_t at = 0, n; at < q.len; at += n) {
		const char *end = memchr(q.ptr + at + 1, '&', q.len - at - 1);
		n = end ? (size_t)(end - (q.ptr + at)) : q.len - at;
		const char *is = memchr(q.ptr + at + 1, '=', n - 1);
		size_t name = is ? (size_t)(is - (q.ptr + at)) - 1 : 0;
		if (is && config_secret_name(view_make(q.ptr + at + 1, name))) {
			buf_put(out, q.ptr + at, name + 2);
			buf_puts(out, "<secret>");
		} else {
			buf_put(out, q.ptr + at, n);
		}
	}
}

void config_redact_url(struct view url, struct buf *out)
{
	const char *query = url.len ? memchr(url.ptr, '?', url.len) : NULL;
	size_t n = query ? (size_t)(query - url.ptr) : url.len;
	redact_user_info(view_make(url.ptr, n), false, "<secret>", out);
	if (query)
		redact_query(view_make(query, url.len - n), out);
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

/* The characters that YAML allows unescaped in double quotes, except Unicode line breaks. */
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

/* A URL or a path may have secrets in it. */
static void put_value(struct buf *out, const struct config_node *n)
{
	struct view v = n->text;
	struct buf u = { 0 };
	if (memmem(v.ptr, v.len, "://", 3) || view_starts(v, VIEW("/")))
		config_redact_url(v, &u);
	if (u.len && !view_eq(buf_view(&u), v))
		put_quoted(out, buf_view(&u));
	else
		put_text(out, v, n->quoted);
	buf_free(&u);
}

static void put_node(struct buf *out, const struct config_node *n, unsigned depth, bool secret, bool params);

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

/* params: {token: [x]}; {target_label: __param_token, replacement: x}; labels: {__param_token: x} */
static bool is_hidden(struct view key, bool params, bool replacement)
{
	return is_secret(key) || is_secret_label(key) || (params && config_secret_name(key)) ||
	       (replacement && view_eqs(key, "replacement"));
}

static void put_map(struct buf *out, const struct config_node *n, unsigned depth, bool secret, bool params)
{
	const struct config_node *target = config_get(n, "target_label");
	bool replacement = target && is_secret_label(target->text);
	for (size_t i = 0; i < n->n && !out->overflow; i++) {
		if (i)
			indent(out, depth);
		put_key(out, n->pairs[i].key, depth);
		const struct config_node *v = n->pairs[i].value;
		struct view key = n->pairs[i].key->text;
		bool hide = secret || is_hidden(key, params, replacement);
		bool names = view_eqs(key, "params") || view_eqs(key, "endpoint_params");
		if ((v->type == CONFIG_NODE_MAP || v->type == CONFIG_NODE_LIST) && v->n) {
			buf_putc(out, '\n');
			indent(out, depth + 1);
			put_node(out, v, depth + 1, hide, names);
		} else {
			buf_putc(out, ' ');
			put_node(out, v, depth, hide, names);
		}
	}
}

/* The caller has indented already. */
static void put_node(struct buf *out, const struct config_node *n, unsigned depth, bool secret, bool params)
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
		put_map(out, n, depth, secret, params);
		return;
	case CONFIG_NODE_LIST:
		if (!n->n)
			buf_puts(out, "[]\n");
		for (size_t i = 0; i < n->n && !out->overflow; i++) {
			if (i)
				indent(out, depth);
			buf_puts(out, "- ");
			put_node(out, n->items[i], depth + 1, secret, false);
		}
	}
}

void config_redact_node(const struct config_node *n, struct buf *out)
{
	if (!out->max)
		out->max = REDACT_MAX;
	put_node(out, n, 0, false, false);
}

void config_redact(const struct config_tree *t, struct buf *out)
{
	config_redact_node(config_root(t), out);
}
