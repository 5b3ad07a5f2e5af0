/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups of sampled processes: the parsed path, the container's names once they are known, and the rules' decisions about
 * all processes of a group at once. Guarded by the agent's lock. */
#ifndef PYRRHA_AGENT_GROUPS_H
#define PYRRHA_AGENT_GROUPS_H

#include "agent/labels/agent_config.h"
#include "agent/labels/cgroup.h"
#include "agent/labels/containers.h"
#include "agent/labels/pods.h"

struct meta;

struct sampled_group {
	struct arena arena;
	struct view path;
	struct cgroup_info info;
	struct container_names names;   /* what files say */
	struct arena pod_arena;
	struct pod_container pod;       /* what the API server says; wins over the files */
	int64_t looked_up_mono_ms;
	unsigned retries;
	/* The group is a pod's container whose name is not known yet; the group's labels are not final. */
	bool waits;
	bool gave_up;                /* it has waited for GROUP_NAME_WAIT_MS */
	bool early;                  /* when the group was first sampled, the pods were listed, and this pod had no container ids */
	int64_t met_mono_ms;
	int64_t sampled_mono_ms;        /* when a process of it was sampled last */
	/* The labels that the rules set for all of its processes; false until they were applied. */
	bool decided, dropped;
	struct labels *shared;          /* without __ names; NULL = not decided, or dropped */
	uint64_t filtered;              /* the kernel leaves out the group of this id; 0 = it does not */
};

struct groups_options {
	struct view node;            /* all borrowed */
	struct labels external;
	struct meta *meta;
	struct pods *pods;           /* NULL = not in a cluster */
	struct filter *filter;       /* NULL = none in the kernel */
};

struct sampled_groups;

struct sampled_groups *groups_new(const struct groups_options *o);
void groups_free(struct sampled_groups *gs);
/* The group of that path, made if need be; good until the edition changes. */
struct sampled_group *groups_get(struct sampled_groups *gs, struct view path);
/* A process of the group, sampled in the group of this id, is dropped. If the rules drop all of the group's processes, the kernel need
 * not sample them any more. */
void groups_drop(struct sampled_groups *gs, struct sampled_group *g, uint64_t cgroup_id);
/* Rules to decide by from now on; borrowed. */
void groups_use(struct sampled_groups *gs, const struct agent_config *c);
/* Looks up what was not known, forgets groups that were not sampled for long. True: labels given before may be out of
 * date. */
bool groups_tick(struct sampled_groups *gs, int64_t now_mono_ms);
/* The same for the groups that wait for a name only. The labels of other groups' processes stay valid. */
void groups_tick_waiting(struct sampled_groups *gs, int64_t now_mono_ms);
/* Changes when pointers to groups are no longer good. */
uint32_t groups_edition(const struct sampled_groups *gs);
size_t groups_count(const struct sampled_groups *gs);
/* In no order; decided. */
struct sampled_group *groups_at(struct sampled_groups *gs, size_t i);

/* The labels that its processes have without rules; views into the group, or into the arena. */
void group_add_labels(struct labels_builder *b, struct arena *a, const struct sampled_group *g);
/* The __meta_ labels that its processes share. */
void group_add_meta(struct labels_builder *b, struct arena *a, const struct sampled_group *g, struct view node);

#endif
