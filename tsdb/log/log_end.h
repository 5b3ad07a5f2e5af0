/* SPDX-License-Identifier: Apache-2.0 */
/* The file head.end: what the newest records of the head log hold (days, ranges of stamps), as far as head.marks does not say it. head.marks is written
 * every few seconds, head.end after each commit. So after a kill the next start notices every record that is missing at the end of the log. The file is
 * overwritten in place and not synced: a power loss may leave an older text. hlog.c owns it and locks. */
#ifndef PYRRHA_TSDB_LOG_END_H
#define PYRRHA_TSDB_LOG_END_H

#include <stdint.h>

#include "base/err.h"

struct log_extents;

/* The open file; .fd = -1: not open yet. */
struct log_end {
	int fd;
};

/* Writes x->seen, and of x the extents and facts whose last record is above `above`, to dir/head.end. The first call opens the file; it makes it
 * if there is none. A text above 64 KiB is not written, which is no error. ERR_IO, ERR_DENIED: the file could not be opened or written; it may then hold an older text, or a damaged one. */
int log_end_write(struct log_end *f, const char *dir, const struct log_extents *x, uint64_t above, struct err *e) MUST_USE;
/* Reads dir/head.end into x. If the file is missing or damaged, x is empty and there is no error. An error: the file is there and cannot be read now
 * (permissions, memory, descriptors). */
int log_end_read(const char *dir, struct log_extents *x, struct err *e) MUST_USE;
void log_end_close(struct log_end *f);

#endif
