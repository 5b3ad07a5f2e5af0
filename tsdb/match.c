/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/match.h"

#include "base/alloc.h"
#include "tsdb/names.h"

static bool location_hits(const struct source_frame_filter *f, const struct symbols *s, const struct sym_location *l)
{
	if (f->leaf_only || !l->n_lines)
		return f->frame(f->arg, s, l, 0);
	for (uint32_t i = 0; i < l->n_lines; i++)
		if (f->frame(f->arg, s, l, i))
			return true;
	return false;
}

/* Per node: whether its location hits, or (not leaf_only) any on the way to the root does. Parents come first. */
static uint8_t *node_hits(const struct source_frame_filter *f, const struct symbols *s, const struct names *names)
{
	uint32_t n_locations = symbols_count(s, SYMBOLS_LOCATIONS), n = symbols_count(s, SYMBOLS_NODES);
	uint8_t *location = xmalloc(n_locations + 1), *node = xcalloc(n, 1), below = !f->leaf_only;
	for (uint32_t i = 0; i < n_locations; i++)
		location[i] = location_hits(f, s, symbols_get_location(s, i));
	for (size_t i = 0; names && i < names->v.n; i++)
		if (names->v.v[i].location < n_locations)
			location[names->v.v[i].location] = location[names->v.v[i].as];
	const struct sym_node *run = NULL;
	for (uint32_t i = 1, first = 0, end = 0; i < n; i++) {
		if (i >= end)
			run = symbols_node_run(s, i, &first, &end);
		const struct sym_node *x = &run[i - first];
		node[i] = location[x->location] | (node[x->parent] & below);
	}
	free(location);
	return node;
}

uint64_t *match_columns(const struct source_frame_filter *f, struct partition *p, const struct names *names, uint32_t *ret_n)
{
	pthread_rwlock_rdlock(&p->dict_lock);
	uint8_t *node = node_hits(f, p->symbols, names);
	uint32_t n = symbols_count(p->symbols, SYMBOLS_COLUMNS);
	uint64_t *match = xcalloc(n / 64 + 1, sizeof *match);
	const struct sym_column *run = NULL;
	for (uint32_t c = 0, first = 0, end = 0; c < n; c++) {
		if (c >= end)
			run = symbols_column_run(p->symbols, c, &first, &end);
		match[c / 64] |= (uint64_t)node[run[c - first].node] << c % 64;
	}
	pthread_rwlock_unlock(&p->dict_lock);
	free(node);
	*ret_n = n;
	return match;
}
