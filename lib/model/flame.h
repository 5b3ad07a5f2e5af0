/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph: stacks folded into a tree of calls. Siblings with the same name are one node, inlined calls are
 * nodes of their own, a recursive function has a node per level. Totals are exact for integer profiles.
 *
 * Nodes are in preorder, siblings by name ascending; node 0 is the root. Pure: no I/O. */
#ifndef PYRRHA_MODEL_FLAME_H
#define PYRRHA_MODEL_FLAME_H

#include "base/buf.h"
#include "model/stackvec.h"

/* i of an integer profile, d of a scaled one. */
union flame_value {
	int64_t i;
	double d;
};

struct flame_frame {
	struct view name, file, binary; /* borrowed from the symbols */
	int64_t start_line;
};

struct flame_node {
	uint32_t depth; /* 0: the root */
	uint32_t frame;
	int64_t line;   /* the line in the file that all of the node's stacks are at; 0 = several, or unknown */
	union flame_value total, self;
	union flame_value base_total, base_self; /* of a diff: the side that was subtracted */
};

struct flame {
	struct symbols *symbols;    /* reference held */
	bool is_float, has_base;
	struct flame_frame *frames; /* [0] is "total", the root's */
	size_t n_frames;
	struct flame_node *nodes;
	size_t n_nodes;
	size_t hidden;              /* nodes that went into "(other)" */
};

/* Folds v; base, over the same symbols, may be NULL. Where both sides of a node are below min_share of the larger
 * root (0: none is) it goes, with its siblings of that kind, into one node "(other)". ERR_EXECUTION: a total does not
 * fit in 64 bits, or a value is infinite or no number, so all values of a flame are finite. Release with flame_release. */
int flame_fold(struct flame *ret, const struct stackvec *v, const struct stackvec *base, double min_share, struct err *e);
void flame_release(struct flame *f);
/* Lines "root;caller;callee VALUE" of the nodes' own values, integers of the native unit (of a diff the difference);
 * nodes whose value is zero are left out. ERR_EXECUTION: a value does not fit in 64 bits. */
int flame_folded(const struct flame *f, struct buf *out, struct err *e);

#endif
