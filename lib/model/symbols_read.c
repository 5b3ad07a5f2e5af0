/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the dictionary, and what is read from them. Entries are in chunked arrays: block k holds 2^(k+FIRST_BITS) entries and
 * never moves, so readers need no lock below a published count. */
#include "model/symbols_internal.h"

#include <assert.h>

#include "base/alloc.h"

void *symbols_chunked_room(struct symbols *s, struct chunked *c)
{
	assert(c->n < UINT32_MAX - 1);
	uint64_t x = (uint64_t)c->n + (1u << FIRST_BITS);
	unsigned block = 63 - (unsigned)__builtin_clzll(x) - FIRST_BITS;
	if (!c->blocks[block]) {
		size_t bytes = ((size_t)1 << (block + FIRST_BITS)) * c->item;
		c->blocks[block] = xcalloc(1, bytes);
		s->bytes += bytes;
	}
	return chunked_at(c, c->n, c->item);
}

void symbols_chunked_publish(struct chunked *c)
{
	__atomic_store_n(&c->n, c->n + 1, __ATOMIC_RELEASE); /* other threads may count */
}

void *symbols_chunked_add(struct symbols *s, struct chunked *c)
{
	void *entry = symbols_chunked_room(s, c);
	symbols_chunked_publish(c);
	return entry;
}

uint32_t symbols_count(const struct symbols *s, enum symbols_table t)
{
	return __atomic_load_n(&s->tables[t].n, __ATOMIC_ACQUIRE);
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

/* The block of a chunked array that has entry i. */
static const void *chunked_run(const struct chunked *c, uint32_t i, uint32_t *first, uint32_t *end)
{
	uint64_t x = (uint64_t)i + (1u << FIRST_BITS);
	unsigned top = 63 - (unsigned)__builtin_clzll(x);
	*first = (uint32_t)((UINT64_C(1) << top) - (1u << FIRST_BITS));
	*end = (uint32_t)MIN((UINT64_C(2) << top) - (1u << FIRST_BITS), UINT32_MAX);
	return c->blocks[top - FIRST_BITS];
}

const struct sym_node *symbols_node_run(const struct symbols *s, uint32_t id, uint32_t *first, uint32_t *end)
{
	return chunked_run(&s->tables[SYMBOLS_NODES], id, first, end);
}

const struct sym_column *symbols_column_run(const struct symbols *s, uint32_t id, uint32_t *first, uint32_t *end)
{
	return chunked_run(&s->tables[SYMBOLS_COLUMNS], id, first, end);
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
