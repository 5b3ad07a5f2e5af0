/* SPDX-License-Identifier: Apache-2.0 */
/* File systems that a user's process answers for (FUSE): it may answer when it likes, or never, and whoever reads waits in
 * the kernel. The agent opens no files there, so that nobody can stop it with one. */
#ifndef PYRRHA_AGENT_MOUNTS_H
#define PYRRHA_AGENT_MOUNTS_H

#include "base/view.h"

/* What lines of mountinfo say: whether files of that device may make a reader wait (true as well if no line has it), and
 * whether the way to a path leads through such a file system. */
bool mounts_device_waits(struct view mountinfo, uint64_t dev);
bool mounts_path_waits(struct view mountinfo, const char *path);

/* The same for what a process has mounted; dev 0: only the path counts. pid 0: this one. A process that is gone has
 * nothing that waits. */
bool mounts_wait(uint32_t pid, uint64_t dev, const char *path);

#endif
