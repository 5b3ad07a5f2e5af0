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

static bool take_of_all(struct budget *b, size_t n, enum budget_line line)
{
	size_t limit = limit_of(b, line);
	size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
	do {
		if (n > limit || used > limit - n)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&b->used, &used, used + n, memory_order_relaxed, memory_order_relaxed));
	return true;
}

static bool take_of_parent(struct budget *b, size_t n, enum budget_line line)
{
	if (!b->more)
		return budget_take(b->parent, n, line);
	return budget_take(b->parent, n, line < BUDGET_LARGE ? line : BUDGET_LARGE) || b->more(b, n, line);
}

void budget_adopt(struct budget *part, size_t n)
{
	atomic_fetch_add_explicit(&part->used, n, memory_order_relaxed);
}

bool budget_take(struct budget *b, size_t n, enum budget_line line)
{
	if (!b || !n)
		return true;
	if (!b->parent)
		return take_of_all(b, n, line);
	if (!take_of_parent(b, n, line))
		return false;
	budget_adopt(b, n);
	return true;
}

void budget_give(struct budget *b, size_t n)
{
	for (; b && n; b = b->parent) {
		size_t was = atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
		assert(was >= n);
		(void)was;
	}
}

void budget_move(struct budget *from, struct budget *to, size_t n)
{
	for (struct budget *b = to; b; b = b->parent)
		budget_adopt(b, n);
	budget_give(from, n);
}
