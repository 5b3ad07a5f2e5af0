/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of all scrapes together (--scrape.memory): bodies on their way and waiting, the decoders' arenas, baselines
 * of cumulative types. A scrape begins with what its last body took, within bounds, and takes more as bytes arrive.
 *
 * If there is no room for a due scrape, it is skipped. The room it would have needed is then owed to it: one that was skipped less
 * often in a row begins only if room is left beside everything owed to those before it. So no scrape is skipped a second time while
 * others, which were not, take the room. */
#include "base/units.h"
#include "scraper/internal.h"
#include "scraper/state/table.h"

#define NEED_NEW ((size_t)16 << 10)  /* of an endpoint whose body sizes are not known yet */
#define NEED_MIN ((size_t)4 << 10)
#define NEED_MAX ((size_t)32 << 10)  /* thousands of requests may hang at a time: more is taken as it arrives */
#define CLAIM_PART 4                  /* of an interval */
#define SMALL_BODY ((size_t)256 << 10)
#define SMALL_SHARE 64               /* or this part of the budget, if that is less */

static size_t need_of(const struct endpoint *ep)
{
	return ep->last_body ? MAX(MIN(ep->last_body, NEED_MAX), NEED_MIN) : NEED_NEW;
}

void memory_settle(struct endpoint *ep, unsigned passed)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	s->owed[ep->passed] -= ep->owed;
	ep->owed = 0;
	heap_remove(&s->claims, &ep->claim);
	ep->passed = MIN(passed, PASSED_MAX);
}

/* Room for it is reserved shortly before it is due again; earlier, it would be unused. */
static void pass_over(struct endpoint *ep, int64_t now_ms)
{
	memory_settle(ep, ep->passed + 1);
	heap_put(&ep->scraper->claims, &ep->claim, now_ms + ep->interval_ms - ep->interval_ms / CLAIM_PART);
}

static size_t owed_before(const struct endpoint *ep, int64_t now_ms)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	size_t sum = 0;
	for (struct heap_node *n; (n = heap_first(&s->claims)) && n->key <= now_ms;) {
		struct endpoint *x = heap_entry(n, struct endpoint, claim);
		heap_remove(&s->claims, n);
		x->owed = need_of(x);
		s->owed[x->passed] += x->owed;
	}
	for (unsigned i = ep->passed + 1; i <= PASSED_MAX; i++)
		sum += s->owed[i];
	return sum;
}

static int no_memory(const struct scraper *s, struct err *e, const char *what)
{
	char size[24];
	return err_set(e, ERR_UNAVAILABLE, "%s: the memory of all scrapes is used up (--scrape.memory, %s)", what,
		       units_format_size(s->memory.max, size));
}

int memory_begin(struct work *w, int64_t now_ms)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	struct scraper *s = ep->scraper;
	size_t n = need_of(ep);
	if (budget_has_room(&s->memory, n + owed_before(ep, now_ms), BUDGET_BEGIN) && budget_take(&s->memory, n, BUDGET_BEGIN)) {
		w->held = n;
		memory_settle(ep, 0);
		return 0;
	}
	pass_over(ep, now_ms);
	metric_inc(&scraper_table[M_PASSED_OVER]);
	return no_memory(s, &w->err, "the scrape did not begin");
}

/* Bytes of a body that arrives, before it is known how many there will be. */
bool memory_receive(struct work *w, const char *p, size_t n)
{
	struct scraper *s = w->endpoint->scraper;
	size_t small = MIN(SMALL_BODY, s->memory.max ? s->memory.max / SMALL_SHARE : SMALL_BODY);
	buf_put(&w->body, p, n);
	size_t want = MAX(w->body.cap, w->held), more = want - w->held;
	if (!budget_take(&s->memory, more, want > small ? BUDGET_LARGE : BUDGET_ALL)) {
		memory_drop_body(w);
		metric_inc(&scraper_table[M_CUT_OFF]);
		no_memory(s, &w->err, "the body was cut off");
		return false;
	}
	w->held = want;
	return !w->body.overflow;
}

void memory_received(struct work *w)
{
	size_t rest = w->held - MIN(w->held, w->body.cap);
	w->held -= rest;
	budget_give(&w->endpoint->scraper->memory, rest);
}

void memory_drop_body(struct work *w)
{
	buf_free(&w->body);
	budget_give(&w->endpoint->scraper->memory, w->held);
	w->held = 0;
}

int memory_refused(struct scraper *s, struct err *e)
{
	metric_inc(&scraper_table[M_CUT_OFF]);
	return no_memory(s, e, "it could not be decoded");
}
