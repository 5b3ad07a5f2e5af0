/* SPDX-License-Identifier: Apache-2.0 */
/* Go's own table of functions, files and lines, which survives stripping. Format: the Go runtime's symtab.go and
 * debug/gosym, Go 1.18 and later (header magics 0xfffffff0 and 0xfffffff1). Read piecewise through the descriptor: the
 * table of a large program has hundreds of megabytes.
 *
 * Inlined calls need the base of go:func.*, which only a symbol table tells; without one the calls of a stripped
 * program stay with the function they were inlined into. */
#ifndef PYRRHA_AGENT_GOPCLNTAB_H
#define PYRRHA_AGENT_GOPCLNTAB_H

#include "agent/elf_file.h"
#include "base/buf.h"

struct gopclntab {
	struct elf_file elf;
	const Elf64_Shdr *table;
	uint64_t text_start, gofunc; /* gofunc 0 = not known */
	uint64_t n_funcs, names, cus, files, pcs, funcs; /* offsets in the table */
	uint8_t quantum;
	bool go120;              /* layout of Go 1.20 and later */
};

/* fd is borrowed for the table's life. ERR_NOT_FOUND: no Go program, or a version that is not known. */
int gopclntab_open(struct gopclntab *t, int fd, struct err *e);
void gopclntab_close(struct gopclntab *t);

struct gopclntab_frame {
	uint32_t name, file;     /* offsets in the buffer that was given to gopclntab_lookup; NUL-terminated */
	int64_t line, start_line; /* 0 = not known */
};
/* The calls at the address, innermost first; at most max, the last is the physical function's. Returns their number. */
size_t gopclntab_lookup(const struct gopclntab *t, uint64_t address, struct buf *text, struct gopclntab_frame *out,
			size_t max);

#endif
