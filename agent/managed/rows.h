/* SPDX-License-Identifier: Apache-2.0 */
/* The runtimes that the agent knows, and which of them are wanted (--runtimes). */
#ifndef PYRRHA_AGENT_ROWS_H
#define PYRRHA_AGENT_ROWS_H

#include "agent/runtime/runtime.h"

/* The row of a kind; NULL for RUNTIME_NONE and kinds that this agent does not know. */
const struct runtime *runtime_of(enum runtime_kind kind);
/* Sets of them: 1 << kind. */
#define RUNTIMES_ALL ((1u << RUNTIME_KINDS) - 1)
/* The set that a list says, as --runtimes has it: "python,v8" are these, "-python" all but that, "all", "none". ERR_BAD_DATA. */
int runtimes_parse(const char *list, unsigned *ret, struct err *e) MUST_USE;
/* What a file is as a runtime, returns owned; NULL: none. One that is not wanted is `off`. Drain thread; bounded work. */
struct runtime_file *runtime_recognise(const struct elf_file *f, const char *path, unsigned wanted);
/* Whether a file has a name that one of these runtimes usually has: it is worth opening before anything else asks for it. */
bool runtime_may_be(const char *path, unsigned wanted);

#endif
