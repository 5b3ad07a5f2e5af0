/* SPDX-License-Identifier: Apache-2.0 */
/* MD5 (RFC 1321), because relabelling's hashmod is defined by it. Not for anything that must be secure. Its 64
 * constants are floor(2^32 * |sin(i)|), for which a double is exact enough. They are computed when needed: only a few
 * label values per target are hashed, once per change of targets. */
#include "model/md5.h"

#include <math.h>
#include <string.h>

static uint32_t rotl(uint32_t x, unsigned by)
{
	return x << by | x >> (32 - by);
}

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void block(uint32_t state[4], const uint8_t *p)
{
	static const uint8_t shifts[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } };
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	for (unsigned i = 0; i < 64; i++) {
		uint32_t f;
		unsigned g;
		switch (i / 16) {
		case 0: f = (b & c) | (~b & d); g = i; break;
		case 1: f = (d & b) | (~d & c); g = (5 * i + 1) % 16; break;
		case 2: f = b ^ c ^ d; g = (3 * i + 5) % 16; break;
		default: f = c ^ (b | ~d); g = 7 * i % 16; break;
		}
		f += a + (uint32_t)(fabs(sin(i + 1)) * 4294967296.0) + le32(p + 4 * g);
		a = d;
		d = c;
		c = b;
		b += rotl(f, shifts[i / 16][i % 4]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

void md5_sum(const void *p, size_t n, uint8_t out[16])
{
	uint32_t state[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	const uint8_t *at = p;
	size_t left = n;
	for (; left >= 64; at += 64, left -= 64)
		block(state, at);
	uint8_t tail[128] = { 0 };
	if (left)
		memcpy(tail, at, left);
	tail[left] = 0x80;
	size_t len = left < 56 ? 64 : 128;
	for (unsigned i = 0; i < 8; i++)
		tail[len - 8 + i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
	for (size_t i = 0; i < len; i += 64)
		block(state, tail + i);
	for (unsigned i = 0; i < 16; i++)
		out[i] = (uint8_t)(state[i / 4] >> (8 * (i % 4)));
}
