/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a profile: what each took itself and with all it called. A function is its name; an inlined call
 * counts as a call; a recursive function counts once per stack. Exact for integers. Pure. */
#ifndef PYRRHA_MODEL_FUNCTIONS_H
#define PYRRHA_MODEL_FUNCTIONS_H

#include "model/stackvec.h"

struct function_row {
	struct view name;        /* binary+0xoffset where there is no symbol */
	int64_t self, total;     /* native unit; of floats rounded half away from zero at the end */
};

struct function_table {
	struct arena arena;
	struct symbols *symbols; /* reference held: names borrow from it */
	struct function_row *rows; /* in no order */
	size_t n;
	int64_t value;           /* of the whole profile */
};

/* v is of integers (a rate or a scaled profile is rounded first by the caller). ERR_EXECUTION on overflow. */
int function_table_make(struct function_table *ret, const struct stackvec *v, struct err *e);
void function_table_release(struct function_table *t);

#endif
