/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/column_filter.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/frame_filter.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/late_names.h"

static int location_hits(struct frame_filter_run *r, const struct sym_location *l, struct err *e)
{
	uint32_t n = r->f->leaf_only || !l->n_lines ? 1 : l->n_lines;
	int rc = 0;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = frame_filter_run_match(r, l, i, e);
	return rc;
}

/* By location; NULL after an error. */
static uint8_t *all_locations(struct frame_filter_run *r, uint32_t n, struct err *e)
{
	uint8_t *hits = xmalloc(n + 1);
	for (uint32_t i = 0; i < n; i++) {
		int rc = location_hits(r, symbols_get_location(r->s, i), e);
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
static uint8_t *node_hits(struct frame_filter_run *r, const struct late_names *names, uint32_t n_locations, uint32_t n, struct err *e)
{
	uint8_t *location = all_locations(r, n_locations, e), below = !r->f->leaf_only;
	if (!location)
		return NULL;
	uint8_t *node = xcalloc(n, 1);
	for (size_t i = 0; names && i < names->v.n; i++)
		if (names->v.v[i].location < n_locations && names->v.v[i].as < n_locations)
			location[names->v.v[i].location] = location[names->v.v[i].as];
	const struct sym_node *run = NULL;
	for (uint32_t i = 1, first = 0, end = 0; i < n; i++) {
		if (i >= end)
			run = symbols_node_run(r->s, i, &first, &end);
		const struct sym_node *x = &run[i - first];
		node[i] = location[x->location] | (node[x->parent] & below);
	}
	free(location);
	return node;
}

/* A bit per column of s, of *ret_n columns. Entries below the counts never change or move, so a slow filter delays no writer. NULL after an error. */
static uint64_t *column_bits(const struct column_filters *f, const struct symbols *s, const struct dict_unions_size *size, const struct late_names *names,
			     struct err *e)
{
	struct frame_filter_run r;
	frame_filter_run_init(&r, f->f, s, f->regex);
	uint8_t *node = node_hits(&r, names, size->locations, size->nodes, e);
	frame_filter_run_release(&r);
	if (!node)
		return NULL;
	uint64_t *match = xcalloc(size->columns / 64 + 1, sizeof *match);
	const struct sym_column *run = NULL;
	for (uint32_t c = 0, first = 0, end = 0; c < size->columns; c++) {
		if (c >= end)
			run = symbols_column_run(s, c, &first, &end);
		match[c / 64] |= (uint64_t)node[run[c - first].node] << c % 64;
	}
	free(node);
	return match;
}

static uint64_t *partition_bits(const struct column_filters *f, struct partition *p, const struct late_names *names, uint32_t *ret_n, struct err *e)
{
	rwlock_read(&p->dict_lock);
	struct dict_unions_size size = dict_unions_size_of(p->symbols);
	rwlock_unlock(&p->dict_lock);
	*ret_n = size.columns;
	return column_bits(f, p->symbols, &size, names, e);
}

void column_filters_init(struct column_filters *c, struct tsdb_view *v, const struct source_frame_filter *f, const struct source_limits *lim)
{
	*c = (struct column_filters){ .v = v, .f = f, .regex = lim ? lim->regex : NULL, .unions = f ? dict_unions_take_names(v->db) : NULL };
}

void column_filters_release(struct column_filters *c)
{
	symbols_unref(c->names);
	free(c->match);
	if (c->unions)
		dict_unions_give_names(c->v->db, c->unions);
}

/* Brings the names of the day's stacks into the joint names. False: the day has none. *ret_absent: they are in the bucket, and are noted to be fetched. */
static bool column_filters_join(struct column_filters *c, size_t p, bool *ret_absent)
{
	struct err e;
	bool known = false;
	*ret_absent = false;
	if (!atomic_load(&c->v->v->p[p]->p->loaded))
		*ret_absent = dict_unions_join_names(c->unions, c->v->v->p[p], &known, &e) != 0;
	return known;
}

bool column_filters_has(struct column_filters *c, size_t p)
{
	bool absent;
	return column_filters_join(c, p, &absent) || (!absent && view_has_stacks(c->v, p));
}

/* Of a day whose names are common ones. *ret stays NULL if they are others by now. */
static int column_filters_by_names(struct column_filters *c, size_t p, uint64_t **ret, uint32_t *ret_n, struct err *e)
{
	struct dict_unions *unions = c->unions;
	const struct pstate *s = c->v->v->p[p];
	*ret = c->match ? dict_unions_day_bits(unions, s, c->names, c->match, c->n_match, ret_n) : NULL;
	if (*ret)
		return 0;
	struct dict_unions_size size;
	symbols_unref(c->names);
	free(TAKE_PTR(c->match));
	c->names = dict_unions_symbols(unions, &size);
	if (!c->names)
		return 0;
	c->match = column_bits(c, c->names, &size, NULL, e);
	c->n_match = size.columns;
	if (!c->match)
		return -(int)e->code;
	*ret = dict_unions_day_bits(unions, s, c->names, c->match, c->n_match, ret_n);
	return 0;
}

int column_filters_bits(struct column_filters *c, size_t p, uint64_t **ret, uint32_t *ret_n, struct err *e)
{
	bool absent;
	*ret = NULL;
	int rc = column_filters_join(c, p, &absent) ? column_filters_by_names(c, p, ret, ret_n, e) : 0;
	if (rc || *ret)
		return rc;
	struct partition *stacks = query_dict_stacks(c->v->own, p);
	if (!stacks->unread) /* else it was here a moment ago: the view has noted that it is wanted again */
		*ret = partition_bits(c, stacks, c->v->v->p[p]->names, ret_n, e);
	rc = *ret || stacks->unread ? 0 : -(int)e->code;
	query_dict_give(c->v->own, stacks);
	return rc;
}
