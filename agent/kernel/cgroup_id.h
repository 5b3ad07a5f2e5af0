/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups by number, as the BPF programs see them (bpf/abi.h, CGROUP_HIERARCHY_SHIFT). On pure v2 it is the inode of the
 * group's directory. If the memory controller has its own hierarchy, it is the inode there and the hierarchy's number. */
#ifndef PYRRHA_AGENT_CGROUP_ID_H
#define PYRRHA_AGENT_CGROUP_ID_H

#include "base/err.h"
#include "base/view.h"

/* The number of the memory controller's own (v1) hierarchy by /proc/cgroups; 0: it has none. */
unsigned cgroup_memory_hierarchy(void);
/* The id of the group with that path, as in /proc/PID/cgroup ("/system.slice/nginx.service"); a path that begins with
 * the hierarchy's mount point is understood, too. ERR_NOT_FOUND: there is no such group now. */
int cgroup_id_of(const char *path, uint64_t *ret, struct err *e) MUST_USE;
/* That hierarchy, for who asks often. */
struct cgroup_tree {
	unsigned hierarchy;
	int fd;                      /* of its mount point; -1 = it is not mounted here */
	char mount[512];
};
void cgroup_tree_open(struct cgroup_tree *ret);
void cgroup_tree_close(struct cgroup_tree *t);
/* The path of the group `id`, as /proc/PID/cgroup has it. False: there is no such group any more, the kernel or the rights of this process do not
 * allow to ask, or the path takes more than max bytes. */
bool cgroup_tree_path(const struct cgroup_tree *t, uint64_t id, char *ret, size_t max);
/* Whether the group at `path` is the one with that id. CGROUP_UNKNOWN: this process cannot see the path, the hierarchy is not mounted here, or
 * id is 0. */
enum cgroup_sameness { CGROUP_UNKNOWN, CGROUP_SAME, CGROUP_OTHER };
enum cgroup_sameness cgroup_tree_is(const struct cgroup_tree *t, struct view path, uint64_t id);
/* Where that hierarchy is mounted: reads the text of /proc/self/mountinfo. False: it is not. */
bool cgroup_mount(const char *mountinfo, bool v1, char *ret, size_t max);

#endif
