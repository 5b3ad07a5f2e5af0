/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up vectors of several peers, each over a dictionary of its own, over common symbols. To bring a stack over costs much more than to add a
 * value to it. So common symbols and the maps to them live as long as the union, and a column that was met before costs an array read, an addition
 * and a bit:
 *
 *	columns of peer a ─ map ─┐   sums, by common column    0 0 7 0 0 5 ...
 *	columns of peer b ─ map ─┴─► bits of those touched     0 0 1 0 0 1 ...
 *	                             bits of 64 of these, so that a small result does not look through a large dictionary
 *
 * Once they are too large, later views begin anew; views that are open go on with those that they have. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/union_internal.h"

#define DICTIONARY_MAX_BYTES ((size_t)128 << 20)
#define DICTIONARY_MAPS_BYTES ((size_t)512 << 20) /* of maps, with the dictionaries that they hold */
#define DICTIONARY_ENTRY_BYTES 48 /* of an entry of a dictionary, about, with its text */
#define DICTIONARY_MAX_MAPS 1024
#define DICTIONARY_MAP_IDLE_MS (10 * INT64_C(60000))
#define DICTIONARY_BITS 64

/* A dictionary of a peer. */
struct dictionary_map {
	struct symbols *from;        /* reference */
	struct symbols_map *map;
	int64_t used_mono_ms;
};

struct union_dictionary {
	atomic_int refs;
	struct mutex lock;           /* of all that follows */
	struct symbols *to;
	VEC(struct dictionary_map) maps;
	size_t last_map;             /* the one that was met last: the next is met next */
	/* Scratch: a sum for each column. All are zero between calls. */
	int64_t *sums;
	int128 *wide;                /* of weighed values; NULL: none were met yet */
	uint64_t *touched, *touched_words;
	size_t room;                 /* columns of these */
	size_t n_touched;
	bool overflow;
};

struct union_dictionary *union_dictionary_new(void)
{
	struct union_dictionary *d = NEW(struct union_dictionary);
	atomic_init(&d->refs, 1);
	mutex_init(&d->lock, RANK_FLEET_DICTIONARY, "dictionary of servers");
	d->to = symbols_new();
	return d;
}

struct union_dictionary *union_dictionary_ref(struct union_dictionary *d)
{
	atomic_fetch_add(&d->refs, 1);
	return d;
}

static void dictionary_forget(struct dictionary_map *m)
{
	symbols_map_free(m->map);
	symbols_unref(m->from);
}

void union_dictionary_unref(struct union_dictionary *d)
{
	if (!d || atomic_fetch_sub(&d->refs, 1) != 1)
		return;
	for (size_t i = 0; i < d->maps.n; i++)
		dictionary_forget(&d->maps.v[i]);
	vec_free(&d->maps);
	symbols_unref(d->to);
	free(d->sums);
	free(d->wide);
	free(d->touched);
	free(d->touched_words);
	mutex_destroy(&d->lock);
	free(d);
}

/* What a map holds, about: itself, and the dictionary of the peer, which another thread may write to: its entries are counted. */
static size_t dictionary_map_bytes(const struct dictionary_map *m)
{
	size_t entries = 0;
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		entries += symbols_count(m->from, (enum symbols_table)t);
	return symbols_map_bytes(m->map) + entries * DICTIONARY_ENTRY_BYTES;
}

/* Until maps and what they hold have room, the one that was not used for the longest goes. */
static void dictionary_drop_large(struct union_dictionary *d) REQUIRES(d->lock)
{
	size_t bytes = 0;
	for (size_t i = 0; i < d->maps.n; i++)
		bytes += dictionary_map_bytes(&d->maps.v[i]);
	while (bytes > DICTIONARY_MAPS_BYTES) {
		size_t oldest = 0;
		for (size_t i = 1; i < d->maps.n; i++)
			if (d->maps.v[i].used_mono_ms < d->maps.v[oldest].used_mono_ms)
				oldest = i;
		bytes -= dictionary_map_bytes(&d->maps.v[oldest]);
		dictionary_forget(&d->maps.v[oldest]);
		d->maps.v[oldest] = d->maps.v[--d->maps.n];
	}
}

bool union_dictionary_is_full(struct union_dictionary *d)
{
	int64_t now = clock_mono_ms();
	mutex_lock(&d->lock);
	for (size_t i = 0; i < d->maps.n;) {
		if (now - d->maps.v[i].used_mono_ms <= DICTIONARY_MAP_IDLE_MS) {
			i++;
			continue;
		}
		dictionary_forget(&d->maps.v[i]);
		d->maps.v[i] = d->maps.v[--d->maps.n];
	}
	dictionary_drop_large(d);
	bool full = symbols_bytes(d->to) > DICTIONARY_MAX_BYTES || d->maps.n > DICTIONARY_MAX_MAPS;
	mutex_unlock(&d->lock);
	return full;
}

struct stackvec *union_dictionary_empty(struct union_dictionary *d)
{
	mutex_lock(&d->lock);
	struct stackvec *v = stackvec_empty(d->to);
	mutex_unlock(&d->lock);
	return v;
}

static struct symbols_map *dictionary_map(struct union_dictionary *d, struct symbols *from) REQUIRES(d->lock)
{
	size_t at = d->last_map;
	for (size_t i = 0; i < d->maps.n; i++, at++) {
		at = at < d->maps.n ? at : 0;
		if (d->maps.v[at].from != from)
			continue;
		d->last_map = at;
		return d->maps.v[at].map;
	}
	d->last_map = d->maps.n;
	vec_push(&d->maps, (struct dictionary_map){ symbols_ref(from), symbols_map_new(from, d->to, SYMBOLS_WHOLE), clock_mono_ms() });
	return d->maps.v[d->last_map].map;
}

/* ---- sums at work ---- */

static NOINLINE void dictionary_grow(struct union_dictionary *d, uint32_t column) REQUIRES(d->lock)
{
	size_t n = MAX(d->room * 2, (size_t)symbols_count(d->to, SYMBOLS_COLUMNS) + 1);
	n = MAX(n, (size_t)column + 1);
	n = (n + DICTIONARY_BITS * DICTIONARY_BITS - 1) / (DICTIONARY_BITS * DICTIONARY_BITS) * (DICTIONARY_BITS * DICTIONARY_BITS);
	size_t words = n / DICTIONARY_BITS, old = d->room / DICTIONARY_BITS;
	d->sums = xreallocarray(d->sums, n, sizeof *d->sums);
	memset(d->sums + d->room, 0, (n - d->room) * sizeof *d->sums);
	if (d->wide) {
		d->wide = xreallocarray(d->wide, n, sizeof *d->wide);
		memset(d->wide + d->room, 0, (n - d->room) * sizeof *d->wide);
	}
	d->touched = xreallocarray(d->touched, words, sizeof *d->touched);
	memset(d->touched + old, 0, (words - old) * sizeof *d->touched);
	d->touched_words = xreallocarray(d->touched_words, words / DICTIONARY_BITS, sizeof *d->touched_words);
	memset(d->touched_words + old / DICTIONARY_BITS, 0, (words - old) / DICTIONARY_BITS * sizeof *d->touched_words);
	d->room = n;
}

static inline void dictionary_touch(struct union_dictionary *d, uint32_t column) REQUIRES(d->lock)
{
	if (UNLIKELY(column >= d->room))
		dictionary_grow(d, column);
	uint32_t word = column / DICTIONARY_BITS;
	uint64_t bit = UINT64_C(1) << column % DICTIONARY_BITS;
	d->n_touched += !(d->touched[word] & bit);
	d->touched[word] |= bit;
	d->touched_words[word / DICTIONARY_BITS] |= UINT64_C(1) << word % DICTIONARY_BITS;
}

static void dictionary_add(struct union_dictionary *d, const struct stackvec *v, struct symbols_map *map) REQUIRES(d->lock)
{
	bool overflow = false;
	for (size_t i = 0; i < v->n; i++) {
		uint32_t c = map ? symbols_map_column(map, v->columns[i]) : v->columns[i];
		dictionary_touch(d, c);
		overflow |= __builtin_add_overflow(d->sums[c], v->ints[i], &d->sums[c]);
	}
	d->overflow |= overflow;
}

/* Values times factor. */
static void dictionary_add_wide(struct union_dictionary *d, const struct stackvec *v, int64_t factor, struct symbols_map *map) REQUIRES(d->lock)
{
	if (!d->wide && d->room)
		d->wide = xcalloc(d->room, sizeof *d->wide);
	for (size_t i = 0; i < v->n; i++) {
		uint32_t c = map ? symbols_map_column(map, v->columns[i]) : v->columns[i];
		dictionary_touch(d, c);
		if (!d->wide)
			d->wide = xcalloc(d->room, sizeof *d->wide);
		int128 x = 0;
		if (!v->is_float)
			x = v->ints[i];
		else if (fabs(v->floats[i]) < 1e30) /* what a sum of values times weights is at most */
			x = (int128)v->floats[i];
		else
			d->overflow = true;
		if (__builtin_mul_overflow(x, (int128)factor, &x) || __builtin_add_overflow(d->wide[c], x, &d->wide[c]))
			d->overflow = true;
	}
}

/* Moves the sums to columns and ints (if it is not NULL) or floats. */
static void dictionary_take(struct union_dictionary *d, bool wide, const struct union_term *how, uint32_t *columns, int64_t *ints, double *floats)
	REQUIRES(d->lock)
{
	size_t n = 0;
	for (size_t top = 0; top < d->room / (DICTIONARY_BITS * DICTIONARY_BITS) && n < d->n_touched; top++) {
		for (uint64_t words = d->touched_words[top]; words; words &= words - 1) {
			size_t word = top * DICTIONARY_BITS + (unsigned)__builtin_ctzll(words);
			for (uint64_t bits = d->touched[word]; bits; bits &= bits - 1) {
				size_t c = word * DICTIONARY_BITS + (unsigned)__builtin_ctzll(bits);
				columns[n] = (uint32_t)c;
				if (ints)
					ints[n] = d->sums[c];
				else
					floats[n] = (wide ? source_weighed(d->wide[c], how->over_ms) : (double)d->sums[c]) * how->scale;
				n++;
				if (wide)
					d->wide[c] = 0;
				else
					d->sums[c] = 0;
			}
			d->touched[word] = 0;
		}
		d->touched_words[top] = 0;
	}
	d->n_touched = 0;
}

/* ---- terms ---- */

static bool term_is_integer(const struct union_term *t)
{
	return t->scale == 1 && !t->over_ms;
}

/* What is added up: terms of equal scale and divisor; the symbols that all of it is over. */
struct dictionary_run {
	const struct union_term *terms;
	size_t n;
	struct symbols *to;
};

/* Doubles without a scale are final; they go to acc. */
static bool run_has_finals(const struct dictionary_run *r)
{
	for (size_t i = 0; i < r->n && term_is_integer(r->terms); i++)
		if (r->terms[i].v->is_float)
			return true;
	return false;
}

static void run_add(struct union_dictionary *d, const struct dictionary_run *r, bool wide, struct stackacc *acc) REQUIRES(d->lock)
{
	int64_t now = clock_mono_ms();
	for (size_t i = 0; i < r->n; i++) {
		const struct union_term *t = &r->terms[i];
		struct symbols_map *map = t->v->symbols == r->to ? NULL : dictionary_map(d, t->v->symbols);
		if (map)
			d->maps.v[d->last_map].used_mono_ms = now;
		if (t->v->is_float && term_is_integer(t))
			for (size_t k = 0; k < t->v->n; k++)
				stackacc_add_scaled(acc, map ? symbols_map_column(map, t->v->columns[k]) : t->v->columns[k], t->v->floats[k]);
		else if (wide)
			dictionary_add_wide(d, t->v, t->factor, map);
		else
			dictionary_add(d, t->v, map);
	}
}

static bool run_is_wide(const struct dictionary_run *r)
{
	bool wide = r->terms->over_ms;
	for (size_t i = 0; i < r->n && !term_is_integer(r->terms); i++)
		wide |= r->terms[i].v->is_float || r->terms[i].factor != 1;
	return wide;
}

/* The sum of a run as a vector, or into acc. */
static struct stackvec *run_sum(struct union_dictionary *d, const struct dictionary_run *r, struct stackacc *acc) REQUIRES(d->lock)
{
	bool wide = run_is_wide(r);
	run_add(d, r, wide, acc);
	size_t n = d->n_touched;
	uint32_t *columns = xreallocarray(NULL, n + 1, sizeof *columns);
	if (!acc && term_is_integer(r->terms)) {
		int64_t *ints = xreallocarray(NULL, n + 1, sizeof *ints);
		dictionary_take(d, wide, r->terms, columns, ints, NULL);
		return stackvec_new_ints(r->to, columns, ints, n);
	}
	double *floats = xreallocarray(NULL, n + 1, sizeof *floats);
	dictionary_take(d, wide, r->terms, columns, NULL, floats);
	if (!acc)
		return stackvec_new_floats(r->to, columns, floats, n);
	for (size_t i = 0; i < n; i++)
		stackacc_add_scaled(acc, columns[i], floats[i]);
	free(columns);
	free(floats);
	return NULL;
}

static bool term_eq(const struct union_term *a, const struct union_term *b)
{
	return a->scale == b->scale && a->over_ms == b->over_ms;
}

/* The terms by scale and divisor, each added up, and their results added up as storage does (stackacc). */
static struct stackvec *dictionary_sum(struct union_dictionary *d, struct symbols *to, const struct union_term *terms, size_t n, struct err *e)
	REQUIRES(d->lock)
{
	struct dictionary_run all = { terms, n, to };
	struct stackvec *v = NULL;
	struct stackacc *acc = NULL;
	d->overflow = false;
	if (!term_eq(&terms[0], &terms[n - 1]) || run_has_finals(&all)) /* they are in order */
		acc = stackacc_new(to);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && term_eq(&terms[i], &terms[k]); k++)
			;
		v = run_sum(d, &(struct dictionary_run){ &terms[i], k - i, to }, acc);
	}
	if (acc)
		v = stackacc_finish(acc, e);
	stackacc_free(acc);
	if (v && d->overflow) {
		err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
		stackvec_unref(TAKE_PTR(v));
	}
	return v;
}

struct stackvec *union_dictionary_sum(struct union_dictionary *d, const struct union_term *terms, size_t n, struct err *e)
{
	struct symbols *to = terms[0].v->symbols;
	for (size_t i = 1; i < n && to; i++)
		to = terms[i].v->symbols == to ? to : NULL;
	mutex_lock(&d->lock);
	struct stackvec *v = dictionary_sum(d, to ? to : d->to, terms, n, e);
	mutex_unlock(&d->lock);
	return v;
}
