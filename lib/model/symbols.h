/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols: a growing dictionary of strings, mappings, functions, locations, stacks and sample label sets, each
 * thing once, under a dense id. A storage partition has one, a query has one, the codec's encoder reads one.
 *
 * Identity is google/pprof's merge key:
 *	function = (start_line, name, system_name, filename)
 *	mapping  = (size rounded up to 4 KiB, offset, build id, or else file name)
 *	location = (mapping, address - mapping.start, all lines with columns, is_folded); without a mapping the address
 *
 * Stacks are a tree of parent pointers, from the root's side: node 0 is the empty stack; a node is (parent,
 * location). Parent ids are smaller than their children's, so folding is one pass over the array from its end. A
 * stack id names a node with a value of its own (its leaf). A column is a (stack, label set) pair: what a sample
 * of a profile is keyed by.
 *
 * Threads: one writer (under the caller's lock). Readers on other threads may read any entry whose id is below a
 * count that was published after the entry was written. Entries never move (chunked arrays) and never change. */
#ifndef PYRRHA_MODEL_SYMBOLS_H
#define PYRRHA_MODEL_SYMBOLS_H

#include "base/err.h"
#include "model/profile.h"

struct symbols;

struct sym_mapping {
	uint64_t start;  /* of the first one seen, so that an export has addresses; not part of the identity */
	uint64_t size, offset;
	uint32_t file, build_id; /* string ids */
	uint8_t has;     /* SYM_HAS_* */
};
enum { SYM_HAS_FUNCTIONS = 1, SYM_HAS_FILENAMES = 2, SYM_HAS_LINE_NUMBERS = 4, SYM_HAS_INLINE_FRAMES = 8 };

struct sym_function {
	uint32_t name, system_name, filename; /* string ids */
	int64_t start_line;
};

struct sym_line {
	uint32_t function; /* id + 1, 0 = none */
	int64_t line, column;
};

struct sym_location {
	uint64_t address; /* relative to the mapping's start; without a mapping unchanged */
	uint32_t mapping; /* id + 1, 0 = none */
	uint32_t first_line, n_lines;
	bool is_folded;
};

struct sym_node {
	uint32_t parent;   /* node id, smaller than this one's */
	uint32_t location; /* location id; of node 0 nothing */
};

/* A sample label; label sets are sorted by key, then value. */
struct sym_label {
	uint32_t key; /* string ids */
	uint32_t str;
	uint32_t unit;
	bool is_num;
	int64_t num;
};

struct sym_column {
	uint32_t stack;
	uint32_t label_set; /* 0 = none */
	uint32_t node;      /* leaf of the stack */
};

struct symbols *symbols_new(void);
struct symbols *symbols_ref(struct symbols *s);
void symbols_unref(struct symbols *s);
/* Bytes of memory held. */
size_t symbols_bytes(const struct symbols *s);

/* Ids of mappings, see symbols_main_marks. */
struct sym_marks {
	uint32_t *v;
	size_t n, cap;
};

/* Interning: the id of the thing, new or not. Ids are dense from 0 in order of insertion; string 0 is "", stack 0
 * is the empty stack, label set 0 the empty set, column 0 is (0, 0).
 * A table holds at most 2^32-2 entries (asserted): callers with unbounded input must have a budget. */
uint32_t symbols_string(struct symbols *s, struct view v);
uint32_t symbols_mapping(struct symbols *s, const struct sym_mapping *m);
uint32_t symbols_function(struct symbols *s, const struct sym_function *f);
/* Says that the binary of a mapping is the main binary of some profile (its first mapping). Kept as an entry of the mappings
 * that no location refers to: of that file and build id, size 0, offset SYM_MAIN_OFFSET. A binary without a name is not
 * marked. */
#define SYM_MAIN_OFFSET UINT64_MAX
void symbols_mark_main(struct symbols *s, const struct sym_mapping *m);
/* Appends the ids of these entries to ret, from id `from` on; returns the id to go on from when there are more. */
uint32_t symbols_main_marks(const struct symbols *s, uint32_t from, struct sym_marks *ret);
/* Is the mapping's binary marked? */
bool symbols_is_main(const struct symbols *s, const struct sym_marks *marks, const struct sym_mapping *m);
uint32_t symbols_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines);
/* locations[0] is the leaf, as in a profile. */
uint32_t symbols_stack(struct symbols *s, const uint32_t *locations, size_t n);
/* The same in two steps, for callers that store nodes: the child of a node, and the stack whose leaf is a
 * node. */
uint32_t symbols_node(struct symbols *s, uint32_t parent, uint32_t location);
uint32_t symbols_stack_at(struct symbols *s, uint32_t node);
/* The same three for callers that insert in one order again and again: guess is the id that follows the one before, and is right as a rule, so that
 * nothing is looked up. Any number may be guessed. Not for dictionaries with lost entries. */
uint32_t symbols_node_near(struct symbols *s, uint32_t guess, uint32_t parent, uint32_t location);
uint32_t symbols_stack_near(struct symbols *s, uint32_t guess, uint32_t node);
uint32_t symbols_column_near(struct symbols *s, uint32_t guess, uint32_t stack, uint32_t label_set);
uint32_t symbols_label_set(struct symbols *s, const struct sym_label *labels, size_t n);
uint32_t symbols_column(struct symbols *s, uint32_t stack, uint32_t label_set);

/* Look-ups that never add: false if it is not there. Strings and label sets: any thread under the caller's lock; the others are the
 * writer's, for they index what was loaded. */
bool symbols_find_string(const struct symbols *s, struct view v, uint32_t *ret);
bool symbols_find_mapping(struct symbols *s, const struct sym_mapping *m, uint32_t *ret);
bool symbols_find_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines, uint32_t *ret);
bool symbols_find_stack(struct symbols *s, const uint32_t *locations, size_t n, uint32_t *ret);
bool symbols_find_label_set(const struct symbols *s, const struct sym_label *labels, size_t n, uint32_t *ret);
bool symbols_find_column(struct symbols *s, uint32_t stack, uint32_t label_set, uint32_t *ret);

/* Loading: adds a stored dictionary entry by entry, each of them new. Nothing is looked up or hashed: a day that is only read never
 * needs its indexes. They are made by whoever interns next, or looks up. Strings and label sets are interned always: they are few,
 * and asked for by readers. Returns the id. (symbols_load.c) */
uint32_t symbols_load_mapping(struct symbols *s, const struct sym_mapping *m);
uint32_t symbols_load_function(struct symbols *s, const struct sym_function *f);
uint32_t symbols_load_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines);
uint32_t symbols_load_node(struct symbols *s, uint32_t parent, uint32_t location);
uint32_t symbols_load_stack(struct symbols *s, uint32_t node);
uint32_t symbols_load_column(struct symbols *s, uint32_t stack, uint32_t label_set);

/* Counts (ids are below them) and entries. */
enum symbols_table {
	SYMBOLS_STRINGS, SYMBOLS_MAPPINGS, SYMBOLS_FUNCTIONS, SYMBOLS_LINES, SYMBOLS_LOCATIONS, SYMBOLS_NODES,
	SYMBOLS_STACKS, SYMBOLS_LABEL_SETS, SYMBOLS_COLUMNS, SYMBOLS_TABLES
};
/* On a thread beside the writer: how many there were a moment ago; an entry of such an id may still be being written, unless it is a
 * mapping. */
uint32_t symbols_count(const struct symbols *s, enum symbols_table t);
/* Adds an entry "(lost)" that interning never finds. It replaces one that storage could not read, so that later ids
 * stay unchanged. */
void symbols_add_lost(struct symbols *s, enum symbols_table t);
struct view symbols_get_string(const struct symbols *s, uint32_t id);
const struct sym_mapping *symbols_get_mapping(const struct symbols *s, uint32_t id);
const struct sym_function *symbols_get_function(const struct symbols *s, uint32_t id);
const struct sym_location *symbols_get_location(const struct symbols *s, uint32_t id);
/* Line i of a location. */
const struct sym_line *symbols_get_line(const struct symbols *s, const struct sym_location *l, uint32_t i);
const struct sym_node *symbols_get_node(const struct symbols *s, uint32_t node);
/* The leaf node of a stack. */
uint32_t symbols_stack_node(const struct symbols *s, uint32_t stack);
/* Labels of a set; *ret_n of them. */
const struct sym_label *symbols_get_label_set(const struct symbols *s, uint32_t id, size_t *ret_n);
const struct sym_column *symbols_get_column(const struct symbols *s, uint32_t id);
/* For walks over many entries: the entries around id that are adjacent in memory, [*first, *end), not all of them below the
 * count. Returns the first's address. */
const struct sym_node *symbols_node_run(const struct symbols *s, uint32_t id, uint32_t *first, uint32_t *end);
const struct sym_column *symbols_column_run(const struct symbols *s, uint32_t id, uint32_t *first, uint32_t *end);
/* Locations of a stack, leaf first, into out (room for max); returns their number, which may exceed max. */
size_t symbols_stack_locations(const struct symbols *s, uint32_t stack, uint32_t *out, size_t max);

/* Called every few thousand entries while a profile is imported, so that the holder of a lock can release it for a moment.
 * They may read and write the dictionary meanwhile. */
struct symbols_pause {
	void (*fn)(void *arg);
	void *arg;
};

/* Indexes everything that was loaded, as the next insertion would do without pauses. pause may be NULL. */
void symbols_index(struct symbols *s, const struct symbols_pause *pause);

/* The column of every sample of a flat profile, interned: out holds p->n_samples ids. Work space comes from p's
 * arena. ERR_LIMIT when that arena's cap is reached. pause may be NULL. */
int symbols_add_profile(struct symbols *s, struct profile *p, uint32_t *out, const struct symbols_pause *pause, struct err *e) MUST_USE;
/* Bytes that symbols_add_profile(s, p, ...) or symbols_fit_profile(s, p, ...) allocates from p's arena, at most. */
size_t symbols_work_bytes(const struct profile *p);

/* The same with a limit on new entries (symbols_room.c): an unknown stack beyond the limit becomes "(other)", so that
 * sums stay unchanged. *room becomes what remains; *ret_other: the number of such samples. */
struct symbols_room {
	size_t functions;
	size_t locations; /* and mappings */
	size_t stacks;    /* with label sets: columns */
	size_t bytes;     /* as symbols_cost counts them */
};
int symbols_fit_profile(struct symbols *s, struct profile *p, struct symbols_room *room, uint32_t *out, uint32_t *ret_other,
			const struct symbols_pause *pause, struct err *e) MUST_USE;
/* Its content in the units of room. */
struct symbols_room symbols_used(const struct symbols *s);
/* Bytes of what is in it, without room to grow: it ascends evenly. */
size_t symbols_cost(const struct symbols *s);
/* The most that a profile may add to that; it is not looked through. */
size_t symbols_most_cost(const struct profile *p);

/* Its calls, made when first asked for; borrowed. Any thread. */
struct calltree;
struct calltree *symbols_calls(struct symbols *s);

/* Translation from one dictionary to another, memoised: what was met once costs an array read. `from` may grow meanwhile. */
struct symbols_map;
/* What is kept of a location. Of two builds of a program nearly all addresses differ and nearly no names. */
enum symbols_detail {
	SYMBOLS_WHOLE,
	SYMBOLS_NAMES, /* what readouts and flame graphs show: names, files, lines and start lines of its functions, its binary's file; of a
			* frame without a name the address in that file. Locations that differ in nothing else are one */
};
struct symbols_map *symbols_map_new(const struct symbols *from, struct symbols *to, enum symbols_detail detail);
void symbols_map_free(struct symbols_map *m);
/* Bytes of memory held. */
size_t symbols_map_bytes(const struct symbols_map *m);
/* From now on a location (ids of `from`) is translated as if it were another one; before stacks with it are. */
void symbols_map_location_as(struct symbols_map *m, uint32_t location, uint32_t as);
/* Ids of `from` to ids of `to`, where they are added if they are not there. */
uint32_t symbols_map_mapping(struct symbols_map *m, uint32_t id);
uint32_t symbols_map_function(struct symbols_map *m, uint32_t id);
uint32_t symbols_map_location(struct symbols_map *m, uint32_t id);
uint32_t symbols_map_stack(struct symbols_map *m, uint32_t id);
uint32_t symbols_map_label_set(struct symbols_map *m, uint32_t id);
uint32_t symbols_map_column(struct symbols_map *m, uint32_t id);
/* A copy of what is known of columns, by id of `from`: 1 + the id in `to`, 0: it was not asked for. Returns how many `from` has; the caller frees *ret. */
uint32_t symbols_map_columns(const struct symbols_map *m, uint32_t **ret);

#endif
