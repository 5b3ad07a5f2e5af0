/* SPDX-License-Identifier: Apache-2.0 */
/* The perf-maps of all processes, within a memory budget: the least recently used ones are removed. Not thread-safe. */
#ifndef PYRRHA_AGENT_PERFMAPS_H
#define PYRRHA_AGENT_PERFMAPS_H

#include "agent/process/process_info.h"
#include "base/buf.h"

struct perfmaps;

struct perfmaps *perfmaps_new(void);
void perfmaps_free(struct perfmaps *x);
/* Appends the name of a process's code; false if it has none. May wait for the helper (PERFMAP_DEADLINE_MS). */
bool perfmaps_lookup(struct perfmaps *x, struct process_info *p, uint64_t address, struct buf *name);
/* Memory they take; the counts of reading by perfmap_result. */
size_t perfmaps_bytes(const struct perfmaps *x);
const uint64_t *perfmaps_counts(const struct perfmaps *x);

#endif
