/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <stdio.h>
#include <strings.h>

static const struct {
	const char *name;
	int64_t ms;
	bool exact_only; /* used in output only if it divides the whole duration (as Prometheus prints) */
} units[] = {
	{ "y", 365LL * 86400000, true }, { "w", 7LL * 86400000, true }, { "d", 86400000, false },
	{ "h", 3600000, false }, { "m", 60000, false }, { "s", 1000, false }, { "ms", 1, false },
};

bool units_parse_duration(struct view v, int64_t *ret_ms)
{
	if (view_eqs(v, "0")) {
		*ret_ms = 0;
		return true;
	}
	int64_t sum = 0;
	size_t i = 0, next_unit = 0;
	if (!v.len)
		return false;
	while (i < v.len) {
		int64_t n = 0;
		size_t first = i;
		for (; i < v.len && v.ptr[i] >= '0' && v.ptr[i] <= '9'; i++)
			if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, v.ptr[i] - '0', &n))
				return false;
		if (i == first)
			return false;
		size_t letters = i;
		while (letters < v.len && v.ptr[letters] >= 'a' && v.ptr[letters] <= 'z')
			letters++;
		size_t u = next_unit;
		while (u < ARRAY_LEN(units) && !view_eqs(view_make(v.ptr + i, letters - i), units[u].name))
			u++;
		int64_t part;
		if (u == ARRAY_LEN(units) || __builtin_mul_overflow(n, units[u].ms, &part) ||
		    __builtin_add_overflow(sum, part, &sum))
			return false;
		next_unit = u + 1;
		i = letters;
	}
	*ret_ms = sum;
	return sum <= INT64_MAX / 1000000; /* so that it fits in ns too */
}

char *units_format_duration(int64_t ms, char out[DURATION_LEN])
{
	if (ms == 0)
		return strcpy(out, "0s");
	size_t n = 0;
	uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
	if (ms < 0)
		out[n++] = '-';
	for (size_t u = 0; u < ARRAY_LEN(units); u++) {
		uint64_t size = (uint64_t)units[u].ms, k = left / size;
		if (!k || (units[u].exact_only && left % size))
			continue;
		n += (size_t)snprintf(out + n, DURATION_LEN - n, "%llu%s", (unsigned long long)k, units[u].name);
		left -= k * size;
	}
	return out;
}

bool units_parse_size(struct view v, uint64_t *ret_bytes)
{
	size_t i = 0;
	uint64_t n = 0;
	for (; i < v.len && v.ptr[i] >= '0' && v.ptr[i] <= '9'; i++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(v.ptr[i] - '0'), &n))
			return false;
	if (i == 0)
		return false;
	if (i == v.len) {
		*ret_bytes = n;
		return n == 0;
	}
	static const char prefixes[] = "KMGTPE";
	unsigned shift = 0;
	const char *p = strchr(prefixes, v.ptr[i] & ~0x20);
	if (p && v.ptr[i]) {
		shift = 10 * (unsigned)(p - prefixes + 1);
		i++;
		if (i + 1 < v.len && v.ptr[i] == 'i')
			i++;
	}
	if (i + 1 != v.len || (v.ptr[i] & ~0x20) != 'B' || n > UINT64_MAX >> shift)
		return false;
	*ret_bytes = n << shift;
	return true;
}

char *units_format_size(uint64_t bytes, char out[24])
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t u = 0;
	while (v >= 1024 && u + 1 < ARRAY_LEN(names)) {
		v /= 1024;
		u++;
	}
	snprintf(out, 24, u && v < 10 ? "%.1f%s" : "%.0f%s", v, names[u]);
	return out;
}
