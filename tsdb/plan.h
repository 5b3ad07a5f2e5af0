/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts what a merge asks for into units: one series in one window of one partition. Private to merge.c and sums.c. */
#ifndef PYRRHA_TSDB_PLAN_H
#define PYRRHA_TSDB_PLAN_H

#include "tsdb/view.h"

struct unit {
	uint32_t group;
	uint32_t partition;  /* index in the version */
	uint32_t series;     /* id in it */
	double scale;
	int64_t after_ms, until_ms;
	struct window *window; /* of the version */
	struct part *part;     /* or: sealed */
};

struct plan {
	VEC(struct unit) units;
};

/* Units of all parts, sorted by group and partition (by_place: by place, series and time). */
int plan_make(struct tsdb_view *v, const struct source_part *parts, size_t n, size_t n_groups, bool by_place,
	      const struct source_limits *lim, struct plan *ret, struct err *e);
void plan_release(struct plan *p);

#endif
