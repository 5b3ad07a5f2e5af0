/* SPDX-License-Identifier: Apache-2.0 */
/* One rule file into groups. Nothing stops at the first problem: all that a file has wrong is told at once. */
#ifndef PYRRHA_RULES_RULE_FILE_H
#define PYRRHA_RULES_RULE_FILE_H

#include "base/vec.h"
#include "config/config_top.h"
#include "rules/rules.h"

/* The shared result of reading several files. */
struct rule_files {
	struct rules_config *config;   /* its arena has everything */
	const struct rules_how *how;
	VEC(struct rule_group) groups;
	const struct config_node *aliases; /* of the configuration; NULL = none */
	size_t n_files, n_problems;
	struct err first;              /* problem */
};

/* One file; problems are counted and told. */
void rule_file_read(struct rule_files *f, const struct config_tree *t, const char *file);
/* A problem: e's message has its place. */
void rule_file_problem(struct rule_files *f, const struct err *e);

/* The rule's memory outside the arena; code that removes a rule from its group must free it. */
void rule_release(const struct rule *r);

#endif
