/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions with RE2's syntax and meaning on PCRE2. The pattern is checked against RE2's grammar
 * and translated (no back-references, look-around, atomic groups or recursion; \s, \v, $ and friends mean what
 * RE2 says), compiled once, JIT where there is one, and matched with a limit, so that a bad pattern costs an
 * error and not a core. A compiled regex may be used by several threads at once. */
#ifndef PYRRHA_BASE_REGEX_H
#define PYRRHA_BASE_REGEX_H

#include "base/buf.h"
#include "base/err.h"

struct regex;

#define REGEX_MAX_GROUPS 100

/* anchored: as ^(?s:PATTERN)$, which is what Prometheus's matchers and relabelling mean; else a search. The
 * error names the position in the pattern. */
int regex_new(struct regex **ret, struct view pattern, bool anchored, struct err *e);
struct regex *regex_ref(struct regex *re);
void regex_unref(struct regex *re);
/* The pattern as given. */
struct view regex_pattern(const struct regex *re);
/* 1 match, 0 none, negative: the match limit was hit. */
int regex_match(const struct regex *re, struct view subject, struct err *e);
/* As regex_match, and appends `template` with $1, ${1}, ${name}, $$ expanded as Go's Regexp.Expand. */
int regex_expand(const struct regex *re, struct view subject, struct view template, struct buf *out, struct err *e);
/* If the whole pattern is a literal, or an alternation of literals (anchored only), their number, and each through
 * get; 0 otherwise. Lets matchers use a look-up instead. */
size_t regex_literals(const struct regex *re);
struct view regex_literal(const struct regex *re, size_t i);

#endif
