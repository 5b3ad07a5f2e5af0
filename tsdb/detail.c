/* SPDX-License-Identifier: Apache-2.0 */
/* DETAIL: three streams over the columns of the rollup, in its order, C of them, N samples in all.
 *
 *	0 counts  n escapes | L: C bytes, count-1 (255: the next escape, varint)   then for stream 1: n escapes, varints
 *	          = varint nl, nl x varint(count-1) | varint ng, ng x varint(gap-1) | L
 *	1 gaps    N bytes: row - previous row of the column - 1 (the first: the row itself); 255: the next escape of ng
 *	2 values  mode u8, then
 *	          BYTES   varint nv, nv x varint(value-1) | a byte value-1 per sample (255: the next escape)
 *	          SCALED  the same of value / g, after a varint g-1 per column with count > 1 (g: their common divisor)
 *	          DELTAS  varint g-1 per column with count > 1, then per sample zigzag(value/g - previous value/g)
 *
 *	Stream 2 has nothing of a column with one sample (its value is its sum), and in BYTES and SCALED nothing of one
 *	whose values are all equal to g (its sum is count x g).
 *
 * Separate keys, so that each stream gets a Huffman table of its own from zstd. */
#include "tsdb/detail.h"

#include "tsdb/sealed.h"

enum { VALUES_BYTES = 0, VALUES_SCALED = 1, VALUES_DELTAS = 2 };
#define ESCAPE 255

/* ---- turning rows into columns ---- */

struct place {
	uint32_t column, local;
	bool of_base;
};

static int by_column(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return (int)x->of_base - (int)y->of_base;
}

static void order_columns(struct detail_table *t, const struct chunk *c)
{
	size_t n_base = c->base ? c->base->columns.n : 0, n = 0;
	struct place *p = xreallocarray(NULL, c->columns.n + n_base + 1, sizeof *p);
	for (size_t i = 0; i < c->columns.n; i++)
		p[n++] = (struct place){ c->columns.v[i], (uint32_t)i, false };
	for (size_t i = 0; i < n_base; i++)
		p[n++] = (struct place){ c->base->columns.v[i], (uint32_t)i, true };
	qsort(p, n, sizeof *p, by_column);
	t->columns = xreallocarray(NULL, n + 1, sizeof *t->columns);
	t->own = xcalloc(c->columns.n + 1, sizeof *t->own);
	t->base = xcalloc(n_base + 1, sizeof *t->base);
	for (size_t i = 0; i < n; i++) {
		if (!t->n_columns || t->columns[t->n_columns - 1] != p[i].column)
			t->columns[t->n_columns++] = p[i].column;
		(p[i].of_base ? t->base : t->own)[p[i].local] = t->n_columns - 1;
	}
	free(p);
}

static void count_samples(struct detail_table *t, const struct chunk *c)
{
	uint32_t *locals = NULL;
	size_t room = 0;
	for (size_t i = 0; i < c->rows.n; i++) {
		const struct row *r = &c->rows.v[i];
		if (r->stale)
			continue;
		if (r->n > room) {
			room = r->n;
			locals = xreallocarray(locals, room, sizeof *locals);
		}
		const uint32_t *of = r->index_width ? t->own : t->base;
		chunk_row_locals(c, r, locals, NULL);
		for (uint32_t k = 0; k < r->n; k++)
			t->start[of[locals[k]] + 1]++;
		t->n_samples += r->n;
	}
	free(locals);
}

void detail_begin(struct detail_table *t, const struct chunk *c)
{
	order_columns(t, c);
	t->start = xcalloc(t->n_columns + 2, sizeof *t->start);
	t->fill = xcalloc(t->n_columns + 1, sizeof *t->fill);
	count_samples(t, c);
	for (uint32_t k = 0; k < t->n_columns; k++) {
		t->start[k + 1] += t->start[k];
		t->fill[k] = t->start[k];
	}
	t->rows = xreallocarray(NULL, (size_t)t->n_samples + 1, sizeof *t->rows);
	t->values = xreallocarray(NULL, (size_t)t->n_samples + 1, sizeof *t->values);
}

void detail_add_row(struct detail_table *t, const struct chunk *c, const struct row *r, uint32_t number)
{
	uint32_t few[512], *locals = few;
	int64_t few_values[512], *values = few_values;
	if (r->stale || !r->n)
		return;
	if (r->n > ARRAY_LEN(few)) {
		locals = xreallocarray(NULL, r->n, sizeof *locals);
		values = xreallocarray(NULL, r->n, sizeof *values);
	}
	const uint32_t *of = r->index_width ? t->own : t->base;
	chunk_row_locals(c, r, locals, values);
	for (uint32_t k = 0; k < r->n; k++) {
		uint32_t at = t->fill[of[locals[k]]]++;
		t->rows[at] = number;
		t->values[at] = values[k];
	}
	if (locals != few) {
		free(locals);
		free(values);
	}
}

void detail_release(struct detail_table *t)
{
	free(t->columns);
	free(t->own);
	free(t->base);
	free(t->start);
	free(t->fill);
	free(t->rows);
	free(t->values);
}

/* ---- writing ---- */

/* A byte, or 255 and the number in the list of escapes. */
static void put_byte(struct buf *bytes, struct buf *escapes, uint64_t *n, uint64_t v)
{
	if (v < ESCAPE) {
		buf_putc(bytes, (char)v);
		return;
	}
	buf_putc(bytes, (char)ESCAPE);
	buf_varint(escapes, v);
	++*n;
}

static void put_list(struct buf *out, uint64_t n, const struct buf *list)
{
	buf_varint(out, n);
	buf_put(out, list->ptr ? list->ptr : "", list->len);
}

/* Columns without a sample (what a base has more, or zeros) are not stored. */
static void put_positions(const struct detail_table *t, struct buf *counts, struct buf *gaps)
{
	struct buf l = { 0 }, el = { 0 }, eg = { 0 };
	uint64_t nl = 0, ng = 0;
	buf_reserve(gaps, t->n_samples);
	for (uint32_t k = 0; k < t->n_columns; k++) {
		uint32_t next = 0;
		if (t->start[k] == t->start[k + 1])
			continue;
		put_byte(&l, &el, &nl, t->start[k + 1] - t->start[k] - 1);
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++) {
			put_byte(gaps, &eg, &ng, t->rows[i] - next);
			next = t->rows[i] + 1;
		}
	}
	put_list(counts, nl, &el);
	put_list(counts, ng, &eg);
	buf_putv(counts, buf_view(&l));
	buf_free(&l);
	buf_free(&el);
	buf_free(&eg);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* The common divisor of a column's values, never so large that it has no int64. */
static int64_t divisor(const struct detail_table *t, uint32_t k)
{
	uint64_t g = 0;
	for (uint32_t i = t->start[k]; i < t->start[k + 1] && g != 1; i++)
		g = gcd(g, magnitude(t->values[i]));
	return g && g <= INT64_MAX ? (int64_t)g : 1;
}

struct census {
	uint64_t small, large; /* samples that fit a byte after dividing, that do not */
	bool negative, scaled;
};

static int64_t *divisors(const struct detail_table *t, struct census *c)
{
	int64_t *g = xcalloc(t->n_columns + 1, sizeof *g);
	*c = (struct census){ 0 };
	for (uint32_t k = 0; k < t->n_columns; k++) {
		if (t->start[k + 1] - t->start[k] < 2)
			continue;
		g[k] = divisor(t, k);
		c->scaled |= g[k] > 2;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++) {
			c->negative |= t->values[i] <= 0;
			if (magnitude(t->values[i] / g[k]) < ESCAPE)
				c->small++;
			else
				c->large++;
		}
	}
	return g;
}

/* Of small counts a divisor above 1 is chance, and costs more than it saves. */
static int choose_mode(const struct census *c)
{
	if (c->negative || c->large * 8 > c->small + c->large)
		return VALUES_DELTAS;
	return c->scaled && c->large + c->small ? VALUES_SCALED : VALUES_BYTES;
}

static bool all_equal(const struct detail_table *t, uint32_t k, int64_t v)
{
	for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
		if (t->values[i] != v)
			return false;
	return true;
}

static void put_deltas(const struct detail_table *t, const int64_t *g, struct buf *out)
{
	for (uint32_t k = 0; k < t->n_columns; k++) {
		int64_t before = 0;
		if (t->start[k + 1] - t->start[k] < 2)
			continue;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++) {
			int64_t v = t->values[i] / g[k];
			buf_zigzag(out, (int64_t)((uint64_t)v - (uint64_t)before));
			before = v;
		}
	}
}

static void put_bytes(const struct detail_table *t, const int64_t *g, bool scaled, struct buf *out)
{
	struct buf bytes = { 0 }, escapes = { 0 };
	uint64_t n = 0;
	for (uint32_t k = 0; k < t->n_columns; k++) {
		int64_t by = scaled ? g[k] : 1;
		if (t->start[k + 1] - t->start[k] < 2 || all_equal(t, k, by))
			continue;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
			put_byte(&bytes, &escapes, &n, (uint64_t)(t->values[i] / by) - 1);
	}
	put_list(out, n, &escapes);
	buf_putv(out, buf_view(&bytes));
	buf_free(&bytes);
	buf_free(&escapes);
}

static void put_values(const struct detail_table *t, struct buf *out)
{
	struct census c;
	int64_t *g = divisors(t, &c);
	int mode = choose_mode(&c);
	buf_putc(out, (char)mode);
	if (mode != VALUES_BYTES)
		for (uint32_t k = 0; k < t->n_columns; k++)
			if (t->start[k + 1] - t->start[k] > 1)
				buf_varint(out, (uint64_t)g[k] - 1);
	if (mode == VALUES_DELTAS)
		put_deltas(t, g, out);
	else
		put_bytes(t, g, mode == VALUES_SCALED, out);
	free(g);
}

int detail_finish(struct detail_table *t, struct buf *rollup, struct buf detail[3], uint64_t *ret_samples, struct err *e)
{
	uint32_t *columns = xreallocarray(NULL, (size_t)t->n_columns + 1, sizeof *columns), n = 0;
	int64_t *sums = xreallocarray(NULL, (size_t)t->n_columns + 1, sizeof *sums);
	bool over = false;
	for (uint32_t k = 0; k < t->n_columns; k++) {
		if (t->start[k] == t->start[k + 1])
			continue;
		columns[n] = t->columns[k];
		sums[n] = 0;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
			over |= __builtin_add_overflow(sums[n], t->values[i], &sums[n]);
		n++;
	}
	sealed_put_rollup(rollup, columns, sums, n);
	free(columns);
	free(sums);
	put_positions(t, &detail[0], &detail[1]);
	put_values(t, &detail[2]);
	*ret_samples = t->n_samples;
	bool full = rollup->overflow || detail[0].overflow || detail[1].overflow || detail[2].overflow;
	if (over || full)
		return err_set(e, ERR_EXECUTION, over ? "sums of a window do not fit in 64 bits" : "a series' window is too large");
	return 0;
}

/* ---- reading ---- */

struct reader {
	struct cursor l_escapes, g_escapes, v_escapes;
	const uint8_t *l, *l_end, *g, *g_end, *v, *v_end;
	int mode;
	struct cursor divisors, deltas;
	bool bad;
};

/* The list of escapes at c; c moves behind it. */
static struct cursor take_list(struct cursor *c)
{
	size_t n = cursor_count(c);
	struct cursor list = *c;
	for (size_t i = 0; i < n; i++)
		cursor_varint(c);
	list.end = c->p;
	return list;
}

static size_t count_many(const struct reader *r, size_t n)
{
	size_t many = 0;
	for (size_t k = 0; k < n; k++)
		many += r->l[k] > 0;
	return many;
}

static bool reader_open(struct reader *r, const struct sealed_detail *d)
{
	size_t n = d->rollup->columns.n;
	struct cursor c = cursor_of(d->counts);
	*r = (struct reader){ 0 };
	r->l_escapes = take_list(&c);
	r->g_escapes = take_list(&c);
	r->l = c.p;
	r->l_end = c.end;
	r->g = (const uint8_t *)d->gaps.ptr;
	r->g_end = r->g + d->gaps.len;
	if (c.bad || (size_t)(c.end - c.p) != n)
		return false;
	struct cursor v = cursor_of(d->values);
	r->mode = cursor_u8(&v);
	if (v.bad || r->mode > VALUES_DELTAS)
		return false;
	if (r->mode != VALUES_BYTES) {
		r->divisors = v;
		for (size_t k = count_many(r, n); k; k--)
			cursor_varint(&v);
		r->divisors.end = v.p;
	}
	if (r->mode == VALUES_DELTAS) {
		r->deltas = v;
	} else {
		r->v_escapes = take_list(&v);
		r->v = v.p;
		r->v_end = v.end;
	}
	return !v.bad;
}

static inline uint64_t get_byte(const uint8_t **p, const uint8_t *end, struct cursor *escapes, bool *bad)
{
	if (UNLIKELY(*p >= end)) {
		*bad = true;
		return 0;
	}
	uint8_t b = *(*p)++;
	if (LIKELY(b != ESCAPE))
		return b;
	uint64_t v = cursor_varint(escapes);
	*bad |= escapes->bad;
	return v;
}

/* One column after the other: its count and divisor, then whether values follow in the stream. */
struct column {
	uint64_t count;
	int64_t by;       /* divisor */
	int64_t sum;
	bool implied;     /* every value is `by`, or the only one is the sum */
};

static bool next_column(struct reader *r, const struct sealed_rollup *u, size_t k, struct column *c)
{
	c->count = get_byte(&r->l, r->l_end, &r->l_escapes, &r->bad) + 1;
	c->sum = u->sums.v[k];
	c->by = 1;
	if (c->count > (uint64_t)(r->g_end - r->g))
		r->bad = true;
	if (c->count == 1) {
		c->by = c->sum;
		c->implied = true;
		return !r->bad;
	}
	if (r->mode != VALUES_BYTES) {
		c->by = (int64_t)(cursor_varint(&r->divisors) + 1);
		r->bad |= r->divisors.bad || c->by <= 0;
	}
	int64_t least;
	c->implied = r->mode != VALUES_DELTAS && !__builtin_mul_overflow((int64_t)c->count, c->by, &least) && least == c->sum;
	return !r->bad;
}

static inline int64_t next_value(struct reader *r, const struct column *c, int64_t *before)
{
	if (c->implied)
		return c->by;
	if (r->mode == VALUES_DELTAS)
		*before = (int64_t)((uint64_t)*before + (uint64_t)cursor_zigzag(&r->deltas));
	else
		*before = (int64_t)get_byte(&r->v, r->v_end, &r->v_escapes, &r->bad) + 1;
	return (int64_t)((uint64_t)*before * (uint64_t)c->by);
}

static int bad_detail(struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the samples of a sealed window make no sense");
}

/* The plain case, nearly all of it: no escapes in this column. Its bytes are added up without further checks, and not
 * beyond the last row asked for. */
static bool sum_plain(struct reader *r, const struct column *c, uint32_t lo, uint32_t hi, int64_t *ret, bool *over)
{
	const uint8_t *g = r->g, *v = r->v;
	uint64_t n = c->count, sum = 0, next = 0;
	if (r->mode == VALUES_DELTAS || memchr(g, ESCAPE, n))
		return false;
	if (!c->implied && (n > (uint64_t)(r->v_end - v) || memchr(v, ESCAPE, n)))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t row = next + g[i];
		next = row + 1;
		if (row >= hi)
			break;
		if (row >= lo)
			sum += c->implied ? 1 : (uint64_t)v[i] + 1;
	}
	*over |= __builtin_mul_overflow((int64_t)sum, c->by, ret);
	r->g += n;
	if (!c->implied)
		r->v += n;
	return true;
}

static int64_t sum_column(struct reader *r, const struct column *c, uint32_t lo, uint32_t hi, bool *over)
{
	uint64_t next = 0;
	int64_t sum = 0, before = 0;
	if (sum_plain(r, c, lo, hi, &sum, over))
		return sum;
	for (uint64_t i = 0; i < c->count; i++) {
		uint64_t row = next + get_byte(&r->g, r->g_end, &r->g_escapes, &r->bad);
		next = row + 1;
		int64_t value = next_value(r, c, &before);
		if (row >= lo && row < hi)
			*over |= __builtin_add_overflow(sum, value, &sum);
	}
	return sum;
}

int sealed_sum_rows(const struct sealed_detail *d, uint32_t lo, uint32_t hi, int64_t *sums, uint64_t *ret_read,
		    struct err *e)
{
	struct reader r;
	struct column c;
	bool over = false;
	if (!reader_open(&r, d))
		return bad_detail(e);
	for (size_t k = 0; k < d->rollup->columns.n; k++) {
		if (!next_column(&r, d->rollup, k, &c))
			return bad_detail(e);
		sums[k] = sum_column(&r, &c, lo, hi, &over);
		*ret_read += c.count;
	}
	if (r.bad || r.deltas.bad)
		return bad_detail(e);
	return over ? err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range") : 0;
}

static bool add_column(struct reader *r, const struct column *c, bool hit, int64_t *rows, uint32_t n_rows)
{
	uint64_t next = 0;
	int64_t before = 0;
	bool over = false;
	for (uint64_t i = 0; i < c->count; i++) {
		uint64_t row = next + get_byte(&r->g, r->g_end, &r->g_escapes, &r->bad);
		next = row + 1;
		int64_t value = next_value(r, c, &before);
		if (!hit)
			continue;
		if (row >= n_rows) {
			r->bad = true;
			return false;
		}
		over |= __builtin_add_overflow(rows[row], value, &rows[row]);
	}
	return over;
}

/* A column that is not asked for is stepped over, if none of its bytes is an escape that would have to be taken. */
static bool skip_column(struct reader *r, const struct column *c)
{
	if (r->mode == VALUES_DELTAS || memchr(r->g, ESCAPE, c->count))
		return false;
	if (!c->implied) {
		if (c->count > (uint64_t)(r->v_end - r->v) || memchr(r->v, ESCAPE, c->count))
			return false;
		r->v += c->count;
	}
	r->g += c->count;
	return true;
}

int sealed_sum_columns(const struct sealed_detail *d, const uint8_t *hit, int64_t *rows, uint32_t n_rows,
		       uint64_t *ret_read, struct err *e)
{
	struct reader r;
	struct column c;
	bool over = false;
	if (!reader_open(&r, d))
		return bad_detail(e);
	for (size_t k = 0; k < d->rollup->columns.n; k++) {
		if (!next_column(&r, d->rollup, k, &c))
			return bad_detail(e);
		if (!hit[k] && skip_column(&r, &c))
			continue;
		over |= add_column(&r, &c, hit[k], rows, n_rows);
		*ret_read += c.count;
	}
	if (r.bad || r.deltas.bad)
		return bad_detail(e);
	return over ? err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range") : 0;
}

static bool take_column(struct reader *r, const struct column *c, uint32_t column, uint32_t n_rows, struct cells *out)
{
	uint64_t next = 0;
	int64_t before = 0;
	size_t at = out->rows.n;
	vec_reserve(&out->rows, at + c->count);
	vec_reserve(&out->columns, at + c->count);
	vec_reserve(&out->values, at + c->count);
	for (uint64_t i = 0; i < c->count; i++) {
		uint64_t row = next + get_byte(&r->g, r->g_end, &r->g_escapes, &r->bad);
		next = row + 1;
		if (row >= n_rows)
			return false;
		out->rows.v[at + i] = (uint32_t)row;
		out->columns.v[at + i] = column;
		out->values.v[at + i] = next_value(r, c, &before);
	}
	out->rows.n = out->columns.n = out->values.n = at + c->count;
	return !r->bad;
}

int sealed_cells(const struct sealed_detail *d, uint32_t n_rows, struct cells *out, struct err *e)
{
	struct reader r;
	struct column c;
	if (!reader_open(&r, d))
		return bad_detail(e);
	for (size_t k = 0; k < d->rollup->columns.n; k++)
		if (!next_column(&r, d->rollup, k, &c) || !take_column(&r, &c, d->rollup->columns.v[k], n_rows, out))
			return bad_detail(e);
	return r.bad || r.deltas.bad ? bad_detail(e) : 0;
}
