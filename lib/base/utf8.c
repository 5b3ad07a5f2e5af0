/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

unsigned utf8_decode(const char *s, size_t n, uint32_t *ret_cp)
{
	const unsigned char *p = (const unsigned char *)s;
	if (p[0] < 0x80) {
		*ret_cp = p[0];
		return 1;
	}
	unsigned len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	if (!len || len > n || p[0] > 0xf4)
		return 0;
	uint32_t cp = p[0] & (0xffu >> (len + 1));
	for (unsigned i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	if (cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*ret_cp = cp;
	return len;
}

unsigned utf8_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

size_t utf8_shown(struct view v, uint32_t *ret_cp)
{
	const uint32_t replacement = 0xfffd;
	uint32_t c = replacement;
	unsigned n = utf8_decode(v.ptr, v.len, &c);
	if (!n || c == 0xfffe || c == 0xffff)
		c = replacement;
	else if (c < 0x20)
		c = c == '\n' || c == '\r' || c == '\t' ? ' ' : replacement;
	*ret_cp = c;
	return n ? n : 1;
}

bool utf8_valid(struct view v)
{
	uint32_t cp;
	for (size_t i = 0; i < v.len;) {
		unsigned n = utf8_decode(v.ptr + i, v.len - i, &cp);
		if (!n)
			return false;
		i += n;
	}
	return true;
}

struct view utf8_prefix(struct view v, size_t max)
{
	if (v.len <= max)
		return v;
	while (max && ((unsigned char)v.ptr[max] & 0xc0) == 0x80)
		max--;
	return view_make(v.ptr, max);
}
