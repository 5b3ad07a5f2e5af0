/* SPDX-License-Identifier: Apache-2.0 */
/* Unwinds copied pieces of this process's stacks by the files' .eh_frame, with the same step that the agent's programs in
 * the kernel take (bpf/unwind.h). Rules are read page by page of text as stacks first need them, and kept.
 *
 * Not locked: the caller's lock holds it, and the images with it. */
#ifndef PYRRHA_UNWIND_OWN_UNWIND_H
#define PYRRHA_UNWIND_OWN_UNWIND_H

#include "base/map.h"
#include "unwind/own_images.h"

#define OWN_FRAMES_MAX 512

struct own_rule_row {
	uint32_t pc;                 /* in its page */
	uint32_t code;               /* the rule, in short if it has that form */
};

struct own_rule_page {
	uint64_t key;                /* image << 36 | page */
	uint32_t first, n;           /* in rows */
};

struct own_unwind {
	struct own_images *images;   /* borrowed */
	struct map page_index, rule_index;
	VEC(struct own_rule_page) pages;
	VEC(struct own_rule_row) rows;
	VEC(struct unwind_rule) rules; /* [0]: none */
};

struct own_stack {
	uint64_t ip, sp, fp;
	uint64_t at;                 /* of the first byte; below sp by the red zone, which may hold registers that were just restored */
	const uint8_t *bytes;
	size_t n;
};

/* images is borrowed. */
void own_unwind_init(struct own_unwind *x, struct own_images *images);
/* The frames of a stack, the innermost first, as FRAME_IMAGE_SHIFT has them (image: index in own_images + 1, 0 = code without a file);
 * for callers it is the address before the return address. Returns the enum stack_end. */
int own_unwind(struct own_unwind *x, const struct own_stack *s, uint64_t frames[OWN_FRAMES_MAX], uint32_t *ret_n);

#endif
