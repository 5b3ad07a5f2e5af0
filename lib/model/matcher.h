/* SPDX-License-Identifier: Apache-2.0 */
/* Label matchers, the parts of a selector: = != =~ !~. An absent label is the empty string. */
#ifndef PYRRHA_MODEL_MATCHER_H
#define PYRRHA_MODEL_MATCHER_H

#include "base/regex.h"
#include "model/labels.h"

enum matcher_op { MATCH_EQ, MATCH_NE, MATCH_RE, MATCH_NRE };

struct matcher {
	enum matcher_op op;
	struct view name, value;
	struct regex *re; /* MATCH_RE, MATCH_NRE: anchored; owned reference */
};

/* Compiles the expression where there is one; name and value are borrowed. */
int matcher_init(struct matcher *m, enum matcher_op op, struct view name, struct view value, struct err *e) MUST_USE;
void matcher_release(struct matcher *m);
/* 1 or 0; negative as regex_match. meter: of all matches, or NULL. */
int matcher_matches(const struct matcher *m, struct view value, struct regex_meter *meter, struct err *e) MUST_USE;
/* All of them on one label set. */
int matchers_match(const struct matcher *m, size_t n, struct labels l, struct regex_meter *meter, struct err *e) MUST_USE;
const char *matcher_op_text(enum matcher_op op);

#endif
