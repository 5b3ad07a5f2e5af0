/* SPDX-License-Identifier: Apache-2.0 */
/* When an endpoint is scraped: at its own offset within the interval, on a grid pinned to the wall clock, so that a
 * restart keeps it and targets are spread. A scrape that outlasts its slot starts the next as it ends. And the heap
 * that says who is next: children of i are 2i+1 and 2i+2, the root is due first. */
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

static void place(struct scraper *s, size_t i, struct endpoint *ep)
{
	s->heap.v[i] = ep;
	ep->heap_at = i + 1;
}

static void sift_up(struct scraper *s, size_t i)
{
	struct endpoint *ep = s->heap.v[i];
	for (; i && s->heap.v[(i - 1) / 2]->due_ms > ep->due_ms; i = (i - 1) / 2)
		place(s, i, s->heap.v[(i - 1) / 2]);
	place(s, i, ep);
}

static void sift_down(struct scraper *s, size_t i)
{
	struct endpoint *ep = s->heap.v[i];
	for (size_t child; (child = 2 * i + 1) < s->heap.n; i = child) {
		if (child + 1 < s->heap.n && s->heap.v[child + 1]->due_ms < s->heap.v[child]->due_ms)
			child++;
		if (s->heap.v[child]->due_ms >= ep->due_ms)
			break;
		place(s, i, s->heap.v[child]);
	}
	place(s, i, ep);
}

void heap_remove(struct scraper *s, struct endpoint *ep)
{
	if (!ep->heap_at)
		return;
	size_t i = ep->heap_at - 1;
	struct endpoint *last = s->heap.v[--s->heap.n];
	ep->heap_at = 0;
	if (last == ep)
		return;
	place(s, i, last);
	sift_up(s, i);
	sift_down(s, last->heap_at - 1);
}

void heap_put(struct scraper *s, struct endpoint *ep)
{
	heap_remove(s, ep);
	vec_push(&s->heap, ep);
	sift_up(s, s->heap.n - 1);
}

int64_t offset_of(const struct endpoint *ep)
{
	return (int64_t)(ep->hash % (uint64_t)ep->interval_ms);
}

void schedule(struct endpoint *ep, int64_t slot_ms)
{
	ep->slot_ms = slot_ms;
	ep->due_ms = clock_mono_ms() + slot_ms - clock_now_ms();
	heap_put(ep->scraper, ep);
}
