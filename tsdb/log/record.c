/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/log/record.h"

#include "base/map.h"

#define TRAILER 8

static uint64_t read_be64(const void *p)
{
	const uint8_t *b = p;
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | b[i];
	return v;
}

void record_begin(struct buf *b, enum record_kind kind, uint32_t partition)
{
	buf_putc(b, RECORD_VERSION);
	buf_putc(b, (char)kind);
	buf_be32(b, partition);
}

void record_end(struct buf *b, uint64_t number)
{
	buf_be64(b, hash_stable_seed(b->ptr, b->len, number));
}

bool record_is_void(const struct record *r)
{
	return r->kind == RECORD_FACT && r->payload.len == 1 && r->payload.ptr[0] == FACT_VOID;
}

int record_parse(uint64_t number, struct view v, struct record *ret, struct err *e)
{
	unsigned long long no = number;
	if (v.len < RECORD_HEADER + TRAILER)
		return err_set(e, ERR_CORRUPT, "record %llu is %zu bytes short", no, RECORD_HEADER + TRAILER - v.len);
	size_t body = v.len - TRAILER;
	if (read_be64(v.ptr + body) != hash_stable_seed(v.ptr, body, number))
		return err_set(e, ERR_CORRUPT, "record %llu fails its checksum", no);
	const uint8_t *p = (const uint8_t *)v.ptr;
	if (p[0] != RECORD_VERSION)
		return err_set(e, ERR_CORRUPT, "record %llu has version %u, this program reads %u: use the newer one",
			       no, p[0], RECORD_VERSION);
	ret->kind = p[1];
	ret->partition = (uint32_t)p[2] << 24 | (uint32_t)p[3] << 16 | (uint32_t)p[4] << 8 | p[5];
	ret->payload = view_make(v.ptr + RECORD_HEADER, body - RECORD_HEADER);
	return 0;
}

void record_drop_series(struct record_profile *p, uint32_t i)
{
	for (uint32_t k = 0; k < p->n_series; k++) {
		if (p->times_of[k] == i)
			p->times_of[k] = 0xff;
		else if (p->times_of[k] != 0xff && p->times_of[k] > i)
			p->times_of[k]--;
	}
	p->n_series--;
	memmove(p->series + i, p->series + i + 1, (p->n_series - i) * sizeof *p->series);
	memmove(p->times_of + i, p->times_of + i + 1, p->n_series - i);
	memmove(p->factor + i, p->factor + i + 1, (p->n_series - i) * sizeof *p->factor);
	if (p->n)
		memmove(p->values.v + (size_t)i * p->n, p->values.v + (size_t)(i + 1) * p->n,
			(p->n_series - i) * p->n * sizeof *p->values.v);
}

void record_profile_release(struct record_profile *p)
{
	vec_free(&p->columns);
	vec_free(&p->values);
}

/* ---- values ---- */

static bool times_fits(const int64_t *a, const int64_t *b, size_t n, int64_t factor)
{
	int64_t product;
	for (size_t i = 0; i < n; i++)
		if (__builtin_mul_overflow(a[i], factor, &product) || product != b[i])
			return false;
	return true;
}

/* The factor by which b is a multiple of a, in every place; 0 = none. */
static int64_t factor_of(const int64_t *a, const int64_t *b, size_t n)
{
	size_t i = 0;
	while (i < n && a[i] == 0)
		i++;
	if (i == n || b[i] % a[i] || b[i] == 0)
		return 0;
	int64_t factor = b[i] / a[i];
	return times_fits(a, b, n, factor) ? factor : 0;
}

static void put_values(struct buf *b, const int64_t *v, size_t n)
{
	int64_t all = 0;
	for (size_t i = 0; i < n; i++)
		all |= v[i];
	buf_putc(b, all < 0 ? VALUES_SIGNED : VALUES_UNSIGNED);
	if (!buf_reserve(b, n * 10))
		return;
	uint8_t *at = (uint8_t *)b->ptr + b->len;
	for (size_t i = 0; i < n; i++)
		at += varint_put(at, all < 0 ? zigzag_encode(v[i]) : (uint64_t)v[i]);
	b->len = (size_t)(at - (uint8_t *)b->ptr);
}

static void put_series_values(struct buf *b, const struct record_profile *p, uint32_t s)
{
	const int64_t *mine = p->values.v + (size_t)s * p->n;
	for (uint32_t k = 0; k < s && p->n; k++) {
		int64_t f = factor_of(p->values.v + (size_t)k * p->n, mine, p->n);
		if (f > 1) {
			buf_putc(b, VALUES_TIMES);
			buf_varint(b, k);
			buf_zigzag(b, f);
			return;
		}
	}
	put_values(b, mine, p->n);
}

static bool get_times(struct cursor *c, struct record_profile *p, uint32_t s)
{
	uint32_t k = cursor_u32(c);
	int64_t f = cursor_zigzag(c);
	if (c->bad || k >= s)
		return false;
	const int64_t *from = p->n ? p->values.v + (size_t)k * p->n : NULL;
	int64_t *to = p->n ? p->values.v + (size_t)s * p->n : NULL;
	for (size_t i = 0; i < p->n; i++)
		if (__builtin_mul_overflow(from[i], f, &to[i]))
			return false;
	p->times_of[s] = (uint8_t)k;
	p->factor[s] = f;
	return true;
}

static bool get_series_values(struct cursor *c, struct record_profile *p, uint32_t s)
{
	int64_t *to = p->n ? p->values.v + (size_t)s * p->n : NULL;
	p->times_of[s] = 0xff;
	switch (cursor_u8(c)) {
	case VALUES_UNSIGNED:
		for (size_t i = 0; i < p->n; i++)
			to[i] = (int64_t)cursor_varint(c);
		return !c->bad;
	case VALUES_SIGNED:
		for (size_t i = 0; i < p->n; i++)
			to[i] = cursor_zigzag(c);
		return !c->bad;
	case VALUES_TIMES:
		return get_times(c, p, s);
	default:
		return false;
	}
}

/* ---- profiles ---- */

enum { FLAG_STALE = 1 };

static void put_columns(struct buf *b, const uint32_t *columns, size_t n)
{
	uint32_t next = 0;
	if (!buf_reserve(b, n * 5))
		return;
	uint8_t *at = (uint8_t *)b->ptr + b->len;
	for (size_t i = 0; i < n; i++) {
		at += varint_put(at, columns[i] - next);
		next = columns[i] + 1;
	}
	b->len = (size_t)(at - (uint8_t *)b->ptr);
	b->ptr[b->len] = 0;
}

void record_put_profile(struct buf *b, const struct record_profile *p)
{
	buf_varint(b, p->n_series);
	for (uint32_t i = 0; i < p->n_series; i++)
		buf_varint(b, p->series[i]);
	buf_zigzag(b, p->t_ms);
	buf_putc(b, p->stale ? FLAG_STALE : 0);
	if (p->stale)
		return;
	buf_varint(b, p->cover_ms);
	buf_varint(b, (uint64_t)p->meta.duration_ns);
	buf_zigzag(b, p->meta.period);
	buf_varint(b, p->meta.interval_ms);
	buf_varint(b, p->meta.asked_ms);
	buf_varint(b, p->n);
	put_columns(b, p->columns.v, p->n);
	for (uint32_t s = 0; s < p->n_series; s++)
		put_series_values(b, p, s);
}

static bool get_columns(struct cursor *c, struct record_profile *p)
{
	uint64_t next = 0;
	vec_reserve(&p->columns, p->n);
	for (size_t i = 0; i < p->n; i++) {
		uint64_t column = next + cursor_varint(c);
		if (c->bad || column > UINT32_MAX || column < next)
			return false;
		p->columns.v[i] = (uint32_t)column;
		next = column + 1;
	}
	p->columns.n = p->n;
	return true;
}

static bool get_samples(struct cursor *c, struct record_profile *p)
{
	p->cover_ms = cursor_u32(c);
	p->meta.duration_ns = (int64_t)cursor_varint(c);
	p->meta.period = cursor_zigzag(c);
	p->meta.interval_ms = cursor_u32(c);
	p->meta.asked_ms = cursor_u32(c);
	p->n = cursor_count(c);
	if (c->bad || !get_columns(c, p))
		return false;
	vec_reserve(&p->values, p->n * p->n_series);
	p->values.n = p->n * p->n_series;
	for (uint32_t s = 0; s < p->n_series; s++)
		if (!get_series_values(c, p, s))
			return false;
	return true;
}

bool record_get_profile(struct cursor *c, struct record_profile *p)
{
	if (c->bad || c->p == c->end)
		return false;
	p->n = p->columns.n = p->values.n = 0;
	p->cover_ms = 0;
	p->meta = (struct sample_meta){ 0 };
	p->n_series = cursor_u32(c);
	if (p->n_series > RECORD_MAX_TYPES)
		c->bad = true;
	for (uint32_t i = 0; !c->bad && i < p->n_series; i++) {
		p->series[i] = cursor_u32(c);
		p->times_of[i] = 0xff;
	}
	p->t_ms = cursor_zigzag(c);
	p->stale = cursor_u8(c) & FLAG_STALE;
	if (!c->bad && !p->stale && !get_samples(c, p))
		c->bad = true;
	return !c->bad;
}

/* ---- floats ---- */

void record_put_float(struct buf *b, const struct record_float *f)
{
	buf_varint(b, f->series);
	buf_zigzag(b, f->t_ms);
	buf_be64(b, f->bits);
}

bool record_get_float(struct cursor *c, struct record_float *f)
{
	if (c->bad || c->p == c->end)
		return false;
	f->series = cursor_u32(c);
	f->t_ms = cursor_zigzag(c);
	struct view bits = cursor_bytes(c, 8);
	if (!c->bad)
		f->bits = read_be64(bits.ptr);
	return !c->bad;
}
