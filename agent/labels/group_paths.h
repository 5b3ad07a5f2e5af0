/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of control groups by the id that a sample has (agent/kernel/cgroup_id.h). A process says its group in /proc/PID/cgroup, but not for long:
 * it ends, on version 1 a zombie says "/", and a container's first process moves there from its parent's group. The id is that of the moment of the
 * sample, and the kernel finds the group's directory by it (open_by_handle_at(2)), which takes CAP_DAC_READ_SEARCH. Not thread-safe. */
#ifndef PYRRHA_AGENT_GROUP_PATHS_H
#define PYRRHA_AGENT_GROUP_PATHS_H

#include <stdint.h>

#include "base/view.h"

struct group_paths;

struct group_paths *group_paths_new(void);
void group_paths_free(struct group_paths *x);
/* The path of the group `id` (0: the sample has none), as /proc/PID/cgroup has it; where no group is found by its id, what process `pid` says now, unless that is known to
 * be another one. Empty: not known. Good until the next call. */
struct view group_paths_get(struct group_paths *x, uint64_t id, uint32_t pid);

#endif
