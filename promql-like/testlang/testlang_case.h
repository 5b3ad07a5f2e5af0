/* SPDX-License-Identifier: Apache-2.0 */
/* The eval command of language tests (testlang.c has the format): read in testlang_case.c, its answer held against what is
 * expected in testlang_check.c. Private to them and to testlang.c, which has the other commands. */
#ifndef PYRRHA_PROMQL_TESTLANG_CASE_H
#define PYRRHA_PROMQL_TESTLANG_CASE_H

#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "promql-like/testlang/testlang.h"
#include "promql-like/testlang/testlang_data.h"

struct lines {
	VEC(struct view) l;
};

struct expectation {
	char kind[16];         /* fail warn info no_warn no_info ordered string range */
	struct view text;
	bool regex, any;       /* any: no text given */
	int64_t from, to, step;
};

struct eval_case {
	enum { CASE_INSTANT, CASE_RANGE, CASE_STACKS } kind;
	struct view query;
	int64_t at, to, step;
	bool fails, warns, infos, ordered;
	VEC(struct expectation) expects;
	struct lines body;
	size_t line;           /* of the command, from 1 */
};

/* A series that is not ours to hold. */
struct beyond {
	struct labels labels;
	const char *why;
};

struct runner {
	const struct testlang_options *o;
	struct testlang_report *r;
	struct view name;
	struct lines lines;
	size_t at;
	struct arena arena;
	struct memsource *mem;
	struct promql_engine *engine;
	VEC(struct beyond) beyond;
	struct err *e;
};

/* ---- testlang_lines.c ---- */

/* Sets *r->e to what is wrong in that line, from 1. */
int testlang_bad_file(struct runner *r, size_t line, const char *what);
/* The next line of the block; false at its end. */
bool testlang_next(struct runner *r, struct view *ret);

/* ---- testlang_case.c ---- */

/* Reads an eval command and its block, runs it and counts it in the report. first: the command's word, rest: of its line. An
 * error only if the file is wrong. */
int testlang_case_run(struct runner *r, struct view first, struct view rest);

/* ---- testlang_check.c ---- */

/* Whether the answer is what is expected; if not, why is in the report's log. */
bool testlang_check(struct runner *r, const struct eval_case *c, const struct promql_result *got);
/* The same of an error. */
bool testlang_check_failure(struct runner *r, const struct eval_case *c, const struct err *e);
/* Writes a failure into the log, with what came. Returns false. */
bool testlang_fail_with(struct runner *r, const struct eval_case *c, const char *what, const struct promql_result *got);
/* Equal as Prometheus's tests compare: to one in a million. */
bool testlang_nearly(double a, double b);

#endif
