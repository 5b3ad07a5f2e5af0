/* SPDX-License-Identifier: Apache-2.0 */
/* One ceiling over the memory of many holders, counted in bytes. A user of more memory asks first, and continues without
 * it if the answer is no. Each kind of use may fill the budget up to its own limit, so that small and short-lived uses
 * still have room when large or lasting ones have filled theirs. Thread-safe.
 *
 *	0            12/16    13/16    14/16         16/16
 *	|-------------|--------|--------|-------------|
 *	         large     kept    begins           all      what may take up to here
 *
 * A holder may have a budget of its own that is a part of another, the parent. Its bytes are counted in both, so that it is known who
 * holds how much. A part takes up to BUDGET_LARGE of its parent without a question. Beyond that its `more` decides: the owner of the
 * parent may refuse, or make room. */
#ifndef PYRRHA_BASE_BUDGET_H
#define PYRRHA_BASE_BUDGET_H

#include <stdatomic.h>

#include "base/attrs.h"

enum budget_line {
	BUDGET_LARGE = 12,  /* sixteenths: a holder that has much; of a part of a budget: without a question */
	BUDGET_KEPT = 13,   /* what stays for the time being */
	BUDGET_BEGIN = 14,  /* work that begins */
	BUDGET_ALL = 16     /* work that has begun, while it is small */
};

struct budget {
	size_t max;           /* bytes; 0 = no ceiling */
	atomic_size_t used;
	struct budget *parent; /* borrowed: what is taken here is taken of it, too. NULL: it is no part, and max is its ceiling */
	/* Of a part, NULL = the parent decides: whether n bytes could be taken of the parent after all, at most up to the line. */
	bool (*more)(struct budget *part, size_t n, enum budget_line line);
};

/* Whether n more bytes would be within the line now. */
bool budget_has_room(const struct budget *b, size_t n, enum budget_line line);
/* False: n more bytes would pass the line; nothing was taken. A NULL budget has no ceiling. */
bool budget_take(struct budget *b, size_t n, enum budget_line line) MUST_USE;
void budget_give(struct budget *b, size_t n);
/* n bytes of its parent's were taken for a part: they count there, too. */
void budget_adopt(struct budget *part, size_t n);
/* n bytes of one budget are another's from now on. Not refused. */
void budget_move(struct budget *from, struct budget *to, size_t n);
static inline size_t budget_used(const struct budget *b)
{
	return atomic_load_explicit(&b->used, memory_order_relaxed);
}

#endif
