/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionary. Entries lie in chunked arrays: block k holds 2^(k+FIRST_BITS) entries and never moves, so a reader
 * needs no lock below a count it was told. The hash indexes are the writer's alone. Strings and label sets lie in an
 * arena, whose blocks do not move either. */
#include "model/symbols.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/calltree.h"

#define FIRST_BITS 6
#define BLOCKS (33 - FIRST_BITS)

struct chunked {
	char *blocks[BLOCKS];
	uint32_t n;
	uint32_t item; /* bytes of an entry */
};

struct label_set {
	const struct sym_label *v;
	size_t n;
};

struct symbols {
	atomic_int refs;
	uint64_t seed, seed2; /* of the hashes: names and addresses are the targets' to choose, collisions must not be */
	struct arena text; /* strings and label sets */
	size_t bytes;      /* of the chunked arrays */
	struct chunked tables[SYMBOLS_TABLES];
	struct chunked plain_columns; /* stack -> column of (stack, no labels) + 1 */
	struct chunked unfolded;      /* stack -> its locations, once a profile had it: see same_stack */
	struct map strings, mappings, functions, locations, nodes, stacks, label_sets, columns;
	_Atomic(struct calltree *) calls;
};

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

/* item is the entry's size again, where it is known at compile time. */
static inline void *chunked_at(const struct chunked *c, uint32_t i, size_t item)
{
	uint64_t x = (uint64_t)i + (1u << FIRST_BITS);
	unsigned top = 63 - (unsigned)__builtin_clzll(x);
	return c->blocks[top - FIRST_BITS] + (x ^ UINT64_C(1) << top) * item;
}

/* The new entry, zeroed; its id is the old count. */
static void *chunked_add(struct symbols *s, struct chunked *c)
{
	assert(c->n < UINT32_MAX - 1);
	uint64_t x = (uint64_t)c->n + (1u << FIRST_BITS);
	unsigned block = 63 - (unsigned)__builtin_clzll(x) - FIRST_BITS;
	if (!c->blocks[block]) {
		size_t bytes = ((size_t)1 << (block + FIRST_BITS)) * c->item;
		c->blocks[block] = xcalloc(1, bytes);
		s->bytes += bytes;
	}
	return chunked_at(c, c->n++, c->item);
}

static void chunked_free(struct chunked *c)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		free(c->blocks[i]);
}

/* A hash of words: each pair is folded into the state by a product of 128 bits, whose halves are combined. The seeds are
 * secret, so what makes a factor zero, or two inputs collide, cannot be aimed at. */
static inline uint64_t mix(const struct symbols *s, uint64_t h, uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)(a ^ h ^ s->seed) * (b ^ s->seed2);
	return (uint64_t)(m >> 64) ^ (uint64_t)m;
}

#define ENTRY(s, table, type, id) ((type *)chunked_at(&(s)->tables[table], (id), sizeof(type)))

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
	s->plain_columns.item = sizeof(uint32_t);
	s->unfolded.item = sizeof(uint32_t *);
	symbols_string(s, VIEW(""));
	chunked_add(s, &s->tables[SYMBOLS_NODES]);
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
	chunked_free(&s->plain_columns);
	chunked_free(&s->unfolded);
	struct map *maps[] = { &s->strings, &s->mappings, &s->functions, &s->locations, &s->nodes, &s->stacks,
			       &s->label_sets, &s->columns };
	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		map_free(maps[i]);
	calltree_free(s->calls);
	arena_free(&s->text);
	free(s);
}

size_t symbols_bytes(const struct symbols *s)
{
	const struct map *maps[] = { &s->strings, &s->mappings, &s->functions, &s->locations, &s->nodes, &s->stacks,
				     &s->label_sets, &s->columns };
	size_t n = sizeof *s + s->bytes + s->text.used;
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
	return find_string(s, v, hash_bytes_seed(v.ptr, v.len, s->seed), ret);
}

static void *text_alloc(struct symbols *s, size_t n)
{
	void *p = arena_alloc(&s->text, n);
	if (!p)
		abort(); /* the arena has no cap: memory is out */
	return p;
}

/* With its hash. */
static uint32_t intern_string(struct symbols *s, struct view v, uint64_t h)
{
	uint32_t id;
	if (find_string(s, v, h, &id))
		return id;
	id = s->tables[SYMBOLS_STRINGS].n;
	char *copy = text_alloc(s, v.len + 1);
	if (v.len)
		memcpy(copy, v.ptr, v.len);
	copy[v.len] = 0;
	struct view *e = chunked_add(s, &s->tables[SYMBOLS_STRINGS]);
	*e = (struct view){ copy, v.len };
	map_insert(&s->strings, h, id);
	return id;
}

uint32_t symbols_string(struct symbols *s, struct view v)
{
	return intern_string(s, v, hash_bytes_seed(v.ptr, v.len, s->seed));
}

static uint64_t page_round(uint64_t size)
{
	return (size + 4095) & ~UINT64_C(4095);
}

uint32_t symbols_mapping(struct symbols *s, const struct sym_mapping *m)
{
	uint32_t name = m->build_id ? m->build_id : m->file;
	uint64_t h = mix(s, mix(s, 0, m->offset, name), page_round(m->size), 0);
	uint32_t id;
	for (size_t at = map_start(&s->mappings, h); map_probe(&s->mappings, h, &at, &id);) {
		const struct sym_mapping *o = ENTRY(s, SYMBOLS_MAPPINGS, struct sym_mapping, id);
		if (page_round(o->size) == page_round(m->size) && o->offset == m->offset &&
		    (o->build_id ? o->build_id : o->file) == name)
			return id;
	}
	id = s->tables[SYMBOLS_MAPPINGS].n;
	*(struct sym_mapping *)chunked_add(s, &s->tables[SYMBOLS_MAPPINGS]) = *m;
	map_insert(&s->mappings, h, id);
	return id;
}

uint32_t symbols_function(struct symbols *s, const struct sym_function *f)
{
	uint64_t h = mix(s, mix(s, 0, (uint64_t)f->name << 32 | f->system_name, f->filename), (uint64_t)f->start_line, 0);
	uint32_t id;
	for (size_t at = map_start(&s->functions, h); map_probe(&s->functions, h, &at, &id);) {
		const struct sym_function *o = ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, id);
		if (o->name == f->name && o->system_name == f->system_name && o->filename == f->filename &&
		    o->start_line == f->start_line)
			return id;
	}
	id = s->tables[SYMBOLS_FUNCTIONS].n;
	*(struct sym_function *)chunked_add(s, &s->tables[SYMBOLS_FUNCTIONS]) = *f;
	map_insert(&s->functions, h, id);
	return id;
}

static bool same_location(const struct symbols *s, const struct sym_location *o, const struct sym_location *l,
			  const struct sym_line *lines)
{
	if (o->address != l->address || o->mapping != l->mapping || o->n_lines != l->n_lines || o->is_folded != l->is_folded)
		return false;
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *x = symbols_get_line(s, o, i);
		if (x->function != lines[i].function || x->line != lines[i].line || x->column != lines[i].column)
			return false;
	}
	return true;
}

uint32_t symbols_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines)
{
	uint64_t h = mix(s, 0, l->address, (uint64_t)l->mapping << 1 | l->is_folded);
	for (uint32_t i = 0; i < l->n_lines; i++) { /* one after the other: a sum of them could be made to collide */
		h = mix(s, h, lines[i].function, (uint64_t)lines[i].line);
		if (lines[i].column)
			h = mix(s, ~h, (uint64_t)lines[i].column, 0);
	}
	uint32_t id;
	for (size_t at = map_start(&s->locations, h); map_probe(&s->locations, h, &at, &id);)
		if (same_location(s, ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, id), l, lines))
			return id;
	id = s->tables[SYMBOLS_LOCATIONS].n;
	uint32_t first_line = s->tables[SYMBOLS_LINES].n;
	for (uint32_t i = 0; i < l->n_lines; i++)
		*(struct sym_line *)chunked_add(s, &s->tables[SYMBOLS_LINES]) = lines[i];
	struct sym_location *e = chunked_add(s, &s->tables[SYMBOLS_LOCATIONS]);
	*e = *l;
	e->first_line = first_line;
	map_insert(&s->locations, h, id);
	return id;
}

uint32_t symbols_node(struct symbols *s, uint32_t parent, uint32_t location)
{
	uint64_t h = mix(s, 0, parent, location);
	uint32_t id;
	for (size_t at = map_start(&s->nodes, h); map_probe(&s->nodes, h, &at, &id);) {
		const struct sym_node *n = ENTRY(s, SYMBOLS_NODES, struct sym_node, id);
		if (n->parent == parent && n->location == location)
			return id;
	}
	id = s->tables[SYMBOLS_NODES].n;
	*(struct sym_node *)chunked_add(s, &s->tables[SYMBOLS_NODES]) = (struct sym_node){ parent, location };
	map_insert(&s->nodes, h, id);
	return id;
}

/* The hash of a stack: four locations at a time, the last ones filled up with zeros. */
static uint64_t hash_stack(const struct symbols *s, const uint32_t *locations, size_t n)
{
	uint64_t h = n, w[2];
	for (; n > 4; n -= 4, locations += 4) {
		memcpy(w, locations, sizeof w);
		h = mix(s, h, w[0], w[1]);
	}
	memset(w, 0, sizeof w);
	if (n)
		memcpy(w, locations, n * sizeof *locations);
	return mix(s, mix(s, h, w[0], w[1]), h, 0);
}

/* Whether a stack is this one. To walk from the leaf to the root takes a load that waits for the one before at each
 * step, and most stacks of a profile are known; so a stack that is asked for again keeps its locations in a row, their
 * number before them. A dictionary that is only read never pays for that. */
static bool same_stack(struct symbols *s, uint32_t stack, const uint32_t *locations, size_t n)
{
	uint32_t **row = chunked_at(&s->unfolded, stack, sizeof *row);
	if (UNLIKELY(!*row)) {
		uint32_t depth = (uint32_t)symbols_stack_locations(s, stack, NULL, 0);
		*row = text_alloc(s, (depth + 1) * sizeof **row);
		**row = depth;
		symbols_stack_locations(s, stack, *row + 1, depth);
	}
	return **row == n && (!n || memcmp(*row + 1, locations, n * sizeof *locations) == 0);
}

static uint32_t add_stack(struct symbols *s, uint32_t node, uint64_t h)
{
	uint32_t id = s->tables[SYMBOLS_STACKS].n;
	*(uint32_t *)chunked_add(s, &s->tables[SYMBOLS_STACKS]) = node;
	chunked_add(s, &s->plain_columns);
	chunked_add(s, &s->unfolded);
	map_insert(&s->stacks, h, id);
	return id;
}

void symbols_add_lost(struct symbols *s, enum symbols_table t)
{
	/* Zeroed, an entry refers to nothing, or to what is always there. */
	void *entry = chunked_add(s, &s->tables[t]);
	uint32_t last = s->tables[SYMBOLS_STRINGS].n - 1;
	if (t == SYMBOLS_STRINGS)
		*(struct view *)entry = VIEW("(lost)");
	else if (t == SYMBOLS_FUNCTIONS && view_eqs(symbols_get_string(s, last), "(lost)"))
		((struct sym_function *)entry)->name = last;
	else if (t == SYMBOLS_STACKS) {
		chunked_add(s, &s->plain_columns);
		chunked_add(s, &s->unfolded);
	}
}

/* With its hash. */
static uint32_t intern_stack(struct symbols *s, const uint32_t *locations, size_t n, uint64_t h)
{
	uint32_t id;
	for (size_t at = map_start(&s->stacks, h); map_probe(&s->stacks, h, &at, &id);)
		if (same_stack(s, id, locations, n))
			return id;
	uint32_t node = 0;
	for (size_t i = n; i--;)
		node = symbols_node(s, node, locations[i]);
	return add_stack(s, node, h);
}

uint32_t symbols_stack(struct symbols *s, const uint32_t *locations, size_t n)
{
	return intern_stack(s, locations, n, hash_stack(s, locations, n));
}

uint32_t symbols_stack_at(struct symbols *s, uint32_t node)
{
	uint32_t few[256], *locations = few, n = 0;
	few[0] = 0;
	for (uint32_t x = node; x; x = ENTRY(s, SYMBOLS_NODES, struct sym_node, x)->parent)
		n++;
	if (n > ARRAY_LEN(few))
		locations = xreallocarray(NULL, n, sizeof *locations);
	n = 0;
	for (uint32_t x = node; x; x = ENTRY(s, SYMBOLS_NODES, struct sym_node, x)->parent)
		locations[n++] = ENTRY(s, SYMBOLS_NODES, struct sym_node, x)->location;
	uint64_t h = hash_stack(s, locations, n);
	uint32_t id;
	bool found = false;
	for (size_t at = map_start(&s->stacks, h); !found && map_probe(&s->stacks, h, &at, &id);)
		found = symbols_stack_node(s, id) == node; /* a node is one stack only */
	if (locations != few)
		free(locations);
	return found ? id : add_stack(s, node, h);
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

uint32_t symbols_label_set(struct symbols *s, const struct sym_label *labels, size_t n)
{
	struct sym_label few[8], *sorted = n <= ARRAY_LEN(few) ? few : xcalloc(n, sizeof *sorted);
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
	uint64_t h = hash_bytes_seed(sorted, n * sizeof *sorted, s->seed);
	uint32_t id;
	for (size_t at = map_start(&s->label_sets, h); map_probe(&s->label_sets, h, &at, &id);) {
		const struct label_set *o = ENTRY(s, SYMBOLS_LABEL_SETS, struct label_set, id);
		if (o->n == n && (!n || memcmp(o->v, sorted, n * sizeof *sorted) == 0))
			goto out;
	}
	struct sym_label *copy = text_alloc(s, n * sizeof *copy);
	memcpy(copy, sorted, n * sizeof *copy);
	id = s->tables[SYMBOLS_LABEL_SETS].n;
	*(struct label_set *)chunked_add(s, &s->tables[SYMBOLS_LABEL_SETS]) = (struct label_set){ copy, n };
	map_insert(&s->label_sets, h, id);
out:
	if (sorted != few)
		free(sorted);
	return id;
}

uint32_t symbols_column(struct symbols *s, uint32_t stack, uint32_t label_set)
{
	uint32_t *plain = label_set ? NULL : chunked_at(&s->plain_columns, stack, sizeof(uint32_t));
	uint64_t h = mix(s, 0, stack, label_set);
	uint32_t id;
	if (plain) {
		if (*plain)
			return *plain - 1;
	} else {
		for (size_t at = map_start(&s->columns, h); map_probe(&s->columns, h, &at, &id);) {
			const struct sym_column *c = ENTRY(s, SYMBOLS_COLUMNS, struct sym_column, id);
			if (c->stack == stack && c->label_set == label_set)
				return id;
		}
	}
	id = s->tables[SYMBOLS_COLUMNS].n;
	*(struct sym_column *)chunked_add(s, &s->tables[SYMBOLS_COLUMNS]) = (struct sym_column){ stack, label_set };
	if (plain)
		*plain = id + 1;
	else
		map_insert(&s->columns, h, id);
	return id;
}

/* ---- reading ---- */

uint32_t symbols_count(const struct symbols *s, enum symbols_table t)
{
	return s->tables[t].n;
}

struct view symbols_get_string(const struct symbols *s, uint32_t id)
{
	return *ENTRY(s, SYMBOLS_STRINGS, struct view, id);
}

const struct sym_mapping *symbols_get_mapping(const struct symbols *s, uint32_t id)
{
	return ENTRY(s, SYMBOLS_MAPPINGS, struct sym_mapping, id);
}

const struct sym_function *symbols_get_function(const struct symbols *s, uint32_t id)
{
	return ENTRY(s, SYMBOLS_FUNCTIONS, struct sym_function, id);
}

const struct sym_location *symbols_get_location(const struct symbols *s, uint32_t id)
{
	return ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, id);
}

const struct sym_line *symbols_get_line(const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	return ENTRY(s, SYMBOLS_LINES, struct sym_line, l->first_line + i);
}

const struct sym_node *symbols_get_node(const struct symbols *s, uint32_t node)
{
	return ENTRY(s, SYMBOLS_NODES, struct sym_node, node);
}

uint32_t symbols_stack_node(const struct symbols *s, uint32_t stack)
{
	return *ENTRY(s, SYMBOLS_STACKS, uint32_t, stack);
}

const struct sym_label *symbols_get_label_set(const struct symbols *s, uint32_t id, size_t *ret_n)
{
	const struct label_set *l = ENTRY(s, SYMBOLS_LABEL_SETS, struct label_set, id);
	*ret_n = l->n;
	return l->v;
}

const struct sym_column *symbols_get_column(const struct symbols *s, uint32_t id)
{
	return ENTRY(s, SYMBOLS_COLUMNS, struct sym_column, id);
}

size_t symbols_stack_locations(const struct symbols *s, uint32_t stack, uint32_t *out, size_t max)
{
	size_t n = 0;
	for (uint32_t node = symbols_stack_node(s, stack); node; n++) {
		const struct sym_node *x = ENTRY(s, SYMBOLS_NODES, struct sym_node, node);
		if (n < max)
			out[n] = x->location;
		node = x->parent;
	}
	return n;
}

/* ---- a whole profile ---- */

struct import {
	struct symbols *s;
	const struct profile *p;
	uint32_t *strings; /* id + 1; 0 = not met yet */
	uint64_t *hashes;  /* of the strings */
	uint32_t *mappings, *functions, *locations; /* ids */
};

/* All hashes first: the slots that they lead to are on their way from memory by the time they are looked at. */
static void hash_strings(struct import *im)
{
	const struct map *m = &im->s->strings;
	for (uint32_t i = 0; i < im->p->n_strings; i++) {
		im->hashes[i] = hash_bytes_seed(im->p->strings[i].ptr, im->p->strings[i].len, im->s->seed);
		__builtin_prefetch(&m->slots[map_start(m, im->hashes[i])]);
	}
}

static inline uint32_t import_string(struct import *im, uint32_t i)
{
	if (UNLIKELY(i >= im->p->n_strings))
		return 0;
	if (!im->strings[i])
		im->strings[i] = intern_string(im->s, im->p->strings[i], im->hashes[i]) + 1;
	return im->strings[i] - 1;
}

static void import_mappings(struct import *im)
{
	for (uint32_t i = 0; i < im->p->n_mappings; i++) {
		const struct profile_mapping *m = &im->p->mappings[i];
		struct sym_mapping x = {
			.start = m->start, .size = m->limit - m->start, .offset = m->offset,
			.file = import_string(im, m->file_str), .build_id = import_string(im, m->build_id_str),
			.has = (uint8_t)((m->has_functions ? SYM_HAS_FUNCTIONS : 0) | (m->has_filenames ? SYM_HAS_FILENAMES : 0) |
					 (m->has_line_numbers ? SYM_HAS_LINE_NUMBERS : 0) |
					 (m->has_inline_frames ? SYM_HAS_INLINE_FRAMES : 0)),
		};
		im->mappings[i] = symbols_mapping(im->s, &x);
	}
}

static void import_functions(struct import *im)
{
	for (uint32_t i = 0; i < im->p->n_functions; i++) {
		const struct profile_function *f = &im->p->functions[i];
		struct sym_function x = { import_string(im, f->name_str), import_string(im, f->system_name_str),
					  import_string(im, f->filename_str), f->start_line };
		im->functions[i] = symbols_function(im->s, &x);
	}
}

static void import_locations(struct import *im)
{
	VEC(struct sym_line) lines = { 0 };
	for (uint32_t i = 0; i < im->p->n_locations; i++) {
		const struct profile_location *l = &im->p->locations[i];
		struct sym_location x = { .address = l->address, .n_lines = l->n_lines, .is_folded = l->is_folded };
		if (l->mapping) {
			x.mapping = im->mappings[l->mapping - 1] + 1;
			x.address -= im->p->mappings[l->mapping - 1].start;
		}
		lines.n = 0;
		for (uint32_t k = 0; k < l->n_lines; k++) {
			const struct profile_line *pl = &im->p->lines[l->first_line + k];
			vec_push(&lines, (struct sym_line){ pl->function ? im->functions[pl->function - 1] + 1 : 0, pl->line,
							    pl->column });
		}
		im->locations[i] = symbols_location(im->s, &x, lines.v);
	}
	vec_free(&lines);
}

static uint32_t import_labels(struct import *im, const struct profile_sample *sample)
{
	struct sym_label few[16], *l = sample->n_labels <= ARRAY_LEN(few) ? few : xcalloc(sample->n_labels, sizeof *l);
	for (uint32_t i = 0; i < sample->n_labels; i++) {
		const struct profile_label *x = &im->p->labels[sample->first_label + i];
		l[i] = (struct sym_label){ .key = import_string(im, x->key_str), .is_num = x->is_num,
					   .str = import_string(im, x->str), .unit = import_string(im, x->unit_str),
					   .num = x->num };
	}
	uint32_t id = symbols_label_set(im->s, l, sample->n_labels);
	if (l != few)
		free(l);
	return id;
}

/* A young dictionary will take most of the profile in: its indexes grow once, not step by step. */
static void expect_new(struct symbols *s, const struct profile *p)
{
	if (s->strings.n > p->n_strings)
		return;
	map_reserve(&s->strings, s->strings.n + p->n_strings);
	map_reserve(&s->functions, s->functions.n + p->n_functions);
	map_reserve(&s->locations, s->locations.n + p->n_locations);
	map_reserve(&s->stacks, s->stacks.n + p->n_samples);
	map_reserve(&s->nodes, s->nodes.n + p->n_stack / 4);
}

int symbols_add_profile(struct symbols *s, struct profile *p, uint32_t *out, struct err *e)
{
	struct import im = { .s = s, .p = p };
	im.strings = arena_calloc(&p->arena, p->n_strings, sizeof *im.strings);
	im.hashes = arena_alloc(&p->arena, p->n_strings * sizeof *im.hashes);
	im.mappings = arena_alloc(&p->arena, p->n_mappings * sizeof *im.mappings);
	im.functions = arena_alloc(&p->arena, p->n_functions * sizeof *im.functions);
	im.locations = arena_alloc(&p->arena, p->n_locations * sizeof *im.locations);
	uint32_t *stack = arena_alloc(&p->arena, p->n_stack * sizeof *stack);
	uint64_t *hashes = arena_alloc(&p->arena, p->n_samples * sizeof *hashes);
	if (!im.strings || !im.hashes || !im.mappings || !im.functions || !im.locations || !stack || !hashes)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	expect_new(s, p);
	hash_strings(&im);
	import_mappings(&im);
	import_functions(&im);
	import_locations(&im);
	for (uint32_t i = 0; i < p->n_stack; i++)
		stack[i] = im.locations[p->stack[i]];
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *x = &p->samples[i];
		hashes[i] = hash_stack(s, stack + x->first_location, x->n_locations);
		__builtin_prefetch(&s->stacks.slots[map_start(&s->stacks, hashes[i])]);
	}
	for (uint32_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *x = &p->samples[i];
		uint32_t id = intern_stack(s, stack + x->first_location, x->n_locations, hashes[i]);
		out[i] = symbols_column(s, id, x->n_labels ? import_labels(&im, x) : 0);
	}
	return 0;
}

/* ---- translation ---- */

struct symbols_map {
	const struct symbols *from;
	struct symbols *to;
	struct { uint32_t *id; uint32_t n; } memo[SYMBOLS_TABLES]; /* id + 1 in `to`; 0 = not met */
	uint32_t *as, n_as; /* by location: 1 + the one that it is translated as; 0 = itself */
	VEC(uint32_t) stack;
	VEC(struct sym_line) lines;
	VEC(struct sym_label) labels;
};

struct symbols_map *symbols_map_new(const struct symbols *from, struct symbols *to)
{
	struct symbols_map *m = NEW(struct symbols_map);
	m->from = from;
	m->to = to;
	return m;
}

void symbols_map_free(struct symbols_map *m)
{
	if (!m)
		return;
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		free(m->memo[t].id);
	free(m->as);
	vec_free(&m->stack);
	vec_free(&m->lines);
	vec_free(&m->labels);
	free(m);
}

/* The memo's place for an id. The table grows with `from`, which may grow while the map lives. */
static uint32_t *memo(struct symbols_map *m, enum symbols_table t, uint32_t id)
{
	if (id >= m->memo[t].n) {
		uint32_t n = MAX(symbols_count(m->from, t), id + 1);
		m->memo[t].id = xreallocarray(m->memo[t].id, n, sizeof(uint32_t));
		memset(m->memo[t].id + m->memo[t].n, 0, (n - m->memo[t].n) * sizeof(uint32_t));
		m->memo[t].n = n;
	}
	return &m->memo[t].id[id];
}

static uint32_t map_string(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_STRINGS, id);
	if (!*to)
		*to = symbols_string(m->to, symbols_get_string(m->from, id)) + 1;
	return *to - 1;
}

static uint32_t map_mapping(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_MAPPINGS, id);
	if (!*to) {
		struct sym_mapping x = *symbols_get_mapping(m->from, id);
		x.file = map_string(m, x.file);
		x.build_id = map_string(m, x.build_id);
		*to = symbols_mapping(m->to, &x) + 1;
	}
	return *to - 1;
}

static uint32_t map_function(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_FUNCTIONS, id);
	if (!*to) {
		struct sym_function x = *symbols_get_function(m->from, id);
		x.name = map_string(m, x.name);
		x.system_name = map_string(m, x.system_name);
		x.filename = map_string(m, x.filename);
		*to = symbols_function(m->to, &x) + 1;
	}
	return *to - 1;
}

static uint32_t map_location(struct symbols_map *m, uint32_t id)
{
	if (id < m->n_as && m->as[id])
		id = m->as[id] - 1;
	uint32_t *to = memo(m, SYMBOLS_LOCATIONS, id);
	if (!*to) {
		struct sym_location x = *symbols_get_location(m->from, id);
		m->lines.n = 0;
		for (uint32_t i = 0; i < x.n_lines; i++) {
			struct sym_line line = *symbols_get_line(m->from, &x, i);
			line.function = line.function ? map_function(m, line.function - 1) + 1 : 0;
			vec_push(&m->lines, line);
		}
		x.mapping = x.mapping ? map_mapping(m, x.mapping - 1) + 1 : 0;
		*to = symbols_location(m->to, &x, m->lines.v) + 1;
	}
	return *to - 1;
}

void symbols_map_location(struct symbols_map *m, uint32_t location, uint32_t as)
{
	if (location >= m->n_as) {
		uint32_t n = MAX(symbols_count(m->from, SYMBOLS_LOCATIONS), location + 1);
		m->as = xreallocarray(m->as, n, sizeof *m->as);
		memset(m->as + m->n_as, 0, (n - m->n_as) * sizeof *m->as);
		m->n_as = n;
	}
	m->as[location] = as + 1;
}

uint32_t symbols_map_stack(struct symbols_map *m, uint32_t stack)
{
	uint32_t *to = memo(m, SYMBOLS_STACKS, stack);
	if (!*to) {
		size_t n = symbols_stack_locations(m->from, stack, NULL, 0);
		vec_reserve(&m->stack, n);
		symbols_stack_locations(m->from, stack, m->stack.v, n);
		for (size_t i = 0; i < n; i++)
			m->stack.v[i] = map_location(m, m->stack.v[i]);
		*to = symbols_stack(m->to, m->stack.v, n) + 1;
	}
	return *to - 1;
}

static uint32_t map_label_set(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_LABEL_SETS, id);
	if (!*to) {
		size_t n;
		const struct sym_label *l = symbols_get_label_set(m->from, id, &n);
		m->labels.n = 0;
		for (size_t i = 0; i < n; i++) {
			struct sym_label x = l[i];
			x.key = map_string(m, x.key);
			x.str = map_string(m, x.str);
			x.unit = map_string(m, x.unit);
			vec_push(&m->labels, x);
		}
		*to = symbols_label_set(m->to, m->labels.v, n) + 1;
	}
	return *to - 1;
}

uint32_t symbols_map_column(struct symbols_map *m, uint32_t column)
{
	uint32_t *to = memo(m, SYMBOLS_COLUMNS, column);
	if (!*to) {
		const struct sym_column *c = symbols_get_column(m->from, column);
		uint32_t stack = symbols_map_stack(m, c->stack);
		*to = symbols_column(m->to, stack, map_label_set(m, c->label_set)) + 1;
	}
	return *to - 1;
}
