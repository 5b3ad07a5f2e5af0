/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/maps: what a process can execute, as the kernel tells it. */
#ifndef PYRRHA_UNWIND_PROC_MAPS_H
#define PYRRHA_UNWIND_PROC_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct proc_map {
	uint64_t start, end, file_offset;
	uint64_t dev, ino;           /* of the file system that was mounted, not always st_dev; ino 0: no file */
	const char *path;            /* a file's, as seen from the reader's root, "[vdso]" and similar, or "" */
};

/* *m is the callback's until it returns. */
typedef void proc_maps_fn(void *arg, const struct proc_map *m);

/* Calls fn for each executable mapping, ascending. False: the file cannot be opened, as when the process is gone. */
bool proc_maps_each(uint32_t pid, proc_maps_fn *fn, void *arg);

#endif
