/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the linker's stubs for calls into other files: "malloc@plt". */
#ifndef PYRRHA_SYMBOLS_PLT_H
#define PYRRHA_SYMBOLS_PLT_H

#include "elf/elf_file.h"
#include "symbols/symtab_writer.h"

/* Adds a symbol for each stub whose slot a relocation names; x86-64 only, others have none added. */
int plt_gather(struct symtab_writer *w, const struct elf_file *f, struct err *e) MUST_USE;

#endif
