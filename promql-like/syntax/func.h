/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the language: one row each, in func_rows.h. Their code is in funcs.h. */
#ifndef PYRRHA_PROMQL_FUNC_H
#define PYRRHA_PROMQL_FUNC_H

#include "promql-like/syntax/ast.h"

/* How a function is run. */
enum func_form {
	FUNC_CALL,    /* call: evaluates its arguments itself */
	FUNC_MAP,     /* map: one number to one number, element by element */
	FUNC_WINDOW,  /* window: the points of a range to one number, series by series */
	FUNC_TIME,    /* map on the time in seconds; without an argument on time() */
	FUNC_PROFILE, /* call, and takes or gives profiles */
	FUNC_FRAMES,  /* makes an F; not evaluated */
	FUNC_REFUSED  /* known to Prometheus, not ours: help says why */
};

struct func {
	const char *name;
	/* One letter per argument: s scalar, S string, v instant vector, m range vector, f frame matcher or string,
	 * r frame matcher or granularity, g granularity, w sample labels or string, l label matchers in braces; ? the rest is optional,
	 * * the last repeats, - the next one is optional, present ones in order. */
	const char *args;
	enum promql_type ret;
	enum func_form form;
	unsigned flags;
	const char *signature, *doc;
};
enum {
	FUNC_KEEPS_NAME = 1,     /* the output keeps __name__ */
	FUNC_EXPERIMENTAL = 2,
	FUNC_WORK = 8,
	FUNC_SWITCHED = 16,      /* not there unless PROMQL_EXPERIMENTAL is turned on */
	FUNC_PROFILES = 4        /* a window function that has a meaning of its own for profiles (profile_window) */
};

extern const struct func func_table[];
const struct func *func_lookup(struct view name);
/* The letter for argument i of n, 0 if there is no such argument; the least and greatest number (-1 = no end). */
char func_arg(const struct func *f, size_t n, size_t i);
/* self, total, share and so on: numbers out of stacks. */
bool func_is_readout(const struct func *f);
void func_arity(const struct func *f, int *ret_min, int *ret_max);
/* The example of a function or aggregation, "" if there is none. */
const char *promql_example(const char *name);

#endif
