/* SPDX-License-Identifier: Apache-2.0 */
/* Names of addresses. The drain thread announces images and processes while they are alive, and must never wait. Profiles ask for
 * names afterwards. */
#ifndef PYRRHA_AGENT_SYMBOLIZE_H
#define PYRRHA_AGENT_SYMBOLIZE_H

#include "agent/names/debug_reader.h"
#include "agent/names/perfmap_helper.h"
#include "agent/window/profile_window.h"

struct symbolizer;

/* Strings are valid until the symbolizer_end that belongs to the symbolizer_begin before it, and not longer than the window of the frame. */
struct sym_frame {
	struct view name;            /* as people read it: demangled */
	struct view system_name;     /* as the linker has it */
	struct view file;            /* empty = not known */
	int64_t line, start_line;    /* 0 = not known */
};

#define SYM_FRAMES_MAX 32

struct symbolizer_options {
	const char *cache_dir;       /* where what was read from DWARF is kept by build-id; NULL or "" = nowhere */
	const char *debuginfod_urls; /* servers to ask for debug information; NULL or "" = none */
	int64_t patience_ms;         /* so long is waited for the symbols of a file after they were first asked for */
	double helper_share;         /* share of one CPU for processes that read debug information; 0 = any */
};
/* Options are copied. */
struct symbolizer *symbolizer_new(const struct symbolizer_options *o, struct err *e);
void symbolizer_free(struct symbolizer *s);
/* An image is open and about to be sampled. Returns at once. */
void symbolizer_image(struct symbolizer *s, struct image *im);
/* Its names will be asked for. Returns at once; false: ask again. */
bool symbolizer_want(struct symbolizer *s, struct image *im);
/* The same of all that a window names, so that they are waited for together and not one after the other. */
void symbolizer_want_all(struct symbolizer *s, const struct profile_window *w);
/* Around a number of symbolizer_resolve and all use of their strings. Any thread, also several at once: what is too much
 * memory is given back when the last of them ends. */
void symbolizer_begin(struct symbolizer *s);
void symbolizer_end(struct symbolizer *s);
/* The calls at an address, innermost inlined first; 0 if there is no name, or none yet. Any thread. */
size_t symbolizer_resolve(struct symbolizer *s, const struct window_frame *f, struct sym_frame out[SYM_FRAMES_MAX]);
/* As symbolizer_resolve, of an address as profiles have it, without its mapping: if just one of the mappings of all
 * programs and the kernel holds it. */
size_t symbolizer_resolve_alone(struct symbolizer *s, uint64_t address, struct sym_frame out[SYM_FRAMES_MAX]);
/* A descriptor of the file with that build-id (hexadecimal) that a process maps now, if everybody may read it; else -1. */
int symbolizer_open_executable(struct symbolizer *s, struct view build_id);
/* The start of the kernel's text (_stext); 0 if not known. Kernel addresses leave the agent as offsets from it. */
uint64_t symbolizer_kernel_start(struct symbolizer *s);

/* CPU time of helper processes, so far. Any thread. */
uint64_t symbolizer_helper_ns(struct symbolizer *s);

struct symbolizer_stats {
	size_t strings_bytes, resolved_bytes, images_bytes, perfmaps_bytes; /* memory */
	size_t images, open_files;
	size_t unread;               /* files whose names were requested and are not there yet */
	uint64_t tables_bytes;       /* of symbols, in temporary files */
	uint64_t forgotten;          /* times that names were given up for their memory */
	uint64_t over_budget;        /* files and addresses that have no name for want of room */
	uint64_t perfmap_reads[PERFMAP_RESULTS];
	uint64_t debuginfod_found, debuginfod_absent, debuginfod_failed;
	uint64_t debug_reads[DEBUG_READS];
};
void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *ret);
/* Once; the symbolizer must outlive the last rendering. */
void symbolizer_register_metrics(struct symbolizer *s);

/* Whether debuginfod_urls could be asked: elfutils' client is installed. Loads it into this process: only for a process that ends soon. */
bool symbolizer_can_ask_servers(void);

#endif
