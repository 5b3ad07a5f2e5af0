/* SPDX-License-Identifier: Apache-2.0 */
/* Separate files of symbols and debug information, in gdb's places: /usr/lib/debug by build-id; by .gnu_debuglink beside the file, in
 * .debug/ beside it, and below /usr/lib/debug. */
#ifndef PYRRHA_SYMBOLS_DEBUG_FILE_H
#define PYRRHA_SYMBOLS_DEBUG_FILE_H

#include "base/err.h"

/* A descriptor of its own, or -1. build_id is in hexadecimal. */
int debug_file_by_build_id(const char *build_id);
/* For the ELF file behind fd, whose path is `path` (absolute). A file found has the file's build-id or, if it has none, the checksum
 * of the link. */
int debug_file_by_link(int fd, const char *path);

#endif
