/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations that take long give what is left of them to threads for such, so that others need not wait. */
#include "base/lock.h"
#include "rules/group.h"

/* The rest of an evaluation that a patient thread gave to a hurried one, and waits for. */
struct rest {
	void (*run)(struct evaluation *r);
	struct evaluation *round;
	struct rest *next;
	bool done;
};

void rules_hurry(struct rules *m, void (*run)(struct evaluation *r), struct evaluation *r)
{
	struct rest rest = { .run = run, .round = r };
	mutex_lock(&m->lock);
	r->g->hurried = CALM_ROUNDS;
	if (!m->stopping) { /* else it is cut off */
		rest.next = m->rests;
		m->rests = &rest;
		pthread_cond_broadcast(&m->wake);
		while (!rest.done)
			mutex_wait(&m->lock, &m->wake);
	}
	mutex_unlock(&m->lock);
}

bool rules_run_rest(struct rules *m)
{
	struct rest *rest = m->rests;
	if (!rest)
		return false;
	m->rests = rest->next;
	mutex_unlock(&m->lock);
	rest->run(rest->round);
	mutex_lock(&m->lock);
	rest->done = true;
	pthread_cond_broadcast(&m->wake);
	return true;
}
