/* SPDX-License-Identifier: Apache-2.0 */
/* focus, ignore and where. */
#ifndef PYRRHA_PROMQL_STACK_FILTER_H
#define PYRRHA_PROMQL_STACK_FILTER_H

#include "model/stackvec.h"
#include "promql-like/stacks/frames.h"

struct stack_filter {
	struct frames frames;      /* of focus and ignore; of where: sample labels, or none and a key and a range */
	struct view key, range;
	/* Whether samples of that column stay, unless frames_failed; m is for c->frames and the column's dictionary. Any thread, each its memo. */
	bool (*keeps)(const struct stack_filter *c, struct frames_memo *m, uint32_t column);
};

/* Whether it is a call of one of them. */
bool stack_filter_is_call(const struct node *n);
/* Borrows from n. On failure there is nothing to release. */
int stack_filter_init(struct stack_filter *ret, struct eval *q, const struct node *n, struct err *e) MUST_USE;
void stack_filter_release(struct stack_filter *c);
/* The kept part of a vector. Returns owned; NULL after an error of a match. */
struct stackvec *stack_filter_run(const struct stack_filter *c, const struct stackvec *v, struct err *e);
/* The value of a sample label; tmp holds a number's. */
struct view sample_label_text(const struct symbols *s, const struct sym_label *l, char tmp[32]);

#endif
