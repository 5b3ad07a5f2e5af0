/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ways of reading numbers out of stacks share: readout.c takes profile by profile, graph.c all steps of a
 * span at once. Private to them. */
#ifndef PYRRHA_PROMQL_READOUT_H
#define PYRRHA_PROMQL_READOUT_H

#include "choose.h"
#include "frames.h"
#include "funcs.h"

enum measure { SELF, TOTAL, SHARE, SELF_SHARE, SAMPLES, CALLERS, CALLEES };

enum granularity { BY_FUNCTION, BY_LINE, BY_FILE, BY_BINARY, BY_PACKAGE };

/* A sum that is exact as long as it can be. */
struct exact {
	int64_t i;
	double f;
	bool overflow;
};

static inline void add_exact(struct exact *x, const struct stackvec *v, size_t i, bool minus)
{
	if (v->is_float)
		x->f += minus ? -v->floats[i] : v->floats[i];
	else if (minus ? __builtin_sub_overflow(x->i, v->ints[i], &x->i) : __builtin_add_overflow(x->i, v->ints[i], &x->i))
		x->overflow = true;
}

static inline double native_of(const struct exact *x)
{
	return (double)x->i + x->f;
}

/* The rows met so far, over all profiles of the call. */
struct row {
	struct view function, file, line; /* in the query's arena; those that the granularity has */
};

struct row_memo {
	struct symbols *s;
	uint32_t *lines, *bare; /* row + 1 by line id, by location id */
	uint32_t n_lines, n_locations;
};

struct readout {
	struct eval *q;
	struct node *n;
	enum measure measure;
	enum granularity by;
	bool has_frames;
	struct frames frames;
	/* self(focus(P, F)): what P is, and the filters around it, as long as it can be read in one pass; else in is the argument. */
	struct node *in;
	VEC(struct chooser) choosers;
	VEC(struct row) rows;
	struct map row_map;
	VEC(struct row_memo) memos;
	/* of the profile at work */
	VEC(struct exact) sums;       /* by row */
	VEC(uint32_t) touched;
	uint32_t *seen;               /* by row: stamp of the stack that counted it last */
	size_t n_seen;
	uint32_t stamp;
	struct buf tmp;
	/* output series by (input series, row) */
	struct map out_map;
	VEC(struct { size_t in; uint32_t row; }) out_keys;
	struct value out;
	VEC(struct labels) ins;       /* input series met, over all chunks */
};

/* The row of line i of a location (0: the location itself, if it has no lines). */
uint32_t readout_row(struct readout *r, struct row_memo *m, uint32_t location, uint32_t i);
struct row_memo *readout_memo(struct readout *r, struct symbols *s);
/* The number of an input series, by its labels. */
size_t readout_in(struct readout *r, struct labels l);
/* The output series of an input series and a row; UINT32_MAX: the one that has no row. */
struct series *readout_out(struct readout *r, size_t in, uint32_t row);
/* By function, file and line. */
int readout_cmp_rows(const struct readout *r, uint32_t a, uint32_t b);
/* Native unit to base unit. */
double readout_value(const struct prof *p, double native);

int readout_overflow(struct err *e);

/* One number per profile of v. */
int readout_sums(struct readout *r, struct value *v, struct err *e);
int readout_samples(struct readout *r, struct value *v, struct err *e);

/* The best of each step that topk and bottomk ask for: others need not be put out. */
struct keep {
	bool greatest;
	const struct value *k; /* a scalar per step */
};

/* Rows of all profiles of v, whose steps are sp, in one pass over what is stored. *ret_done is false, and nothing was put
 * out, if stacks have to be made for it. *ret_columns: how many columns there were, to choose the next span. */
int graph_read(struct readout *r, struct value *v, const struct span *sp, const struct keep *keep, bool *ret_done,
	       size_t *ret_columns, struct err *e);

#endif
