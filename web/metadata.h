/* SPDX-License-Identifier: Apache-2.0 */
/* The content of `metadata`: for each name the different types, units and helps, each once. */
#ifndef PYRRHA_WEB_METADATA_H
#define PYRRHA_WEB_METADATA_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/status.h"
#include "web/answer.h"

struct metadata_row {
	struct view name, type, unit, help;
};

struct metadata_set {
	struct arena texts;
	struct map index;
	VEC(struct metadata_row) v;
	size_t most;              /* bytes of all of the above */
	bool full;                /* there was no room for all */
	struct answer_rows *rows;
};

/* rows: the answer that the set is written into, for which answer_rows_begin was called; borrowed. */
void metadata_init(struct metadata_set *m, const struct web *w, struct answer_rows *rows);
void metadata_release(struct metadata_set *m);
/* Copies; false: there is no room for more. */
bool metadata_add(struct metadata_set *m, struct view name, struct view type, struct view unit, struct view help);
/* The targets' metadata; metric: only of this name, empty = all. targets may be NULL. */
void metadata_add_targets(struct metadata_set *m, struct status_targets *targets, struct view metric);
/* Into the answer: {"name":[{"type","unit","help"}]}, at most `limit` names and `per_name` of each; 0 = all. Sorts. */
void metadata_write(struct metadata_set *m, size_t limit, size_t per_name);

#endif
