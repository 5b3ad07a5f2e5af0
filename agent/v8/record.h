/* SPDX-License-Identifier: Apache-2.0 */
/* What was read of an object of V8's, in bytes. Numbers are varints, strings a length and bytes:
 *
 *	V8_RECORD_CALLS       n, then n calls, innermost first: name, file, line, start line
 *	V8_RECORD_BYTECODE    name, file, start line, where bytecode begins in `at`, then until the end rows: offset (from the row before),
 *	                      line (from the row before, zigzag)
 *
 * The room's own header. */
#ifndef PYRRHA_AGENT_V8_RECORD_H
#define PYRRHA_AGENT_V8_RECORD_H

#include "base/buf.h"

enum { V8_RECORD_CALLS = 1, V8_RECORD_BYTECODE = 2 };

void v8_record_string(struct buf *b, struct view v);

#endif
