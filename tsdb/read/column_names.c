/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/column_names.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"

void column_names_init(struct column_names *c, struct tsdb_view *v, enum symbols_detail detail)
{
	*c = (struct column_names){ .v = v, .unions = detail == SYMBOLS_NAMES ? dict_unions_take_names(v->db) : NULL };
	c->places = xcalloc(v->v->n + 1, sizeof(*c->places));
	c->stacks = xcalloc(v->v->n + 1, sizeof(*c->stacks));
	c->before = c->unions ? dict_unions_bytes(c->unions) : 0;
	mutex_init(&c->lock, RANK_TSDB_COLUMN_NAMES, "column names");
}

void column_names_release(struct column_names *c)
{
	for (size_t p = 0; p < c->v->v->n; p++) {
		column_places_unref(c->places[p]);
		if (c->stacks[p])
			query_dict_give(c->v->own, c->stacks[p]);
	}
	free(c->places);
	free(c->stacks);
	symbols_unref(c->joint);
	if (c->unions)
		dict_unions_give_names(c->v->db, c->unions);
	mutex_destroy(&c->lock);
}

/* Brings the names of the day's stacks into the joint names. *ret_absent: they are in the bucket, and are noted to be fetched. */
static void column_names_join(struct column_names *c, size_t p, bool *ret_absent)
{
	struct err e;
	bool known = false;
	*ret_absent = false;
	if (c->unions && !c->places[p])
		*ret_absent = dict_unions_join_names(c->unions, c->v->v->p[p], &known, &e) != 0;
	if (known)
		c->places[p] = dict_unions_places(c->unions, c->v->v->p[p]);
}

bool column_names_has(struct column_names *c, size_t p)
{
	bool absent;
	column_names_join(c, p, &absent);
	return c->places[p] || (!absent && view_has_stacks(c->v, p));
}

/* The dictionary of a partition. NULL: it did not come from the bucket. */
static struct partition *column_names_stacks(struct column_names *c, size_t p)
{
	mutex_lock(&c->lock);
	if (!c->stacks[p] && view_has_stacks(c->v, p)) {
		struct partition *stacks = query_dict_stacks(c->v->own, p);
		if (stacks->unread) /* it was here a moment ago: the view has noted that it is wanted again */
			query_dict_give(c->v->own, stacks);
		else
			c->stacks[p] = stacks;
	}
	struct partition *stacks = c->stacks[p];
	mutex_unlock(&c->lock);
	return stacks;
}

bool column_names_begin(struct column_names *c, size_t p)
{
	bool absent;
	column_names_join(c, p, &absent);
	if (!c->places[p])
		return column_names_stacks(c, p) != NULL;
	struct dict_unions_size size;
	if (!c->joint)
		c->joint = dict_unions_symbols(c->unions, &size);
	return true;
}

static uint32_t column_names_most(const uint32_t *columns, size_t n)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++)
		most = MAX(most, columns[i]);
	return most;
}

/* Whether the places of all columns are known. */
static bool column_names_known(const struct column_places *x, const uint32_t *columns, size_t n)
{
	bool known = !n || column_names_most(columns, n) < x->n;
	for (size_t i = 0; i < n && known && !x->all; i++)
		known = x->place[columns[i]] != 0;
	return known;
}

int column_names_of(struct column_names *c, size_t p, uint32_t *columns, size_t n, struct columns_of *ret, struct err *e)
{
	const struct pstate *s = c->v->v->p[p];
	const struct column_places *x = c->places[p];
	*ret = (struct columns_of){ 0 };
	if (x && column_names_known(x, columns, n)) {
		*ret = (struct columns_of){ c->joint, x->place, x->n };
		return 0;
	}
	struct partition *stacks = column_names_stacks(c, p);
	if (!stacks)
		return 0;
	if (n && column_names_most(columns, n) >= symbols_count(stacks->symbols, SYMBOLS_COLUMNS))
		return err_set(e, ERR_CORRUPT, "a sealed window names a column that its dictionary lacks");
	ret->symbols = c->unions && s->names ? dict_unions_translate(c->unions, s, stacks, columns, n) : stacks->symbols;
	return 0;
}

size_t column_names_bytes(struct column_names *c)
{
	size_t n = c->unions ? dict_unions_bytes(c->unions) : 0;
	n -= MIN(n, c->before);
	mutex_lock(&c->lock);
	for (size_t p = 0; p < c->v->v->n; p++)
		if (c->stacks[p] && c->stacks[p] != c->v->v->p[p]->p)
			n += evict_bytes(c->stacks[p]);
	mutex_unlock(&c->lock);
	return n;
}
