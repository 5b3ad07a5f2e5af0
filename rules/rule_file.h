/* SPDX-License-Identifier: Apache-2.0 */
/* One rule file into groups. Nothing stops at the first problem: all that a file has wrong is told at once. */
#ifndef PYRRHA_RULES_RULE_FILE_H
#define PYRRHA_RULES_RULE_FILE_H

#include "base/vec.h"
#include "config/config_top.h"
#include "rules/rules.h"

/* What several files are read into. */
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

/* What a rule has beside the arena; who takes it out of its group has to. */
void rule_release(const struct rule *r);

#endif
