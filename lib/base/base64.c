/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

static int value_of(char ch)
{
	if (ch >= 'A' && ch <= 'Z')
		return ch - 'A';
	if (ch >= 'a' && ch <= 'z')
		return ch - 'a' + 26;
	if (ch >= '0' && ch <= '9')
		return ch - '0' + 52;
	return ch == '+' ? 62 : ch == '/' ? 63 : -1;
}

bool base64_decode(struct view in, char *out, size_t *ret_n)
{
	uint32_t word = 0;
	size_t n = 0, digits = 0, pad = 0;
	for (size_t i = 0; i < in.len; i++) {
		char ch = in.ptr[i];
		if (ch == '\n' || ch == '\r' || ch == ' ')
			continue;
		int d = ch == '=' ? 0 : value_of(ch);
		if (d < 0 || (pad && ch != '='))
			return false;
		pad += ch == '=';
		word = word << 6 | (uint32_t)d;
		if (++digits % 4)
			continue;
		for (int k = 2; k >= 0; k--)
			out[n++] = (char)(word >> 8 * k & 0xff);
		word = 0;
		if (pad > 2)
			return false;
	}
	if (digits % 4 || pad > 2)
		return false;
	out[n - pad] = 0;
	*ret_n = n - pad;
	return true;
}
