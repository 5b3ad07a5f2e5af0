/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is: its labels, read while it is alive. Called on the drain thread for each process that is sampled
 * for the first time (or after an exec, a new name or a new cgroup): answers are cached per cgroup and never wait. */
#ifndef PYRRHA_AGENT_LABELS_H
#define PYRRHA_AGENT_LABELS_H

#include "agent/profile_window.h"
#include "model/labels.h"

struct labeler;

struct labeler_options {
	const char *node;            /* NULL = the host's name */
	struct labels external;      /* borrowed */
};

struct labeler *labeler_new(const struct labeler_options *o, struct err *e);
void labeler_free(struct labeler *l);
/* Sets p->labels (owned by p: labels_dup). Kernel threads and processes that are gone get what is still known. */
void labeler_process(struct labeler *l, struct process_info *p);

#endif
