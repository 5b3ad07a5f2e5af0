/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/num.h"

static int64_t read_ns(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_now_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

int64_t clock_now_ms(void)
{
	return clock_now_ns() / 1000000;
}

int64_t clock_mono_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_cpu_ns(void)
{
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_boot_ms(void)
{
	return read_ns(CLOCK_BOOTTIME) / 1000000;
}

/* Goes on after a signal (SIGPROF, of a profile of ourselves). */
static void sleep_for(struct timespec ts)
{
	while (nanosleep(&ts, &ts) && errno == EINTR) {
		/* ts holds the remaining time */
	}
}

void clock_sleep_us(int64_t us)
{
	sleep_for((struct timespec){ us / 1000000, us % 1000000 * 1000 });
}

void clock_sleep_ms(int64_t ms)
{
	sleep_for((struct timespec){ ms / 1000, (ms % 1000) * 1000000 });
}

char *clock_rfc3339_ms(int64_t t_ms, char out[RFC3339_LEN])
{
	int64_t sec = t_ms / 1000, ms = t_ms % 1000;
	if (ms < 0) {
		ms += 1000;
		sec--;
	}
	time_t t = (time_t)sec;
	struct tm tm;
	char date[24];
	if (!gmtime_r(&t, &tm) || !strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm))
		snprintf(date, sizeof date, "out-of-range");
	snprintf(out, RFC3339_LEN, "%.23s.%03dZ", date, (int)ms);
	return out;
}

static bool digits(const char *p, unsigned n, int *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		*ret = *ret * 10 + (p[i] - '0');
	}
	return true;
}

static bool parse_rfc3339(struct view v, int64_t *ret_ms)
{
	struct tm tm = { 0 };
	int year, month;
	const char *p = v.ptr;
	if (v.len < 20 || !digits(p, 4, &year) || p[4] != '-' || !digits(p + 5, 2, &month) || p[7] != '-' ||
	    !digits(p + 8, 2, &tm.tm_mday) || (p[10] | 0x20) != 't' || !digits(p + 11, 2, &tm.tm_hour) ||
	    p[13] != ':' || !digits(p + 14, 2, &tm.tm_min) || p[16] != ':' || !digits(p + 17, 2, &tm.tm_sec))
		return false;
	if (month < 1 || month > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
	    tm.tm_sec > 60)
		return false;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	size_t i = 19;
	int64_t ms = 0, unit = 100;
	if (p[i] == '.') {
		size_t first = ++i;
		for (; i < v.len && p[i] >= '0' && p[i] <= '9'; i++, unit /= 10)
			ms += (p[i] - '0') * unit;
		if (i == first)
			return false;
	}
	int64_t offset = 0;
	if (i < v.len && (p[i] | 0x20) == 'z') {
		i++;
	} else if (i + 6 <= v.len && (p[i] == '+' || p[i] == '-')) {
		int h, m;
		if (!digits(p + i + 1, 2, &h) || p[i + 3] != ':' || !digits(p + i + 4, 2, &m) || h > 23 || m > 59)
			return false;
		offset = (h * 60 + m) * 60 * (p[i] == '-' ? -1 : 1);
		i += 6;
	} else {
		return false;
	}
	if (i != v.len)
		return false;
	*ret_ms = ((int64_t)timegm(&tm) - offset) * 1000 + ms;
	return true;
}

bool clock_parse_time_ms(struct view v, int64_t *ret_ms)
{
	double s;
	if (num_parse_double(v, &s)) {
		if (!isfinite(s) || fabs(s) > 9.2e15)
			return false;
		*ret_ms = (int64_t)llround(s * 1000);
		return true;
	}
	return parse_rfc3339(v, ret_ms);
}
