/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: the rows of an unwind table, one after the other, in memory. */
#ifndef PYRRHA_AGENT_EH_FRAME_ROWS_H
#define PYRRHA_AGENT_EH_FRAME_ROWS_H

#include "base/vec.h"
#include "unwind/eh_frame.h"

struct eh_row {
	uint64_t pc;
	struct unwind_rule rule;
};

struct eh_rows {
	VEC(struct eh_row) v;
};

/* Takes what eh_frame.h calls with each row (arg: struct eh_rows); fails the test unless they ascend. */
static inline int keep_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct eh_rows *rows = arg;
	assert_true(rows->v.n == 0 || rows->v.v[rows->v.n - 1].pc < pc);
	vec_push(&rows->v, (struct eh_row){ pc, *r });
	return 0;
}

/* The rule of the last row at or below pc; NULL if all rows are above it. */
static inline const struct unwind_rule *rule_of(const struct eh_rows *rows, uint64_t pc)
{
	size_t lo = 0, hi = rows->v.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (rows->v.v[mid].pc <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &rows->v.v[lo - 1].rule : NULL;
}

#endif
