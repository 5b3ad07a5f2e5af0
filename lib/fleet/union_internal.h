/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of the union (union.h):
 *
 *	union.c              the source, its views, the table of their operations
 *	union_select.c       select: labels of peers, the table of series
 *	union_labels.c       types, names and values of labels
 *	union_lists.c        calls by series: floats, profiles, points, covers, matches
 *	union_merge.c        merges; union_sums.c: sums and shares
 *	union_rows.c         rows of graphs over stacks
 *	union_parts.c        what each peer is asked of a merge or of sums, and which outputs these are
 *	union_join.c         the profiles of a series that several peers have
 *	union_dictionary.c   adds up vectors over dictionaries of several peers
 *	union_series.c       series by number; union_ask.c: one call of each peer; union_split.c: large ones                                                  */
#ifndef PYRRHA_FLEET_UNION_INTERNAL_H
#define PYRRHA_FLEET_UNION_INTERNAL_H

#include "base/arena.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"
#include "fleet/peer.h"

/* ---- views ---- */

struct union_peer {
	struct fleet_peer *peer;     /* reference */
	struct fleet_peer_view *view;
	bool contacted;              /* a call came back. This and the fields below: under the view's lock */
	struct labels labels;        /* external labels, once it was contacted; valid as long as the view */
	bool dead;                   /* a call failed: the peer is not asked any more */
	char why[200];               /* the error of that call */
};

/* A series of a peer. */
struct union_holder {
	uint32_t peer;               /* index of the view's peers */
	uint64_t ref;                /* in the peer's view */
};

/* The chosen profiles of a series of several holders, stamped in (after, until]. The lists do not change once they are made. */
struct union_joined {
	int64_t after_ms, until_ms;  /* under the view's lock once it is kept: a later holder makes the range empty */
	struct source_profile *v;    /* in order of time */
	uint32_t *holder;            /* of each: index of the series' holders */
	size_t n;
	struct union_left {
		int64_t t_ms;
		uint32_t holder;
	} *left;                     /* profiles that are not chosen, without markers, in order of time */
	size_t n_left;
};

struct union_series {
	struct labels labels;        /* with those of the peer: the array is in the view's arena or the peer's, as the strings */
	const struct ptype *type;    /* NULL: floats */
	VEC(struct union_holder) holders; /* at least one; in the order in which they were found */
	VEC(struct union_joined *) joined; /* by range */
	uint64_t found;              /* number of the select that found it last */
};

struct union_dictionary;

struct union_view {
	struct source_view base;     /* first: the operations get its address */
	struct union_dictionary *dictionary; /* reference */
	struct union_peer *peers;
	size_t n_peers;
	struct mutex lock;           /* of what follows, and of fields of peers; nothing waits under it */
	VEC(struct union_series) series; /* a ref of this view is an index */
	struct map by_labels;        /* of series */
	struct arena arena;          /* arrays of labels */
	uint64_t n_selects;
};

/* ---- union_ask.c ---- */

/* What one peer is asked, and its answer. */
struct union_ask {
	bool wanted;                 /* false: the peer is not asked */
	struct fleet_call call;
	struct fleet_result result;  /* empty if the peer was not asked or did not answer */
	bool failed;                 /* one of its calls did not come back: it has no result */
};

/* An ask for each peer of the view, none of them wanted. union_asks_free. */
struct union_ask *union_asks_new(const struct union_view *v);
void union_asks_free(const struct union_view *v, struct union_ask *asks);
/* Asks all peers that are wanted at the same time, and waits for all. The share of a peer that does not answer, or is dead, is noted in lim->damage
 * for (after, until]; it is an error if that is not wanted. After an error results are empty or to be freed. lim may be NULL. */
int union_ask_all(struct union_view *v, struct union_ask *asks, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		  struct err *e) MUST_USE;
/* The external labels of a peer; empty before it was contacted. */
struct labels union_peer_labels(struct union_view *v, size_t peer);

/* ---- union_split.c ---- */

/* The calls that a peer is sent for one call. */
struct union_split {
	VEC(struct fleet_call) calls; /* by series or by group, in order */
	VEC(struct source_part *) parts; /* owned: those of calls */
};
/* max: of the peer; NULL: one call. ERR_LIMIT: too many calls. union_split_release in any case. */
int union_split_make(const struct fleet_call *c, const struct fleet_call_max *max, struct union_split *ret, struct err *e) MUST_USE;
void union_split_release(struct union_split *s);
/* Moves the result of a call to the end of those before it; `to` is zeroed before the first. */
void union_split_join(struct fleet_result *to, struct fleet_result *from);

/* ---- union_series.c ---- */

/* Whether the union is one peer without external labels: refs of the view are the peer's. */
bool union_is_plain(struct union_view *v);
/* A series of a peer under its labels with those of the peer. labels: borrowed for the call, unless they are `lasting`: as long as the view. Returns
 * its ref.
 * *ret_first: whether it is the first time that this select finds it. */
uint64_t union_series_add(struct union_view *v, struct labels labels, bool lasting, const struct ptype *type, struct union_holder h,
			  uint64_t n_select,
			  bool *ret_first) REQUIRES(v->lock);

/* Series by peer. */
struct union_share {
	uint64_t *refs;              /* of the peer */
	size_t n;
};
struct union_piece {
	struct union_holder holder;
	size_t at;                   /* index of the peer's share */
};
struct union_spread {
	size_t n;                    /* series */
	size_t *first;               /* n + 1: those of series i are pieces [first[i], first[i + 1]) */
	struct union_piece *pieces;
	struct union_share *shares;  /* by peer */
	size_t n_peers;
};
/* Who has each of n series. alone: shares have only series of one holder. union_spread_release in any case. */
int union_spread_make(struct union_view *v, const uint64_t *refs, size_t n, bool alone, struct union_spread *ret, struct err *e) MUST_USE;
void union_spread_release(struct union_spread *s);
static inline size_t union_spread_count(const struct union_spread *s, size_t series)
{
	return s->first[series + 1] - s->first[series];
}

/* ---- union_select.c ---- */

/* A question about series that satisfy matchers. */
struct union_matching {
	enum fleet_op op;            /* select, label_names, label_values */
	const struct matcher *m;
	size_t n_m;
	struct view label;
	int64_t after_ms, until_ms;
	const struct source_limits *lim; /* may be NULL */
};
/* Asks all peers. Where a matcher or the label is about an external label of a peer, that peer is asked to select (asks[i].call.op), and its series
 * are to be held against the matchers (union_labels_match). union_asks_free in any case. */
int union_ask_matching(struct union_view *v, const struct union_matching *q, struct union_ask **ret, struct err *e) MUST_USE;

/* Labels of a peer's series with the external ones. */
struct union_labels {
	VEC(struct label) v;         /* room for the result */
};
/* Borrows room->v, or `own` itself if there are no external ones. */
struct labels union_labels_with(struct union_labels *room, struct labels own, struct labels external);
/* Whether the labels satisfy the matchers about external labels: 1 or 0; negative with *e filled. */
int union_labels_match(const struct union_matching *q, struct labels external, struct labels all, struct err *e) MUST_USE;

int union_select(struct source_view *sv, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		 struct source_series **ret, size_t *ret_n, struct err *e) MUST_USE;

/* ---- union_labels.c ---- */

int union_types(struct source_view *sv, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		struct err *e) MUST_USE;
int union_label_names(struct source_view *sv, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		      struct view **ret, size_t *ret_n, struct err *e) MUST_USE;
int union_label_values(struct source_view *sv, struct view name, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		       const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e) MUST_USE;

/* ---- union_join.c ---- */

/* Joins n lists of one series in (after, until], list i of holder i. Returns owned. */
struct union_joined *union_joined_new(const struct fleet_profiles *lists, size_t n, int64_t after_ms, int64_t until_ms);
void union_joined_free(struct union_joined *j);
/* Keeps it with the series as long as the view, if none of the range is kept. Takes j; returns the one that is kept. */
const struct union_joined *union_joined_keep(struct union_view *v, uint64_t ref, struct union_joined *j) EXCLUDES(v->lock);
/* Joined lists of a range that contains (after, until], of those of n series, each once, that have several holders; NULL of the others. Asks for what is not
 * kept. ret has room for n. */
int union_joined_load(struct union_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		      const struct union_joined **ret, struct err *e) MUST_USE;
/* The first of the chosen that is stamped after t. */
size_t union_joined_after(const struct union_joined *j, int64_t t_ms);

/* ---- union_lists.c ---- */

int union_floats(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		 source_floats_fn fn, void *arg, struct err *e) MUST_USE;
int union_profiles(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		   source_profiles_fn fn, void *arg, struct err *e) MUST_USE;
int union_points(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
		 const struct source_limits *lim, source_points_fn fn, void *arg, struct err *e) MUST_USE;
int union_covers(struct source_view *sv, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		 source_covers_fn fn, void *arg, struct err *e) MUST_USE;
int union_matches(struct source_view *sv, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_frame_filter *f,
		  const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e) MUST_USE;

/* ---- union_parts.c ---- */

/* Outputs of one class that follow each other: group .. group + n of the question are first .. first + n of the peer's. */
struct union_range {
	uint32_t class, group, n, first;
};
/* What a peer is asked of a merge or of sums. */
struct union_parts {
	VEC(struct source_part) v;
	VEC(uint32_t) class;         /* of each part */
	VEC(struct union_range) ranges; /* by class and group, apart */
	uint32_t n_outputs;
};

/* Parts of one class and group are one output of a peer. */
enum union_class {
	UNION_AS_IT_IS,              /* with scales or weights, of groups that one peer alone has: sent with them */
	UNION_WHOLE,                 /* without scales and weights: integers */
	UNION_CLASSES,               /* from here on what the caller says: with a scale or weights, of groups that several peers have */
};
/* The class, from 0, of a part of the last kind. */
typedef uint32_t (*union_class_fn)(void *arg, size_t part);
/* Parts by peer. Those of UNION_CLASSES are sent without their scale; their weights are by cover over 1, or none. The array is by peer:
 * union_parts_free in any case. */
int union_parts_make(struct union_view *v, const struct source_part *parts, size_t n, size_t n_groups, union_class_fn class_of, void *arg,
		     const struct source_limits *lim, struct union_parts **ret, struct err *e) MUST_USE;
void union_parts_free(struct union_view *v, struct union_parts *p);
/* Asks each peer for its parts: call has the fields that are equal for all. */
int union_parts_ask(struct union_view *v, struct union_parts *p, const struct fleet_call *call, const struct source_limits *lim,
		    struct union_ask **ret,
		    struct err *e) MUST_USE;

/* ---- union_merge.c, union_sums.c ---- */

int union_merge(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		const struct source_limits *lim, struct stackvec **ret, struct err *e) MUST_USE;
int union_sums(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
	       const struct source_limits *lim, double *ret, int64_t *exact, struct err *e) MUST_USE;
int union_shares(struct source_view *sv, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		 const struct source_limits *lim, const struct source_shares *ret, struct err *e) MUST_USE;

/* ---- union_rows.c ---- */

int union_rows(struct source_view *sv, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *arg,
	       struct err *e) MUST_USE;

/* ---- union_dictionary.c ---- */

/* A vector of a group: its values times factor are added up with those of equal scale and divisor, divided by over_ms (unless it is 0) and scaled. */
struct union_term {
	struct stackvec *v;          /* integers, or doubles that are whole numbers; others if scale is 1 and over_ms is 0 */
	double scale;
	int64_t over_ms, factor;
};
/* Returns a reference. */
struct union_dictionary *union_dictionary_new(void);
struct union_dictionary *union_dictionary_ref(struct union_dictionary *d);
void union_dictionary_unref(struct union_dictionary *d);
/* The sum of n terms; those of equal scale and divisor are adjacent. Of integers that are neither scaled nor divided it is exact. Returns owned;
 * NULL and *e: it does not fit. */
struct stackvec *union_dictionary_sum(struct union_dictionary *d, const struct union_term *terms, size_t n, struct err *e);
/* A vector of nothing. */
struct stackvec *union_dictionary_empty(struct union_dictionary *d);
/* Whether it has become so large that later views should begin with a new one. Forgets maps of dictionaries that were not met for a while. */
bool union_dictionary_is_full(struct union_dictionary *d);

#endif
