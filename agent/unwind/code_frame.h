/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for code without tables (musl, most assembly), from the code itself: how far rsp is below the frame at each instruction,
 * and where the caller's rbp is. That is no guess. At a function's start and at its return, the return address is at rsp; the
 * instructions between say how far rsp moves. Code whose paths disagree gets no rule. */
#ifndef PYRRHA_AGENT_CODE_FRAME_H
#define PYRRHA_AGENT_CODE_FRAME_H

#include "unwind/eh_frame.h"

/* Rows, ascending, for the part of [lo, hi) that is code in [from, to), of which nothing else tells. A nonzero return of fn is
 * returned unchanged. */
int code_frame_range(const struct elf_file *f, uint64_t from, uint64_t to, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg,
		     struct eh_stats *st);

#endif
