/* SPDX-License-Identifier: Apache-2.0 */
/* Files, lines and inlined calls of one ELF file, from its DWARF, as a table of its own. Reading DWARF takes memory and trusts complex
 * input. So it happens in a helper, a separate process with limits on memory and time, that gets a descriptor and leaves a file. The
 * file is kept by build-id and read piecewise.
 *
 *	header   {u32 magic, u32 version, u64 n_rows, u64 n_calls, u64 names_at}
 *	rows[]   {u64 address, u32 file, u32 line}, ascending: the line from this address on; line 0 = none
 *	calls[]  {u64 lo, u64 hi, u32 name, u32 start_line, u32 call_file, u32 call_line, u32 depth, u32 widest}, ascending
 *	         by lo, then depth: [lo, hi) belongs to this inlined call; widest is the largest hi - lo up to here >> 4, so
 *	         that a search knows where to stop
 *	names    NUL-terminated strings; offsets are from names_at; 0 is "" */
#ifndef PYRRHA_SYMBOLS_DWARF_INDEX_H
#define PYRRHA_SYMBOLS_DWARF_INDEX_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "symbols/child.h"

#define DWARF_INDEX_DEPTH 31

struct dwarf_index {
	int fd;                  /* -1 = none */
	uint64_t n_rows, n_calls, names_at, size;
};

/* Reads DWARF from elf_fd (and its separate debug file below /usr/lib/debug, by build-id) and writes the index to out_fd. alone: no
 * other thread of this process allocates memory, as in the helper; else libdw's memory is estimated, and only one thread at a time may
 * call it. *ret_whole false: not all of it, for want of memory. ERR_NOT_FOUND: no DWARF. */
int dwarf_index_write(int elf_fd, int out_fd, bool alone, bool *ret_whole, struct err *e) MUST_USE;
/* Runs dwarf_index_write in a process with limits and waits for it, unless *stop becomes true (NULL = never): then
 * ERR_CANCELED. pace: how much CPU time that may
 * take (child.h); NULL = any. cached: a path to keep the index at (put there whole by rename), or NULL. *ret_partly: debug information that did not
 * fit into the helper's memory is not in it. */
int dwarf_index_make(struct dwarf_index *ret, int elf_fd, const char *cached, const atomic_bool *stop,
		     struct child_pace *pace, bool *ret_partly, struct err *e) MUST_USE;
/* Takes an index that is there; checks its header. */
int dwarf_index_open(struct dwarf_index *ret, int fd, struct err *e) MUST_USE;
void dwarf_index_close(struct dwarf_index *x);

struct dwarf_frame {
	uint32_t name, file;     /* offsets in the buffer given; name of the last frame is empty: the symbol table has it */
	int64_t line, start_line;
};
/* The calls at an address, innermost first, the last is the physical function's; 0 if nothing is known. max >= 1. */
size_t dwarf_index_lookup(const struct dwarf_index *x, uint64_t address, struct buf *text, struct dwarf_frame *out,
			  size_t max);

#endif
