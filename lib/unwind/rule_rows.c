/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/rule_rows.h"

#include <string.h>

int rule_rows_end(struct rule_rows *w)
{
	if (!w->pending)
		return 0;
	w->pending = false;
	if (w->have_last && memcmp(&w->last, &w->rule, sizeof w->last) == 0)
		return 0;
	w->have_last = true;
	w->last = w->rule;
	w->st->rows++;
	w->st->unsupported += w->rule.cfa == CFA_UNSUPPORTED;
	w->st->unknown_fp += w->rule.fp == FP_UNKNOWN;
	return w->fn(w->arg, w->pc, &w->rule);
}

int rule_rows_put(struct rule_rows *w, uint64_t pc, struct unwind_rule r)
{
	int ret = w->pending && w->pc == pc ? 0 : rule_rows_end(w);

	if (ret)
		return ret;
	w->pending = true;
	w->pc = pc;
	w->rule = r;
	return 0;
}
