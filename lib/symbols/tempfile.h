/* SPDX-License-Identifier: Apache-2.0 */
/* Files without a name, for what would be too much memory: symbol indexes, copies of perf-maps, debug information. */
#ifndef PYRRHA_SYMBOLS_TEMPFILE_H
#define PYRRHA_SYMBOLS_TEMPFILE_H

#include "base/err.h"

/* A descriptor of an empty file in $TMPDIR or /tmp, deleted when it is closed; in memory if neither has room. `what` names the latter
 * in /proc. */
int tempfile_open(const char *what, struct err *e) MUST_USE;
/* All n bytes at the descriptor's position; false if that is not possible (errno). */
bool tempfile_write(int fd, const void *p, size_t n);

#endif
