/* SPDX-License-Identifier: Apache-2.0 */
#include "model/stackvec.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/vec.h"

static struct stackvec *make(struct symbols *s, uint32_t *columns, size_t n)
{
	struct stackvec *v = NEW(struct stackvec);
	v->refs = 1;
	v->symbols = symbols_ref(s);
	v->columns = columns;
	v->n = n;
	return v;
}

struct stackvec *stackvec_new_ints(struct symbols *s, uint32_t *columns, int64_t *values, size_t n)
{
	struct stackvec *v = make(s, columns, n);
	v->ints = values;
	return v;
}

struct stackvec *stackvec_new_floats(struct symbols *s, uint32_t *columns, double *values, size_t n)
{
	struct stackvec *v = make(s, columns, n);
	v->is_float = true;
	v->floats = values;
	return v;
}

struct stackvec *stackvec_empty(struct symbols *s)
{
	return make(s, NULL, 0);
}

struct stackvec *stackvec_ref(struct stackvec *v)
{
	__atomic_fetch_add(&v->refs, 1, __ATOMIC_RELAXED);
	return v;
}

void stackvec_unref(struct stackvec *v)
{
	if (!v || __atomic_fetch_sub(&v->refs, 1, __ATOMIC_ACQ_REL) != 1)
		return;
	symbols_unref(v->symbols);
	free(v->columns);
	free(v->is_float ? (void *)v->floats : (void *)v->ints);
	free(v);
}

int stackvec_total_int(const struct stackvec *v, int64_t *ret, struct err *e)
{
	int64_t sum = 0;
	for (size_t i = 0; i < v->n; i++) {
		int64_t x = v->is_float ? 0 : v->ints[i];
		if ((v->is_float && !num_round_i64(v->floats[i], &x)) || __builtin_add_overflow(sum, x, &sum))
			return err_set(e, ERR_EXECUTION, "the profile's total does not fit in 64 bits");
	}
	*ret = sum;
	return 0;
}

double stackvec_total(const struct stackvec *v)
{
	int64_t exact;
	if (!v->is_float && stackvec_total_int(v, &exact, NULL) == 0)
		return (double)exact;
	struct num_sum sum = { 0, 0 }; /* columns are in the order of their ids */
	for (size_t i = 0; i < v->n; i++)
		num_sum_add(&sum, v->is_float ? v->floats[i] : (double)v->ints[i]);
	return num_sum_value(sum);
}

/* ---- accumulator ----
 *
 * Pairs (column, value) are first collected in order of arrival. Once they are many compared with the number of
 * columns, they move into an array indexed by column, with a bit per touched column. Integers and floats are kept
 * apart, so that integers stay exact until a float joins them at the end. */

#define DENSE_FROM 4096

struct pair_int {
	uint32_t column;
	int64_t value;
};

struct pair_float {
	uint32_t column, number; /* number: order of arrival, once they are sorted */
	double value;
};

struct stackacc {
	struct symbols *symbols;
	VEC(struct pair_int) ints;
	VEC(struct pair_float) floats;
	int64_t *dense_ints;   /* NULL until it pays */
	struct num_sum *dense_floats; /* compensated: values come in the order of a dictionary's ids, which may differ from start to start */
	uint64_t *touched;     /* bits */
	uint32_t n_dense;      /* columns that the dense arrays hold */
	bool any_float, overflow;
	VEC(struct { struct symbols *from; struct symbols_map *map; }) maps; /* of foreign dictionaries met */
};

struct stackacc *stackacc_new(struct symbols *s)
{
	struct stackacc *a = NEW(struct stackacc);
	a->symbols = symbols_ref(s);
	return a;
}

static void drop_values(struct stackacc *a)
{
	vec_free(&a->ints);
	vec_free(&a->floats);
	free(a->dense_ints);
	free(a->dense_floats);
	free(a->touched);
	a->dense_ints = NULL;
	a->dense_floats = NULL;
	a->touched = NULL;
	a->n_dense = 0;
	a->any_float = a->overflow = false;
}

void stackacc_free(struct stackacc *a)
{
	if (!a)
		return;
	drop_values(a);
	for (size_t i = 0; i < a->maps.n; i++) {
		symbols_map_free(a->maps.v[i].map);
		symbols_unref(a->maps.v[i].from);
	}
	vec_free(&a->maps);
	symbols_unref(a->symbols);
	free(a);
}

static void grow_dense(struct stackacc *a, uint32_t column)
{
	uint32_t n = MAX(symbols_count(a->symbols, SYMBOLS_COLUMNS), column + 1);
	n = (n + 63) & ~63u;
	if (n <= a->n_dense)
		return;
	a->dense_ints = xreallocarray(a->dense_ints, n, sizeof *a->dense_ints);
	memset(a->dense_ints + a->n_dense, 0, (n - a->n_dense) * sizeof *a->dense_ints);
	a->touched = xreallocarray(a->touched, n / 64, sizeof *a->touched);
	memset(a->touched + a->n_dense / 64, 0, (n - a->n_dense) / 64 * sizeof *a->touched);
	if (a->dense_floats) {
		a->dense_floats = xreallocarray(a->dense_floats, n, sizeof *a->dense_floats);
		memset(a->dense_floats + a->n_dense, 0, (n - a->n_dense) * sizeof *a->dense_floats);
	}
	a->n_dense = n;
}

static inline void touch(struct stackacc *a, uint32_t column)
{
	a->touched[column / 64] |= UINT64_C(1) << column % 64;
}

static inline void dense_add(struct stackacc *a, uint32_t column, int64_t value)
{
	if (UNLIKELY(column >= a->n_dense))
		grow_dense(a, column);
	touch(a, column);
	if (UNLIKELY(__builtin_add_overflow(a->dense_ints[column], value, &a->dense_ints[column])))
		a->overflow = true;
}

static void dense_add_float(struct stackacc *a, uint32_t column, double value)
{
	if (column >= a->n_dense)
		grow_dense(a, column);
	if (!a->dense_floats)
		a->dense_floats = xcalloc(a->n_dense, sizeof *a->dense_floats);
	touch(a, column);
	num_sum_add(&a->dense_floats[column], value);
}

static void make_dense(struct stackacc *a)
{
	grow_dense(a, 0);
	for (size_t i = 0; i < a->ints.n; i++)
		dense_add(a, a->ints.v[i].column, a->ints.v[i].value);
	for (size_t i = 0; i < a->floats.n; i++)
		dense_add_float(a, a->floats.v[i].column, a->floats.v[i].value);
	vec_free(&a->ints);
	vec_free(&a->floats);
}

static void maybe_dense(struct stackacc *a)
{
	size_t n = a->ints.n + a->floats.n;
	if (n >= DENSE_FROM && n >= symbols_count(a->symbols, SYMBOLS_COLUMNS) / 4)
		make_dense(a);
}

void stackacc_add(struct stackacc *a, uint32_t column, int64_t value)
{
	if (a->dense_ints) {
		dense_add(a, column, value);
		return;
	}
	vec_push(&a->ints, (struct pair_int){ column, value });
	if (UNLIKELY(a->ints.n % DENSE_FROM == 0))
		maybe_dense(a);
}

void stackacc_add_scaled(struct stackacc *a, uint32_t column, double value)
{
	a->any_float = true;
	if (a->dense_ints) {
		dense_add_float(a, column, value);
		return;
	}
	vec_push(&a->floats, (struct pair_float){ column, 0, value });
	if (UNLIKELY(a->floats.n % DENSE_FROM == 0))
		maybe_dense(a);
}

static struct symbols_map *map_from(struct stackacc *a, struct symbols *from)
{
	for (size_t i = 0; i < a->maps.n; i++)
		if (a->maps.v[i].from == from)
			return a->maps.v[i].map;
	__auto_type m = vec_add(&a->maps);
	m->from = symbols_ref(from);
	m->map = symbols_map_new(from, a->symbols, SYMBOLS_WHOLE);
	return m->map;
}

static int negate(int64_t v, int64_t *ret)
{
	return __builtin_sub_overflow((int64_t)0, v, ret);
}

int stackacc_add_vec(struct stackacc *a, const struct stackvec *v, double scale, struct err *e)
{
	struct symbols_map *map = v->symbols == a->symbols ? NULL : map_from(a, v->symbols);
	bool exact = !v->is_float && (scale == 1 || scale == -1);
	if (!exact)
		a->any_float = true; /* even if v is empty: a scaled nothing is a float nothing */
	for (size_t i = 0; i < v->n; i++) {
		uint32_t column = map ? symbols_map_column(map, v->columns[i]) : v->columns[i];
		if (!exact) {
			stackacc_add_scaled(a, column, (v->is_float ? v->floats[i] : (double)v->ints[i]) * scale);
			continue;
		}
		int64_t x = v->ints[i];
		if (scale < 0 && negate(x, &x))
			return err_set(e, ERR_EXECUTION, "a value of %lld cannot be subtracted in 64 bits", (long long)v->ints[i]);
		stackacc_add(a, column, x);
	}
	return 0;
}

static int by_column(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y; /* first member of both kinds of pair */
	return (a > b) - (a < b);
}

/* Sorts the pairs unless they ascend already, and adds up equal columns. */
static void combine_ints(struct stackacc *a)
{
	struct pair_int *p = a->ints.v;
	size_t out = 0;
	bool sorted = true;
	for (size_t i = 1; i < a->ints.n && sorted; i++)
		sorted = p[i - 1].column <= p[i].column;
	if (!sorted)
		qsort(p, a->ints.n, sizeof *p, by_column);
	for (size_t i = 0; i < a->ints.n; i++) {
		if (out && p[out - 1].column == p[i].column)
			a->overflow |= __builtin_add_overflow(p[out - 1].value, p[i].value, &p[out - 1].value);
		else
			p[out++] = p[i];
	}
	a->ints.n = out;
}

static struct stackvec *finish_ints(struct stackacc *a)
{
	combine_ints(a);
	size_t n = a->ints.n;
	uint32_t *columns = xreallocarray(NULL, n, sizeof *columns);
	int64_t *values = xreallocarray(NULL, n, sizeof *values);
	for (size_t i = 0; i < n; i++) {
		columns[i] = a->ints.v[i].column;
		values[i] = a->ints.v[i].value;
	}
	return stackvec_new_ints(a->symbols, columns, values, n);
}

static int by_column_and_arrival(const void *x, const void *y)
{
	const struct pair_float *a = x, *b = y;
	return a->column != b->column ? (a->column > b->column) - (a->column < b->column) : (a->number > b->number) - (a->number < b->number);
}

/* The sums are those of the dense array, bit by bit. */
static struct stackvec *finish_floats(struct stackacc *a)
{
	combine_ints(a);
	for (size_t i = 0; i < a->floats.n; i++)
		a->floats.v[i].number = (uint32_t)i;
	if (a->floats.n)
		qsort(a->floats.v, a->floats.n, sizeof *a->floats.v, by_column_and_arrival);
	uint32_t *columns = xreallocarray(NULL, a->ints.n + a->floats.n, sizeof *columns);
	double *values = xreallocarray(NULL, a->ints.n + a->floats.n, sizeof *values);
	size_t out = 0, i = 0, k = 0;
	while (i < a->ints.n || k < a->floats.n) {
		uint32_t c = MIN(i < a->ints.n ? a->ints.v[i].column : UINT32_MAX, k < a->floats.n ? a->floats.v[k].column : UINT32_MAX);
		struct num_sum sum = { 0, 0 };
		for (; k < a->floats.n && a->floats.v[k].column == c; k++)
			num_sum_add(&sum, a->floats.v[k].value);
		num_sum_add(&sum, i < a->ints.n && a->ints.v[i].column == c ? (double)a->ints.v[i++].value : 0);
		columns[out] = c;
		values[out++] = num_sum_value(sum);
	}
	return stackvec_new_floats(a->symbols, columns, values, out);
}

static struct stackvec *finish_dense(struct stackacc *a)
{
	size_t n = 0, words = a->n_dense / 64;
	for (size_t w = 0; w < words; w++)
		n += (size_t)__builtin_popcountll(a->touched[w]);
	uint32_t *columns = xreallocarray(NULL, n, sizeof *columns);
	int64_t *ints = xreallocarray(NULL, n, sizeof *ints);
	double *floats = (double *)ints; /* the same room, the one or the other */
	size_t out = 0;
	for (size_t w = 0; w < words; w++)
		for (uint64_t bits = a->touched[w]; bits; bits &= bits - 1) {
			uint32_t c = (uint32_t)(w * 64 + (unsigned)__builtin_ctzll(bits));
			columns[out] = c;
			if (a->any_float) {
				struct num_sum sum = a->dense_floats ? a->dense_floats[c] : (struct num_sum){ 0, 0 };
				num_sum_add(&sum, (double)a->dense_ints[c]);
				floats[out] = num_sum_value(sum);
			} else {
				ints[out] = a->dense_ints[c];
			}
			out++;
		}
	return a->any_float ? stackvec_new_floats(a->symbols, columns, floats, n)
			    : stackvec_new_ints(a->symbols, columns, ints, n);
}

struct stackvec *stackacc_finish(struct stackacc *a, struct err *e)
{
	struct stackvec *v = NULL;
	size_t pairs = a->ints.n + a->floats.n;
	bool few = pairs < UINT32_MAX && pairs < symbols_count(a->symbols, SYMBOLS_COLUMNS) / 16;
	if (a->any_float && !a->dense_ints && !few)
		make_dense(a);
	if (a->dense_ints)
		v = finish_dense(a);
	else if (a->any_float)
		v = finish_floats(a);
	else
		v = finish_ints(a);
	if (a->overflow) {
		stackvec_unref(v);
		v = NULL;
		err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
	}
	drop_values(a);
	return v;
}

/* ---- whole vectors ---- */

struct stackvec *stackvec_sum(struct symbols *to, struct stackvec *const *v, const double *scales, size_t n,
			      struct err *e)
{
	struct stackacc *a = stackacc_new(to);
	struct stackvec *sum = NULL;
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = stackacc_add_vec(a, v[i], scales ? scales[i] : 1, e);
	if (!rc)
		sum = stackacc_finish(a, e);
	stackacc_free(a);
	return sum;
}

struct stackvec *stackvec_rebase(struct stackvec *v, struct symbols *to, struct err *e)
{
	return v->symbols == to ? stackvec_ref(v) : stackvec_sum(to, &v, NULL, 1, e);
}

int stackvec_from_profile(struct symbols *s, struct profile *p, struct stackvec **ret, struct err *e)
{
	uint32_t *columns = arena_alloc(&p->arena, p->n_samples * sizeof *columns);
	if (!columns)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	int rc = symbols_add_profile(s, p, columns, NULL, e);
	if (rc)
		return rc;
	struct stackacc *a = stackacc_new(s);
	for (uint32_t t = 0; t < p->n_sample_types && !rc; t++) {
		for (uint32_t i = 0; i < p->n_samples; i++)
			stackacc_add(a, columns[i], p->values[(size_t)i * p->n_sample_types + t]);
		ret[t] = stackacc_finish(a, e);
		if (!ret[t]) {
			rc = -(int)(e ? e->code : ERR_EXECUTION);
			while (t--)
				stackvec_unref(ret[t]);
			break;
		}
	}
	stackacc_free(a);
	return rc;
}
