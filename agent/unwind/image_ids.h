/* SPDX-License-Identifier: Apache-2.0 */
/* The image numbers of the kernel's tables, and when a number may be reused for another image. A sample being unwound may still use
 * the old one (REUSE_NS), and the sampling program caches the rule of each address of each number. So released numbers wait until
 * there are many of them. Then a wipe of that cache is ordered (cache_wiper.h), and after it the numbers are free.
 *
 *	fresh -> in use -> resting --(IDS_WIPE of them)--> wiping --(the wipe)--> free -> in use */
#ifndef PYRRHA_AGENT_IMAGE_IDS_H
#define PYRRHA_AGENT_IMAGE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/unwind/cache_wiper.h"
#include "base/vec.h"
#include "bpf/abi.h"

#define IDS_WIPE 1024u

struct image_ids {
	uint32_t next;               /* all below were given out once */
	VEC(uint16_t) resting, wiping, free;
	struct cache_wiper *wiper;
	uint64_t wipe;               /* number of the wipe that `wiping` waits for */
};

/* Borrows the wiper. */
void image_ids_init(struct image_ids *ids, struct cache_wiper *wiper);
void image_ids_release(struct image_ids *ids);
/* 0: none is left, or not now. */
uint16_t image_ids_take(struct image_ids *ids, int64_t now_ns);
void image_ids_give(struct image_ids *ids, uint16_t id, int64_t now_ns);

#endif
