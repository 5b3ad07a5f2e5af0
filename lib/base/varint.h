/* SPDX-License-Identifier: Apache-2.0 */
/* Unsigned LEB128 varints and zigzag, as protobuf has them. */
#ifndef PYRRHA_BASE_VARINT_H
#define PYRRHA_BASE_VARINT_H

#include "base/attrs.h"

static inline uint64_t zigzag_encode(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t zigzag_decode(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* Writes 1..10 bytes, returns their number. */
static inline unsigned varint_put(uint8_t *p, uint64_t v)
{
	unsigned n = 0;
	while (v >= 0x80) {
		p[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	p[n++] = (uint8_t)v;
	return n;
}

/* Reads at *p, before end; false if cut short or longer than 64 bits. Moves *p on success. */
static inline bool varint_get(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	const uint8_t *q = *p;
	if (LIKELY(q < end && *q < 0x80)) {
		*ret = *q;
		*p = q + 1;
		return true;
	}
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (q >= end)
			return false;
		uint8_t b = *q++;
		if (shift == 63 && b > 1)
			return false;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*ret = v;
			*p = q;
			return true;
		}
	}
	return false;
}

#endif
