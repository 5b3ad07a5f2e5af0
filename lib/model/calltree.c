/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes come parents first, so that a call's parent is made before it, and has a smaller number.
 *
 * A dictionary of a day has millions of nodes, and what making their calls costs is waiting for memory. Most calls have one child, and
 * most nodes go the way that the last one of their call went; so each call remembers its last child, and only children of calls that
 * have several are in an index. What a location adds to the way is kept by location: there are few of them. */
#include "model/calltree.h"

#include <pthread.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/frame.h"

/* The children of a call. */
struct children {
	uint32_t last; /* the one asked for last; 0 = there are none */
	bool many;     /* there are others: all of them are in the index */
};

/* A location as its nodes need it. */
struct step {
	uint32_t name; /* of its only frame + 1; 0: it has several, or was not asked for yet */
	int32_t line;
};

struct calltree {
	pthread_rwlock_t lock; /* of all; held for writing while calls are added */
	struct arena text;     /* names of locations without functions */
	struct call_node *nodes;
	uint32_t n_nodes;      /* room; those beyond are not made */
	VEC(struct call) calls;
	VEC(struct children) children; /* by call */
	VEC(struct view) names;
	struct map call_index, name_index;
	uint64_t seed;         /* of their hashes: names are the targets' to choose */
	VEC(uint32_t) name_of; /* by function: its name + 1, 0 = not asked yet */
	VEC(struct step) steps; /* by location */
};

struct calltree *calltree_new(uint64_t seed)
{
	struct calltree *t = NEW(struct calltree);
	t->seed = seed;
	pthread_rwlock_init(&t->lock, NULL);
	arena_init(&t->text, 0);
	vec_push(&t->calls, (struct call){ 0, 0 });
	vec_push(&t->children, (struct children){ 0, false });
	vec_push(&t->names, VIEW("")); /* the root's: nobody else has it */
	return t;
}

void calltree_free(struct calltree *t)
{
	if (!t)
		return;
	pthread_rwlock_destroy(&t->lock);
	arena_free(&t->text);
	free(t->nodes);
	vec_free(&t->calls);
	vec_free(&t->children);
	vec_free(&t->names);
	vec_free(&t->name_of);
	vec_free(&t->steps);
	map_free(&t->call_index);
	map_free(&t->name_index);
	free(t);
}

static size_t map_bytes(const struct map *m)
{
	return m->slots ? (m->mask + 1) * sizeof *m->slots : 0;
}

size_t calltree_bytes(struct calltree *t)
{
	pthread_rwlock_rdlock(&t->lock);
	size_t n = sizeof *t + t->text.used + t->n_nodes * sizeof *t->nodes + t->calls.cap * sizeof *t->calls.v +
		   t->children.cap * sizeof *t->children.v + t->names.cap * sizeof *t->names.v +
		   t->name_of.cap * sizeof *t->name_of.v + t->steps.cap * sizeof *t->steps.v + map_bytes(&t->call_index) +
		   map_bytes(&t->name_index);
	pthread_rwlock_unlock(&t->lock);
	return n;
}

/* ---- making ---- */

/* v stays as long as the dictionary, or is copied. */
static uint32_t intern_name(struct calltree *t, struct view v, bool copy)
{
	uint64_t h = hash_bytes_seed(v.ptr, v.len, t->seed);
	uint32_t id;
	for (size_t at = map_start(&t->name_index, h); map_probe(&t->name_index, h, &at, &id);)
		if (view_eq(t->names.v[id], v))
			return id;
	id = (uint32_t)t->names.n;
	vec_push(&t->names, copy ? arena_view(&t->text, v) : v);
	map_insert(&t->name_index, h, id);
	return id;
}

static uint32_t name_of_address(struct calltree *t, const struct symbols *s, const struct sym_location *l)
{
	struct buf name = { 0 };
	frame_address_name(s, l, &name);
	uint32_t id = intern_name(t, buf_view(&name), true);
	buf_free(&name);
	return id;
}

static uint32_t name_of_line(struct calltree *t, const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	uint32_t function = i < l->n_lines ? symbols_get_line(s, l, i)->function : 0;
	if (!function--)
		return name_of_address(t, s, l);
	if (function >= t->name_of.n) {
		vec_reserve(&t->name_of, function + 1);
		memset(t->name_of.v + t->name_of.n, 0, (t->name_of.cap - t->name_of.n) * sizeof *t->name_of.v);
		t->name_of.n = t->name_of.cap;
	}
	uint32_t *known = &t->name_of.v[function];
	if (*known)
		return *known - 1;
	struct view name = symbols_get_string(s, symbols_get_function(s, function)->name);
	if (!name.len)
		return name_of_address(t, s, l);
	*known = intern_name(t, name, false) + 1;
	return *known - 1;
}

static uint64_t call_hash(const struct calltree *t, uint32_t parent, uint32_t name)
{
	return hash_u64(((uint64_t)parent << 32 | name) ^ t->seed);
}

static bool find_call(const struct calltree *t, uint32_t parent, uint32_t name, uint32_t *ret)
{
	uint64_t h = call_hash(t, parent, name);
	for (size_t at = map_start(&t->call_index, h); map_probe(&t->call_index, h, &at, ret);)
		if (t->calls.v[*ret].parent == parent && t->calls.v[*ret].name == name)
			return true;
	return false;
}

static uint32_t add_call(struct calltree *t, uint32_t parent, uint32_t name)
{
	uint32_t id = (uint32_t)t->calls.n;
	vec_push(&t->calls, (struct call){ parent, name });
	vec_push(&t->children, (struct children){ 0, false });
	struct children *c = &t->children.v[parent];
	if (c->last && !c->many) {
		map_insert(&t->call_index, call_hash(t, parent, t->calls.v[c->last].name), c->last);
		c->many = true;
	}
	if (c->many)
		map_insert(&t->call_index, call_hash(t, parent, name), id);
	c->last = id;
	return id;
}

static inline uint32_t intern_call(struct calltree *t, uint32_t parent, uint32_t name)
{
	struct children *c = &t->children.v[parent];
	uint32_t id = c->last;
	if (id && t->calls.v[id].name == name)
		return id;
	if (c->many && find_call(t, parent, name, &id))
		return c->last = id;
	return add_call(t, parent, name);
}

static int32_t line_of(const struct symbols *s, const struct sym_location *l)
{
	if (l->n_lines != 1)
		return l->n_lines ? CALL_LINES : 0;
	int64_t line = symbols_get_line(s, l, 0)->line;
	return line > INT32_MIN && line <= INT32_MAX ? (int32_t)line : CALL_LINES;
}

static inline struct step *step_of(struct calltree *t, uint32_t location)
{
	if (UNLIKELY(location >= t->steps.n)) {
		vec_reserve(&t->steps, location + 1);
		memset(t->steps.v + t->steps.n, 0, (t->steps.cap - t->steps.n) * sizeof *t->steps.v);
		t->steps.n = t->steps.cap;
	}
	return &t->steps.v[location];
}

static void make_call(struct calltree *t, const struct symbols *s, const struct sym_node *n, struct call_node *to)
{
	struct step *step = step_of(t, n->location);
	uint32_t call = t->nodes[n->parent].call;
	if (LIKELY(step->name)) {
		*to = (struct call_node){ intern_call(t, call, step->name - 1), step->line };
		return;
	}
	const struct sym_location *l = symbols_get_location(s, n->location);
	uint32_t name = 0, frames = frame_count(l);
	for (uint32_t i = frames; i--;)
		call = intern_call(t, call, name = name_of_line(t, s, l, i));
	*to = (struct call_node){ call, line_of(s, l) };
	if (frames == 1)
		*step = (struct step){ name + 1, to->line };
}

static bool all_made(const struct calltree *t, const uint32_t *nodes, size_t n)
{
	if (n && nodes[n - 1] >= t->n_nodes)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!t->nodes[nodes[i]].call)
			return false;
	return true;
}

static void make_all(struct calltree *t, const struct symbols *s, const uint32_t *nodes, size_t n)
{
	uint32_t room = nodes[n - 1] + 1;
	if (room > t->n_nodes) {
		room = MAX(room, t->n_nodes + t->n_nodes / 2);
		t->nodes = xreallocarray(t->nodes, room, sizeof *t->nodes);
		memset(t->nodes + t->n_nodes, 0, (room - t->n_nodes) * sizeof *t->nodes);
		t->n_nodes = room;
	}
	const struct sym_node *run = NULL;
	for (uint32_t i = 0, first = 0, end = 0; i < n; i++) {
		if (nodes[i] >= end)
			run = symbols_node_run(s, nodes[i], &first, &end);
		if (!t->nodes[nodes[i]].call)
			make_call(t, s, &run[nodes[i] - first], &t->nodes[nodes[i]]);
	}
}

struct calltree_view calltree_begin(struct calltree *t, const struct symbols *s, const uint32_t *nodes, size_t n)
{
	pthread_rwlock_rdlock(&t->lock);
	if (!all_made(t, nodes, n)) {
		pthread_rwlock_unlock(&t->lock);
		pthread_rwlock_wrlock(&t->lock);
		make_all(t, s, nodes, n);
		pthread_rwlock_unlock(&t->lock);
		pthread_rwlock_rdlock(&t->lock); /* nothing is ever taken out in between */
	}
	return (struct calltree_view){ t->nodes, t->calls.v, t->names.v, t->n_nodes, (uint32_t)t->calls.n, (uint32_t)t->names.n };
}

void calltree_end(struct calltree *t)
{
	pthread_rwlock_unlock(&t->lock);
}
