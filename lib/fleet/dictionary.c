/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/dictionary.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/radix.h"
#include "base/vec.h"

enum { KIND_INTS, KIND_FLOATS, KINDS };
#define FLOAT_BYTES sizeof(uint64_t)

/* ---- the server's side ---- */

#define MAPS_MAX 32
#define MAP_IDLE_MS (2 * 60 * 1000)
#define AT_ONCE 4096 /* columns for which room is reserved together: little beside the limit of an answer */

struct dictionary_map {
	struct symbols *from; /* reference held: no other dictionary can have its address */
	enum symbols_detail detail;
	struct symbols_map *map;
	int64_t used_ms;      /* clock_mono_ms */
};

struct fleet_dictionary_out {
	struct mutex lock;
	struct symbols *symbols;         /* under lock */
	VEC(struct dictionary_map) maps; /* under lock; the one used last is last */
	atomic_size_t bytes;
};

/* A record of radix_sort. */
struct dictionary_cell {
	uint64_t column;
	union {
		int64_t i;
		double f;
	} value;
};
_Static_assert(sizeof(struct dictionary_cell) == RADIX_RECORD, "cells are sorted by radix_sort");

struct fleet_dictionary_out *fleet_dictionary_out_new(void)
{
	struct fleet_dictionary_out *d = NEW(struct fleet_dictionary_out);
	mutex_init(&d->lock, RANK_FLEET_DICTIONARY, "fleet_dictionary_out.lock");
	d->symbols = symbols_new();
	atomic_init(&d->bytes, symbols_bytes(d->symbols));
	return d;
}

/* Takes the first map out, that was not used for the longest. */
static void dictionary_drop_map(struct fleet_dictionary_out *d) REQUIRES(d->lock)
{
	symbols_map_free(d->maps.v[0].map);
	symbols_unref(d->maps.v[0].from);
	d->maps.n--;
	memmove(d->maps.v, d->maps.v + 1, d->maps.n * sizeof *d->maps.v);
}

void fleet_dictionary_out_free(struct fleet_dictionary_out *d)
{
	if (!d)
		return;
	mutex_lock(&d->lock);
	while (d->maps.n)
		dictionary_drop_map(d);
	mutex_unlock(&d->lock);
	vec_free(&d->maps);
	symbols_unref(d->symbols);
	mutex_destroy(&d->lock);
	free(d);
}

size_t fleet_dictionary_out_bytes(const struct fleet_dictionary_out *d)
{
	return atomic_load_explicit(&d->bytes, memory_order_relaxed);
}

/* The map of a dictionary, moved to the end. */
static struct symbols_map *dictionary_find_map(struct fleet_dictionary_out *d, struct symbols *from, enum symbols_detail detail, int64_t now_ms)
	REQUIRES(d->lock)
{
	size_t i = d->maps.n;
	struct dictionary_map x;
	while (i && (d->maps.v[i - 1].from != from || d->maps.v[i - 1].detail != detail))
		i--;
	if (i) {
		x = d->maps.v[i - 1];
		d->maps.n--;
		memmove(d->maps.v + i - 1, d->maps.v + i, (d->maps.n - (i - 1)) * sizeof *d->maps.v);
	} else {
		if (d->maps.n == MAPS_MAX)
			dictionary_drop_map(d);
		x = (struct dictionary_map){ .from = symbols_ref(from), .detail = detail, .map = symbols_map_new(from, d->symbols, detail) };
	}
	x.used_ms = now_ms;
	vec_push(&d->maps, x);
	return x.map;
}

static void dictionary_drop_idle(struct fleet_dictionary_out *d, int64_t before_ms) REQUIRES(d->lock)
{
	while (d->maps.n && d->maps.v[0].used_ms < before_ms)
		dictionary_drop_map(d);
	size_t bytes = symbols_bytes(d->symbols);
	for (size_t i = 0; i < d->maps.n; i++)
		bytes += symbols_map_bytes(d->maps.v[i].map);
	atomic_store_explicit(&d->bytes, bytes, memory_order_relaxed);
}

void fleet_dictionary_out_drop_idle(struct fleet_dictionary_out *d, int64_t before_ms)
{
	mutex_lock(&d->lock);
	dictionary_drop_idle(d, before_ms);
	mutex_unlock(&d->lock);
}

/* Columns of the vectors in the dictionary, one vector after the other, and the rows that the asker lacks after that. */
static void dictionary_translate(struct fleet_dictionary_out *d, const struct stackvec *const *v, size_t n, enum symbols_detail detail,
				 const struct symbols_marks *asker_has, uint32_t *columns, struct buf *rows)
{
	int64_t now_ms = clock_mono_ms();
	struct symbols_marks now;
	mutex_lock(&d->lock);
	for (size_t i = 0; i < n; i++) {
		struct symbols_map *map = v[i]->n ? dictionary_find_map(d, v[i]->symbols, detail, now_ms) : NULL;
		for (size_t k = 0; k < v[i]->n; k++)
			*columns++ = symbols_map_column(map, v[i]->columns[k]);
	}
	symbols_marks_now(&now, d->symbols);
	symbols_rows_encode(rows, d->symbols, asker_has, &now, NULL);
	dictionary_drop_idle(d, now_ms - MAP_IDLE_MS);
	mutex_unlock(&d->lock);
}

/* Adds up the cells of each column; they are sorted. Returns how many columns there are; false: a sum does not fit. Doubles are added as stackacc adds them. */
static bool dictionary_add_up(struct dictionary_cell *c, size_t *n, bool is_float)
{
	size_t out = 0, end;
	bool fits = true;
	for (size_t i = 0; i < *n; i = end) {
		struct dictionary_cell x = c[i];
		struct num_sum sum = { 0, 0 };
		for (end = i + 1; end < *n && c[end].column == x.column; end++)
			if (!is_float)
				fits &= !__builtin_add_overflow(x.value.i, c[end].value.i, &x.value.i);
		for (size_t k = i; is_float && end > i + 1 && k < end; k++)
			num_sum_add(&sum, c[k].value.f);
		if (is_float && end > i + 1)
			x.value.f = num_sum_value(sum);
		c[out++] = x;
	}
	*n = out;
	return fits;
}

/* The cells of a vector with these columns, ascending and each once. */
static int dictionary_cells(const struct stackvec *v, const uint32_t *columns, struct dictionary_cell *c, size_t *ret_n, struct err *e)
{
	bool ascending = true;
	for (size_t i = 0; i < v->n; i++) {
		c[i].column = columns[i];
		ascending &= !i || columns[i - 1] < columns[i];
		memcpy(&c[i].value, &v->ints[i], sizeof c[i].value); /* or floats[i]: the same place */
	}
	*ret_n = v->n;
	if (ascending)
		return 0;
	radix_sort(c, v->n);
	return dictionary_add_up(c, ret_n, v->is_float) ? 0 : err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
}

/* Division by a number that divides without a rest as a rule: a product and a rotation. (Hacker's Delight, 10-16 and 10-17.) */
struct exact_divisor {
	uint64_t divisor, inverse, most;
	unsigned shift;
};

static struct exact_divisor exact_divisor_of(uint64_t n)
{
	struct exact_divisor x = { .divisor = n, .shift = (unsigned)__builtin_ctzll(n), .most = UINT64_MAX / n };
	uint64_t odd = n >> x.shift;
	x.inverse = odd; /* right in three bits; each step doubles them */
	for (int i = 0; i < 5; i++)
		x.inverse *= 2 - odd * x.inverse;
	return x;
}

/* Whether n is a multiple; the quotient. */
static inline bool exact_divide(const struct exact_divisor *x, uint64_t n, uint64_t *ret)
{
	uint64_t q = n * x->inverse;
	*ret = x->shift ? q >> x->shift | q << (64 - x->shift) : q;
	return *ret <= x->most;
}

static inline uint64_t dictionary_magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* The greatest common divisor of the integers, or 1. */
static struct exact_divisor dictionary_factor(const struct dictionary_cell *c, size_t n)
{
	struct exact_divisor x = exact_divisor_of(1);
	size_t i = 0;
	uint64_t q;
	while (i < n && !c[i].value.i)
		i++;
	if (i < n)
		x = exact_divisor_of(dictionary_magnitude(c[i].value.i));
	for (; i < n && x.divisor > 1; i++) {
		uint64_t a = x.divisor, b = dictionary_magnitude(c[i].value.i);
		if (LIKELY(exact_divide(&x, b, &q)))
			continue;
		while (b) {
			uint64_t rest = a % b;
			a = b;
			b = rest;
		}
		x = exact_divisor_of(a);
	}
	return x.divisor > INT64_MAX ? exact_divisor_of(1) : x; /* 2^63 */
}

/* What was written up to there by hand. */
static void dictionary_wrote(struct buf *out, const uint8_t *end)
{
	out->len = (size_t)((const char *)end - out->ptr);
	out->ptr[out->len] = 0;
}

static void dictionary_put_columns(struct buf *out, const struct dictionary_cell *c, size_t n)
{
	uint64_t next = 0;
	for (size_t from = 0; from < n; from += AT_ONCE) {
		size_t end = MIN(n, from + AT_ONCE);
		if (!buf_reserve(out, (end - from) * 5))
			return;
		uint8_t *p = (uint8_t *)out->ptr + out->len;
		for (size_t i = from; i < end; i++) {
			p += varint_put(p, c[i].column - next);
			next = c[i].column + 1;
		}
		dictionary_wrote(out, p);
	}
}

static void dictionary_put_ints(struct buf *out, const struct dictionary_cell *c, size_t n, const struct exact_divisor *factor)
{
	for (size_t from = 0; from < n; from += AT_ONCE) {
		size_t end = MIN(n, from + AT_ONCE);
		if (!buf_reserve(out, (end - from) * 10))
			return;
		uint8_t *p = (uint8_t *)out->ptr + out->len;
		for (size_t i = from; i < end; i++) {
			uint64_t q;
			exact_divide(factor, dictionary_magnitude(c[i].value.i), &q);
			p += varint_put(p, zigzag_encode((int64_t)(c[i].value.i < 0 ? -q : q)));
		}
		dictionary_wrote(out, p);
	}
}

static void dictionary_put_vector(struct buf *out, const struct dictionary_cell *c, size_t n, bool is_float)
{
	struct exact_divisor factor = exact_divisor_of(1);
	buf_putc(out, is_float ? KIND_FLOATS : KIND_INTS);
	buf_varint(out, n);
	if (!is_float) {
		factor = dictionary_factor(c, n);
		buf_varint(out, factor.divisor);
	}
	dictionary_put_columns(out, c, n);
	if (!is_float)
		dictionary_put_ints(out, c, n, &factor);
	for (size_t i = 0; is_float && i < n; i++) {
		uint64_t bits;
		memcpy(&bits, &c[i].value.f, sizeof bits);
		bits = htole64(bits);
		buf_put(out, &bits, sizeof bits);
	}
}

int fleet_dictionary_put(struct fleet_dictionary_out *d, struct buf *out, const struct stackvec *const *v, size_t n, enum symbols_detail detail,
			 const struct symbols_marks *asker_has, struct err *e)
{
	CLEANUP(buf_free) struct buf rows = { .max = out->max };
	size_t start = out->len, total = 0, largest = 0, n_cells;
	for (size_t i = 0; i < n; i++) {
		total += v[i]->n;
		largest = MAX(largest, v[i]->n);
	}
	AUTOFREE uint32_t *columns = xreallocarray(NULL, total, sizeof *columns);
	AUTOFREE struct dictionary_cell *cells = xreallocarray(NULL, largest, sizeof *cells);
	dictionary_translate(d, v, n, detail, asker_has, columns, &rows);
	buf_varint(out, rows.len);
	buf_putv(out, buf_view(&rows));
	out->overflow |= rows.overflow;
	int rc = 0;
	const uint32_t *mine = columns;
	for (size_t i = 0; i < n && !rc && !out->overflow; mine += v[i++]->n) {
		rc = dictionary_cells(v[i], mine, cells, &n_cells, e);
		if (!rc)
			dictionary_put_vector(out, cells, n_cells, v[i]->is_float);
	}
	if (!rc && out->overflow)
		rc = err_set(e, ERR_LIMIT, "an answer with %zu profiles of %zu stacks passes its limit of %zu bytes", n, total,
			     out->max ? out->max : BUF_DEFAULT_MAX);
	if (rc)
		out->len = start;
	if (out->ptr)
		out->ptr[out->len] = 0;
	return rc;
}

/* ---- the asker's side ---- */

#define ENTRIES_MAX ((size_t)1 << 31) /* tables hold twice as many */
static const char dictionary_no_room[] = "the profiles need more memory than the question has";
#define OVERTAKEN_MAX 256 /* answers of another dictionary, after which none of the one before is expected */

/* A server's dictionary. id 0: none. */
struct dictionary_mirror {
	uint64_t id;
	struct symbols *symbols; /* reference held */
	struct symbols_rows_limit left;
};

struct fleet_dictionary_in {
	struct mutex lock;
	size_t max_bytes;
	/* Under lock: */
	struct dictionary_mirror now, before;
	unsigned since;          /* answers since one of `before` came */
	atomic_size_t bytes;
};

struct fleet_dictionary_in *fleet_dictionary_in_new(size_t max_bytes)
{
	struct fleet_dictionary_in *d = NEW(struct fleet_dictionary_in);
	mutex_init(&d->lock, RANK_FLEET_DICTIONARY, "fleet_dictionary_in.lock");
	d->max_bytes = max_bytes;
	return d;
}

static void mirror_drop(struct dictionary_mirror *m)
{
	symbols_unref(m->symbols);
	*m = (struct dictionary_mirror){ 0 };
}

void fleet_dictionary_in_free(struct fleet_dictionary_in *d)
{
	if (!d)
		return;
	mirror_drop(&d->now);
	mirror_drop(&d->before);
	mutex_destroy(&d->lock);
	free(d);
}

size_t fleet_dictionary_in_bytes(const struct fleet_dictionary_in *d)
{
	return atomic_load_explicit(&d->bytes, memory_order_relaxed);
}

static size_t mirror_bytes(const struct dictionary_mirror *m)
{
	return m->symbols ? symbols_bytes(m->symbols) : 0;
}

static void mirror_count(struct fleet_dictionary_in *d) REQUIRES(d->lock)
{
	atomic_store_explicit(&d->bytes, mirror_bytes(&d->now) + mirror_bytes(&d->before), memory_order_relaxed);
}

bool fleet_dictionary_in_marks(struct fleet_dictionary_in *d, uint64_t *ret_id, struct symbols_marks *ret)
{
	mutex_lock(&d->lock);
	bool known = d->now.id && mirror_bytes(&d->now) <= d->max_bytes / 4 * 3;
	*ret_id = known ? d->now.id : 0;
	if (known)
		symbols_marks_now(ret, d->now.symbols);
	else
		symbols_marks_start(ret);
	mutex_unlock(&d->lock);
	return known;
}

/* One of an answer that was wrong. The other one goes on. */
static void mirror_forget(struct fleet_dictionary_in *d, uint64_t id) REQUIRES(d->lock)
{
	if (d->before.id == id)
		mirror_drop(&d->before);
	if (d->now.id == id) {
		mirror_drop(&d->now);
		d->now = d->before;
		d->before = (struct dictionary_mirror){ 0 };
	}
	mirror_count(d);
}

/* The mirror of an id; NULL: there is none. */
static struct dictionary_mirror *mirror_of(struct fleet_dictionary_in *d, uint64_t id) REQUIRES(d->lock)
{
	if (d->before.id == id) {
		d->since = 0;
		return &d->before;
	}
	if (d->now.id != id)
		return NULL;
	if (d->before.id && ++d->since == OVERTAKEN_MAX)
		mirror_drop(&d->before);
	return &d->now;
}

/* Rows of an id without a mirror. They replace a mirror only if they are a whole dictionary: a late answer of one that was forgotten does not. */
static int mirror_begin(struct fleet_dictionary_in *d, uint64_t id, struct view rows, struct err *e) REQUIRES(d->lock)
{
	struct symbols *s = symbols_new();
	struct symbols_rows_limit left = { .entries = MIN(d->max_bytes / 4, ENTRIES_MAX), .bytes = d->max_bytes - MIN(d->max_bytes, symbols_bytes(s)),
					   .frames = d->max_bytes };
	int rc = symbols_rows_apply(rows, s, &left, e);
	if (rc) {
		symbols_unref(s);
		return rc;
	}
	mirror_drop(&d->before);
	d->before = d->now;
	d->since = 0;
	d->now = (struct dictionary_mirror){ id, s, left };
	return 0;
}

/* Adds the rows of an answer. The symbols that its vectors are over, a reference, and how many columns they have. */
static int mirror_add(struct fleet_dictionary_in *d, uint64_t id, struct view rows, struct symbols **ret, uint32_t *ret_columns, struct err *e)
{
	mutex_lock(&d->lock);
	struct dictionary_mirror *m = mirror_of(d, id);
	int rc = m ? symbols_rows_apply(rows, m->symbols, &m->left, e) : mirror_begin(d, id, rows, e);
	if (rc) {
		rc = err_wrap(e, "dictionary %016llx, of which %zu bytes are kept at most", (unsigned long long)id, d->max_bytes);
	} else {
		m = m ? m : &d->now;
		*ret = symbols_ref(m->symbols);
		*ret_columns = symbols_count(m->symbols, SYMBOLS_COLUMNS);
		if (mirror_bytes(&d->now) + mirror_bytes(&d->before) > d->max_bytes)
			mirror_drop(&d->before);
		mirror_count(d);
	}
	mutex_unlock(&d->lock);
	return rc;
}

/* NULL, or what is wrong with the columns. */
static const char *dictionary_take_columns(struct cursor *in, uint32_t n_columns, uint32_t *columns, size_t n)
{
	uint64_t next = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t gap = cursor_varint(in);
		if (UNLIKELY(gap >= n_columns - next))
			return "a column is not in the dictionary";
		columns[i] = (uint32_t)(next + gap);
		next += gap + 1;
	}
	return in->bad ? "columns are cut short" : NULL;
}

static const char *dictionary_take_ints(struct cursor *in, uint64_t factor, int64_t *values, size_t n)
{
	bool fits = factor && factor <= INT64_MAX;
	for (size_t i = 0; i < n; i++)
		fits &= !__builtin_mul_overflow(zigzag_decode(cursor_varint_quick(in)), (int64_t)factor, &values[i]);
	return in->bad ? "values are cut short" : fits ? NULL : "a value does not fit in 64 bits";
}

static const char *dictionary_take_floats(struct cursor *in, double *values, size_t n)
{
	struct view bytes = cursor_bytes(in, n * FLOAT_BYTES);
	for (size_t i = 0; !in->bad && i < n; i++) {
		uint64_t bits;
		memcpy(&bits, bytes.ptr + i * FLOAT_BYTES, sizeof bits);
		bits = le64toh(bits);
		memcpy(&values[i], &bits, sizeof bits);
	}
	return in->bad ? "values are cut short" : NULL;
}

/* NULL, or what is wrong. */
static const char *dictionary_take_vector(struct cursor *in, struct symbols *s, uint32_t n_columns, uint64_t *left, struct stackvec **ret)
{
	uint8_t kind = cursor_u8(in);
	uint64_t n = cursor_varint(in), factor = kind == KIND_INTS ? cursor_varint(in) : 1;
	if (in->bad || kind >= KINDS)
		return "its head is malformed";
	if (n > n_columns || n > (uint64_t)(in->end - in->p) / (1 + (kind == KIND_INTS ? 1 : FLOAT_BYTES)))
		return "it has more columns than there are";
	uint64_t bytes = sizeof **ret + n * (sizeof(uint32_t) + sizeof(int64_t));
	if (left && bytes > *left)
		return dictionary_no_room;
	if (left)
		*left -= *left == UINT64_MAX ? 0 : bytes;
	uint32_t *columns = xreallocarray(NULL, n, sizeof *columns);
	void *values = xreallocarray(NULL, n, sizeof(int64_t));
	const char *bad = dictionary_take_columns(in, n_columns, columns, n);
	if (!bad)
		bad = kind == KIND_INTS ? dictionary_take_ints(in, factor, values, n) : dictionary_take_floats(in, values, n);
	if (bad) {
		free(columns);
		free(values);
		return bad;
	}
	*ret = kind == KIND_INTS ? stackvec_new_ints(s, columns, values, n) : stackvec_new_floats(s, columns, values, n);
	return NULL;
}

/* Reads the vectors that follow the rows. */
static int dictionary_take_vectors(struct cursor *in, const uint8_t *start, struct symbols *s, uint32_t n_columns, uint64_t *left, struct stackvec **ret,
				   size_t n, struct err *e)
{
	const char *bad = NULL;
	size_t done = 0;
	while (done < n && !(bad = dictionary_take_vector(in, s, n_columns, left, &ret[done])))
		done++;
	if (!bad)
		return 0;
	for (size_t i = 0; i < done; i++) {
		stackvec_unref(ret[i]);
		ret[i] = NULL;
	}
	return err_set(e, bad == dictionary_no_room ? ERR_LIMIT : ERR_CORRUPT, "profile %zu of %zu, before byte %zu: %s", done + 1, n, (size_t)(in->p - start), bad);
}

int fleet_dictionary_take_within(struct fleet_dictionary_in *d, uint64_t id_of_answer, struct cursor *in, uint64_t *left, struct stackvec **ret, size_t n,
				 struct err *e)
{
	const uint8_t *start = in->p;
	struct symbols *s = NULL;
	uint32_t n_columns = 0;
	for (size_t i = 0; i < n; i++)
		ret[i] = NULL;
	if (!id_of_answer)
		return err_set(e, ERR_CORRUPT, "a dictionary has no id");
	struct view rows = cursor_bytes(in, cursor_count(in));
	int rc = in->bad ? err_set(e, ERR_CORRUPT, "rows of a dictionary are cut short") : mirror_add(d, id_of_answer, rows, &s, &n_columns, e);
	bool fits = rc == 0; /* what follows may be too large for its question, which says nothing against the mirror */
	if (!rc)
		rc = dictionary_take_vectors(in, start, s, n_columns, left, ret, n, e);
	symbols_unref(s);
	if (rc && !(fits && rc == -ERR_LIMIT)) {
		mutex_lock(&d->lock);
		mirror_forget(d, id_of_answer);
		mutex_unlock(&d->lock);
	}
	return rc;
}
