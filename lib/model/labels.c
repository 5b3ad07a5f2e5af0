/* SPDX-License-Identifier: Apache-2.0 */
#include "model/labels.h"

#include "base/json.h"
#include "base/map.h"

struct view labels_get(struct labels l, struct view name)
{
	for (size_t i = 0; i < l.n; i++)
		if (view_eq(l.v[i].name, name))
			return l.v[i].value;
	return VIEW("");
}

bool labels_eq(struct labels a, struct labels b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (!view_eq(a.v[i].name, b.v[i].name) || !view_eq(a.v[i].value, b.v[i].value))
			return false;
	return true;
}

int labels_cmp(struct labels a, struct labels b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++) {
		int c = view_cmp(a.v[i].name, b.v[i].name);
		if (!c)
			c = view_cmp(a.v[i].value, b.v[i].value);
		if (c)
			return c;
	}
	return (a.n > b.n) - (a.n < b.n);
}

static uint64_t labels_hash_from(struct labels l, uint64_t h)
{
	for (size_t i = 0; i < l.n; i++) {
		h = hash_stable_seed(l.v[i].name.ptr, l.v[i].name.len, h);
		h = hash_stable_seed(l.v[i].value.ptr, l.v[i].value.len, h);
	}
	return h;
}

uint64_t labels_hash(struct labels l)
{
	return labels_hash_from(l, hash_secret[0] ^ l.n);
}

uint64_t labels_hash_stable(struct labels l)
{
	return labels_hash_from(l, l.n);
}

static size_t text_bytes(struct labels l)
{
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		n += l.v[i].name.len + l.v[i].value.len + 2;
	return n;
}

static struct view put_text(char **at, struct view v)
{
	struct view copy = { *at, v.len };
	if (v.len)
		memcpy(*at, v.ptr, v.len);
	(*at)[v.len] = 0;
	*at += v.len + 1;
	return copy;
}

static void copy_into(struct label *to, char *text, struct labels l)
{
	for (size_t i = 0; i < l.n; i++) {
		to[i].name = put_text(&text, l.v[i].name);
		to[i].value = put_text(&text, l.v[i].value);
	}
}

struct labels *labels_dup(struct labels l)
{
	struct labels *d = xmalloc(sizeof *d + l.n * sizeof *l.v + text_bytes(l));
	struct label *v = (struct label *)(d + 1);
	copy_into(v, (char *)(v + l.n), l);
	*d = (struct labels){ v, l.n };
	return d;
}

struct labels labels_copy(struct arena *a, struct labels l)
{
	struct label *v = arena_alloc(a, l.n * sizeof *l.v + text_bytes(l));
	if (!v)
		return (struct labels){ NULL, l.n };
	copy_into(v, (char *)(v + l.n), l);
	return (struct labels){ v, l.n };
}

static bool plain(struct view v, bool colons)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':');
		if (!letter && !(i && c >= '0' && c <= '9'))
			return false;
	}
	return v.len > 0;
}

bool label_name_plain(struct view name)
{
	return plain(name, false);
}

bool metric_name_plain(struct view name)
{
	return plain(name, true);
}

void labels_quote(struct buf *out, struct view v)
{
	buf_putc(out, '"');
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (c == '"' || c == '\\')
			buf_put(out, (char[2]){ '\\', c }, 2);
		else if (c == '\n')
			buf_puts(out, "\\n");
		else if (c == '\t')
			buf_puts(out, "\\t");
		else if (c == '\r')
			buf_puts(out, "\\r");
		else if ((unsigned char)c < 0x20 || c == 0x7f)
			buf_printf(out, "\\x%02x", (unsigned char)c);
		else
			buf_putc(out, c);
	}
	buf_putc(out, '"');
}

void labels_format(struct labels l, struct buf *out)
{
	struct view name = labels_get(l, VIEW(LABEL_NAME));
	bool outside = metric_name_plain(name);
	if (outside)
		buf_putv(out, name);
	size_t others = l.n - (name.len ? 1 : 0);
	if (!others && outside)
		return;
	buf_putc(out, '{');
	bool first = true;
	if (name.len && !outside) {
		labels_quote(out, name);
		first = false;
	}
	for (size_t i = 0; i < l.n; i++) {
		if (view_eqs(l.v[i].name, LABEL_NAME))
			continue;
		if (!first)
			buf_puts(out, ", ");
		first = false;
		if (label_name_plain(l.v[i].name))
			buf_putv(out, l.v[i].name);
		else
			labels_quote(out, l.v[i].name);
		buf_putc(out, '=');
		labels_quote(out, l.v[i].value);
	}
	buf_putc(out, '}');
}

void labels_json(struct labels l, struct buf *out)
{
	json_object_begin(out);
	for (size_t i = 0; i < l.n; i++) {
		json_key_view(out, l.v[i].name);
		json_text(out, l.v[i].value);
	}
	json_object_end(out);
}

void labels_builder_init(struct labels_builder *b, struct labels from)
{
	*b = (struct labels_builder){ 0 };
	vec_reserve(&b->l, from.n);
	if (from.n)
		memcpy(b->l.v, from.v, from.n * sizeof *from.v);
	b->l.n = from.n;
}

void labels_builder_free(struct labels_builder *b)
{
	vec_free(&b->l);
}

void labels_builder_del(struct labels_builder *b, struct view name)
{
	for (size_t i = 0; i < b->l.n; i++)
		if (view_eq(b->l.v[i].name, name)) {
			b->l.v[i] = b->l.v[--b->l.n];
			return;
		}
}

void labels_builder_set(struct labels_builder *b, struct view name, struct view value)
{
	if (!value.len) {
		labels_builder_del(b, name);
		return;
	}
	for (size_t i = 0; i < b->l.n; i++)
		if (view_eq(b->l.v[i].name, name)) {
			b->l.v[i].value = value;
			return;
		}
	vec_push(&b->l, (struct label){ name, value });
}

struct view labels_builder_get(const struct labels_builder *b, struct view name)
{
	return labels_get((struct labels){ b->l.v, b->l.n }, name);
}

static int by_name(const void *a, const void *b)
{
	return view_cmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

struct labels labels_builder_finish(struct labels_builder *b)
{
	if (b->l.n)
		qsort(b->l.v, b->l.n, sizeof *b->l.v, by_name);
	return (struct labels){ b->l.v, b->l.n };
}
