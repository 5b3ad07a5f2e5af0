/* SPDX-License-Identifier: Apache-2.0 */
/* Translation from one dictionary to another, memoised by id. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "model/symbols_internal.h"

struct symbols_map {
	const struct symbols *from;
	struct symbols *to;
	enum symbols_detail detail;
	struct { uint32_t *id; uint32_t n; } memo[SYMBOLS_TABLES]; /* id + 1 in `to`; 0 = not met */
	uint32_t *as, n_as; /* by location: 1 + the one that it is translated as; 0 = itself */
	struct sym_marks mains; /* of `from`, as far as they were looked for */
	uint32_t mains_to;
	VEC(uint32_t) path;
	VEC(struct sym_line) lines;
	VEC(struct sym_label) labels;
};

struct symbols_map *symbols_map_new(const struct symbols *from, struct symbols *to, enum symbols_detail detail)
{
	struct symbols_map *m = NEW(struct symbols_map);
	m->from = from;
	m->to = to;
	m->detail = detail;
	return m;
}

void symbols_map_free(struct symbols_map *m)
{
	if (!m)
		return;
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		free(m->memo[t].id);
	free(m->as);
	vec_free(&m->mains);
	vec_free(&m->path);
	vec_free(&m->lines);
	vec_free(&m->labels);
	free(m);
}

size_t symbols_map_bytes(const struct symbols_map *m)
{
	size_t ids = (size_t)m->n_as + m->mains.cap + m->path.cap;
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		ids += m->memo[t].n;
	return sizeof *m + ids * sizeof(uint32_t) + m->lines.cap * sizeof *m->lines.v + m->labels.cap * sizeof *m->labels.v;
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

uint32_t symbols_map_mapping(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_MAPPINGS, id);
	if (!*to) {
		struct sym_mapping x = *symbols_get_mapping(m->from, id);
		if (m->detail == SYMBOLS_NAMES)
			return (*to = symbols_mapping(m->to, &(struct sym_mapping){ .file = map_string(m, x.file) }) + 1) - 1;
		m->mains_to = symbols_main_marks(m->from, m->mains_to, &m->mains);
		bool main = symbols_is_main(m->from, &m->mains, &x);
		x.file = map_string(m, x.file);
		x.build_id = map_string(m, x.build_id);
		*to = symbols_mapping(m->to, &x) + 1;
		if (main)
			symbols_mark_main(m->to, &x);
	}
	return *to - 1;
}

uint32_t symbols_map_function(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_FUNCTIONS, id);
	if (!*to) {
		struct sym_function x = *symbols_get_function(m->from, id);
		x.name = map_string(m, x.name);
		x.system_name = m->detail == SYMBOLS_NAMES ? 0 : map_string(m, x.system_name);
		x.filename = map_string(m, x.filename);
		*to = symbols_function(m->to, &x) + 1;
	}
	return *to - 1;
}

/* Whether none of its frames is called by its address. */
static bool map_is_named(const struct symbols *s, const struct sym_location *l)
{
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *line = symbols_get_line(s, l, i);
		if (!line->function || !symbols_get_function(s, line->function - 1)->name)
			return false;
	}
	return l->n_lines > 0;
}

/* A location of which only what a readout shows is left. An address is one in the file, so that the mapping's place does not matter. */
static void map_reduce(struct symbols_map *m, struct sym_location *x)
{
	const struct sym_mapping *mapping = x->mapping ? symbols_get_mapping(m->from, x->mapping - 1) : NULL;
	bool named = map_is_named(m->from, x);
	x->address = named ? 0 : x->address + (mapping ? mapping->offset : 0);
	x->is_folded = false;
	for (size_t i = 0; i < m->lines.n; i++)
		m->lines.v[i].column = 0;
}

static NOINLINE uint32_t map_new_location(struct symbols_map *m, uint32_t id)
{
	struct sym_location x = *symbols_get_location(m->from, id);
	m->lines.n = 0;
	for (uint32_t i = 0; i < x.n_lines; i++) {
		struct sym_line line = *symbols_get_line(m->from, &x, i);
		line.function = line.function ? symbols_map_function(m, line.function - 1) + 1 : 0;
		vec_push(&m->lines, line);
	}
	if (m->detail == SYMBOLS_NAMES)
		map_reduce(m, &x);
	x.mapping = x.mapping ? symbols_map_mapping(m, x.mapping - 1) + 1 : 0;
	return symbols_location(m->to, &x, m->lines.v);
}

uint32_t symbols_map_location(struct symbols_map *m, uint32_t id)
{
	if (id < m->n_as && m->as[id])
		id = m->as[id] - 1;
	uint32_t *to = memo(m, SYMBOLS_LOCATIONS, id);
	if (UNLIKELY(!*to))
		*to = map_new_location(m, id) + 1;
	return *to - 1;
}

void symbols_map_location_as(struct symbols_map *m, uint32_t location, uint32_t as)
{
	uint32_t n_locations = symbols_count(m->from, SYMBOLS_LOCATIONS);
	if (location >= n_locations || as >= n_locations)
		return; /* names from elsewhere, of a dictionary of which entries are lost */
	if (location >= m->n_as) {
		uint32_t n = n_locations;
		m->as = xreallocarray(m->as, n, sizeof *m->as);
		memset(m->as + m->n_as, 0, (n - m->n_as) * sizeof *m->as);
		m->n_as = n;
	}
	m->as[location] = as + 1;
}

/* A node, with those above it that are new. Most of a stack is shared with others; looking up each frame in a large
 * dictionary would dominate a translation. */
static uint32_t map_node(struct symbols_map *m, uint32_t node)
{
	m->path.n = 0;
	for (; node && !*memo(m, SYMBOLS_NODES, node); node = symbols_get_node(m->from, node)->parent)
		vec_push(&m->path, node);
	uint32_t to = node ? *memo(m, SYMBOLS_NODES, node) - 1 : 0;
	while (m->path.n) {
		uint32_t x = m->path.v[--m->path.n];
		to = symbols_node(m->to, to, symbols_map_location(m, symbols_get_node(m->from, x)->location));
		*memo(m, SYMBOLS_NODES, x) = to + 1;
	}
	return to;
}

uint32_t symbols_map_stack(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_STACKS, id);
	if (!*to) {
		uint32_t node = map_node(m, symbols_stack_node(m->from, id));
		*to = symbols_stack_at(m->to, node) + 1;
	}
	return *to - 1;
}

uint32_t symbols_map_label_set(struct symbols_map *m, uint32_t id)
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

uint32_t symbols_map_column(struct symbols_map *m, uint32_t id)
{
	uint32_t *to = memo(m, SYMBOLS_COLUMNS, id);
	if (!*to) {
		const struct sym_column *c = symbols_get_column(m->from, id);
		uint32_t stack = symbols_map_stack(m, c->stack);
		*to = symbols_column(m->to, stack, symbols_map_label_set(m, c->label_set)) + 1;
	}
	return *to - 1;
}

uint32_t symbols_map_columns(const struct symbols_map *m, uint32_t **ret)
{
	uint32_t n = symbols_count(m->from, SYMBOLS_COLUMNS), known = m->memo[SYMBOLS_COLUMNS].n;
	*ret = xcalloc(n + 1, sizeof **ret);
	if (known)
		memcpy(*ret, m->memo[SYMBOLS_COLUMNS].id, MIN(n, known) * sizeof **ret);
	return n;
}
