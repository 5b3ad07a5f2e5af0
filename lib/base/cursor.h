/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a payload byte by byte: numbers, counts and bytes, none of them beyond its end. Pure. */
#ifndef PYRRHA_BASE_CURSOR_H
#define PYRRHA_BASE_CURSOR_H

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/attrs.h"
#include "base/varint.h"
#include "base/view.h"

/* Reads a payload; after the first short read `bad` is set and everything reads as 0. */
struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct cursor cursor_of(struct view v)
{
	return (struct cursor){ (const uint8_t *)v.ptr, (const uint8_t *)v.ptr + v.len, false };
}

static inline uint64_t cursor_varint(struct cursor *c)
{
	uint64_t v = 0;
	if (UNLIKELY(!varint_get(&c->p, c->end, &v))) {
		c->bad = true;
		c->p = c->end;
		return 0;
	}
	return v;
}

/* The number in up to eight bytes of a varint, the first byte lowest and zeros behind the last. */
static inline uint64_t varint_join(uint64_t v)
{
	v = (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x7f007f007f007f00)) >> 1;
	v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (v & UINT64_C(0x0fffffff)) | (v & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* As cursor_varint, but a number of up to eight bytes is decoded without a branch on its length. */
static inline uint64_t cursor_varint_quick(struct cursor *c)
{
	uint64_t v;
	if (c->end - c->p < 8)
		return cursor_varint(c);
	memcpy(&v, c->p, 8);
	v = le64toh(v); /* the first byte lowest */
	uint64_t ends = ~v & UINT64_C(0x8080808080808080);
	if (!ends)
		return cursor_varint(c);
	c->p += __builtin_ctzll(ends) / 8 + 1;
	return varint_join(v & (ends ^ (ends - 1)));
}

/* Steps over n varints. */
static inline void cursor_skip_varints(struct cursor *c, size_t n)
{
	uint64_t eight;
	for (; n >= 8 && c->end - c->p >= 8; c->p += 8) {
		memcpy(&eight, c->p, 8);
		n -= (size_t)((~eight >> 7 & UINT64_C(0x0101010101010101)) * UINT64_C(0x0101010101010101) >> 56); /* how many end there */
	}
	for (; n && !c->bad; n--)
		cursor_varint(c);
}

static inline int64_t cursor_zigzag(struct cursor *c)
{
	return zigzag_decode(cursor_varint(c));
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	if (c->p >= c->end) {
		c->bad = true;
		return 0;
	}
	return *c->p++;
}

/* A number that must be below 2^32. */
static inline uint32_t cursor_u32(struct cursor *c)
{
	uint64_t v = cursor_varint(c);
	if (v > UINT32_MAX) {
		c->bad = true;
		return 0;
	}
	return (uint32_t)v;
}

/* A count of elements of at least one byte each: never more than the remaining bytes. */
static inline size_t cursor_count(struct cursor *c)
{
	uint64_t v = cursor_varint(c);
	if (v > (uint64_t)(c->end - c->p)) {
		c->bad = true;
		return 0;
	}
	return (size_t)v;
}

/* The next n bytes. Borrowed. */
struct view cursor_bytes(struct cursor *c, size_t n);

#endif
