/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one expansion. */
#ifndef PYRRHA_RULES_TEMPLATE_EXEC_H
#define PYRRHA_RULES_TEMPLATE_EXEC_H

#include "base/regex.h"
#include "base/vec.h"
#include "rules/template/template_func.h"
#include "rules/template/template_node.h"

#define TEXEC_REGEXES 16
#define TEXEC_CHECK_STEPS 1024 /* between two looks at the clock */

struct tvar {
	struct view name; /* with its $ */
	struct tvalue value;
};

struct texec {
	const struct template *t;
	const struct template_env *env;
	struct arena arena;          /* of all values */
	struct buf *out;
	VEC(struct tvar) vars;
	size_t scope;                /* the first of the definition that runs */
	const struct tdef *def;
	const struct tnode *node;    /* that is evaluated: for errors */
	unsigned depth, queries;
	uint64_t steps, max_steps, check_at; /* check_at: when clock and limits are looked at next */
	int64_t deadline_mono_ns;
	struct regex *regexes[TEXEC_REGEXES];
	unsigned n_regexes;
	struct regex_meter meter;
	struct err call_err;         /* of the function that is called */
	struct err *e;
};

int texec_run(struct texec *x);

#endif
