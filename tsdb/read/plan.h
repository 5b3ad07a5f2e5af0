/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a request into units: one series in one window of one partition. Private to merge.c and sums.c.
 *
 * Parts that follow each other and differ only in their series are one request; requests of the same series share a set. Ranges and
 * graphs have that form, and it shows where an aggregate (aggregate.h) can answer: where all series that it sums up are requested,
 * over whole minutes or all that there is of them. */
#ifndef PYRRHA_TSDB_PLAN_H
#define PYRRHA_TSDB_PLAN_H

#include "tsdb/read/view.h"

/* The series of requests. */
struct plan_series {
	uint32_t *ids;  /* in one partition, ascending */
	size_t n;
	bool known, unique;
};

struct plan_set {
	size_t first, n;        /* parts; their refs are the set */
	struct plan_series *in;  /* by partition of the version */
};

struct plan_request {
	int64_t after_ms, until_ms, step_ms;
	double scale;
	uint32_t n_steps;       /* at least 1 */
	uint32_t group, set;
	size_t slot;            /* running number of its first step */
	struct source_weigh weigh;
};

struct plan_requests {
	const struct source_part *parts; /* borrowed */
	VEC(struct plan_request) v;
	VEC(struct plan_set) sets;
	struct map by_refs;     /* hash of a set's refs -> number */
	size_t n_slots, n_partitions;
};

int plan_requests_make(struct tsdb_view *v, const struct source_part *parts, size_t n, size_t n_groups,
		       const struct source_limits *lim, struct plan_requests *ret, struct err *e) MUST_USE;
void plan_requests_release(struct plan_requests *a);
/* The series of a set in partition p of the version. */
const struct plan_series *plan_requests_series(struct plan_requests *a, struct tsdb_view *v, size_t set, size_t p);

/* Whether ranges that begin or end here take whole minutes of the part. */
bool bound_is_whole(const struct part *p, int64_t t_ms);
/* For each aggregate of a part, whether the series include all that it sums up: ret[a]. Malloc'd; NULL = none does, or something of
 * the part was deleted. */
bool *aggregates_complete(const struct pstate *ps, const struct part *p, const struct plan_series *s);

/* Of a weighed request, units sum up what there is, which counts times base_ms; units of the rest add the difference of each profile's weight from
 * that:
 *
 *	sum of v x weight = base x sum of v + sum of v x (weight - base)
 *
 * Sums of services and hours serve the former. The latter reads the profiles whose weight is another; most series have few or none. Several requests may
 * be about a profile, as one for the range and one for what the newest covers ahead: units of the rest of one series in one place are adjacent, and a
 * merge reads them as one. */
struct unit {
	uint32_t group;
	uint32_t partition;  /* index in the version */
	uint32_t series;     /* id in it, or PART_AGGREGATE | number */
	double scale;
	int64_t after_ms, until_ms;
	struct window *window; /* of the version */
	struct part *part;     /* or: sealed */
	struct source_weigh weigh;
	int64_t begin_ms;      /* the beginning of the request's range */
	bool rest;
};

/* The factor of a unit's sum, before the division. */
static inline int64_t unit_factor(const struct unit *u)
{
	return u->weigh.over_ms && !u->rest ? u->weigh.base_ms : 1;
}

/* Of a unit of the rest: what the values of a profile count times. */
static inline int64_t unit_weight(const struct unit *u, int64_t t_ms, int64_t cover_ms)
{
	int64_t weight = source_weigh_of(&u->weigh, u->begin_ms, t_ms, cover_ms);
	return u->weigh.by_cover ? weight - u->weigh.base_ms : weight;
}

struct read_plan {
	VEC(struct unit) units;
	const struct source_limits *lim; /* while it is made */
	uint64_t work;         /* series and steps that were looked at since the limits were */
	int rc;                /* negative: nothing is added any more */
	struct err *e;
};

/* Units of a merge, sorted by group, partition and place. singly: weighed profiles are not summed up before they are weighed, as their sum does
 * not fit. The units are within lim->max_bytes, and time is looked at while they are made: few bytes of parts may stand for many units. */
int plan_make(struct tsdb_view *v, struct plan_requests *requests, bool singly, const struct source_limits *lim, struct read_plan *ret,
	      struct err *e) MUST_USE;
void plan_release(struct read_plan *p);

#endif
