/* SPDX-License-Identifier: Apache-2.0 */
/* The points of one series that a view gives for rates (source.h), as they are collected: of the head, of columns of parts, and of hours of which only the sum
 * and the first and last profile are known (part_ends.h). Such hours become runs, also across their borders:
 *
 *	      hour                hour                hour            ┊ edge
 *	──┊═╤═══════════════╤═╪═╤═══════════╤═╪═╤═══════════════╤═════┊──
 *	    └ cut: a point  └────── one run ──────────────────┘  └ newest at the edge: a point
 *
 * Each list of rows in order of time decides for itself: the newest profile at an edge is the last of one of them. */
#ifndef PYRRHA_TSDB_POINT_LIST_H
#define PYRRHA_TSDB_POINT_LIST_H

#include "base/vec.h"
#include "model/source.h"

struct point_list {
	const struct source_windows *windows; /* NULL: no runs */
	VEC(struct source_point) v;  /* markers are in it, too, with a cover of 0 */
	uint64_t size;               /* sum of |total|, at most SOURCE_POINTS_MOST */
	bool plain;                  /* all so far are (source.h) */
	bool has_runs, has_markers;
	struct source_point run;     /* what has not been added to v yet: the run, if ahead is above 0, */
	struct source_point last;    /* and the profile behind it, if its cover is not 0 */
};

/* What is known of the profiles of an hour: three or more, or one or two without others. */
struct point_hour {
	struct source_point first, last; /* the same profile if there is one */
	uint32_t n;                  /* of all */
	int64_t total;               /* of the others */
	int64_t others_after_ms;     /* where the others and the last one begin at the soonest */
	bool has_marker;             /* behind the last one: */
	int64_t marker_ms;           /* its stamp */
};

static inline void point_list_count(struct point_list *l, int64_t total)
{
	uint64_t size = total < 0 ? 0 - (uint64_t)total : (uint64_t)total;
	l->size = MIN(l->size + (size & (SOURCE_POINTS_MOST - 1)), SOURCE_POINTS_MOST);
	l->plain &= size < SOURCE_POINTS_MOST;
}
/* Adds a profile as a point of its own. */
static inline void point_list_add(struct point_list *l, struct source_point p)
{
	point_list_count(l, p.total);
	vec_push(&l->v, p);
}
static inline void point_list_add_marker(struct point_list *l, int64_t t_ms)
{
	l->has_markers = true;
	vec_push(&l->v, (struct source_point){ .t_ms = t_ms });
}
/* Whether the windows of the list need no stamp of the hour other than its first and its last. */
bool point_list_can_join(const struct point_list *l, const struct point_hour *h);
/* Adds such an hour. Those of one list of rows come in order of time. */
void point_list_join(struct point_list *l, const struct point_hour *h);
/* Adds what was not added yet: at the end of each list of rows. */
void point_list_flush(struct point_list *l);
void point_list_reset(struct point_list *l);
void point_list_release(struct point_list *l);
/* The points in order of time, markers left out; l is empty then. */
void point_list_finish(struct point_list *l, struct source_points *ret);

#endif
