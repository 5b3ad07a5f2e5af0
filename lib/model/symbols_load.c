/* SPDX-License-Identifier: Apache-2.0 */
/* A dictionary from storage: entries that are known to be new are appended to their tables, and the indexes stay behind. For a day
 * with two million nodes they would take most of the time and memory, and readers never need them. An insertion or look-up first
 * completes the index of that table (need_index), under the writer's lock.
 *
 *	table      0 ──────────── indexed ──────────── n
 *	           in its map, or lost    only loaded
 *
 * Lost entries are in no index; they are below `indexed` as soon as they exist. */
#include <stdlib.h>

#include "base/alloc.h"
#include "model/symbols_internal.h"

#define AT_ONCE 4096 /* entries between pauses */

/* ---- loading ---- */

uint32_t symbols_load_mapping(struct symbols *s, const struct sym_mapping *m)
{
	/* symbols_main_marks looks through all of them, beside the writer */
	*(struct sym_mapping *)symbols_chunked_room(s, &s->tables[SYMBOLS_MAPPINGS]) = *m;
	symbols_chunked_publish(&s->tables[SYMBOLS_MAPPINGS]);
	return s->tables[SYMBOLS_MAPPINGS].n - 1;
}

uint32_t symbols_load_function(struct symbols *s, const struct sym_function *f)
{
	*(struct sym_function *)symbols_chunked_add(s, &s->tables[SYMBOLS_FUNCTIONS]) = *f;
	return s->tables[SYMBOLS_FUNCTIONS].n - 1;
}

uint32_t symbols_load_location(struct symbols *s, const struct sym_location *l, const struct sym_line *lines)
{
	uint32_t first_line = s->tables[SYMBOLS_LINES].n;
	for (uint32_t i = 0; i < l->n_lines; i++)
		*(struct sym_line *)symbols_chunked_add(s, &s->tables[SYMBOLS_LINES]) = lines[i];
	struct sym_location *e = symbols_chunked_add(s, &s->tables[SYMBOLS_LOCATIONS]);
	*e = *l;
	e->first_line = first_line;
	return s->tables[SYMBOLS_LOCATIONS].n - 1;
}

uint32_t symbols_load_node(struct symbols *s, uint32_t parent, uint32_t location)
{
	*(struct sym_node *)symbols_chunked_add(s, &s->tables[SYMBOLS_NODES]) = (struct sym_node){ parent, location };
	return s->tables[SYMBOLS_NODES].n - 1;
}

uint32_t symbols_load_stack(struct symbols *s, uint32_t node)
{
	*(uint32_t *)symbols_chunked_add(s, &s->tables[SYMBOLS_STACKS]) = node;
	symbols_chunked_add(s, &s->known_stacks);
	return s->tables[SYMBOLS_STACKS].n - 1;
}

uint32_t symbols_load_column(struct symbols *s, uint32_t stack, uint32_t label_set)
{
	*(struct sym_column *)symbols_chunked_add(s, &s->tables[SYMBOLS_COLUMNS]) =
		(struct sym_column){ stack, label_set, symbols_stack_node(s, stack) };
	return s->tables[SYMBOLS_COLUMNS].n - 1;
}

/* ---- indexes ---- */

void symbols_index_column(struct symbols *s, uint32_t stack, uint32_t label_set, uint32_t id)
{
	if (label_set)
		map_insert(&s->columns, hash_column(s, stack, label_set), id);
	else
		KNOWN_STACK(s, stack)->plain_column = id + 1;
}

static void index_location(struct symbols *s, uint32_t id)
{
	const struct sym_location *l = ENTRY(s, SYMBOLS_LOCATIONS, struct sym_location, id);
	uint64_t h = hash_location(s, l);
	for (uint32_t i = 0; i < l->n_lines; i++)
		h = hash_line(s, h, symbols_get_line(s, l, i));
	map_insert(&s->locations, h, id);
}

void symbols_index_node(struct symbols *s, uint32_t parent, uint32_t location, uint32_t id)
{
	symbols_chunked_add(s, &s->known_nodes);
	struct known_node *k = KNOWN_NODE(s, parent);
	if (k->last && !k->many) {
		map_insert(&s->nodes, hash_node(s, parent, ENTRY(s, SYMBOLS_NODES, struct sym_node, k->last)->location), k->last);
		k->many = true;
	}
	if (k->many)
		map_insert(&s->nodes, hash_node(s, parent, location), id);
	k->last = id;
}

static void index_stack(struct symbols *s, uint32_t id)
{
	uint32_t few[256], *locations = few;
	size_t n = symbols_stack_locations(s, id, few, ARRAY_LEN(few));
	if (n > ARRAY_LEN(few)) {
		locations = xreallocarray(NULL, n, sizeof *locations);
		symbols_stack_locations(s, id, locations, n);
	}
	map_insert(&s->stacks, hash_stack(s, locations, n), id);
	if (locations != few)
		free(locations);
}

static void index_entry(struct symbols *s, enum symbols_table t, uint32_t id)
{
	switch (t) {
	case SYMBOLS_MAPPINGS: map_insert(&s->mappings, hash_mapping(s, ENTRY(s, t, struct sym_mapping, id)), id); break;
	case SYMBOLS_FUNCTIONS: map_insert(&s->functions, hash_function(s, ENTRY(s, t, struct sym_function, id)), id); break;
	case SYMBOLS_LOCATIONS: index_location(s, id); break;
	case SYMBOLS_NODES: {
		const struct sym_node *n = ENTRY(s, t, struct sym_node, id);
		symbols_index_node(s, n->parent, n->location, id);
		break;
	}
	case SYMBOLS_STACKS: index_stack(s, id); break;
	case SYMBOLS_COLUMNS: {
		const struct sym_column *c = ENTRY(s, t, struct sym_column, id);
		symbols_index_column(s, c->stack, c->label_set, id);
		break;
	}
	default: break; /* strings and label sets are interned, lines have none */
	}
}

/* The tables whose entries are in their map. */
static struct map *map_of(struct symbols *s, enum symbols_table t)
{
	switch (t) {
	case SYMBOLS_MAPPINGS: return &s->mappings;
	case SYMBOLS_FUNCTIONS: return &s->functions;
	case SYMBOLS_LOCATIONS: return &s->locations;
	case SYMBOLS_STACKS: return &s->stacks;
	default: return NULL;
	}
}

/* Others may go on with it in a pause. */
void symbols_index_table(struct symbols *s, enum symbols_table t, const struct symbols_pause *pause)
{
	struct map *m = map_of(s, t);
	if (m && s->indexed[t] < s->tables[t].n)
		map_reserve(m, m->n + (s->tables[t].n - s->indexed[t])); /* once, not step by step */
	for (uint32_t k = 1; s->indexed[t] < s->tables[t].n; k++) {
		index_entry(s, t, s->indexed[t]);
		s->indexed[t]++;
		if (pause && k % AT_ONCE == 0)
			pause->fn(pause->arg);
	}
}

void symbols_index(struct symbols *s, const struct symbols_pause *pause)
{
	for (enum symbols_table t = 0; t < SYMBOLS_TABLES; t++)
		symbols_index_table(s, t, pause);
}
