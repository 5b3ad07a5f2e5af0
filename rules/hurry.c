/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations that take long give what is left of them to threads for such, so that others need not wait. */
#include "rules/group.h"

/* The rest of an evaluation that a patient thread gave to a hurried one, and waits for. */
struct rest {
	void (*run)(struct round *r);
	struct round *round;
	struct rest *next;
	bool done;
};

void rules_hurry(struct rules *m, void (*run)(struct round *r), struct round *r)
{
	struct rest rest = { .run = run, .round = r };
	pthread_mutex_lock(&m->lock);
	r->g->hurried = CALM_ROUNDS;
	if (!m->stopping) { /* else it is cut off */
		rest.next = m->rests;
		m->rests = &rest;
		pthread_cond_broadcast(&m->wake);
		while (!rest.done)
			pthread_cond_wait(&m->wake, &m->lock);
	}
	pthread_mutex_unlock(&m->lock);
}

/* Under m->lock, which it gives up meanwhile. */
bool rules_run_rest(struct rules *m)
{
	struct rest *rest = m->rests;
	if (!rest)
		return false;
	m->rests = rest->next;
	pthread_mutex_unlock(&m->lock);
	rest->run(rest->round);
	pthread_mutex_lock(&m->lock);
	rest->done = true;
	pthread_cond_broadcast(&m->wake);
	return true;
}
