/* SPDX-License-Identifier: Apache-2.0 */
/* What long work on an answer asks whoever wants the answer: every few thousand steps whether it should go on, and for memory before the
 * memory is allocated. The folding of stacks and the writers of formats ask; only their callers know deadlines, clients and budgets. */
#ifndef PYRRHA_BASE_PERMIT_H
#define PYRRHA_BASE_PERMIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct permit {
	/* An error ends the work: its time is over, or nobody wants the answer any more. NULL: it always goes on. */
	int (*go_on)(void *arg, struct err *e);
	/* So many bytes more, held until the whole answer is made. May wait. An error ends the work. NULL: there is no limit. */
	int (*need)(void *arg, uint64_t bytes, struct err *e);
	void *arg;
	uint64_t text; /* bytes of the answer's text that are in memory at a time, if go_on is asked often; 0: all of it */
};

#define PERMIT_STEPS 4096 /* cheap steps between two questions whether to go on; a power of two */

/* p may be NULL: everything is allowed. */
MUST_USE static inline int permit_go_on(const struct permit *p, struct err *e)
{
	return p && p->go_on ? p->go_on(p->arg, e) : 0;
}

/* The same for step i of a loop: asks only at every PERMIT_STEPSth. */
MUST_USE static inline int permit_step(const struct permit *p, size_t i, struct err *e)
{
	return i % PERMIT_STEPS == PERMIT_STEPS - 1 ? permit_go_on(p, e) : 0;
}

MUST_USE static inline int permit_need(const struct permit *p, uint64_t bytes, struct err *e)
{
	return p && p->need ? p->need(p->arg, bytes, e) : 0;
}

#define PERMIT_TEXT ((size_t)256 << 10) /* bytes of text between two questions whether to go on: text leaves memory only when a permit is asked */

/* The same for step i of a loop that writes text, of which `len` bytes are in memory. A step may write a long name or a deep stack, so the bytes count,
 * too. */
MUST_USE static inline int permit_text_step(const struct permit *p, size_t i, size_t len, struct err *e)
{
	return i % PERMIT_STEPS == PERMIT_STEPS - 1 || len >= PERMIT_TEXT ? permit_go_on(p, e) : 0;
}

/* How much of a text of so many bytes is in memory at a time. */
static inline uint64_t permit_text(const struct permit *p, uint64_t bytes)
{
	return p && p->text && p->text < bytes ? p->text : bytes;
}

#endif
