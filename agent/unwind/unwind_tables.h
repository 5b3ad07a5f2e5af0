/* SPDX-License-Identifier: Apache-2.0 */
/* The unwind tables that the sampling program reads (bpf/abi.h draws them): memory shared with the kernel, so that
 * writing a row is a store. Without BPF (tests) it is plain memory. One thread writes: the drain thread.
 *
 * Rows live in blocks of BLOCK_ROWS inside chunks of 256 KB that are made when needed and never given back; an image's
 * pages may lie in any blocks. Rows are made for the parts of a file that samples meet: a compiler has a million, of which
 * a few thousand are needed. What is taken away is not reused for REUSE_NS, because a sample may be reading it. */
#ifndef PYRRHA_AGENT_TABLES_H
#define PYRRHA_AGENT_TABLES_H

#include "agent/image/image.h"
#include "agent/kernel/table_fds.h"
#include "base/map.h"
#include "unwind/eh_frame.h"

#define TABLE_GROUP 16               /* pages of text */
#define TABLE_GROUP_MAX 256          /* of a file that samples keep meeting in new places */
#define BLOCK_ROWS 1024
#define BLOCKS_PER_CHUNK (CHUNK_ROWS / BLOCK_ROWS)

struct tables;

struct tables_stats {
	uint64_t images, rows, rules, chunks, loads, groups, evictions;
	uint64_t unsupported, unknown_fp, bad_fdes; /* of the images loaded so far */
	uint64_t failures;           /* there was no room for a table, or a part of one */
	uint64_t bad_tables;         /* parts of tables that made no sense, or took too much work */
	uint64_t full;               /* rows that found the rule dictionary full */
};

/* fds NULL: plain memory. */
int tables_new(struct tables **ret, const struct table_fds *fds, struct err *e);
void tables_free(struct tables *t);
const struct tables_stats *tables_stats(const struct tables *t);

/* Gives the image an id if it has none; false if all are taken. */
bool tables_image_id(struct tables *t, struct image *im);
/* The image is about to be freed. */
void tables_image_gone(struct tables *t, struct image *im);
/* Makes the table of an image that has an id ready for an address: of a file with .eh_frame_hdr only some pages
 * around it, of others all. Without .eh_frame that is the empty table: code is then followed by frame pointers. f NULL
 * (the file cannot be read): the same for an image of which nothing is loaded, false for others. False also where there
 * is no room; images that were not met for a while make way then, and it is worth asking again later. */
bool tables_load(struct tables *t, struct image *im, const struct elf_file *f, uint64_t vaddr);
/* Whether there is something to load for the address, now. */
bool tables_missing(const struct tables *t, const struct image *im, uint64_t vaddr);
/* The image was met in a sample just now. */
void tables_touch(struct tables *t, struct image *im);
struct image *tables_image_by_id(const struct tables *t, uint32_t id);

/* Room for the mappings of a process in `maps`; false if there is none. */
bool tables_maps_alloc(struct tables *t, uint32_t n, uint32_t *ret_first);
void tables_maps_free(struct tables *t, uint32_t first, uint32_t n);
struct unwind_map *tables_maps(struct tables *t);
/* The slots of kernel_procs.h. */
struct unwind_proc *tables_procs(struct tables *t);
/* Flags that an entry has to have besides its own. */
uint32_t tables_proc_flags(const struct tables *t);

/* For the unwinder. */
const struct unwind_image *tables_unwind_image(const struct tables *t, uint32_t id);
const __u64 *tables_unwind_pages(const struct tables *t);
/* NULL = none of that number, or not to be mapped; valid until 16 others were asked for. */
const uint32_t *tables_unwind_chunk(struct tables *t, uint32_t i);
const struct unwind_rule *tables_unwind_rule(const struct tables *t, uint32_t i);

#endif
