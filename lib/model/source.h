/* SPDX-License-Identifier: Apache-2.0 */
/* The seam out of storage: what the query engine reads. A view is a consistent, reference-counted state; it does
 * not change while it is held. All calls on a view are thread-safe. Times are milliseconds; ranges are (after, until]. */
#ifndef PYRRHA_MODEL_SOURCE_H
#define PYRRHA_MODEL_SOURCE_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/vec.h"
#include "model/labels.h"
#include "model/matcher.h"
#include "model/ptype.h"
#include "model/stackvec.h"
#include "model/value.h"

/* Statistics of what was read for a query. A chunk is the unit that storage reads: a value on disk, or a series'
 * window in memory; its bytes are those there. */
struct source_stats {
	atomic_uint_fast64_t chunks, samples, bytes;
	atomic_uint_fast64_t bucket_requests, bucket_bytes; /* what was fetched from a bucket for it */
};

/* Stretches of time of which an answer lacks something. */
struct source_lacks {
	atomic_uint_fast64_t met;           /* how often that was met */
	atomic_int_fast64_t until_ms;       /* the end of the last stretch of time that is concerned */
	atomic_int_fast64_t before_from_ms; /* INT64_MAX less the beginning of the first */
};

/* Stored data that was requested and that the answer lacks: it is damaged, or it is in a bucket and not on this disk. Zeroed: nothing. Any
 * thread may add. */
struct source_damage {
	struct source_lacks damaged, absent;
	struct source_lacks doubled; /* nothing is missing: several servers have series of the same labels at that time, and the answer adds them all up */
	_Atomic(struct source_missing *) missing; /* other servers, what of theirs is missing; source_damage_release */
};

/* What is missing of one other server. */
struct source_missing {
	struct source_missing *next;
	struct source_lacks lacks;
	char server[128], why[200];
};

void source_damage_add(struct source_damage *d, int64_t after_ms, int64_t until_ms);
void source_absent_add(struct source_damage *d, int64_t after_ms, int64_t until_ms);
void source_doubled_add(struct source_damage *d, int64_t after_ms, int64_t until_ms);
/* The share of a server in (after, until]; why: its error, or "has damaged data there". Copies both; at most SOURCE_MISSING_MAX servers are kept by name, the rest under "other
 * servers". */
#define SOURCE_MISSING_MAX 16
void source_missing_add(struct source_damage *d, const char *server, const char *why, int64_t after_ms, int64_t until_ms);
/* How often something was missing. */
uint64_t source_damage_met(const struct source_damage *d);
/* The warnings that an answer carries for it: one(arg, text) for each. */
#define SOURCE_WARNING_LEN 512
void source_damage_warnings(const struct source_damage *d, void (*one)(void *arg, const char *text), void *arg);
/* Frees what source_missing_add has allocated; zeroes it. */
void source_damage_release(struct source_damage *d);

/* The cost limits of a query; the source checks them while it works. */
struct source_limits {
	int64_t deadline_mono_ns;    /* 0 = none */
	const atomic_bool *canceled; /* NULL = cannot be */
	const atomic_bool *stopped;  /* there is no memory left for it; NULL = cannot be */
	uint64_t max_samples;        /* values read, 0 = unlimited */
	atomic_uint_fast64_t *samples_read; /* counts up; may be NULL */
	struct source_stats *stats;  /* counts up; may be NULL */
	struct pool *pool;           /* to fan out over; NULL = the caller's thread only */
	uint64_t max_bytes;          /* of stacks and sums of steps that are held for this query alone; and of the sums of stacks that a merge returns; 0 = unlimited */
	bool whole;                  /* an answer without the share of a server that cannot be asked is an error, ERR_UNAVAILABLE, instead of a warning */
	struct source_damage *damage; /* what is damaged or absent is left out and noted here; NULL: damage is an error, ERR_CORRUPT */
	struct regex_meter *regex;   /* of the matchers' expressions; may be NULL */
	void (*waits)(void *arg);    /* called before the reader waits for another machine; may be called often, by any thread; may be NULL */
	void *waits_arg;
};

/* ERR_CANCELED, ERR_BUSY, ERR_TIMEOUT, or 0; for long work without reading. */
int source_limits_check(const struct source_limits *lim, struct err *e) MUST_USE;

struct source_series {
	struct labels labels;        /* with __name__; borrowed from the view */
	const struct ptype *type;    /* NULL: floats */
	uint64_t ref;                /* names it in the calls below, within this view */
};

/* A name of profile series. */
struct source_type {
	struct view name;            /* __name__; borrowed from the view, as the type */
	const struct ptype *type;
	uint64_t n_series;
};

/* One profile without its stacks. */
struct source_profile {
	int64_t t_ms;
	int64_t duration_ns;
	int64_t cover_ms;            /* it covers (t - cover, t] */
	int64_t interval_ms;         /* the next is due by t + interval */
	double weight;               /* interval / seconds asked; 1 = full duty */
	int64_t period;
	int64_t total;               /* sum of its values, native unit */
	bool stale;                  /* a marker: the series ended here, no profile */
};

/* What a rate needs of a profile that weighs 1 and covers something. A point may also be a run: the sum of several profiles. */
struct source_point {
	int64_t t_ms, total;         /* of a run: a stamp that no profile of it is behind; the sum */
	uint32_t cover_ms;           /* of a run: since the first of its profiles begins */
	uint32_t is_run : 1, ahead : 31; /* the interval, ms, or until the marker that follows, if that is sooner; of a run: how many profiles it has */
};
#define SOURCE_POINT_AHEAD_MAX INT32_MAX
#define SOURCE_POINTS_MOST (UINT64_C(1) << 62) /* the sum of their |total| is smaller */

/* Windows of a question: the k-th of n is (until - range + k step, until + k step]. Their ends are edges. */
struct source_windows {
	int64_t until_ms, range_ms, step_ms;
	size_t n;
};

/* Whether an edge is in [from, until). */
bool source_windows_edge(const struct source_windows *w, int64_t from_ms, int64_t until_ms);

struct source_points {
	struct source_point *v;      /* malloc'd */
	size_t n;
	uint32_t *before;            /* malloc'd, n + 1: how many profiles the points before each are of; NULL: there is no run */
	bool plain;                  /* false: v is NULL, and the caller needs the list of profiles */
};
void source_points_release(struct source_points *p);
/* How many profiles the points [0, i) are of. */
static inline size_t source_points_before(const struct source_points *p, size_t i)
{
	return p->before ? p->before[i] : i;
}

/* Windows that follow each other: the k-th of n is (after + k width, after + (k + 1) width]. */
struct source_tiles {
	int64_t after_ms, width_ms;
	size_t n;
};

/* A stretch of time that profiles cover. */
struct source_span {
	int64_t after_ms, until_ms;
};

/* The weight of a profile: the length of its interval over the length of its measurement. asked_ms: 0 = all of the interval was measured. */
static inline double source_weight(int64_t interval_ms, int64_t asked_ms)
{
	return asked_ms && asked_ms != interval_ms ? (double)interval_ms / (double)asked_ms : 1;
}

/* What profiles that were added up stand for, beyond what they measured: a unit of a profile's value stands for `weight` units. */
struct source_weights {
	double extra;                /* sum of value x (weight - 1) */
	double weighed;              /* sum of the values whose weight is not 1 */
	double lightest, heaviest;   /* the smallest and largest of these weights; 0: all have weight 1 */
};
#define SOURCE_SAME_WEIGHT 0.02 /* weights that differ by a smaller part are equal: scrapes jitter */

static inline void source_weights_add(struct source_weights *w, double value, double weight)
{
	if (weight == 1 || !(weight > 0) || value == 0)
		return;
	w->extra += value * (weight - 1);
	w->weighed += value;
	w->lightest = w->lightest > 0 ? MIN(w->lightest, weight) : weight;
	w->heaviest = MAX(w->heaviest, weight);
}

/* Those of another sum, whose values are added times scale. */
static inline void source_weights_join(struct source_weights *to, struct source_weights other, double scale)
{
	if (!(other.heaviest > 0))
		return;
	to->extra += other.extra * scale;
	to->weighed += other.weighed * scale;
	to->lightest = to->lightest > 0 ? MIN(to->lightest, other.lightest) : other.lightest;
	to->heaviest = MAX(to->heaviest, other.heaviest);
}

/* The sum of one series' profiles in a range, without visiting each profile. */
struct source_cover {
	uint64_t n, n_stale;         /* stamps, markers included; of these markers */
	int64_t total, period;       /* of the profiles: the sum of their totals, native unit; the largest period */
	uint64_t magnitude;          /* sum of |total|, at most UINT64_MAX; above SOURCE_EXACT total may not be what it should */
	struct source_weights weights; /* of totals */
	VEC(struct source_span) spans; /* that they cover, in no order: where one goes on from the last they are one */
};
#define SOURCE_EXACT (UINT64_C(1) << 53)

void source_cover_add_span(struct source_cover *c, int64_t after_ms, int64_t until_ms);
void source_cover_add_total(struct source_cover *c, int64_t total);
/* One of those in the range. */
static inline void source_cover_add(struct source_cover *c, int64_t t_ms, int64_t cover_ms, int64_t total, double weight, int64_t period, bool stale)
{
	c->n++;
	c->n_stale += stale;
	if (stale)
		return;
	source_cover_add_total(c, total);
	source_weights_add(&c->weights, (double)total, weight);
	c->period = MAX(c->period, period);
	source_cover_add_span(c, t_ms - cover_ms, t_ms);
}
/* The sum of another, without its spans. */
void source_cover_add_other(struct source_cover *c, const struct source_cover *other);
void source_cover_release(struct source_cover *c);

/* Sums of integers, wider than a value of a profile, so that they are exact and do not depend on the order of addition. */
__extension__ typedef __int128 int128;

/* How the profiles of a part count beside its scale, as the mean of a gauge needs: each times its weight, all divided by `over`. Weights are
 * integers, so they are added up exactly, in 128 bits, and divided once. */
struct source_weigh {
	int64_t over_ms;             /* 0: they count as they are, and the rest is not used */
	int64_t base_ms;             /* the weight of each profile, or with by_cover of most: those count as cheaply as without weights */
	bool by_cover;               /* the weight of each is the length of its cover behind the beginning of the range */
};

static inline bool source_weigh_eq(const struct source_weigh *a, const struct source_weigh *b)
{
	return a->over_ms == b->over_ms && (!a->over_ms || (a->base_ms == b->base_ms && a->by_cover == b->by_cover));
}

/* The weight of a profile of a range that begins after `after`. */
static inline int64_t source_weigh_of(const struct source_weigh *w, int64_t after_ms, int64_t t_ms, int64_t cover_ms)
{
	return w->by_cover ? t_ms - MAX(t_ms - cover_ms, after_ms) : w->base_ms;
}

/* A sum of values times weights, divided by over_ms, or as it is if that is 0. Of values that are all the same it is exactly the value. */
static inline double source_weighed(int128 sum, int64_t over_ms)
{
	return over_ms ? (double)(sum / over_ms) + (double)(int64_t)(sum % over_ms) / (double)over_ms : (double)sum;
}

/* Whole profiles of one series that add up into one output. With n_steps above 1 there are that many outputs, as a
 * graph needs: step k takes those stamped in (after + k step, until + k step] and is output group + k.
 *
 * Cheap case: consecutive parts that differ only in their series are read together. If they are all series of a service
 * (of one name and type; the storage knows which labels make a service) and the ranges begin and end on whole minutes,
 * one sum per minute is read instead of the series. The answer is the same. So pass the requested range, not the stamps
 * found in it. */
struct source_part {
	uint64_t ref;
	int64_t after_ms, until_ms;  /* those stamped in (after, until] */
	double scale;                /* 1 keeps integers exact */
	uint32_t group;              /* index of the output, or of the first */
	uint32_t n_steps;            /* 0 is 1 */
	int64_t step_ms;             /* above 0 if there are several */
	struct source_weigh weigh;   /* not of shares */
};

/* Which stacks count: those with a frame that satisfies all matchers (names function, file, line, binary), or the expression `any`, where that is set.
 * frame_filter.h evaluates it, once per distinct frame. */
struct source_frame_filter {
	const struct matcher *m;     /* borrowed */
	size_t n;
	const struct regex *any;     /* pprof's expression: unanchored, on function, file or binary; NULL: the matchers decide */
	struct view any_text;        /* its text */
	bool leaf_only;              /* self instead of total: only the innermost frame of the leaf counts */
};

/* The sums of groups of profiles, by group: the part that a filter selects, the total, and the number of profiles. A sum of
 * several may count as one, so that number is only above 0 if there is any. */
struct source_shares {
	int64_t *match, *total, *there;
};

/* Profiles of one series of the caller's refs in order of time, each with the values that a filter selects. Negative with *e filled stops
 * the reading. worker: 0 .. pool_size(lim->pool); calls of one worker are sequential. */
typedef int (*source_matches_fn)(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker,
				 struct err *e);

/* Stored values of one series, of a window of time: value i is that of columns[i] in the profile that is stamped
 * t_ms[rows[i]]. Rows are in no order. Columns are those of symbols, or numbers of a day's: then column c is as[c] - 1 of symbols. A
 * row may have a column of symbols several times. */
struct source_cells {
	size_t series;               /* index of the caller's refs */
	int64_t after_ms, until_ms;  /* the window; calls of one window are adjacent as far as several threads allow */
	struct symbols *symbols;     /* what the columns are of; borrowed for the call: who keeps it takes a reference. It may grow meanwhile */
	const int64_t *t_ms;
	size_t n_rows, n;
	const uint32_t *rows, *columns;
	const int64_t *values;
	const uint32_t *as;          /* NULL: columns are those of symbols. Else column c is as[c] - 1 of symbols, c < n_as. All cells of a day have the same array */
	uint32_t n_as;
	const uint8_t *summed;       /* by row: the sum of its minute is handed out, too, with it in it; NULL: of none */
};
/* The number of value i's column in c->symbols. */
static inline uint32_t source_cells_column(const struct source_cells *c, size_t i)
{
	return c->as ? c->as[c->columns[i]] - 1 : c->columns[i];
}
/* Negative with *e filled stops the reading. worker: 0 .. pool_size(lim->pool); calls of one worker are sequential. */
typedef int (*source_cells_fn)(void *arg, const struct source_cells *c, unsigned worker, struct err *e);
/* Whether values of series a and of b (a may be b) that are stamped in (after, until] count the same for the caller.
 * SOURCE_UNLIKE: no. SOURCE_ALIKE_BUT_FEW: within a whole minute they do, as if stamped in its middle, except for a few profiles.
 * SOURCE_ALIKE_BY_MINUTE: they do within each whole minute. SOURCE_ALIKE: all of them do, so their sum does too.
 * Storage may then return sums of services, stamped with the middle of the minute, as if they were of one of the series. It may also
 * return a series or service as one row, stamped at the end of the range. Called by one thread, before the first profile is passed. */
enum source_alike { SOURCE_UNLIKE, SOURCE_ALIKE_BUT_FEW, SOURCE_ALIKE_BY_MINUTE, SOURCE_ALIKE };
typedef enum source_alike (*source_alike_fn)(void *arg, size_t a, size_t b, int64_t after_ms, int64_t until_ms);
/* Whether a profile is one of the few: it counts otherwise than the middle of its minute. Such are handed out by themselves, too, as
 * `summed`. Any thread. */
typedef bool (*source_odd_fn)(void *arg, size_t series, int64_t t_ms);
/* The receiver of cells. */
struct source_cells_reader {
	source_cells_fn take;
	source_alike_fn alike;       /* NULL: no two series are */
	source_odd_fn odd;           /* NULL: alike never says SOURCE_ALIKE_BUT_FEW */
	enum symbols_detail detail;  /* whether the reader needs whole stacks or only their names; merge has the same parameter */
	void *arg;
};
#define SOURCE_MINUTE_MS INT64_C(60000)
/* The middle of the minute that contains a stamp. */
static inline int64_t source_mid_minute(int64_t t_ms)
{
	int64_t in = (t_ms - 1) % SOURCE_MINUTE_MS;
	return t_ms - 1 - (in < 0 ? in + SOURCE_MINUTE_MS : in) + SOURCE_MINUTE_MS / 2;
}

/* A graph over stacks, for a source that adds it up itself: rows of functions (or lines, files, binaries, packages) by step. */
struct source_graph_term {
	int64_t after_ms, until_ms;  /* profiles stamped in (after, until] count in that step */
	double scale;                /* 1 and -1 are whole; else this part of them: the integer part of scale x 2^bits of its lane */
	uint32_t step, lane;
};
struct source_graph {
	struct view readout;         /* a call of the language that makes rows of its argument; in place of that it has an x: self(x, "line"), total(focus(x, "re"), "function") */
	size_t n_steps;
	const uint64_t *refs;
	const uint32_t *first;       /* n_refs + 1: terms [first[i], first[i + 1]) are of refs[i], in order of steps */
	size_t n_refs;
	const struct source_graph_term *terms;
	const int *bits;             /* by lane: a lane is an input series, or what is subtracted from one */
	size_t n_lanes;
};
/* A row of one lane. */
struct source_graph_row {
	uint32_t lane;
	struct view function, file, line; /* those that the readout has; others are empty. Borrowed for the call */
	const int64_t *ints;         /* by step: what counts as a whole */
	const int128 *parts;         /* by step: what counts in part, times 2^bits; NULL: nothing does */
};
/* Called by one thread at a time, once for each row and lane. Negative with *e filled ends it. */
typedef int (*source_rows_fn)(void *arg, const struct source_graph_row *row, struct err *e);

struct source_view;

/* The receivers of what is read of one of several series; `series` is the index of the caller's refs. What they are given is theirs, also if they
 * fail: arrays are malloc'd. Negative with *e filled ends the reading. */
typedef int (*source_floats_fn)(void *arg, size_t series, struct point *v, size_t n, struct err *e);
typedef int (*source_profiles_fn)(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e);
typedef int (*source_points_fn)(void *arg, size_t series, struct source_points *p, struct err *e); /* moved out of *p */
typedef int (*source_covers_fn)(void *arg, size_t series, struct source_cover *v, struct err *e); /* of each tile; source_covers_free */
void source_covers_free(struct source_cover *v, size_t n);
/* For implementations that read series by series: calls one for each of n series, by the threads of lim->pool, in the order of their refs: those that begin
 * in one day of storage one after the other, so that its files are opened once. Returns the first error. */
int source_each(const uint64_t *refs, size_t n, const struct source_limits *lim, int (*one)(void *arg, size_t series, struct err *e), void *arg,
		struct err *e) MUST_USE;

/* Calls return 0 or a negative code, and set their outputs only if they return 0. Codes: ERR_TIMEOUT, ERR_CANCELED and ERR_LIMIT
 * of the limits, ERR_EXECUTION if a sum does not fit in 64 bits, ERR_IO and ERR_CORRUPT of stored data. lim may be NULL: no
 * limits. */
struct source_ops {
	void (*release)(struct source_view *v);
	/* Series with data in (after, until] that satisfy all matchers, sorted by labels. The array is malloc'd, the caller
	 * frees it. */
	int (*select)(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		      const struct source_limits *lim, struct source_series **ret, size_t *ret_n, struct err *e);
	/* The names and types of the profile series with data in (after, until], in no order. The array is malloc'd. */
	int (*types)(struct source_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		     struct err *e);
	/* The next four calls are about n series at once. fn is called once for each series, also for one without data, in no order, by several threads
	 * at once (those of lim->pool, and the caller's). */
	/* Samples of float series in (after, until], stale markers included, in order of time. */
	int (*floats)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		      source_floats_fn fn, void *arg, struct err *e);
	/* Profiles of series stamped in (after, until], without stacks, in order of time. */
	int (*profiles)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
			source_profiles_fn fn, void *arg, struct err *e);
	/* The same for who only adds up totals. They are not plain if one has another weight than 1 or covers nothing, or if they are SOURCE_POINTS_MOST
	 * together. Markers are left out. For `windows` (NULL: unknown) the source may return runs of profiles that each window has as a whole or not at all;
	 * a profile whose cover an edge cuts and the newest one at an edge are points of their own. Each profile of a run counts as a sample that was read.
	 * NULL: this source has only the list. */
	int (*points)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_windows *windows,
		      const struct source_limits *lim, source_points_fn fn, void *arg, struct err *e);
	/* The sums of each of many windows, without a list. If there is only one window, its spans are set, else none are. NULL: this source has only the
	 * list. */
	int (*covers)(struct source_view *v, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		      source_covers_fn fn, void *arg, struct err *e);
	/* Sums of whole profiles: ret[group] for each of n_groups (an empty vector if nothing fell into it). Vectors of
	 * one call may be over different symbols. Each owned by the caller. detail: what the caller needs of stacks. With SYMBOLS_NAMES it may also get
	 * whole ones; sums over many days cost much less. */
	int (*merge)(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		     const struct source_limits *lim, struct stackvec **ret, struct err *e);
	/* Like merge, but only the sum of the values of stacks that satisfy the filter: ret[group]; a filter of NULL selects
	 * all and reads no stack. exact[group] (may be NULL) gets the integer sum if all scales of the group are 1 and none of its parts is weighed. */
	int (*sums)(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups,
		    const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact,
		    struct err *e);
	/* Like sums of parts whose scale is 1, and in addition the total of all values and whether there is a profile. A graph of one
	 * function uses this. f is not NULL. NULL: this source has only sums.
	 * Both calls stay: sums by this one would keep three slots per step, read stacks where nobody filters, and has no scales; this one by
	 * calls of sums would read each window up to three times, and cannot count profiles. */
	int (*shares)(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		      const struct source_limits *lim, const struct source_shares *ret, struct err *e);
	/* The profiles of each of n series stamped in (after, until], each with the values that the filter selects. fn is called once per
	 * series, also for a series without profiles, roughly in order, by several threads at once. A rate of one function uses this. NULL:
	 * this source has only sums. */
	int (*matches)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_frame_filter *f,
		       const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e);
	/* Every value of the profiles of n series stamped in (after, until], and maybe of neighbours: each is passed
	 * once, by several threads at once. A graph over stacks reads each value once, however many of its steps use the
	 * profile. NULL: this source has only sums. */
	int (*cells)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms,
		     const struct source_limits *lim, const struct source_cells_reader *to, struct err *e);
	/* The rows of a graph over stacks. *ret_fits is false, and fn was not called, if sums may not fit in their integers. NULL: this source does not know the
	 * language. A reader that has neither cells nor rows merges each step. */
	int (*rows)(struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *arg,
		    struct err *e);
	/* Label names, or the values of one label, of series that satisfy the matchers (n may be 0), sorted, unique.
	 * *ret is owned; its strings are borrowed from the view. */
	int (*label_names)(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			   const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e);
	int (*label_values)(struct source_view *v, struct view name, const struct matcher *m, size_t n, int64_t after_ms,
			    int64_t until_ms, const struct source_limits *lim, struct view **ret, size_t *ret_n,
			    struct err *e);
};

/* Head of every implementation's view. */
struct source_view {
	const struct source_ops *ops;
};

struct source {
	/* A view of everything that is durable now. Release it soon: it holds back what was dropped. */
	int (*open)(struct source *s, struct source_view **ret, struct err *e);
};

#endif
