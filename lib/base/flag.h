/* SPDX-License-Identifier: Apache-2.0 */
/* Flags that end a wait. A thread waits on a condition for something else, and is to stop when a flag turns true: its client has left.
 * Who sets the flag knows neither the condition nor its lock. So the waiting thread watches the flag, by its address, and who sets it
 * wakes all who watch that address. The watchers of all flags of the process are one list: they are few. */
#ifndef PYRRHA_BASE_FLAG_H
#define PYRRHA_BASE_FLAG_H

#include <stdatomic.h>

#include "base/lock.h"

/* Lies on the stack of the thread that waits. */
struct flag_watch {
	const atomic_bool *flag;
	struct mutex *lock;
	pthread_cond_t *cond;
	struct flag_watch *next;
};

/* Until flag_unwatch, who raises the flag then broadcasts cond under lock. So a thread that finds the flag unset while it holds the
 * lock, and then waits on the condition, is woken. Neither function is called with that lock held. flag: NULL = nothing is watched. */
void flag_watch(struct flag_watch *w, const atomic_bool *flag, struct mutex *lock, pthread_cond_t *cond);
void flag_unwatch(struct flag_watch *w);
/* Sleeps until that moment of clock_mono_ms(); false: the flag was raised before. flag: NULL = none. */
bool flag_sleep(const atomic_bool *flag, int64_t until_mono_ms);

/* Sets it and wakes those who watch it. */
void flag_raise(atomic_bool *flag);
/* Wakes those who watch a flag that is set already. Only the address counts: what it is of may be freed. NULL = of all flags. */
void flag_wake(const atomic_bool *flag);

#endif
