/* SPDX-License-Identifier: Apache-2.0 */
/* The processes whose container has no name yet, each with its own labels, which were read while it lived. When the name comes, the final
 * labels are made of both; a short program has ended by then. Guarded by the agent's lock. */
#ifndef PYRRHA_AGENT_UNNAMED_H
#define PYRRHA_AGENT_UNNAMED_H

#include "agent/process/process_info.h"
#include "base/vec.h"
#include "model/labels.h"

/* Limit of the memory for these labels. A process beyond it does not wait: its container is called by its short id. */
#define UNNAMED_BYTES_MAX ((size_t)4 << 20)

struct unnamed {
	struct process_info *info;   /* a reference */
	char *path;                  /* of its group */
	struct labels *own;          /* its labels without the group's, with __meta_ ones */
	int64_t since_mono_ms;
	size_t bytes;
};

struct unnamed_list {
	VEC(struct unnamed) v;
	size_t bytes;
	bool left_out;               /* at least one process found no room */
};

void unnamed_release(struct unnamed_list *u);
/* False: there is no room. */
bool unnamed_add(struct unnamed_list *u, struct process_info *p, struct view path, struct labels own);
/* Removes entry i; the last entry moves to its place. */
void unnamed_remove(struct unnamed_list *u, size_t i);

#endif
