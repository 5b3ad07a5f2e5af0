/* SPDX-License-Identifier: Apache-2.0 */
/* Names, files and lines of addresses in the files that this process executes from. Data read from a file is kept. Debug information
 * is read here, not in a helper process as the agent does with files of others: the file is our own, and forking a large server is
 * expensive. Not locked: the caller's lock holds it. */
#ifndef PYRRHA_SELFPROF_OWN_NAMES_H
#define PYRRHA_SELFPROF_OWN_NAMES_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbols/dwarf_index.h"
#include "symbols/symtab.h"
#include "unwind/own_images.h"

#define OWN_CALLS_MAX 32

struct own_call {
	struct view name, system_name, file; /* valid until the next own_names_at; file may be empty */
	int64_t line, start_line;            /* 0 = not known */
};

/* Of one file. */
struct own_symbols {
	const struct own_image *image;
	struct symtab symbols;
	struct dwarf_index lines;
};

/* An address that was looked up before. */
struct own_known {
	const struct own_image *image;
	uint64_t vaddr;
	uint32_t first, n;           /* in calls */
};

struct own_names {
	VEC(struct own_symbols) v;
	struct map index;
	VEC(struct own_known) known;
	VEC(struct own_call) calls;
	struct arena text;           /* of their strings */
};

void own_names_init(struct own_names *n);
/* The calls at a virtual address, innermost inlined first; 0 if it has no name. */
size_t own_names_at(struct own_names *n, const struct own_image *im, uint64_t vaddr, struct own_call out[OWN_CALLS_MAX]);

#endif
