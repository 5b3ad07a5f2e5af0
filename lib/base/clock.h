/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and their spelling. Wall time is int64 milliseconds or nanoseconds since 1970-01-01 UTC. */
#ifndef PYRRHA_BASE_CLOCK_H
#define PYRRHA_BASE_CLOCK_H

#include "base/view.h"

int64_t clock_now_ms(void);
int64_t clock_now_ns(void);
/* CLOCK_MONOTONIC, for durations and deadlines. */
int64_t clock_mono_ns(void);
/* CPU time that the calling thread has used. A system call. */
int64_t clock_cpu_ns(void);
static inline int64_t clock_mono_ms(void)
{
	return clock_mono_ns() / 1000000;
}
/* CLOCK_BOOTTIME: as that, and goes on while the machine sleeps. The clock that the wall clock is compared
 * with. */
int64_t clock_boot_ms(void);
void clock_sleep_ms(int64_t ms);
void clock_sleep_us(int64_t us);

#define RFC3339_LEN 32
/* "2026-11-21T09:13:00.123Z"; out holds RFC3339_LEN bytes. Returns out. */
char *clock_rfc3339_ms(int64_t t_ms, char out[RFC3339_LEN]);
/* RFC 3339 with or without fraction, 'Z' or offset, into ms; or a Unix time in seconds, a float ("1700000000.123").
 * False if it is neither. */
bool clock_parse_time_ms(struct view v, int64_t *ret_ms);

#endif
