/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for something in the order in which they came: who leaves, served or not, lets the next one look. A condition
 * variable alone lets whoever comes at the right moment overtake those that wait. Under a lock of the caller's. */
#ifndef PYRRHA_BASE_LINE_H
#define PYRRHA_BASE_LINE_H

#include <pthread.h>
#include <stdbool.h>

/* One that waits; lies on its stack. */
struct in_line {
	struct in_line *next;
};

/* Zeroed: nobody. */
struct waiting_line {
	struct in_line *first;
};

static inline void line_join(struct waiting_line *l, struct in_line *me)
{
	struct in_line **at = &l->first;
	while (*at)
		at = &(*at)->next;
	me->next = NULL;
	*at = me;
}

/* changed: what they all wait on. */
static inline void line_leave(struct waiting_line *l, const struct in_line *me, pthread_cond_t *changed)
{
	struct in_line **at = &l->first;
	while (*at != me)
		at = &(*at)->next;
	*at = me->next;
	if (l->first)
		pthread_cond_broadcast(changed);
}

static inline bool line_is_first(const struct waiting_line *l, const struct in_line *me)
{
	return l->first == me;
}

#endif
