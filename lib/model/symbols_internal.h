/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the dictionary: symbols_read.c has the tables, symbols.c gives ids to new entries, symbols_load.c fills
 * the tables from storage, symbols_import.c imports profiles, symbols_map.c translates. Private to them. */
#ifndef PYRRHA_MODEL_SYMBOLS_INTERNAL_H
#define PYRRHA_MODEL_SYMBOLS_INTERNAL_H

#include <stdatomic.h>

#include "base/map.h"
#include "model/symbols.h"

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

/* What is known about a stack besides its leaf. */
struct known_stack {
	uint32_t *row;         /* its depth and its locations, once a profile had it; NULL before: see symbols_row */
	uint32_t plain_column; /* column of (stack, no labels) + 1 */
};

/* The children of a node. Most have one, and most ways go where the last one went: only of nodes with several are they in the index. */
struct known_node {
	uint32_t last; /* the child last requested; 0 = there are none */
	bool many;
};

/* A location by its place, for importing profiles; see symbols_import.c. */
struct sym_place {
	uint64_t address;
	uint32_t where;    /* as hash_location has it: mapping << 1 | is_folded */
	uint32_t location; /* id + 1; 0: free */
	uint32_t is_line;  /* the location is this one line, without a column */
	uint32_t function; /* id + 1, 0 = none */
	int64_t line;
};
struct sym_places {
	struct sym_place of[2]; /* the last one, and the one before; a cache line */
};
enum { PLACES_MAX = 1 << 16 }; /* 4 MB */

struct symbols {
	atomic_int refs;
	uint64_t seed, seed2; /* of the hashes: names and addresses are the targets' to choose, collisions must not be */
	struct arena text; /* strings and label sets */
	size_t bytes;      /* of the chunked arrays */
	struct chunked tables[SYMBOLS_TABLES];
	struct chunked known_stacks; /* struct known_stack of each stack */
	struct chunked known_nodes;  /* struct known_node of each node that is indexed */
	struct map strings, mappings, functions, locations, nodes, stacks, label_sets, columns;
	struct map stack_of;         /* stacks by their leaf, of the first n_stack_of: symbols_stack_at */
	uint32_t n_stack_of;
	uint32_t indexed[SYMBOLS_TABLES]; /* entries below are in the maps, those beyond were loaded: symbols_load.c */
	struct sym_places *places; /* by hash_location: what was met there last; a cache */
	size_t places_mask;    /* their number - 1 */
	_Atomic(struct calltree *) calls;
};

/* item is the entry's size again, where it is known at compile time. */
static inline void *chunked_at(const struct chunked *c, uint32_t i, size_t item)
{
	uint64_t x = (uint64_t)i + (1u << FIRST_BITS);
	unsigned top = 63 - (unsigned)__builtin_clzll(x);
	return c->blocks[top - FIRST_BITS] + (x ^ UINT64_C(1) << top) * item;
}

/* symbols_read.c: the new entry, zeroed; its id is the old count. */
void *symbols_chunked_add(struct symbols *s, struct chunked *c);
/* The same in two steps, for entries that others look through up to the count: room for it, zeroed, and that it is there. */
void *symbols_chunked_room(struct symbols *s, struct chunked *c);
void symbols_chunked_publish(struct chunked *c);
/* symbols_load.c: brings a table's map up to what was loaded; with the pauses of symbols_index, or NULL. */
void symbols_index_table(struct symbols *s, enum symbols_table t, const struct symbols_pause *pause);

/* That a node is its parent's child. */
void symbols_index_node(struct symbols *s, uint32_t parent, uint32_t location, uint32_t id);
/* That a column is this one. A stack without labels knows its column itself. */
void symbols_index_column(struct symbols *s, uint32_t stack, uint32_t label_set, uint32_t id);

/* Before a map is asked. */
static inline void need_index(struct symbols *s, enum symbols_table t)
{
	if (UNLIKELY(s->indexed[t] != s->tables[t].n))
		symbols_index_table(s, t, NULL);
}

/* A hash of words: each pair is combined into the state by a 128-bit product, whose halves are combined. The seeds are
 * secret, so what makes a factor zero, or two inputs collide, cannot be aimed at. */
static inline uint64_t mix(const struct symbols *s, uint64_t h, uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)(a ^ h ^ s->seed) * (b ^ s->seed2);
	return (uint64_t)(m >> 64) ^ (uint64_t)m;
}

static inline uint64_t load_bytes(const void *p, size_t n)
{
	uint64_t w = 0;
	memcpy(&w, p, n);
	return w;
}

/* Names and stacks vary in length without a pattern, so no processor predicts the end of a loop over them. So inputs of
 * 16 to 128 bytes are read as four or eight blocks of 16, of which the last overlap. */
enum { BLOCK = 16, EIGHT_BLOCKS = 8 * BLOCK };

static inline bool is_middling(size_t n)
{
	return n >= BLOCK && n <= EIGHT_BLOCKS;
}

static inline unsigned blocks_of(size_t n)
{
	return n > EIGHT_BLOCKS / 2 ? 8 : 4;
}

/* The hash of bytes. */
static inline uint64_t hash_text(const struct symbols *s, const void *bytes, size_t n)
{
	const char *p = bytes;
	uint64_t h = n, a = 0, b = 0;
	if (LIKELY(is_middling(n))) {
		for (unsigned i = 0; i < blocks_of(n); i++) {
			size_t at = MIN((size_t)i * BLOCK, n - BLOCK);
			h = mix(s, h, load_bytes(p + at, 8), load_bytes(p + at + 8, 8));
		}
		return h;
	}
	for (; n > BLOCK; n -= BLOCK, p += BLOCK)
		h = mix(s, h, load_bytes(p, 8), load_bytes(p + 8, 8));
	if (n >= 8) {
		a = load_bytes(p, 8);
		b = load_bytes(p + n - 8, 8);
	} else if (n >= 4) {
		a = load_bytes(p, 4);
		b = load_bytes(p + n - 4, 4);
	} else if (n) {
		a = (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint8_t)p[n - 1];
	}
	return mix(s, mix(s, h, a, b), h, 0);
}

typedef uint64_t two64 __attribute__((vector_size(16)));

static inline bool same_text(const void *a, const void *b, size_t n)
{
	if (UNLIKELY(!is_middling(n)))
		return !n || memcmp(a, b, n) == 0;
	two64 differ = { 0, 0 };
	for (unsigned i = 0; i < blocks_of(n); i++) {
		size_t at = MIN((size_t)i * BLOCK, n - BLOCK);
		two64 x, y;
		memcpy(&x, (const char *)a + at, sizeof x);
		memcpy(&y, (const char *)b + at, sizeof y);
		differ |= x ^ y;
	}
	return !(differ[0] | differ[1]);
}

static inline uint64_t hash_string(const struct symbols *s, struct view v)
{
	return hash_text(s, v.ptr, v.len);
}

static inline bool same_string(struct view a, struct view b)
{
	return a.len == b.len && same_text(a.ptr, b.ptr, a.len);
}

static inline uint64_t hash_function(const struct symbols *s, const struct sym_function *f)
{
	return mix(s, mix(s, 0, (uint64_t)f->name << 32 | f->system_name, f->filename), (uint64_t)f->start_line, 0);
}

static inline uint64_t hash_location(const struct symbols *s, const struct sym_location *l)
{
	return mix(s, 0, l->address, (uint64_t)l->mapping << 1 | l->is_folded);
}

/* One line after the other: a sum of them could be made to collide. */
static inline uint64_t hash_line(const struct symbols *s, uint64_t h, const struct sym_line *l)
{
	h = mix(s, h, l->function, (uint64_t)l->line);
	return UNLIKELY(l->column) ? mix(s, ~h, (uint64_t)l->column, 0) : h;
}

static inline uint64_t hash_stack(const struct symbols *s, const uint32_t *locations, size_t n)
{
	return hash_text(s, locations, n * sizeof *locations);
}

static inline uint64_t hash_node(const struct symbols *s, uint32_t parent, uint32_t location)
{
	return mix(s, 0, parent, location);
}

static inline uint64_t page_round(uint64_t size)
{
	return (size + 4095) & ~UINT64_C(4095);
}

static inline uint64_t hash_mapping(const struct symbols *s, const struct sym_mapping *m)
{
	return mix(s, mix(s, 0, m->offset, m->build_id ? m->build_id : m->file), page_round(m->size), 0);
}

static inline uint64_t hash_column(const struct symbols *s, uint32_t stack, uint32_t label_set)
{
	return mix(s, 0, stack, label_set);
}

#define ENTRY(s, table, type, id) ((type *)chunked_at(&(s)->tables[table], (id), sizeof(type)))

#define KNOWN_STACK(s, id) ((struct known_stack *)chunked_at(&(s)->known_stacks, (id), sizeof(struct known_stack)))

#define KNOWN_NODE(s, id) ((struct known_node *)chunked_at(&(s)->known_nodes, (id), sizeof(struct known_node)))

/* Interning with the hash at hand. */
uint32_t symbols_intern_string(struct symbols *s, struct view v, uint64_t h);
uint32_t symbols_intern_function(struct symbols *s, const struct sym_function *f, uint64_t h);
uint32_t symbols_intern_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint64_t h);
uint32_t symbols_intern_stack(struct symbols *s, const uint32_t *locations, size_t n, uint64_t h);
/* A stack's depth, and its locations in a row. Walking from the leaf to the root takes a load at each step that waits for the
 * previous one, and most stacks of a profile are known. So a stack that is requested again keeps its locations. A dictionary
 * that is only read never pays for that. */
const uint32_t *symbols_make_row(struct symbols *s, uint32_t stack);
static inline const uint32_t *symbols_row(struct symbols *s, uint32_t stack)
{
	const uint32_t *row = KNOWN_STACK(s, stack)->row;
	return LIKELY(row) ? row : symbols_make_row(s, stack);
}

#endif
