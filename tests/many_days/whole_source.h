/* SPDX-License-Identifier: Apache-2.0 */
/* A storage whose every answer is made of whole stacks: the reference for answers by names. It is a source above the storage's that asks for nothing but merges
 * of whole stacks. The storage's own calls for filters and for single values join days by names, so they are not used: a
 * filter is evaluated for each stack of a sum, and the values of a profile are a sum of this profile alone. */
#ifndef PYRRHA_TESTS_WHOLE_SOURCE_H
#define PYRRHA_TESTS_WHOLE_SOURCE_H

#include "model/source.h"

struct whole_source {
	struct source base;
	struct source *of;             /* the storage's; borrowed */
	const struct source_ops *real; /* the storage's */
	struct source_ops ops;
	unsigned merges;               /* that were asked with names only: none is expected of queries that need addresses */
};

void whole_source_init(struct whole_source *w, struct source *of);

#endif
