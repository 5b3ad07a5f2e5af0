/* SPDX-License-Identifier: Apache-2.0 */
/* Go's own table of functions, files and lines, which survives stripping. Format: the Go runtime's symtab.go and
 * debug/gosym, Go 1.18 and later (header magics 0xfffffff0 and 0xfffffff1). Read piecewise through the descriptor: the
 * table of a large program has hundreds of megabytes.
 *
 * Inlined calls need the base of go:func.*, which the linker's record tells (go_module.h). Without a known layout or a symbol, they
 * stay with the function they were inlined into, without a line. */
#ifndef PYRRHA_AGENT_GOPCLNTAB_H
#define PYRRHA_AGENT_GOPCLNTAB_H

#include "base/buf.h"
#include "elf/elf_file.h"

struct gopclntab {
	struct elf_file elf;
	Elf64_Shdr table;        /* its section, or the rest of the section that contains it */
	uint64_t text_start, gofunc; /* gofunc 0 = not known */
	uint64_t n_funcs, names, cus, files, pcs, funcs; /* offsets in the table */
	uint8_t quantum;
	bool text_known;         /* where the code begins is not a guess */
	bool go120;              /* layout of Go 1.20 and later */
};

/* fd is borrowed for the table's life. ERR_NOT_FOUND: not a Go program, an unknown version, or unknown start of its code. */
int gopclntab_open(struct gopclntab *t, int fd, struct err *e) MUST_USE;
void gopclntab_close(struct gopclntab *t);
/* The same of a file that is open already and is borrowed instead, without inlined calls; no gopclntab_close. */
int gopclntab_attach(struct gopclntab *t, const struct elf_file *f, struct err *e) MUST_USE;
void gopclntab_find_inlined(struct gopclntab *t);

/* The slow part of finding a table. */
struct gopclntab_place {
	uint64_t table, text_start;  /* addresses */
};
struct gopclntab_place gopclntab_place(const struct gopclntab *t);
/* gopclntab_attach of a table that was found there before. */
int gopclntab_attach_at(struct gopclntab *t, const struct elf_file *f, const struct gopclntab_place *place, struct err *e) MUST_USE;

/* One function, by its number in the order of addresses. */
struct gopclntab_func {
	uint64_t start, end;     /* of its code */
	int32_t name;            /* for gopclntab_is_called */
	uint32_t depths;         /* of the stack, by pc: where the table of pairs begins, from t->pcs */
	bool outermost;          /* nothing called it: threads and goroutines begin there */
	bool changes_stacks;     /* it writes to the stack pointer */
};
bool gopclntab_func(const struct gopclntab *t, uint64_t i, struct gopclntab_func *ret);
/* The last function that begins at or below the address. */
bool gopclntab_find(const struct gopclntab *t, uint64_t address, uint64_t *ret);
/* The few instructions that a signal handler returns to. These were not called: the stack has the byte before. */
bool gopclntab_is_signal_return(const struct gopclntab *t, const struct gopclntab_func *f);
bool gopclntab_is_called(const struct gopclntab *t, const struct gopclntab_func *f, const char *name);
/* Bytes of the table. */
bool gopclntab_read(const struct gopclntab *t, uint64_t at, void *out, size_t n);

struct gopclntab_frame {
	uint32_t name, file;     /* offsets in the buffer that was given to gopclntab_lookup; NUL-terminated */
	int64_t line, start_line; /* 0 = not known */
};
/* The calls at the address, innermost first; at most max, the last is the physical function's. Returns their number. */
size_t gopclntab_lookup(const struct gopclntab *t, uint64_t address, struct buf *text, struct gopclntab_frame *out,
			size_t max);

#endif
