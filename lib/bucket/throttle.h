/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a bucket: attempts at once, and bytes a second. Any thread; a wait ends with ERR_CANCELED within a tenth of a second of
 * *stop, and at once by flag_raise.
 *
 * A limit of bytes is a moment: when the next bytes may pass. A caller moves it by the time that its own bytes take, and sleeps until where it
 * was. So bytes pass in the order of the calls, and a pause is not made up for by a burst. */
#ifndef PYRRHA_BUCKET_THROTTLE_H
#define PYRRHA_BUCKET_THROTTLE_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/lock.h"

/* Sleeps so long. stop: NULL = never. */
int throttle_sleep_ms(const atomic_bool *stop, int64_t ms, struct err *e) MUST_USE;

struct throttle {
	struct mutex lock;
	uint64_t bytes_per_s; /* 0 = no limit; never changes */
	int64_t next_ns;      /* of clock_mono_ns(): when the next bytes may pass */
};

void throttle_init(struct throttle *t, uint64_t bytes_per_s);
void throttle_destroy(struct throttle *t);
/* Waits until n bytes may pass. */
int throttle_pass(struct throttle *t, uint64_t n, const atomic_bool *stop, struct err *e) MUST_USE;

struct throttle_places {
	struct mutex lock;
	pthread_cond_t freed;
	int64_t free;
};

void throttle_places_init(struct throttle_places *p, int64_t n);
void throttle_places_destroy(struct throttle_places *p);
/* Waits for a place. It is given back by throttle_places_leave. */
int throttle_places_enter(struct throttle_places *p, const atomic_bool *stop, struct err *e) MUST_USE;
void throttle_places_leave(struct throttle_places *p);

#endif
