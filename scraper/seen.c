/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/seen.h"

#include "base/varint.h"
#include "scraper/split.h"

struct strings {
	struct map index;
	VEC(struct view) v;
};

static uint32_t string_id(struct strings *x, struct view s)
{
	uint64_t h = hash_view(s);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&x->index, h, id, x->v.n, view_eq(x->v.v[id], s)))
		vec_push(&x->v, s);
	return id;
}

static void put(struct buf *out, uint64_t v)
{
	uint8_t b[10];
	buf_put(out, b, varint_put(b, v));
}

static void put_group(struct strings *x, const struct scrape_series *s, int64_t age_ms, struct buf *out)
{
	put(out, (uint64_t)age_ms);
	put(out, s->group->n);
	for (size_t i = 0; i < s->group->n; i++) {
		put(out, string_id(x, s->group->v[i].name));
		put(out, string_id(x, s->group->v[i].value));
	}
}

void seen_encode(const struct series_set *set, uint64_t serial, int64_t t_ms, struct buf *out)
{
	struct strings x = { 0 };
	struct buf groups = { 0 };
	size_t before = out->len;
	const struct scrape_series *first = NULL; /* all types of a profile have the same groups */
	for (size_t i = 0; i < set->v.n; i++) {
		const struct scrape_series *s = set->v.v[i];
		if (!s->group || s->serial != serial || !(s->seen || s->live) || t_ms - s->last_seen_ms > SPLIT_IDLE_MS ||
		    s->last_seen_ms > t_ms || (first && !ptype_eq(&first->type, &s->type)))
			continue;
		first = s;
		put_group(&x, s, t_ms - s->last_seen_ms, &groups);
	}
	put(out, x.v.n);
	for (size_t i = 0; i < x.v.n; i++) {
		put(out, x.v.v[i].len);
		buf_putv(out, x.v.v[i]);
	}
	buf_putv(out, buf_view(&groups));
	if (out->len - before > SEEN_MAX)
		out->len = before;
	buf_free(&groups);
	vec_free(&x.v);
	map_free(&x.index);
}

struct reader {
	const uint8_t *at, *end;
	const struct view *strings;
	uint64_t n_strings;
};

static bool get_strings(struct reader *r, struct arena *a)
{
	if (!varint_get(&r->at, r->end, &r->n_strings) || r->n_strings > (uint64_t)(r->end - r->at))
		return false;
	struct view *v = arena_calloc(a, (size_t)r->n_strings + 1, sizeof *v);
	for (uint64_t i = 0, n; v && i < r->n_strings; i++) {
		if (!varint_get(&r->at, r->end, &n) || n > (uint64_t)(r->end - r->at))
			return false;
		v[i] = view_make((const char *)r->at, (size_t)n);
		r->at += n;
	}
	r->strings = v;
	return v != NULL;
}

static bool get_group(struct reader *r, struct arena *a, uint64_t *ret_age, struct labels *ret)
{
	uint64_t n, name, value;
	if (!varint_get(&r->at, r->end, ret_age) || !varint_get(&r->at, r->end, &n) || *ret_age > SPLIT_IDLE_MS ||
	    n > (uint64_t)(r->end - r->at))
		return false;
	struct label *l = arena_calloc(a, (size_t)n + 1, sizeof *l);
	for (uint64_t i = 0; l && i < n; i++) {
		if (!varint_get(&r->at, r->end, &name) || !varint_get(&r->at, r->end, &value) || name >= r->n_strings ||
		    value >= r->n_strings)
			return false;
		l[i] = (struct label){ r->strings[name], r->strings[value] };
		if (!l[i].name.len || !l[i].value.len || (i && view_cmp(l[i - 1].name, l[i].name) >= 0))
			return false;
	}
	*ret = (struct labels){ l, (size_t)n };
	return l != NULL;
}

void seen_decode(struct view bytes, struct arena *a, bool (*group)(void *arg, int64_t age_ms, struct labels l), void *arg)
{
	struct reader r = { .at = (const uint8_t *)bytes.ptr, .end = (const uint8_t *)bytes.ptr + bytes.len };
	struct labels l;
	uint64_t age;
	if (!get_strings(&r, a))
		return;
	while (r.at < r.end && get_group(&r, a, &age, &l) && group(arg, (int64_t)age, l))
		;
}
