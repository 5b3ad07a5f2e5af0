/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of unwind rules in the output: of two at the same address the later one counts, and one that equals the previous row is left
 * out. */
#ifndef PYRRHA_UNWIND_RULE_ROWS_H
#define PYRRHA_UNWIND_RULE_ROWS_H

#include "unwind/eh_frame.h"

struct rule_rows {
	eh_row_fn *fn;
	void *arg;
	struct eh_stats *st;         /* rows, unsupported and unknown_fp are counted here */
	/* The row not handed out yet: the next may be at the same address or say the same. */
	bool pending, have_last;
	uint64_t pc;
	struct unwind_rule rule, last;
};

/* From pc on, which is not below that of the row before, r holds. Returns what fn returned, 0 if it was not called. */
int rule_rows_put(struct rule_rows *w, uint64_t pc, struct unwind_rule r);
/* Hands out the last row. */
int rule_rows_end(struct rule_rows *w);

#endif
