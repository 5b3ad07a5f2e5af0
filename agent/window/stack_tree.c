/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window/stack_tree.h"

void stack_tree_init(struct stack_tree *t)
{
	memset(t, 0, sizeof *t);
	vec_push(&t->nodes, (struct stack_node){ 0 });
}

void stack_tree_release(struct stack_tree *t)
{
	vec_free(&t->nodes);
	map_free(&t->index);
	stack_marks_release(&t->marks);
}

static uint64_t node_hash(uint32_t parent, uint64_t frame)
{
	return hash_bytes_seed(&frame, sizeof frame, parent);
}

uint32_t stack_tree_add(struct stack_tree *t, uint32_t parent, uint64_t frame)
{
	uint64_t hash = node_hash(parent, frame);
	uint32_t id;

	if (!MAP_FIND_OR_ADD(&t->index, hash, id, t->nodes.n, t->nodes.v[id].frame == frame && t->nodes.v[id].parent == parent))
		vec_push(&t->nodes, (struct stack_node){ frame, parent, t->nodes.v[parent].depth + 1 });
	return id;
}

size_t stack_tree_bytes(const struct stack_tree *t)
{
	return t->nodes.cap * sizeof *t->nodes.v + (t->index.slots ? (t->index.mask + 1) * 8 : 0);
}

void stack_sweep_begin(struct stack_sweep *s, const struct stack_tree *t)
{
	s->marked = xcalloc(t->nodes.n, 1);
	s->new_id = xcalloc(t->nodes.n, sizeof *s->new_id);
	s->marked[0] = 1;
}

void stack_sweep_mark(struct stack_sweep *s, const struct stack_tree *t, uint32_t node)
{
	for (; !s->marked[node]; node = t->nodes.v[node].parent)
		s->marked[node] = 1;
}

void stack_sweep_run(struct stack_sweep *s, struct stack_tree *t)
{
	uint32_t n = 0;

	map_clear(&t->index);
	for (uint32_t i = 0; i < t->nodes.n; i++) {
		if (!s->marked[i])
			continue;
		struct stack_node node = t->nodes.v[i];
		node.parent = s->new_id[node.parent];
		s->new_id[i] = n;
		t->nodes.v[n] = node;
		if (n)
			map_insert(&t->index, node_hash(node.parent, node.frame), n);
		n++;
	}
	t->nodes.n = n;
}

void stack_sweep_release(struct stack_sweep *s)
{
	free(s->marked);
	free(s->new_id);
	memset(s, 0, sizeof *s);
}
