/* SPDX-License-Identifier: Apache-2.0 */
/* The executable memory of a process: mappings, ascending and not overlapping. Processes share an address space until one of them
 * changes, so that a fork costs nothing. Drain thread only. */
#ifndef PYRRHA_AGENT_ADDRESS_SPACE_H
#define PYRRHA_AGENT_ADDRESS_SPACE_H

#include "agent/image/image.h"
#include "base/vec.h"
#include "bpf/abi.h"

#define MAPPINGS_MAX 16384           /* executable ones per process (2^UW_MAP_STEPS) */

struct mapping {
	uint64_t start, end, file_offset;
	struct image *image;         /* NULL = code without a file */
	bool settled;                /* it is of exactly that file, not only according to a record */
	uint8_t region;              /* of code without a file: what memory that is (code_regions.h) */
};

struct address_space {
	unsigned refs;
	VEC(struct mapping) v;
	struct image *exe_file;      /* what process.exe turned out to be; a reference; NULL = not known yet */
	struct unwind_map *unwind;   /* the same for the unwinder, once images are open; NULL before */
	unsigned kernel_users;       /* processes whose entry in `procs` points to the run below */
	uint32_t kernel_first;
};

/* An empty one, with one reference. */
struct address_space *address_space_new(void);
struct address_space *address_space_ref(struct address_space *as);
/* as may be NULL. */
void address_space_unref(struct address_space *as);
/* The mapping that holds addr; NULL if none, or as is NULL. */
const struct mapping *address_space_at(const struct address_space *as, uint64_t addr);

/* A file, or code without one if NULL, was mapped until now where something else is. */
typedef void address_space_gone_fn(void *arg, const struct image *was);

/* Maps m, which is copied, in place of what was there. *where may be NULL (none yet) or shared: then it becomes one of its own.
 * False: it was there already, nothing changed. Mappings beyond MAPPINGS_MAX are left out. */
bool address_space_add(struct address_space **where, struct mapping m, address_space_gone_fn *gone, void *arg);

#endif
