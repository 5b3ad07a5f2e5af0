/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a process executes from according to the kernel, by device and inode. A process cannot forge these, unlike a build-id
 * and, with another mount namespace, a path. */
#ifndef PYRRHA_AGENT_PROC_FILES_H
#define PYRRHA_AGENT_PROC_FILES_H

#include "agent/runtime/proc_reader.h"
#include "base/vec.h"

struct proc_file {
	uint64_t start, end;
	uint64_t dev, ino;           /* as /proc/PID/maps has them: of the file system that was mounted, not always st_dev */
};

struct proc_files {
	VEC(struct proc_file) v;     /* ascending */
};

/* Reads /proc/PID/maps. Release in any case. */
enum proc_answer proc_files_read(struct proc_files *out, uint32_t pid);
/* NULL: no file is executed there. */
const struct proc_file *proc_files_at(const struct proc_files *p, uint64_t addr);
void proc_files_release(struct proc_files *p);

#endif
