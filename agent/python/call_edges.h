/* SPDX-License-Identifier: Apache-2.0 */
/* The first and the last instructions of CPython's eval function: there a call has no frame of its own yet, or none any more. The room's own
 * header. */
#ifndef PYRRHA_AGENT_PYTHON_CALL_EDGES_H
#define PYRRHA_AGENT_PYTHON_CALL_EDGES_H

#include "agent/runtime/runtime.h"

/* Finds them in the function's code, which is at virtual address `at`. field: the member of the thread state that leads to the frames. Up to
 * 3.10 that is the innermost frame itself: the beginning up to where it is set, and what comes after where it is set back. In 3.11 and 3.12
 * it is the C frame: the beginning up to where that is whole. Returns how many there are; 0: it cannot be told. */
unsigned call_edges_find(const uint8_t *code, size_t n, uint64_t at, unsigned minor, uint8_t field,
			 struct runtime_range ret[PYTHON_EDGES_MAX]);

#endif
