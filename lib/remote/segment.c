/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/segment.h"

#include "base/map.h"
#include "base/varint.h"

#define MAGIC "pyrrhaq1"
#define MARKER UINT32_C(0xb10cf10a)
#define COMPLETE 1

static uint64_t get_be(const char *p, int bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < bytes; i++)
		v = v << 8 | (uint8_t)p[i];
	return v;
}

static void put_be(char *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (char)(v >> 8 * (bytes - 1 - i));
}

/* ---- the header ---- */

void segment_put_header(struct buf *out, const struct segment_header *h)
{
	char b[SEGMENT_HEADER];
	memcpy(b, MAGIC, 8);
	put_be(b + 8, h->sequence, 8);
	put_be(b + 16, h->number, 8);
	put_be(b + 24, h->samples, 8);
	put_be(b + 32, hash_stable(b, 32), 8);
	buf_put(out, b, sizeof b);
}

int segment_get_header(struct view v, struct segment_header *ret, struct err *e)
{
	if (v.len < SEGMENT_HEADER || memcmp(v.ptr, MAGIC, 8) != 0)
		return err_set(e, ERR_CORRUPT, "it does not begin as a segment does");
	if (get_be(v.ptr + 32, 8) != hash_stable(v.ptr, 32))
		return err_set(e, ERR_CORRUPT, "its header fails its checksum");
	*ret = (struct segment_header){ get_be(v.ptr + 8, 8), get_be(v.ptr + 16, 8), get_be(v.ptr + 24, 8) };
	return 0;
}

/* ---- writing blocks ---- */

/* A block is valid only in the segment where it was written: leftovers of an older file of that name are ignored. */
static uint64_t seed(uint64_t sequence, uint64_t offset)
{
	return hash_u64(sequence) + offset;
}

static void put_bytes(struct buf *out, struct view v)
{
	buf_varint(out, v.len);
	buf_putv(out, v);
}

static void put_payload(struct buf *out, const struct segment_block *b)
{
	int64_t before_ms = 0;
	buf_varint(out, b->number);
	buf_putc(out, b->complete ? COMPLETE : 0);
	buf_varint(out, b->first_series);
	buf_varint(out, b->n_series);
	for (size_t i = 0; i < b->n_series; i++) {
		buf_varint(out, b->series[i].n);
		for (size_t k = 0; k < b->series[i].n; k++) {
			put_bytes(out, b->series[i].v[k].name);
			put_bytes(out, b->series[i].v[k].value);
		}
	}
	buf_varint(out, b->n_samples);
	for (size_t i = 0; i < b->n_samples; i++) {
		buf_varint(out, b->samples[i].series);
		buf_zigzag(out, (int64_t)((uint64_t)b->samples[i].t_ms - (uint64_t)before_ms));
		before_ms = b->samples[i].t_ms;
		buf_be64(out, b->samples[i].bits);
	}
}

void segment_put_block(struct buf *out, uint64_t sequence, uint64_t offset, const struct segment_block *b)
{
	size_t at = out->len;
	buf_be32(out, MARKER);
	buf_be32(out, 0);
	buf_be64(out, 0);
	put_payload(out, b);
	if (out->overflow)
		return;
	char *head = out->ptr + at;
	size_t len = out->len - at - SEGMENT_BLOCK_HEADER;
	put_be(head + 4, len, 4);
	put_be(head + 8, hash_stable_seed(head + SEGMENT_BLOCK_HEADER, len, seed(sequence, offset)), 8);
}

/* ---- reading blocks ---- */

static bool block_at(struct view s, uint64_t sequence, size_t at, struct view *ret)
{
	if (s.len - at < SEGMENT_BLOCK_HEADER || get_be(s.ptr + at, 4) != MARKER)
		return false;
	size_t len = get_be(s.ptr + at + 4, 4);
	if (len > SEGMENT_BLOCK_MAX || len > s.len - at - SEGMENT_BLOCK_HEADER)
		return false;
	*ret = view_make(s.ptr + at + SEGMENT_BLOCK_HEADER, len);
	return get_be(s.ptr + at + 8, 8) == hash_stable_seed(ret->ptr, len, seed(sequence, at));
}

bool segment_next(struct view segment, uint64_t sequence, size_t *offset, size_t *ret_at, struct view *ret)
{
	for (size_t at = *offset; at < segment.len; at++) {
		if (!block_at(segment, sequence, at, ret))
			continue;
		*ret_at = at;
		*offset = at + SEGMENT_BLOCK_HEADER + ret->len;
		return true;
	}
	return false;
}

void segment_reader_init(struct segment_reader *r, size_t segment_bytes)
{
	*r = (struct segment_reader){ .max_series = segment_bytes / 2 };
	arena_init(&r->arena, 0);
}

void segment_reader_release(struct segment_reader *r)
{
	arena_free(&r->arena);
	vec_free(&r->series);
}

struct input {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t get_varint(struct input *in)
{
	uint64_t v = 0;
	if (!varint_get(&in->p, in->end, &v)) {
		in->bad = true;
		in->p = in->end;
		return 0;
	}
	return v;
}

/* A count of elements that take at least `least` bytes each: never more than fit into the remaining bytes. */
static size_t get_count(struct input *in, size_t least)
{
	uint64_t v = get_varint(in);
	if (v > (uint64_t)(in->end - in->p) / least) {
		in->bad = true;
		return 0;
	}
	return (size_t)v;
}

static struct view get_bytes(struct input *in, struct arena *a)
{
	size_t n = get_count(in, 1);
	struct view v = arena_view(a, view_make((const char *)in->p, n));
	in->p += n;
	return v.ptr ? v : view_make("", 0);
}

static void get_series(struct input *in, struct segment_reader *r)
{
	size_t n = get_count(in, 2);
	struct label *l = arena_calloc(&r->arena, n ? n : 1, sizeof *l);
	if (!l)
		abort(); /* no cap: memory is out */
	for (size_t i = 0; i < n; i++) {
		l[i].name = get_bytes(in, &r->arena);
		l[i].value = get_bytes(in, &r->arena);
	}
	vec_push(&r->series, (struct labels){ l, n });
}

/* Definitions in damaged blocks. */
static void make_up_series(struct input *in, struct segment_reader *r, uint64_t first)
{
	in->bad |= first < r->series.n || first > r->max_series;
	while (!in->bad && r->series.n < first)
		vec_push(&r->series, (struct labels){ NULL, 0 });
}

static void get_samples(struct input *in, const struct segment_reader *r, struct segment_read *ret)
{
	int64_t t_ms = 0;
	size_t n = get_count(in, 10);
	ret->samples.n = 0;
	vec_reserve(&ret->samples, n);
	for (size_t i = 0; i < n && !in->bad; i++) {
		uint64_t series = get_varint(in);
		t_ms = (int64_t)((uint64_t)t_ms + (uint64_t)zigzag_decode(get_varint(in)));
		in->bad |= series >= r->series.n || in->end - in->p < 8;
		if (in->bad)
			break;
		ret->samples.v[ret->samples.n++] = (struct segment_sample){ (uint32_t)series, t_ms, get_be((const char *)in->p, 8) };
		in->p += 8;
	}
}

int segment_get_block(struct segment_reader *r, struct view payload, struct segment_read *ret, struct err *e)
{
	struct input in = { (const uint8_t *)payload.ptr, (const uint8_t *)payload.ptr + payload.len, false };
	ret->number = get_varint(&in);
	in.bad |= in.p == in.end;
	ret->complete = !in.bad && (*in.p++ & COMPLETE);
	make_up_series(&in, r, get_varint(&in));
	for (size_t n = get_count(&in, 1), i = 0; i < n && !in.bad; i++)
		get_series(&in, r);
	get_samples(&in, r, ret);
	if (in.bad || in.p != in.end) {
		ret->samples.n = 0;
		return err_set(e, ERR_CORRUPT, "a block is malformed");
	}
	return 0;
}
