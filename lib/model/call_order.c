/* SPDX-License-Identifier: Apache-2.0 */
/* New calls come into an order that is there by going through it once, with those open in which something is new on a stack:
 *
 *	order    total  a  c  d          new: b in total, e in a
 *	open     total  a                before c: a is over, so e goes out; then b, whose name is smaller
 *
 * Of a new call all below it is new; it is written from lists of children. The first time everything is new. */
#include "model/call_order.h"

#include <stdlib.h>

#include "base/vec.h"
#include "model/calltree.h"

struct open {
	uint32_t at, depth; /* the old place of a call */
	uint32_t next;      /* new child that comes next; 0 = none is left */
};

struct update {
	struct call_order *o;
	const struct call *calls;
	uint32_t n_calls;
	struct room order, moves;
	struct placed_call *to; /* the order that is made; the old one is o->calls */
	uint32_t n;             /* of it so far */
	uint32_t *moved;        /* by old place: the new one */
	uint32_t *rank;         /* by name: its place in o->names */
	uint32_t *child;        /* by old place, of new calls by number: the first of the new children; 0 = none */
	uint32_t *sibling;      /* by number - o->n: the next of the new children of its parent */
	VEC(struct open) open;
	VEC(uint32_t) todo;
};

/* ---- names ---- */

static int by_text(const void *a, const void *b, void *arg)
{
	const struct view *names = arg;
	return view_cmp(names[*(const uint32_t *)a], names[*(const uint32_t *)b]);
}

/* Merged from behind, in place. */
static void take_names(struct call_order *o, const struct view *names, uint32_t n_names)
{
	uint32_t n = n_names - o->n_names, old = o->n_names, to = n_names;
	if (!n)
		return;
	uint32_t *fresh = xmalloc(n * sizeof *fresh);
	for (uint32_t i = 0; i < n; i++)
		fresh[i] = old + i;
	qsort_r(fresh, n, sizeof *fresh, by_text, (void *)(uintptr_t)names);
	room_grow(&o->names_room, old * sizeof *o->names, n_names * sizeof *o->names);
	o->names = o->names_room.v;
	while (n)
		if (old && view_cmp(names[o->names[old - 1]], names[fresh[n - 1]]) > 0)
			o->names[--to] = o->names[--old];
		else
			o->names[--to] = fresh[--n];
	o->n_names = n_names;
	free(fresh);
}

/* ---- lists of the new ---- */

static uint32_t *child_of(const struct update *u, uint32_t call)
{
	return &u->child[call < u->o->n ? u->o->place[call] : call];
}

/* New calls by name descending, each pushed in front of those of its parent. */
static void list_children(struct update *u)
{
	uint32_t first = u->o->n, fresh = u->n_calls - first;
	uint32_t *begin = xcalloc(u->o->n_names + 1, sizeof *begin), *sorted = xmalloc((fresh + 1) * sizeof *sorted);
	u->child = xcalloc(u->n_calls + 1, sizeof *u->child);
	u->sibling = xmalloc((fresh + 1) * sizeof *u->sibling);
	for (uint32_t i = 0; i < fresh; i++)
		begin[u->rank[u->calls[first + i].name] + 1]++;
	for (uint32_t i = 0; i < u->o->n_names; i++)
		begin[i + 1] += begin[i];
	for (uint32_t i = 0; i < fresh; i++)
		sorted[begin[u->rank[u->calls[first + i].name]]++] = first + i;
	for (uint32_t i = fresh; i--;) {
		uint32_t *of = child_of(u, u->calls[sorted[i]].parent);
		u->sibling[sorted[i] - first] = *of;
		*of = sorted[i];
	}
	free(begin);
	free(sorted);
}

/* ---- the pass ---- */

static void put(struct update *u, uint32_t parent, uint32_t name, uint32_t depth, int32_t line)
{
	u->to[u->n++] = (struct placed_call){ parent, name, depth, line };
}

/* A new call and all below it. */
static void put_new(struct update *u, uint32_t top)
{
	u->todo.n = 0;
	vec_push(&u->todo, top);
	while (u->todo.n) {
		uint32_t id = u->todo.v[--u->todo.n];
		const struct call *c = &u->calls[id];
		uint32_t place = u->o->place[c->parent], parent = c->parent < u->o->n ? u->moved[place] : place;
		u->o->place[id] = u->n;
		put(u, parent, c->name, u->to[parent].depth + 1, c->line);
		if (id != top && u->sibling[id - u->o->n])
			vec_push(&u->todo, u->sibling[id - u->o->n]);
		if (u->child[id])
			vec_push(&u->todo, u->child[id]);
	}
}

/* The new children of the innermost that is open, those before that name. */
static void put_children(struct update *u, uint32_t before)
{
	struct open *x = &u->open.v[u->open.n - 1];
	while (x->next && u->rank[u->calls[x->next].name] < before) {
		put_new(u, x->next);
		x->next = u->sibling[x->next - u->o->n];
	}
}

static void close_until(struct update *u, uint32_t depth)
{
	while (u->open.n && u->open.v[u->open.n - 1].depth >= depth) {
		put_children(u, UINT32_MAX);
		u->open.n--;
	}
}

static void put_all(struct update *u)
{
	const struct placed_call *old = u->o->calls;
	for (uint32_t at = 0; at < u->o->n; at++) {
		close_until(u, old[at].depth);
		if (u->open.n && u->open.v[u->open.n - 1].at == old[at].parent)
			put_children(u, u->rank[old[at].name]);
		u->moved[at] = u->n;
		put(u, u->moved[old[at].parent], old[at].name, old[at].depth, old[at].line);
		if (u->child[at])
			vec_push(&u->open, (struct open){ at, old[at].depth, u->child[at] });
	}
	close_until(u, 0);
}

static void begin(struct call_order *o, const struct call *root)
{
	o->calls_room = room_take(sizeof *o->calls);
	o->places = room_take(sizeof *o->place);
	o->calls = o->calls_room.v;
	o->place = o->places.v;
	o->calls[0] = (struct placed_call){ 0, root->name, 0, root->line };
	o->place[0] = 0;
	o->n = 1;
}

void call_order_update(struct call_order *o, const struct call *calls, uint32_t n_calls, const struct view *names, uint32_t n_names)
{
	if (o->n >= n_calls)
		return;
	if (!o->n)
		begin(o, calls);
	take_names(o, names, n_names);
	struct update u = { .o = o, .calls = calls, .n_calls = n_calls, .rank = xmalloc((n_names + 1) * sizeof *u.rank),
			    .order = room_take(n_calls * sizeof *u.to), .moves = room_take(o->n * sizeof *u.moved) };
	u.to = u.order.v;
	u.moved = u.moves.v;
	for (uint32_t i = 0; i < n_names; i++)
		u.rank[o->names[i]] = i;
	room_grow(&o->places, o->n * sizeof *o->place, n_calls * sizeof *o->place);
	o->place = o->places.v;
	list_children(&u);
	put_all(&u);
	for (uint32_t i = 0; i < o->n; i++)
		o->place[i] = u.moved[o->place[i]];
	room_give(&o->calls_room);
	o->calls_room = u.order;
	o->calls = u.to;
	o->n = n_calls;
	room_give(&u.moves);
	free(u.rank);
	free(u.child);
	free(u.sibling);
	vec_free(&u.open);
	vec_free(&u.todo);
}

void call_order_free(struct call_order *o)
{
	room_give(&o->places);
	room_give(&o->calls_room);
	room_give(&o->names_room);
	*o = (struct call_order){ 0 };
}

size_t call_order_bytes(const struct call_order *o)
{
	return o->places.bytes + o->calls_room.bytes + o->names_room.bytes;
}
