/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/question_memory.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/num.h"
#include "base/units.h"

#define QUESTIONS_SMALL 16 /* questions that may be small at the same time: a quarter of the budget is for them */

void question_memory_init(struct question_memory *m, uint64_t max_bytes)
{
	*m = (struct question_memory){ .all.max = (size_t)MIN(max_bytes, SIZE_MAX) };
	mutex_init(&m->lock, LOCK_LEAF, "memory of questions");
	pthread_cond_init(&m->freed, NULL);
}

void question_memory_destroy(struct question_memory *m)
{
	pthread_cond_destroy(&m->freed);
	mutex_destroy(&m->lock);
}

static bool question_is_small(const struct budget *part, uint64_t n)
{
	return budget_used(part) + n <= part->parent->max / 4 / QUESTIONS_SMALL;
}

/* Beyond BUDGET_LARGE only questions that are small get memory. */
static bool question_more(struct budget *part, size_t n, enum budget_line line)
{
	return question_is_small(part, n) && budget_take(part->parent, n, line);
}

void question_held_init(struct question_held *h, struct question_memory *of)
{
	*h = (struct question_held){ .budget = { .parent = &of->all, .more = question_more }, .of = of };
}

static void question_tell(struct question_memory *m)
{
	if (!atomic_load(&m->waiting))
		return;
	mutex_lock(&m->lock);
	pthread_cond_broadcast(&m->freed);
	mutex_unlock(&m->lock);
}

void question_held_release(struct question_held *h)
{
	budget_give(&h->budget, budget_used(&h->budget));
	question_tell(h->of);
}

int question_held_refuse(const struct question_held *h, uint64_t n, struct err *e)
{
	char one[24], used[24], max[24];
	uint64_t most = h->of->all.max / BUDGET_ALL * BUDGET_LARGE;
	units_format_size(h->of->all.max, max);
	if (budget_used(&h->budget) + n > most)
		return err_set(e, ERR_LIMIT, "the question needs more memory than one question of another server may have, %s of %s (a sixteenth of --memory): ask for "
			       "a shorter range, a larger step or fewer series", units_format_size(most, one), max);
	return err_set(e, ERR_BUSY, "the server is busy: questions of other servers hold %s of %s (a sixteenth of --memory), and this one wants more than is left: try "
		       "again when there are fewer, or ask for less", units_format_size(budget_used(&h->of->all), used), max);
}

int question_held_take(struct question_held *h, uint64_t n, struct err *e)
{
	return !h || budget_take(&h->budget, (size_t)n, BUDGET_ALL) ? 0 : question_held_refuse(h, n, e);
}

int question_held_list(struct question_held *h, uint64_t n, struct err *e)
{
	if (!h)
		return 0;
	char max[24];
	uint64_t all = atomic_fetch_add(&h->lists, n) + n;
	if (h->max_bytes && all > h->max_bytes)
		return err_set(e, ERR_LIMIT, "the results of the question take more than %s (--query.max-bytes of the server that asks, or of the one that is asked): ask for a "
			       "shorter range, a larger step or fewer series", units_format_size(h->max_bytes, max));
	return question_held_take(h, n, e);
}

bool question_held_wait(struct question_held *h, uint64_t n, int64_t deadline_ns, const atomic_bool *canceled)
{
	struct question_memory *m = h->of;
	struct flag_watch left;
	enum budget_line line = question_is_small(&h->budget, n) ? BUDGET_BEGIN : BUDGET_LARGE;
	bool room, goes_on = budget_used(&h->budget) + n <= m->all.max / BUDGET_ALL * line;
	flag_watch(&left, canceled, &m->lock, &m->freed);
	mutex_lock(&m->lock);
	atomic_fetch_add(&m->waiting, 1); /* before it looks: who gives back after that tells it */
	while (!(room = budget_has_room(&m->all, (size_t)n, line)) && goes_on) {
		goes_on = clock_mono_ns() < deadline_ns && !(canceled && atomic_load(canceled));
		if (goes_on)
			mutex_wait_ms(&m->lock, &m->freed, deadline_ns / 1000000 + 1);
	}
	atomic_fetch_sub(&m->waiting, 1);
	mutex_unlock(&m->lock);
	flag_unwatch(&left);
	return room;
}
