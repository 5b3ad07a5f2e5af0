/* SPDX-License-Identifier: Apache-2.0 */
/* The image numbers of the kernel's tables, and when a number may be reused for another image. A sample being unwound may still use
 * the old one (REUSE_NS), and the sampling program caches the rule of each address of each number. So released numbers wait until
 * there are many of them. Then the program is told not to use its cache, the cache is cleared after a delay, and the numbers are free.
 *
 *	fresh -> in use -> resting --(IDS_WIPE of them)--> wiping --(REUSE_NS)--> free -> in use */
#ifndef PYRRHA_AGENT_IMAGE_IDS_H
#define PYRRHA_AGENT_IMAGE_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "bpf/abi.h"

#define IDS_WIPE 1024u

struct image_ids {
	uint32_t next;               /* all below were given out once */
	VEC(uint16_t) resting, wiping, free;
	int64_t wiping_ns;           /* since when */
	struct unwind_proc *procs;   /* the kernel's; each says whether the rule cache may be used */
	int cache_fd;                /* the rule cache; -1 = none */
};

void image_ids_init(struct image_ids *ids, struct unwind_proc *procs, int cache_fd);
void image_ids_release(struct image_ids *ids);
/* 0: none is left, or not now. */
uint16_t image_ids_take(struct image_ids *ids, int64_t now_ns);
/* Flags of a process that is entered now. */
uint32_t image_ids_flags(const struct image_ids *ids);
void image_ids_give(struct image_ids *ids, uint16_t id, int64_t now_ns);

#endif
