/* SPDX-License-Identifier: Apache-2.0 */
/* Where Go's code begins in a stripped program with C code before it, which nothing in the file says: its linker fills the gaps
 * between functions with int3, and where the gaps are the table of functions tells, counted from there. */
#ifndef PYRRHA_AGENT_GO_TEXT_H
#define PYRRHA_AGENT_GO_TEXT_H

#include "agent/gopclntab.h"

/* False: no place fits, or more than one. */
bool go_text_find(const struct gopclntab *t, uint64_t *ret);

#endif
