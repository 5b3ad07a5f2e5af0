/* SPDX-License-Identifier: Apache-2.0 */
/* Image: a file that some process executes from, or the vDSO. Identity is the build-id where the file has one, else
 * device, inode and path, and what tables and names are made of (image_content.h). The drain thread makes and changes
 * images; what is marked (fixed) below never changes once image_open has run, so others that hold a reference may read
 * it. */
#ifndef PYRRHA_AGENT_IMAGE_H
#define PYRRHA_AGENT_IMAGE_H

#include <stdatomic.h>

#include "agent/image/image_content.h"
#include "agent/runtime/runtime.h"

#define BUILD_ID_MAX 32

struct image_segment {
	uint64_t vaddr, memsz, offset, filesz; /* of the PT_LOAD, as in the file */
	bool exec;
};

#define IMAGE_SEGMENTS_MAX 16

enum image_state {
	IMAGE_UNOPENED,
	IMAGE_ELF,
	IMAGE_NOT_ELF,       /* opened: not an ELF file of this machine (memfd of a JIT, say) */
	IMAGE_UNREADABLE     /* could not be opened, or is not what was mapped */
};

struct image {
	atomic_int refs;
	uint16_t id;                 /* in frames; 0 = none yet */
	enum image_state state;      /* (fixed) once not IMAGE_UNOPENED */
	char *path;                  /* (fixed) as the process sees it; "[vdso]" */
	uint8_t build_id[BUILD_ID_MAX]; /* (fixed) */
	uint8_t build_id_len;
	uint64_t dev, ino;           /* (fixed) 0 where only the build-id is known */
	struct image_segment segments[IMAGE_SEGMENTS_MAX]; /* (fixed) */
	unsigned n_segments;
	struct image_content content; /* (fixed) of an ELF file */
	struct file_stamp stamp;     /* (fixed) of the file that it was first seen as */
	bool is_go, is_static, has_symtab, world_readable; /* (fixed) */
	struct runtime_file *runtime; /* (fixed) what language runtime it is; owned; NULL = none */
	atomic_int fd;               /* the file, while a process maps it and a little longer; -1. Use image_dup_fd. */
	/* Drain thread only: */
	uint64_t key;                /* hash of what records say of it */
	bool twins;                  /* there are other files of which records say the same */
	struct file_stamp fd_stamp;  /* of what fd is */
	int64_t compared_ns;         /* when its content was last compared because its stamp had changed */
	struct image_table *table;
	unsigned mapped;             /* address spaces that map it */
	int64_t unmapped_ns;         /* when the last of them went */
	int64_t sampled_ns;          /* last met in a sample */
	bool preloaded;              /* images_preload() has nothing more to do */
	uint8_t preload_calls;       /* how much it has done */
	bool names_wanted;           /* symbolizer_want() took it */
};

struct image *image_ref(struct image *im);
void image_unref(struct image *im);
/* A descriptor of the caller's own for reading the file, or -1. Any thread. */
int image_dup_fd(struct image *im);
/* No process maps it any more, or the file has changed: it is closed. Drain thread only. */
void image_close_file(struct image *im);
/* The loadable segment that holds the address, page-aligned as it is mapped; false if none does. */
bool image_segment_at(const struct image *im, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_limit,
		      uint64_t *ret_offset);
/* Lower-case hexadecimal; out holds 2 * BUILD_ID_MAX + 1 bytes. */
char *image_build_id_hex(const struct image *im, char *out);

#endif
