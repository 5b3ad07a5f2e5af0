/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/dict_union.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "tsdb/dict/dict_names.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_read.h"
#include "tsdb/version/late_names.h"

#define KEEP_MS (10 * INT64_C(60000))

/* One dictionary that was met, with names that came late. */
struct source_map {
	struct symbols *from; /* reference held, as of names */
	struct late_names *names;
	struct symbols_map *map;
};

/* What is kept of a day instead of its dictionary: the place of each of its columns among the joint columns. */
struct day_places {
	uint64_t dictionary;      /* of its partition */
	uint64_t parts;           /* pstate_parts of the day when the places were made: with another number they are not used */
	uint64_t late;            /* late_names_number of the day then, likewise */
	bool whole;               /* of all columns */
	struct column_places *columns;
};

struct dict_unions {
	atomic_int refs;
	struct mutex lock;
	enum symbols_detail detail;
	struct symbols *to;   /* NULL: nothing yet */
	VEC(struct source_map) maps;
	VEC(struct day_places) places;
	int64_t used_mono_ms;
	size_t max_bytes;
};

struct dict_unions *dict_unions_new(enum symbols_detail detail, size_t max_bytes)
{
	struct dict_unions *j = NEW(struct dict_unions);
	atomic_init(&j->refs, 1);
	j->detail = detail;
	j->max_bytes = max_bytes;
	mutex_init(&j->lock, RANK_TSDB_DICT_UNION, "dictionary union");
	return j;
}

static void forget_map(struct source_map *x)
{
	symbols_map_free(x->map);
	symbols_unref(x->from);
	late_names_unref(x->names);
}

static void column_places_look(struct column_places *x)
{
	x->all = true;
	for (uint32_t i = 0; i < x->n; i++)
		x->all &= x->place[i] != 0;
}

static struct column_places *column_places_new(uint32_t *place, uint32_t n)
{
	struct column_places *x = NEW(struct column_places);
	atomic_init(&x->refs, 1);
	x->place = place;
	x->n = n;
	column_places_look(x);
	return x;
}

void column_places_unref(struct column_places *x)
{
	if (!x || atomic_fetch_sub(&x->refs, 1) != 1)
		return;
	free(x->place);
	free(x);
}

static void forget_places(struct day_places *x)
{
	column_places_unref(x->columns);
}

static void forget(struct dict_unions *j)
{
	for (size_t i = 0; i < j->maps.n; i++)
		forget_map(&j->maps.v[i]);
	vec_free(&j->maps);
	for (size_t i = 0; i < j->places.n; i++)
		forget_places(&j->places.v[i]);
	vec_free(&j->places);
	symbols_unref(j->to);
	j->to = NULL;
}

void dict_unions_free(struct dict_unions *j)
{
	if (!j || atomic_fetch_sub(&j->refs, 1) != 1)
		return;
	forget(j);
	mutex_destroy(&j->lock);
	free(j);
}

/* A map for other names is rebuilt, because its results are obsolete. */
static struct symbols_map *map_of(struct dict_unions *j, struct partition *p, struct late_names *names)
{
	struct source_map *x = NULL;
	for (size_t i = 0; i < j->maps.n && !x; i++)
		if (j->maps.v[i].from == p->symbols)
			x = &j->maps.v[i];
	if (x && x->names == names)
		return x->map;
	if (x)
		forget_map(x);
	else
		x = vec_add(&j->maps);
	x->from = symbols_ref(p->symbols);
	x->names = names ? late_names_ref(names) : NULL;
	x->map = symbols_map_new(x->from, j->to, j->detail);
	late_names_map(x->names, x->map);
	return x->map;
}

static void acc_add(struct stackacc *acc, const struct stackvec *v, size_t k, uint32_t column)
{
	if (v->is_float)
		stackacc_add_scaled(acc, column, v->floats[k]);
	else
		stackacc_add(acc, column, v->ints[k]);
}

static void add(struct dict_unions *j, struct partition *p, struct late_names *names, const struct stackvec *v, struct stackacc *acc)
{
	rwlock_read(&p->dict_lock);
	struct symbols_map *map = map_of(j, p, names);
	for (size_t k = 0; k < v->n; k++)
		acc_add(acc, v, k, symbols_map_column(map, v->columns[k]));
	rwlock_unlock(&p->dict_lock);
}

void dict_unions_translate(struct dict_unions *j, const struct pstate *s, struct partition *p, uint32_t *columns, size_t n)
{
	mutex_lock(&j->lock);
	if (!j->to)
		j->to = symbols_new();
	rwlock_read(&p->dict_lock);
	struct symbols_map *map = map_of(j, p, s->names);
	for (size_t i = 0; i < n; i++)
		columns[i] = symbols_map_column(map, columns[i]);
	rwlock_unlock(&p->dict_lock);
	j->used_mono_ms = clock_mono_ms();
	mutex_unlock(&j->lock);
}

struct stackvec *dict_unions_sum(struct dict_unions *j, const struct pstate *const *of, struct stackvec *const *v, size_t n, struct err *e)
{
	mutex_lock(&j->lock);
	if (!j->to)
		j->to = symbols_new();
	struct stackacc *acc = stackacc_new(j->to);
	for (size_t i = 0; i < n; i++)
		add(j, of[i]->p, of[i]->names, v[i], acc);
	struct stackvec *sum = stackacc_finish(acc, e);
	stackacc_free(acc);
	j->used_mono_ms = clock_mono_ms();
	if (symbols_bytes(j->to) > j->max_bytes)
		forget(j);
	mutex_unlock(&j->lock);
	return sum;
}

/* *sum += what is in acc. */
static int add_to_sum(struct stackacc *acc, struct stackvec **sum, struct err *e)
{
	int rc = *sum ? stackacc_add_vec(acc, *sum, 1, e) : 0;
	struct stackvec *all = rc ? NULL : stackacc_finish(acc, e);
	if (!all)
		return rc ? rc : -ERR_EXECUTION;
	stackvec_unref(*sum);
	*sum = all;
	return 0;
}

int dict_unions_add(struct dict_unions *j, const struct pstate *s, struct partition *p, const struct stackvec *v, struct stackvec **sum, struct err *e)
{
	mutex_lock(&j->lock);
	if (!j->to)
		j->to = symbols_new();
	struct stackacc *acc = stackacc_new(j->to);
	add(j, p, s->names, v, acc);
	int rc = add_to_sum(acc, sum, e);
	stackacc_free(acc);
	j->used_mono_ms = clock_mono_ms();
	mutex_unlock(&j->lock);
	return rc;
}

/* ---- places ---- */

static struct day_places *places_find(struct dict_unions *j, const struct pstate *s) REQUIRES(j->lock)
{
	for (size_t i = 0; i < j->places.n; i++)
		if (j->places.v[i].dictionary == s->p->dictionary)
			return j->places.v[i].parts == pstate_parts(s) && j->places.v[i].late == late_names_number(s->names) ? &j->places.v[i] : NULL;
	return NULL;
}

uint32_t dict_unions_known(struct dict_unions *j, const struct pstate *s)
{
	if (s->n_windows)
		return 0;
	mutex_lock(&j->lock);
	const struct day_places *x = places_find(j, s);
	uint32_t n = x ? x->columns->n : 0;
	mutex_unlock(&j->lock);
	return n;
}

struct column_places *dict_unions_places(struct dict_unions *j, const struct pstate *s)
{
	mutex_lock(&j->lock);
	const struct day_places *x = s->n_windows ? NULL : places_find(j, s);
	struct column_places *columns = x && (x->whole || !s->p->origin) ? x->columns : NULL;
	if (columns)
		atomic_fetch_add(&columns->refs, 1);
	j->used_mono_ms = clock_mono_ms();
	mutex_unlock(&j->lock);
	return columns;
}

int dict_unions_add_known(struct dict_unions *j, const struct pstate *s, const struct stackvec *v, struct stackvec **sum, bool *ret_known,
			  struct err *e)
{
	int rc = 0;
	mutex_lock(&j->lock);
	const struct day_places *x = places_find(j, s);
	*ret_known = x != NULL;
	for (size_t k = 0; k < v->n && *ret_known; k++)
		*ret_known = v->columns[k] < x->columns->n && x->columns->place[v->columns[k]];
	if (*ret_known) {
		struct stackacc *acc = stackacc_new(j->to);
		for (size_t k = 0; k < v->n; k++)
			acc_add(acc, v, k, x->columns->place[v->columns[k]] - 1);
		rc = add_to_sum(acc, sum, e);
		stackacc_free(acc);
		j->used_mono_ms = clock_mono_ms();
	}
	mutex_unlock(&j->lock);
	return rc;
}

/* x: of the day of s, taken. */
static void places_set(struct dict_unions *j, const struct day_places *x) REQUIRES(j->lock)
{
	struct day_places *old = NULL;
	for (size_t i = 0; i < j->places.n && !old; i++)
		old = j->places.v[i].dictionary == x->dictionary ? &j->places.v[i] : NULL;
	if (old)
		forget_places(old);
	else
		old = vec_add(&j->places);
	*old = *x;
}

static bool places_are_known(struct dict_unions *j, const struct pstate *s, bool *ret_whole)
{
	mutex_lock(&j->lock);
	const struct day_places *x = places_find(j, s);
	*ret_whole = x && x->whole;
	mutex_unlock(&j->lock);
	return x;
}

int dict_unions_join_names(struct dict_unions *j, const struct pstate *s, bool *ret_known, struct err *e)
{
	struct part_value value = { 0 };
	bool whole = false;
	*ret_known = !s->n_windows && places_are_known(j, s, &whole);
	if (whole || s->n_windows || !s->all_day || atomic_load(&s->all_day->no_names))
		return 0;
	int rc = part_get(s->all_day, PART_NAMES, 0, 0, &value, e);
	if (!rc) {
		struct day_places x = { s->p->dictionary, pstate_parts(s), late_names_number(s->names), true, NULL };
		uint32_t *place, n;
		mutex_lock(&j->lock);
		if (!j->to)
			j->to = symbols_new();
		rc = dict_names_join(value.payload, j->to, x.late, &place, &n, e);
		if (!rc) {
			x.columns = column_places_new(place, n);
			places_set(j, &x);
		}
		j->used_mono_ms = clock_mono_ms();
		mutex_unlock(&j->lock);
		*ret_known |= !rc;
	}
	part_value_release(&value);
	if (*ret_known || !rc) /* some places may be known: a reader that needs others reads the dictionary */
		return 0;
	if (rc == -ERR_UNAVAILABLE)
		return rc;
	if (rc != -ERR_NOT_FOUND && !damage_is(e))
		return 0;
	atomic_store(&s->all_day->no_names, true); /* nor are they looked for again */
	if (rc == -ERR_NOT_FOUND)
		return 0;
	LOG_WARN("msg", "the names of a day's stacks cannot be read: its dictionary is used", "partition", LOG_NUM(s->p->day), "err", e->msg);
	return 0;
}

/* Those known before stay: a query may have met other columns. */
static void places_join(struct day_places *x, const struct day_places *old)
{
	struct column_places *to = x->columns;
	for (uint32_t i = 0; i < MIN(to->n, old->columns->n); i++)
		if (!to->place[i])
			to->place[i] = old->columns->place[i];
	column_places_look(to);
	x->whole |= old->whole;
}

void dict_unions_keep_places(struct dict_unions *j, const struct pstate *s, struct partition *p)
{
	mutex_lock(&j->lock);
	for (size_t i = 0; i < j->maps.n; i++) {
		struct source_map *m = &j->maps.v[i];
		if (m->from != p->symbols || m->names != s->names)
			continue;
		struct day_places x = { s->p->dictionary, pstate_parts(s), late_names_number(s->names), false, NULL };
		uint32_t *place, n = symbols_map_columns(m->map, &place);
		x.columns = column_places_new(place, n);
		const struct day_places *old = places_find(j, s);
		if (old)
			places_join(&x, old);
		places_set(j, &x);
		break;
	}
	mutex_unlock(&j->lock);
	dict_unions_forget(j, p->symbols);
}

struct dict_unions_size dict_unions_size_of(const struct symbols *s)
{
	return (struct dict_unions_size){ symbols_count(s, SYMBOLS_LOCATIONS), symbols_count(s, SYMBOLS_NODES), symbols_count(s, SYMBOLS_COLUMNS) };
}

struct symbols *dict_unions_symbols(struct dict_unions *j, struct dict_unions_size *ret)
{
	mutex_lock(&j->lock);
	struct symbols *s = j->to ? symbols_ref(j->to) : NULL;
	if (s)
		*ret = dict_unions_size_of(s);
	j->used_mono_ms = clock_mono_ms();
	mutex_unlock(&j->lock);
	return s;
}

uint64_t *dict_unions_day_bits(struct dict_unions *j, const struct pstate *s, const struct symbols *of, const uint64_t *bits, uint32_t n, uint32_t *ret_n)
{
	uint64_t *day = NULL;
	mutex_lock(&j->lock);
	const struct day_places *known = j->to == of ? places_find(j, s) : NULL;
	const struct column_places *x = known ? known->columns : NULL;
	if (x) {
		day = xcalloc(x->n / 64 + 1, sizeof *day);
		*ret_n = x->n;
	}
	for (uint32_t i = 0; day && i < x->n; i++) {
		uint32_t place = x->place[i];
		if (!place || place > n) /* this column was not met when the places were made */
			free(TAKE_PTR(day));
		else
			day[i / 64] |= (bits[(place - 1) / 64] >> (place - 1) % 64 & 1) << i % 64;
	}
	mutex_unlock(&j->lock);
	return day;
}

/* ---- forgetting ---- */

static size_t bytes(const struct dict_unions *j) REQUIRES(j->lock)
{
	size_t n = j->to ? symbols_bytes(j->to) : 0;
	for (size_t i = 0; i < j->places.n; i++)
		n += j->places.v[i].columns->n * sizeof(uint32_t);
	return n;
}

void dict_unions_tidy(struct dict_unions *j, bool all)
{
	mutex_lock(&j->lock);
	if (j->to && (all || clock_mono_ms() - j->used_mono_ms > KEEP_MS))
		forget(j);
	mutex_unlock(&j->lock);
}

void dict_unions_forget(struct dict_unions *j, const struct symbols *from)
{
	mutex_lock(&j->lock);
	for (size_t i = 0; i < j->maps.n; i++)
		if (j->maps.v[i].from == from) {
			forget_map(&j->maps.v[i]);
			j->maps.v[i] = j->maps.v[--j->maps.n];
			break;
		}
	mutex_unlock(&j->lock);
}

size_t dict_unions_bytes(struct dict_unions *j)
{
	mutex_lock(&j->lock);
	size_t n = bytes(j);
	mutex_unlock(&j->lock);
	return n;
}

/* ---- names of the database ---- */

struct dict_unions *dict_unions_take_names(struct tsdb *db)
{
	mutex_lock(&db->state_lock);
	struct dict_unions *j = db->name_unions;
	atomic_fetch_add(&j->refs, 1);
	mutex_unlock(&db->state_lock);
	return j;
}

/* Puts new ones in the place of j. */
static void names_renew(struct tsdb *db, struct dict_unions *j)
{
	struct dict_unions *next = dict_unions_new(SYMBOLS_NAMES, j->max_bytes);
	mutex_lock(&db->state_lock);
	bool there = db->name_unions == j;
	if (there)
		db->name_unions = next;
	mutex_unlock(&db->state_lock);
	dict_unions_free(there ? j : next);
}

void dict_unions_give_names(struct tsdb *db, struct dict_unions *j)
{
	if (dict_unions_bytes(j) > j->max_bytes)
		names_renew(db, j);
	dict_unions_free(j);
}

void dict_unions_tidy_names(struct tsdb *db, bool all)
{
	struct dict_unions *j = dict_unions_take_names(db);
	mutex_lock(&j->lock);
	bool idle = j->to && (all || clock_mono_ms() - j->used_mono_ms > KEEP_MS);
	mutex_unlock(&j->lock);
	if (idle)
		names_renew(db, j);
	dict_unions_free(j);
}

size_t dict_unions_names_bytes(struct tsdb *db)
{
	struct dict_unions *j = dict_unions_take_names(db);
	size_t n = dict_unions_bytes(j);
	dict_unions_free(j);
	return n;
}

void dict_unions_forget_everywhere(struct tsdb *db, const struct symbols *from)
{
	struct dict_unions *names = dict_unions_take_names(db);
	dict_unions_forget(db->dict_unions, from);
	dict_unions_forget(names, from);
	dict_unions_free(names);
}

void dict_unions_forget_day(struct tsdb *db, const struct partition *p)
{
	struct dict_unions *j = dict_unions_take_names(db);
	mutex_lock(&j->lock);
	for (size_t i = 0; i < j->places.n; i++)
		if (j->places.v[i].dictionary == p->dictionary) {
			forget_places(&j->places.v[i]);
			j->places.v[i] = j->places.v[--j->places.n];
			break;
		}
	mutex_unlock(&j->lock);
	dict_unions_free(j);
}
