/* SPDX-License-Identifier: Apache-2.0 */
/* The files that this process executes from, for self-profiling: the files are trusted, and reading needs no privilege. An address of
 * a mapped file is turned into the file's own (ELF virtual) address, which means the same after a restart.
 *
 * Not locked: the caller's lock holds it. Images are never freed, and fields marked (fixed) do not change, so other threads may read
 * them without the lock once they have the pointer. */
#ifndef PYRRHA_UNWIND_OWN_IMAGES_H
#define PYRRHA_UNWIND_OWN_IMAGES_H

#include "base/vec.h"
#include "bpf/abi.h"
#include "elf/elf_file.h"

#define OWN_BUILD_ID_MAX 32

struct own_image {
	char *path;                  /* (fixed) "[vdso]" for that */
	bool is_program;             /* (fixed) the main program */
	int fd;                      /* (fixed) of the file; -1: it is gone, or is another one now */
	struct elf_file elf;         /* (fixed) if fd is not -1 */
	uint8_t build_id[OWN_BUILD_ID_MAX]; /* (fixed) */
	uint8_t build_id_len;
	uint64_t dev, ino;
};

struct own_images {
	VEC(struct own_image *) v;
	VEC(struct unwind_map) maps; /* ascending; image: index in v + 1, 0 = code without a file */
	int mem_fd;                  /* /proc/self/mem, -1 = it cannot be had */
	int64_t read_ns;             /* when the mappings were read last, monotonic; 0 = never */
};

/* It, as own_unwind and own_names, stays as long as the process. */
void own_images_init(struct own_images *x);
/* Reads the mappings again; known images stay. */
void own_images_read(struct own_images *x);
/* The mapping that holds the address; NULL if none did when they were read. */
const struct unwind_map *own_images_at(const struct own_images *x, uint64_t address);
/* The loadable segment of a virtual address: its first address, the one behind it, both at pages, and its offset in the
 * file. False: none holds it, or there is no file. */
bool own_image_segment(const struct own_image *im, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_limit, uint64_t *ret_offset);

#endif
