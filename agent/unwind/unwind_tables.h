/* SPDX-License-Identifier: Apache-2.0 */
/* The unwind tables that the sampling program reads (bpf/abi.h draws them): memory shared with the kernel, so that
 * writing a row is a store. Without BPF (tests) it is plain memory. One thread writes: the drain thread.
 *
 * Rows are in blocks of BLOCK_ROWS inside chunks of 256 KB, which are allocated when needed and never freed; an image's pages may be
 * in any blocks. Rows are made for the parts of a file that samples meet: a compiler has a million, of which a few thousand are
 * needed. Freed blocks are not reused for REUSE_NS, because a sample may be reading them.
 *
 * Rows name rules by number (rule_set.h). Rules that no row of a loaded page has are freed when most numbers are taken; if that does not suffice,
 * images that no sample has met for a while are unloaded first.
 *
 * Code of which neither .eh_frame nor Go's table tells has one row at first, RULE_UNREAD. When a sample meets it, the code itself is read
 * (code_frame.h), unless the file keeps frame pointers (frame_pointers.h). */
#ifndef PYRRHA_AGENT_UNWIND_TABLES_H
#define PYRRHA_AGENT_UNWIND_TABLES_H

#include "agent/image/image.h"
#include "agent/kernel/table_fds.h"
#include "base/map.h"
#include "unwind/eh_frame.h"

#define TABLE_GROUP 16               /* pages of text */
#define TABLE_GROUP_MAX 256          /* of a file that samples keep meeting in new places */
#define BLOCK_ROWS 1024
#define BLOCKS_PER_CHUNK (CHUNK_ROWS / BLOCK_ROWS)

struct unwind_tables;

struct unwind_tables_stats {
	uint64_t images, rows, rules, chunks, loads, groups, evictions;
	uint64_t rules_freed;        /* by sweeps, because no row named them any more */
	uint64_t unsupported, unknown_fp, bad_fdes; /* of the images loaded so far */
	uint64_t failures;           /* there was no room for a table, or a part of one */
	uint64_t bad_tables;         /* parts of tables that were malformed, or took too much work */
	uint64_t full;               /* rows that found the set of rules full */
};

/* Memory for rows unless unwind_tables_set_room is called: enough for some three hundred static C++ programs of 2 MB. */
#define UNWIND_ROOM_BYTES ((uint64_t)32 << 20)
#define UNWIND_ROOM_BYTES_MIN ((uint64_t)2 << 20)
#define UNWIND_ROOM_BYTES_MAX ((uint64_t)CHUNKS_MAX * CHUNK_ROWS * 4)

/* fds NULL: plain memory. */
int unwind_tables_new(struct unwind_tables **ret, const struct table_fds *fds, struct err *e) MUST_USE;
void unwind_tables_free(struct unwind_tables *t);
/* Memory for rows, in bytes, between the two bounds above; before the first row is made. */
void unwind_tables_set_room(struct unwind_tables *t, uint64_t bytes);
/* For tests: it is so many nanoseconds later than the clock says. */
void unwind_tables_set_ahead(struct unwind_tables *t, int64_t ns);
const struct unwind_tables_stats *unwind_tables_stats(const struct unwind_tables *t);

/* Gives the image an id if it has none; false if all are taken. */
bool unwind_tables_image_id(struct unwind_tables *t, struct image *im);
/* The image is about to be freed. */
void unwind_tables_image_gone(struct unwind_tables *t, struct image *im);
/* Makes the table of an image that has an id ready for an address: of a file with .eh_frame_hdr only some pages
 * around it, of others all. Without .eh_frame that is the empty table: code is then unwound by frame pointers. f NULL (the file cannot
 * be read): the same for an image without loaded pages, false for others. False also if there is no room. Then images that were not
 * sampled for a while are unloaded, and the caller may try again later. */
bool unwind_tables_load(struct unwind_tables *t, struct image *im, const struct elf_file *f, uint64_t vaddr);
/* Whether there is something to load for the address, now. */
bool unwind_tables_missing(struct unwind_tables *t, const struct image *im, uint64_t vaddr);
/* Whether the last attempt to load a part of the image's table found no room, and the next attempt has to wait. */
bool unwind_tables_full(const struct unwind_tables *t, const struct image *im);
/* Does the next step of sweeping rules and clearing the kernel's cache of them, less than 1 ms. To be called after each drain. */
void unwind_tables_tick(struct unwind_tables *t);
/* The image was met in a sample just now. */
void unwind_tables_touch(struct unwind_tables *t, struct image *im);
struct image *unwind_tables_image_by_id(const struct unwind_tables *t, uint32_t id);

/* Room for the mappings of a process in `maps`; false if there is none. */
bool unwind_tables_maps_alloc(struct unwind_tables *t, uint32_t n, uint32_t *ret_first);
void unwind_tables_maps_free(struct unwind_tables *t, uint32_t first, uint32_t n);
struct unwind_map *unwind_tables_maps(struct unwind_tables *t);
/* The slots of kernel_procs.h. */
struct unwind_proc *unwind_tables_procs(struct unwind_tables *t);
/* Flags that an entry has to have besides its own. */
uint32_t unwind_tables_proc_flags(const struct unwind_tables *t);

/* For the unwinder. */
const struct unwind_image *unwind_tables_image(const struct unwind_tables *t, uint32_t id);
const __u64 *unwind_tables_pages(const struct unwind_tables *t);
/* NULL = none of that number, or not to be mapped; valid until 16 others were asked for. */
const uint32_t *unwind_tables_chunk(struct unwind_tables *t, uint32_t i);
const struct unwind_rule *unwind_tables_rule(const struct unwind_tables *t, uint32_t i);

#endif
