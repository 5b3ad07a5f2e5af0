/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock_steps.h"

bool clock_steps_look(struct clock_steps *s, int64_t wall_ms, int64_t boot_ms)
{
	int64_t differ_ms = wall_ms - boot_ms, step_ms = s->begun ? differ_ms - s->differ_ms : 0;
	s->begun = true;
	s->differ_ms = differ_ms;
	if (step_ms < CLOCK_STEP_MS && step_ms > -CLOCK_STEP_MS)
		return false;
	s->n++;
	s->last_step_ms = step_ms;
	s->last_wall_ms = wall_ms;
	s->last_boot_ms = boot_ms;
	return true;
}
