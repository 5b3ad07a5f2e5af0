/* SPDX-License-Identifier: Apache-2.0 */
/* Which process has which mappings, as the sampling program finds it (struct unwind_proc in bpf/abi.h): slots in memory
 * shared with the kernel. A process is in one of the PROC_PROBES slots from its pid on, so a look-up mostly reads one cache line. A
 * preallocated hash map reads four, in three pages, on each sample. One thread writes. */
#ifndef PYRRHA_AGENT_KERNEL_PROCS_H
#define PYRRHA_AGENT_KERNEL_PROCS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/abi.h"

/* Enters the process v->tgid, or changes its entry: a sample being unwound meanwhile sees the old entry, the new one, or
 * none. False: all of its slots are taken. v->set must not have been used before for this process. */
bool kernel_procs_set(struct unwind_proc slots[PROC_SLOTS], const struct unwind_proc *v);
void kernel_procs_remove(struct unwind_proc slots[PROC_SLOTS], uint32_t tgid);

/* Sets or clears a flag of all entries. */
void kernel_procs_flag(struct unwind_proc slots[PROC_SLOTS], uint32_t flag, bool on);

#endif
