/* SPDX-License-Identifier: Apache-2.0 */
/* When an endpoint is scraped: at its own offset within the interval, on a grid pinned to the wall clock, so that a
 * restart keeps it and targets are spread. A scrape that outlasts its slot starts the next as it ends. */
#include "base/clock.h"
#include "scraper/internal.h"

/* The first time after now that is offset, modulo the interval. */
int64_t schedule_next(int64_t now_ms, int64_t interval_ms, int64_t offset_ms)
{
	int64_t since = (now_ms - offset_ms) % interval_ms;
	if (since < 0)
		since += interval_ms;
	return now_ms + interval_ms - since;
}

int64_t schedule_after(int64_t start_ms, int64_t end_ms, int64_t interval_ms, int64_t offset_ms)
{
	int64_t slot = schedule_next(start_ms, interval_ms, offset_ms);
	return MAX(slot, end_ms);
}

int64_t offset_of(const struct endpoint *ep)
{
	return (int64_t)(ep->hash % (uint64_t)ep->interval_ms);
}

void schedule(struct endpoint *ep, int64_t slot_ms)
{
	int64_t now_ms = clock_now_ms();
	if (slot_ms - now_ms > ep->interval_ms)
		slot_ms = schedule_next(now_ms, ep->interval_ms, offset_of(ep));
	ep->slot_ms = slot_ms;
	heap_put(&ep->scraper->due, &ep->due, clock_mono_ms() + slot_ms - now_ms);
}
