/* SPDX-License-Identifier: Apache-2.0 */
/* A stackvec is a profile in the form for merging and querying: a sparse vector over the columns (stack, sample
 * label set) of a symbols. Pure: no I/O, no clock.
 *
 * Values are int64 and exact as long as they were only added, subtracted or filtered (an overflow is ERR_EXECUTION);
 * scaling makes them doubles. Both in the sample type's own unit. A vector is immutable once made and shared by
 * reference; columns ascend, no column twice, zero values may stay (they are dropped on export). */
#ifndef PYRRHA_MODEL_STACKVEC_H
#define PYRRHA_MODEL_STACKVEC_H

#include "model/symbols.h"

struct stackvec {
	int refs; /* atomic */
	struct symbols *symbols; /* reference held */
	size_t n;
	uint32_t *columns;
	bool is_float;
	union {
		int64_t *ints;   /* !is_float */
		double *floats;  /* is_float */
	};
};

/* Takes the arrays (malloc'd, columns ascending and unique); takes a reference of symbols. Returns owned. */
struct stackvec *stackvec_new_ints(struct symbols *s, uint32_t *columns, int64_t *values, size_t n);
struct stackvec *stackvec_new_floats(struct symbols *s, uint32_t *columns, double *values, size_t n);
struct stackvec *stackvec_empty(struct symbols *s);
struct stackvec *stackvec_ref(struct stackvec *v);
void stackvec_unref(struct stackvec *v);

/* Sum of all values; exact for ints. ERR_EXECUTION on overflow (ret_int). */
double stackvec_total(const struct stackvec *v);
int stackvec_total_int(const struct stackvec *v, int64_t *ret, struct err *e) MUST_USE;

/* An accumulator: adds vectors and single columns of one symbols in any order. Dense where that pays. */
struct stackacc;
struct stackacc *stackacc_new(struct symbols *s);
void stackacc_free(struct stackacc *a);
void stackacc_add(struct stackacc *a, uint32_t column, int64_t value);
/* value * scale: makes the result float. */
void stackacc_add_scaled(struct stackacc *a, uint32_t column, double value);
/* All of v * scale; v may be over another symbols (its columns are translated). Scale 1 of ints stays exact. */
int stackacc_add_vec(struct stackacc *a, const struct stackvec *v, double scale, struct err *e) MUST_USE;
/* The vector; the accumulator is empty afterwards. Returns owned; NULL and *e on overflow. */
struct stackvec *stackacc_finish(struct stackacc *a, struct err *e);

/* v over another symbols (itself, referenced, if it is there already). Returns owned; NULL and *e on overflow (two
 * columns that become one). */
struct stackvec *stackvec_rebase(struct stackvec *v, struct symbols *to, struct err *e);
/* Sum of n vectors, each times its scale (scales NULL = all 1), over `to`. google/pprof's merge and, with -1,
 * its diff. Returns owned; NULL and *e on overflow. */
struct stackvec *stackvec_sum(struct symbols *to, struct stackvec *const *v, const double *scales, size_t n,
			      struct err *e);

/* From a flat profile: one vector per sample type, in ret[0 .. p->n_sample_types). Samples with equal keys add up. */
int stackvec_from_profile(struct symbols *s, struct profile *p, struct stackvec **ret, struct err *e) MUST_USE;
/* To a flat profile: n vectors over one symbols become the sample types of out, which is reset first. The caller sets strings
 * and header; sample_types[i] get the given names. Floats are rounded half away from zero (ERR_EXECUTION if they do not fit);
 * all-zero samples are left out; the main binary's mapping comes first. */
struct stackvec_type {
	struct view type, unit;
};
int stackvec_to_profile(struct stackvec *const *v, const struct stackvec_type *types, size_t n, struct profile *out,
			struct err *e) MUST_USE;

#endif
