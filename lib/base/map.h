/* SPDX-License-Identifier: Apache-2.0 */
/* Hash index: 64-bit hash -> dense id (below 2^32-1). The values themselves are in the caller's array; the caller
 * compares them:
 *
 *	uint32_t id;
 *	for (size_t at = map_start(m, hash); map_probe(m, hash, &at, &id);)
 *		if (equal(things[id], wanted))
 *			return id;
 *
 * or, where what is not there is added:
 *
 *	if (!MAP_FIND_OR_ADD(m, hash, id, n_things, equal(things[id], wanted)))
 *		things[n_things++] = wanted;
 *	return id;
 *
 * Open addressing, linear probing, at most 3/4 full; a slot is the hash's upper half and the id plus one.
 * Zero-initialised is empty. Several threads may read while no thread inserts. */
#ifndef PYRRHA_BASE_MAP_H
#define PYRRHA_BASE_MAP_H

#include "base/view.h"

struct map {
	uint64_t *slots; /* hash & ~0xffffffff | id + 1; 0 = free */
	size_t n, mask;  /* mask = number of slots - 1; slots NULL: no room yet */
};

void map_free(struct map *m);
void map_clear(struct map *m);
/* Room for n entries in all. */
void map_reserve(struct map *m, size_t n);
void map_insert(struct map *m, uint64_t hash, uint32_t id);
/* Bytes of a map that was reserved for n entries while it was empty. */
size_t map_bytes_for(size_t n);
/* Removes the entry with this hash and id; false if there is none. */
bool map_remove(struct map *m, uint64_t hash, uint32_t id);

static inline size_t map_start(const struct map *m, uint64_t hash)
{
	return (size_t)(hash >> 32) & m->mask;
}

static inline bool map_probe(const struct map *m, uint64_t hash, size_t *at, uint32_t *ret_id)
{
	if (!m->slots)
		return false;
	for (;;) {
		uint64_t s = m->slots[*at];
		if (!s)
			return false;
		*at = (*at + 1) & m->mask;
		if ((s ^ hash) >> 32 == 0) {
			*ret_id = (uint32_t)s - 1;
			return true;
		}
	}
}

/* Sets `id`, a uint32_t, to the entry with this hash for which `equal`, an expression of `id`, is true. If there is none, sets it to `next`
 * and adds that. Whether it was there. A macro, so that the comparison is part of the loop. */
#define MAP_FIND_OR_ADD(m, hash, id, next, equal)                                                      \
	({                                                                                             \
		struct map *map_ = (m);                                                                \
		const uint64_t hash_ = (hash);                                                         \
		bool there_ = false;                                                                   \
		for (size_t at_ = map_start(map_, hash_); !there_ && map_probe(map_, hash_, &at_, &(id));) \
			there_ = (equal);                                                              \
		if (!there_)                                                                           \
			map_insert(map_, hash_, (id) = (uint32_t)(next));                              \
		there_;                                                                                \
	})

/* XXH3, 64 bits. */
uint64_t hash_bytes(const void *p, size_t n);
uint64_t hash_bytes_seed(const void *p, size_t n, uint64_t seed);
static inline uint64_t hash_view(struct view v)
{
	return hash_bytes(v.ptr, v.len);
}
/* Mixes one word well (the finaliser of splitmix64). */
static inline uint64_t hash_u64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

#endif
