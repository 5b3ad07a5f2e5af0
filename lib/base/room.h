/* SPDX-License-Identifier: Apache-2.0 */
/* Large temporary blocks of memory that are reused. malloc maps and unmaps such blocks each time, and the first touch of memory costs
 * more than most uses of it. A few are kept from one use to the next, and none for long. Any thread. */
#ifndef PYRRHA_BASE_ROOM_H
#define PYRRHA_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

struct room {
	void *v;
	size_t bytes; /* its size, at least the requested one */
};

/* At least this many bytes, with any content. Returns owned; it goes back by room_give. */
struct room room_take(size_t bytes);
/* A zeroed one is nothing. */
void room_give(struct room *r);
/* A larger room with the first `used` bytes of r, which is given back. */
void room_grow(struct room *r, size_t used, size_t bytes);
/* Frees what was not used for a minute; all: everything that is not in use. Called now and then. */
void room_tidy(bool all);
/* Bytes that are kept and not in use. */
size_t room_kept(void);

#endif
