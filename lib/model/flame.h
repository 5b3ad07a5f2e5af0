/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph: stacks folded into a tree of calls. Siblings with the same name are one node, inlined calls are
 * nodes of their own, a recursive function has a node per level. Totals are exact for integer profiles.
 *
 * Nodes are in preorder, siblings by name ascending; node 0 is the root. Pure: no I/O. */
#ifndef PYRRHA_MODEL_FLAME_H
#define PYRRHA_MODEL_FLAME_H

#include "base/buf.h"
#include "base/permit.h"
#include "base/room.h"
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
	uint32_t cut;   /* "(other)" for this many nodes that are not here; 0: a call */
};

/* The same of all nodes, an array for each: who writes answers passes over one of them at a time, of half a million nodes. */
struct flame_nodes {
	uint32_t *depth, *frame;
	int64_t *line;
	union flame_value *total, *self;
	union flame_value *base_total, *base_self; /* NULL: no diff */
	uint32_t *cut;                             /* NULL: nothing is hidden */
};

/* What a function costs below the flame's root, whatever of it the nodes show: itself, and with all it calls, a recursive
 * one counted once per stack. */
struct flame_function {
	uint32_t frame;
	union flame_value total, self, base_total, base_self;
};

/* The options of a flame graph. */
struct flame_ask {
	double min_share;         /* nodes smaller than this share of the root go into "(other)"; 0: none does */
	size_t whole;             /* except in a tree with at most this many nodes below its root, not counting the root */
	size_t keep;              /* except on the path to one call of each of this many functions, those with the largest self */
	const struct view *root;  /* names of calls from the outermost on: only what is below the last of them, and these */
	size_t n_root;
	size_t functions;         /* at most this many rows of functions: the largest by self and by total; 0: none */
	/* A search: 1 the frame matches, 0 not, negative: an error. NULL: none. */
	int (*match)(void *arg, const struct flame_frame *frame, struct err *e);
	void *match_arg;
	const struct permit *permit; /* asked for the memory of the tree, and whether to go on; NULL: there is no limit */
};

struct flame {
	struct symbols *symbols;    /* reference held */
	bool is_float, has_base;
	struct flame_frame *frames; /* those that nodes and functions name; [0] is "total", the root's */
	size_t n_frames;
	struct flame_function *functions; /* the largest self first, of equal ones by name */
	size_t n_functions, all_functions; /* the number here, and the number in all */
	union flame_value found, base_found; /* of all stacks below the root with a frame that matches the search */
	size_t n_found;             /* functions that match */
	size_t root;                /* how many names of the path to the root were there */
	struct flame_nodes nodes;
	size_t n_nodes;
	struct room room;           /* of nodes */
	size_t hidden;              /* nodes that went into "(other)" */
};

/* Folds v; base, over the same symbols, may be NULL; so may ask: everything. If both sides of a node are below min_share of the larger
 * side of the root, it is folded, with its siblings of that kind, into one node "(other)", the first child. If the given path to the
 * root does not exist in full, its last existing call is the root. ERR_EXECUTION: a total does not fit in 64 bits,
 * or a value is infinite or no number, so all values of a flame are finite; or what match or the permit returned. Release with
 * flame_release. */
int flame_fold(struct flame *ret, const struct stackvec *v, const struct stackvec *base, const struct flame_ask *ask,
	       struct err *e) MUST_USE;
void flame_release(struct flame *f);
/* Node i; what there is no array of is zero. */
static inline struct flame_node flame_node(const struct flame *f, size_t i)
{
	const struct flame_nodes *n = &f->nodes;
	struct flame_node x = { .depth = n->depth[i], .frame = n->frame[i], .line = n->line[i], .total = n->total[i], .self = n->self[i] };
	if (n->base_total) {
		x.base_total = n->base_total[i];
		x.base_self = n->base_self[i];
	}
	x.cut = n->cut ? n->cut[i] : 0;
	return x;
}
/* Lines "root;caller;callee VALUE" of the nodes' own values, integers of the native unit (of a diff the difference);
 * nodes whose value is zero are left out. ERR_EXECUTION: a value does not fit in 64 bits; or what the permit (may be NULL) returned. */
int flame_folded(const struct flame *f, const struct permit *permit, struct buf *out, struct err *e) MUST_USE;

#endif
