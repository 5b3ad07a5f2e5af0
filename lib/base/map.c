/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/clock.h"

uint64_t hash_secret[2];

/* Before other constructors, which may use maps. */
__attribute__((constructor(101))) static void draw_hash_secret(void)
{
	if (getrandom(hash_secret, sizeof hash_secret, GRND_NONBLOCK) != sizeof hash_secret) { /* early at boot: better than nothing */
		hash_secret[0] = hash_u64((uint64_t)clock_mono_ns() ^ (uintptr_t)hash_secret);
		hash_secret[1] = hash_u64(hash_secret[0]);
	}
	hash_secret[1] |= 1;
}

void map_free(struct map *m)
{
	free(m->slots);
	*m = (struct map){ 0 };
}

void map_clear(struct map *m)
{
	if (m->slots)
		memset(m->slots, 0, (m->mask + 1) * sizeof *m->slots);
	m->n = 0;
}

/* A slot keeps only the upper half of the mixed hash, so a probe starts from that half alone (map_start). */
static size_t start_of(uint64_t slot, size_t mask)
{
	return (size_t)(slot >> 32) & mask;
}

static uint64_t slot_of(uint64_t hash, uint32_t id)
{
	return (map_mix(hash) & ~(uint64_t)UINT32_MAX) | (id + 1u);
}

static void place(uint64_t *slots, size_t mask, uint64_t slot)
{
	size_t at = start_of(slot, mask);
	while (slots[at])
		at = (at + 1) & mask;
	slots[at] = slot;
}

static size_t slots_for(size_t n)
{
	size_t slots = 16;
	while (slots / 4 * 3 < n)
		slots *= 2;
	return slots;
}

size_t map_bytes_for(size_t n)
{
	return slots_for(n) * sizeof(uint64_t);
}

void map_reserve(struct map *m, size_t n)
{
	size_t have = m->slots ? m->mask + 1 : 0;
	if (n <= have / 4 * 3)
		return;
	size_t want = slots_for(n);
	uint64_t *slots = xcalloc(want, sizeof *slots);
	for (size_t i = 0; i < have; i++)
		if (m->slots[i])
			place(slots, want - 1, m->slots[i]);
	free(m->slots);
	m->slots = slots;
	m->mask = want - 1;
}

void map_insert(struct map *m, uint64_t hash, uint32_t id)
{
	map_reserve(m, m->n + 1);
	place(m->slots, m->mask, slot_of(hash, id));
	m->n++;
}

bool map_remove(struct map *m, uint64_t hash, uint32_t id)
{
	if (!m->slots)
		return false;
	uint64_t slot = slot_of(hash, id);
	size_t at = start_of(slot, m->mask);
	while (m->slots[at] != slot) {
		if (!m->slots[at])
			return false;
		at = (at + 1) & m->mask;
	}
	m->slots[at] = 0;
	m->n--;
	/* Move back what the hole would cut off from its start. */
	for (size_t i = (at + 1) & m->mask; m->slots[i]; i = (i + 1) & m->mask) {
		uint64_t s = m->slots[i];
		m->slots[i] = 0;
		place(m->slots, m->mask, s);
	}
	return true;
}

uint64_t hash_bytes(const void *p, size_t n)
{
	return XXH3_64bits_withSeed(p, n, hash_secret[0]);
}

uint64_t hash_bytes_seed(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, hash_secret[0] ^ seed);
}

uint64_t hash_stable(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

uint64_t hash_stable_seed(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

void hash_stream_begin(struct hash_stream *h)
{
	h->state = XXH3_createState();
	if (!h->state)
		alloc_failed(0);
	XXH3_64bits_reset(h->state);
}

void hash_stream_add(struct hash_stream *h, const void *p, size_t n)
{
	XXH3_64bits_update(h->state, p, n);
}

uint64_t hash_stream_end(struct hash_stream *h)
{
	uint64_t hash = XXH3_64bits_digest(h->state);
	XXH3_freeState(h->state);
	h->state = NULL;
	return hash;
}
