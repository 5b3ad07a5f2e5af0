/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other processes are opened in three ways; the first that works is used. These are the kernel's own link for a mapping
 * (/proc/PID/map_files, the same file even when it is deleted), its path below the process's root, and its path below ours. The latter
 * two resolve hostile names, which the kernel gave without links: no links, nothing above the root, no waiting on a FIFO. None leads
 * into a file system that a process answers for (mounts.h). And the file must have the build-id (or the inode) that the kernel saw
 * being mapped. */
#ifndef PYRRHA_AGENT_IMAGE_FILES_H
#define PYRRHA_AGENT_IMAGE_FILES_H

#include "agent/image/image.h"
#include "elf/elf_file.h"

struct image_key {
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;        /* 0: dev, ino and path identify */
	uint64_t dev, ino;
	struct view path;
};

/* The address where a process has it mapped: a way to its file. */
struct image_hint {
	uint32_t pid;
	uint64_t start, end;
	uint64_t dev, ino;           /* as proc_files.h has them; ino 0 = not known, the process is gone */
};

/* The key of an open file: its build-id, else device and inode. path is borrowed. */
void image_key_of_fd(int fd, struct view path, struct image_key *ret);
/* Ways to what a process maps at [start, end) as path. */
enum image_way { WAY_MAP_FILES, WAY_ITS_ROOT, WAY_OUR_ROOT, WAYS };
/* -1 if that way does not lead anywhere. WAY_MAP_FILES is exactly the file that is mapped there now. */
int image_open_file(const char *path, const struct image_hint *hint, enum image_way way);
/* The descriptor of the image's file and, in *f, what it is (*is_elf; else f is not open); -1 if no way leads there. */
int image_find_file(const struct image *im, const struct image_hint *hint, struct elf_file *f, bool *is_elf);

#endif
