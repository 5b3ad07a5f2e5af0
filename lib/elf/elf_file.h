/* SPDX-License-Identifier: Apache-2.0 */
/* Reading untrusted ELF files: a file of some container, or a library that is being overwritten. Everything is read with pread into
 * bounded buffers (a mapping would kill the agent when the file shrinks) and every offset is checked before use. 64-bit files of this
 * machine's byte order only. */
#ifndef PYRRHA_ELF_ELF_FILE_H
#define PYRRHA_ELF_ELF_FILE_H

#include <elf.h>

#include "base/err.h"
#include "base/view.h"

#define ELF_PHDRS_MAX 256
#define ELF_SECTIONS_MAX 65536
#define ELF_SECTION_BYTES_MAX ((uint64_t)256 << 20)

struct elf_file {
	int fd;                      /* borrowed; -1 = `mem` */
	const uint8_t *mem;          /* borrowed */
	uint64_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr *ph;
	Elf64_Shdr *sh;              /* NULL = stripped of them, or nonsense */
	size_t n_ph, n_sh;
	char *shstr;                 /* names of the sections, NUL-terminated */
	size_t shstr_len;
};

/* From a descriptor of a regular file (borrowed until elf_close), or from memory (the vDSO). */
int elf_open(struct elf_file *f, int fd, struct err *e) MUST_USE;
int elf_open_mem(struct elf_file *f, const void *mem, size_t size, struct err *e) MUST_USE;
void elf_close(struct elf_file *f);
/* Exactly n bytes; false if the file has no such bytes. */
bool elf_read(const struct elf_file *f, uint64_t offset, void *to, size_t n);
/* Like elf_read, but all bytes must be inside one section. */
bool elf_section_read(const struct elf_file *f, const Elf64_Shdr *sh, uint64_t offset, void *to, size_t n);
/* The section of that name, NULL if there is none. */
const Elf64_Shdr *elf_section(const struct elf_file *f, const char *name);
/* Whether the name of a section begins with the prefix. */
bool elf_section_starts(const struct elf_file *f, const Elf64_Shdr *sh, const char *prefix);
/* A section's bytes in a malloc of its own, one NUL behind them. NULL: unreadable, compressed, or over max. */
uint8_t *elf_section_bytes(const struct elf_file *f, const Elf64_Shdr *sh, uint64_t max);
/* The GNU build-id; 0 if there is none. out holds max bytes. */
size_t elf_build_id(const struct elf_file *f, uint8_t *out, size_t max);
/* File offset of a virtual address that a PT_LOAD fills from the file, and how many bytes follow; false if none. */
bool elf_vaddr_offset(const struct elf_file *f, uint64_t vaddr, uint64_t *ret_offset, uint64_t *ret_len);

#endif
