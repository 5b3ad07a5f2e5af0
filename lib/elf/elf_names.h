/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of a string table that is too large to be read whole (those of compilers have tens of megabytes). It is read page by page,
 * and the last few pages are cached. */
#ifndef PYRRHA_ELF_ELF_NAMES_H
#define PYRRHA_ELF_ELF_NAMES_H

#include "elf/elf_file.h"

struct elf_names;

/* Borrows both. */
struct elf_names *elf_names_new(const struct elf_file *f, const Elf64_Shdr *strings);
void elf_names_free(struct elf_names *n);
/* The string at an offset, at most max bytes of it; valid until the next call. NULL ptr: outside of the table, or
 * unreadable. */
struct view elf_names_get(struct elf_names *n, uint64_t offset, size_t max);

#endif
