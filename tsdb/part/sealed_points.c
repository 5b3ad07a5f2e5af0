/* SPDX-License-Identifier: Apache-2.0 */
/* Reads TOTALS, as rows, or only their stamps and totals. Graphs of values need these, so many are read at a time. */
#include "tsdb/part/sealed.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "model/source.h"

static int corrupt(struct err *e)
{
	return err_set(e, ERR_CORRUPT, "totals of a sealed window are malformed");
}

void sealed_points_release(struct sealed_points *p)
{
	vec_free(&p->t_ms);
	vec_free(&p->totals);
}

void sealed_columns_release(struct sealed_columns *c)
{
	sealed_points_release(&c->points);
	vec_free(&c->covers);
	vec_free(&c->intervals);
	vec_free(&c->periods);
	vec_free(&c->weights);
	vec_free(&c->stale);
}

/* The columns before the stamps. */
enum { FIELD_INTERVAL, FIELD_ASKED, FIELD_DURATION, FIELD_PERIOD, FIELD_COVER };
struct fields {
	int64_t first[SEALED_FIELDS];
	struct cursor more[SEALED_FIELDS]; /* the differences of the others; empty: they are all the same */
};

static void get_fields(struct cursor *c, size_t n, struct fields *ret)
{
	for (int f = 0; f < SEALED_FIELDS; f++) {
		bool same = cursor_u8(c);
		ret->first[f] = n ? cursor_zigzag(c) : 0;
		ret->more[f] = *c;
		for (size_t i = 1; !same && i < n && !c->bad; i++)
			cursor_varint(c);
		ret->more[f].end = c->p;
	}
}

static void set_field(struct sealed_row *r, int which, int64_t v)
{
	switch (which) {
	case FIELD_INTERVAL: r->meta.interval_ms = (uint32_t)v; break;
	case FIELD_ASKED: r->meta.asked_ms = (uint32_t)v; break;
	case FIELD_DURATION: r->meta.duration_ns = v; break;
	case FIELD_PERIOD: r->meta.period = v; break;
	default: r->cover_ms = (uint32_t)v;
	}
}

static bool all_zero(const uint8_t *p, size_t n)
{
	return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

#define LATEST (INT64_C(1) << 60)

/* Most series are stamped when they should be: then the differences of differences are zero from the second on. */
static void get_stamps(struct cursor *c, int64_t step, size_t n, struct sealed_points *ret)
{
	int64_t t = n ? cursor_zigzag(c) : 0;
	ret->every_ms = 0;
	ret->first_ms = t;
	if (n > 1)
		step = (int64_t)((uint64_t)step + (uint64_t)cursor_zigzag(c));
	size_t left = n > 2 ? n - 2 : 0;
	if (n > 1 && step > 0 && step <= INT64_C(1) << 32 && t < LATEST && t > -LATEST && (size_t)(c->end - c->p) >= left && all_zero(c->p, left)) {
		ret->every_ms = step;
		c->p += left;
		return;
	}
	vec_reserve(&ret->t_ms, n + 1);
	for (size_t i = 0; i < n; i++) {
		if (i > 1)
			step = (int64_t)((uint64_t)step + (uint64_t)cursor_zigzag(c));
		t = i ? (int64_t)((uint64_t)t + (uint64_t)step) : t;
		ret->t_ms.v[i] = t;
	}
}

#ifdef __SSE2__
static inline void put_four(int64_t *out, __m128i v)
{
	__m128i sign = _mm_srai_epi32(v, 31);
	_mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi32(v, sign));
	_mm_storeu_si128((__m128i *)(out + 2), _mm_unpackhi_epi32(v, sign));
}

/* Eight zigzags of two bytes each. False: they are not. */
static inline bool get_eight(struct cursor *c, int64_t *out)
{
	if (c->end - c->p < 16)
		return false;
	__m128i v = _mm_loadu_si128((const __m128i *)c->p);
	if (_mm_movemask_epi8(v) != 0x5555)
		return false;
	v = _mm_or_si128(_mm_and_si128(v, _mm_set1_epi16(0x7f)), _mm_and_si128(_mm_srli_epi16(v, 1), _mm_set1_epi16(0x3f80)));
	__m128i odd = _mm_sub_epi16(_mm_setzero_si128(), _mm_and_si128(v, _mm_set1_epi16(1)));
	v = _mm_xor_si128(_mm_srli_epi16(v, 1), odd);
	__m128i sign = _mm_srai_epi16(v, 15);
	put_four(out, _mm_unpacklo_epi16(v, sign));
	put_four(out + 4, _mm_unpackhi_epi16(v, sign));
	c->p += 16;
	return true;
}
#else
static inline bool get_eight(struct cursor *c, int64_t *out)
{
	(void)c;
	(void)out;
	return false;
}
#endif

/* Returns what none of them exceeds: 2 |x| + 1. */
static uint64_t get_totals(struct cursor *c, int64_t *out, size_t n)
{
	uint64_t most = 1 << 14;
	for (size_t i = 0; i < n;) {
		if (n - i >= 8 && get_eight(c, out + i)) {
			i += 8;
			continue;
		}
		uint64_t v = cursor_varint_quick(c);
		most |= v;
		out[i++] = zigzag_decode(v);
	}
	return most;
}

/* Stamps and totals of n, and what comes before them; c stands behind them then. */
static void get_columns(struct cursor *c, size_t n, struct fields *f, struct sealed_points *ret)
{
	get_fields(c, n, f);
	get_stamps(c, (uint32_t)f->first[FIELD_INTERVAL], n, ret);
	vec_reserve(&ret->totals, n + 1);
	ret->small = get_totals(c, ret->totals.v, n) < UINT64_C(1) << 40 && n < 1 << 20;
	ret->n = n;
}

int sealed_get_points(struct view v, struct sealed_points *ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	struct fields f;
	ret->n = 0;
	if (sealed_get_mode(&c, &ret->times) == SEALED_TIMES)
		return c.bad ? corrupt(e) : 0;
	size_t n = cursor_count(&c), at = 0;
	get_columns(&c, n, &f, ret);
	for (size_t stale = cursor_count(&c); stale && !c.bad; stale--) {
		at += cursor_varint(&c);
		if (at >= n)
			c.bad = true;
		else
			ret->totals.v[at] = 0;
	}
	return c.bad ? corrupt(e) : 0;
}

/* Field k of each; a column ends early only where it is corrupt, which was found before. */
#define GET_FIELD(f, k, n, ret) do { \
	struct cursor at_ = (f)->more[k]; \
	uint64_t v_ = (uint64_t)(f)->first[k]; \
	vec_reserve(ret, (n) + 1); \
	for (size_t i_ = 0; i_ < (n); i_++) { \
		if (i_) \
			v_ += (uint64_t)zigzag_decode(cursor_varint_quick(&at_)); \
		(ret)->v[i_] = (__typeof__(*(ret)->v))v_; \
	} \
} while (0)

static bool field_is_same(const struct fields *f, int which)
{
	return f->more[which].p == f->more[which].end;
}

/* Weights of n profiles, of which not all have the interval and the asked time of the first. */
static void get_weights(const struct fields *f, size_t n, struct sealed_columns *ret)
{
	struct cursor intervals = f->more[FIELD_INTERVAL], askeds = f->more[FIELD_ASKED];
	uint64_t interval = (uint64_t)f->first[FIELD_INTERVAL], asked = (uint64_t)f->first[FIELD_ASKED];
	vec_reserve(&ret->weights, n + 1);
	for (size_t i = 0; i < n; i++) {
		if (i && !field_is_same(f, FIELD_INTERVAL))
			interval += (uint64_t)zigzag_decode(cursor_varint_quick(&intervals));
		if (i && !field_is_same(f, FIELD_ASKED))
			asked += (uint64_t)zigzag_decode(cursor_varint_quick(&askeds));
		ret->weights.v[i] = source_weight((uint32_t)interval, (uint32_t)asked);
	}
}

int sealed_get_columns(struct view v, struct sealed_columns *ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	struct fields f;
	ret->points.n = ret->stale.n = 0;
	if (sealed_get_mode(&c, &ret->points.times) == SEALED_TIMES)
		return c.bad ? corrupt(e) : 0;
	size_t n = cursor_count(&c), at = 0;
	get_columns(&c, n, &f, &ret->points);
	for (size_t stale = cursor_count(&c); stale && !c.bad; stale--) {
		at += cursor_varint(&c);
		if (at >= n) {
			c.bad = true;
			break;
		}
		vec_push(&ret->stale, (uint32_t)at);
		ret->points.totals.v[at] = 0;
	}
	ret->cover_ms = (uint32_t)f.first[FIELD_COVER];
	ret->interval_ms = (uint32_t)f.first[FIELD_INTERVAL];
	ret->period = f.first[FIELD_PERIOD];
	ret->weight = source_weight((uint32_t)f.first[FIELD_INTERVAL], (uint32_t)f.first[FIELD_ASKED]);
	ret->same_cover = field_is_same(&f, FIELD_COVER);
	ret->same_interval = field_is_same(&f, FIELD_INTERVAL);
	ret->same_period = field_is_same(&f, FIELD_PERIOD);
	ret->same_weight = field_is_same(&f, FIELD_INTERVAL) && field_is_same(&f, FIELD_ASKED);
	if (!c.bad && !ret->same_cover)
		GET_FIELD(&f, FIELD_COVER, n, &ret->covers);
	if (!c.bad && !ret->same_interval)
		GET_FIELD(&f, FIELD_INTERVAL, n, &ret->intervals);
	if (!c.bad && !ret->same_period)
		GET_FIELD(&f, FIELD_PERIOD, n, &ret->periods);
	if (!c.bad && !ret->same_weight)
		get_weights(&f, n, ret);
	return c.bad ? corrupt(e) : 0;
}

static void fill_rows(struct sealed_row *r, const struct fields *f, const struct sealed_points *p)
{
	struct sealed_row like = { 0 };
	for (int k = 0; k < SEALED_FIELDS; k++)
		set_field(&like, k, f->first[k]);
	for (size_t i = 0; i < p->n; i++) {
		r[i] = like;
		r[i].t_ms = sealed_stamp(p, i);
		r[i].total = p->totals.v[i];
	}
	for (int k = 0; k < SEALED_FIELDS; k++) {
		struct cursor c = f->more[k];
		uint64_t v = (uint64_t)f->first[k];
		for (size_t i = 1; c.p < c.end && i < p->n; i++) {
			v += (uint64_t)cursor_zigzag(&c);
			set_field(&r[i], k, (int64_t)v);
		}
	}
}

int sealed_get_totals(struct view v, struct sealed_totals *ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	struct fields f;
	ret->rows.n = 0;
	if (sealed_get_mode(&c, &ret->times) == SEALED_TIMES)
		return c.bad ? corrupt(e) : 0;
	size_t n = cursor_count(&c), at = 0;
	get_columns(&c, n, &f, &ret->points);
	vec_reserve(&ret->rows, n + 1);
	fill_rows(ret->rows.v, &f, &ret->points);
	for (size_t stale = cursor_count(&c); stale && !c.bad; stale--) {
		at += cursor_varint(&c);
		if (at >= n)
			c.bad = true;
		else
			ret->rows.v[at].stale = true;
	}
	ret->rows.n = n;
	return c.bad ? corrupt(e) : 0;
}

void sealed_totals_release(struct sealed_totals *t)
{
	vec_free(&t->rows);
	sealed_points_release(&t->points);
}
