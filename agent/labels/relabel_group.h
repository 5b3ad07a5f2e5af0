/* SPDX-License-Identifier: Apache-2.0 */
/* What relabelling rules decide about all processes of a container at once: whether they are all dropped (then the
 * kernel need not sample them), and which labels they all get (then the container can be a target of its own). */
#ifndef PYRRHA_AGENT_RELABEL_GROUP_H
#define PYRRHA_AGENT_RELABEL_GROUP_H

#include "model/relabel.h"

/* b holds the labels that all processes share; `own` are the names of those that differ, ended by NULL. Applies what
 * can be: a rule that looks at a label that differs, or at what came of one, is passed over, and what it would set is
 * not known from there on. Returns 0 if every process is dropped, 1 if not (b: the labels that all of them get, as far
 * as known), negative on an error of a rule. */
int relabel_group(const struct relabel_rule *rules, size_t n, const char *const *own, struct labels_builder *b,
		  struct arena *a, struct err *e) MUST_USE;

#endif
