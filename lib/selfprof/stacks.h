/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of this process, each distinct one once with the sum of its values; they become a profile with names. A frame is as
 * own_unwind.h has it; what ends a stack that is not complete is a mark. */
#ifndef PYRRHA_SELFPROF_STACKS_H
#define PYRRHA_SELFPROF_STACKS_H

#include "base/map.h"
#include "model/profile.h"
#include "selfprof/own_names.h"

#define STACK_VALUES 4
#define STACK_MARK ((uint64_t)0xffff << FRAME_IMAGE_SHIFT) /* | enum stack_end, or one of the following */
#define STACK_LOST (STACK_MARK | 0x100)      /* a tick whose stack is not known */

struct stack_entry {
	uint32_t first, n;           /* in frames */
	int64_t values[STACK_VALUES];
};

struct stacks {
	struct map index;
	VEC(struct stack_entry) v;
	VEC(uint64_t) frames;
};

void stacks_release(struct stacks *s);
/* The number of the stack, which is copied if it is new. */
uint32_t stacks_intern(struct stacks *s, const uint64_t *frames, uint32_t n);
/* False: it is not there. */
bool stacks_find(const struct stacks *s, const uint64_t *frames, uint32_t n, uint32_t *ret);
/* Adds values to the stack. */
void stacks_add(struct stacks *s, const uint64_t *frames, uint32_t n, const int64_t *values, unsigned n_values);

struct stacks_form {
	const char *types[STACK_VALUES][2]; /* type and unit */
	unsigned n_types;
	const char *period[2];
	int64_t period_value, time_ns, duration_ns;
	const char *note;            /* a comment; NULL or "" = none */
	const char *default_type;    /* NULL: none is named */
	const char *drop_frames;     /* an expression; NULL: none */
};
/* Names all and puts it into out, which is initialised and empty. ERR_LIMIT: out's arena is too small. */
int stacks_to_profile(const struct stacks *s, const struct stacks_form *form, const struct own_images *images,
		      struct own_names *names, struct profile *out, struct err *e) MUST_USE;

#endif
