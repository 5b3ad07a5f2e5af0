/* SPDX-License-Identifier: Apache-2.0 */
/* All images: found by identity, opened when a sample first needs them, dropped when neither an address space nor the history can
 * refer to them any more. Drain thread only. */
#ifndef PYRRHA_AGENT_IMAGES_H
#define PYRRHA_AGENT_IMAGES_H

#include "agent/image/image_files.h"
#include "agent/unwind/unwind_tables.h"

struct images;

/* runtimes: 1 << kind of the language runtimes that files are asked for. */
struct images *images_new(struct unwind_tables *t, unsigned runtimes);
void images_free(struct images *x);
/* Limits the CPU time for building unwind tables to so many CPUs, 0.02 being a fiftieth of one. Time not used is kept for up to a minute. first_ns:
 * CPU time that may be used at the start besides. Without this call there is no limit. */
void images_set_share(struct images *x, double cpus, int64_t first_ns);
/* How often a part of a table was needed and not built, because that CPU time was used up. */
uint64_t images_postponed(const struct images *x);
/* The image of that identity, made if need be. Borrowed: it lives while it is mapped (image->mapped) or sampled. */
struct image *images_get(struct images *x, const struct image_key *key);
/* Opens the file, reads what is fixed about it and gives it an id. Returns the image to use: `im`, which is provisional, from a
 * record, or that of the real file. Borrowed, as that of images_get. */
struct image *images_open(struct images *x, struct image *im, const struct image_hint *hint);
/* One that images_open opened and that was not returned yet, a reference of the caller's own; NULL = no more. Whoever wants
 * its file for names asks after each drain. */
struct image *images_next_opened(struct images *x);
/* Whether the image, from a record, is a language runtime whose frames can be walked, or by its name may turn out to be one. */
bool images_may_be_runtime(const struct images *x, const struct image *im);
/* Builds what is missing of the unwind table for the address. False: nothing could be done about it now. */
bool images_load_table(struct images *x, struct image *im, uint64_t vaddr);
/* Why the last call of images_load_table() built nothing, as the reason why the stack ends there: END_TABLES_FULL, there was no memory for the table;
 * END_NOT_BUILT, the CPU time for tables was used up (images_set_share); END_NO_TABLE, the image's file was written to after it was mapped, or cannot be read. */
enum stack_end images_why_no_table(const struct images *x, const struct image *im);
/* Builds the table of a language runtime's file before samples need it, the interpreter's own code first: some 16 ms of CPU time for
 * a CPython, once. *calls: how many groups of pages may still be built, some 1 ms each. False: there is more to do. */
bool images_preload(struct images *x, struct image *im, unsigned *calls);
void images_map(struct image *im);
void images_unmap(struct image *im);
/* Closes files that no process maps, drops images not sampled since `before_ns` (monotonic). */
void images_sweep(struct images *x, int64_t before_ns);
size_t images_count(const struct images *x);

#endif
