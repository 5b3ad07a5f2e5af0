/* SPDX-License-Identifier: Apache-2.0 */
/* Function symbols of one ELF file, sorted by address, in an unlinked temporary file. In memory is one address for each SYMTAB_BLOCK of them, so a
 * look-up is two reads: of the block, and of the name. It is done once per address (the caller caches).
 *
 *	names, each ended by NUL; then entries[n] {u64 address, u32 size, u32 offset of the name}, ascending, no two at
 *	one address
 *
 * Sources, best first: .symtab; a debug file (debug_file.h) by build-id or debuglink; .gnu_debugdata (an xz-compressed
 * ELF file inside) together with .dynsym. */
#ifndef PYRRHA_SYMBOLS_SYMTAB_H
#define PYRRHA_SYMBOLS_SYMTAB_H

#include "base/buf.h"
#include "base/err.h"

#define SYMTAB_BLOCK 128u

struct symtab {
	int fd;            /* of the index; -1 = no symbols */
	uint32_t n;
	uint64_t entries_at; /* offset of the entries */
	uint64_t *first;   /* owned: the address of the first entry of each block */
};

struct symtab_entry {
	uint64_t address;
	uint32_t size;     /* 0 = up to the next */
	uint32_t name;
};

/* fd: the ELF file, borrowed. path and build_id (hex) serve to find debug files; may be NULL. A file without symbols
 * gives an empty table. */
int symtab_build(struct symtab *t, int fd, const char *path, const char *build_id, struct err *e) MUST_USE;
/* As symtab_build; what .symtab of its debug file has, if that is at hand (-1: it is not), comes after its own. */
int symtab_build_with(struct symtab *t, int fd, int debug_fd, const char *path, const char *build_id, struct err *e) MUST_USE;
void symtab_free(struct symtab *t);
/* Its size on its file system, and in memory. */
uint64_t symtab_bytes(const struct symtab *t);
size_t symtab_memory(const struct symtab *t);
/* The function that holds the address. Appends its name (at most SYMTAB_NAME_MAX bytes). */
#define SYMTAB_NAME_MAX 8192
bool symtab_lookup(const struct symtab *t, uint64_t address, struct buf *name, uint64_t *ret_start);
/* The address of a symbol by name, by a scan; for a few well-known ones. Also finds data symbols. */
bool symtab_find(int elf_fd, const char *name, uint64_t *ret_address);

#endif
