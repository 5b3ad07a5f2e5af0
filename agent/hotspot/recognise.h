/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are HotSpot, and what the kernel must know of a process that runs one. The room's own header. */
#ifndef PYRRHA_AGENT_HOTSPOT_RECOGNISE_H
#define PYRRHA_AGENT_HOTSPOT_RECOGNISE_H

#include "agent/hotspot/layout.h"
#include "agent/runtime/runtime.h"

/* As struct runtime has them, but recognise does not set `of`. */
struct runtime_file *hotspot_recognise(const struct elf_file *f);
void hotspot_free_file(struct runtime_file *f);
int hotspot_attach(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e) MUST_USE;
/* The symbols that lead to a file's tables; false: it is not HotSpot. */
bool hotspot_symbols(const struct elf_file *f, uint64_t ret[HS_SYMBOLS]);

#endif
