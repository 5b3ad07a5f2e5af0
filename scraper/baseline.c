/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/baseline.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "scraper/internal.h"

struct baseline *baseline_new(struct budget *parent)
{
	struct baseline *b = NEW(struct baseline);
	b->refs = 1;
	b->memory.parent = parent;
	b->delta.budget = &b->memory;
	return b;
}

void baseline_leave(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct baseline *b = TAKE_PTR(ep->base);
	if (b && b->refs > 1)
		b->memory.parent = &ep->scraper->memory; /* an heir may still want it */
	baseline_unref(b);
}

size_t baseline_idle_bytes(const struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	return ep->turn != TURN_WORKS && ep->base->refs == 1 ? ep->base->delta.held : 0;
}

size_t baseline_forget(struct endpoint *ep)
{
	size_t held = baseline_idle_bytes(ep);
	if (held)
		delta_release(&ep->base->delta);
	return held;
}

void baseline_unref(struct baseline *b)
{
	if (!b || --b->refs)
		return;
	delta_release(&b->delta);
	free(b);
}

/* One that was never scraped hands on what it would have had. */
void baseline_bequeath(struct endpoint *old, struct endpoint *fresh)
{
	mutex_assert_held(&old->scraper->lock);
	baseline_unref(fresh->before);
	if (old->before) {
		fresh->before = TAKE_PTR(old->before);
		return;
	}
	fresh->before = old->base;
	old->base->refs++;
	atomic_store(&old->base->has_heir, true);
}

void baseline_end(struct endpoint *ep)
{
	mutex_lock(&ep->scraper->lock);
	ep->base->over = true;
	if (ep->base->refs == 1)
		delta_release(&ep->base->delta);
	mutex_unlock(&ep->scraper->lock);
}

/* An endpoint is scraped first with an empty baseline: then, and only then, one may wait for it. */
static void inherit(struct endpoint *ep)
{
	mutex_lock(&ep->scraper->lock);
	struct baseline *b = TAKE_PTR(ep->before);
	if (b && b->over) {
		struct delta empty = ep->base->delta;
		ep->base->delta = b->delta;
		b->delta = empty;
		ep->base->delta.budget = &ep->base->memory;
		b->delta.budget = &b->memory;
		budget_move(&b->memory, &ep->base->memory, ep->base->delta.held);
		ep->base->columns = b->columns;
		ep->base->t_ms = b->t_ms;
		ep->base->boot_ms = b->boot_ms;
	}
	baseline_unref(b);
	mutex_unlock(&ep->scraper->lock);
}

void baseline_begin(struct endpoint *ep, uint64_t columns)
{
	struct baseline *b = ep->base;
	if (!b->t_ms)
		inherit(ep);
	if (b->columns != columns)
		delta_release(&b->delta);
	b->columns = columns;
}

int64_t baseline_moved(struct endpoint *ep, const struct work *w, int64_t t_ms)
{
	struct baseline *b = ep->base;
	int64_t since = stamp_between(b->t_ms, b->boot_ms, w, t_ms);
	stamp_move(&b->t_ms, &b->boot_ms, w, t_ms);
	return since;
}
