/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionary: what is new gets an id, what is known has one. The hash indexes are the writer's alone. Strings and label sets are
 * in an arena, whose blocks do not move. */
#include "model/symbols_internal.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/vec.h"
#include "model/calltree.h"

static const uint32_t item_sizes[SYMBOLS_TABLES] = {
	[SYMBOLS_STRINGS] = sizeof(struct view),
	[SYMBOLS_MAPPINGS] = sizeof(struct sym_mapping),
	[SYMBOLS_FUNCTIONS] = sizeof(struct sym_function),
	[SYMBOLS_LINES] = sizeof(struct sym_line),
	[SYMBOLS_LOCATIONS] = sizeof(struct sym_location),
	[SYMBOLS_NODES] = sizeof(struct sym_node),
	[SYMBOLS_STACKS] = sizeof(uint32_t),
	[SYMBOLS_LABEL_SETS] = sizeof(struct label_set),
	[SYMBOLS_COLUMNS] = sizeof(struct sym_column),
};

static void chunked_free(struct chunked *c)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		free(c->blocks[i]);
}

struct symbols *symbols_new(void)
{
	struct symbols *s = NEW(struct symbols);
	s->refs = 1;
	if (getrandom(&s->seed, sizeof s->seed, 0) != sizeof s->seed)
		s->seed = (uintptr_t)s; /* early at boot: better than nothing */
	s->seed2 = hash_u64(s->seed);
	arena_init(&s->text, 0);
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		s->tables[t].item = item_sizes[t];
	s->known_stacks.item = sizeof(struct known_stack);
	s->known_nodes.item = sizeof(struct known_node);
	symbols_string(s, VIEW(""));
	symbols_chunked_add(s, &s->tables[SYMBOLS_NODES]);
	symbols_chunked_add(s, &s->known_nodes);
	s->indexed[SYMBOLS_NODES] = 1; /* the root has no parent */
	symbols_stack(s, NULL, 0);
	symbols_label_set(s, NULL, 0);
	symbols_column(s, 0, 0);
	return s;
}

struct symbols *symbols_ref(struct symbols *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void symbols_unref(struct symbols *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		chunked_free(&s->tables[t]);
	chunked_free(&s->known_stacks);
	chunked_free(&s->known_nodes);
	struct map *maps[] = { &s->strings, &s->mappings, &s->functions, &s->locations, &s->nodes, &s->stacks,
			       &s->label_sets, &s->columns, &s->stack_of };
	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		map_free(maps[i]);
	free(s->places);
	calltree_free(s->calls);
	arena_free(&s->text);
	free(s);
}

size_t symbols_bytes(const struct symbols *s)
{
	const struct map *maps[] = { &s->strings, &s->mappings, &s->functions, &s->locations, &s->nodes, &s->stacks,
				     &s->label_sets, &s->columns, &s->stack_of };
	size_t n = sizeof *s + s->bytes + s->text.used + (s->places ? (s->places_mask + 1) * sizeof *s->places : 0);
	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		n += maps[i]->slots ? (maps[i]->mask + 1) * sizeof *maps[i]->slots : 0;
	struct calltree *calls = atomic_load(&s->calls);
	return n + (calls ? calltree_bytes(calls) : 0);
}

struct calltree *symbols_calls(struct symbols *s)
{
	struct calltree *known = atomic_load(&s->calls);
	if (known)
		return known;
	struct calltree *made = calltree_new(s->seed);
	if (atomic_compare_exchange_strong(&s->calls, &known, made))
		return made;
	calltree_free(made);
	return known;
}

/* ---- interning ---- */

static bool find_string(const struct symbols *s, struct view v, uint64_t h, uint32_t *ret)
{
	for (size_t at = map_start(&s->strings, h); map_probe(&s->strings, h, &at, ret);)
		if (view_eq(*ENTRY(s, SYMBOLS_STRINGS, struct view, *ret), v))
			return true;
	return false;
}

bool symbols_find_string(const struct symbols *s, struct view v, uint32_t *ret)
{
	return find_string(s, v, hash_string(s, v), ret);
}

static void *text_alloc(struct symbols *s, size_t n)
{
	void *p = arena_alloc(&s->text, n);
	if (!p)
		abort(); /* the arena has no cap: memory is out */
	return p;
}

uint32_t symbols_intern_string(struct symbols *s, struct view v, uint64_t h)
{
	uint32_t id;
	if (find_string(s, v, h, &id))
		return id;
	id = s->tables[SYMBOLS_STRINGS].n;
	char *copy = text_alloc(s, v.len + 1);
	if (v.len)
		memcpy(copy, v.ptr, v.len);
	copy[v.len] = 0;
	struct view *e = symbols_chunked_add(s, &s->tables[SYMBOLS_STRINGS]);
	*e = (struct view){ copy, v.len };
	map_insert(&s->strings, h, id);
	return id;
}

uint32_t symbols_string(struct symbols *s, struct view v)
{
	return symbols_intern_string(s, v, hash_string(s, v));
}

/* A new entry that is put into its map as well. */
static void *add_indexed(struct symbols *s, enum symbols_table t, struct map *m, uint64_t h)
{
	map_insert(m, h, s->tables[t].n);
	s->indexed[t]++;
	return symbols_chunked_add(s, &s->tables[t]);
}

static bool find_mapping(struct symbols *s, const struct sym_mapping *m, uint64_t h, uint32_t *ret)
{
	need_index(s, SYMBOLS_MAPPINGS);
	uint32_t name = m->build_id ? m->build_id : m->file;
	for (size_t at = map_start(&s->mappings, h); map_probe(&s->mappings, h, &at, ret);) {
		const struct sym_mapping *o = ENTRY(s, SYMBOLS_MAPPINGS, struct sym_mapping, *ret);
		if (page_round(o->size) == page_round(m->size) && o->offset == m->offset &&
		    (o->build_id ? o->build_id : o->file) == name)
			return true;
	}
	return false;
}

bool symbols_find_mapping(struct symbols *s, const struct sym_mapping *m, uint32_t *ret)
{
	return find_mapping(s, m, hash_mapping(s, m), ret);
}

uint32_t symbols_mapping(struct symbols *s, const struct sym_mapping *m)
{
	uint64_t h = hash_mapping(s, m);
	uint32_t id;
	if (find_mapping(s, m, h, &id))
		return id;
	map_insert(&s->mappings, h, s->tables[SYMBOLS_MAPPINGS].n);
	s->indexed[SYMBOLS_MAPPINGS]++;
	return symbols_load_mapping(s, m);
}

void symbols_mark_main(struct symbols *s, const struct sym_mapping *m)
{
	if (m->file || m->build_id)
		symbols_mapping(s, &(struct sym_mapping){ .offset = SYM_MAIN_OFFSET, .file = m->file, .build_id = m->build_id });
}

static bool is_mark(const struct sym_mapping *m)
{
	return m->offset == SYM_MAIN_OFFSET && !m->size;
}

uint32_t symbols_main_marks(const struct symbols *s, uint32_t from, struct sym_marks *ret)
{
	uint32_t n = symbols_count(s, SYMBOLS_MAPPINGS);
	for (; from < n; from++)
		if (is_mark(symbols_get_mapping(s, from)))
			vec_push(ret, from);
	return n;
}

bool symbols_is_main(const struct symbols *s, const struct sym_marks *marks, const struct sym_mapping *m)
{
	for (size_t i = 0; i < marks->n; i++) {
		const struct sym_mapping *o = symbols_get_mapping(s, marks->v[i]);
		if (o->build_id || m->build_id ? o->build_id == m->build_id : o->file == m->file)
			return true;
	}
	return false;
}

uint32_t symbols_intern_function(struct symbols *s, const struct sym_function *f, uint64_t h)
{
	uint32_t id;
	need_index(s, SYMBOLS_FUNCTIONS);
	for (size_t at = map_start(&s->functions, h); map_probe(&s->functions, h, &at, &id);) {
		const struct sym_function *o = ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, id);
		if (o->name == f->name && o->system_name == f->system_name && o->filename == f->filename &&
		    o->start_line == f->start_line)
			return id;
	}
	id = s->tables[SYMBOLS_FUNCTIONS].n;
	*(struct sym_function *)add_indexed(s, SYMBOLS_FUNCTIONS, &s->functions, h) = *f;
	return id;
}

uint32_t symbols_function(struct symbols *s, const struct sym_function *f)
{
	return symbols_intern_function(s, f, hash_function(s, f));
}

static bool same_location(const struct symbols *s, const struct sym_location *o, const struct sym_location *l,
			  const struct sym_line *lines)
{
	if (o->address != l->address || o->mapping != l->mapping || o->n_lines != l->n_lines || o->is_folded != l->is_folded)
		return false;
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *x = ENTRY(s, SYMBOLS_LINES, struct sym_line, o->first_line + i);
		if (x->function != lines[i].function || x->line != lines[i].line || x->column != lines[i].column)
			return false;
	}
	return true;
}

static bool find_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint64_t h, uint32_t *ret)
{
	need_index(s, SYMBOLS_LOCATIONS);
	for (size_t at = map_start(&s->locations, h); map_probe(&s->locations, h, &at, ret);)
		if (same_location(s, ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, *ret), l, lines))
			return true;
	return false;
}

uint32_t symbols_intern_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint64_t h)
{
	uint32_t id;
	if (find_location(s, l, lines, h, &id))
		return id;
	map_insert(&s->locations, h, s->tables[SYMBOLS_LOCATIONS].n);
	s->indexed[SYMBOLS_LOCATIONS]++;
	return symbols_load_location(s, l, lines);
}

static uint64_t hash_whole(const struct symbols *s, const struct sym_location *l, const struct sym_line *lines)
{
	uint64_t h = hash_location(s, l);
	for (uint32_t i = 0; i < l->n_lines; i++)
		h = hash_line(s, h, &lines[i]);
	return h;
}

bool symbols_find_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint32_t *ret)
{
	return find_location(s, l, lines, hash_whole(s, l, lines), ret);
}

uint32_t symbols_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines)
{
	return symbols_intern_location(s, l, lines, hash_whole(s, l, lines));
}

/* A child of the node that the index has. */
static bool find_child(struct symbols *s, uint32_t parent, uint32_t location, uint32_t *ret)
{
	uint64_t h = hash_node(s, parent, location);
	for (size_t at = map_start(&s->nodes, h); map_probe(&s->nodes, h, &at, ret);) {
		const struct sym_node *n = ENTRY(s, SYMBOLS_NODES, struct sym_node, *ret);
		if (n->parent == parent && n->location == location)
			return true;
	}
	return false;
}

uint32_t symbols_node(struct symbols *s, uint32_t parent, uint32_t location)
{
	need_index(s, SYMBOLS_NODES);
	struct known_node *k = KNOWN_NODE(s, parent);
	uint32_t id = k->last;
	if (id && ENTRY(s, SYMBOLS_NODES, struct sym_node, id)->location == location)
		return id;
	if (k->many && find_child(s, parent, location, &id))
		return k->last = id;
	id = symbols_load_node(s, parent, location);
	symbols_index_node(s, parent, location, id);
	s->indexed[SYMBOLS_NODES]++;
	return id;
}

const uint32_t *symbols_make_row(struct symbols *s, uint32_t stack)
{
	struct known_stack *k = KNOWN_STACK(s, stack);
	uint32_t depth = (uint32_t)symbols_stack_locations(s, stack, NULL, 0);
	k->row = text_alloc(s, (depth + 1) * sizeof *k->row);
	*k->row = depth;
	symbols_stack_locations(s, stack, k->row + 1, depth);
	return k->row;
}

static bool same_stack(struct symbols *s, uint32_t stack, const uint32_t *locations, size_t n)
{
	const uint32_t *row = symbols_row(s, stack);
	return *row == n && same_text(row + 1, locations, n * sizeof *locations);
}

void symbols_add_lost(struct symbols *s, enum symbols_table t)
{
	need_index(s, t); /* of those before it: it stays out */
	/* Zeroed, an entry refers to nothing, or to what is always there. */
	void *entry = symbols_chunked_add(s, &s->tables[t]);
	s->indexed[t]++;
	uint32_t last = s->tables[SYMBOLS_STRINGS].n - 1;
	if (t == SYMBOLS_STRINGS)
		*(struct view *)entry = VIEW("(lost)");
	else if (t == SYMBOLS_FUNCTIONS && view_eqs(symbols_get_string(s, last), "(lost)"))
		((struct sym_function *)entry)->name = last;
	else if (t == SYMBOLS_STACKS)
		symbols_chunked_add(s, &s->known_stacks);
	else if (t == SYMBOLS_NODES)
		symbols_chunked_add(s, &s->known_nodes);
}

static bool find_stack(struct symbols *s, const uint32_t *locations, size_t n, uint64_t h, uint32_t *ret)
{
	need_index(s, SYMBOLS_STACKS);
	for (size_t at = map_start(&s->stacks, h); map_probe(&s->stacks, h, &at, ret);)
		if (same_stack(s, *ret, locations, n))
			return true;
	return false;
}

bool symbols_find_stack(struct symbols *s, const uint32_t *locations, size_t n, uint32_t *ret)
{
	return find_stack(s, locations, n, hash_stack(s, locations, n), ret);
}

uint32_t symbols_intern_stack(struct symbols *s, const uint32_t *locations, size_t n, uint64_t h)
{
	uint32_t id;
	if (find_stack(s, locations, n, h, &id))
		return id;
	uint32_t node = 0;
	for (size_t i = n; i--;)
		node = symbols_node(s, node, locations[i]);
	map_insert(&s->stacks, h, s->tables[SYMBOLS_STACKS].n);
	s->indexed[SYMBOLS_STACKS]++;
	return symbols_load_stack(s, node);
}

uint32_t symbols_stack(struct symbols *s, const uint32_t *locations, size_t n)
{
	return symbols_intern_stack(s, locations, n, hash_stack(s, locations, n));
}

/* A node is one stack only. Callers that translate nodes need no hash of their locations. Lost stacks have the root's. */
uint32_t symbols_stack_at(struct symbols *s, uint32_t node)
{
	for (; s->n_stack_of < s->tables[SYMBOLS_STACKS].n; s->n_stack_of++) {
		uint32_t leaf = *ENTRY(s, SYMBOLS_STACKS, uint32_t, s->n_stack_of);
		if (leaf || !s->n_stack_of)
			map_insert(&s->stack_of, hash_u64(leaf), s->n_stack_of);
	}
	uint64_t h = hash_u64(node);
	uint32_t id;
	for (size_t at = map_start(&s->stack_of, h); map_probe(&s->stack_of, h, &at, &id);)
		if (*ENTRY(s, SYMBOLS_STACKS, uint32_t, id) == node)
			return id;
	id = symbols_load_stack(s, node);
	map_insert(&s->stack_of, h, id);
	s->n_stack_of++;
	return id;
}

uint32_t symbols_node_near(struct symbols *s, uint32_t guess, uint32_t parent, uint32_t location)
{
	if (guess && guess < s->tables[SYMBOLS_NODES].n) {
		const struct sym_node *n = ENTRY(s, SYMBOLS_NODES, struct sym_node, guess);
		if (n->parent == parent && n->location == location)
			return guess;
	}
	return symbols_node(s, parent, location);
}

uint32_t symbols_stack_near(struct symbols *s, uint32_t guess, uint32_t node)
{
	if (node && guess < s->tables[SYMBOLS_STACKS].n && *ENTRY(s, SYMBOLS_STACKS, uint32_t, guess) == node)
		return guess;
	return symbols_stack_at(s, node);
}

uint32_t symbols_column_near(struct symbols *s, uint32_t guess, uint32_t stack, uint32_t label_set)
{
	if (stack && guess < s->tables[SYMBOLS_COLUMNS].n) {
		const struct sym_column *c = ENTRY(s, SYMBOLS_COLUMNS, struct sym_column, guess);
		if (c->stack == stack && c->label_set == label_set)
			return guess;
	}
	return symbols_column(s, stack, label_set);
}

static int by_key(const void *a, const void *b)
{
	const struct sym_label *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->is_num != y->is_num)
		return x->is_num ? 1 : -1;
	if (x->str != y->str)
		return x->str < y->str ? -1 : 1;
	if (x->num != y->num)
		return x->num < y->num ? -1 : 1;
	return (x->unit > y->unit) - (x->unit < y->unit);
}

/* Sorted by insertion: sets are small, and mostly sorted. Equal labels stay twice, as in google/pprof's keys. */
static void sort_labels(struct sym_label *l, size_t n)
{
	if (n > 32) {
		qsort(l, n, sizeof *l, by_key);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		struct sym_label x = l[i];
		size_t k = i;
		for (; k && by_key(&l[k - 1], &x) > 0; k--)
			memcpy(&l[k], &l[k - 1], sizeof x);
		memcpy(&l[k], &x, sizeof x);
	}
}

/* Into sorted, which has room. */
static void canonical_labels(const struct sym_label *labels, size_t n, struct sym_label *sorted)
{
	memset(sorted, 0, n * sizeof *sorted);
	for (size_t i = 0; i < n; i++) {
		/* field by field: the padding must be zero, the hash reads it */
		sorted[i].key = labels[i].key;
		sorted[i].is_num = labels[i].is_num;
		sorted[i].str = labels[i].is_num ? 0 : labels[i].str;
		sorted[i].unit = labels[i].is_num ? labels[i].unit : 0;
		sorted[i].num = labels[i].is_num ? labels[i].num : 0;
	}
	sort_labels(sorted, n);
}

static bool find_label_set(const struct symbols *s, const struct sym_label *sorted, size_t n, uint64_t h, uint32_t *ret)
{
	for (size_t at = map_start(&s->label_sets, h); map_probe(&s->label_sets, h, &at, ret);) {
		const struct label_set *o = ENTRY(s, SYMBOLS_LABEL_SETS, struct label_set, *ret);
		if (o->n == n && (!n || memcmp(o->v, sorted, n * sizeof *sorted) == 0))
			return true;
	}
	return false;
}

bool symbols_find_label_set(const struct symbols *s, const struct sym_label *labels, size_t n, uint32_t *ret)
{
	struct sym_label few[8], *sorted = n <= ARRAY_LEN(few) ? few : xcalloc(n, sizeof *sorted);
	canonical_labels(labels, n, sorted);
	bool found = find_label_set(s, sorted, n, hash_bytes_seed(sorted, n * sizeof *sorted, s->seed), ret);
	if (sorted != few)
		free(sorted);
	return found;
}

uint32_t symbols_label_set(struct symbols *s, const struct sym_label *labels, size_t n)
{
	struct sym_label few[8], *sorted = n <= ARRAY_LEN(few) ? few : xcalloc(n, sizeof *sorted);
	canonical_labels(labels, n, sorted);
	uint64_t h = hash_bytes_seed(sorted, n * sizeof *sorted, s->seed);
	uint32_t id;
	if (find_label_set(s, sorted, n, h, &id))
		goto out;
	struct sym_label *copy = text_alloc(s, n * sizeof *copy);
	memcpy(copy, sorted, n * sizeof *copy);
	id = s->tables[SYMBOLS_LABEL_SETS].n;
	*(struct label_set *)symbols_chunked_add(s, &s->tables[SYMBOLS_LABEL_SETS]) = (struct label_set){ copy, n };
	map_insert(&s->label_sets, h, id);
out:
	if (sorted != few)
		free(sorted);
	return id;
}

static bool find_column(struct symbols *s, uint32_t stack, uint32_t label_set, uint64_t h, uint32_t *ret)
{
	need_index(s, SYMBOLS_COLUMNS);
	if (!label_set) {
		uint32_t plain = KNOWN_STACK(s, stack)->plain_column;
		*ret = plain - 1;
		return plain;
	}
	for (size_t at = map_start(&s->columns, h); map_probe(&s->columns, h, &at, ret);) {
		const struct sym_column *c = ENTRY(s, SYMBOLS_COLUMNS, struct sym_column, *ret);
		if (c->stack == stack && c->label_set == label_set)
			return true;
	}
	return false;
}

bool symbols_find_column(struct symbols *s, uint32_t stack, uint32_t label_set, uint32_t *ret)
{
	return find_column(s, stack, label_set, hash_column(s, stack, label_set), ret);
}

uint32_t symbols_column(struct symbols *s, uint32_t stack, uint32_t label_set)
{
	uint64_t h = hash_column(s, stack, label_set);
	uint32_t id;
	if (find_column(s, stack, label_set, h, &id))
		return id;
	symbols_index_column(s, stack, label_set, s->tables[SYMBOLS_COLUMNS].n);
	s->indexed[SYMBOLS_COLUMNS]++;
	return symbols_load_column(s, stack, label_set);
}
