/* SPDX-License-Identifier: Apache-2.0 */
/* Go's own table as unwind rules. Its code has frame pointers, except for leaf functions (memmove, and other small ones). With frame
 * pointers alone, the caller of such a function would be skipped. For every pc the table says how far the stack pointer is from where
 * the function began. */
#ifndef PYRRHA_AGENT_GO_FRAME_H
#define PYRRHA_AGENT_GO_FRAME_H

#include "agent/go/gopclntab.h"
#include "unwind/eh_frame.h"

/* The addresses that Go's code takes up; false if it is not known for sure where it begins. */
bool go_frame_text(const struct gopclntab *t, uint64_t *ret_start, uint64_t *ret_end);
/* Rows as eh_frame_range has them, of the Go code in [lo, hi). CFA_NONE for what changes stacks itself: frame pointers lead
 * on there. More functions than fit into the text are ERR_BAD_DATA; a nonzero return of fn is returned unchanged. */
int go_frame_range(const struct gopclntab *t, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg, struct eh_stats *st);

#endif
