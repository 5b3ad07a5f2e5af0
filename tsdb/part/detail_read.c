/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of DETAIL, column by column; detail.c has the streams. Only requested columns are decoded, but escapes in skipped columns
 * must be counted. */
#include "tsdb/part/detail.h"
#include "tsdb/part/differences.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

struct reader {
	struct cursor l_escapes, g_escapes, v_escapes;
	const uint8_t *l, *l_end, *g, *g_end, *v, *v_end;
	int mode;
	struct cursor divisors, deltas;
	bool full; /* there are no gaps */
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
	*r = (struct reader){ .full = d->full };
	r->l_escapes = take_list(&c);
	r->g_escapes = take_list(&c);
	r->l = c.p;
	r->l_end = c.end;
	if (!d->full) { /* else they were not read */
		r->g = (const uint8_t *)d->gaps.ptr;
		r->g_end = r->g + d->gaps.len;
	}
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
	return err_set(e, ERR_CORRUPT, "the samples of a sealed window are malformed");
}

/* Takes the escapes of n bytes that are stepped over. */
static void skip_escapes(const uint8_t *p, size_t n, struct cursor *escapes)
{
	size_t k = 0;
	if (escapes->p == escapes->end)
		return;
	for (size_t i = 0; i < n; i++)
		k += p[i] == ESCAPE;
	while (k--)
		cursor_varint(escapes);
}

/* Sum of the column in rows [lo, hi), in modes whose values are bytes; nothing is decoded beyond hi. */
static int64_t sum_bytes(struct reader *r, const struct column *c, uint32_t lo, uint32_t hi, bool *over)
{
	const uint8_t *g = r->g, *v = r->v;
	uint64_t n = c->count, i = 0, next = 0;
	int64_t sum = 0;
	if (!c->implied && n > (uint64_t)(r->v_end - v)) {
		r->bad = true;
		return 0;
	}
	for (; i < n; i++) {
		uint64_t row = next + g[i], value = 0;
		if (UNLIKELY(g[i] == ESCAPE))
			row = next + cursor_varint(&r->g_escapes);
		if (row >= hi)
			break;
		next = row + 1;
		if (!c->implied && UNLIKELY((value = v[i]) == ESCAPE))
			value = cursor_varint(&r->v_escapes);
		if (row >= lo)
			*over |= __builtin_add_overflow(sum, value + 1, &sum);
	}
	if (i < n) {
		skip_escapes(g + i + 1, n - i - 1, &r->g_escapes);
		if (!c->implied)
			skip_escapes(v + i, n - i, &r->v_escapes);
	}
	r->g += n;
	if (!c->implied)
		r->v += n;
	*over |= __builtin_mul_overflow(sum, c->by, &sum);
	return sum;
}

static int64_t sum_column(struct reader *r, const struct column *c, uint32_t lo, uint32_t hi, bool *over)
{
	uint64_t next = 0;
	int64_t sum = 0, before = 0;
	if (r->mode != VALUES_DELTAS)
		return sum_bytes(r, c, lo, hi, over);
	for (uint64_t i = 0; i < c->count; i++) {
		uint64_t row = next + get_byte(&r->g, r->g_end, &r->g_escapes, &r->bad);
		next = row + 1;
		int64_t value = next_value(r, c, &before);
		if (row >= lo && row < hi)
			*over |= __builtin_add_overflow(sum, value, &sum);
	}
	return sum;
}

#ifdef __SSE2__
/* Whether eight samples can be added up at a time: few in a column, and rows that fit in 15 bits. */
#define FAST_COUNT 254
#define FAST_ROWS 30000

/* Rows of up to eight samples: `before` is the row before the first of them. */
static inline __m128i eight_rows(__m128i gaps, __m128i before)
{
	__m128i x = _mm_add_epi16(_mm_unpacklo_epi8(gaps, _mm_setzero_si128()), _mm_set1_epi16(1));
	x = _mm_add_epi16(x, _mm_slli_si128(x, 2));
	x = _mm_add_epi16(x, _mm_slli_si128(x, 4));
	x = _mm_add_epi16(x, _mm_slli_si128(x, 8));
	return _mm_add_epi16(x, before);
}

static inline int64_t add_lanes(__m128i v)
{
	v = _mm_madd_epi16(v, _mm_set1_epi16(1));
	v = _mm_add_epi32(v, _mm_srli_si128(v, 8));
	v = _mm_add_epi32(v, _mm_srli_si128(v, 4));
	return _mm_cvtsi128_si32(v);
}

/* The number of the n samples in rows below lo, or with v the sum of their values. Eight bytes may be read from wherever one of them
 * is. Returns how many were looked at, or more; 0: something is escaped. */
static inline size_t sum_below(const uint8_t *g, const uint8_t *v, size_t n, uint32_t lo, int64_t *ret)
{
	const __m128i ones = _mm_set1_epi8(-1), limit = _mm_set1_epi16((short)lo), lane = _mm_set_epi16(7, 6, 5, 4, 3, 2, 1, 0);
	__m128i sum = _mm_setzero_si128(), before = ones;
	size_t i = 0;
	for (;; i += 8) {
		__m128i inside = _mm_cmpgt_epi16(_mm_set1_epi16((short)MIN(n - i, 8)), lane);
		__m128i gaps = _mm_loadl_epi64((const __m128i *)(g + i)), values = v ? _mm_loadl_epi64((const __m128i *)(v + i)) : gaps;
		__m128i escaped = _mm_or_si128(_mm_cmpeq_epi8(gaps, ones), _mm_cmpeq_epi8(values, ones));
		if (UNLIKELY(_mm_movemask_epi8(_mm_and_si128(escaped, _mm_packs_epi16(inside, _mm_setzero_si128())))))
			return 0;
		__m128i rows = eight_rows(gaps, before), below = _mm_and_si128(_mm_cmpgt_epi16(limit, rows), inside);
		__m128i one = _mm_set1_epi16(1);
		if (v)
			one = _mm_add_epi16(_mm_unpacklo_epi8(values, _mm_setzero_si128()), one);
		sum = _mm_add_epi16(sum, _mm_and_si128(one, below));
		int last = _mm_extract_epi16(rows, 7);
		if (i + 8 >= n || last >= (int)lo)
			break;
		before = _mm_set1_epi16((short)last);
	}
	*ret = add_lanes(sum);
	return i + 8;
}

/* The list of escapes of gaps is of two bytes each, which is nearly always so: a row that needs more is not met in an hour. */
static bool short_escapes(const struct cursor *c)
{
	for (const uint8_t *p = c->p; p < c->end; p += 2)
		if (c->end - p < 2 || p[0] < 0x80 || p[1] >= 0x80)
			return false;
	return true;
}

/* The only sample of column k: all of its sum or nothing is below lo. */
static inline bool one_below(struct reader *r, uint32_t lo)
{
	static const uint8_t none[2];
	const uint8_t *at = r->g_escapes.p < r->g_escapes.end ? r->g_escapes.p : none;
	uint32_t row = *r->g++, far = (at[0] & 0x7f) | (uint32_t)at[1] << 7;
	bool escaped = row == ESCAPE;
	r->g_escapes.p += escaped ? 2 : 0;
	r->bad |= escaped && at == none;
	return (escaped ? far : row) < lo;
}

/* The values of columns from *k on in rows below lo, as long as eight at a time are possible; *k is the first remaining one. below[k]
 * is set. Of a mode of bytes, whose gaps' escapes are short; lo is below FAST_ROWS. */
static void sum_fast(struct reader *r, const struct sealed_rollup *u, size_t *k, uint32_t lo, int64_t *below, uint64_t *read)
{
	const int64_t *sums = u->sums.v;
	const bool far = r->g_escapes.p < r->g_escapes.end;
	size_t i = *k, n = u->columns.n;
	for (; i < n; i++) {
		size_t count = *r->l + 1u, room = (size_t)(r->g_end - r->g);
		if (count == 1 && room) {
			below[i] = one_below(r, lo) ? sums[i] : 0;
			r->l++;
			++*read;
			continue;
		}
		bool implied = (int64_t)count == sums[i];
		if (count > FAST_COUNT || count + 8 > room || (!implied && count + 8 > (size_t)(r->v_end - r->v)))
			break;
		size_t seen = sum_below(r->g, implied ? NULL : r->v, count, lo, &below[i]);
		if (!seen)
			break;
		if (seen < count && far && memchr(r->g + seen, ESCAPE, count - seen))
			break;
		if (seen < count && !implied && memchr(r->v + seen, ESCAPE, count - seen))
			break;
		r->l++;
		r->g += count;
		r->v += implied ? 0 : count;
		*read += count;
	}
	*k = i;
}
#endif

/* The values of the columns in rows below lo. */
static bool sum_first(struct reader *r, const struct sealed_rollup *u, uint32_t lo, int64_t *below, bool *over, uint64_t *read)
{
	struct column c;
#ifdef __SSE2__
	bool fast = r->mode == VALUES_BYTES && lo < FAST_ROWS && short_escapes(&r->g_escapes);
#endif
	for (size_t k = 0; k < u->columns.n; k++) {
#ifdef __SSE2__
		if (fast)
			sum_fast(r, u, &k, lo, below, read);
		if (k == u->columns.n)
			break;
#endif
		if (!next_column(r, u, k, &c))
			return false;
		below[k] = sum_column(r, &c, 0, lo, over);
		*read += c.count;
	}
	return true;
}

static bool sum_between(struct reader *r, const struct sealed_rollup *u, uint32_t lo, uint32_t hi, int64_t *sums, bool *over,
			uint64_t *read)
{
	struct column c;
	for (size_t k = 0; k < u->columns.n; k++) {
		if (!next_column(r, u, k, &c))
			return false;
		sums[k] = sum_column(r, &c, lo, hi, over);
		*read += c.count;
	}
	return true;
}

int sealed_sum_rows(const struct sealed_detail *d, uint32_t lo, uint32_t hi, int64_t *sums, uint64_t *ret_read,
		    struct err *e)
{
	const struct sealed_rollup *u = d->rollup;
	struct reader r;
	bool over = false, ok = reader_open(&r, d);
	if (ok && hi == UINT32_MAX) { /* the last rows are all less the first */
		ok = sum_first(&r, u, lo, sums, &over, ret_read);
		for (size_t k = 0; k < u->columns.n && ok; k++)
			over |= __builtin_sub_overflow(u->sums.v[k], sums[k], &sums[k]);
	} else if (ok && !lo) {
		ok = sum_first(&r, u, hi, sums, &over, ret_read);
	} else if (ok) {
		ok = sum_between(&r, u, lo, hi, sums, &over, ret_read);
	}
	r.bad |= r.g_escapes.bad || r.v_escapes.bad;
	if (!ok || r.bad || r.deltas.bad)
		return bad_detail(e);
	return over ? err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range") : 0;
}

/* ---- weighed sums ---- */

static bool all_zero(const uint8_t *p, size_t n)
{
	return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

/* A column that has a value in every row, each in a single byte. The weights are so small that the sum cannot overflow. */
static int64_t weigh_full_bytes(const uint8_t *v, size_t n, const struct weighing *w)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (int64_t)(v[i] + 1) * w->weights[i];
	return sum;
}

/* Any column; the caller multiplies by its divisor. False: it is malformed. */
static bool weigh_any(struct reader *r, const struct column *c, struct weighing *w, int64_t *ret)
{
	uint64_t next = 0;
	int64_t before = 0, sum = 0;
	bool over = false;
	for (uint64_t i = 0; i < c->count; i++) {
		uint64_t row = next + get_byte(&r->g, r->g_end, &r->g_escapes, &r->bad);
		int64_t weighed, value = 1;
		if (row >= w->n_rows)
			return false;
		next = row + 1;
		if (!c->implied) {
			(void)next_value(r, c, &before);
			value = before;
		}
		over |= __builtin_mul_overflow(value, w->weights[row], &weighed);
		over |= __builtin_add_overflow(sum, weighed, &sum);
	}
	w->fits &= !over;
	*ret = sum;
	return true;
}

static bool weigh_column(struct reader *r, const struct column *c, struct weighing *w, int64_t *ret)
{
	size_t n = c->count;
	bool full = r->mode != VALUES_DELTAS && n == w->n_rows && n <= (size_t)(r->g_end - r->g) && all_zero(r->g, n);
	bool bytes = full && w->small && !c->implied && n <= (size_t)(r->v_end - r->v) && !memchr(r->v, ESCAPE, n);
	if (full && (bytes || c->implied)) {
		*ret = c->implied ? w->from[0] : weigh_full_bytes(r->v, n, w);
		r->g += n;
		r->v += bytes ? n : 0;
	} else if (!weigh_any(r, c, w, ret)) {
		return false;
	}
	w->fits &= !__builtin_mul_overflow(*ret, c->by, ret);
	return true;
}

/* Whether the next column is in every row, as differences. */
static bool is_full_deltas(const struct reader *r, const struct weighing *w)
{
	struct cursor escapes = r->l_escapes;
	const uint8_t *l = r->l;
	bool bad = false;
	uint64_t n = get_byte(&l, r->l_end, &escapes, &bad) + 1;
	return r->mode == VALUES_DELTAS && !bad && n > 1 && n == w->n_rows && n <= (size_t)(r->g_end - r->g) && all_zero(r->g, n);
}

/* How many bytes are 0 before another. */
static size_t count_zeros(const uint8_t *p, size_t n)
{
	uint64_t eight;
	size_t i = 0;
	for (; i + 8 <= n && (memcpy(&eight, p + i, 8), !eight); i += 8)
		;
	while (i < n && !p[i])
		i++;
	return i;
}

/* Steps over columns that are in every row, as differences, most of them at most, and returns how many; their divisors go to by. */
static size_t take_full_columns(struct reader *r, size_t most, uint32_t n_rows, int64_t *by)
{
	size_t n = 0;
	if (r->mode != VALUES_DELTAS || n_rows < 2 || n_rows > ESCAPE)
		return 0;
	if (!r->full)
		most = MIN(most, (size_t)(r->g_end - r->g) / n_rows);
	while (n < most && r->l[n] == n_rows - 1)
		n++;
	if (!r->full) {
		r->bad |= count_zeros(r->g, n * n_rows) < n * n_rows; /* there are no rows for gaps */
		r->g += n * n_rows;
	}
	bool bad = r->bad || n * n_rows > (size_t)(r->deltas.end - r->deltas.p); /* a difference has a byte at least */
	for (size_t i = 0; i < n && !bad; i++) {
		by[i] = (int64_t)(cursor_varint(&r->divisors) + 1);
		bad = by[i] <= 0;
	}
	r->bad = bad || r->divisors.bad;
	r->l += n;
	return n;
}

/* Columns from k on, as many as are full; their divisors go to by. Returns how many. */
static size_t weigh_full_columns(struct reader *r, const struct sealed_rollup *u, size_t k, struct weighing *w, int64_t *by, int64_t *sums, uint64_t *read)
{
	struct column c;
	size_t n = take_full_columns(r, u->columns.n - k, w->n_rows, by);
	for (; k + n < u->columns.n && is_full_deltas(r, w) && next_column(r, u, k + n, &c); r->g += w->n_rows)
		by[n++] = c.by;
	if (r->bad)
		return n;
	differences_weigh(&r->deltas, w, n, sums + k);
	for (size_t i = 0; i < n; i++)
		w->fits &= !__builtin_mul_overflow(sums[k + i], by[i], &sums[k + i]);
	*read += n * w->n_rows;
	return n;
}

/* Rows that follow each other and have one weight: their sums are fast to get of bytes. */
static int weigh_run(const struct sealed_detail *d, const struct weighing *w, int64_t *sums, bool *ret_fits, uint64_t *ret_read, struct err *e)
{
	size_t n = d->rollup->columns.n;
	bool over = false;
	*ret_fits = true;
	if (w->lo == w->hi) {
		memset(sums, 0, n * sizeof *sums);
		return 0;
	}
	int rc = sealed_sum_rows(d, w->lo, w->hi == w->n_rows ? UINT32_MAX : w->hi, sums, ret_read, e);
	for (size_t k = 0; k < n && !rc; k++)
		over |= __builtin_mul_overflow(sums[k], w->weights[w->lo], &sums[k]);
	*ret_fits = !rc && !over;
	return rc == -ERR_EXECUTION ? 0 : rc;
}

bool sealed_has_differences(const struct sealed_detail *d)
{
	struct cursor v = cursor_of(d->values);
	return cursor_u8(&v) == VALUES_DELTAS;
}

/* The counts less 1 by column, 255 for an escape; NULL: they are malformed. */
static const uint8_t *detail_counts(const struct sealed_detail *d)
{
	struct cursor c = cursor_of(d->counts);
	bool escaped = true; /* no number that fits in a byte is */
	for (size_t n = cursor_count(&c); n; n--)
		escaped &= cursor_varint(&c) >= ESCAPE;
	(void)take_list(&c);
	return !c.bad && escaped && (size_t)(c.end - c.p) == d->rollup->columns.n ? c.p : NULL;
}

const uint8_t *sealed_weighed_counts(const struct sealed_detail *d)
{
	return sealed_has_differences(d) ? detail_counts(d) : NULL;
}

bool sealed_is_full(const struct sealed_detail *d, uint32_t n_rows)
{
	size_t n = d->rollup->columns.n;
	const uint8_t *counts = detail_counts(d);
	return sealed_has_differences(d) && counts && n && n_rows > 1 && n_rows <= ESCAPE && counts[0] == n_rows - 1 && !memcmp(counts, counts + 1, n - 1);
}

int sealed_weigh_rows(const struct sealed_detail *d, const int64_t *weights, uint32_t n_rows, int64_t *sums, bool *ret_fits, uint64_t *ret_read,
		      struct err *e)
{
	struct reader r;
	struct column c;
	struct weighing w;
	if (!reader_open(&r, d))
		return bad_detail(e);
	bool ok = true;
	weighing_open(&w, weights, n_rows);
	if (w.lo == w.hi || (w.same && r.mode != VALUES_DELTAS)) {
		weighing_release(&w);
		return weigh_run(d, &w, sums, ret_fits, ret_read, e);
	}
	int64_t *by = xcalloc(d->rollup->columns.n + 1, sizeof *by);
	for (size_t k = 0; k < d->rollup->columns.n && ok; k++) {
		k += weigh_full_columns(&r, d->rollup, k, &w, by, sums, ret_read);
		if (k == d->rollup->columns.n)
			break;
		ok = next_column(&r, d->rollup, k, &c) && weigh_column(&r, &c, &w, &sums[k]);
		*ret_read += c.count;
	}
	free(by);
	weighing_release(&w);
	r.bad |= r.g_escapes.bad || r.v_escapes.bad;
	if (!ok || r.bad || r.deltas.bad)
		return bad_detail(e);
	*ret_fits = w.fits;
	return 0;
}

/* Of a mode whose values are bytes; there are as many gaps. False: it is malformed. */
static bool add_byte_column(struct reader *r, const struct column *c, int64_t *rows, uint32_t n_rows, bool *over)
{
	uint64_t next = 0, n = c->count;
	const uint8_t *g = r->g, *v = r->v;
	if (!c->implied && n > (uint64_t)(r->v_end - v))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t row = next + (LIKELY(g[i] != ESCAPE) ? g[i] : cursor_varint(&r->g_escapes));
		int64_t value = c->by;
		if (row >= n_rows)
			return false;
		next = row + 1;
		if (!c->implied) {
			value = (int64_t)(LIKELY(v[i] != ESCAPE) ? v[i] : cursor_varint(&r->v_escapes)) + 1;
			value = (int64_t)((uint64_t)value * (uint64_t)c->by);
		}
		*over |= __builtin_add_overflow(rows[row], value, &rows[row]);
	}
	r->g += n;
	if (!c->implied)
		r->v += n;
	return true;
}

static bool add_column(struct reader *r, const struct column *c, bool hit, int64_t *rows, uint32_t n_rows)
{
	uint64_t next = 0;
	int64_t before = 0;
	bool over = false;
	if (hit && r->mode != VALUES_DELTAS) {
		r->bad |= !add_byte_column(r, c, rows, n_rows, &over);
		return over;
	}
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

/* A column that is not asked for is stepped over. */
static bool skip_column(struct reader *r, const struct column *c)
{
	if (r->mode == VALUES_DELTAS)
		return false;
	skip_escapes(r->g, c->count, &r->g_escapes);
	r->g += c->count;
	if (c->implied)
		return true;
	if (c->count > (uint64_t)(r->v_end - r->v)) {
		r->bad = true;
		return true;
	}
	skip_escapes(r->v, c->count, &r->v_escapes);
	r->v += c->count;
	return true;
}

/* Steps over columns from k on that are not asked for, as far as their counts say all; what is escaped in them is taken by
 * settle(). Returns the next column to look at. */
static size_t skip_run(struct reader *r, const struct sealed_rollup *u, const uint8_t *hit, size_t k)
{
	size_t gaps = 0, values = 0, n = u->columns.n;
	const uint8_t *l = r->l;
	for (; k < n && !hit[k] && *l != ESCAPE; k++, l++) {
		size_t count = *l + 1u;
		gaps += count;
		values += count > 1 && (int64_t)count != u->sums.v[k] ? count : 0;
	}
	r->bad |= gaps > (size_t)(r->g_end - r->g) || values > (size_t)(r->v_end - r->v);
	if (r->bad)
		return n;
	r->l = l;
	r->g += gaps;
	r->v += values;
	return k;
}

static void settle(const uint8_t *from, const uint8_t *to, struct cursor *escapes)
{
	while (from < to && escapes->p < escapes->end && (from = memchr(from, ESCAPE, (size_t)(to - from)))) {
		cursor_varint(escapes);
		from++;
	}
}

int sealed_sum_columns(const struct sealed_detail *d, const uint8_t *hit, int64_t *rows, uint32_t n_rows,
		       uint64_t *ret_read, struct err *e)
{
	struct reader r;
	struct column c;
	bool over = false;
	if (!reader_open(&r, d))
		return bad_detail(e);
	for (size_t k = 0, n = d->rollup->columns.n; k < n; k++) {
		if (r.mode == VALUES_BYTES) {
			const uint8_t *g = r.g, *v = r.v;
			k = skip_run(&r, d->rollup, hit, k);
			settle(g, r.g, &r.g_escapes);
			settle(v, r.v, &r.v_escapes);
		}
		if (k == n)
			break;
		if (!next_column(&r, d->rollup, k, &c))
			return bad_detail(e);
		if (!hit[k] && skip_column(&r, &c))
			continue;
		over |= add_column(&r, &c, hit[k], rows, n_rows);
		*ret_read += c.count;
	}
	r.bad |= r.g_escapes.bad || r.v_escapes.bad;
	if (r.bad || r.deltas.bad)
		return bad_detail(e);
	return over ? err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range") : 0;
}

/* The rows of a column, which ascend. False: there are none. */
static bool take_rows(struct reader *r, size_t n, uint32_t n_rows, uint32_t *rows)
{
	const uint8_t *g = r->g;
	uint64_t next = 0;
	bool bad = false;
	for (size_t i = 0; i < n; i++) {
		uint64_t row = next + (LIKELY(g[i] != ESCAPE) ? g[i] : cursor_varint(&r->g_escapes));
		bad |= row >= n_rows;
		rows[i] = (uint32_t)row;
		next = row + 1;
	}
	r->g += n;
	return !bad && !r->g_escapes.bad;
}

static bool take_values(struct reader *r, const struct column *c, int64_t *values)
{
	size_t n = c->count;
	const uint8_t *v = r->v;
	if (c->implied) {
		for (size_t i = 0; i < n; i++)
			values[i] = c->by;
		return true;
	}
	if (r->mode == VALUES_DELTAS) {
		int64_t before = 0;
		for (size_t i = 0; i < n; i++)
			values[i] = next_value(r, c, &before);
		return !r->deltas.bad;
	}
	if (n > (size_t)(r->v_end - v))
		return false;
	for (size_t i = 0; i < n; i++) {
		int64_t value = (int64_t)(LIKELY(v[i] != ESCAPE) ? v[i] : cursor_varint(&r->v_escapes)) + 1;
		values[i] = (int64_t)((uint64_t)value * (uint64_t)c->by);
	}
	r->v += n;
	return !r->v_escapes.bad;
}

/* The rows of a column that are wanted, and the numbers of their samples; *ret_n of them. */
static bool take_wanted_rows(struct reader *r, size_t n, uint32_t n_rows, const uint8_t *wanted, uint32_t *rows, uint32_t *numbers, size_t *ret_n)
{
	const uint8_t *g = r->g;
	uint64_t next = 0;
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t row = next + (LIKELY(g[i] != ESCAPE) ? g[i] : cursor_varint(&r->g_escapes));
		if (UNLIKELY(row >= n_rows))
			return false;
		rows[kept] = (uint32_t)row;
		numbers[kept] = (uint32_t)i;
		kept += wanted[row]; /* a branch would be guessed wrong often */
		next = row + 1;
	}
	r->g += n;
	*ret_n = kept;
	return !r->g_escapes.bad;
}

/* Their values. If all are needed to read one, work has room for them. */
static bool take_numbered_values(struct reader *r, const struct column *c, const uint32_t *numbers, size_t n, int64_t *work, int64_t *values)
{
	const uint8_t *v = r->v;
	if (!c->implied && (r->mode == VALUES_DELTAS || r->v_escapes.p != r->v_escapes.end)) {
		if (!take_values(r, c, work))
			return false;
		for (size_t i = 0; i < n; i++)
			values[i] = work[numbers[i]];
		return true;
	}
	if (!c->implied && c->count > (uint64_t)(r->v_end - v))
		return false;
	for (size_t i = 0; i < n; i++)
		values[i] = c->implied ? c->by : (int64_t)((uint64_t)(v[numbers[i]] + 1) * (uint64_t)c->by);
	r->v += c->implied ? 0 : c->count;
	return true;
}

/* The requested part of one column; *ret_n samples. Work has the size of one column. */
static bool take_column(struct reader *r, const struct column *c, uint32_t n_rows, const uint8_t *wanted, int64_t *work, uint32_t *rows,
			uint32_t *columns, int64_t *values, size_t *ret_n)
{
	*ret_n = c->count;
	if (!wanted)
		return take_rows(r, c->count, n_rows, rows) && take_values(r, c, values);
	return take_wanted_rows(r, c->count, n_rows, wanted, rows, columns, ret_n) && take_numbered_values(r, c, columns, *ret_n, work, values);
}

int sealed_cells(const struct sealed_detail *d, uint32_t n_rows, const uint8_t *wanted, struct cells *out, struct err *e)
{
	struct reader r;
	struct column c;
	if (!reader_open(&r, d))
		return bad_detail(e);
	size_t at = out->rows.n, end = at + (size_t)(r.g_end - r.g); /* a byte each */
	vec_reserve(&out->rows, end);
	vec_reserve(&out->columns, end);
	vec_reserve(&out->values, end);
	int64_t *work AUTOFREE = wanted ? xcalloc((size_t)n_rows + 1, sizeof *work) : NULL;
	for (size_t k = 0; k < d->rollup->columns.n; k++) {
		size_t n;
		if (!next_column(&r, d->rollup, k, &c) || (wanted && c.count > n_rows) ||
		    !take_column(&r, &c, n_rows, wanted, work, out->rows.v + at, out->columns.v + at, out->values.v + at, &n))
			return bad_detail(e);
		for (size_t i = 0; i < n; i++)
			out->columns.v[at + i] = d->rollup->columns.v[k];
		at += n;
	}
	out->rows.n = out->columns.n = out->values.n = at;
	return 0;
}
