/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/column_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tsdb/read/view_cached.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"

struct column_day {
	struct partition *stacks; /* its dictionary, by query_dict_stacks; NULL: not needed now */
	uint32_t *as, n_as;       /* by column: 1 + the joint one; 0: not asked for yet */
	atomic_size_t left;       /* blocks that are to be read */
};

void column_names_init(struct column_names *c, struct tsdb_view *v, enum symbols_detail detail, int64_t after_ms, int64_t until_ms)
{
	size_t met = 0;
	*c = (struct column_names){ .v = v, .unions = detail == SYMBOLS_NAMES ? dict_unions_take_names(v->db) : NULL };
	c->places = xcalloc(v->v->n + 1, sizeof(*c->places));
	c->days = xcalloc(v->v->n + 1, sizeof *c->days);
	c->before = c->unions ? dict_unions_bytes(c->unions) : 0;
	for (size_t p = 0; p < v->v->n; p++)
		met += partition_meets(v->v->p[p]->p, after_ms, until_ms);
	c->many = met > 2;
	mutex_init(&c->lock, RANK_TSDB_COLUMN_NAMES, "column names");
}

/* Gives the dictionary of a partition back. The places that were found for its columns are kept for the next query. */
static void column_names_give(struct column_names *c, size_t p)
{
	const struct pstate *s = c->v->v->p[p];
	struct column_day *day = &c->days[p];
	if (!day->stacks)
		return;
	if (day->as && !s->n_windows)
		dict_unions_keep_places(c->unions, s, day->stacks);
	query_dict_give(c->v->own, TAKE_PTR(day->stacks));
}

void column_names_release(struct column_names *c)
{
	for (size_t p = 0; p < c->v->v->n; p++) {
		column_names_give(c, p);
		column_places_unref(c->places[p]);
		free(c->days[p].as);
	}
	free(c->places);
	free(c->days);
	symbols_unref(c->joint);
	if (c->unions)
		dict_unions_give_names(c->v->db, c->unions);
	mutex_destroy(&c->lock);
}

/* Brings the names of the day's stacks into the joint names. *ret_absent: the names are in the bucket, and are noted to be fetched. Does nothing if few
 * days are read, and the dictionary is in memory and has no late names: what a reader has to look up for each column would be more work than one tree for all days saves. */
static void column_names_join(struct column_names *c, size_t p, bool *ret_absent)
{
	const struct pstate *s = c->v->v->p[p];
	struct err e;
	bool known = false;
	*ret_absent = false;
	if (!c->unions || c->places[p] || (!c->many && !s->names && atomic_load(&s->p->loaded)))
		return;
	*ret_absent = dict_unions_join_names(c->unions, s, &known, &e) != 0;
	if (known)
		c->places[p] = dict_unions_places(c->unions, s);
	atomic_store(&c->grew, true);
}

bool column_names_has(struct column_names *c, size_t p)
{
	bool absent;
	column_names_join(c, p, &absent);
	return c->places[p] || (!absent && view_has_stacks(c->v, p));
}

bool column_names_begin(struct column_names *c, size_t p)
{
	struct dict_unions_size size;
	bool absent;
	column_names_join(c, p, &absent);
	if (absent)
		atomic_store(&c->v->v->p[p]->all_day->no_names, true); /* the names could not be fetched: from now on the day's dictionary is used */
	if (!c->places[p])
		return view_has_stacks(c->v, p);
	if (!c->joint)
		c->joint = dict_unions_symbols(c->unions, &size);
	return true;
}

void column_names_expect(struct column_names *c, size_t p, size_t blocks)
{
	atomic_store(&c->days[p].left, blocks);
}

void column_names_done(struct column_names *c, size_t p)
{
	if (atomic_fetch_sub(&c->days[p].left, 1) != 1 || !c->unions)
		return;
	mutex_lock(&c->lock);
	column_names_give(c, p);
	mutex_unlock(&c->lock);
}

/* The dictionary of a partition. NULL: the day is in the bucket, and its dictionary could not be fetched. */
static struct partition *column_names_stacks(struct column_names *c, size_t p)
{
	struct column_day *day = &c->days[p];
	mutex_lock(&c->lock);
	if (!day->stacks && view_has_stacks(c->v, p)) {
		struct partition *stacks = query_dict_stacks(c->v->own, p);
		if (stacks->unread) /* the dictionary has left the disk since begin: the view has noted that it is wanted */
			query_dict_give(c->v->own, stacks);
		else
			day->stacks = stacks;
		atomic_store(&c->grew, true);
	}
	struct partition *stacks = day->stacks;
	mutex_unlock(&c->lock);
	return stacks;
}

static uint32_t column_names_most(const uint32_t *columns, size_t n)
{
	uint32_t most = 0;
	for (size_t i = 0; i < n; i++)
		most = MAX(most, columns[i]);
	return most;
}

/* Whether the joint column of each of these columns is known. */
static bool column_names_known(const struct column_places *x, const uint32_t *columns, size_t n)
{
	bool known = !n || column_names_most(columns, n) < x->n;
	for (size_t i = 0; i < n && known && !x->all; i++)
		known = x->place[columns[i]] != 0;
	return known;
}

/* Room for all columns that are there now. */
static void column_day_grow(struct column_day *day, uint32_t n)
{
	if (n <= day->n_as)
		return;
	day->as = xreallocarray(day->as, n, sizeof *day->as);
	memset(day->as + day->n_as, 0, (n - day->n_as) * sizeof *day->as);
	day->n_as = n;
}

/* Has the dictionaries' union give the columns of a block their places that the day does not know yet. */
static void column_names_ask(struct column_names *c, size_t p, const uint32_t *columns, size_t n)
{
	struct column_day *day = &c->days[p];
	VEC(uint32_t) from = { 0 }, to = { 0 };
	for (size_t i = 0; i < n; i++)
		if (!day->as[columns[i]] && (!from.n || from.v[from.n - 1] != columns[i]))
			vec_push(&from, columns[i]);
	for (size_t i = 0; i < from.n; i++)
		vec_push(&to, from.v[i]);
	if (from.n) {
		dict_unions_translate(c->unions, c->v->v->p[p], day->stacks, to.v, to.n);
		atomic_store(&c->grew, true);
	}
	for (size_t i = 0; i < from.n; i++)
		day->as[from.v[i]] = to.v[i] + 1;
	vec_free(&from);
	vec_free(&to);
}

/* Puts joint columns in the place of a day's. */
static void column_names_translate(struct column_names *c, size_t p, uint32_t *columns, size_t n, struct columns_of *ret)
{
	struct dict_unions_size size;
	mutex_lock(&c->lock);
	column_day_grow(&c->days[p], symbols_count(c->days[p].stacks->symbols, SYMBOLS_COLUMNS));
	column_names_ask(c, p, columns, n);
	for (size_t i = 0; i < n; i++)
		columns[i] = c->days[p].as[columns[i]] - 1;
	if (!c->joint)
		c->joint = dict_unions_symbols(c->unions, &size);
	ret->symbols = c->joint;
	mutex_unlock(&c->lock);
}

int column_names_of(struct column_names *c, size_t p, uint32_t *columns, size_t n, struct columns_of *ret, struct err *e)
{
	const struct pstate *s = c->v->v->p[p];
	const struct column_places *x = c->places[p];
	*ret = (struct columns_of){ 0 };
	if (!n)
		return 0;
	if (x && column_names_known(x, columns, n)) {
		*ret = (struct columns_of){ c->joint, x->place, x->n };
		return 0;
	}
	struct partition *stacks = column_names_stacks(c, p);
	if (!stacks)
		return 0;
	if (column_names_most(columns, n) >= symbols_count(stacks->symbols, SYMBOLS_COLUMNS))
		return err_set(e, ERR_CORRUPT, "a sealed window names a column that its dictionary lacks");
	if (c->unions && (s->names || stacks != s->p))
		column_names_translate(c, p, columns, n, ret);
	else
		ret->symbols = stacks->symbols;
	return 0;
}

int column_names_check(struct column_names *c, const struct source_limits *lim, struct err *e)
{
	if (!atomic_exchange(&c->grew, false))
		return 0;
	size_t n = c->unions ? dict_unions_bytes(c->unions) : 0;
	n -= MIN(n, c->before);
	mutex_lock(&c->lock);
	for (size_t p = 0; p < c->v->v->n; p++) {
		const struct column_day *day = &c->days[p];
		n += day->n_as * sizeof *day->as + (day->stacks && day->stacks != c->v->v->p[p]->p ? evict_bytes(day->stacks) : 0);
	}
	mutex_unlock(&c->lock);
	return view_check_bytes(n, lim, e);
}
