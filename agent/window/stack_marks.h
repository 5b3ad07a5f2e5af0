/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: the outermost frame of a stack that is not complete, or a frame that stands for stacks that were lost. It says why. As a word of
 * the stack tree a mark is FRAME_OF_MARK(number). The number is an enum stack_end, END_CODES_ + enum lost_reason, or one that
 * stack_marks_in gave. Guarded by the agent's lock. */
#ifndef PYRRHA_AGENT_STACK_MARKS_H
#define PYRRHA_AGENT_STACK_MARKS_H

#include "agent/process/code_regions.h"
#include "bpf/abi.h"

#define FRAME_IS_MARK(f) ((f) >> 48 == 0xfffe)
#define FRAME_OF_MARK(code) (0xfffeull << 48 | (uint64_t)(code))

/* FRAMES: in the middle of a stack, where a language runtime has some that cannot be followed. */
enum lost_reason { LOST_RING, LOST_TICKS, LOST_PAUSE, LOST_FRAMES };

/* Texts of marks that name a region of code; NULL = not needed yet. Owned. */
struct stack_marks {
	char *in[REGIONS_MAX][END_CODES_];
};

void stack_marks_release(struct stack_marks *m);
/* The word of the mark for a stack that ends with `end` in code of region `id` (below REGIONS_MAX), which is called `name`. */
uint64_t stack_marks_in(struct stack_marks *m, enum stack_end end, uint8_t id, const char *name);
/* What a mark says. Valid as long as m. */
const char *stack_marks_text(const struct stack_marks *m, uint64_t frame);

#endif
