/* SPDX-License-Identifier: Apache-2.0 */
/* All stacks of the history as one tree: a node is a frame below its caller's node, and a stack is the number of its
 * leaf's node. Parents come before children. Node 0 is the root. Nodes that no window uses are removed at the next compaction. */
#ifndef PYRRHA_AGENT_STACK_TREE_H
#define PYRRHA_AGENT_STACK_TREE_H

#include "agent/window/stack_marks.h"
#include "base/map.h"
#include "base/vec.h"

/* Frames as bpf/abi.h has them; kernel frames and marks (stack_marks.h) besides. */
#define FRAME_IS_KERNEL(f) ((f) >> 48 == 0xffff)

struct stack_node {
	uint64_t frame;
	uint32_t parent;
	uint32_t depth;
};

struct stack_tree {
	VEC(struct stack_node) nodes;
	struct map index;
	struct stack_marks marks;
};

void stack_tree_init(struct stack_tree *t);
void stack_tree_release(struct stack_tree *t);
/* The node of `frame` called from `parent`. */
uint32_t stack_tree_add(struct stack_tree *t, uint32_t parent, uint64_t frame);
size_t stack_tree_bytes(const struct stack_tree *t);

/* Compaction: mark what is in use, then sweep; new_id[old] afterwards says where a marked node is. */
struct stack_sweep {
	uint8_t *marked;
	uint32_t *new_id;
};
void stack_sweep_begin(struct stack_sweep *s, const struct stack_tree *t);
void stack_sweep_mark(struct stack_sweep *s, const struct stack_tree *t, uint32_t node);
void stack_sweep_run(struct stack_sweep *s, struct stack_tree *t);
void stack_sweep_release(struct stack_sweep *s);

#endif
