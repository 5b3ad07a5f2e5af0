/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory_parts.h"

#include "base/attrs.h"
#include "base/num.h"

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t memory_divide(uint64_t whole, struct memory_part *parts, size_t n, uint64_t *ret_given)
{
	uint64_t given = 0, all = 0, one = whole / MEMORY_PARTS_WHOLE;
	unsigned taken = 0;
	for (size_t i = 0; i < n; i++)
		if (parts[i].given) {
			given = add(given, *parts[i].bytes);
			taken += parts[i].share;
		}
	uint64_t left = given < whole ? (whole - given) / MAX(MEMORY_PARTS_WHOLE - MIN(taken, MEMORY_PARTS_WHOLE), 1u) : 0;
	one = MIN(one, MAX(left, one / 4));
	for (size_t i = 0; i < n; i++) {
		if (!parts[i].given)
			*parts[i].bytes = MAX(one * parts[i].share >> 20 << 20, MEMORY_PART_LEAST);
		all = add(all, *parts[i].bytes);
	}
	*ret_given = given;
	return all;
}
