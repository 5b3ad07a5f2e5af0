/* SPDX-License-Identifier: Apache-2.0 */
/* Debug information from debuginfod servers, with elfutils' own client. It runs in a separate process without capabilities, with
 * limits on time, size and memory, because it reads data from the network. The client is loaded when first needed; nothing else
 * depends on it. */
#ifndef PYRRHA_AGENT_DEBUGINFOD_H
#define PYRRHA_AGENT_DEBUGINFOD_H

#include <stdatomic.h>

#include "base/err.h"

/* The limits for one file. The client gets the first two as settings; the kernel and the agent enforce all. */
struct debuginfod_limits {
	uint64_t bytes;
	int seconds;
	int64_t deadline_ms;         /* then it is killed */
};
extern const struct debuginfod_limits debuginfod_limits; /* 512 MB, 60 s, 90 s */

/* A descriptor of the debug file of a build-id (hexadecimal), in an unlinked file; the caller owns it. urls: separated by blanks.
 * cache_dir: the client's cache is "debuginfod" in it; NULL = none. ERR_NOT_FOUND: no server has it; ERR_UNAVAILABLE: the client is
 * not installed; ERR_TIMEOUT; ERR_CANCELED: *stop became true (stop NULL = never); ERR_BAD_DATA: a
 * server answered with another file; ERR_IO: anything else, as a file that is too large. */
int debuginfod_fetch(const char *urls, const char *cache_dir, const char *build_id, const struct debuginfod_limits *l,
		     const atomic_bool *stop, struct err *e) MUST_USE;
/* Whether the client is installed. Loads it into this process: only for a process that ends soon. */
bool debuginfod_client_here(void);

#endif
