/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/name_cache.h"

#include <string.h>

/* Maximum number of resolved addresses; beyond it the cache is emptied. */
#define RESOLVED_MAX 60000u

void name_cache_init(struct name_cache *c)
{
	*c = (struct name_cache){ .resolved = { 0 } };
	arena_init(&c->text, 0);
}

void name_cache_release(struct name_cache *c)
{
	map_free(&c->resolved_index);
	vec_free(&c->resolved);
	vec_free(&c->frames);
	map_free(&c->string_index);
	vec_free(&c->strings);
	arena_free(&c->text);
}

void name_cache_clear(struct name_cache *c)
{
	name_cache_release(c);
	arena_init(&c->text, 0);
}

struct view name_cache_intern(struct name_cache *c, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t id;
	for (size_t at = map_start(&c->string_index, h); map_probe(&c->string_index, h, &at, &id);)
		if (view_eq(c->strings.v[id], v))
			return c->strings.v[id];
	struct view copy = arena_view(&c->text, v);
	if (!copy.ptr)
		return VIEW("");
	map_insert(&c->string_index, h, (uint32_t)c->strings.n);
	vec_push(&c->strings, copy);
	return copy;
}

static uint64_t hash_of(uint64_t owner, uint64_t address)
{
	return hash_u64(address ^ hash_u64(owner));
}

bool name_cache_find(const struct name_cache *c, uint64_t owner, uint64_t address, struct sym_frame out[SYM_FRAMES_MAX],
		     size_t *ret_n)
{
	uint64_t h = hash_of(owner, address);
	uint32_t id;
	for (size_t at = map_start(&c->resolved_index, h); map_probe(&c->resolved_index, h, &at, &id);) {
		const struct resolved *r = &c->resolved.v[id];
		if (r->owner != owner || r->address != address)
			continue;
		if (r->n)
			memcpy(out, &c->frames.v[r->first], r->n * sizeof *out);
		*ret_n = r->n;
		return true;
	}
	return false;
}

void name_cache_put(struct name_cache *c, uint64_t owner, uint64_t address, const struct sym_frame *f, size_t n)
{
	if (c->resolved.n >= RESOLVED_MAX)
		name_cache_forget(c);
	map_insert(&c->resolved_index, hash_of(owner, address), (uint32_t)c->resolved.n);
	vec_push(&c->resolved, (struct resolved){ owner, address, (uint32_t)c->frames.n, (uint32_t)n });
	for (size_t i = 0; i < n; i++)
		vec_push(&c->frames, f[i]);
}

void name_cache_forget(struct name_cache *c)
{
	map_clear(&c->resolved_index);
	c->resolved.n = c->frames.n = 0;
}

static size_t map_bytes(const struct map *m)
{
	return m->slots ? (m->mask + 1) * sizeof *m->slots : 0;
}

size_t name_cache_strings_bytes(const struct name_cache *c)
{
	return c->text.used + c->strings.cap * sizeof *c->strings.v + map_bytes(&c->string_index);
}

size_t name_cache_resolved_bytes(const struct name_cache *c)
{
	return c->resolved.cap * sizeof *c->resolved.v + c->frames.cap * sizeof *c->frames.v + map_bytes(&c->resolved_index);
}
