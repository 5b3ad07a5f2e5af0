/* SPDX-License-Identifier: Apache-2.0 */
/* A folded tree as nodes in preorder, without what is too small to see. */
#include <stdlib.h>

#include "model/flame_internal.h"

struct emit {
	struct fold *f;
	struct flame *out;
	VEC(uint64_t) children; /* frame << 32 | call: a stack of lists, each by name descending: taken from the end */
	double least;           /* below it a call is hidden; 0: none is */
};

#define FEW 24 /* children; most calls have one or two */

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (y > x) - (y < x);
}

/* Frames are in order of their names, and of each there is one child. */
static void sort_children(uint64_t *v, size_t n)
{
	if (n > FEW) {
		qsort(v, n, sizeof *v, descending);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		uint64_t x = v[i];
		size_t k = i;
		for (; k && v[k - 1] < x; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
}

static struct flame_node *add_node(struct emit *x)
{
	struct flame *out = x->out;
	size_t used = out->n_nodes * sizeof *out->nodes;
	if (UNLIKELY(used + sizeof *out->nodes > out->room.bytes)) {
		room_grow(&out->room, used, used * 2);
		out->nodes = out->room.v;
	}
	return &out->nodes[out->n_nodes++];
}

static void put_node(struct emit *x, uint32_t id, uint32_t depth)
{
	const struct fcall *c = &x->f->calls[id];
	const struct fbase b = fold_base(x->f, id);
	*add_node(x) = (struct flame_node){ depth, c->frame, fold_line(x->f, id), c->total, c->self, b.total, b.self, 0 };
}

/* Pushes the children that are shown, in reverse order of names; those that are not are added up in *hidden, the node "(other)". */
static void push_children(struct emit *x, const struct fcall *c, struct flame_node *hidden)
{
	struct fold *f = x->f;
	size_t first = x->children.n;
	for (uint32_t id = c->first_child; id; id = f->calls[id].next_sibling) {
		const struct fcall *k = &f->calls[id];
		const struct fbase b = fold_base(f, id);
		__builtin_prefetch(&f->calls[k->first_child]);
		if (x->least > 0 && !k->kept && fold_magnitude(f, k->total) < x->least && fold_magnitude(f, b.total) < x->least) {
			fold_add(f, &hidden->total, k->total);
			fold_add(f, &hidden->base_total, b.total);
			hidden->cut += k->subtree;
		} else {
			vec_push(&x->children, (uint64_t)k->frame << 32 | id);
		}
	}
	sort_children(x->children.v + first, x->children.n - first);
}

/* The calls that lead to the root, the outermost first. */
static void emit_path(struct emit *x)
{
	VEC(uint32_t) path = { 0 };
	for (uint32_t id = x->f->root; id;) {
		id = x->f->calls[id].parent;
		vec_push(&path, id);
	}
	for (size_t i = path.n; i--;)
		put_node(x, path.v[i], (uint32_t)(path.n - 1 - i));
	vec_free(&path);
}

/* Preorder without recursion: stacks may be thousands of calls deep. */
static void emit_all(struct emit *x)
{
	struct fold *f = x->f;
	VEC(struct { size_t first; }) open = { 0 }; /* per depth: where its siblings begin in children */
	emit_path(x);
	vec_push(&x->children, f->root);
	vec_add(&open);
	while (open.n) {
		uint32_t depth = (uint32_t)(f->out->root + open.n - 1);
		if (x->children.n == open.v[open.n - 1].first) {
			open.n--;
			continue;
		}
		uint32_t id = (uint32_t)x->children.v[--x->children.n];
		put_node(x, id, depth);
		struct flame_node hidden = { .depth = depth + 1, .frame = f->other };
		__auto_type o = vec_add(&open);
		o->first = x->children.n;
		push_children(x, &f->calls[id], &hidden);
		if (hidden.cut) { /* "(other)" sorts before letters; it stands first */
			hidden.self = hidden.total;
			hidden.base_self = hidden.base_total;
			*add_node(x) = hidden;
			f->out->hidden += hidden.cut;
		}
	}
	vec_free(&open);
}

#define TRIMMED 4096 /* nodes; most are left out */

void fold_emit(struct fold *f, const struct flame_ask *ask)
{
	struct emit x = { .f = f, .out = f->out };
	bool trims = fold_trims(f, ask);
	if (trims)
		x.least = ask->min_share * fold_larger(f, f->calls[f->root].total, fold_base(f, f->root).total);
	f->out->room = room_take((trims ? TRIMMED : f->calls[f->root].subtree + f->out->root) * sizeof *f->out->nodes);
	f->out->nodes = f->out->room.v;
	emit_all(&x);
	vec_free(&x.children);
}

/* Frames that neither a node nor a function names go; mostly all of a whole tree are named. */
void fold_drop_frames(struct fold *f)
{
	struct flame *out = f->out;
	uint32_t *as AUTOFREE = xcalloc(f->frames.n, sizeof *as); /* first: used at all; then: the new number */
	as[0] = 1;
	for (size_t i = 0; i < out->n_nodes; i++)
		as[out->nodes[i].frame] = 1;
	for (size_t i = 0; i < out->n_functions; i++)
		as[out->functions[i].frame] = 1;
	for (uint32_t i = 0; i < f->frames.n; i++)
		if (as[i]) {
			as[i] = (uint32_t)out->n_frames;
			f->frames.v[out->n_frames++] = f->frames.v[i];
		}
	bool all = out->n_frames == f->frames.n;
	for (size_t i = 0; i < out->n_nodes && !all; i++)
		out->nodes[i].frame = as[out->nodes[i].frame];
	for (size_t i = 0; i < out->n_functions && !all; i++)
		out->functions[i].frame = as[out->functions[i].frame];
	out->frames = f->frames.v;
}
