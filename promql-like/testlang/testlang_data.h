/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the language tests' format; for testlang.c. */
#ifndef PYRRHA_PROMQL_TESTLANG_DATA_H
#define PYRRHA_PROMQL_TESTLANG_DATA_H

#include "model/labels.h"
#include "model/source.h"
#include "model/stackvec.h"
#include "model/value.h"

struct testlang_value {
	bool absent;
	double v;
};

struct testlang_values {
	VEC(struct testlang_value) v;
	bool histogram; /* holds native histograms: not parsed */
};

/* The series at the start of the line, which is moved past it. */
bool testlang_labels(struct arena *a, struct view *line, struct labels *ret, const char **error);
bool testlang_values(struct view line, struct testlang_values *out, const char **error);
/* Without the blanks at both ends. */
struct view testlang_trimmed(struct view v);
/* "1m", "-5", "1.5": ms. */
bool testlang_time(struct view v, int64_t *ret_ms);
/* The next blank-separated word; empty at the end. */
struct view testlang_word(struct view *line);
/* root;leaf 5 {thread="a"} | other 3: NULL and *error if it is not that. */
struct stackvec *testlang_stacks(struct arena *a, struct symbols *s, struct view text, const char **error);

/* ---- testlang_profiles.c: series of profiles ---- */

struct testlang_profiles {
	struct labels labels;
	struct ptype type;
	struct source_profile p; /* the options */
};
/* Profiles of one line. */
struct testlang_profile_line {
	int64_t first_ms, step_ms;
	size_t n;                /* at most 100,001 */
	struct stackvec *stacks; /* owned; NULL: stale */
};

/* SERIES [TYPE] [OPTION=VALUE ...]; an alias is replaced by its type. */
bool testlang_profile_series(struct arena *a, int64_t step_ms, struct view line, struct testlang_profiles *ret, const char **error);
/* INDEX: STACKS, FIRST..LAST: STACKS or @SECONDS: STACKS; instead of stacks `stale`. */
bool testlang_profile_line(struct arena *a, struct symbols *s, int64_t step_ms, struct view line, struct testlang_profile_line *ret,
			   const char **error);
/* The i-th of a line. */
struct source_profile testlang_profile_at(const struct testlang_profiles *s, const struct testlang_profile_line *l, size_t i);

#endif
