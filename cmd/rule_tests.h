/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of rules, in promtool's files: rule files, series, and what alerts and expressions have to come of them. Each test
 * has a storage in memory of its own; every group is evaluated each evaluation_interval. */
#ifndef PYRRHA_CMD_RULE_TESTS_H
#define PYRRHA_CMD_RULE_TESTS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/regex.h"

struct rule_tests_how {
	const struct regex *run;    /* only tests whose name it finds; NULL = all */
	bool ignore_unknown_fields; /* of the rule files */
	struct view rules;          /* instead of the rule files; ptr NULL: those */
	int64_t max_evaluations;    /* of a test (10,000,000) */
	size_t max_values;          /* of the series of a test (50,000,000) */
	/* What is wrong, a text of one or more lines. */
	void (*problem)(void *arg, const char *text);
	/* A test begins; name is "unnamed#1" where it has none. */
	void (*test)(void *arg, const char *name);
	void (*warn)(void *arg, const char *text);
	void *arg;
};

/* How many problems there were, which how->problem was told. */
size_t rule_tests_run(const char *path, const struct rule_tests_how *how);
/* The same of a file that is in memory already; name is its path. */
size_t rule_tests_run_text(struct view text, const char *name, const struct rule_tests_how *how);

#endif
