/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a profile: what each took itself and with all it called. A function is its name; an inlined call
 * counts as a call; a recursive function counts once per stack. Exact for integers. Pure. */
#ifndef PYRRHA_MODEL_FUNCTIONS_H
#define PYRRHA_MODEL_FUNCTIONS_H

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/stackvec.h"

/* Functions by name, of any symbols, numbered in the order they are met; zeroed is empty. Computes self, total and the
 * arrows of a call graph: adds a value to the self of the leaf's function, and to the total of each function once. */
struct functions {
	struct arena arena;
	struct map index;
	VEC(struct view) names;      /* by number; binary+0xoffset where there is no symbol */
	VEC(uint64_t) walked_in;     /* by number: the walk it was last met in */
	uint64_t walk;
	struct buf tmp;
};

/* Calls visit for every frame of a stack from its leaf, inlined calls one by one; first: the function is new in this
 * stack. ERR_LIMIT if there is no memory for names. */
typedef void (*functions_visit)(void *arg, uint32_t number, bool first);
int functions_walk(struct functions *f, const struct symbols *s, uint32_t stack, functions_visit visit, void *arg, struct err *e) MUST_USE;
void functions_release(struct functions *f);

struct function_row {
	struct view name;        /* binary+0xoffset where there is no symbol */
	int64_t self, total;     /* native unit; of floats rounded half away from zero at the end */
};

struct function_table {
	struct functions functions;
	struct function_row *rows; /* in no order */
	size_t n;
	int64_t value;           /* of the whole profile */
};

/* v is of integers (a rate or a scaled profile is rounded first by the caller). ERR_EXECUTION on overflow. */
int function_table_make(struct function_table *ret, const struct stackvec *v, struct err *e) MUST_USE;
void function_table_release(struct function_table *t);

#endif
