/* SPDX-License-Identifier: Apache-2.0 */
/* The time that is used for dropping data. The wall clock may be wrong, by weeks, for minutes or for days; data that it once called
 * too old is gone. So retention trusts it only as far as something else agrees, and uses the earliest of
 *
 *	the wall clock
 *	the newest stamp that is stored, and an hour
 *	when a day was last appended to as things happened, and what has passed since by a clock that nobody sets
 *	for a day that was not, since the start: what time it was at the start, and what has passed since
 *
 * The file `clock` keeps that over restarts, as long as the machine runs. At the first start after that, the time is what stored data
 * proves: days without stored data did not pass, until the wall clock has had no step for an hour. After a step nothing is dropped for
 * an hour; a log line, metrics and the page say so. The earlier time still counts until a restart after a day without a step. The one
 * exception is a disk that retention by size keeps from filling up. */
#ifndef PYRRHA_TSDB_RETENTION_CLOCK_H
#define PYRRHA_TSDB_RETENTION_CLOCK_H


#include "base/clock_steps.h"
#include "base/lock.h"

struct partition;
struct tsdb;

struct retention_clock {
	struct mutex lock;
	struct clock_steps steps;
	int64_t base_ms, base_boot_ms; /* what time it was at the start, and what the other clock said then */
	int64_t gap_ms;                /* how much later the wall clock, or the newest stamp, said that it was */
	int64_t steady_boot_ms;        /* since when the wall clock has had no step, as far as is known */
	int64_t settled_boot_ms;       /* when that is believed */
	int64_t waits_until_boot_ms;   /* nothing is dropped before */
};

void retention_clock_init(struct retention_clock *c);
void retention_clock_destroy(struct retention_clock *c);
/* Once everything stored is known. */
void retention_clock_start(struct tsdb *db);
/* Notices steps. Any thread, every now and then. */
void retention_clock_look(struct tsdb *db);
/* Whether dropping is suspended now. */
bool retention_clock_waits(struct tsdb *db);
/* The current time for retention of one day. */
int64_t retention_now_of(struct tsdb *db, const struct partition *p);
/* A stamp was taken into p; now_ms, boot_ms: what the clocks say. */
void retention_clock_saw(struct partition *p, int64_t t_ms, int64_t now_ms, int64_t boot_ms);
/* Whether p was appended to as things happened within the last hour. */
bool retention_is_recent(struct tsdb *db, const struct partition *p);

#endif
