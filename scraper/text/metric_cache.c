/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/text/metric_cache.h"

#include <stdlib.h>

#define SEED_A UINT64_C(0x9e3779b97f4a7c15)
#define SEED_B UINT64_C(0xc2b2ae3d27d4eb4f)
#define SPARE 1000 /* texts that are kept in any case, besides twice those of the newest good scrape */

void metric_cache_init(struct metric_cache *c, struct budget *budget)
{
	*c = (struct metric_cache){ 0 };
	arena_init(&c->arena, 0);
	c->arena.budget = budget;
}

void metric_cache_release(struct metric_cache *c)
{
	budget_give(c->arena.budget, c->held);
	arena_free(&c->arena);
	vec_free(&c->texts);
	vec_free(&c->series);
	vec_free(&c->strings);
	map_free(&c->text_index);
	map_free(&c->series_index);
	map_free(&c->string_index);
	metric_cache_init(c, c->arena.budget);
}

void metric_cache_forget(struct metric_cache *c)
{
	struct metric_cache was = *c;
	metric_cache_release(c);
	c->serial = was.serial;
	c->scrape = was.scrape;
	c->pass = was.pass;
	c->succeeded = was.succeeded;
	c->last_t_ms = was.last_t_ms;
}

void metric_cache_forget_texts(struct metric_cache *c)
{
	c->texts.n = 0;
	map_clear(&c->text_index);
}

/* ---- memory ---- */

static int no_room(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "there is no room to remember the target's series");
}

/* Before one more item; counts what that takes. */
static bool make_room(struct metric_cache *c, size_t n, size_t cap, size_t item)
{
	size_t grown = MAX(cap, (size_t)8);
	if (n < cap)
		return true;
	size_t bytes = grown * item + (cap ? map_bytes_for(2 * cap) - map_bytes_for(cap) : map_bytes_for(grown)); /* and its index */
	if (!budget_take(c->arena.budget, bytes, BUDGET_KEPT))
		return false;
	c->held += bytes;
	return true;
}

#define ROOM(c, vec) make_room((c), (c)->vec.n, (c)->vec.cap, sizeof *(c)->vec.v)

/* ---- strings ---- */

static bool intern(struct metric_cache *c, struct view v, uint32_t *ret)
{
	uint64_t h = hash_view(v);
	for (size_t at = map_start(&c->string_index, h); map_probe(&c->string_index, h, &at, ret);)
		if (view_eq(c->strings.v[*ret], v))
			return true;
	struct view copy;
	if (!ROOM(c, strings) || !(copy = arena_view(&c->arena, v)).ptr)
		return false;
	*ret = (uint32_t)c->strings.n;
	vec_push(&c->strings, copy);
	map_insert(&c->string_index, h, *ret);
	return true;
}

/* ---- series ---- */

static uint64_t series_hash(const uint32_t *strings, size_t n_labels)
{
	return hash_bytes(strings, 2 * n_labels * sizeof *strings);
}

static bool find_series(const struct metric_cache *c, const uint32_t *strings, size_t n_labels, uint32_t *ret)
{
	uint64_t h = series_hash(strings, n_labels);
	for (size_t at = map_start(&c->series_index, h); map_probe(&c->series_index, h, &at, ret);) {
		const struct metric_series *s = &c->series.v[*ret];
		if (s->n_labels == n_labels && memcmp(s->strings, strings, 2 * n_labels * sizeof *strings) == 0)
			return true;
	}
	return false;
}

/* The series of these labels, made when it is not there. */
static bool need_series(struct metric_cache *c, struct labels l, uint32_t *ret)
{
	uint32_t *strings = arena_alloc(&c->arena, 2 * l.n * sizeof *strings);
	for (size_t i = 0; strings && i < l.n; i++)
		if (!intern(c, l.v[i].name, &strings[2 * i]) || !intern(c, l.v[i].value, &strings[2 * i + 1]))
			return false;
	if (!strings)
		return false;
	if (find_series(c, strings, l.n, ret))
		return true;
	if (!ROOM(c, series))
		return false;
	*ret = (uint32_t)c->series.n;
	map_insert(&c->series_index, series_hash(strings, l.n), *ret);
	vec_push(&c->series, (struct metric_series){ .strings = strings, .n_labels = (uint32_t)l.n, .t_ms = INT64_MIN,
						     .last_t_ms = INT64_MIN });
	return true;
}

struct labels metric_cache_labels(const struct metric_cache *c, const struct metric_series *s, struct arena *a)
{
	struct label *v = arena_alloc(a, s->n_labels * sizeof *v);
	for (uint32_t i = 0; v && i < s->n_labels; i++)
		v[i] = (struct label){ c->strings.v[s->strings[2 * i]], c->strings.v[s->strings[2 * i + 1]] };
	return (struct labels){ v, v ? s->n_labels : 0 };
}

/* ---- texts ---- */

struct metric_text *metric_cache_find(struct metric_cache *c, struct view text)
{
	uint64_t a = hash_bytes_seed(text.ptr, text.len, SEED_A), b = hash_bytes_seed(text.ptr, text.len, SEED_B);
	uint32_t i;
	for (size_t at = map_start(&c->text_index, a); map_probe(&c->text_index, a, &at, &i);)
		if (c->texts.v[i].a == a && c->texts.v[i].b == b)
			return &c->texts.v[i];
	return NULL;
}

int metric_cache_add(struct metric_cache *c, struct view text, struct labels l, struct metric_text **ret, struct err *e)
{
	struct metric_text x = { .a = hash_bytes_seed(text.ptr, text.len, SEED_A), .b = hash_bytes_seed(text.ptr, text.len, SEED_B),
				 .series = METRIC_DROPPED, .first = c->scrape };
	if (c->texts.n >= INT32_MAX || (l.n && !need_series(c, l, &x.series)) || !ROOM(c, texts))
		return no_room(e);
	map_insert(&c->text_index, x.a, (uint32_t)c->texts.n);
	vec_push(&c->texts, x);
	*ret = &c->texts.v[c->texts.n - 1];
	return 0;
}

/* ---- forgetting ---- */

static bool is_kept(const struct metric_cache *c, const struct metric_series *s)
{
	return s->live || s->tracked == c->scrape || s->pass == c->pass;
}

/* The series of from, with all that is known of it. */
static bool copy_series(struct metric_cache *to, const struct metric_cache *from, const struct metric_series *s, struct arena *a,
			uint32_t *ret)
{
	struct labels l = metric_cache_labels(from, s, a);
	size_t n = to->series.n;
	if (!l.v || !need_series(to, l, ret))
		return false;
	arena_reset(a);
	if (to->series.n == n)
		return true; /* it is there already */
	struct metric_series *copy = &to->series.v[*ret], made = *copy;
	*copy = *s;
	copy->strings = made.strings;
	return true;
}

static bool copy_new(struct metric_cache *to, struct metric_cache *from, struct arena *a)
{
	uint32_t id;
	bool ok = true;
	for (size_t i = 0; i < from->series.n && ok; i++)
		if (is_kept(from, &from->series.v[i]))
			ok = copy_series(to, from, &from->series.v[i], a, &id);
	for (size_t i = 0; i < from->texts.n && ok; i++) {
		struct metric_text x = from->texts.v[i];
		if (x.last != from->scrape)
			continue;
		if (x.series != METRIC_DROPPED)
			ok = copy_series(to, from, &from->series.v[x.series], a, &id);
		ok = ok && ROOM(to, texts);
		if (!ok)
			break;
		x.series = x.series == METRIC_DROPPED ? x.series : id;
		map_insert(&to->text_index, x.a, (uint32_t)to->texts.n);
		vec_push(&to->texts, x);
	}
	return ok;
}

bool metric_cache_forget_old(struct metric_cache *c)
{
	size_t fresh = 0;
	for (size_t i = 0; i < c->texts.n; i++)
		fresh += c->texts.v[i].last == c->scrape;
	if (c->succeeded == c->scrape)
		c->n_fresh = fresh;
	size_t room = 2 * c->n_fresh + SPARE;
	if (c->texts.n <= room && c->series.n <= room)
		return true;
	struct metric_cache to;
	struct arena a;
	metric_cache_init(&to, c->arena.budget);
	arena_init(&a, 0);
	bool ok = copy_new(&to, c, &a);
	arena_free(&a);
	to.serial = c->serial;
	to.scrape = c->scrape;
	to.pass = c->pass;
	to.succeeded = c->succeeded;
	to.last_t_ms = c->last_t_ms;
	to.n_fresh = c->n_fresh;
	metric_cache_release(ok ? c : &to);
	if (ok)
		*c = to;
	return ok;
}
