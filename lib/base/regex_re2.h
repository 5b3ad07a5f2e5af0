/* SPDX-License-Identifier: Apache-2.0 */
/* RE2's syntax (as Go's regexp has it) into PCRE2's: for regex.c. */
#ifndef PYRRHA_BASE_REGEX_RE2_H
#define PYRRHA_BASE_REGEX_RE2_H

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct re2_name {
	struct view name; /* in the pattern */
	uint32_t group;
};

struct re2 {
	struct buf out;   /* the same in PCRE2's syntax, without flags that matter from outside; groups are unnamed */
	VEC(struct re2_name) names;
	uint32_t groups;
};

/* dot_all: `.` matches newlines from the start. ret is released with re2_release, also after an error. */
int re2_translate(struct re2 *ret, struct view pattern, bool dot_all, struct err *e) MUST_USE;
void re2_release(struct re2 *r);

/* The literals that the pattern is an alternation of ("a|b\.c", "(?:a|b)", "a"), unescaped into *text, sorted, each
 * once; false if it is anything else. */
struct re2_literals {
	char *text;
	VEC(struct view) v;
};
bool re2_literals(struct view pattern, struct re2_literals *ret);

#endif
