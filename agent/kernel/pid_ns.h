/* SPDX-License-Identifier: Apache-2.0 */
/* The pid namespace that this process is in. The kernel numbers processes by the host's; an agent in a namespace of its own (a node that is a
 * container, as kind, k3d and minikube have them) knows only those that are in it, by other numbers. */
#ifndef PYRRHA_AGENT_PID_NS_H
#define PYRRHA_AGENT_PID_NS_H

#include <stdint.h>

#include "base/err.h"

/* The inode number of the agent's pid namespace; 0: it is the host's, or the kernel has no pid namespaces. */
uint32_t pid_ns_inside(void);
/* ERR_DENIED: /proc is that of another namespace, so its numbers are other processes'. */
int pid_ns_check_proc(struct err *e) MUST_USE;

#endif
