/* SPDX-License-Identifier: Apache-2.0 */
/* What the BPF programs leave out before they unwind: control groups (with all groups below), processes, or names of processes. A kind
 * of filter keeps or drops what its entries name; where an entry keeps, what none names is dropped. A sample must pass all three
 * kinds. Filtered samples are counted (pyrrha_agent_filtered_samples_total). Drain thread only, except while the agent starts. */
#ifndef PYRRHA_AGENT_FILTER_H
#define PYRRHA_AGENT_FILTER_H

#include "base/err.h"
#include "bpf/abi.h"

struct filter;
struct sampler;

/* Values of flags: a value names what is kept, and then the rest of its kind is dropped; with a leading "!" it names what is dropped.
 * Groups are named by path, and found again when they are deleted and created again. */
struct filter_list {
	const char *const *v;
	size_t n;
};
struct filter_options {
	struct filter_list cgroups, pids, comms;
};

/* ERR_BAD_DATA: a value that cannot be one. A group that does not exist is not an error: it may come later. */
int filter_new(struct filter **ret, struct sampler *s, const struct filter_options *o, struct err *e) MUST_USE;
void filter_free(struct filter *f);
/* Now and then: finds groups by path that were created since. */
void filter_tick(struct filter *f, int64_t now_ns);

/* Sets the verdict on a group (sample_head.cgroup_id, process_info.cgroup_id). FILTER_NONE takes the entry back. Samples that
 * are on their way still come. ERR_LIMIT: the table is full (FILTER_CGROUPS_MAX); nothing changed. */
int filter_cgroup(struct filter *f, uint64_t cgroup_id, enum filter_verdict v, struct err *e) MUST_USE;
size_t filter_entries(const struct filter *f, enum filter_kind kind);

#endif
