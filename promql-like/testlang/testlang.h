/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of language tests: Prometheus's format (load, clear, eval, expect), and a text form of profiles beside
 * it (docs in testlang.c). Tests that need native histograms or experimental syntax are skipped and counted, with the reason, unless
 * no_skip. */
#ifndef PYRRHA_PROMQL_TESTLANG_H
#define PYRRHA_PROMQL_TESTLANG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/thread.h"

struct testlang_options {
	bool no_skip;
	bool verbose;       /* passed cases are listed too */
	struct pool *pool;  /* borrowed; NULL = one thread */
};

struct testlang_report {
	size_t passed, failed, skipped; /* eval commands */
	struct {
		const char *text; /* a literal */
		size_t n;
	} reasons[8];       /* why what was skipped was */
	size_t n_reasons;
	struct buf log;     /* a paragraph per failure; if verbose, a line for what passed or was skipped */
};

/* Adds to the report (zero-initialised; free its log). An error only if the file's own syntax is wrong. */
int testlang_run_file(const char *path, const struct testlang_options *o, struct testlang_report *r, struct err *e) MUST_USE;

#endif
