/* SPDX-License-Identifier: Apache-2.0 */
/* Words and values as the legacy formats write them. */
#include <math.h>

#include "pprof/legacy.h"

/* ---- words ---- */

int scan_hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void scan_blanks(struct view *v)
{
	while (v->len && is_blank(*v->ptr))
		*v = view_make(v->ptr + 1, v->len - 1);
}

bool scan_word(struct view *v, const char *word)
{
	struct view w = view_of(word);
	if (!view_starts(*v, w))
		return false;
	*v = view_make(v->ptr + w.len, v->len - w.len);
	return true;
}

bool scan_i64(struct view *v, int64_t *ret)
{
	bool minus = v->len && *v->ptr == '-';
	size_t i = minus, n = 0;
	int64_t x = 0;
	for (; i < v->len && is_digit(v->ptr[i]); i++, n++)
		if (__builtin_mul_overflow(x, 10, &x) || __builtin_sub_overflow(x, v->ptr[i] - '0', &x))
			return false;
	if (!n || (!minus && x == INT64_MIN))
		return false;
	*ret = minus ? x : -x;
	*v = view_make(v->ptr + i, v->len - i);
	return true;
}

bool scan_hex(struct view *v, uint64_t *ret)
{
	size_t i = 0, n = 0;
	uint64_t x = 0;
	if (v->len > 2 && v->ptr[0] == '0' && v->ptr[1] == 'x')
		i = 2;
	for (int digit; i < v->len && (digit = scan_hex_digit(v->ptr[i])) >= 0; i++, n++) {
		if (x >> 60)
			return false;
		x = x << 4 | (uint64_t)digit;
	}
	if (!n)
		return false;
	*ret = x;
	*v = view_make(v->ptr + i, v->len - i);
	return true;
}

struct view view_trim(struct view v)
{
	scan_blanks(&v);
	while (v.len && is_blank(v.ptr[v.len - 1]))
		v.len--;
	return v;
}

bool scan_is_idle(struct view line)
{
	line = view_trim(line);
	return !line.len || line.ptr[0] == '#';
}

void scan_addresses(struct draft *d, struct view v, uint32_t exact)
{
	uint32_t n = 0;
	while (v.len && !d->rc) {
		uint64_t address;
		if (v.len > 2 && v.ptr[0] == '0' && v.ptr[1] == 'x' && scan_hex_digit(v.ptr[2]) >= 0) {
			if (!scan_hex(&v, &address))
				draft_fail(d, ERR_BAD_DATA, "an address of more than 64 bits");
			else
				draft_frame(d, draft_address(d, n++ < exact ? address : address - 1));
			continue;
		}
		if (*v.ptr != ' ' && *v.ptr != 'x' && scan_hex_digit(*v.ptr) < 0)
			break;
		v = view_make(v.ptr + 1, v.len - 1);
	}
}

/* ---- values ---- */

int64_t legacy_times(struct draft *d, int64_t v, int64_t by)
{
	int64_t x = 0;
	if (__builtin_mul_overflow(v, by, &x))
		draft_fail(d, ERR_BAD_DATA, "a value of more than 64 bits");
	return d->rc ? 0 : x;
}

int64_t legacy_whole(struct draft *d, double v)
{
	if (v > -0x1p63 && v < 0x1p63)
		return (int64_t)v;
	draft_fail(d, ERR_BAD_DATA, "a value of more than 64 bits");
	return 0;
}

bool legacy_unsample(struct draft *d, int64_t *count, int64_t *size, int64_t rate)
{
	if (!*count || !*size) {
		*count = *size = 0;
	} else if (rate > 1) {
		double each = (double)*size / (double)*count, scale = 1 / (1 - exp(-each / (double)rate));
		*count = legacy_whole(d, (double)*count * scale);
		*size = legacy_whole(d, (double)*size * scale);
	}
	return !d->rc;
}
