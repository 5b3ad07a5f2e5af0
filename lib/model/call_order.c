/* SPDX-License-Identifier: Apache-2.0 */
/* New calls come into an order that is there by going through it once, with those open in which something is new on a stack:
 *
 *	order    total  a  c  d          new: b in total, e in a
 *	open     total  a                before c: a is over, so e goes out; then b, whose name is smaller
 *
 * All calls below a new call are new; they are written from lists of children. The first time everything is
 * new. */
#include "model/call_order.h"

#include <stdlib.h>

#include "base/vec.h"
#include "model/calltree.h"

struct open {
	uint32_t at, depth; /* the old place of a call */
	uint32_t next;      /* new child that comes next; 0 = none is left */
};

/* For an existing call by its old place, for a new one by its number. */
struct links {
	uint32_t child;   /* the first of the new children; 0 = none */
	uint32_t sibling; /* of a new call: the next of the new children of its parent */
};

struct todo {
	uint32_t call, parent, depth; /* parent: its new place */
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
	struct links *links;
	VEC(struct open) open;
	VEC(struct todo) todo;
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

/* New calls by name descending, each pushed in front of those of its parent. */
static void list_children(struct update *u)
{
	const struct call_order *o = u->o;
	uint32_t fresh = u->n_calls - o->n;
	uint32_t *begin = xcalloc(o->n_names + 1, sizeof *begin);
	struct { uint32_t call, parent; } *sorted = xmalloc((fresh + 1) * sizeof *sorted);
	for (uint32_t i = o->n; i < u->n_calls; i++)
		begin[u->rank[u->calls[i].name] + 1]++;
	for (uint32_t i = 0; i < o->n_names; i++)
		begin[i + 1] += begin[i];
	for (uint32_t i = o->n; i < u->n_calls; i++) {
		__auto_type to = &sorted[begin[u->rank[u->calls[i].name]]++];
		to->call = i;
		to->parent = u->calls[i].parent;
	}
	for (uint32_t i = fresh; i--;) {
		uint32_t parent = sorted[i].parent, *first = &u->links[parent < o->n ? o->place[parent] : parent].child;
		u->links[sorted[i].call].sibling = *first;
		*first = sorted[i].call;
	}
	free(begin);
	free(sorted);
}

/* ---- the pass ---- */

static void put(struct update *u, uint32_t parent, uint32_t name, uint32_t depth, int32_t line)
{
	u->to[u->n++] = (struct placed_call){ parent, name, depth, line };
}

static void push(struct update *u, uint32_t call, uint32_t parent, uint32_t depth)
{
	if (!call)
		return;
	__builtin_prefetch(&u->calls[call]);
	__builtin_prefetch(&u->links[call]);
	vec_push(&u->todo, (struct todo){ call, parent, depth });
}

/* A new call and all below it. parent: its new place. Returns the next of the new children of that. */
static uint32_t put_new(struct update *u, uint32_t top, uint32_t parent)
{
	push(u, top, parent, u->to[parent].depth + 1);
	while (u->todo.n) {
		struct todo x = u->todo.v[--u->todo.n];
		u->o->place[x.call] = u->n;
		if (x.call != top)
			push(u, u->links[x.call].sibling, x.parent, x.depth);
		push(u, u->links[x.call].child, u->n, x.depth + 1);
		put(u, x.parent, u->calls[x.call].name, x.depth, u->calls[x.call].line);
	}
	return u->links[top].sibling;
}

/* The new children of the innermost that is open, those before that name. */
static void put_children(struct update *u, uint32_t before)
{
	struct open *x = &u->open.v[u->open.n - 1];
	while (x->next && u->rank[u->calls[x->next].name] < before)
		x->next = put_new(u, x->next, u->moved[x->at]);
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
		if (u->links[at].child)
			vec_push(&u->open, (struct open){ at, old[at].depth, u->links[at].child });
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
			    .links = xcalloc(n_calls, sizeof *u.links),
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
	free(u.links);
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
