/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of relabelling rules about all processes of a container at once: whether they are all dropped (then the kernel need
 * not sample them), and the labels that they all get (then the container can be a target of its own). */
#ifndef PYRRHA_AGENT_RELABEL_GROUP_H
#define PYRRHA_AGENT_RELABEL_GROUP_H

#include "model/relabel.h"

/* b holds the labels that all processes share; `own` are the names of the differing ones, ended by NULL. Applies rules as far as
 * possible. A rule that uses a label that differs, or one derived from it, is skipped, and the labels it would set are unknown from
 * there on. Returns 0 if every process is dropped, 1 if not (b: the labels that all of them get, as far as known), negative on an
 * error of a rule. */
int relabel_group(const struct relabel_rule *rules, size_t n, const char *const *own, struct labels_builder *b,
		  struct arena *a, struct err *e) MUST_USE;

#endif
