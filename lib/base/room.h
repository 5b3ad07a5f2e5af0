/* SPDX-License-Identifier: Apache-2.0 */
/* Large blocks of memory for a moment: malloc maps and unmaps them each time, and to touch memory for the first time costs more than most
 * of what is done with it. A few are kept from one use to the next, and none for long. Any thread. */
#ifndef PYRRHA_BASE_ROOM_H
#define PYRRHA_BASE_ROOM_H

#include <stdbool.h>
#include <stddef.h>

struct room {
	void *v;
	size_t bytes; /* that it has, at least those that were asked for */
};

/* At least so many bytes, of any content. Returns owned; it goes back by room_give. */
struct room room_take(size_t bytes);
/* A zeroed one is nothing. */
void room_give(struct room *r);
/* A room of at least so many bytes with the first `used` of r, which goes back. */
void room_grow(struct room *r, size_t used, size_t bytes);
/* Frees what was not used for a minute; all: everything that is not in use. Called now and then. */
void room_tidy(bool all);
/* Bytes that are kept and not in use. */
size_t room_kept(void);

#endif
