/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles over time: what a range of a profile series adds up to. A profile covers (t-w, t]. A query at `to` sees those stamped up to
 * it; the newest of them also covers forward until the next is due, never past a stale marker:
 *
 *	          from                                  to
 *	   ---|-----(--|---------|---------|---------|--x--]-------> time
 *	      t1       t2        t3        t4        t5 :  due
 *	        <-w2->   <- w3 ->  <- w4 ->  <- w5 ->...>
 *
 * rate and increase take each in proportion to how much of its w lies in the range (the part ahead of the newest
 * counts at its own density); merge of deltas takes whole those stamped in (from, to]. */
#ifndef PYRRHA_PROMQL_PWINDOW_H
#define PYRRHA_PROMQL_PWINDOW_H

#include "promql-like/eval/eval.h"

/* A window over the profiles of one series (rseries.vp), times in ms. Begins as { .s = series }. */
struct pwindow {
	const struct rseries *s;
	int64_t from, to;
	size_t lo, hi;     /* stamped in (from, to], markers included */
	size_t newest;     /* of those stamped <= to; SIZE_MAX: none */
};

/* Moves it to (from, to]; times only grow between calls. */
void pwindow_slide(struct pwindow *w, int64_t from, int64_t to);
/* The part of profile i's cover within the range, as an interval; false if there is none. */
bool pwindow_covered(const struct pwindow *w, size_t i, int64_t *ret_from, int64_t *ret_to);
/* The first that can cover: one in the range, or the newest before it. Those up to w->hi can. */
size_t pwindow_first(const struct pwindow *w);
/* How many are stamped in the range, without markers. */
size_t pwindow_count(const struct pwindow *w);

/* Whether storage may keep the series where it keeps a range that begins (ends) so soon after (before) a profile of it: by the hour. */
#define PWINDOW_NEAR_MS INT64_C(3600000)

/* Whether storage may keep a series that has nothing in the range where it keeps the range. */
bool pwindow_is_near(const struct pwindow *w);
/* The length of what profile i covers of the range, up to its stamp and ahead of it. False: nothing, or it is a marker. */
bool pwindow_split(const struct pwindow *w, size_t i, int64_t *ret_behind_ms, int64_t *ret_ahead_ms);

/* Profile i of the series, times scale; joined: the one before it was added last, and nothing lies between. */
int pwindow_add_one(struct lazy_side *side, const struct rseries *s, size_t i, bool joined, double scale, struct err *e) MUST_USE;
/* Those stamped in the range, whole, each times scale. A series without profiles there may be requested all the same. */
int pwindow_add_whole(struct lazy_profile *p, const struct pwindow *w, double scale, struct err *e) MUST_USE;
/* All in proportion to the part of their cover within the range, times `times` and, if weighted, their weights from scraping; *ret_ms
 * grows by the covered time. */
int pwindow_add_covered(struct lazy_profile *p, const struct pwindow *w, double times, bool weighted, int64_t *ret_ms, struct err *e) MUST_USE;

#endif
