/* SPDX-License-Identifier: Apache-2.0 */
/* A folded tree as nodes in preorder, without what is too small to see. */
#include <stdlib.h>
#include <string.h>

#include "model/flame_internal.h"

int64_t fold_wide_line(const struct fold *f, size_t call)
{
	size_t a = 0, b = f->wide.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (f->wide.v[m].call < call)
			a = m + 1;
		else
			b = m;
	}
	return f->wide.v[a].line;
}

struct emit {
	struct fold *f;
	struct flame *out;
	double least;           /* below it a call is hidden; 0: none is */
	size_t room;            /* nodes that there is room for */
};

/* Of v, after what is at `at`; the room begins at a multiple of eight. NULL if it is not wanted. */
static void *lay_out(char **at, bool wanted, size_t n, size_t item, const void *v, size_t used)
{
	if (!wanted)
		return NULL;
	void *to = *at;
	if (used)
		memcpy(to, v, used * item);
	*at += (n * item + 7) / 8 * 8;
	return to;
}

static size_t node_bytes(const struct emit *x)
{
	size_t values = x->out->has_base ? 4 : 2, words = x->least > 0 ? 3 : 2;
	return sizeof(int64_t) + values * sizeof(union flame_value) + words * sizeof(uint32_t);
}

/* Room for n nodes, those that are there included. */
static void make_room(struct emit *x, size_t n)
{
	struct flame *out = x->out;
	size_t used = out->n_nodes;
	bool base = out->has_base, cuts = x->least > 0;
	struct room room = room_take(n * node_bytes(x) + 3 * 8);
	char *at = room.v;
	struct flame_nodes v = out->nodes;
#define LAY_OUT(column, wanted) v.column = lay_out(&at, wanted, n, sizeof *v.column, out->nodes.column, used)
	LAY_OUT(line, true);
	LAY_OUT(total, true);
	LAY_OUT(self, true);
	LAY_OUT(base_total, base);
	LAY_OUT(base_self, base);
	LAY_OUT(depth, true);
	LAY_OUT(frame, true);
	LAY_OUT(cut, cuts);
#undef LAY_OUT
	room_give(&out->room);
	out->room = room;
	out->nodes = v;
	x->room = n;
}

static void add_node(struct emit *x, const struct flame_node *n)
{
	if (UNLIKELY(x->out->n_nodes == x->room))
		make_room(x, x->room * 2);
	struct flame_nodes *v = &x->out->nodes;
	size_t i = x->out->n_nodes++;
	v->depth[i] = n->depth;
	v->frame[i] = n->frame;
	v->line[i] = n->line;
	v->total[i] = n->total;
	v->self[i] = n->self;
	if (v->base_total) {
		v->base_total[i] = n->base_total;
		v->base_self[i] = n->base_self;
	}
	if (v->cut)
		v->cut[i] = n->cut;
}

static void put_node(struct emit *x, uint32_t id)
{
	const struct fcall *c = &x->f->calls[id];
	const struct fbase b = fold_base(x->f, id);
	x->f->used[c->frame] = true;
	add_node(x, &(struct flame_node){ x->f->depths[id], c->frame, fold_line(x->f, id), c->total, c->self, b.total, b.self, 0 });
}

static inline bool is_hidden(const struct emit *x, uint32_t id)
{
	const struct fcall *c = &x->f->calls[id];
	return !c->kept && fold_magnitude(x->f, c->total) < x->least && fold_magnitude(x->f, fold_base(x->f, id).total) < x->least;
}

/* Children that are not shown are added up in a node "(other)", which stands first: it sorts before letters. */
static void put_hidden(struct emit *x, uint32_t of)
{
	struct fold *f = x->f;
	struct flame_node hidden = { .depth = f->depths[of] + 1, .frame = f->other };
	for (uint32_t id = of + 1, end = of + f->calls[of].subtree; id < end; id += f->calls[id].subtree)
		if (is_hidden(x, id)) {
			fold_add(f, &hidden.total, f->calls[id].total);
			fold_add(f, &hidden.base_total, fold_base(f, id).total);
			hidden.cut += f->calls[id].subtree;
		}
	if (!hidden.cut)
		return;
	hidden.self = hidden.total;
	hidden.base_self = hidden.base_total;
	f->used[f->other] = true;
	add_node(x, &hidden);
	f->out->hidden += hidden.cut;
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
		put_node(x, path.v[i]);
	vec_free(&path);
}

/* The calls from `at` to `end`, none of which is hidden. The caller made room for them. */
static void put_whole(struct emit *x, uint32_t at, uint32_t end)
{
	struct fold *f = x->f;
	const struct fcall *c = f->calls + at;
	size_t done = x->out->n_nodes, n = end - at;
	struct flame_nodes v = x->out->nodes;
	memcpy(v.depth + done, f->depths + at, n * sizeof *v.depth);
	for (size_t i = 0; i < n; i++) {
		v.frame[done + i] = c[i].frame;
		v.line[done + i] = c[i].line;
		v.total[done + i] = c[i].total;
		v.self[done + i] = c[i].self;
		f->used[c[i].frame] = true;
	}
	for (size_t i = 0; f->bases && i < n; i++) {
		v.base_total[done + i] = f->bases[at + i].total;
		v.base_self[done + i] = f->bases[at + i].self;
	}
	for (size_t i = 0; i < f->wide.n; i++)
		if (f->wide.v[i].call >= at && f->wide.v[i].call < end)
			v.line[done + f->wide.v[i].call - at] = f->wide.v[i].line;
	x->out->n_nodes += n;
}

static void emit_all(struct emit *x)
{
	const struct fcall *calls = x->f->calls;
	uint32_t root = x->f->root, end = root + calls[root].subtree;
	emit_path(x);
	if (!(x->least > 0)) {
		put_whole(x, root, end);
		return;
	}
	for (uint32_t at = root; at < end;)
		if (at != root && is_hidden(x, at)) {
			at += calls[at].subtree;
		} else {
			put_node(x, at);
			put_hidden(x, at);
			at++;
		}
}

#define TRIMMED 4096 /* nodes; most are left out */

int fold_emit(struct fold *f, const struct flame_ask *ask, struct err *e)
{
	struct emit x = { .f = f, .out = f->out };
	bool trims = fold_trims(f, ask);
	if (trims)
		x.least = ask->min_share * fold_larger(f, f->calls[f->root].total, fold_base(f, f->root).total);
	size_t n = trims ? TRIMMED : f->calls[f->root].subtree + f->out->root;
	int rc = permit_need(ask->permit, n * node_bytes(&x), e);
	if (!rc)
		rc = permit_go_on(ask->permit, e);
	if (rc)
		return rc;
	make_room(&x, n);
	f->used = xcalloc(f->frames.n, sizeof *f->used);
	emit_all(&x);
	return 0;
}

/* Frames that neither a node nor a function names are removed; in a whole tree nearly all are named. */
void fold_drop_frames(struct fold *f)
{
	struct flame *out = f->out;
	uint32_t *as AUTOFREE = xcalloc(f->frames.n, sizeof *as); /* first: used at all; then: the new number */
	as[0] = 1;
	for (size_t i = 0; i < f->frames.n; i++)
		as[i] |= f->used && f->used[i];
	for (size_t i = 0; i < out->n_functions; i++)
		as[out->functions[i].frame] = 1;
	for (uint32_t i = 0; i < f->frames.n; i++)
		if (as[i]) {
			as[i] = (uint32_t)out->n_frames;
			f->frames.v[out->n_frames++] = f->frames.v[i];
		}
	bool all = out->n_frames == f->frames.n;
	for (size_t i = 0; i < out->n_nodes && !all; i++)
		out->nodes.frame[i] = as[out->nodes.frame[i]];
	for (size_t i = 0; i < out->n_functions && !all; i++)
		out->functions[i].frame = as[out->functions[i].frame];
	out->frames = f->frames.v;
}
