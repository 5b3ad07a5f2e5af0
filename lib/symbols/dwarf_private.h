/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a DWARF index, shared by its writer and its reader. */
#ifndef PYRRHA_SYMBOLS_DWARF_PRIVATE_H
#define PYRRHA_SYMBOLS_DWARF_PRIVATE_H

#include "base/attrs.h"

#define DWARF_MAGIC 0x78447950u /* "PyDx" */
#define DWARF_VERSION 1u

struct dwarf_header {
	uint32_t magic, version;
	uint64_t n_rows, n_calls, names_at;
};

struct dwarf_row {
	uint64_t address;
	uint32_t file, line;
};

struct dwarf_call {
	uint64_t lo, hi;
	uint32_t name, start_line, call_file, call_line, depth, widest;
};

_Static_assert(sizeof(struct dwarf_header) == 32 && sizeof(struct dwarf_row) == 16 && sizeof(struct dwarf_call) == 40,
	       "as dwarf_index.h draws it");

#endif
