/* SPDX-License-Identifier: Apache-2.0 */
/* A selector alone, {a="b", c=~"d"} or <a="b">, with a name in front or quoted inside, for those who have no query
 * engine: the agent's match[]. The language proper is promql-like/'s. */
#ifndef PYRRHA_MODEL_SELECTOR_H
#define PYRRHA_MODEL_SELECTOR_H

#include "model/matcher.h"

struct selector {
	VEC(struct matcher) m;
	struct arena arena; /* holds names and values */
};

/* ret is released with selector_release also after an error. Errors say at which byte. */
int selector_parse(struct selector *ret, struct view text, struct err *e) MUST_USE;
void selector_release(struct selector *s);

#endif
