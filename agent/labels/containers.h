/* SPDX-License-Identifier: Apache-2.0 */
/* Names of containers by id, from the files that runtimes and the kubelet leave on the host: no sockets, no waiting.
 * Those files are written by root, but their contents come from users: everything is bounded. */
#ifndef PYRRHA_AGENT_CONTAINERS_H
#define PYRRHA_AGENT_CONTAINERS_H

#include "agent/labels/cgroup.h"
#include "model/labels.h"

struct container_names {
	struct view container, pod, namespace_, image; /* empty = not known; in the arena */
	struct labels labels;                          /* Docker's own of the container; in the arena */
};

/* What the container that holds a pod's namespaces ("pause") is called. */
#define POD_SANDBOX "POD"

/* root: "" or a prefix for tests. */
void containers_lookup(const char *root, enum cgroup_runtime runtime, struct view id, struct arena *a,
		       struct container_names *ret);

/* The runtime that has files of a container of that id; CGROUP_RUNTIME_NONE if none has. */
enum cgroup_runtime containers_confirm(const char *root, struct view id);

#endif
