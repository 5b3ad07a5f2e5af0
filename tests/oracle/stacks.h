/* SPDX-License-Identifier: Apache-2.0 */
/* Two profiles compared as text: a line per stack with its labels, sorted; equal lines add up, lines of zeros count for
 * nothing. What google/pprof gets wrong is left out of the lines (see merge_test.c). */
#ifndef PYRRHA_TESTS_ORACLE_STACKS_H
#define PYRRHA_TESTS_ORACLE_STACKS_H

#include "model/profile.h"

/* Where they differ, in words; NULL if nowhere. Returns owned. */
char *stacks_difference(const struct profile *ours, const struct profile *theirs);

/* Fails the running test (for files that have included cmocka). */
#define assert_same_stacks(what, ours, theirs) do { \
	char *why_ = stacks_difference(ours, theirs); \
	if (why_) \
		fail_msg("%s: %s", what, why_); \
} while (0)

#endif
