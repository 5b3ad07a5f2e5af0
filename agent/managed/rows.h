/* SPDX-License-Identifier: Apache-2.0 */
/* The runtimes that the agent knows, and which of them are wanted (--runtimes). */
#ifndef PYRRHA_AGENT_ROWS_H
#define PYRRHA_AGENT_ROWS_H

#include "agent/runtime/runtime.h"

/* The row of a kind; NULL for RUNTIME_NONE and kinds that this agent does not know. */
const struct runtime *runtime_of(enum runtime_kind kind);
/* What a file is as a runtime, returns owned; NULL: none. Drain thread; bounded work. */
struct runtime_file *runtime_recognise(const struct elf_file *f, const char *path);

#endif
