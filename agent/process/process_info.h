/* SPDX-License-Identifier: Apache-2.0 */
/* What profiles say about a sampled process. The drain thread makes one; finished windows keep it for as long as they name it. */
#ifndef PYRRHA_AGENT_PROCESS_INFO_H
#define PYRRHA_AGENT_PROCESS_INFO_H

#include <stdatomic.h>

#include "agent/image/image.h"

struct labels;
struct sampled_group;

/* A sampled process: one process from exec to exec or exit, under one name and in one cgroup. Never changes, but for what is said to be
 * guarded by a lock. */
struct process_info {
	atomic_int refs;
	uint32_t pid;
	char comm[16];               /* of the group leader */
	uint64_t cgroup_id;          /* bpf_get_current_cgroup_id() */
	struct image *exe;           /* NULL = not known (kernel threads) */
	struct image *exe_file;      /* the file that it turned out to be, which may have other names; a reference; NULL = exe */
	char runtime[24];            /* the language runtime that it runs: "cpython3.11"; "" = none */
	bool kernel_thread;
	bool dropped;                /* relabelling wants no samples of it */
	uint32_t generation;         /* of the labels: labeler_generation() when they were made */
	struct sampled_group *group; /* good while the generation is the labeler's; NULL = not known. Drain thread only */
	/* Its container has no name yet: the labels are what they would be without one, and samples of it are kept even if it is dropped by
	 * those. Once its labels are final, it does not wait any more, and windows replace it by another process_info, which has them and is
	 * dropped if rules say so. Guarded by the agent's lock. */
	bool waits;
	struct process_info *named;  /* a reference; NULL = it waits, or never did */
	uint32_t bytes;              /* of memory */
	const struct labels *labels; /* what labels.h found out while it was alive; owned; may be NULL */
};

/* A copy without labels that does not wait. The caller has a reference to it. */
struct process_info *process_info_copy(const struct process_info *p);
/* Its labels are made: from here on it counts in process_info_bytes(). */
void process_info_made(struct process_info *p);
/* Memory of all there are. */
size_t process_info_bytes(void);
struct process_info *process_info_ref(struct process_info *p);
void process_info_unref(struct process_info *p);

#endif
