/* SPDX-License-Identifier: Apache-2.0 */
/* Records that were taken out of the kernel's rings before the agent came to finish them: it reads the files of new programs first, and
 * rings that nobody empties lose what comes. Bounded: the second half of the room is for records without their pieces of stack. Drain
 * thread only. */
#ifndef PYRRHA_AGENT_KEPT_RECORDS_H
#define PYRRHA_AGENT_KEPT_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/vec.h"
#include "bpf/abi.h"

#define KEPT_BYTES_MAX ((size_t)8 << 20)

struct kept_records {
	VEC(struct sample_head *) v; /* owned; in the order in which they were kept */
	size_t bytes;
};

/* Bytes of a record, its pieces of stack included. */
size_t kept_records_bytes_of(const struct sample_head *h);
/* Whether any record has room beside `used` bytes. */
bool kept_records_have_room(size_t used);
/* Keeps a copy of the record, which is valid until kept_records_clear; `used`: bytes of all such. NULL: it was more of a stack
 * (SAMPLE_MORE), and is left out. There must be room. */
const struct sample_head *kept_records_add(struct kept_records *b, const struct sample_head *h, size_t used);
void kept_records_clear(struct kept_records *b);
/* As clear, and gives back all memory. */
void kept_records_release(struct kept_records *b);

#endif
