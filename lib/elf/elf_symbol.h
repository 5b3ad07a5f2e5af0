/* SPDX-License-Identifier: Apache-2.0 */
/* A few dynamic symbols of an ELF file by their names, found as the loader finds them: a few reads each, whether the file has it or
 * not. */
#ifndef PYRRHA_ELF_SYMBOL_H
#define PYRRHA_ELF_SYMBOL_H

#include "elf/elf_file.h"

#define ELF_SYMBOL_NAME_MAX 255

/* The symbol that the file itself defines under that name. False: there is none, or the file has neither .gnu.hash nor .hash. */
bool elf_symbol(const struct elf_file *f, const char *name, Elf64_Sym *ret);

#endif
