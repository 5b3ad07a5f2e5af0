/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the language tests' format; for testlang.c. */
#ifndef PYRRHA_PROMQL_TESTLANG_DATA_H
#define PYRRHA_PROMQL_TESTLANG_DATA_H

#include "model/labels.h"
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
/* The next blank-separated word; empty at the end. */
struct view testlang_word(struct view *line);
/* root;leaf 5 {thread="a"} | other 3: NULL and *error if it is not that. */
struct stackvec *testlang_stacks(struct arena *a, struct symbols *s, struct view text, const char **error);

#endif
