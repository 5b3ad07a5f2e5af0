/* SPDX-License-Identifier: Apache-2.0 */
/* A priority queue: a binary heap of nodes that are embedded in the caller's structs, the least key at the root; children
 * of i are 2i+1 and 2i+2. Zero-initialised is empty. Not thread-safe. */
#ifndef PYRRHA_BASE_HEAP_H
#define PYRRHA_BASE_HEAP_H

#include "base/vec.h"

struct heap_node {
	int64_t key;
	size_t at; /* 1 + place in the heap; 0 = in none */
};

struct heap {
	VEC(struct heap_node *) v;
};

/* Puts the node in, or to its place if it is in this heap already. */
void heap_put(struct heap *h, struct heap_node *n, int64_t key);
/* Does nothing if it is in no heap. */
void heap_remove(struct heap *h, struct heap_node *n);
/* The one with the least key; NULL = the heap is empty. */
static inline struct heap_node *heap_first(const struct heap *h)
{
	return h->v.n ? h->v.v[0] : NULL;
}
static inline void heap_free(struct heap *h)
{
	vec_free(&h->v);
}
/* The struct of a type that contains this node. */
#define heap_entry(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

#endif
