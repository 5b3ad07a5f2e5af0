/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tells of a process only while nobody changes the process's memory: its mappings, links to mapped files, command line and
 * environment. Those wait for a lock (mmap_lock). A process keeps that for as long as it likes: one thread waits for a page of
 * a file system of its own (FUSE), or somebody does who reads its memory, and another thread wants to map something.
 *
 * So a thread asks that may be left behind (read_jobs.h). Who asks here waits for it, for at most PROC_WAIT_MS. Any thread that must not
 * wait for a process for longer; the drain thread does most of it. */
#ifndef PYRRHA_AGENT_PROC_READER_H
#define PYRRHA_AGENT_PROC_READER_H

#include "base/buf.h"
#include "unwind/proc_maps.h"

/* A healthy process answers within a millisecond, on an overloaded host within some. Waits without an answer have a budget, too: so much at once and
 * per second. Once it is used up, the shorter wait is all. */
#define PROC_WAIT_MS 200
#define PROC_WAIT_SHORT_MS 20
#define PROC_LOST_MS 1000
#define PROC_LOST_MS_PER_S 20
/* So many processes may keep a thread, and of one user's. */
#define PROC_STUCK_MAX 32u
#define PROC_STUCK_USER_MAX 4u

enum proc_answer {
	PROC_READ,
	PROC_ABSENT,                 /* it cannot be opened, as when the process is gone */
	PROC_STUCK                   /* it does not answer, or others of its user do not */
};

/* Calls fn for each executable mapping of /proc/PID/maps, ascending (proc_maps_each). */
enum proc_answer proc_reader_maps(uint32_t pid, proc_maps_fn *fn, void *arg);
/* Adds /proc/PID/FILE to a buffer, at most max bytes. */
enum proc_answer proc_reader_file(uint32_t pid, const char *file, size_t max, struct buf *to);
/* Opens the file that a process maps at [start, end) for reading, by the kernel's own link. Returns -1 if that cannot be. */
int proc_reader_open_mapped(uint32_t pid, uint64_t start, uint64_t end);
/* Times that a thread was left behind. */
uint64_t proc_reader_stuck(void);

#endif
