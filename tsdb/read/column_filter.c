/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/column_filter.h"

#include "base/alloc.h"
#include "tsdb/version/late_names.h"

static int location_hits(const struct source_frame_filter *f, const struct symbols *s, const struct sym_location *l, struct err *e)
{
	uint32_t n = f->leaf_only || !l->n_lines ? 1 : l->n_lines;
	int rc = 0;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = f->frame(f->arg, s, l, i, e);
	return rc;
}

/* By location; NULL after an error. */
static uint8_t *all_locations(const struct source_frame_filter *f, const struct symbols *s, uint32_t n, struct err *e)
{
	uint8_t *hits = xmalloc(n + 1);
	for (uint32_t i = 0; i < n; i++) {
		int rc = location_hits(f, s, symbols_get_location(s, i), e);
		if (rc < 0) {
			free(hits);
			return NULL;
		}
		hits[i] = (uint8_t)rc;
	}
	return hits;
}

/* Per node: whether its location hits, or (not leaf_only) any on the way to the root does. Parents come first. NULL after an
 * error. */
static uint8_t *node_hits(const struct source_frame_filter *f, const struct symbols *s, const struct late_names *names,
			  uint32_t n_locations, uint32_t n, struct err *e)
{
	uint8_t *location = all_locations(f, s, n_locations, e), below = !f->leaf_only;
	if (!location)
		return NULL;
	uint8_t *node = xcalloc(n, 1);
	for (size_t i = 0; names && i < names->v.n; i++)
		if (names->v.v[i].location < n_locations && names->v.v[i].as < n_locations)
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

uint64_t *column_filter_bits(const struct source_frame_filter *f, struct partition *p, const struct late_names *names, uint32_t *ret_n,
			     struct err *e)
{
	/* Entries below these counts never change or move, so a slow filter delays no writer. */
	rwlock_read(&p->dict_lock);
	uint32_t locations = symbols_count(p->symbols, SYMBOLS_LOCATIONS), nodes = symbols_count(p->symbols, SYMBOLS_NODES);
	uint32_t n = symbols_count(p->symbols, SYMBOLS_COLUMNS);
	rwlock_unlock(&p->dict_lock);
	uint8_t *node = node_hits(f, p->symbols, names, locations, nodes, e);
	if (!node)
		return NULL;
	uint64_t *match = xcalloc(n / 64 + 1, sizeof *match);
	const struct sym_column *run = NULL;
	for (uint32_t c = 0, first = 0, end = 0; c < n; c++) {
		if (c >= end)
			run = symbols_column_run(p->symbols, c, &first, &end);
		match[c / 64] |= (uint64_t)node[run[c - first].node] << c % 64;
	}
	free(node);
	*ret_n = n;
	return match;
}
