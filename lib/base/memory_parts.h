/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the memory that the process may use among the parts with a budget. Each part has its share of the whole; a size
 * that was given for a part always applies. */
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

/* Parts without a given size get their share of the whole. If the given sizes exceed their shares, the others share the rest, but have at
 * least a quarter of their own shares. Returns the bytes of all parts, and of the given ones: both may exceed the whole. */
uint64_t memory_divide(uint64_t whole, struct memory_part *parts, size_t n, uint64_t *ret_given);

#endif
