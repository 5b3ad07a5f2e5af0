/* SPDX-License-Identifier: Apache-2.0 */
/* The map of code that a just-in-time compiler writes: /tmp/perf-PID.map in the process's own root, lines of "START SIZE NAME" in
 * hexadecimal, with or without 0x; the newest entry for an address wins. The target owns the file, so another process
 * (perfmap_helper.h) copies it, continuing where the last reading ended. Here are only addresses, and the positions of names in the
 * copy. */
#ifndef PYRRHA_AGENT_PERFMAP_H
#define PYRRHA_AGENT_PERFMAP_H

#include "base/buf.h"
#include "base/vec.h"

#define PERFMAP_MAX_BYTES ((uint64_t)64 << 20)
#define PERFMAP_MAX_ENTRIES 200000u
#define PERFMAP_NAME_MAX 1024

struct perfmap_entry {
	uint64_t start;
	uint32_t size, name; /* name: offset in the copy, ends with the line */
};

struct perfmap {
	int copy;            /* the file's beginning, unlinked; -1 = none yet. Set by perfmap_init */
	uint64_t copied;     /* bytes in it */
	uint64_t taken;      /* of these, in entries[]: whole lines */
	uint64_t dev, ino;   /* of the file that was copied */
	bool full;           /* a limit was reached: what came later is not known */
	bool in_long_line;   /* taken is within an overlong line */
	VEC(struct perfmap_entry) entries; /* in order of the file; sorted lazily into order[] */
	VEC(uint32_t) order; /* indices by start, then age */
};

struct perfmap_helper;

void perfmap_init(struct perfmap *m);
void perfmap_free(struct perfmap *m);
/* Takes in what the process (its number here) has written since. False: there is no map, or none that can be had; the
 * helper counts why. */
bool perfmap_update(struct perfmap *m, struct perfmap_helper *h, uint32_t pid);
/* Takes in text as if the file had grown by it (tests). False: no room for the copy. */
bool perfmap_append(struct perfmap *m, struct view text);
/* Appends the name of the code at an address; false if there is none. */
bool perfmap_lookup(struct perfmap *m, uint64_t address, struct buf *name);
/* Bytes of memory that it takes. */
size_t perfmap_bytes(const struct perfmap *m);

#endif
