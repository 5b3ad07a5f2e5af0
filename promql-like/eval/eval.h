/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation. Every node is evaluated over a span of steps at once and gives a value (query.h). */
#ifndef PYRRHA_PROMQL_EVAL_H
#define PYRRHA_PROMQL_EVAL_H

#include "promql-like/syntax/func.h"
#include "promql-like/values/arith.h"
#include "promql-like/values/query.h"

/* ---- evaluation ---- */

/* ret is written on success only. */
int eval_node(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
/* Times that depend on the query, invariance, aliases: once, before evaluation. */
int eval_prepare(struct eval *q, struct node *n, struct err *e) MUST_USE;
/* Only the values of this node's profiles are used, not the profiles: tells it, and those nodes below for which this is then true
 * too. */
void eval_want_values(struct node *n);

/* Reference time of a selector at step i: @ and offset applied. */
static inline int64_t mods_time(const struct time_mods *m, int64_t t)
{
	return (m->at == AT_NONE ? t : m->at_ms) - m->offset_ms;
}

int eval_selector(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
/* When the samples were, in seconds, instead of their values. */
int eval_selector_times(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
int eval_binary(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
int eval_unary(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
int eval_aggregate(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
/* Another operation of the same clause, on what was evaluated; takes in. */
int eval_aggregate_of(struct eval *q, struct node *n, enum aggregate_op op, const struct span *sp, struct value *in,
		      struct value *ret, struct err *e) MUST_USE;
int eval_merge(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
int eval_split(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
int eval_call(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e) MUST_USE;
/* A range vector as the answer of an instant query. */
int eval_matrix(struct eval *q, struct node *n, int64_t t, struct value *ret, struct err *e) MUST_USE;

/* ---- ranges ---- */

/* One series of a range vector: its points over all windows of the span, oldest first. */
/* The bytes of a series' lists that count in the query. */
struct held_lists {
	struct eval *q;
	uint64_t bytes;
};

struct rseries {
	struct labels labels;
	bool drop_name;
	const struct ptype *type;  /* profiles; NULL: floats */
	struct point *pts;         /* values, without stale markers; of profiles once rseries_points was called */
	size_t n;
	struct source_profile *vp; /* plain range of profiles: stale markers included */
	size_t n_vp;
	struct source_points points; /* of range_each for rates and sums, instead of vp, if they are plain */
	uint64_t ref;              /* the series that they are of */
	struct source_cover *cover; /* of range_load_covers: what they come to in each window, instead of vp */
	size_t n_cover;
	bool near;                 /* of the first cover, without profiles: there is one shortly before (PWINDOW_NEAR_MS) */
	uint64_t *refs;            /* by profile, if they come from several: then what lies between two is not known to be nothing */
	struct value_sample *smp;        /* subquery: parallel to pts, with profiles */
	struct held_lists held;    /* as read; rseries_release gives it back */
};

struct range_vector {
	struct rseries *s;
	size_t n;
	bool subquery;
	int64_t range_ms;
	const struct time_mods *mods;
	struct value inner;        /* what smp points into */
};

/* The values of a series of profiles, for functions of values only. */
void rseries_points(struct rseries *s);
/* What a function needs of the series of a range. */
enum range_need {
	RANGE_PROFILES,
	RANGE_RATES,               /* of deltas points are enough, where storage has them */
	RANGE_SUMS,                /* the same, of those stamped in the windows alone */
};
/* Series by series, on all cores: each is read, handed to fn and forgotten. A plain range (NODE_RANGE), whose series are all
 * profiles of one type; anything else: *ret_done is false and nothing was done. prepare is called once, with labels and types;
 * fn with the number of the series. */
int range_each(struct eval *q, struct node *n, const struct span *sp, enum range_need need, void (*prepare)(void *arg, const struct range_vector *r),
	       int (*fn)(void *arg, const struct range_vector *r, size_t i, struct rseries *s, struct err *e), void *arg, bool *ret_done,
	       struct err *e) MUST_USE;
/* Labels, types and refs of the series of a plain range of profiles of one type, none of them replicas; anything else: *ret_done is false.
 * Nothing is read of them. */
int range_select(struct eval *q, struct node *n, const struct span *sp, struct range_vector *ret, bool *ret_done, struct err *e) MUST_USE;
int range_load(struct eval *q, struct node *n, const struct span *sp, struct range_vector *ret, struct err *e) MUST_USE;
/* The same of one step, or of steps whose windows are one after the other, for who wants to know of deltas what they come to and not which they are: cover instead of vp, where that is all
 * there is to say (one type, no replicas, totals that a double holds). */
int range_load_covers(struct eval *q, struct node *n, const struct span *sp, struct range_vector *ret, struct err *e) MUST_USE;
void range_free(struct range_vector *r);
/* What one series holds; range_free does it for all. */
void rseries_release(struct rseries *s);
/* An error if the argument is anchored or smoothed and fn does not support that. */
int eval_check_edges(const struct node *arg, const char *fn, struct err *e) MUST_USE;
/* Takes out the series that the range function of n can do nothing with (the rate of a gauge), each kind with a warning; an
 * error if there are no others. */
int range_drop_refused(struct eval *q, const struct node *n, struct range_vector *r, struct err *e) MUST_USE;
/* Counts what the windows of one series took. Begins as { 0 }. */
struct taken {
	uint64_t all, fresh;
	size_t seen;
};
static inline void taken_window(struct taken *t, size_t lo, size_t hi)
{
	t->all += hi - lo;
	t->fresh += hi - MAX(lo, MIN(t->seen, hi));
	t->seen = hi;
}
static inline void taken_count(struct eval *q, const struct taken *t, bool subquery)
{
	atomic_fetch_add_explicit(&q->counted, t->all, memory_order_relaxed);
	if (!subquery) /* what a subquery read was counted as it ran */
		atomic_fetch_add_explicit(&q->counted_read, t->fresh, memory_order_relaxed);
}
/* Moves [*lo, *hi) to the points in (from, to]; times only grow between calls. */
void window_slide(const struct point *pts, size_t n, size_t *lo, size_t *hi, int64_t from, int64_t to);

/* ---- functions that several files share ---- */

/* Series with equal labels become one; an error if they overlap. */
int merge_same_labels(struct value *v, struct err *e) MUST_USE;

double quantile_of(double q, double *sorted_work, size_t n);
/* Kahan-Neumaier. */
static inline void kahan_add(double inc, double *sum, double *c)
{
	double t = *sum + inc;
	if (__builtin_isinf(t))
		*c = 0;
	else if (__builtin_fabs(*sum) >= __builtin_fabs(inc))
		*c += (*sum - t) + inc;
	else
		*c += (inc - t) + *sum;
	*sum = t;
}

/* A mean: the plain one while the sum fits, then an incremental one. Begins as { 0 }. */
struct mean {
	double sum, c, mean, n;
	bool incremental;
};

static inline void mean_add(struct mean *m, double v)
{
	m->n++;
	if (m->n == 1) {
		m->sum = v;
		return;
	}
	if (!m->incremental) {
		double s = m->sum, k = m->c;
		kahan_add(v, &s, &k);
		if (!__builtin_isinf(s)) {
			m->sum = s;
			m->c = k;
			return;
		}
		m->incremental = true;
		m->mean = m->sum / (m->n - 1);
		m->c /= m->n - 1;
	}
	double keep = (m->n - 1) / m->n;
	m->mean *= keep;
	m->c *= keep;
	kahan_add(v / m->n, &m->mean, &m->c);
}

static inline double mean_value(const struct mean *m)
{
	return m->incremental ? m->mean + m->c : m->sum / m->n + m->c / m->n;
}

/* Takes out samples that are numbers, with a warning; an error with the remedy if there is nothing else. */
int keep_profiles(struct eval *q, const struct node *n, const char *fn, const char *remedy, struct value *v, struct err *e) MUST_USE;
/* The same warning or error of a range vector, which stays as it is. */
int check_profiles(struct eval *q, const struct node *n, const char *fn, const char *remedy, const struct range_vector *r, struct err *e) MUST_USE;
/* The error that fn has no meaning for snapshots. */
int refuse_subquery(const char *fn, struct err *e) MUST_USE;
/* Whether a call gives a row per function, so that readout_best can return only those among the k greatest (least) of each step; k is
 * a scalar. Ties may bring more. */
bool readout_can_choose(const struct node *n);
int readout_best(struct eval *q, struct node *n, const struct span *sp, bool greatest, const struct value *k,
		 struct value *ret, struct err *e) MUST_USE;
/* Whether a call gives a row per function; returns only the rows for which the comparison is true: row op number, or number op row. */
bool readout_has_rows(const struct node *n);
int readout_compared(struct eval *q, struct node *n, const struct span *sp, enum binary_op op, bool row_left, double number,
		     struct value *ret, struct err *e) MUST_USE;
/* Two of them, at one step, for a - b > c (large_left: then op and number are the condition on a) or a - b < c (the condition on b):
 * returns only rows that may matter. *ret_done is false, and nothing was done, where that cannot be told. */
int readout_minus(struct eval *q, struct node *a, struct node *b, const struct span *sp, bool large_left, enum binary_op op,
		  double number, struct value *ret_a, struct value *ret_b, bool *ret_done, struct err *e) MUST_USE;
/* The sum of a profile, without its stacks. */
struct total {
	int64_t i;                  /* native unit, if !is_float */
	double f;                   /* native unit */
	bool is_float, there;
};
/* As profile_window, but only what the profiles add up to: out[sp->n], zeroed; *ret_per_s as of a profile. */
int profile_totals(struct eval *q, const struct func *f, const struct range_vector *r, const struct rseries *s, const struct span *sp,
		   struct total *out, double *ret_per_s, struct err *e) MUST_USE;
/* A call of a range function over a plain range, and its sum or mean by groups, if only the values are used (node.values_only):
 * without making profiles. *ret_done is false, and nothing was done, if it is not such. */
int eval_totals(struct eval *q, struct node *n, const struct span *sp, struct value *ret, bool *ret_done, struct err *e) MUST_USE;
/* Profile results of range functions, one series. */
int profile_window(struct eval *q, const struct func *f, const struct node *n, struct range_vector *r, struct rseries *s,
		   const struct span *sp, struct value_series *out, struct err *e) MUST_USE;

/* The rows of another's graph, in q's view; sp has as many steps as it. root: what promql_parse makes of a->readout. As source_ops.rows. */
int readout_answer(struct eval *q, struct node *root, const struct source_graph *a, const struct span *sp, bool *ret_fits, source_rows_fn fn, void *arg,
		   struct err *e) MUST_USE;

#endif
