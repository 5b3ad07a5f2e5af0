/* SPDX-License-Identifier: Apache-2.0 */
/* Arena: memory that is freed all at once. One per request, scrape or query, with a byte cap, reset and reused per
 * worker. arena_alloc returns NULL once the cap is reached; its caller turns that into ERR_LIMIT. Not thread-safe.
 * With PYRRHA_DEBUG_ARENA set at compile time each allocation is a malloc of its own, so that sanitizers see
 * overruns. An arena may belong to a budget, which then has to agree to each block, up to BUDGET_ALL; who holds too much is said by the
 * owner of the budget (budget.h, `more`). */
#ifndef PYRRHA_BASE_ARENA_H
#define PYRRHA_BASE_ARENA_H

#include "base/budget.h"
#include "base/view.h"

struct arena_block;

struct arena {
	struct arena_block *head; /* the block in use, linked to older ones */
	size_t used;              /* bytes handed out since the last reset */
	size_t max;               /* cap in bytes; 0 = none */
	struct budget *budget;    /* borrowed; NULL = none. Set before the first allocation */
	size_t held;              /* bytes of the blocks that the budget counts */
	bool refused;             /* the budget refused; the reader of this flag clears it */
};

void arena_init(struct arena *a, size_t max);
/* Keeps the largest block for reuse; with a budget only one that is small beside it. */
void arena_reset(struct arena *a);
void arena_free(struct arena *a);
/* 16-byte aligned, not zeroed; NULL past the cap. */
void *arena_alloc(struct arena *a, size_t n) MUST_USE;
/* Makes sure that the next allocations fit into the block in use, as long as their sizes, each rounded up to 16, add up to at most n bytes. So they do
 * not ask the budget, and may be made under a lock: a budget may wait until it has memory. False: n passes the cap, or the budget refuses. With
 * PYRRHA_DEBUG_ARENA only the cap is looked at. */
bool arena_reserve(struct arena *a, size_t n) MUST_USE;
void *arena_calloc(struct arena *a, size_t n, size_t size) MUST_USE;
/* NUL-terminated copies; NULL past the cap. */
char *arena_strndup(struct arena *a, const char *s, size_t n) MUST_USE;
/* A view of a copy; {NULL, 0} past the cap. */
struct view arena_view(struct arena *a, struct view v) MUST_USE;
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;

#endif
