/* SPDX-License-Identifier: Apache-2.0 */
/* Which language runtimes the processes of this host map just now: for --check, not for the running agent. */
#ifndef PYRRHA_AGENT_HOST_RUNTIMES_H
#define PYRRHA_AGENT_HOST_RUNTIMES_H

#include "agent/runtime/runtime.h"

/* A file that is one. */
struct host_runtime {
	const struct runtime_file *file;
	const char *path;            /* as one of its processes has it */
	unsigned processes;          /* that map it */
};

/* Calls fn for each, in the order in which they were met; what it is given ends with the call. Returns their number. Processes whose
 * mappings or files cannot be read are left out. */
size_t host_runtimes_each(void (*fn)(void *arg, const struct host_runtime *h), void *arg);

#endif
