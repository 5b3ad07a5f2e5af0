/* SPDX-License-Identifier: Apache-2.0 */
/* The file head.end: what the newest records of the head log hold, those that head.marks has not seen. It is overwritten in place after
 * each commit and is not synced: it outlives a process that was killed, but perhaps not a power loss. So records that are missing at the end of
 * the log after a kill are known to be missing, although head.marks is only written every few seconds. Owned by hlog.c, which locks. */
#ifndef PYRRHA_TSDB_LOG_END_H
#define PYRRHA_TSDB_LOG_END_H

#include <stdint.h>

#include "base/err.h"

struct log_extents;

/* The open file; .fd = -1: not open yet. */
struct log_end {
	int fd;
};

/* Writes to dir/head.end the extents and facts of records above `above`, and x->seen. More than END_MAX_BYTES of text are not written. The file
 * is made by the first call. ERR_IO, ERR_DENIED: the file cannot be made or written; it may then hold an older text, or a damaged one. */
int log_end_write(struct log_end *f, const char *dir, const struct log_extents *x, uint64_t above, struct err *e) MUST_USE;
/* Reads it; x is empty if the file is missing or damaged. An error: it cannot be read now (permissions, memory, descriptors). */
int log_end_read(const char *dir, struct log_extents *x, struct err *e) MUST_USE;
void log_end_close(struct log_end *f);

#endif
