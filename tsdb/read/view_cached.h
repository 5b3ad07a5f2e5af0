/* SPDX-License-Identifier: Apache-2.0 */
/* Days of the bucket in a view. A view has each day that is in the bucket and not on this disk: an empty pstate, which select fills once it is about
 * the day. What a reader finds missing is noted as wanted, and the reader goes on without it. When it is done, all that was wanted is fetched together, and
 * it reads again:
 *
 *	struct view_try try;
 *	view_try_begin(&try, v, after, until, lim);
 *	do
 *		rc = ...; with try.lim
 *	while (view_try_again(&try, &rc, e));
 *
 * What does not come in time is missing from the last result, and lim->damage says so.
 *
 * A reader that knows what it needs before it reads orders it (view_try_order), and waits for each day when it comes to that day (view_try_wait): days are
 * fetched while dictionaries of those before them are loaded. Private. */
#ifndef PYRRHA_TSDB_VIEW_CACHED_H
#define PYRRHA_TSDB_VIEW_CACHED_H

#include "tsdb/read/view.h"

/* Adds the days of the bucket to a view that is being opened. */
void view_cached_join(struct tsdb_view *v);
void view_cached_release(struct tsdb_view *v);
/* Opens the days that (after, until] meets. One that cannot be opened is left out and noted. */
int view_cached_open(struct tsdb_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e) MUST_USE;

/* Whether a partition of the version is a day of another server. */
bool view_is_of_other(const struct tsdb_view *v, size_t p);
/* Whether the view has a day of this server, of its disk or in the bucket. */
bool view_has_day(const struct tsdb_view *v, uint32_t day);
/* Whether a partition of the version can be asked for its series: all but days of the bucket that could not be opened. */
bool view_is_open(const struct tsdb_view *v, size_t p);

struct view_try {
	struct tsdb_view *v;
	const struct source_limits *lim; /* for the reading: it counts samples of this try alone */
	const struct source_limits *caller;
	struct source_limits own;
	atomic_uint_fast64_t samples;
	uint64_t begun_samples;          /* of the caller, when it began */
	int64_t after_ms, until_ms;      /* what is read */
	uint64_t *skips;                 /* by partition: those of its day, when the reading began; NULL = the view has no day of the bucket */
	unsigned tries;
	bool last;                       /* nothing is fetched any more: what this reading lacks its answer lacks */
	struct cached_order order;       /* what is being fetched for it */
};
void view_try_begin(struct view_try *t, struct tsdb_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim);
/* The same, of the times of these parts. */
void view_try_begin_parts(struct view_try *t, struct tsdb_view *v, const struct source_part *parts, size_t n, const struct source_limits *lim);
/* To be called after a reading that returned *rc. True: data that it lacked has been fetched; its result is to be released, and it is to be made
 * again. False: *rc is the result, and t is released. */
bool view_try_again(struct view_try *t, int *rc, struct err *e);
/* The reading is made again for another reason: what it has read so far does not count. */
void view_try_recount(struct view_try *t);
/* Begins to fetch what the reading has noted as wanted so far. */
void view_try_order(struct view_try *t);
/* Waits until the files that view_try_order has ordered of a partition of the version have been fetched, or the bucket has failed to give them. */
int view_try_wait(struct view_try *t, size_t p, struct err *e) MUST_USE;
#define VIEW_FETCHES 3
/* For readers that hand out what they read and cannot begin again: fetches what they noted as wanted before, and begins the one reading.
 * It may be called again for what only then is known to be wanted, VIEW_FETCHES times at most. view_try_end ends the reading. */
int view_try_fetch(struct view_try *t, struct err *e) MUST_USE;
int view_try_end(struct view_try *t, int rc, struct err *e) MUST_USE;
/* Whether the stacks of a partition of the version can be loaded; if not they are wanted. */
bool view_has_stacks(struct tsdb_view *v, size_t p);
/* Notes that all that can be read of a series, or an aggregate, of a part is wanted: its sums, and with `rows` each profile. */
void view_want(const struct part *p, uint32_t series, bool rows);

#endif
