/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions with RE2's syntax and meaning on PCRE2. The pattern is checked against RE2's grammar and
 * translated (no back-references, look-around, atomic groups or recursion; \s, \v, $ and others as in RE2). It
 * is compiled once, with JIT where available, and matched with a limit. So a bad pattern causes an error
 * instead of using a CPU for ever. A compiled regex may be used by several threads at once. */
#ifndef PYRRHA_BASE_REGEX_H
#define PYRRHA_BASE_REGEX_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"

struct regex;

/* The cost limit of all matches of a query, by all its threads. Looked at every 64 matches of a thread, and after one
 * that was seen to take a millisecond. A single match takes some 20 ms at most. */
struct regex_meter {
	int64_t deadline_mono_ns;    /* 0 = none */
	const atomic_bool *canceled; /* NULL = cannot be */
	int64_t max_ns;              /* of CPU time; 0 = no bound */
	const char *max_name;        /* what to say of max_ns, "5 s of a query" */
	atomic_llong spent_ns;       /* CPU time */
};
/* For one query, by all its threads. A million names take half a second. */
#define REGEX_QUERY_NS 10000000000LL
#define REGEX_QUERY_NAME "10 s of a query"

#define REGEX_MAX_GROUPS 100

/* anchored: as ^(?s:PATTERN)$, which is what Prometheus's matchers and relabelling mean; else a search. The
 * error names the position in the pattern. */
int regex_new(struct regex **ret, struct view pattern, bool anchored, struct err *e) MUST_USE;
struct regex *regex_ref(struct regex *re);
void regex_unref(struct regex *re);
/* The pattern as given. */
struct view regex_pattern(const struct regex *re);
/* 1: match, 0: no match; ERR_LIMIT: the match took too many steps, or all matches of the meter too long; ERR_TIMEOUT, ERR_CANCELED
 * of the meter, which may be NULL. An error is no answer: whoever takes it for "no match" answers falsely. */
int regex_match(const struct regex *re, struct view subject, struct regex_meter *meter, struct err *e) MUST_USE;
/* As regex_match, and appends `template` with $1, ${1}, ${name}, $$ expanded as Go's Regexp.Expand; ends early when
 * out overflows, which is for the caller to ask. */
int regex_expand(const struct regex *re, struct view subject, struct view template, struct buf *out, struct regex_meter *meter,
		 struct err *e) MUST_USE;
/* Appends the subject with each match replaced by `template`, expanded as by regex_expand: Go's ReplaceAllString. Ends early when
 * out overflows. 0; errors as regex_match. */
int regex_replace_all(const struct regex *re, struct view subject, struct view template, struct buf *out, struct regex_meter *meter,
		      struct err *e) MUST_USE;
/* If the whole pattern is a literal, or an alternation of literals (anchored only), returns their number, and sets
 * each through get; 0 otherwise. Lets matchers use a look-up instead. */
size_t regex_literals(const struct regex *re);
struct view regex_literal(const struct regex *re, size_t i);

#endif
