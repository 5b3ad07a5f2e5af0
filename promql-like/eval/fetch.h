/* SPDX-License-Identifier: Apache-2.0 */
/* The series of a selector, and the reading of all their samples: by one call of the source for what is read of them alike, so that a source on other
 * servers answers with one request. What it hands out of a series goes on at once, on its threads, so a local source never holds more than
 * a few series. Profile series that differ only in replica labels are one here (docs/profql.md, rule 6). */
#ifndef PYRRHA_PROMQL_FETCH_H
#define PYRRHA_PROMQL_FETCH_H

#include "promql-like/eval/eval.h"

/* A series as the language sees it: one of the source's, or several that are replicas of each other. */
struct chosen {
	struct labels labels;
	const struct ptype *type;
	struct source_series *const *parts;
	size_t n;
};

struct fetch_choice {
	struct source_series *all;
	size_t n_all;
	struct source_series **parts; /* in the order of c, back to back */
	struct chosen *c;
	size_t n;
};

/* The series of a selector with data in (after, until]; choice_free. */
int choice_select(struct eval *q, const struct node_selector *sel, int64_t after, int64_t until, struct fetch_choice *ret, struct err *e) MUST_USE;
void choice_free(struct fetch_choice *c);

/* The samples of one series: one of these lists. */
struct fetched {
	struct point *pts;
	size_t n_pts;
	struct source_profile *vp;
	size_t n_vp;
	struct source_points points;
	struct source_cover *cover;
	size_t n_cover;
	bool near;
	uint64_t ref, *refs; /* these as of a struct rseries */
	struct held_lists held;
};

void held_lists_give(struct held_lists *h);
/* Of n series; also frees the array. */
void fetched_free(struct fetched *f, size_t n);

/* What is read of the series of a choice. */
struct fetch_wanted {
	int64_t after, until;
	const struct source_windows *windows; /* the windows of a rate or a sum: of series of deltas their points are fetched instead of their profiles, if the source
					       * can; NULL: profiles are */
	bool within;               /* only points stamped in a window are needed */
	struct source_tiles tiles; /* covers of these instead of profiles; n is 0: none. Then no series has several parts */
};
/* take is called once for each series, by several threads at once, in no order, and owns what *f holds. Returns the first error. */
int fetch_each(struct eval *q, const struct fetch_choice *c, const struct fetch_wanted *w, int (*take)(void *arg, size_t i, struct fetched *f, struct err *e),
	       void *arg, struct err *e) MUST_USE;
/* All of them at once; fetched_free(*ret, c->n). */
int fetch_all(struct eval *q, const struct fetch_choice *c, const struct fetch_wanted *w, struct fetched **ret, struct err *e) MUST_USE;

#endif
