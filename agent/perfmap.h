/* SPDX-License-Identifier: Apache-2.0 */
/* The map that a just-in-time compiler keeps of its code: /tmp/perf-PID.map in the process's own root, lines of
 * "START SIZE NAME" in hexadecimal, with or without 0x. Read on from where the last reading ended; the newest entry
 * for an address wins. The file is the target's, so: regular, of the target's uid, opened within its root, at most
 * PERFMAP_MAX_BYTES and PERFMAP_MAX_ENTRIES of it. */
#ifndef PYRRHA_AGENT_PERFMAP_H
#define PYRRHA_AGENT_PERFMAP_H

#include "base/buf.h"
#include "base/vec.h"

#define PERFMAP_MAX_BYTES ((uint64_t)64 << 20)
#define PERFMAP_MAX_ENTRIES 500000u

struct perfmap_entry {
	uint64_t start;
	uint32_t size, name; /* name: offset in names */
};

struct perfmap {
	uint64_t read_to;    /* bytes taken in */
	uint64_t ino;
	bool full;           /* a limit was reached: what came later is not known */
	VEC(struct perfmap_entry) entries; /* in order of the file; sorted lazily into order[] */
	VEC(uint32_t) order; /* indices by start, then age */
	struct buf names;
};

void perfmap_free(struct perfmap *m);
/* Takes in what the process (its number here) has written since. False: there is no such file, or it is not its own. */
bool perfmap_update(struct perfmap *m, uint32_t pid);
/* Takes in text (whole lines); for perfmap_update and tests. Returns the bytes used. */
size_t perfmap_parse(struct perfmap *m, struct view text);
/* The name of the code at an address; an empty view if there is none. */
struct view perfmap_lookup(struct perfmap *m, uint64_t address);

#endif
