/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

static void place(struct heap *h, size_t i, struct heap_node *n)
{
	h->v.v[i] = n;
	n->at = i + 1;
}

static void sift_up(struct heap *h, size_t i)
{
	struct heap_node *n = h->v.v[i];
	for (; i && h->v.v[(i - 1) / 2]->key > n->key; i = (i - 1) / 2)
		place(h, i, h->v.v[(i - 1) / 2]);
	place(h, i, n);
}

static void sift_down(struct heap *h, size_t i)
{
	struct heap_node *n = h->v.v[i];
	for (size_t child; (child = 2 * i + 1) < h->v.n; i = child) {
		if (child + 1 < h->v.n && h->v.v[child + 1]->key < h->v.v[child]->key)
			child++;
		if (h->v.v[child]->key >= n->key)
			break;
		place(h, i, h->v.v[child]);
	}
	place(h, i, n);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
	if (!n->at)
		return;
	size_t i = n->at - 1;
	struct heap_node *last = h->v.v[--h->v.n];
	n->at = 0;
	if (last == n)
		return;
	place(h, i, last);
	sift_up(h, i);
	sift_down(h, last->at - 1);
}

void heap_put(struct heap *h, struct heap_node *n, int64_t key)
{
	heap_remove(h, n);
	n->key = key;
	vec_push(&h->v, n);
	sift_up(h, h->v.n - 1);
}
