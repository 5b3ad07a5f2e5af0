/* SPDX-License-Identifier: Apache-2.0 */
/* When an endpoint is scraped: at its own offset within the interval, on a grid pinned to the wall clock, so that a
 * restart keeps it and targets are spread. A scrape that outlasts its slot starts the next as it ends.
 *
 * Offsets are multiples of a beat. A single scrape costs twice the CPU of one of many, in cache misses and in thread wake-ups. Requests that begin
 * together mostly end together, and are decoded and committed in a row.
 *
 * The offset follows from what is asked where (URL, socket and type), from nothing of the server or the job: servers with the
 * same targets have the same offsets, and each shifts all of its own by its part of the interval (--scrape.replica). With
 * three servers, and seconds below a third of the interval:
 *
 *	0/3   |====--------====--------|
 *	1/3   |----====--------====----|
 *	2/3   |--------====--------====|
 */
#include "base/clock.h"
#include "scraper/internal.h"

#define EARLY_MS 2
#define BEAT_MS INT64_C(500)
#define BEATS 20 /* of an interval, at least */

/* The first time after now that is offset, modulo the interval. */
int64_t schedule_next(int64_t now_ms, int64_t interval_ms, int64_t offset_ms)
{
	int64_t since = (now_ms - offset_ms) % interval_ms;
	if (since < 0)
		since += interval_ms;
	return now_ms + interval_ms - since;
}

/* Two clocks of whole milliseconds: a scrape may begin just before its slot, and must not get that slot again. */
int64_t schedule_after(int64_t slot_ms, int64_t start_ms, int64_t end_ms, int64_t interval_ms, int64_t offset_ms)
{
	int64_t early_ms = slot_ms - start_ms;
	if (early_ms > 0 && early_ms <= EARLY_MS)
		start_ms = slot_ms;
	int64_t slot = schedule_next(start_ms, interval_ms, offset_ms);
	return MAX(slot, end_ms);
}

int64_t offset_of(const struct endpoint *ep)
{
	const struct scraper *s = ep->scraper;
	int64_t own_ms = (int64_t)(ep->slot_hash % (uint64_t)ep->interval_ms), beat_ms = MAX(MIN(BEAT_MS, ep->interval_ms / BEATS), (int64_t)1);
	own_ms -= own_ms % beat_ms;
	int64_t shift_ms = ep->interval_ms / s->replicas * s->replica + ep->interval_ms % s->replicas * s->replica / s->replicas;
	return (own_ms + shift_ms + ep->aside_ms) % ep->interval_ms;
}

void schedule(struct endpoint *ep, int64_t slot_ms)
{
	int64_t now_ms = clock_now_ms();
	if (slot_ms - now_ms > ep->interval_ms)
		slot_ms = schedule_next(now_ms, ep->interval_ms, offset_of(ep));
	ep->slot_ms = slot_ms;
	heap_put(&ep->scraper->due, &ep->due, clock_mono_ms() + slot_ms - now_ms);
}
