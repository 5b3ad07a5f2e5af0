/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_time.h"

#include <stdio.h>

static const char *const months[] = { "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
				      "November", "December" };
static const char *const weekdays[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };

const char *tmonth_name(int month)
{
	return month >= 1 && month <= 12 ? months[month - 1] : NULL;
}

const char *tweekday_name(int weekday)
{
	return weekday >= 0 && weekday <= 6 ? weekdays[weekday] : NULL;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Days since 1970-01-01 of the proleptic Gregorian calendar; month 1..12. */
static int64_t days_of(int64_t y, int m, int64_t d)
{
	y -= m <= 2;
	int64_t era = floor_div(y, 400), yoe = y - era * 400, doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy + d - 1 - 719468;
}

struct ttime ttime_of_ms(int64_t ms)
{
	int64_t s = floor_div(ms, 1000);
	return (struct ttime){ s, (int32_t)(ms - s * 1000) * 1000000 };
}

struct tdate ttime_date(struct ttime t)
{
	int64_t day = floor_div(t.s, 86400), z = day + 719468, era = floor_div(z, 146097), doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153, rest = t.s - day * 86400;
	struct tdate d = { .day = (int)(doy - (153 * mp + 2) / 5 + 1), .month = (int)(mp < 10 ? mp + 3 : mp - 9) };
	d.year = yoe + era * 400 + (d.month <= 2);
	d.yday = (int)(day - days_of(d.year, 1, 1)) + 1;
	d.weekday = (int)(((day + 4) % 7 + 7) % 7);
	d.hour = (int)(rest / 3600);
	d.minute = (int)(rest / 60 % 60);
	d.second = (int)(rest % 60);
	return d;
}

struct ttime ttime_add_date(struct ttime t, int64_t years, int64_t months_more, int64_t days)
{
	struct tdate d = ttime_date(t);
	const int64_t bound = 100000000; /* far beyond what a time holds */
	years = MIN(MAX(years, -bound), bound);
	months_more = MIN(MAX(months_more, -bound), bound);
	days = MIN(MAX(days, -bound * 100), bound * 100);
	int64_t m = d.month - 1 + months_more, y = d.year + years + floor_div(m, 12);
	m -= floor_div(m, 12) * 12;
	int64_t in_day = t.s - floor_div(t.s, 86400) * 86400;
	return (struct ttime){ (days_of(y, (int)m + 1, 1) + d.day - 1 + days) * 86400 + in_day, t.ns };
}

struct ttime ttime_add(struct ttime t, int64_t ns)
{
	int64_t s = floor_div(ns, 1000000000), sub = ns - s * 1000000000 + t.ns;
	if (__builtin_add_overflow(t.s, s + sub / 1000000000, &s))
		return t;
	return (struct ttime){ s, (int32_t)(sub % 1000000000) };
}

int64_t ttime_sub(struct ttime a, struct ttime b)
{
	__int128 d = ((__int128)a.s - b.s) * 1000000000 + a.ns - b.ns;
	return d > INT64_MAX ? INT64_MAX : d < INT64_MIN ? INT64_MIN : (int64_t)d;
}

int ttime_cmp(struct ttime a, struct ttime b)
{
	return a.s != b.s ? (a.s > b.s) - (a.s < b.s) : (a.ns > b.ns) - (a.ns < b.ns);
}

/* ---- layouts ---- */

enum chunk {
	CHUNK_NONE, LONG_MONTH, MONTH, NUM_MONTH, ZERO_MONTH, LONG_WEEKDAY, WEEKDAY, DAY, UNDER_DAY, ZERO_DAY, UNDER_YDAY, ZERO_YDAY, HOUR,
	HOUR12, ZERO_HOUR12, MINUTE, ZERO_MINUTE, SECOND, ZERO_SECOND, LONG_YEAR, YEAR, PM, pm, TZ, ISO_TZ, NUM_TZ, NUM_SECONDS_TZ,
	NUM_SHORT_TZ, NUM_COLON_TZ, NUM_COLON_SECONDS_TZ, FRACTION_0, FRACTION_9
};

/* The part of a layout that represents a part of the time; the first match counts, so longer ones come first. */
static const struct {
	const char *text;
	enum chunk chunk;
	bool no_lower; /* not if a small letter follows */
} chunks[] = {
	{ "January", LONG_MONTH, false }, { "Jan", MONTH, true }, { "Monday", LONG_WEEKDAY, false }, { "Mon", WEEKDAY, true },
	{ "MST", TZ, false }, { "01", ZERO_MONTH, false }, { "02", ZERO_DAY, false }, { "03", ZERO_HOUR12, false },
	{ "04", ZERO_MINUTE, false }, { "05", ZERO_SECOND, false }, { "06", YEAR, false }, { "002", ZERO_YDAY, false },
	{ "15", HOUR, false }, { "1", NUM_MONTH, false }, { "2006", LONG_YEAR, false }, { "2", DAY, false }, { "_2", UNDER_DAY, false },
	{ "__2", UNDER_YDAY, false }, { "3", HOUR12, false }, { "4", MINUTE, false }, { "5", SECOND, false }, { "PM", PM, false },
	{ "pm", pm, false }, { "-070000", NUM_SECONDS_TZ, false }, { "-07:00:00", NUM_COLON_SECONDS_TZ, false }, { "-0700", NUM_TZ, false },
	{ "-07:00", NUM_COLON_TZ, false }, { "-07", NUM_SHORT_TZ, false }, { "Z070000", ISO_TZ, false }, { "Z07:00:00", ISO_TZ, false },
	{ "Z0700", ISO_TZ, false }, { "Z07:00", ISO_TZ, false }, { "Z07", ISO_TZ, false },
};

static char at(struct view v, size_t i)
{
	return i < v.len ? v.ptr[i] : 0;
}

/* ".000", ",999": its length, 0 if there is none. */
static size_t fraction(struct view v)
{
	char c = at(v, 1);
	size_t n = 1;
	if ((*v.ptr != '.' && *v.ptr != ',') || (c != '0' && c != '9'))
		return 0;
	while (at(v, n) == c)
		n++;
	return at(v, n) >= '0' && at(v, n) <= '9' ? 0 : n;
}

/* The chunk that begins here, and its length; *ret_len is 1 for CHUNK_NONE. */
static enum chunk chunk_at(struct view v, size_t *ret_len)
{
	if ((*ret_len = fraction(v)))
		return v.ptr[1] == '9' ? FRACTION_9 : FRACTION_0;
	*ret_len = 1;
	if (view_starts(v, VIEW("_2006"))) /* a literal _ before the year */
		return CHUNK_NONE;
	for (size_t i = 0; i < ARRAY_LEN(chunks); i++) {
		struct view text = view_of(chunks[i].text);
		char after = at(v, text.len);
		if (view_starts(v, text) && !(chunks[i].no_lower && after >= 'a' && after <= 'z')) {
			*ret_len = text.len;
			return chunks[i].chunk;
		}
	}
	return CHUNK_NONE;
}

static void put_fraction(int32_t ns, char dot, size_t digits, bool trim, struct buf *out)
{
	char text[16];
	size_t n = MIN(digits, 9u);
	if (trim && !ns)
		return;
	snprintf(text, sizeof text, "%09d", ns);
	while (trim && n && text[n - 1] == '0')
		n--;
	if (trim && !n)
		return;
	buf_putc(out, dot);
	buf_put(out, text, n);
}

static void put_year(int64_t y, struct buf *out)
{
	buf_printf(out, "%s%0*lld", y < 0 ? "-" : "", 4, (long long)(y < 0 ? -y : y));
}

static void put_chunk(enum chunk c, const struct tdate *d, struct buf *out)
{
	int hour12 = d->hour % 12 ? d->hour % 12 : 12;
	switch (c) {
	case LONG_MONTH:
		buf_puts(out, months[d->month - 1]);
		break;
	case MONTH:
		buf_put(out, months[d->month - 1], 3);
		break;
	case LONG_WEEKDAY:
		buf_puts(out, weekdays[d->weekday]);
		break;
	case WEEKDAY:
		buf_put(out, weekdays[d->weekday], 3);
		break;
	case LONG_YEAR:
		put_year(d->year, out);
		break;
	case YEAR:
		buf_printf(out, "%02d", (int)((d->year < 0 ? -d->year : d->year) % 100));
		break;
	case PM:
		buf_puts(out, d->hour >= 12 ? "PM" : "AM");
		break;
	case pm:
		buf_puts(out, d->hour >= 12 ? "pm" : "am");
		break;
	case TZ:
		buf_puts(out, "UTC");
		break;
	case ISO_TZ:
		buf_putc(out, 'Z');
		break;
	case NUM_TZ:
		buf_puts(out, "+0000");
		break;
	case NUM_SECONDS_TZ:
		buf_puts(out, "+000000");
		break;
	case NUM_SHORT_TZ:
		buf_puts(out, "+00");
		break;
	case NUM_COLON_TZ:
		buf_puts(out, "+00:00");
		break;
	case NUM_COLON_SECONDS_TZ:
		buf_puts(out, "+00:00:00");
		break;
	case NUM_MONTH:
	case ZERO_MONTH:
		buf_printf(out, c == NUM_MONTH ? "%d" : "%02d", d->month);
		break;
	case DAY:
	case ZERO_DAY:
	case UNDER_DAY:
		buf_printf(out, c == DAY ? "%d" : c == ZERO_DAY ? "%02d" : "%2d", d->day);
		break;
	case UNDER_YDAY:
	case ZERO_YDAY:
		buf_printf(out, c == ZERO_YDAY ? "%03d" : "%3d", d->yday);
		break;
	case HOUR:
		buf_printf(out, "%02d", d->hour);
		break;
	case HOUR12:
	case ZERO_HOUR12:
		buf_printf(out, c == HOUR12 ? "%d" : "%02d", hour12);
		break;
	case MINUTE:
	case ZERO_MINUTE:
		buf_printf(out, c == MINUTE ? "%d" : "%02d", d->minute);
		break;
	case SECOND:
	case ZERO_SECOND:
		buf_printf(out, c == SECOND ? "%d" : "%02d", d->second);
		break;
	default:
		break;
	}
}

void ttime_format(struct ttime t, struct view layout, struct buf *out)
{
	struct tdate d = ttime_date(t);
	while (layout.len && !out->overflow) {
		size_t n;
		enum chunk c = chunk_at(layout, &n);
		if (c == CHUNK_NONE)
			buf_putc(out, *layout.ptr);
		else if (c == FRACTION_0 || c == FRACTION_9)
			put_fraction(t.ns, *layout.ptr, n - 1, c == FRACTION_9, out);
		else
			put_chunk(c, &d, out);
		layout = view_make(layout.ptr + n, layout.len - n);
	}
}

/* A fraction of a unit: up to this many digits, without trailing zeros. */
static void put_unit(uint64_t n, unsigned digits, const char *unit, struct buf *out)
{
	uint64_t one = 1;
	for (unsigned i = 0; i < digits; i++)
		one *= 10;
	buf_printf(out, "%llu", (unsigned long long)(n / one));
	if (n % one) {
		char text[16];
		int len = snprintf(text, sizeof text, "%0*llu", (int)digits, (unsigned long long)(n % one));
		while (len && text[len - 1] == '0')
			len--;
		buf_printf(out, ".%.*s", len, text);
	}
	buf_puts(out, unit);
}

void tduration_format(int64_t ns, struct buf *out)
{
	uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns, minutes = n / 60000000000u;
	if (!n) {
		buf_puts(out, "0s");
		return;
	}
	if (ns < 0)
		buf_putc(out, '-');
	if (n < 1000) {
		put_unit(n, 0, "ns", out);
	} else if (n < 1000000) {
		put_unit(n, 3, "µs", out);
	} else if (n < 1000000000) {
		put_unit(n, 6, "ms", out);
	} else {
		if (minutes >= 60)
			buf_printf(out, "%lluh", (unsigned long long)(minutes / 60));
		if (minutes)
			buf_printf(out, "%llum", (unsigned long long)(minutes % 60));
		put_unit(n % 60000000000u, 9, "s", out);
	}
}
