/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/write/sort.h"

#include <string.h>

static void insertion(uint64_t *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint64_t x = v[i];
		size_t k = i;
		for (; k && v[k - 1] >> 32 > x >> 32; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
}

static bool sorted(const uint64_t *v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (v[i - 1] >> 32 > v[i] >> 32)
			return false;
	return true;
}

/* Least significant digit first, a byte at a time; bytes that are equal everywhere cost one look. */
uint64_t *sort_by_high(uint64_t *v, uint64_t *tmp, size_t n)
{
	if (sorted(v, n))
		return v;
	if (n <= 24) {
		insertion(v, n);
		return v;
	}
	for (unsigned shift = 32; shift < 64; shift += 8) {
		size_t at[257] = { 0 };
		for (size_t i = 0; i < n; i++)
			at[(v[i] >> shift & 0xff) + 1]++;
		if (at[(v[0] >> shift & 0xff) + 1] == n)
			continue;
		for (unsigned i = 1; i < 256; i++)
			at[i] += at[i - 1];
		for (size_t i = 0; i < n; i++)
			tmp[at[v[i] >> shift & 0xff]++] = v[i];
		uint64_t *x = v;
		v = tmp;
		tmp = x;
	}
	return v;
}
