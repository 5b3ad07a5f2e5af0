/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a dictionary: its tree of stacks as a flame graph sees it. Sibling nodes whose functions have the same name
 * are one call. Each inlined line of a location is a separate call below its caller's:
 *
 *	nodes                                    calls
 *	main.main (main.go:10) ── f (f.go:3)     main.main ── f ── g
 *	                      └── f (f.go:9)                  (a location f with g inlined makes two)
 *
 * Only names join calls: what else is known of a function is not the same in two binaries, and is not kept here.
 *
 * It is kept with the dictionary (symbols_calls), which it describes, and built as far as needed. A second graph of the same stacks finds
 * its calls by an array read for each column, without hashing names again. Most calls have all their nodes at one line, and most names
 * have all their functions in one file: then folding need not read the nodes. Code that visits many of them uses their placed order
 * (call_order.h). */
#ifndef PYRRHA_MODEL_CALLTREE_H
#define PYRRHA_MODEL_CALLTREE_H

#include "base/view.h"

struct placed_call;
struct symbols;
struct calltree;

#define CALL_LINES INT32_MIN /* of a node: its location has several lines, or its line does not fit: look at the location.
			      * Of a call: its nodes have several lines, or one that does not fit: read the nodes */

struct call_node {
	uint32_t call; /* the innermost call of the node; 0 = not made yet, or the root */
	int32_t line;  /* of the only line of its location; 0 = none; or CALL_LINES */
};

struct call {
	uint32_t parent; /* smaller than its own number; call 0 is the root's */
	uint32_t name;
	int32_t line;    /* that all of its nodes are at, 0 = none; or CALL_LINES */
};

/* What is known about the functions of a name; line `line` of a location has it. */
struct call_name {
	uint32_t location, line;
	bool differs;  /* others of the name are of another file, binary or start line: look at the nodes */
};

/* seed: a secret number, for hashes. */
struct calltree *calltree_new(uint64_t seed);
void calltree_free(struct calltree *t);
/* Bytes of memory held. */
size_t calltree_bytes(struct calltree *t);
/* Estimates the bytes by which calltree_begin with these columns will grow the tree: those of the nodes that the tree lacks. Any thread. */
size_t calltree_missing(struct calltree *t, const struct symbols *s, const uint32_t *columns, size_t n);

/* Data that can be read between calltree_begin and calltree_end; arrays indexed by column (of the requested ones), node, call and
 * name. Names stay as long as the dictionary. */
struct calltree_view {
	const uint32_t *columns;       /* the innermost call + 1 */
	const struct call_node *nodes; /* those on the way to the columns are made */
	const struct call *calls;
	const struct view *names;
	const struct call_name *of_names;
	uint32_t n_calls, n_names;
	const uint32_t *place;         /* by call: its place in: */
	const struct placed_call *placed;
	const uint32_t *by_name;       /* numbers of all names, by the names ascending */
};

/* columns: ascending. Any thread; several may be in it at once. */
struct calltree_view calltree_begin(struct calltree *t, const struct symbols *s, const uint32_t *columns, size_t n);
void calltree_end(struct calltree *t);

#endif
