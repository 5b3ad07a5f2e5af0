/* SPDX-License-Identifier: Apache-2.0 */
/* A difference is a zigzag varint: the lowest bit s of its first byte is the sign, six more bits of that byte and seven of each next one are the number u;
 * the difference is u, or -u - 1 if s is set. Each byte adds a number of its own to twice the difference. Let b be its seven bits without the highest one
 * (of the first byte: with s), and i its position in the varint, from 0:
 *
 *	s is 0     b x 128^i
 *	s is 1     -b x 128^i, and -1 more for i = 0
 *
 * So where many rows have the same weight, bytes are added up 32 at a time, and no varint is decoded. The three bytes before a byte say its position and where
 * s is. Where weights differ little, each byte is also multiplied by what the weight of its row is above the level, the weight of most rows; the number of
 * varints that end before the byte says which row that is. The first row, whose difference is its value and often large, is read by itself.
 *
 * On other processors, and for differences of more than four bytes, numbers are put together one by one. */
#include "tsdb/part/differences.h"

#include "base/alloc.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

/* ---- weights ---- */

#define WEIGHT_SMALL (INT64_C(1) << 40)
#define WEIGHED_ROWS (1 << 14)
#define NARROW (INT64_C(1) << (62 - 34)) /* five bytes have 35 bits, one of them the sign */
#define LEVEL_ROWS 8                     /* so many equal rows are a stretch of their own */
#define NEAR_MOST 8191                   /* the most that a row may differ from the level of its stretch */
#define NEAR_SLACK 32                    /* bytes behind the last row that are read with it */

/* The end of the stretch of rows from `row` on that have the weight of this row: the first behind them, or n_rows. */
static uint32_t weighing_level_end(const struct weighing *w, uint32_t row)
{
	uint32_t end = row + 1;
	while (end < w->n_rows && w->from[end] == w->from[row])
		end++;
	return end;
}

/* A stretch of rows that count nearly the same, before the next ones that are equal. */
static void weighing_cut_near(struct weighing *w, uint32_t row, struct weighing_stretch *s)
{
	int64_t least = w->from[row], most = least;
	s->end = row;
	while (s->end < w->n_rows) {
		uint32_t next = weighing_level_end(w, s->end);
		int64_t low = MIN(least, w->from[s->end]), high = MAX(most, w->from[s->end]);
		if ((s->end > row && next - s->end >= LEVEL_ROWS) || (uint64_t)high - (uint64_t)low > 2 * NEAR_MOST)
			break;
		least = low;
		most = high;
		s->end = next;
	}
	s->level = least + (most - least) / 2;
	s->most = (uint32_t)MAX(most - s->level, s->level - least);
	if (!w->near_low) {
		w->near_low = xcalloc((size_t)w->n_rows + NEAR_SLACK, 1);
		w->near_high = xcalloc((size_t)w->n_rows + NEAR_SLACK, 1);
	}
	for (; row < s->end; row++) {
		uint16_t near = (uint16_t)(w->from[row] - s->level);
		w->near_low[row] = (uint8_t)near;
		w->near_high[row] = (uint8_t)(near >> 8);
	}
}

/* Cuts rows behind the first into stretches. False: they would be too many. */
static bool weighing_cut(struct weighing *w)
{
	size_t n = 0;
	for (uint32_t row = 1; row < w->n_rows; row = w->stretches[n++].end) {
		if (n == WEIGHING_STRETCHES)
			return false;
		struct weighing_stretch *s = &w->stretches[n];
		*s = (struct weighing_stretch){ weighing_level_end(w, row), w->from[row], 0 };
		if (s->end < w->n_rows && s->end - row < LEVEL_ROWS)
			weighing_cut_near(w, row, s);
	}
	return true;
}

static bool weighing_has_wide(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
#else
	return false;
#endif
}

void weighing_open(struct weighing *w, const int64_t *weights, uint32_t n_rows)
{
	bool over = false;
	*w = (struct weighing){ .weights = weights, .from = xcalloc((size_t)n_rows + 1, sizeof *w->from), .n_rows = n_rows, .hi = n_rows, .same = true,
				.small = n_rows < WEIGHED_ROWS, .narrow = true };
	while (w->lo < n_rows && !weights[w->lo])
		w->lo++;
	while (w->hi > w->lo && !weights[w->hi - 1])
		w->hi--;
	for (uint32_t i = w->lo; i < w->hi; i++)
		w->same &= weights[i] == weights[w->lo];
	for (uint32_t i = n_rows; i-- > 0;) {
		over |= __builtin_add_overflow(w->from[i + 1], weights[i], &w->from[i]);
		w->small &= weights[i] < WEIGHT_SMALL && weights[i] > -WEIGHT_SMALL;
		w->narrow &= w->from[i] < NARROW / n_rows && w->from[i] > -NARROW / n_rows;
	}
	w->fits = !over;
	w->wide = w->fits && n_rows < WEIGHED_ROWS && weighing_has_wide() && weighing_cut(w);
}

void weighing_release(struct weighing *w)
{
	free(w->from);
	free(w->near_low);
	free(w->near_high);
}

/* ---- bytes as they lie ---- */

#ifdef __x86_64__
#define WIDE __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define WIDE_INLINE WIDE static inline __attribute__((always_inline))
#define POSITION_2 14 /* bits that a byte at position 2 counts more than one at position 0 */

/* At lane_mask + 32 - n: n bytes of ones, and zeros. */
static const uint8_t lane_mask[64] = { [0 ... 31] = 0xff };

/* Numbers of a column that follow each other and are to be read. */
struct wide_run {
	const uint8_t *p, *end;
	size_t n; /* how many are left */
};

/* Takes up to `size` bytes of the run, whose ends of numbers are bits. Returns how many belong to it. */
WIDE_INLINE uint32_t wide_take(struct wide_run *r, uint32_t ends, uint32_t size, size_t *ret_numbers)
{
	*ret_numbers = (size_t)__builtin_popcount(ends);
	if (*ret_numbers >= r->n) {
		*ret_numbers = r->n;
		size = (uint32_t)__builtin_ctz(_pdep_u32(UINT32_C(1) << (r->n - 1), ends)) + 1;
	}
	r->n -= *ret_numbers;
	return size;
}

/* The sum of lanes of 32 bits. */
WIDE_INLINE int64_t wide_join(__m256i sum01, __m256i sum23)
{
	__m256i h = _mm256_hadd_epi32(sum01, sum23);
	h = _mm256_hadd_epi32(h, h);
	__m128i q = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
	return (int64_t)_mm_cvtsi128_si32(q) + (int64_t)_mm_extract_epi32(q, 1) * (1 << POSITION_2);
}

WIDE_INLINE bool wide_skip(struct wide_run *r)
{
	size_t numbers;
	while (r->n) {
		if (UNLIKELY(r->end - r->p < 32))
			return false;
		uint32_t ends = ~(uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)r->p));
		r->p += wide_take(r, ends, 32, &numbers);
	}
	return true;
}

/* The sum of the run's differences. The three bytes before the run can be read, and the last of them ends a number. False: a difference has more than four
 * bytes, or the stream ends. */
WIDE_INLINE bool wide_sum(struct wide_run *r, int64_t *ret)
{
	const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1), more = _mm256_set1_epi8(INT8_MIN), pairs = _mm256_set1_epi16(1);
	__m256i sum01 = zero, sum23 = zero; /* of positions 0 and 1, and of 2 and 3 */
	while (r->n) {
		if (UNLIKELY(r->end - r->p < 32))
			return false;
		const uint8_t *p = r->p;
		size_t numbers;
		__m256i b0 = _mm256_loadu_si256((const __m256i *)p), b1 = _mm256_loadu_si256((const __m256i *)(p - 1));
		__m256i b2 = _mm256_loadu_si256((const __m256i *)(p - 2)), b3 = _mm256_loadu_si256((const __m256i *)(p - 3));
		uint32_t size = wide_take(r, ~(uint32_t)_mm256_movemask_epi8(b0), 32, &numbers);
		b0 = _mm256_and_si256(b0, _mm256_loadu_si256((const __m256i *)(lane_mask + 32 - size)));
		r->p += size;
		/* Of b1, c2 and c3 the highest bit is set if the position is at least 1, 2 and 3. */
		__m256i c2 = _mm256_and_si256(b1, b2), c3 = _mm256_and_si256(c2, b3);
		if (UNLIKELY(_mm256_movemask_epi8(_mm256_and_si256(c3, b0))))
			return false;
		__m256i first = _mm256_blendv_epi8(_mm256_blendv_epi8(_mm256_blendv_epi8(b0, b1, b1), b2, c2), b3, c3);
		__m256i sign = _mm256_sub_epi8(zero, _mm256_and_si256(first, one)), bits = _mm256_and_si256(b0, _mm256_set1_epi8(INT8_MAX));
		__m256i d = _mm256_sub_epi8(_mm256_xor_si256(bits, sign), _mm256_and_si256(sign, _mm256_cmpgt_epi8(zero, b1)));
		__m256i at23 = _mm256_cmpgt_epi8(zero, c2);
		__m256i times01 = _mm256_andnot_si256(at23, _mm256_blendv_epi8(one, more, b1)), times23 = _mm256_and_si256(at23, _mm256_blendv_epi8(one, more, c3));
		sum01 = _mm256_add_epi32(sum01, _mm256_madd_epi16(_mm256_maddubs_epi16(times01, d), pairs));
		sum23 = _mm256_add_epi32(sum23, _mm256_madd_epi16(_mm256_maddubs_epi16(times23, d), pairs));
	}
	*ret = wide_join(sum01, sum23) / 2;
	return true;
}

/* Of each of 16 bytes, how many bits of ends are set before it. */
WIDE_INLINE __m128i wide_rows(__m128i ends)
{
	__m128i x = _mm_slli_si128(_mm_sub_epi8(_mm_setzero_si128(), ends), 1);
	x = _mm_add_epi8(x, _mm_slli_si128(x, 1));
	x = _mm_add_epi8(x, _mm_slli_si128(x, 2));
	x = _mm_add_epi8(x, _mm_slli_si128(x, 4));
	return _mm_add_epi8(x, _mm_slli_si128(x, 8));
}

WIDE_INLINE __m256i wide_to_64(__m256i sum, __m256i more)
{
	__m256i x = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(more)), y = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(more, 1));
	return _mm256_add_epi64(sum, _mm256_add_epi64(x, y));
}

/* Sums of positions 0 and 1, and of 2 and 3, and both of each byte times what its row counts more; lanes of 32 bits. */
struct wide_near {
	__m256i sum01, sum23, near01, near23;
};

/* Adds 16 bytes of the run. near_*: of the first of its rows that is left. */
WIDE_INLINE bool wide_add_near(struct wide_run *r, const uint8_t *near_low, const uint8_t *near_high, struct wide_near *s, size_t *ret_numbers)
{
	const __m128i zero = _mm_setzero_si128(), one = _mm_set1_epi8(1), more = _mm_set1_epi8(INT8_MIN);
	const __m256i pairs = _mm256_set1_epi16(1);
	const uint8_t *p = r->p;
	if (UNLIKELY(r->end - p < 16))
		return false;
	__m128i b0 = _mm_loadu_si128((const __m128i *)p), b1 = _mm_loadu_si128((const __m128i *)(p - 1));
	__m128i b2 = _mm_loadu_si128((const __m128i *)(p - 2)), b3 = _mm_loadu_si128((const __m128i *)(p - 3));
	__m128i rows = wide_rows(_mm_cmpgt_epi8(b0, _mm_set1_epi8(-1)));
	uint32_t size = wide_take(r, ~(uint32_t)_mm_movemask_epi8(b0) & 0xffff, 16, ret_numbers);
	b0 = _mm_and_si128(b0, _mm_loadu_si128((const __m128i *)(lane_mask + 32 - size)));
	r->p += size;
	__m128i c2 = _mm_and_si128(b1, b2), c3 = _mm_and_si128(c2, b3);
	if (UNLIKELY(_mm_movemask_epi8(_mm_and_si128(c3, b0))))
		return false;
	__m128i near0 = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)near_low), rows), near1 = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)near_high), rows);
	__m256i near = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi8(near0, near1)), _mm_unpackhi_epi8(near0, near1), 1);
	__m128i first = _mm_blendv_epi8(_mm_blendv_epi8(_mm_blendv_epi8(b0, b1, b1), b2, c2), b3, c3);
	__m128i sign = _mm_sub_epi8(zero, _mm_and_si128(first, one)), bits = _mm_and_si128(b0, _mm_set1_epi8(INT8_MAX));
	__m128i d = _mm_sub_epi8(_mm_xor_si128(bits, sign), _mm_and_si128(sign, _mm_cmpgt_epi8(zero, b1)));
	__m128i at23 = _mm_cmpgt_epi8(zero, c2);
	__m128i times01 = _mm_andnot_si128(at23, _mm_blendv_epi8(one, more, b1)), times23 = _mm_and_si128(at23, _mm_blendv_epi8(one, more, c3));
	__m256i d01 = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(d), _mm256_cvtepu8_epi16(times01));
	__m256i d23 = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(d), _mm256_cvtepu8_epi16(times23));
	s->sum01 = _mm256_add_epi32(s->sum01, _mm256_madd_epi16(d01, pairs));
	s->sum23 = _mm256_add_epi32(s->sum23, _mm256_madd_epi16(d23, pairs));
	s->near01 = _mm256_add_epi32(s->near01, _mm256_madd_epi16(d01, near));
	s->near23 = _mm256_add_epi32(s->near23, _mm256_madd_epi16(d23, near));
	return true;
}

#define NEAR_STEP (2 * 128 * 128) /* a step adds less to a lane, per unit of near */

/* The sum of the run's differences, and the sum of each difference times (the weight of its row minus the level, which is the weight that most rows of the
 * stretch have). */
WIDE_INLINE bool wide_sum_near(struct wide_run *r, const uint8_t *near_low, const uint8_t *near_high, uint32_t most, int64_t *ret_sum, int64_t *ret_near)
{
	const __m256i zero = _mm256_setzero_si256();
	const uint32_t steps = INT32_MAX / NEAR_STEP / most;
	struct wide_near s = { zero, zero, zero, zero };
	__m256i near01 = zero, near23 = zero; /* of 64 bits */
	size_t row = 0, numbers;
	while (r->n) {
		for (uint32_t i = 0; i < steps && r->n; i++, row += numbers)
			if (!wide_add_near(r, near_low + row, near_high + row, &s, &numbers))
				return false;
		near01 = wide_to_64(near01, s.near01);
		near23 = wide_to_64(near23, s.near23);
		s.near01 = s.near23 = zero;
	}
	*ret_sum = wide_join(s.sum01, s.sum23) / 2;
	__m256i near = _mm256_add_epi64(near01, _mm256_slli_epi64(near23, POSITION_2));
	__m128i half = _mm_add_epi64(_mm256_castsi256_si128(near), _mm256_extracti128_si256(near, 1));
	*ret_near = (_mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1)) / 2;
	return true;
}

/* The first number of a column. */
WIDE_INLINE bool wide_first(struct wide_run *r, int64_t *ret)
{
	uint64_t v;
	if (r->end - r->p < 8)
		return false;
	memcpy(&v, r->p, 8);
	uint64_t ends = ~v & UINT64_C(0x8080808080808080);
	r->p += ends ? __builtin_ctzll(ends) / 8 + 1 : 0;
	*ret = zigzag_decode(varint_join(v & (ends ^ (ends - 1))));
	return ends != 0;
}

/* Weighs the column at c. False: it has a number too long for wide instructions, or too few bytes are behind it; nothing was read. */
WIDE_INLINE bool wide_column(struct cursor *c, const struct weighing *w, int64_t *ret, bool *over)
{
	struct wide_run r = { c->p, c->end, 0 };
	int64_t sum, near, weighed;
	bool o;
	if (!wide_first(&r, &sum))
		return false;
	o = __builtin_mul_overflow(sum, w->from[0], ret);
	uint32_t row = 1;
	for (const struct weighing_stretch *s = w->stretches; row < w->n_rows; row = s++->end) {
		r.n = s->end - row;
		sum = near = 0;
		if (!(s->most ? wide_sum_near(&r, w->near_low + row, w->near_high + row, s->most, &sum, &near) : s->level ? wide_sum(&r, &sum) : wide_skip(&r)))
			return false;
		o |= __builtin_mul_overflow(sum, s->level, &weighed);
		o |= __builtin_add_overflow(*ret, weighed, ret);
		o |= __builtin_add_overflow(*ret, near, ret);
	}
	*over |= o;
	c->p = r.p;
	return true;
}

/* Weighs columns up to the first that wide_column refuses, n at most. Returns how many. */
WIDE static size_t differences_add_wide(struct cursor *c, const struct weighing *w, size_t n, int64_t *sums, bool *over)
{
	size_t done = 0;
	while (done < n && wide_column(c, w, &sums[done], over))
		done++;
	return done;
}
#else
static size_t differences_add_wide(struct cursor *c, const struct weighing *w, size_t n, int64_t *sums, bool *over)
{
	(void)c, (void)w, (void)n, (void)sums, (void)over;
	return 0;
}
#endif

/* ---- numbers one by one ---- */

/* Sum of n differences times from[i]; *over: it does not fit. The cursor moves behind them.
 *
 * Most are 0, which is one byte: of eight bytes the zeros are counted, then what follows them is decoded whatever its length, so that no branch depends on
 * the values. */
static int64_t differences_sum(struct cursor *c, const int64_t *from, size_t n, bool *over)
{
	const uint8_t *p = c->p;
	int64_t sum = 0, weighed;
	bool o = false;
	size_t i = 0;
	while (i < n && c->end - p >= 16) {
		uint64_t v;
		memcpy(&v, p, 8);
		v = le64toh(v); /* the first byte lowest */
		size_t zeros = v ? (size_t)__builtin_ctzll(v) / 8 : 8;
		zeros = MIN(zeros, n - i);
		p += zeros;
		i += zeros;
		if (i == n || !v)
			continue;
		memcpy(&v, p, 8);
		v = le64toh(v);
		uint64_t ends = ~v & UINT64_C(0x8080808080808080);
		if (UNLIKELY(!ends))
			break;
		p += __builtin_ctzll(ends) / 8 + 1;
		o |= __builtin_mul_overflow(zigzag_decode(varint_join(v & (ends ^ (ends - 1)))), from[i++], &weighed);
		o |= __builtin_add_overflow(sum, weighed, &sum);
	}
	for (c->p = p; i < n; i++) {
		o |= __builtin_mul_overflow(cursor_zigzag(c), from[i], &weighed);
		o |= __builtin_add_overflow(sum, weighed, &sum);
	}
	*over |= o;
	return sum;
}

#ifdef __SSE2__
/* Of 64 bytes, a bit each: which end a number, and which are 0. */
static inline void differences_masks(const uint8_t *p, uint64_t *ret_ends, uint64_t *ret_zeros)
{
	uint64_t more = 0, zeros = 0;
	for (unsigned i = 0; i < 64; i += 16) {
		__m128i b = _mm_loadu_si128((const __m128i *)(p + i));
		more |= (uint64_t)(unsigned)_mm_movemask_epi8(b) << i;
		zeros |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(b, _mm_setzero_si128())) << i;
	}
	*ret_ends = ~more;
	*ret_zeros = zeros;
}

/* Columns that follow each other and are in every row, as differences. Those that are not 0 are found by masks, so that each is decoded without the one
 * before, and its row counted: what lies between the end of one and the next is 0, a byte a row. Returns how many of the n columns are done; the rest is
 * for the caller, a few at least where the stream ends. */
static size_t differences_add_masked(struct cursor *c, const struct weighing *w, size_t n, int64_t *sums, bool *over)
{
	const int64_t n_rows = w->n_rows;
	int64_t sum = 0, sum_narrow = 0, weighed, begin = 0, at = 0, ahead = 0; /* bytes from c->p; the row of the number at x is x + ahead */
	uint64_t before = 1, ends, zeros, v;
	const uint64_t narrow = w->narrow ? UINT64_C(0x8080808080) : 0;
	size_t done = 0;
	bool o = false;
	for (; done < n && c->end - c->p - at >= 64 + 8; at += 64) {
		differences_masks(c->p + at, &ends, &zeros);
		uint64_t left = (ends << 1 | before) & ~zeros;
		for (before = ends >> 63; left; left &= left - 1) {
			int64_t x = at + __builtin_ctzll(left);
			for (; UNLIKELY(x + ahead >= n_rows) && done < n; sum = sum_narrow = 0) {
				o |= __builtin_add_overflow(sum, sum_narrow, &sums[done++]);
				ahead -= n_rows;
				begin = -ahead;
			}
			memcpy(&v, c->p + x, 8);
			v = le64toh(v); /* the first byte lowest */
			if (UNLIKELY(done == n))
				goto out;
			uint64_t stops = ~v & narrow;
			if (LIKELY(stops)) {
				sum_narrow += zigzag_decode(varint_join(v & (stops ^ (stops - 1)))) * w->from[x + ahead];
				ahead -= __builtin_ctzll(stops) / 8;
				continue;
			}
			stops = ~v & UINT64_C(0x8080808080808080);
			if (UNLIKELY(!stops))
				goto out;
			o |= __builtin_mul_overflow(zigzag_decode(varint_join(v & (stops ^ (stops - 1)))), w->from[x + ahead], &weighed);
			o |= __builtin_add_overflow(sum, weighed, &sum);
			ahead -= __builtin_ctzll(stops) / 8;
		}
	}
out:
	c->p += begin;
	*over |= o;
	return done;
}
#else
static size_t differences_add_masked(struct cursor *c, const struct weighing *w, size_t n, int64_t *sums, bool *over)
{
	(void)c, (void)w, (void)n, (void)sums, (void)over;
	return 0;
}
#endif

static int64_t differences_add_one(struct cursor *c, const struct weighing *w, bool *over)
{
	int64_t sum = differences_sum(c, w->from, w->hi, over);
	cursor_skip_varints(c, w->n_rows - w->hi);
	return sum;
}

/* ---- the call ---- */

void differences_weigh(struct cursor *c, struct weighing *w, size_t n, int64_t *sums)
{
	bool over = false;
	for (size_t done = 0; done < n;) {
		done += w->wide ? differences_add_wide(c, w, n - done, sums + done, &over) : 0;
		size_t end = w->wide ? MIN(n, done + 1) : n; /* the next one may be for wide instructions again */
		if (w->hi > w->n_rows / 4) /* else it is faster to step over the rest of each */
			done += differences_add_masked(c, w, end - done, sums + done, &over);
		for (; done < end; done++)
			sums[done] = differences_add_one(c, w, &over);
	}
	w->fits &= !over;
}
