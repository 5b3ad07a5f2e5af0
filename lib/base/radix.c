/* SPDX-License-Identifier: Apache-2.0 */
#include "base/radix.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define FEW 24                       /* up to so many records are sorted by insertion */

struct keyed {
	uint64_t key, rest;
} __attribute__((may_alias));

_Static_assert(sizeof(struct keyed) == RADIX_RECORD, "records have the size that radix.h says");

static void radix_insert(struct keyed *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct keyed r = v[i];
		size_t to = i;
		for (; to && v[to - 1].key > r.key; to--)
			v[to] = v[to - 1];
		v[to] = r;
	}
}

/* One pass: sorts by the byte of the key at bit `shift`. Records with the same byte keep their order. */
static void radix_pass(const struct keyed *from, size_t n, unsigned shift, struct keyed *to)
{
	size_t at[256] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++)
		at[from[i].key >> shift & 255]++;
	for (size_t b = 0; b < 256; b++) {
		size_t count = at[b];
		at[b] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		to[at[from[i].key >> shift & 255]++] = from[i];
}

void radix_sort(void *records, size_t n)
{
	struct keyed *v = records;
	uint64_t any = 0, all = UINT64_MAX;
	size_t ascending = 1;

	if (n <= FEW) {
		radix_insert(v, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		any |= v[i].key;
		all &= v[i].key;
		ascending += i && v[i].key >= v[i - 1].key;
	}
	if (ascending == n)
		return;
	struct keyed *spare = xreallocarray(NULL, n, sizeof *spare), *from = v, *to = spare;
	for (unsigned shift = 0; shift < 64; shift += 8) {
		if (((any ^ all) >> shift & 255) == 0)
			continue;
		radix_pass(from, n, shift, to);
		struct keyed *sorted = to;
		to = from;
		from = sorted;
	}
	if (from != v)
		memcpy(v, from, n * sizeof *v);
	free(spare);
}
