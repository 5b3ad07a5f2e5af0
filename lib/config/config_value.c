/* SPDX-License-Identifier: Apache-2.0 */
/* Decoded structs, by the same tables: whether two are equal, and independent copies. So a field that is added to a table is
 * automatically compared and copied. */
#include "config/config.h"

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_strings(const struct config_strings *a, const struct config_strings *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = same_text(a->v[i], b->v[i]);
	return same;
}

static bool same_map(const struct config_map *a, const struct config_map *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = same_text(a->v[i].key, b->v[i].key) && same_text(a->v[i].value, b->v[i].value);
	return same;
}

static bool same_multimap(const struct config_multimap *a, const struct config_multimap *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = same_text(a->v[i].key, b->v[i].key) && same_strings(&a->v[i].values, &b->v[i].values);
	return same;
}

static struct config_list list_at(const void *at)
{
	struct config_list l;
	memcpy(&l, at, sizeof l);
	return l;
}

static void *pointer_at(const void *at)
{
	void *p;
	memcpy(&p, at, sizeof p);
	return p;
}

static bool same_list(const struct config_table *t, const void *at_a, const void *at_b)
{
	struct config_list a = list_at(at_a), b = list_at(at_b);
	bool same = a.n == b.n;
	for (size_t i = 0; same && i < a.n; i++)
		same = config_same(t, (const char *)a.v + i * t->size, (const char *)b.v + i * t->size);
	return same;
}

static bool same_pointed(const struct config_table *t, const void *a, const void *b)
{
	return a == b || (a && b && config_same(t, a, b));
}

/* Bytes of a type that points nowhere; 0 = of another. */
static size_t plain_size(enum config_type t)
{
	switch (t) {
	case CONFIG_BOOL: return sizeof(bool);
	case CONFIG_INT: case CONFIG_COUNT: case CONFIG_DURATION: return sizeof(int64_t);
	case CONFIG_FLOAT: return sizeof(double);
	case CONFIG_SIZE: return sizeof(uint64_t);
	case CONFIG_ENUM: return sizeof(int);
	default: return 0;
	}
}

static bool same_field(const struct config_field *f, const void *a, const void *b)
{
	switch (f->type) {
	case CONFIG_STRING: case CONFIG_SECRET: case CONFIG_PATH: return same_text(pointer_at(a), pointer_at(b));
	case CONFIG_STRINGS: return same_strings(a, b);
	case CONFIG_MAP: return same_map(a, b);
	case CONFIG_MULTIMAP: return same_multimap(a, b);
	case CONFIG_STRUCT: case CONFIG_INLINE: return config_same(f->table, a, b);
	case CONFIG_POINTER: return same_pointed(f->table, pointer_at(a), pointer_at(b));
	case CONFIG_STRUCTS: return same_list(f->table, a, b);
	case CONFIG_CUSTOM: return f->table && same_list(f->table, a, b);
	case CONFIG_NODE: return pointer_at(a) == pointer_at(b);
	case CONFIG_IGNORED: case CONFIG_REFUSED: return true;
	default: return memcmp(a, b, plain_size(f->type)) == 0;
	}
}

bool config_same(const struct config_table *t, const void *a, const void *b)
{
	for (size_t i = 0; i < t->n; i++)
		if (!same_field(&t->fields[i], (const char *)a + t->fields[i].offset, (const char *)b + t->fields[i].offset))
			return false;
	return true;
}

/* --- copies: `at` holds the bytes of the original, and becomes a copy --- */

static const char *copy_text(struct arena *a, const char *s)
{
	return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

static void *copy_array(struct arena *a, const void *v, size_t n, size_t size)
{
	void *c = arena_calloc(a, n + 1, size);
	if (c && n)
		memcpy(c, v, n * size);
	return c;
}

static void copy_strings(struct arena *a, struct config_strings *s)
{
	s->v = copy_array(a, s->v, s->n, sizeof *s->v);
	for (size_t i = 0; i < s->n; i++)
		s->v[i] = copy_text(a, s->v[i]);
}

static void copy_map(struct arena *a, struct config_map *m)
{
	m->v = copy_array(a, m->v, m->n, sizeof *m->v);
	for (size_t i = 0; i < m->n; i++)
		m->v[i] = (struct config_kv){ copy_text(a, m->v[i].key), copy_text(a, m->v[i].value) };
}

static void copy_multimap(struct arena *a, struct config_multimap *m)
{
	m->v = copy_array(a, m->v, m->n, sizeof *m->v);
	for (size_t i = 0; i < m->n; i++) {
		m->v[i].key = copy_text(a, m->v[i].key);
		copy_strings(a, &m->v[i].values);
	}
}

static void copy_fields(const struct config_table *t, struct arena *a, void *at);

static void copy_list(const struct config_table *t, struct arena *a, void *at)
{
	struct config_list l = list_at(at);
	l.v = copy_array(a, l.v, l.n, t->size);
	for (size_t i = 0; i < l.n; i++)
		copy_fields(t, a, (char *)l.v + i * t->size);
	memcpy(at, &l, sizeof l);
}

static void copy_pointed(const struct config_table *t, struct arena *a, void *at)
{
	void *p = pointer_at(at);
	if (!p)
		return;
	p = copy_array(a, p, 1, t->size);
	copy_fields(t, a, p);
	memcpy(at, &p, sizeof p);
}

static void copy_string_at(struct arena *a, void *at)
{
	const char *s = copy_text(a, pointer_at(at));
	memcpy(at, &s, sizeof s);
}

static void copy_fields(const struct config_table *t, struct arena *a, void *struct_at)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct config_field *f = &t->fields[i];
		void *at = (char *)struct_at + f->offset;
		switch (f->type) {
		case CONFIG_STRING: case CONFIG_SECRET: case CONFIG_PATH: copy_string_at(a, at); break;
		case CONFIG_STRINGS: copy_strings(a, at); break;
		case CONFIG_MAP: copy_map(a, at); break;
		case CONFIG_MULTIMAP: copy_multimap(a, at); break;
		case CONFIG_STRUCT: case CONFIG_INLINE: copy_fields(f->table, a, at); break;
		case CONFIG_POINTER: copy_pointed(f->table, a, at); break;
		case CONFIG_STRUCTS: copy_list(f->table, a, at); break;
		case CONFIG_CUSTOM: if (f->table) copy_list(f->table, a, at); break;
		default: break;
		}
	}
}

void config_copy(const struct config_table *t, struct arena *a, const void *from, void *to)
{
	memcpy(to, from, t->size);
	copy_fields(t, a, to);
}

void config_canonical(const struct config_node *n, struct buf *out)
{
	buf_printf(out, "%d %zu ", (int)n->type, n->type == CONFIG_NODE_SCALAR ? n->text.len : n->n);
	if (n->type == CONFIG_NODE_SCALAR)
		buf_putv(out, n->text);
	for (size_t i = 0; n->type == CONFIG_NODE_MAP && i < n->n; i++) {
		config_canonical(n->pairs[i].key, out);
		config_canonical(n->pairs[i].value, out);
	}
	for (size_t i = 0; n->type == CONFIG_NODE_LIST && i < n->n; i++)
		config_canonical(n->items[i], out);
}
