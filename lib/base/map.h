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
 * Open addressing, linear probing, at most 3/4 full; a slot is the upper half of the hash as map_mix leaves it, and the id plus one.
 * Zero-initialised is empty. Several threads may read while no thread inserts.
 *
 * Keys come from scraped targets and from queries. Whoever knew their hashes could choose keys that all begin at one slot; then each look-up
 * would walk over all of them. So hashes depend on a secret of the process:
 *
 *	hash_bytes, hash_bytes_seed, hash_view    of texts, for what stays in this process: maps and other tables
 *	hash_stable, hash_stable_seed, hash_stable_view    the same in every process: for what is stored, sent, or must agree between servers
 *	hash_u64    mixes a number, without the secret. Distinct numbers have distinct hashes, and maps mix the secret in
 *
 * Numbers that a target chooses (lines, addresses) are hashed with hash_bytes over an array, not added to another hash. */
#ifndef PYRRHA_BASE_MAP_H
#define PYRRHA_BASE_MAP_H

#include "base/view.h"

struct map {
	uint64_t *slots; /* map_mix(hash) & ~0xffffffff | id + 1; 0 = free */
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

extern uint64_t hash_secret[2]; /* random, written before main begins; the second is odd */

/* Of hashes that someone else knows or chooses, nobody can tell which agree in their upper halves after this. Each bit of the hash counts. */
static inline uint64_t map_mix(uint64_t hash)
{
	unsigned __int128 m = (unsigned __int128)(hash ^ hash_secret[0]) * hash_secret[1];
	return (uint64_t)(m >> 64) ^ (uint64_t)m;
}

static inline size_t map_start(const struct map *m, uint64_t hash)
{
	return (size_t)(map_mix(hash) >> 32) & m->mask;
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
		if ((s ^ map_mix(hash)) >> 32 == 0) {
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

/* XXH3, 64 bits, seeded with the secret: another number in every process. */
uint64_t hash_bytes(const void *p, size_t n);
uint64_t hash_bytes_seed(const void *p, size_t n, uint64_t seed);
static inline uint64_t hash_view(struct view v)
{
	return hash_bytes(v.ptr, v.len);
}
/* XXH3, 64 bits: the same in every process. Not for keys of maps. */
uint64_t hash_stable(const void *p, size_t n);
uint64_t hash_stable_seed(const void *p, size_t n, uint64_t seed);
static inline uint64_t hash_stable_view(struct view v)
{
	return hash_stable(v.ptr, v.len);
}
/* hash_stable of bytes that are added piece by piece. hash_stream_end returns the hash and frees the state; it must be called once. */
struct hash_stream {
	void *state; /* xxHash's */
};
void hash_stream_begin(struct hash_stream *h);
void hash_stream_add(struct hash_stream *h, const void *p, size_t n);
uint64_t hash_stream_end(struct hash_stream *h);
/* Mixes one word well (the finaliser of splitmix64). Without the secret. */
static inline uint64_t hash_u64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

#endif
