/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies a process by labels, read while it is alive. Called on the drain thread for each process that is sampled for the first
 * time (or after an exec, a new name or a new cgroup). Answers are cached per cgroup and never wait. */
#ifndef PYRRHA_AGENT_LABELS_H
#define PYRRHA_AGENT_LABELS_H

#include "agent/process/process_info.h"
#include "model/labels.h"

struct labeler;
struct agent_config;
struct pods;
struct filter;
struct sampled_groups;

struct labeler_options {
	const char *node;            /* NULL = the host's name */
	struct labels external;      /* borrowed */
	struct pods *pods;           /* borrowed; NULL = not in a cluster */
	struct filter *filter;       /* borrowed; NULL = none */
	const char *const *env_vars; /* meta.h; borrowed */
	size_t n_env_vars;
	bool show_command_lines;     /* with what is named like a secret */
};

/* How long a pod's container waits for its name after its first sample. The API server has the name about a second after the container's
 * start; a kubelet that starts a hundred pods at once may need several. Windows with samples of a waiting container are offered to scrapers
 * later by as much. */
#define GROUP_NAME_WAIT_MS 20000

struct labeler *labeler_new(const struct labeler_options *o, struct err *e);
void labeler_free(struct labeler *l);
/* Rules to apply from now on; borrowed until the next call. Labels given before are out of date then. */
void labeler_use(struct labeler *l, const struct agent_config *c);
/* Sets p->labels (owned by p: labels_dup), p->dropped, p->waits and p->generation. Kernel threads and processes that are gone get
 * what is still known. A process that waits is referred to until its labels are final. */
void labeler_process(struct labeler *l, struct process_info *p);
/* Changes when labels given before may be out of date: other rules, names of containers that came later. */
uint32_t labeler_generation(const struct labeler *l);
/* To be called now and then by the thread that calls labeler_process. Looks up names of containers that were not known: all, or only those that
 * processes wait for (process_info.h), which changes the labels of no other process. True: some processes that waited have final labels now, in
 * their process_info's `named`. */
bool labeler_tick(struct labeler *l, bool all);
/* Whether a process waits for the name of its container; then labeler_tick should be called several times a second, not for all. */
bool labeler_waits(const struct labeler *l);
/* A process that has its labels was sampled again. */
void labeler_touch(struct labeler *l, const struct process_info *p);
/* The label node. Borrowed. */
const char *labeler_node(const struct labeler *l);
/* Borrowed. */
struct sampled_groups *labeler_groups(struct labeler *l);
/* Processes that rules could not be applied to (their match limit; they keep their labels without rules), or whose rules made more
 * labels than a process may have. */
uint64_t labeler_errors(const struct labeler *l);

#endif
