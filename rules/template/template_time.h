/* SPDX-License-Identifier: Apache-2.0 */
/* Times and durations as Go has them: UTC only. */
#ifndef PYRRHA_RULES_TEMPLATE_TIME_H
#define PYRRHA_RULES_TEMPLATE_TIME_H

#include "base/buf.h"

struct ttime {
	int64_t s;    /* since 1970 */
	int32_t ns;   /* 0 .. 999999999 */
};

struct tdate {
	int64_t year;
	int month, day, yday, weekday; /* from 1, 1, 1; Sunday is 0 */
	int hour, minute, second;
};

struct ttime ttime_of_ms(int64_t ms);
struct tdate ttime_date(struct ttime t);
/* Adds years, months and days; overflow of one carries over. */
struct ttime ttime_add_date(struct ttime t, int64_t years, int64_t months, int64_t days);
struct ttime ttime_add(struct ttime t, int64_t ns);
/* a - b, at most what a duration holds. */
int64_t ttime_sub(struct ttime a, struct ttime b);
int ttime_cmp(struct ttime a, struct ttime b);
/* By a layout of Go: "2006-01-02 15:04:05". */
void ttime_format(struct ttime t, struct view layout, struct buf *out);
#define TTIME_STRING VIEW("2006-01-02 15:04:05.999999999 -0700 MST")
/* "1h2m3.5s" */
void tduration_format(int64_t ns, struct buf *out);
const char *tmonth_name(int month);      /* NULL: none */
const char *tweekday_name(int weekday);

#endif
