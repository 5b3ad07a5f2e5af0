/* SPDX-License-Identifier: Apache-2.0 */
/* --config.expand-env: ${NAME} of the environment in the values of a tree.
 *
 *	${NAME}     the variable; NAME is [A-Za-z_][A-Za-z0-9_]*. One that is not set is an error, one that is empty is not
 *	$${NAME}    the text ${NAME}: directly before {NAME}, two dollar signs are one
 *	$$${NAME}   a dollar sign and the variable
 *	$1 ${1} $NAME $$ ${ ${a-b}   stay as they are, so relabelling's groups do
 *
 * A variable's value is not expanded again, and stays one value: "seconds: ${N}" can be a number, but not a list and not an empty
 * value. Keys are never expanded. global.external_labels is left out: it has Prometheus's own expansion.
 *
 * Relabelling: ${NAME} in replacement or target_label is ambiguous if regex has a group and the environment a variable of that name.
 * That is an error; $${NAME}, or $NAME, is the group. */
#ifndef PYRRHA_CONFIG_CONFIG_EXPAND_H
#define PYRRHA_CONFIG_CONFIG_EXPAND_H

#include "config/config.h"

/* The tree below root with its values expanded, in the arena; what has no variables is shared with root's. Scalars that
 * had some keep what was written in `raw`. The error has file, line and column. */
int config_expand(struct arena *a, const struct config_node *root, const struct config_node **ret, struct err *e) MUST_USE;
/* Whether the text has ${name}, unless it is written $${name}. */
bool config_expands_name(struct view text, struct view name);

#endif
