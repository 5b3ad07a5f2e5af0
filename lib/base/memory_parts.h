/* SPDX-License-Identifier: Apache-2.0 */
/* How the memory that the process may use is divided among what has a budget: each part has its share of the whole, and what
 * somebody said of a part holds, whatever its share. */
#ifndef PYRRHA_BASE_MEMORY_PARTS_H
#define PYRRHA_BASE_MEMORY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_PARTS_WHOLE 64 /* what all shares add up to, at most; the rest is for what has no part */
#define MEMORY_PART_LEAST (UINT64_C(8) << 20)

struct memory_part {
	unsigned share;       /* of MEMORY_PARTS_WHOLE */
	uint64_t *bytes;      /* in, if given; else out: whole MiB, at least MEMORY_PART_LEAST */
	bool given;
};

/* Parts that were not given get their share of the whole. Where those given have more than theirs, the others share what is left, but
 * have at least a quarter of what would be theirs. Returns the bytes of all parts, and of those given: both may be more than the whole. */
uint64_t memory_divide(uint64_t whole, struct memory_part *parts, size_t n, uint64_t *ret_given);

#endif
