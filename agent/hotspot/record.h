/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a method, of compiled code or of a stub: all that names of its frames need, without addresses. Words of 32 bits, in
 * the machine's byte order, then strings:
 *
 *	[RECORD_MAGIC | methods | scopes | pcs | lines]
 *	methods:  name, system name, file (each: where in the strings, bytes) | start line | bytes of bytecode
 *	scopes:   scope of the caller + 1, or 0 | method | line. A caller's scope has a lower number.
 *	pcs:      pc | scope + 1, or 0. A pc up to this one, and above the one before, is in that scope.
 *	lines:    bytecode index | line. From this index on, up to the next one.
 *
 * Method 0 is the one that was compiled or interpreted, or names the stub. Compiled code has scopes and pcs, a method that is
 * interpreted has lines. */
#ifndef PYRRHA_AGENT_HOTSPOT_RECORD_H
#define PYRRHA_AGENT_HOTSPOT_RECORD_H

#include "agent/hotspot/layout.h"
#include "agent/runtime/runtime.h"

#define RECORD_MAGIC 0x31505348u     /* "HSP1" */
#define RECORD_HEAD 5                /* words */
#define RECORD_METHOD 8
#define RECORD_SCOPE 3
#define RECORD_PC 2
#define RECORD_LINE 2
#define HOTSPOT_RECORD_MAX ((size_t)128 << 10) /* bytes */

int hotspot_read_code(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
		      struct err *e) MUST_USE;
/* The same with the layout given; record is empty at first, and has a ceiling. */
int hotspot_read_object(const struct hotspot_layout *l, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
			struct err *e) MUST_USE;
size_t hotspot_frames_at(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max);

#endif
