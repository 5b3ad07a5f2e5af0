/* SPDX-License-Identifier: Apache-2.0 */
/* One ceiling over the memory of many holders, counted in bytes. A user of more memory asks first, and continues without
 * it if the answer is no. Each kind of use may fill the budget up to its own limit, so that small and short-lived uses
 * still have room when large or lasting ones have filled theirs. Thread-safe.
 *
 *	0            12/16    13/16    14/16         16/16
 *	|-------------|--------|--------|-------------|
 *	         large     kept    begins           all      what may take up to here */
#ifndef PYRRHA_BASE_BUDGET_H
#define PYRRHA_BASE_BUDGET_H

#include <stdatomic.h>

#include "base/attrs.h"

enum budget_line {
	BUDGET_LARGE = 12,  /* sixteenths: a holder that has much */
	BUDGET_KEPT = 13,   /* what stays for the time being */
	BUDGET_BEGIN = 14,  /* work that begins */
	BUDGET_ALL = 16     /* work that has begun, while it is small */
};

struct budget {
	size_t max;           /* bytes; 0 = no ceiling */
	atomic_size_t used;
};

/* Whether n more bytes would be within the line now. */
bool budget_has_room(const struct budget *b, size_t n, enum budget_line line);
/* False: n more bytes would pass the line; nothing was taken. A NULL budget has no ceiling. */
bool budget_take(struct budget *b, size_t n, enum budget_line line) MUST_USE;
void budget_give(struct budget *b, size_t n);
static inline size_t budget_used(const struct budget *b)
{
	return atomic_load_explicit(&b->used, memory_order_relaxed);
}

#endif
