/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that reads the debug information of one image after the other (dwarf_index.h, in a helper process), which takes seconds for
 * large ones. Missing files are first requested from the configured servers (debuginfod.h). */
#ifndef PYRRHA_AGENT_DEBUG_READER_H
#define PYRRHA_AGENT_DEBUG_READER_H

#include "agent/image/image.h"
#include "symbols/dwarf_index.h"
#include "symbols/symtab.h"

struct debug_reader;

/* The result for an image: either, both or neither. */
struct debug_found {
	bool has_symbols, has_dwarf;
	struct symtab symbols;       /* more than the file's own */
	struct dwarf_index dwarf;
};

/* Called by the thread when it is done with an image. Takes what was found. token: as in debug_reader_ask. */
typedef void debug_done_fn(void *arg, void *token, const struct debug_found *found);

/* cache_dir, debuginfod_urls: copied; NULL or "" = none. share: of one CPU that reading may take; 0 = any. */
struct debug_reader *debug_reader_new(const char *cache_dir, const char *debuginfod_urls, double share, debug_done_fn *done, void *arg,
				      struct err *e);
/* Ends the thread, after what it reads just now. Waiting images are forgotten: done is not called for them. */
void debug_reader_free(struct debug_reader *r);
/* Any thread; returns at once. True: the image is queued, fd is taken and done will be called; the image must live until then. False:
 * there is nothing to read, or too much waits; fd is the caller's. */
bool debug_reader_ask(struct debug_reader *r, struct image *im, int fd, void *token);

/* The index of an image (fd: its file) that was read before, also by an earlier run. False: there is none, or servers have to be asked
 * for symbols anyway. Any thread. */
bool debug_reader_kept(struct debug_reader *r, const struct image *im, int fd, struct dwarf_index *ret);

/* The results of reading debug information. Partly: what did not fit into memory is left out. */
enum debug_read { DEBUG_READ_DONE, DEBUG_READ_KEPT, DEBUG_READ_PARTLY, DEBUG_READ_ABSENT, DEBUG_READ_FAILED, DEBUG_READS };
extern const char *const debug_read_names[DEBUG_READS];

struct debug_reader_stats {
	uint64_t found, absent, failed; /* answers of servers */
	uint64_t reads[DEBUG_READS];
	uint64_t helper_ns;          /* CPU time of the helpers, so far */
};
struct debug_reader_stats debug_reader_stats(struct debug_reader *r);

#endif
