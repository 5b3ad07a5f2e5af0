/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups by number, as the BPF programs see them (bpf/abi.h, CGROUP_HIERARCHY_SHIFT). On pure v2 it is the inode of the
 * group's directory. If the memory controller has its own hierarchy, it is the inode there and the hierarchy's number. */
#ifndef PYRRHA_AGENT_CGROUP_ID_H
#define PYRRHA_AGENT_CGROUP_ID_H

#include "base/err.h"

/* The number of the memory controller's own (v1) hierarchy by /proc/cgroups; 0: it has none. */
unsigned cgroup_memory_hierarchy(void);
/* The id of the group with that path, as in /proc/PID/cgroup ("/system.slice/nginx.service"); a path that begins with
 * the hierarchy's mount point is understood, too. ERR_NOT_FOUND: there is no such group now. */
int cgroup_id_of(const char *path, uint64_t *ret, struct err *e) MUST_USE;
/* Where that hierarchy is mounted: reads the text of /proc/self/mountinfo. False: it is not. */
bool cgroup_mount(const char *mountinfo, bool v1, char *ret, size_t max);

#endif
