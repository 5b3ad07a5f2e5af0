/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include <endian.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool named_value(struct view v, double *ret)
{
	double sign = 1;
	if (v.len && (v.ptr[0] == '+' || v.ptr[0] == '-')) {
		sign = v.ptr[0] == '-' ? -1 : 1;
		v.ptr++;
		v.len--;
	}
	if (view_eq_nocase(v, VIEW("inf")))
		*ret = sign * INFINITY;
	else if (view_eq_nocase(v, VIEW("infinity")))
		*ret = sign * INFINITY;
	else if (view_eq_nocase(v, VIEW("nan")))
		*ret = NAN;
	else
		return false;
	return true;
}

bool num_parse_double(struct view v, double *ret)
{
	if (named_value(v, ret))
		return true;
	char tmp[512];
	if (!v.len || v.len >= sizeof tmp)
		return false;
	bool digit = false;
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		bool ok = (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
		if (!ok)
			return false;
		digit |= c >= '0' && c <= '9';
	}
	if (!digit)
		return false;
	memcpy(tmp, v.ptr, v.len);
	tmp[v.len] = 0;
	char *end;
	*ret = strtod(tmp, &end);
	return *end == 0;
}

bool num_parse_u64(struct view v, uint64_t *ret)
{
	uint64_t n = 0;
	if (!v.len)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		if (v.ptr[i] < '0' || v.ptr[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(v.ptr[i] - '0'), &n))
			return false;
	}
	*ret = n;
	return true;
}

bool num_parse_i64(struct view v, int64_t *ret)
{
	bool neg = v.len && v.ptr[0] == '-';
	if (v.len && (neg || v.ptr[0] == '+')) {
		v.ptr++;
		v.len--;
	}
	uint64_t n;
	if (!num_parse_u64(v, &n) || n > (uint64_t)INT64_MAX + neg)
		return false;
	*ret = neg ? (int64_t)(0 - n) : (int64_t)n;
	return true;
}

bool num_round_i64(double v, int64_t *ret)
{
	double rounded = round(v);
	if (!(rounded >= -0x1p63 && rounded < 0x1p63))
		return false;
	*ret = (int64_t)rounded;
	return true;
}

char *num_format(double v, char out[NUM_LEN])
{
	if (isnan(v))
		return strcpy(out, "NaN");
	if (isinf(v))
		return strcpy(out, v > 0 ? "+Inf" : "-Inf");
	if (v == rint(v) && fabs(v) < 1e15) {
		snprintf(out, NUM_LEN, "%.0f", v);
		return out;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(out, NUM_LEN, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			break;
	}
	return out;
}

static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
			    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* The decimal exponent of 1e-4 <= v < 1e15; below 1 it may be one too large or too small, which num_digits finds out. */
static int exponent_of(double v, int binary)
{
	static const double tens[] = { 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
				       1e13, 1e14, 1e15 };
	int x = (binary * 1233) >> 12; /* times the logarithm of 2: the exponent, or one less */
	return v >= tens[x + 1 + 5] ? x + 1 : x;
}

static const uint64_t powers_of_five[22] = {
	UINT64_C(1), UINT64_C(5), UINT64_C(25), UINT64_C(125), UINT64_C(625), UINT64_C(3125), UINT64_C(15625), UINT64_C(78125),
	UINT64_C(390625), UINT64_C(1953125), UINT64_C(9765625), UINT64_C(48828125), UINT64_C(244140625), UINT64_C(1220703125),
	UINT64_C(6103515625), UINT64_C(30517578125), UINT64_C(152587890625), UINT64_C(762939453125), UINT64_C(3814697265625),
	UINT64_C(19073486328125), UINT64_C(95367431640625), UINT64_C(476837158203125),
};

/* The decimal digits of v < 1e8 as text, eight of them, the first one in the lowest byte. All at once: 4 digits and 4, pairs, digits. */
static inline uint64_t eight_digits(uint32_t v)
{
	uint64_t fours = v / 10000 | (uint64_t)(v % 10000) << 32;
	uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
	uint64_t pairs_of = hundreds | (fours - 100 * hundreds) << 16;
	uint64_t tens = (pairs_of * 103 >> 10) & UINT64_C(0x000f000f000f000f);
	return (tens | (pairs_of - 10 * tens) << 8) + UINT64_C(0x3030303030303030);
}

static inline char *put_eight(char *p, uint64_t digits)
{
	digits = htole64(digits);
	memcpy(p, &digits, 8);
	return p + 8;
}

/* A number in units of its 17th digit: whole + part 2^-64. What is nearer to it than `near` 2^-64 reads back as the same double. */
struct scaled {
	uint64_t whole, part;
	unsigned __int128 near;
};

/* The multiple of `unit` that is nearest, as printf rounds (half to even); false if it reads back as another double. Without a branch, as which of
 * them do is a guess. */
static inline bool round_to(const struct scaled *v, unsigned unit, uint64_t *ret)
{
	uint64_t times = v->whole / unit;
	unsigned __int128 above = (unsigned __int128)(v->whole - times * unit) << 64 | v->part, below = ((unsigned __int128)unit << 64) - above;
	unsigned up = (above > below) | ((above == below) & (times & 1));
	*ret = (times + up) * unit;
	return (above < v->near) | (below < v->near);
}

static inline uint64_t choose(bool first, uint64_t a, uint64_t b)
{
	return b ^ ((a ^ b) & (0 - (uint64_t)first));
}

/* 17 digits. Returns how many there are without zeros at the end. */
static inline int put_digits(char *to, uint64_t v)
{
	const uint64_t zeros = UINT64_C(0x3030303030303030);
	uint64_t high = v / 100000000, mid = eight_digits((uint32_t)(high % 100000000)), low = eight_digits((uint32_t)(v % 100000000));
	*to = (char)('0' + high / 100000000);
	put_eight(put_eight(to + 1, mid), low);
	bool short_one = low == zeros;
	uint64_t last = choose(short_one, mid, low) ^ zeros;
	return 17 - 8 * (int)short_one - (last ? __builtin_clzll(last) / 8 : 8);
}

bool num_digits(double v, char digits[NUM_LEN], int *ret_n, int *ret_exponent)
{
	const uint64_t one = UINT64_C(1) << 52, least = UINT64_C(10000000000000000);
	uint64_t bits, d15, d16, d17;
	memcpy(&bits, &v, sizeof bits);
	if (!(v >= 1e-4 && v < 1e15) || !(bits & (one - 1))) /* below a power of two doubles lie closer */
		return false;
	/* v = m 2^-s, and that times 10^k is m 5^k 2^(k - s). x is -5 .. 14, so k is 2 .. 21 and s - k 1 .. 47. */
	int x = exponent_of(v, (int)(bits >> 52) - 1023), k = 16 - x, shift = 64 - (1075 - (int)(bits >> 52) - k);
	unsigned __int128 all = ((unsigned __int128)((bits & (one - 1)) | one) * powers_of_five[k]) << shift;
	struct scaled n = { (uint64_t)(all >> 64), (uint64_t)all, (unsigned __int128)powers_of_five[k] << (shift - 1) };
	bool by15 = round_to(&n, 100, &d15), by16 = round_to(&n, 10, &d16);
	bool any = round_to(&n, 1, &d17) | by16 | by15;
	uint64_t d = choose(by15, d15, choose(by16, d16, d17));
	if (!any || n.whole < least || d >= least * 10)
		return false; /* its logarithm, or the rounding, came out at the next power of ten */
	*ret_n = put_digits(digits, d);
	*ret_exponent = x;
	return true;
}

#define TENS(x, of) x(of, '0'), x(of, '1'), x(of, '2'), x(of, '3'), x(of, '4'), x(of, '5'), x(of, '6'), x(of, '7'), x(of, '8'), x(of, '9')
#define ONE(of, c) { c, 0, 0, 1 }
#define TWO(of, c) { of, c, 0, 2 }
#define THREE_OF(h, t) { h, t, '0', 3 }, { h, t, '1', 3 }, { h, t, '2', 3 }, { h, t, '3', 3 }, { h, t, '4', 3 }, { h, t, '5', 3 }, \
	{ h, t, '6', 3 }, { h, t, '7', 3 }, { h, t, '8', 3 }, { h, t, '9', 3 }

const char num_below_1000[1000][4] = {
	TENS(ONE, 0), TENS(TWO, '1'), TENS(TWO, '2'), TENS(TWO, '3'), TENS(TWO, '4'), TENS(TWO, '5'), TENS(TWO, '6'), TENS(TWO, '7'), TENS(TWO, '8'),
	TENS(TWO, '9'), TENS(THREE_OF, '1'), TENS(THREE_OF, '2'), TENS(THREE_OF, '3'), TENS(THREE_OF, '4'), TENS(THREE_OF, '5'),
	TENS(THREE_OF, '6'), TENS(THREE_OF, '7'), TENS(THREE_OF, '8'), TENS(THREE_OF, '9'),
};

/* 1,000 <= v < 1,000,000. */
static inline char *put_thousands(char *p, uint32_t v)
{
	p = num_put_small(p, v / 1000);
	*p++ = (char)('0' + v % 1000 / 100);
	memcpy(p, pairs + v % 100 * 2, 2);
	return p + 2;
}

char *num_put_i64(char *p, int64_t v)
{
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	if (v < 0)
		*p++ = '-';
	if (u < 1000)
		return num_put_small(p, (int64_t)u);
	if (u < 1000000)
		return put_thousands(p, (uint32_t)u);
	if (u < 100000000) {
		unsigned n = 7 + (u >= 10000000);
		put_eight(p, eight_digits((uint32_t)u) >> (8 - n) * 8);
		return p + n;
	}
	p = num_put_i64(p, (int64_t)(u / 100000000));
	return put_eight(p, eight_digits((uint32_t)(u % 100000000)));
}
