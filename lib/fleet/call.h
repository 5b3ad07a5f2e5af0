/* SPDX-License-Identifier: Apache-2.0 */
/* A call of the seam out of storage (model/source.h) as data: what is asked, and what it came to. So a call can be sent to another server (wire.h), be run
 * on a view there, and several servers can be asked at once (peer.h).
 *
 *	union ─► fleet_call ─► wire ─► HTTP ─► wire ─► fleet_call_run on a view of the storage
 *	         fleet_result ◄─ wire ◄─ HTTP ◄─ wire ◄─ fleet_result                                                             */
#ifndef PYRRHA_FLEET_CALL_H
#define PYRRHA_FLEET_CALL_H

#include "base/arena.h"
#include "fleet/question_memory.h"
#include "model/source.h"

/* The numbers are part of the protocol (docs/format/source.md). */
enum fleet_op {
	FLEET_OPEN = 1,      /* nothing: who the server is */
	FLEET_SELECT, FLEET_TYPES, FLEET_LABEL_NAMES, FLEET_LABEL_VALUES,
	FLEET_FLOATS, FLEET_PROFILES, FLEET_POINTS, FLEET_COVERS,
	FLEET_MERGE, FLEET_SUMS, FLEET_SHARES, FLEET_MATCHES,
	FLEET_CLOSE,         /* the view is not needed any more */
	FLEET_ROWS,
	FLEET_OPS
};

/* The question. Arrays are borrowed; a decoded call has them in its arena. A call has the fields that its source operation has as parameters. */
struct fleet_call {
	enum fleet_op op;
	int64_t after_ms, until_ms;
	const struct matcher *m;     /* select, label_names, label_values */
	size_t n_m;
	struct view label;           /* label_values */
	const uint64_t *refs;        /* floats, profiles, points, covers, matches */
	size_t n_refs;
	const struct source_windows *windows; /* points; may be NULL */
	const struct source_tiles *tiles; /* covers */
	const struct source_part *parts; /* merge, sums, shares */
	size_t n_parts, n_groups;
	enum symbols_detail detail;  /* merge */
	const struct source_frame_filter *filter; /* sums (may be NULL), shares, matches */
	bool exact;                  /* sums: the integers are wanted */
	const struct source_graph *graph; /* rows */
};

/* Makes the rows of a graph in a view whose source does not know the language: promql_rows of the engine of this process. As source_ops.rows. */
typedef int (*fleet_rows_fn)(void *arg, struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *fn_arg,
			     struct err *e);

/* A row of a lane: of the steps in which it is not zero. */
struct fleet_row {
	uint32_t lane;
	struct view function, file, line;
	size_t n;
	uint32_t *steps;             /* ascend */
	int64_t *ints;               /* by steps, as in source_graph_row */
	int128 *parts;               /* NULL: nothing counts in part */
};

/* What is read of one series. */
struct fleet_floats {
	struct point *v;
	size_t n;
};
struct fleet_profiles {
	struct source_profile *v;
	int64_t *match;              /* of a call of matches: by profile, the values that the filter selects; else NULL */
	size_t n;
};

/* The answer; owned, everything malloc'd but the strings of series, types and names, which are in the arena of who keeps the view (fleet_call_run: the view
 * itself). Zeroed is empty. */
struct fleet_result {
	enum fleet_op op;
	size_t n;                    /* series or types or names of a select, types, label_*; n_refs of the calls by series; n_groups of the others */
	struct source_series *series;
	struct source_type *types;
	struct view *names;
	struct fleet_floats *floats; /* by series */
	struct fleet_profiles *profiles; /* by series: of profiles and matches */
	struct source_points *points; /* by series */
	struct source_cover **covers; /* by series: an array of n_tiles */
	size_t n_tiles;
	struct stackvec **vecs;      /* by group */
	double *sums;                /* by group */
	int64_t *exact;              /* by group; NULL: not asked for */
	struct source_shares shares; /* by group: three malloc'd arrays */
	struct fleet_row *rows;      /* n of them */
	bool fits;                   /* of rows: false: a sum does not fit in its integers, and no rows are returned */
	char *texts;                 /* of rows that were made here: what their names are in, malloc'd */
};
void fleet_result_release(struct fleet_result *r);

/* Runs the call on a view, in this thread and lim->pool. A source without the operation (NULL in its table) answers by those that it has: points that are not
 * plain; covers out of profiles; shares and matches are ERR_BAD_DATA "not supported" (nobody needs them: union.h). FLEET_OPEN and FLEET_CLOSE do nothing. Rows are made by
 * the view's own operation, or by `rows` (NULL: ERR_BAD_DATA). held: counts the lists of the result, and refuses them (question_held_list); NULL: nobody counts them. */
int fleet_call_run(struct source_view *v, const struct fleet_call *c, fleet_rows_fn rows, void *rows_arg, const struct source_limits *lim, struct question_held *held,
		   struct fleet_result *ret, struct err *e) MUST_USE;
/* Hands out rows as a source does: fn(arg, row) with all n_steps of each. For unions. A row of a few bytes takes the time of all steps, so lim's
 * deadline and cancellation are checked at each row. lim may be NULL. */
int fleet_rows_each(const struct fleet_result *r, size_t n_steps, const struct source_limits *lim, source_rows_fn fn, void *arg, struct err *e) MUST_USE;

#endif
