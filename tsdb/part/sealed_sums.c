/* SPDX-License-Identifier: Apache-2.0 */
/* ROLLUP: the columns of a series, ascending, and what each adds up to. Two ways, after the mode:
 *
 *	OWN    varint n | n varints: gaps | sums u8 | n varints of sum - 1 (0), or zigzags of sums (1)
 *	BYTES  varint n | escapes of gaps | escapes of sums | n bytes: gaps | n bytes: sums - 1
 *	       escapes = varint number, varints; a byte 255 stands for the next of them
 *
 * A gap is the column less the one before, less 1; the first is the column itself. BYTES is written where few numbers need an
 * escape, which is nearly always. Merging many series adds these up, so they are added in encoded form, eight entries at a time. Most
 * gaps of a day's sums are 0, so eight sums go to eight adjacent columns. */
#include "tsdb/part/sealed.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum { MODE_OWN = 0, MODE_BYTES = 2 };
#define ESCAPE 255

static int corrupt(struct err *e, const char *what)
{
	return err_set(e, ERR_CORRUPT, "%s of a sealed window are malformed", what);
}

enum { SUMS_POSITIVE = 0, SUMS_SIGNED = 1 };

static uint8_t *put_varints(uint8_t *at, const uint32_t *columns, const int64_t *sums, size_t n, bool positive)
{
	uint32_t next = 0;
	*at++ = MODE_OWN;
	at += varint_put(at, n);
	for (size_t i = 0; i < n; i++) {
		at += varint_put(at, columns[i] - next);
		next = columns[i] + 1;
	}
	*at++ = positive ? SUMS_POSITIVE : SUMS_SIGNED;
	for (size_t i = 0; i < n; i++)
		at += varint_put(at, positive ? (uint64_t)sums[i] - 1 : zigzag_encode(sums[i]));
	return at;
}

/* The list of this many escapes of n numbers: those of columns' gaps, or of sums. */
static uint8_t *put_escapes(uint8_t *at, const uint32_t *columns, const int64_t *sums, size_t n, size_t escapes)
{
	at += varint_put(at, escapes);
	for (size_t i = 0; i < n && escapes; i++) {
		uint64_t v = columns ? columns[i] - (i ? columns[i - 1] + 1 : 0) : (uint64_t)sums[i] - 1;
		if (v >= ESCAPE)
			at += varint_put(at, v);
	}
	return at;
}

static uint8_t *put_bytes(uint8_t *at, const uint32_t *columns, const int64_t *sums, size_t n, size_t far, size_t large)
{
	uint32_t next = 0;
	*at++ = MODE_BYTES;
	at += varint_put(at, n);
	at = put_escapes(at, columns, NULL, n, far);
	at = put_escapes(at, NULL, sums, n, large);
	for (size_t i = 0; i < n; i++) {
		*at++ = (uint8_t)MIN(columns[i] - next, ESCAPE);
		next = columns[i] + 1;
	}
	for (size_t i = 0; i < n; i++)
		*at++ = (uint8_t)MIN(sums[i] - 1, ESCAPE);
	return at;
}

void sealed_put_rollup(struct buf *b, const uint32_t *columns, const int64_t *sums, size_t n)
{
	bool positive = true;
	size_t far = 0, large = 0;
	if (!buf_reserve(b, 32 + n * 20))
		return;
	for (size_t i = 0; i < n; i++) {
		far += columns[i] - (i ? columns[i - 1] + 1 : 0) >= ESCAPE;
		large += sums[i] > ESCAPE;
		positive &= sums[i] > 0;
	}
	uint8_t *start = (uint8_t *)b->ptr + b->len;
	bool bytes = positive && (far + large) * 8 <= n;
	b->len += (size_t)((bytes ? put_bytes(start, columns, sums, n, far, large) : put_varints(start, columns, sums, n, positive)) - start);
	char *fit = realloc(b->ptr, b->len + 1); /* it waits for the others: no more than it needs */
	if (fit) {
		b->ptr = fit;
		b->cap = b->len + 1;
	}
	b->ptr[b->len] = 0;
}

/* n gaps; most of them are a byte, so that eight are looked at at once. */
static bool get_columns(struct cursor *c, uint32_t *columns, size_t n)
{
	uint64_t next = 0;
	for (size_t i = 0; i < n;) {
		uint64_t eight;
		if (n - i >= 8 && c->end - c->p >= 8 && (memcpy(&eight, c->p, 8), !(eight & UINT64_C(0x8080808080808080)))) {
			for (int k = 0; k < 8; k++) {
				uint64_t column = next + c->p[k];
				columns[i + (size_t)k] = (uint32_t)column;
				next = column + 1;
			}
			c->p += 8;
			i += 8;
		} else {
			uint64_t column = next + cursor_varint(c);
			columns[i++] = (uint32_t)column;
			next = column + 1;
		}
		if (next > UINT32_MAX)
			return false;
	}
	return true;
}

static void get_sums(struct cursor *c, int64_t *sums, size_t n)
{
	for (size_t i = 0; i < n;) {
		uint64_t eight;
		if (n - i >= 8 && c->end - c->p >= 8 && (memcpy(&eight, c->p, 8), !(eight & UINT64_C(0x8080808080808080)))) {
			for (int k = 0; k < 8; k++)
				sums[i + (size_t)k] = c->p[k] + 1;
			c->p += 8;
			i += 8;
		} else if (c->end - c->p >= 2 && c->p[0] >= 0x80 && c->p[1] < 0x80) {
			sums[i++] = ((c->p[0] & 0x7f) | c->p[1] << 7) + 1;
			c->p += 2;
		} else {
			sums[i++] = (int64_t)(cursor_varint_quick(c) + 1);
		}
	}
}

static int get_varints(struct cursor *c, struct sealed_rollup *ret, struct err *e)
{
	size_t n = cursor_count(c);
	vec_reserve(&ret->columns, n + 1);
	vec_reserve(&ret->sums, n + 1);
	if (!get_columns(c, ret->columns.v, n))
		return corrupt(e, "columns");
	ret->late_signed = cursor_u8(c) != SUMS_POSITIVE;
	ret->late = *c;
	ret->columns.n = ret->sums.n = n;
	return c->bad ? corrupt(e, "sums") : 0;
}

int sealed_get_rollup_sums(struct sealed_rollup *r, const uint8_t *counts, struct err *e)
{
	struct cursor c = r->late;
	size_t n = r->sums.n;
	r->late = (struct cursor){ 0 };
	if (!c.p)
		return 0;
	if (counts)
		memset(r->sums.v, 0, n * sizeof *r->sums.v);
	if (!counts && !r->late_signed) {
		get_sums(&c, r->sums.v, n);
		return c.bad ? corrupt(e, "sums") : 0;
	}
	for (size_t i = 0; i < n && !c.bad; i++) {
		const uint8_t *next = counts ? memchr(counts + i, 0, n - i) : NULL;
		size_t skipped = !counts ? 0 : next ? (size_t)(next - counts) - i : n - i;
		cursor_skip_varints(&c, skipped);
		i += skipped;
		if (i == n)
			break;
		uint64_t sum = cursor_varint_quick(&c);
		r->sums.v[i] = r->late_signed ? zigzag_decode(sum) : (int64_t)(sum + 1);
	}
	return c.bad ? corrupt(e, "sums") : 0;
}

/* MODE_BYTES, opened. */
struct byte_rollup {
	const uint8_t *gaps, *sums; /* n each */
	size_t n;
	struct cursor far, large;   /* escapes */
	uint64_t most;              /* what all sums cannot exceed, together; stops at UINT64_MAX */
};

static struct cursor take_escapes(struct cursor *c, uint64_t *most)
{
	size_t n = cursor_count(c);
	struct cursor list = *c;
	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(*most, cursor_varint(c), most))
			*most = UINT64_MAX;
	list.end = c->p;
	return list;
}

static bool open_bytes(struct byte_rollup *b, struct cursor *c)
{
	uint64_t ignored = 0;
	b->n = cursor_count(c);
	b->most = (uint64_t)b->n * (ESCAPE + 1); /* the least escape may be that */
	b->far = take_escapes(c, &ignored);
	b->large = take_escapes(c, &b->most);
	b->gaps = c->p;
	b->sums = c->p + b->n;
	return !c->bad && (uint64_t)(c->end - c->p) == 2 * (uint64_t)b->n;
}

static inline bool any_escape(uint64_t eight)
{
	uint64_t zero = ~eight;
	return (zero - UINT64_C(0x0101010101010101)) & eight & UINT64_C(0x8080808080808080);
}

static inline uint64_t byte_or_escape(uint8_t b, struct cursor *escapes)
{
	return LIKELY(b < ESCAPE) ? b : cursor_varint(escapes);
}

/* One entry; false: it is malformed. */
static inline bool next_entry(struct byte_rollup *b, size_t i, uint64_t n_columns, uint64_t *next, uint64_t *sum)
{
	uint64_t column = *next + byte_or_escape(b->gaps[i], &b->far);
	*sum = byte_or_escape(b->sums[i], &b->large) + 1;
	if (column >= n_columns || column < *next || *sum > INT64_MAX)
		return false;
	*next = column + 1;
	return true;
}

static int get_bytes(struct cursor *c, struct sealed_rollup *ret, struct err *e)
{
	struct byte_rollup b;
	uint64_t next = 0, sum;
	if (!open_bytes(&b, c))
		return corrupt(e, "sums");
	vec_reserve(&ret->columns, b.n + 1);
	vec_reserve(&ret->sums, b.n + 1);
	for (size_t i = 0; i < b.n; i++) {
		if (!next_entry(&b, i, UINT32_MAX, &next, &sum))
			return corrupt(e, "sums");
		ret->columns.v[i] = (uint32_t)next - 1;
		ret->sums.v[i] = (int64_t)sum;
	}
	ret->columns.n = ret->sums.n = b.n;
	return b.far.bad || b.large.bad ? corrupt(e, "sums") : 0;
}

/* Adds eight bytes, each plus one, to eight sums in a row. */
static inline void add_eight(int64_t *to, uint64_t eight)
{
#ifdef __SSE2__
	const __m128i zero = _mm_setzero_si128();
	__m128i w = _mm_add_epi16(_mm_unpacklo_epi8(_mm_cvtsi64_si128((long long)eight), zero), _mm_set1_epi16(1));
	__m128i half[2] = { _mm_unpacklo_epi16(w, zero), _mm_unpackhi_epi16(w, zero) };
	for (int k = 0; k < 2; k++) {
		__m128i *at = (__m128i *)(to + 4 * k);
		_mm_storeu_si128(at, _mm_add_epi64(_mm_loadu_si128(at), _mm_unpacklo_epi32(half[k], zero)));
		_mm_storeu_si128(at + 1, _mm_add_epi64(_mm_loadu_si128(at + 1), _mm_unpackhi_epi32(half[k], zero)));
	}
#else
	for (int k = 0; k < 8; k++)
		to[k] += (int64_t)(eight >> 8 * k & 0xff) + 1;
#endif
}

static inline void mark_run(struct dense *d, uint64_t first, uint64_t last)
{
	d->marks[first / 64] = 1;
	for (uint64_t k = first / 64 + 1; UNLIKELY(k < last / 64); k++)
		d->marks[k] = 1;
	d->marks[last / 64] = 1;
}

_Static_assert(8 * ESCAPE <= DENSE_SLACK, "eight gaps");

/* Adds the sums as they lie, eight at a time where none of them is escaped; the caller knows that no sum overflows. False: they
 * are malformed. */
static inline __attribute__((always_inline)) bool add_bytes(struct byte_rollup *b, struct dense *d, uint64_t n_columns, int64_t factor)
{
	uint64_t next = 0, gaps, eight, sum;
	size_t i = 0;
	for (; i + 8 <= b->n; i += 8) {
		uint64_t first = next;
		memcpy(&gaps, b->gaps + i, 8);
		memcpy(&eight, b->sums + i, 8);
		if (UNLIKELY(any_escape(gaps) || any_escape(eight))) {
			for (size_t k = 0; k < 8; k++) {
				if (!next_entry(b, i + k, n_columns, &next, &sum))
					return false;
				d->sums[next - 1] += (int64_t)sum * factor;
			}
		} else if (!gaps && factor == 1) {
			add_eight(d->sums + next, eight);
			next += 8;
		} else {
			for (size_t k = 0; k < 8; k++, next++) {
				next += b->gaps[i + k];
				d->sums[next] += (b->sums[i + k] + 1) * factor;
			}
		}
		if (next > n_columns) /* written beyond it, and not beyond the slack */
			return false;
		mark_run(d, first, next - 1);
	}
	for (; i < b->n; i++) {
		if (!next_entry(b, i, n_columns, &next, &sum))
			return false;
		d->sums[next - 1] += (int64_t)sum * factor;
		d->marks[(next - 1) / 64] = 1;
	}
	return !b->far.bad && !b->large.bad;
}

int sealed_get_rollup_columns(struct view v, struct sealed_rollup *ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	int mode = sealed_get_mode(&c, &ret->times);
	ret->columns.n = ret->sums.n = 0;
	ret->late = (struct cursor){ 0 };
	if (c.bad || mode > MODE_BYTES)
		return corrupt(e, "sums");
	return mode == SEALED_TIMES ? 0 : mode == MODE_BYTES ? get_bytes(&c, ret, e) : get_varints(&c, ret, e);
}

int sealed_get_rollup(struct view v, struct sealed_rollup *ret, struct err *e)
{
	int rc = sealed_get_rollup_columns(v, ret, e);
	return rc ? rc : sealed_get_rollup_sums(ret, NULL, e);
}

static int add_decoded(struct view v, struct sealed_rollup *w, struct dense *d, uint32_t n_columns, int64_t factor, uint64_t *ret_read,
		       struct err *e)
{
	int rc = sealed_get_rollup(v, w, e);
	if (rc || !w->columns.n)
		return rc;
	*ret_read += w->columns.n;
	if (w->columns.v[w->columns.n - 1] >= n_columns)
		return corrupt(e, "columns");
	return dense_add(d, w->columns.v, w->sums.v, w->columns.n, factor) ? 0 :
	       err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
}

int sealed_add_rollup(struct view v, struct sealed_rollup *w, struct dense *d, uint32_t n_columns, int64_t factor,
		      uint64_t *ret_read, struct err *e)
{
	struct cursor c = cursor_of(v);
	struct byte_rollup b;
	if (sealed_get_mode(&c, &w->times) != MODE_BYTES || !open_bytes(&b, &c) || !dense_expect(d, b.most, factor))
		return add_decoded(v, w, d, n_columns, factor, ret_read, e);
	*ret_read += b.n;
	bool ok = factor == 1 ? add_bytes(&b, d, n_columns, 1) : add_bytes(&b, d, n_columns, factor);
	return ok ? 0 : corrupt(e, "columns");
}

void sealed_rollup_release(struct sealed_rollup *r)
{
	vec_free(&r->columns);
	vec_free(&r->sums);
}
