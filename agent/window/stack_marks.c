/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window/stack_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define FIRST_IN_REGION 256          /* above all fixed numbers */

static const char *const fixed[] = {
	[END_DEPTH] = "[truncated: too deep]",
	[END_NO_PROCESS] = "[truncated: unknown process]",
	[END_NO_MAPPING] = "[truncated: unknown mapping]",
	[END_NO_TABLE] = "[truncated: no unwind table]",
	[END_UNSUPPORTED] = "[truncated: unsupported unwind rule]",
	[END_STACK_READ] = "[truncated: stack not readable]",
	[END_BAD_FRAME] = "[truncated: bad frame]",
	[END_NO_PROGRESS] = "[truncated: no progress]",
	[END_COMPAT] = "[truncated: 32-bit process]",
	[END_STALE] = "[truncated: mapping changed]",
	[END_COPY_ENDED] = "[truncated: stack copy]",
	[END_UNMAPPED] = "[truncated: not mapped]",
	[END_COSTLY] = "[lost: stack over budget]",
	[END_EVICTED] = "[lost: stack without room]",
	[END_TABLES_FULL] = "[truncated: unwind tables are full]",
	[END_NOT_BUILT] = "[truncated: unwind table not built yet]",
	[END_OUTSIDE] = "[process outside of the agent's pid namespace]",
	[(int)END_CODES_ + (int)LOST_RING] = "[lost: ring full]",
	[(int)END_CODES_ + (int)LOST_TICKS] = "[lost: ticks]",
	[(int)END_CODES_ + (int)LOST_PAUSE] = "[lost: paused]",
	[(int)END_CODES_ + (int)LOST_FRAMES] = "[lost: frames of the runtime]",
};

_Static_assert(ARRAY_LEN(fixed) <= FIRST_IN_REGION, "numbers of marks overlap");

static const char *fixed_text(uint64_t number)
{
	return number < ARRAY_LEN(fixed) && fixed[number] ? fixed[number] : "[truncated]";
}

void stack_marks_release(struct stack_marks *m)
{
	for (size_t i = 0; i < REGIONS_MAX; i++)
		for (size_t k = 0; k < END_CODES_; k++)
			free(m->in[i][k]);
	memset(m, 0, sizeof *m);
}

uint64_t stack_marks_in(struct stack_marks *m, enum stack_end end, uint8_t id, const char *name)
{
	const char *why = fixed_text(end);

	if (!m->in[id][end])
		m->in[id][end] = xasprintf("%.*s in %s]", (int)strlen(why) - 1, why, name);
	return FRAME_OF_MARK(FIRST_IN_REGION + id * END_CODES_ + (unsigned)end);
}

const char *stack_marks_text(const struct stack_marks *m, uint64_t frame)
{
	uint64_t number = frame & FRAME_ADDR_MASK, at = number - FIRST_IN_REGION;

	if (number < FIRST_IN_REGION || at >= REGIONS_MAX * END_CODES_)
		return fixed_text(number);
	const char *text = m->in[at / END_CODES_][at % END_CODES_];
	return text ? text : "[truncated]";
}
