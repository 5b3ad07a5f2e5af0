/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of slots of a fixed array: first fit, and what is freed rests before it is given out again. Times are
 * CLOCK_MONOTONIC. */
#ifndef PYRRHA_AGENT_EXTENTS_H
#define PYRRHA_AGENT_EXTENTS_H

#include "base/vec.h"

#define REUSE_NS 1000000000ll

struct slot_run {
	uint32_t first, n;
};

struct extents {
	VEC(struct slot_run) free_;  /* ascending, not touching */
	VEC(struct { struct slot_run x; int64_t freed_ns; }) resting; /* oldest first */
};

void extents_init(struct extents *x, uint32_t n);
void extents_release(struct extents *x);
/* False: no run of n free slots. */
bool extents_alloc(struct extents *x, uint32_t n, int64_t now_ns, uint32_t *ret_first);
/* Unused slots: they need no delay before reuse. */
void extents_add(struct extents *x, uint32_t first, uint32_t n);
void extents_free(struct extents *x, uint32_t first, uint32_t n, int64_t now_ns);
/* Slots free or resting, in all. */
uint64_t extents_room(const struct extents *x);

#endif
