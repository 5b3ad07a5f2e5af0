/* SPDX-License-Identifier: Apache-2.0 */
/* Debug information from debuginfod servers, with elfutils' own client. It runs in a process of its own without
 * capabilities, with limits on time, size and memory, because it talks to the network and reads what that says. The
 * client is loaded when first needed; nothing else depends on it. */
#ifndef PYRRHA_AGENT_DEBUGINFOD_H
#define PYRRHA_AGENT_DEBUGINFOD_H

#include "base/err.h"

#define DEBUGINFOD_BYTES_MAX ((uint64_t)512 << 20)

/* A descriptor of the debug file that belongs to a build-id (hexadecimal), kept in a file without a name; it is the
 * caller's. urls: with blanks between them. cache_dir: the client keeps what it got there, in "debuginfod"; NULL =
 * nowhere. ERR_NOT_FOUND: no server has it; ERR_UNAVAILABLE: the client is not installed; ERR_TIMEOUT. */
int debuginfod_fetch(const char *urls, const char *cache_dir, const char *build_id, struct err *e);

#endif
