/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the index that symtab.h draws: names go to the file at once, so that only 16 bytes a symbol are in memory until the end. */
#ifndef PYRRHA_SYMBOLS_SYMTAB_WRITER_H
#define PYRRHA_SYMBOLS_SYMTAB_WRITER_H

#include "base/vec.h"
#include "symbols/symtab.h"

#define SYMTAB_SIZE_MAX ((1u << 28) - 1)

struct symtab_row {
	uint64_t address;
	uint32_t size : 28, rank : 4;
	uint32_t name;
};

struct symtab_writer {
	VEC(struct symtab_row) rows;
	struct buf pending;  /* names that are not in the file yet */
	uint64_t written;    /* bytes of names that are */
	int fd;              /* -1 = none yet */
};

void symtab_writer_init(struct symtab_writer *w);
void symtab_writer_release(struct symtab_writer *w);
/* size 0: up to the next. Of several names at one address the one of the lowest rank (below 16) wins, then the first. */
int symtab_writer_add(struct symtab_writer *w, uint64_t address, uint64_t size, unsigned rank, struct view name, struct err *e) MUST_USE;
/* The table; the writer is as after init. None added gives an empty one. */
int symtab_writer_finish(struct symtab_writer *w, struct symtab *ret, struct err *e) MUST_USE;

#endif
