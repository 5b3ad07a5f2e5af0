/* SPDX-License-Identifier: Apache-2.0 */
/* A profile of an evaluation. It is a linear combination of stored profiles, kept as its terms until someone needs
 * stacks: value, sum, rate and diff never touch a stack, since storage knows every profile's total. A diff has two
 * sides, a - b. Immutable once made (materialising fills in `vec`), shared by reference. */
#ifndef PYRRHA_PROMQL_PROF_H
#define PYRRHA_PROMQL_PROF_H

#include "base/map.h"
#include "model/source.h"

struct eval;

/* Either stored profiles of one series (vec NULL) or a vector, times scale. */
struct term {
	uint64_t ref;
	int64_t after_ms, until_ms; /* stamped in (after, until] */
	struct stackvec *vec;       /* reference held */
	double scale;
};

struct side {
	struct term *t;
	size_t n, cap;
	bool no_terms;              /* only totals are wanted: terms are not kept */
	bool is_float;              /* a scale other than 1 or -1 was applied, or a float vector came in */
	int64_t total;              /* native unit, if !is_float */
	double ftotal;              /* native unit */
	struct stackvec *vec;       /* the whole side, once materialised; reference held */
};

struct prof {
	int refs;                   /* atomic */
	const struct ptype *type;
	int64_t period;
	double covered_s;
	double per_s;               /* a rate: the terms are the increase over that many seconds; 0 = no rate */
	bool diff;                  /* b is there */
	_Atomic bool again;         /* it is kept (shared.h), and was asked for again */
	struct prof_rows *rows[2];  /* of self, of total, by function: for those who ask again; NULL: not known */
	double whole;               /* what a share is of, base units; 0 = the value */
	struct side a, b;
};

/* Functions that several profiles have rows of, told apart by name; shared by reference. */
struct prof_names {
	int refs;                   /* atomic */
	struct prof_name {
		struct view name;
		uint64_t hash;      /* prof_name_hash */
	} *v;
	size_t n;
	struct map by_name;
	char *text;                 /* the names */
};
void prof_names_unref(struct prof_names *names);
/* UINT32_MAX: there is none of that name. */
uint32_t prof_names_find(const struct prof_names *names, struct view name, uint64_t hash);
static inline uint64_t prof_name_hash(struct view name)
{
	return hash_view(name) | 1;
}

/* The rows of a profile, by function. */
struct prof_rows {
	struct prof_names *names;   /* reference held */
	size_t n;
	uint32_t *name;             /* places in names, rising */
	double *native;             /* parallel to name */
	bool finite;                /* all of them */
	uint32_t *falling;          /* places in native, the greatest first; NULL: nobody asked (prof_rows_falling) */
};
void prof_rows_free(struct prof_rows *r);
/* The native number of names->v[name]; 0 if the profile has no such row. */
double prof_rows_native(const struct prof_rows *r, uint32_t name, bool *ret_there);
/* The rows of finite ones by their numbers; any thread may ask. */
const uint32_t *prof_rows_falling(struct prof_rows *r);

struct prof *prof_new(const struct ptype *type, int64_t period);
struct prof *prof_ref(struct prof *p);
void prof_unref(struct prof *p);

/* Makes room for n terms in all: for who knows how many there will be. */
void side_reserve(struct side *s, size_t n);
/* Adds stored profiles whose total is known; joins them with the last term if they continue it. */
int side_add_stored(struct side *s, uint64_t ref, int64_t after_ms, int64_t until_ms, int64_t total, double scale,
		    struct err *e) MUST_USE;
/* The terms from first on, stored profiles of one series and one scale, are all of it that is stamped in (after, until]. */
void side_widen(struct side *s, size_t first, int64_t after, int64_t until);
/* Adds a vector; takes a reference. */
int side_add_vec(struct side *s, struct stackvec *v, double scale, struct err *e) MUST_USE;
int side_add(struct side *s, const struct side *from, double scale, struct err *e) MUST_USE;

/* What a share of a profile with that value is of. */
static inline double prof_whole(const struct prof *p, double value)
{
	return p->whole ? p->whole : value;
}

/* Base units. */
double prof_value(const struct prof *p);
double side_total(const struct side *s);
/* total in the native unit, of a type whose unit has that factor; per_s as in a profile. It never falls as total rises. */
double prof_in_base(double total, double factor, double per_s);
double prof_factor(const struct prof *p); /* native unit to base unit, rate included */

/* p += other * scale, both sides; a rate meets a rate of another range by scaling. Types are the caller's matter. */
int prof_accumulate(struct prof *p, const struct prof *other, double scale, struct err *e) MUST_USE;
int prof_scale(const struct prof *p, double by, struct prof **ret, struct err *e) MUST_USE;
/* a - b, both sides kept. */
int prof_diff(const struct prof *a, const struct prof *b, double scale_a, struct prof **ret, struct err *e) MUST_USE;
/* What is to be done with two profiles, for who may meet whom, and for what an error says of it. */
enum prof_meeting {
	MEET_ADDED,      /* as they are: one type */
	MEET_GROUPED,    /* by an aggregation, which could keep them apart */
	MEET_SUBTRACTED, /* the NAMEs may differ */
};
/* Whether they may meet in op; the error names both. Units of one dimension may differ: *ret_scale rescales b. */
int prof_compatible(const struct ptype *a, const struct ptype *b, enum prof_meeting how, const char *op, double *ret_scale,
		    struct err *e) MUST_USE;

/* Fills in the vectors of all of them with one call of the source. */
int profs_materialise(struct eval *q, struct prof *const *p, size_t n, struct err *e) MUST_USE;
/* A new profile of the same kind with other vectors (b NULL unless p is a diff); takes the references. */
struct prof *prof_with(const struct prof *p, struct stackvec *a, struct stackvec *b, struct err *e);

#endif
