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

/* What was read for a query. A chunk is what storage reads at once: a value on disk, a series' window in memory; its
 * bytes are those it takes there. */
struct source_stats {
	atomic_uint_fast64_t chunks, samples, bytes;
};

/* What is stored, was asked for and is damaged, so that the answer is without it. Zeroed: nothing. Any thread may add. */
struct source_damage {
	atomic_uint_fast64_t met;           /* how often something damaged was met */
	atomic_int_fast64_t until_ms;       /* the end of the last stretch of time that is concerned */
	atomic_int_fast64_t before_from_ms; /* INT64_MAX less the beginning of the first */
};

void source_damage_add(struct source_damage *d, int64_t after_ms, int64_t until_ms);
/* The warning that an answer carries for it, into text; false (and nothing) if there is nothing to say. */
bool source_damage_say(const struct source_damage *d, char *text, size_t size);

/* What a query may cost; checked by the source while it works. */
struct source_limits {
	int64_t deadline_mono_ns;    /* 0 = none */
	const atomic_bool *canceled; /* NULL = cannot be */
	const atomic_bool *stopped;  /* there is no memory left for it; NULL = cannot be */
	uint64_t max_samples;        /* values read, 0 = unlimited */
	atomic_uint_fast64_t *samples_read; /* counts up; may be NULL */
	struct source_stats *stats;  /* counts up; may be NULL */
	struct pool *pool;           /* to fan out over; NULL = the caller's thread only */
	uint64_t max_bytes;          /* of stacks that are held for this query alone, beside those it returns; 0 = unlimited */
	struct source_damage *damage; /* what is damaged is left out and noted here; NULL: it is an error, ERR_CORRUPT */
	struct regex_meter *regex;   /* of the matchers' expressions; may be NULL */
};

/* ERR_CANCELED, ERR_UNAVAILABLE, ERR_TIMEOUT, or 0: for who works long without reading. */
int source_limits_check(const struct source_limits *lim, struct err *e) MUST_USE;

struct source_series {
	struct labels labels;        /* with __name__; borrowed from the view */
	const struct ptype *type;    /* NULL: floats */
	uint64_t ref;                /* names it in the calls below, within this view */
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

/* Windows that follow each other: the k-th of n is (after + k width, after + (k + 1) width]. */
struct source_tiles {
	int64_t after_ms, width_ms;
	size_t n;
};

/* A stretch of time that profiles cover. */
struct source_span {
	int64_t after_ms, until_ms;
};

/* What the profiles of one series in a range come to, without a look at each by who asks. */
struct source_cover {
	uint64_t n, n_stale;         /* stamps, markers included; of these markers */
	int64_t total, period;       /* of the profiles: the sum of their totals, native unit; the largest period */
	uint64_t magnitude;          /* sum of |total|, at most UINT64_MAX; above SOURCE_EXACT total may not be what it should */
	VEC(struct source_span) spans; /* that they cover, in no order: where one goes on from the last they are one */
};
#define SOURCE_EXACT (UINT64_C(1) << 53)

void source_cover_add_span(struct source_cover *c, int64_t after_ms, int64_t until_ms);
void source_cover_add_total(struct source_cover *c, int64_t total);
/* One of those in the range. */
static inline void source_cover_add(struct source_cover *c, int64_t t_ms, int64_t cover_ms, int64_t total, int64_t period, bool stale)
{
	c->n++;
	c->n_stale += stale;
	if (stale)
		return;
	source_cover_add_total(c, total);
	c->period = MAX(c->period, period);
	source_cover_add_span(c, t_ms - cover_ms, t_ms);
}
/* What another comes to, without its spans. */
void source_cover_add_other(struct source_cover *c, const struct source_cover *other);
void source_cover_release(struct source_cover *c);

/* Whole profiles of one series that add up into one output; with n_steps above 1 into as many at once, which is what a
 * graph asks: step k takes those stamped in (after + k step, until + k step] and is output group + k.
 *
 * What is cheap: parts that differ only in their series, one after the other, are read as one question. If they are all
 * series of a service (of one name and type; the storage is told which labels make a service) and the ranges begin and
 * end on whole minutes, one sum per minute is read instead of the series; the answer is the same. So pass the range that
 * was asked for, not the stamps found in it. */
struct source_part {
	uint64_t ref;
	int64_t after_ms, until_ms;  /* those stamped in (after, until] */
	double scale;                /* 1 keeps integers exact */
	uint32_t group;              /* index of the output, or of the first */
	uint32_t n_steps;            /* 0 is 1 */
	int64_t step_ms;             /* above 0 if there are several */
};

/* Which stacks count. Filled by the engine, evaluated by the source once per distinct frame or stack. */
struct source_frame_filter {
	/* Whether one frame (line `line` of the location; inlined ones count; line = n_lines of a location without
	 * lines means the bare location) satisfies the matcher: 1 or 0; negative with *e filled ends the reading. */
	int (*frame)(const void *arg, const struct symbols *s, const struct sym_location *l, uint32_t line, struct err *e);
	const void *arg;
	bool leaf_only;              /* self instead of total: only the innermost frame of the leaf counts */
};

/* What groups of profiles come to, by group: what a filter lets through, all, and how many there are, where a sum of several may
 * count as one: above 0 if there is any. */
struct source_shares {
	int64_t *match, *total, *there;
};

/* Profiles of one series of the caller's refs in order of time, and of each what a filter lets through. Negative with *e filled stops the
 * reading. worker: 0 .. pool_size(lim->pool); calls of one worker follow each other. */
typedef int (*source_matches_fn)(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker,
				 struct err *e);

/* Values of one series as they are stored, of a window of time: value i is that of columns[i] in the profile that is
 * stamped t_ms[rows[i]]. A column is met at most once per row; rows are in no order. */
struct source_cells {
	size_t series;               /* index of the caller's refs */
	int64_t after_ms, until_ms;  /* the window: those of one follow each other as far as several threads let them */
	struct symbols *symbols;     /* what the columns are of; borrowed from the view */
	const int64_t *t_ms;
	size_t n_rows, n;
	const uint32_t *rows, *columns;
	const int64_t *values;
	const uint8_t *summed;       /* by row: the sum of its minute is handed out, too, with it in it; NULL: of none */
};
/* Negative with *e filled stops the reading. worker: 0 .. pool_size(lim->pool); calls of one worker follow each other. */
typedef int (*source_cells_fn)(void *arg, const struct source_cells *c, unsigned worker, struct err *e);
/* Whether what is stamped in (after, until] counts the same for the caller, of series a and of b (a may be b): not at all; of a whole minute, but
 * for a few profiles, as what is stamped in the middle of it does, alike for both; as long as only what lies in one whole minute is added up; or all of
 * it, so that its sum counts as it does. Storage may then hand out such sums of services, stamped with the middle of the minute, or of
 * a series or service as one row, stamped at the end of the range, as if they were of one of the series. Before the first profile is
 * taken, one thread. */
enum source_alike { SOURCE_UNLIKE, SOURCE_ALIKE_BUT_FEW, SOURCE_ALIKE_BY_MINUTE, SOURCE_ALIKE };
typedef enum source_alike (*source_alike_fn)(void *arg, size_t a, size_t b, int64_t after_ms, int64_t until_ms);
/* Whether a profile is one of the few: it counts otherwise than the middle of its minute. Such are handed out by themselves, too, as
 * `summed`. Any thread. */
typedef bool (*source_odd_fn)(void *arg, size_t series, int64_t t_ms);
/* Who reads cells. */
struct source_cells_reader {
	source_cells_fn take;
	source_alike_fn alike;       /* NULL: no two series are */
	source_odd_fn odd;           /* NULL: alike never says SOURCE_ALIKE_BUT_FEW */
	void *arg;
};
#define SOURCE_MINUTE_MS INT64_C(60000)
/* The middle of the minute that a stamp lies in. */
static inline int64_t source_mid_minute(int64_t t_ms)
{
	int64_t in = (t_ms - 1) % SOURCE_MINUTE_MS;
	return t_ms - 1 - (in < 0 ? in + SOURCE_MINUTE_MS : in) + SOURCE_MINUTE_MS / 2;
}

struct source_view;

/* Calls return 0 or a negative code, and what they return through a pointer is only there after 0: ERR_TIMEOUT, ERR_CANCELED and
 * ERR_LIMIT of the limits, ERR_EXECUTION where a sum does not fit in 64 bits, ERR_IO and ERR_CORRUPT of what is stored. lim may be
 * NULL: none. */
struct source_ops {
	void (*release)(struct source_view *v);
	/* Series with data in (after, until] that satisfy all matchers, sorted by labels. The array is malloc'd, the caller
	 * frees it. */
	int (*select)(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		      const struct source_limits *lim, struct source_series **ret, size_t *ret_n, struct err *e);
	/* Samples of a float series in (after, until], stale markers included. malloc'd. */
	int (*floats)(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms,
		      const struct source_limits *lim, struct point **ret, size_t *ret_n, struct err *e);
	/* Profiles of a series stamped in (after, until], without stacks, in order of time. malloc'd. */
	int (*profiles)(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms,
			const struct source_limits *lim, struct source_profile **ret, size_t *ret_n, struct err *e);
	/* The same without a list of them; *ret is zeroed before, and released by the caller also after an error. NULL: this source has
	 * only the list. */
	int (*cover)(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		     struct source_cover *ret, struct err *e);
	/* The same of each of many windows, into ret[t->n], without spans; ret is zeroed before. NULL: as of cover. */
	int (*covers)(struct source_view *v, uint64_t ref, const struct source_tiles *t, const struct source_limits *lim, struct source_cover *ret,
		      struct err *e);
	/* Sums of whole profiles: ret[group] for each of n_groups (an empty vector if nothing fell into it). Vectors of
	 * one call may be over different symbols. Each owned by the caller. */
	int (*merge)(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups,
		     const struct source_limits *lim, struct stackvec **ret, struct err *e);
	/* As merge, but only the sum of the values of stacks that satisfy the filter: ret[group]; a filter of NULL takes all
	 * and reads no stack. exact[group] (may be NULL) gets the integer sum where all scales of the group are 1. */
	int (*sums)(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups,
		    const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact,
		    struct err *e);
	/* As sums of parts whose scale is 1, and beside these what all values add up to and whether there is a profile: what a graph of one
	 * function is made of. f is not NULL. NULL: this source has only sums. */
	int (*shares)(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		      const struct source_limits *lim, const struct source_shares *ret, struct err *e);
	/* The profiles of each of n series stamped in (after, until], with what the filter lets through of each: handed to fn once per series,
	 * also of one that has none, about in their order, by several threads at once. What a rate of one function is made of. NULL: this
	 * source has only sums. */
	int (*matches)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_frame_filter *f,
		       const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e);
	/* Every value of the profiles of n series stamped in (after, until], and maybe of neighbours: each is handed out
	 * once, by several threads at once. What a graph over stacks reads, however many of its steps want a profile. */
	int (*cells)(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms,
		     const struct source_limits *lim, const struct source_cells_reader *to, struct err *e);
	/* Label names, or the values of one label, of series that satisfy the matchers (n may be 0), sorted, unique;
	 * the array and its strings are one malloc'd block. */
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
