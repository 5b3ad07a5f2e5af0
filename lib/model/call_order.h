/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a tree in the order in which a flame graph shows them: a call, then all calls below it; children by name ascending. So
 * folding walks memory in sequence. Calls are added at the end of a tree, and find their places here in one pass:
 *
 *	number   0 total  1 b  2 c (in b)  3 a          place   0 total  1 a  2 b  3 c
 */
#ifndef PYRRHA_MODEL_CALL_ORDER_H
#define PYRRHA_MODEL_CALL_ORDER_H

#include "base/room.h"
#include "base/view.h"

struct call;

struct placed_call {
	uint32_t parent; /* its place, a smaller one */
	uint32_t name;
	uint32_t depth;  /* of the root 0 */
	int32_t line;    /* as in struct call */
};

/* Zero-initialised is empty. */
struct call_order {
	struct room places, calls_room, names_room;
	uint32_t *place;           /* by number of call */
	struct placed_call *calls; /* by place */
	uint32_t *names;           /* all names, ascending */
	uint32_t n, n_names;
};

/* Takes in the calls from o->n on and the names from o->n_names on; call 0, the root, has name 0. Parents have smaller numbers; siblings
 * differ in their names, and so do names. */
void call_order_update(struct call_order *o, const struct call *calls, uint32_t n_calls, const struct view *names, uint32_t n_names);
void call_order_free(struct call_order *o);
/* Bytes of memory held. */
size_t call_order_bytes(const struct call_order *o);

#endif
