/* SPDX-License-Identifier: Apache-2.0 */
/* Clears the rule cache of the sampling program (`cache` in bpf/abi.h). A word of it names an image and perhaps a rule by their numbers, and
 * has no edition: a number that is used again would have what the cache knows of its old meaning. So whoever frees numbers orders a
 * wipe and waits until it is done:
 *
 *	cached --(order)--> not used --(REUSE_NS after the last order)--> cleared, cached
 *
 * Samples that begin while the cache is not used neither read nor write it; those that began before have ended after REUSE_NS. Drain thread
 * only; cache_wiper_advance() has to be called from time to time while a wipe is ordered. */
#ifndef PYRRHA_AGENT_CACHE_WIPER_H
#define PYRRHA_AGENT_CACHE_WIPER_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/abi.h"

struct cache_wiper {
	struct unwind_proc *procs;   /* the kernel's table of processes; a flag of each says whether its samples use the cache */
	int fd;                      /* the cache; -1 = none */
	bool ordered;                /* a wipe is ordered and not done */
	int64_t ordered_ns;          /* when the last order came (CLOCK_MONOTONIC) */
	uint64_t wipes;              /* that are done */
};

/* Borrows procs, PROC_SLOTS of them. */
void cache_wiper_init(struct cache_wiper *w, struct unwind_proc *procs, int fd);
/* Orders a wipe; cache_wiper_done() with the number returned says when it is done. One that is under way is put off, so nobody may order
 * more than one at a time. */
uint64_t cache_wiper_order(struct cache_wiper *w, int64_t now_ns);
bool cache_wiper_done(const struct cache_wiper *w, uint64_t wipe);
/* Clears the cache if an order is old enough. */
void cache_wiper_advance(struct cache_wiper *w, int64_t now_ns);
/* Flags of a process that is entered now. */
uint32_t cache_wiper_flags(const struct cache_wiper *w);

#endif
