/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include <assert.h>

static size_t limit_of(const struct budget *b, enum budget_line line)
{
	return b->max ? b->max / BUDGET_ALL * line : SIZE_MAX;
}

bool budget_has_room(const struct budget *b, size_t n, enum budget_line line)
{
	size_t limit = limit_of(b, line);
	return n <= limit && budget_used(b) <= limit - n;
}

bool budget_take(struct budget *b, size_t n, enum budget_line line)
{
	if (!b || !n)
		return true;
	size_t limit = limit_of(b, line);
	size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
	do {
		if (n > limit || used > limit - n)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&b->used, &used, used + n, memory_order_relaxed, memory_order_relaxed));
	return true;
}

void budget_give(struct budget *b, size_t n)
{
	if (!b || !n)
		return;
	size_t was = atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
	assert(was >= n);
	(void)was;
}
