/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes come parents first, so that a call's parent is made before it, and has a smaller number.
 *
 * A dictionary of a day has millions of nodes, and what making their calls costs is waiting for memory. Most calls have one child, and
 * most nodes follow the same child as the last one of their call. So each call remembers its last child, and only children of calls
 * with several are in an index. The calls that a location adds to a path are kept by location, because there are few locations. */
#include "model/calltree.h"

#include <stdlib.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/call_order.h"
#include "model/frame.h"

/* The children of a call. */
struct children {
	uint32_t last; /* the last one requested; 0 = there are none */
	bool many;     /* there are others: all of them are in the index */
};

/* A location as its nodes need it. */
struct step {
	uint32_t name; /* of its only frame + 1; 0: it has several, or was not asked for yet */
	int32_t line;
};

struct calltree {
	struct rwlock lock;    /* of all; held for writing while calls are added */
	struct arena text;     /* names of locations without functions */
	struct call_node *nodes;
	uint32_t n_nodes;      /* room; those beyond are not made */
	uint32_t *columns;     /* by column: its call + 1, 0 = not made */
	uint32_t n_columns;    /* room */
	VEC(struct call) calls;
	VEC(struct children) children; /* by call */
	VEC(struct view) names;
	VEC(struct call_name) of_names;
	struct call_order order; /* of all calls, but while some are made */
	struct map call_index, name_index;
	uint64_t seed;         /* of their hashes: names are the targets' to choose */
	VEC(uint32_t) name_of; /* by function: its name + 1, 0 = not asked yet */
	VEC(struct step) steps; /* by location */
};

static void order_calls(struct calltree *t)
{
	call_order_update(&t->order, t->calls.v, (uint32_t)t->calls.n, t->names.v, (uint32_t)t->names.n);
}

struct calltree *calltree_new(uint64_t seed)
{
	struct calltree *t = NEW(struct calltree);
	t->seed = seed;
	rwlock_init(&t->lock, RANK_CALLTREE, "call tree");
	arena_init(&t->text, 0);
	vec_push(&t->calls, (struct call){ 0, 0, 0 });
	vec_push(&t->children, (struct children){ 0, false });
	vec_push(&t->names, VIEW("")); /* the root's: no other node has it */
	vec_push(&t->of_names, (struct call_name){ 0, 0, false });
	order_calls(t);
	return t;
}

void calltree_free(struct calltree *t)
{
	if (!t)
		return;
	rwlock_destroy(&t->lock);
	arena_free(&t->text);
	free(t->nodes);
	free(t->columns);
	vec_free(&t->calls);
	vec_free(&t->children);
	vec_free(&t->names);
	vec_free(&t->of_names);
	vec_free(&t->name_of);
	vec_free(&t->steps);
	call_order_free(&t->order);
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
	rwlock_read(&t->lock);
	size_t n = sizeof *t + t->text.used + t->n_nodes * sizeof *t->nodes + t->n_columns * sizeof *t->columns +
		   t->calls.cap * sizeof *t->calls.v + t->children.cap * sizeof *t->children.v + t->names.cap * sizeof *t->names.v +
		   t->of_names.cap * sizeof *t->of_names.v + t->name_of.cap * sizeof *t->name_of.v + t->steps.cap * sizeof *t->steps.v +
		   map_bytes(&t->call_index) + map_bytes(&t->name_index) + call_order_bytes(&t->order);
	rwlock_unlock(&t->lock);
	return n;
}

#define NODE_BYTES 64 /* of a node and its call, in all tables here and in the order: measured, 60 */

size_t calltree_missing(struct calltree *t, const struct symbols *s, const uint32_t *columns, size_t n)
{
	uint64_t *seen = NULL;
	size_t made = 0;
	uint32_t most = 0, n_nodes = symbols_count(s, SYMBOLS_NODES);
	rwlock_read(&t->lock);
	for (size_t i = 0; i < n; i++) {
		if (columns[i] < t->n_columns && t->columns[columns[i]])
			continue;
		seen = seen ? seen : xcalloc(n_nodes / 64 + 1, sizeof *seen);
		uint32_t node = symbols_get_column(s, columns[i])->node;
		most = MAX(most, node);
		for (; node && node < n_nodes && !(seen[node / 64] >> node % 64 & 1); node = symbols_get_node(s, node)->parent) {
			if (node < t->n_nodes && t->nodes[node].call)
				break;
			seen[node / 64] |= UINT64_C(1) << node % 64;
			made++;
		}
	}
	if (most > t->n_nodes)
		made += (most - t->n_nodes) * sizeof *t->nodes / NODE_BYTES;
	rwlock_unlock(&t->lock);
	free(seen);
	return made * NODE_BYTES;
}

/* ---- making ---- */

/* v stays as long as the dictionary, or is copied. *place is what says what is known of it. */
static uint32_t intern_name(struct calltree *t, struct view v, bool copy, const struct call_name *place)
{
	uint64_t h = hash_bytes_seed(v.ptr, v.len, t->seed);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&t->name_index, h, id, t->names.n, view_eq(t->names.v[id], v)))
		return id;
	vec_push(&t->names, copy ? arena_view(&t->text, v) : v);
	vec_push(&t->of_names, *place);
	return id;
}

static uint32_t name_of_address(struct calltree *t, const struct symbols *s, const struct sym_location *l, const struct call_name *place)
{
	struct buf name = { 0 };
	frame_address_name(s, l, &name);
	uint32_t id = intern_name(t, buf_view(&name), true, place);
	buf_free(&name);
	return id;
}

static uint32_t find_name(struct calltree *t, const struct symbols *s, const struct sym_location *l, const struct call_name *place)
{
	uint32_t function = place->line < l->n_lines ? symbols_get_line(s, l, place->line)->function : 0;
	if (!function--)
		return name_of_address(t, s, l, place);
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
		return name_of_address(t, s, l, place);
	*known = intern_name(t, name, false, place) + 1;
	return *known - 1;
}

/* What a flame graph takes the file and start line from. */
static const struct sym_function *call_function(const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	const struct sym_function *f = frame_function(s, l, i);
	return f && symbols_get_string(s, f->name).len ? f : NULL;
}

static bool same_mapping_file(const struct symbols *s, uint32_t a, uint32_t b)
{
	return a == b || (a && b && symbols_get_mapping(s, a - 1)->file == symbols_get_mapping(s, b - 1)->file);
}

/* Whether a flame graph would say the same of both. */
static bool same_frame(const struct symbols *s, const struct sym_location *l, uint32_t i, const struct sym_location *k, uint32_t j)
{
	const struct sym_function *f = call_function(s, l, i), *g = call_function(s, k, j);
	if (!same_mapping_file(s, l->mapping, k->mapping) && !view_eq(frame_binary(s, l), frame_binary(s, k)))
		return false;
	return f == g || (f && g && f->filename == g->filename && f->start_line == g->start_line);
}

/* The name of line i of a location. */
static uint32_t name_of_line(struct calltree *t, const struct symbols *s, uint32_t location, const struct sym_location *l, uint32_t i)
{
	const struct call_name here = { location, i, false };
	uint32_t name = find_name(t, s, l, &here);
	struct call_name *first = &t->of_names.v[name];
	if (!first->differs && (first->location != location || first->line != i))
		first->differs = !same_frame(s, l, i, symbols_get_location(s, first->location), first->line);
	return name;
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

static uint32_t add_call(struct calltree *t, uint32_t parent, uint32_t name, int32_t line)
{
	uint32_t id = (uint32_t)t->calls.n;
	vec_push(&t->calls, (struct call){ parent, name, line });
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

static inline uint32_t is_at(struct calltree *t, uint32_t call, int32_t line)
{
	if (t->calls.v[call].line != line && t->calls.v[call].line != CALL_LINES) {
		t->calls.v[call].line = CALL_LINES;
		if (call < t->order.n)
			t->order.calls[t->order.place[call]].line = CALL_LINES;
	}
	return call;
}

/* The call whose nodes have that line, as in struct call_node. */
static inline uint32_t intern_call(struct calltree *t, uint32_t parent, uint32_t name, int32_t line)
{
	struct children *c = &t->children.v[parent];
	uint32_t id = c->last;
	if (id && t->calls.v[id].name == name)
		return is_at(t, id, line);
	if (c->many && find_call(t, parent, name, &id))
		return is_at(t, c->last = id, line);
	return add_call(t, parent, name, line);
}

static int32_t line_of(const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	int64_t line = frame_line(s, l, i);
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

static void make_call(struct calltree *t, const struct symbols *s, const struct sym_node *n, struct call_node *to) REQUIRES(t->lock)
{
	struct step *step = step_of(t, n->location);
	uint32_t call = t->nodes[n->parent].call;
	if (LIKELY(step->name)) {
		*to = (struct call_node){ intern_call(t, call, step->name - 1, step->line), step->line };
		return;
	}
	const struct sym_location *l = symbols_get_location(s, n->location);
	uint32_t name = 0, frames = frame_count(l);
	for (uint32_t i = frames; i--;)
		call = intern_call(t, call, name = name_of_line(t, s, n->location, l, i), line_of(s, l, i));
	*to = (struct call_node){ call, frames > 1 ? CALL_LINES : line_of(s, l, 0) };
	if (frames == 1)
		*step = (struct step){ name + 1, to->line };
}

static bool all_made(const struct calltree *t, const uint32_t *columns, size_t n) REQUIRES_SHARED(t->lock)
{
	if (n && columns[n - 1] >= t->n_columns)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!t->columns[columns[i]])
			return false;
	return true;
}

/* Makes room for this many; new entries are zeroed. */
static void make_room(void *array, uint32_t *n, size_t item, uint32_t want)
{
	void **a = array;
	if (want <= *n)
		return;
	want = MAX(want, *n + *n / 2);
	*a = xreallocarray(*a, want, item);
	memset((char *)*a + *n * item, 0, (want - *n) * item);
	*n = want;
}

/* Those on the way to the columns that are not made yet. */
static void find_unmade(const struct calltree *t, const struct symbols *s, const uint32_t *columns, size_t n, uint64_t *todo)
{
	for (size_t i = 0; i < n; i++)
		for (uint32_t node = symbols_get_column(s, columns[i])->node; node && !t->nodes[node].call;) {
			if (todo[node / 64] >> node % 64 & 1)
				break;
			todo[node / 64] |= UINT64_C(1) << node % 64;
			node = symbols_get_node(s, node)->parent;
		}
}

/* Parents before their children. */
static void make_nodes(struct calltree *t, const struct symbols *s, uint32_t most, const uint32_t *columns, size_t n) REQUIRES(t->lock)
{
	uint64_t *todo = xcalloc(most / 64 + 1, sizeof *todo);
	const struct sym_node *run = NULL;
	find_unmade(t, s, columns, n, todo);
	for (uint32_t w = 0, first = 0, end = 0; w <= most / 64; w++)
		for (uint64_t bits = todo[w]; bits; bits &= bits - 1) {
			uint32_t node = w * 64 + (uint32_t)__builtin_ctzll(bits);
			if (node >= end)
				run = symbols_node_run(s, node, &first, &end);
			make_call(t, s, &run[node - first], &t->nodes[node]);
		}
	free(todo);
}

static void make_all(struct calltree *t, const struct symbols *s, const uint32_t *columns, size_t n) REQUIRES(t->lock)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++)
		most = MAX(most, symbols_get_column(s, columns[i])->node);
	make_room(&t->nodes, &t->n_nodes, sizeof *t->nodes, most + 1);
	make_room(&t->columns, &t->n_columns, sizeof *t->columns, columns[n - 1] + 1);
	make_nodes(t, s, most, columns, n);
	for (size_t i = 0; i < n; i++)
		t->columns[columns[i]] = t->nodes[symbols_get_column(s, columns[i])->node].call + 1;
	order_calls(t);
}

struct calltree_view calltree_begin(struct calltree *t, const struct symbols *s, const uint32_t *columns, size_t n)
	LOCKS_UNCHECKED /* it returns with the lock, which callers cannot name */
{
	rwlock_read(&t->lock);
	if (!all_made(t, columns, n)) {
		rwlock_unlock(&t->lock);
		rwlock_write(&t->lock);
		make_all(t, s, columns, n);
		rwlock_unlock(&t->lock);
		rwlock_read(&t->lock); /* nothing is ever taken out in between */
	}
	return (struct calltree_view){ t->columns, t->nodes, t->calls.v, t->names.v, t->of_names.v, (uint32_t)t->calls.n,
				       (uint32_t)t->names.n, t->order.place, t->order.calls, t->order.names };
}

void calltree_end(struct calltree *t) LOCKS_UNCHECKED
{
	rwlock_unlock(&t->lock);
}
