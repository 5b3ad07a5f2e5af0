/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of the parts of a file that tables and names are made of. A build-id is only what a file says of itself: whoever writes a
 * file may put another one's there. Two files are one image only if this is equal as well. So the copies of a library in a hundred
 * containers are read once, and a forged one affects only its own processes. */
#ifndef PYRRHA_AGENT_IMAGE_CONTENT_H
#define PYRRHA_AGENT_IMAGE_CONTENT_H

#include <sys/stat.h>

#include "elf/elf_file.h"

struct image_content {
	uint64_t h[2];               /* a new seed in each run of the agent, so that nobody can prepare a collision */
};

/* The identity of a file's state: as long as it is equal, so is the content. */
struct file_stamp {
	uint64_t dev, ino, size;
	int64_t modified_ns, changed_ns;
};

/* False: fstat does not work on it. */
bool file_stamp_of(int fd, struct file_stamp *ret);
bool file_stamp_eq(const struct file_stamp *a, const struct file_stamp *b);

/* The headers, and all sections except code and data. A file with more than 64 MB of that has its inode instead: it is one image with
 * itself only. False: it changed meanwhile, or cannot be read. */
bool image_content_of(const struct elf_file *f, const struct file_stamp *stamp, struct image_content *ret);

#endif
