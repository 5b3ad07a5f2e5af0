/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's lock, as the drain thread holds it. */
#include "agent/core/agent_private.h"

#include <time.h>

#include "base/clock.h"

#define LET_IN_NS 5000000ll          /* the drain thread offers the lock to others once it has held it for so long */
#define LET_IN_FOR_NS 100000         /* so long it stays released */

void drain_lock(struct agent *a)
{
	mutex_lock(&a->lock);
	a->locked_ns = clock_mono_ns();
}

void drain_let_in(struct agent *a)
{
	if (clock_mono_ns() - a->locked_ns < LET_IN_NS)
		return;
	mutex_unlock(&a->lock);
	nanosleep(&(struct timespec){ .tv_nsec = LET_IN_FOR_NS }, NULL);
	drain_lock(a);
}
