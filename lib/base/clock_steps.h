/* SPDX-License-Identifier: Apache-2.0 */
/* Finds steps of the wall clock by comparing it regularly with a clock that nobody sets. Their difference changes
 * slowly while the clock is disciplined, and at once when the clock is set. Not thread-safe. */
#ifndef PYRRHA_BASE_CLOCK_STEPS_H
#define PYRRHA_BASE_CLOCK_STEPS_H

#include "base/attrs.h"

#define CLOCK_STEP_MS 60000 /* what is less is no step */

struct clock_steps {
	bool begun;
	int64_t differ_ms;     /* wall clock less the other, as of the last look */
	uint64_t n;            /* steps so far */
	int64_t last_step_ms;  /* the last one: how far; negative = back */
	int64_t last_wall_ms;  /* what the wall clock said after it */
	int64_t last_boot_ms;  /* what the other said then */
};

/* True: there was a step since the last look; the fields say which. */
bool clock_steps_look(struct clock_steps *s, int64_t wall_ms, int64_t boot_ms);

#endif
