/* SPDX-License-Identifier: Apache-2.0 */
/* File systems that a user's process answers for (FUSE): it may answer when it likes, or never, and whoever reads waits in
 * the kernel. The agent opens no files there, so that nobody can block it with one. The same holds of an overlay file system on top of
 * one, and of any overlay that an unprivileged user mounted where the host does not see it. */
#ifndef PYRRHA_SYMBOLS_MOUNTS_H
#define PYRRHA_SYMBOLS_MOUNTS_H

#include "base/view.h"

/* Lines of mountinfo, borrowed. */
struct mounts_known {
	struct view its;             /* what the process sees */
	struct view host;            /* what the host's first process sees */
	bool anybodys;               /* its namespace is one where no privilege was needed to mount */
};

/* Whether files of that device may block a reader (true as well if no line has it), and whether a path leads through such a file
 * system. */
bool mounts_device_waits(const struct mounts_known *k, uint64_t dev);
bool mounts_path_waits(const struct mounts_known *k, const char *path);

/* The same for a file that a process has mapped, and for a path without links from a folder (open with O_PATH), the process's root.
 * pid 0: this process. One that is gone has nothing that waits. */
bool mounts_file_waits(uint32_t pid, uint64_t dev);
bool mounts_way_waits(uint32_t pid, int dir, const char *path);

#endif
