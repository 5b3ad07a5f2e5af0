/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by both ways of reading numbers out of stacks: readout_calls.c with readout_rows.c goes profile by profile, graph.c all steps of a
 * span at once. Private to them. */
#ifndef PYRRHA_PROMQL_READOUT_H
#define PYRRHA_PROMQL_READOUT_H

#include <math.h>

#include "base/num.h"
#include "promql-like/stacks/frames.h"
#include "promql-like/stacks/stack_filter.h"
#include "promql-like/syntax/func.h"
#include "promql-like/values/arith.h"
#include "promql-like/values/query.h"

enum measure { SELF, TOTAL, SHARE, SELF_SHARE, SAMPLES, CALLERS, CALLEES };

enum granularity { BY_FUNCTION, BY_LINE, BY_FILE, BY_BINARY, BY_PACKAGE };

/* Which of Wilson's bounds of a share is meant. */
enum bound { NO_BOUND, LOW, HIGH };

/* A sum that is exact as long as it can be. */
struct exact {
	int64_t i;
	struct num_sum f;
	bool overflow;
};

static inline void add_exact(struct exact *x, const struct stackvec *v, size_t i, bool minus)
{
	if (v->is_float)
		num_sum_add(&x->f, minus ? -v->floats[i] : v->floats[i]);
	else if (minus ? __builtin_sub_overflow(x->i, v->ints[i], &x->i) : __builtin_add_overflow(x->i, v->ints[i], &x->i))
		x->overflow = true;
}

static inline double native_of(const struct exact *x)
{
	return (double)x->i + num_sum_value(x->f);
}

/* The longest range of which a graph reads each profile for all of its steps at once (graph_terms.h). */
#define GRAPH_RANGE_MOST_MS (3 * INT64_C(3600000))

/* Sums of values that cannot overflow. */
__extension__ typedef __int128 wide;

/* The rows met so far, over all profiles of the call. */
struct readout_row {
	struct view function, file, line; /* in a dictionary that a memo holds, or the query's arena; those that the granularity has */
	uint64_t hash;                /* 0: not known yet */
};

struct row_set {
	unsigned by;                  /* enum granularity */
	VEC(struct readout_row) rows;
	struct map map;
	uint64_t lengths;             /* bit i: a name has a length that is i modulo 64. Most rows need not be hashed */
};

/* Which rows are wanted: others need not be named or put out. */
struct row_choice {
	bool compared;                /* those for which it is true, */
	enum binary_op op;            /* as they are written: */
	bool row_left;                /* row op number, or number op row */
	double number;
	const struct value *best_k;   /* those among this many best of each step, a scalar */
	bool greatest;
	const struct row_set *only;   /* those of these names */
	struct row_set *put;          /* receives the names of the returned ones */
	/* what occurred, for callers that need it: */
	bool negative;                /* numbers below 0, or none, also of rows that were not wanted */
	bool twins;                   /* rows of two input series might have equal labels except the name */
};

/* What makes a native number of a profile that which is put out, its value, share or bound: the same for all of its rows. */
struct readout_reading {
	double factor, per_s;          /* to base units */
	bool share, idle;              /* idle: the whole is 0, and the share of 0 is 0 */
	double whole;
	enum bound bound;
	double observations, z;
};

/* The current profile's values in a row. */
struct row_sum {
	wide i;
	struct num_sum f;
	uint32_t stamp;               /* of the stack that counted it last */
	bool touched;
};

static inline double row_native(const struct row_sum *x)
{
	return (double)x->i + num_sum_value(x->f);
}

struct row_memo {
	struct symbols *s;
	uint32_t *lines, *bare; /* row + 1 by line id, by location id (of those with one frame) */
	uint32_t n_lines, n_locations;
	uint32_t *place;        /* by node id, of the nodes of the current profile: where in readout.tree its subtree is added up */
	size_t n_place;
	uint64_t *marks, *marked; /* a bit per node, and one per word of marks; all 0 between profiles */
	uint32_t *names, n_names; /* row + 1 by string id; of the first dictionary, by function */
};

struct row_frame;
extern const char *const granularity_names[BY_PACKAGE + 1];

struct readout {
	struct eval *q;
	struct node *n;
	enum measure measure;
	enum granularity by;
	bool has_frames;
	bool frame_rows;              /* a row per granule, of matching frames alone */
	struct frames frames;
	enum bound bound;
	const struct span *sp;        /* of the whole call */
	struct value z;               /* standard errors; a scalar at each step of sp */
	struct row_choice *choice;    /* NULL: all rows */
	/* self(focus(P, F)): what P is, and the filters around it, as long as it can be read in one pass; else in is the argument. */
	struct node *in;
	VEC(struct stack_filter) stack_filters;
	VEC(struct readout_row) rows;
	struct map row_map;           /* by name, if mapped */
	bool mapped;
	VEC(struct row_memo) memos;
	/* of the profile at work */
	struct row_sum *sums;         /* by row */
	size_t n_sums;
	VEC(uint32_t) touched;        /* rows that it has */
	VEC(struct row_frame) tree; /* callers before callees */
	VEC(double) tree_rests;       /* of floats: beside `tree`, what rounding took (struct num_sum) */
	uint32_t path, *on;           /* by row: the frame that is of the row, at path or above it; 0: none */
	uint32_t stamp;
	struct buf tmp;
	/* output series by (input series, row) */
	struct map out_map;
	VEC(struct { size_t in; uint32_t row; }) out_keys;
	struct value out;
	VEC(struct labels) ins;       /* input series met, over all chunks */
};

struct readout_reading readout_reading(const struct readout *r, const struct value_sample *s);
/* Wilson's lower or upper bound of a share p of n observations, z standard errors out. */
double reading_bound(double p, double n, double z, enum bound which);
/* False: nothing is put out. */
static inline bool reading_number(const struct readout_reading *x, double native, double *ret)
{
	double v = lazy_profile_in_base(native, x->factor, x->per_s);
	if (x->share) {
		if (x->whole == 0 && (native != 0 || !x->idle))
			return false;
		v = x->whole == 0 ? 0 : v / x->whole; /* of a profile that is there and idle */
		if (x->bound)
			v = reading_bound(v, x->observations, x->z, x->bound);
	}
	*ret = v;
	return true;
}
/* Whether numbers never fall as native ones rise; bounds may, but for the last of their digits (READING_SLACK). */
static inline bool reading_rises(const struct readout_reading *x)
{
	return !x->share || (x->whole > 0 && isfinite(x->whole));
}
#define READING_SLACK 1e-9

/* The row of line i of a location (0: the location itself, if it has no lines). */
uint32_t readout_row(struct readout *r, struct row_memo *m, uint32_t location, uint32_t i);
/* The row with these names, which are copied. */
uint32_t readout_row_of(struct readout *r, struct view function, struct view file, struct view line);
struct row_memo *readout_memo(struct readout *r, struct symbols *s);
/* The number of an input series, by its labels. */
size_t readout_in(struct readout *r, struct labels l);
/* The output series of an input series and a row; UINT32_MAX: the one that has no row. */
struct value_series *readout_out(struct readout *r, size_t in, uint32_t row);
/* By function, file and line. */
int readout_cmp_rows(const struct readout *r, uint32_t a, uint32_t b);
int readout_overflow(struct err *e) MUST_USE;

/* Adds the rows of a side of a profile to r->sums, frames_failed of r->frames unchanged; forget them after it. */
void readout_rows(struct readout *r, const struct stackvec *v, bool minus);
void readout_forget_rows(struct readout *r);
/* The profile at work has the row of that function, at least 0. */
void readout_touch_function(struct readout *r, struct view name);
/* How many observations one base unit of it is. */
double readout_per_observation(const struct lazy_profile *p);
/* The row of a function; hash 0: not known. Sets what the profile at work has in it. */
uint32_t readout_row_named(struct readout *r, struct view name, uint64_t hash);
void readout_set_row(struct readout *r, uint32_t row, double native);
/* Puts out the wanted ones of the rows of the profile at work. */
int readout_put_rows(struct readout *r, size_t in, const struct value_sample *s, struct err *e) MUST_USE;
int readout_check_rows(const struct readout *r, struct err *e) MUST_USE;
/* Readouts of kept profiles that are asked for again; *ret_done is false, and nothing was put out, of others. */
int readout_kept(struct readout *r, struct value *v, bool *ret_done, struct err *e) MUST_USE;
/* Keeps only elements whose bounds are known, with a warning; an error if there are none. */
int readout_keep_counted(struct readout *r, struct value *v, struct err *e) MUST_USE;

/* The filter of frames for storage: that of r->frames. */
struct source_frame_filter readout_filter(const struct readout *r);
/* One number per profile of v. */
int readout_sums(struct readout *r, struct value *v, struct err *e) MUST_USE;
int readout_samples(struct readout *r, struct value *v, struct err *e) MUST_USE;

void row_set_free(struct row_set *s);
/* Adds a row to choice.put. */
void readout_note_put(struct readout *r, uint32_t row);
bool readout_wants_name(struct readout *r, const struct row_set *names, uint32_t row);
/* Whether the choice wants a row whose number is v, by that alone. */
static inline bool choice_wants(const struct row_choice *c, double v)
{
	return !c || !c->compared || binary_number(c->op, c->row_left ? v : c->number, c->row_left ? c->number : v) != 0;
}
/* Leaves those of the rows of the profile at work that are wanted. An error if one of them all does not fit. */
int readout_choose_rows(struct readout *r, const struct value_sample *s, const struct readout_reading *x, struct err *e) MUST_USE;
/* After the last profile: fills in choice.twins. */
void readout_find_twins(struct readout *r);

/* Rows of all profiles of v, whose steps are sp, in one pass over the stored data. *ret_done is false, and nothing was put out, if
 * stacks have to be made for it. *ret_rows: how many rows there were, to choose the next span. */
int graph_read(struct readout *r, struct value *v, const struct span *sp, bool *ret_done, size_t *ret_rows, struct err *e) MUST_USE;

/* The other side of it: the rows that another reader's graph has in a view of this process. r has the measure, the granularity and the stack filters. As
 * source_ops.rows. */
int graph_answer(struct readout *r, const struct source_graph *a, const struct span *sp, bool *ret_fits, source_rows_fn fn, void *arg,
		 struct err *e) MUST_USE;

/* Whether what is asked counts for the innermost frame only. */
static inline bool graph_of_self(const struct readout *r)
{
	return r->measure == SELF || r->measure == SELF_SHARE;
}

/* The number of the step at t_ms. */
static inline uint32_t graph_step(const struct span *sp, int64_t t_ms)
{
	return (uint32_t)((t_ms - sp->start) / sp->step);
}

#endif
