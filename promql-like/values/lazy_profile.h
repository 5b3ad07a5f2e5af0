/* SPDX-License-Identifier: Apache-2.0 */
/* A profile of an evaluation. It is a linear combination of stored profiles, kept as its terms until someone needs stacks. value, sum,
 * rate and diff never touch a stack, since storage knows every profile's total. A diff has two sides, a - b. Immutable once made
 * (materialising fills in `vec`), shared by reference. */
#ifndef PYRRHA_PROMQL_LAZY_PROFILE_H
#define PYRRHA_PROMQL_LAZY_PROFILE_H

#include "base/map.h"
#include "model/source.h"

struct eval;

/* Either stored profiles of one series (vec NULL) or a vector, times scale. */
struct lazy_term {
	uint64_t ref;
	int64_t after_ms, until_ms; /* stamped in (after, until] */
	struct stackvec *vec;       /* reference held */
	double scale;
	struct source_weigh weigh;  /* of stored profiles */
};

struct lazy_side {
	struct lazy_term *t;
	size_t n, cap;
	bool no_terms;              /* only totals are wanted: terms are not kept */
	bool is_float;              /* a scale other than 1 or -1 was applied, or a float vector came in */
	int64_t total;              /* native unit, if !is_float */
	double ftotal;              /* native unit */
	struct stackvec *vec;       /* the whole side, once materialised; reference held. Other threads may set it: read by lazy_side_whole */
};

struct lazy_profile {
	int refs;                   /* atomic */
	const struct ptype *type;
	int64_t period;
	double covered_s;
	struct source_weights weights; /* of a, native unit */
	bool base_mixed;            /* as lazy_profile_weight has it, of b */
	bool moment;                /* the value is that of one measurement, or the mean of several; covered_s is the length of one */
	double per_s;               /* a rate: the terms are the increase over that many seconds; 0 = no rate */
	bool diff;                  /* b is there */
	_Atomic bool again;         /* it is kept (shared.h), and was asked for again */
	struct lazy_profile_rows *rows[2];  /* of self, of total, by function: cached; NULL: not known */
	double whole;               /* what a share is of, base units; 0 = the value */
	struct lazy_side a, b;
};

/* Functions that several profiles have rows of, distinct by name; shared by reference. */
struct lazy_profile_names {
	int refs;                   /* atomic */
	struct lazy_profile_name {
		struct view name;
		uint64_t hash;      /* lazy_profile_name_hash */
	} *v;
	size_t n;
	struct map by_name;
	char *text;                 /* the names */
};
void lazy_profile_names_unref(struct lazy_profile_names *names);
/* UINT32_MAX: the name is unknown. */
uint32_t lazy_profile_names_find(const struct lazy_profile_names *names, struct view name, uint64_t hash);
static inline uint64_t lazy_profile_name_hash(struct view name)
{
	return hash_view(name) | 1;
}

/* The rows of a profile, by function. */
struct lazy_profile_rows {
	struct lazy_profile_names *names;   /* reference held */
	size_t n;
	uint32_t *name;             /* places in names, rising */
	double *native;             /* parallel to name */
	bool finite;                /* all of them */
	uint32_t *falling;          /* places in native, the greatest first; NULL: not made yet (lazy_profile_rows_falling) */
};
void lazy_profile_rows_free(struct lazy_profile_rows *r);
/* The native number of names->v[name]; 0 if the profile has no such row. */
double lazy_profile_rows_native(const struct lazy_profile_rows *r, uint32_t name, bool *ret_there);
/* The rows of finite ones by their numbers; any thread may ask. */
const uint32_t *lazy_profile_rows_falling(struct lazy_profile_rows *r);

struct lazy_profile *lazy_profile_new(const struct ptype *type, int64_t period);
struct lazy_profile *lazy_profile_ref(struct lazy_profile *p);
void lazy_profile_unref(struct lazy_profile *p);

/* Makes room for n terms in all: for callers that know their number. */
void lazy_side_reserve(struct lazy_side *s, size_t n);
/* Adds stored profiles whose total is known; joins them with the last term if they continue it. */
int lazy_side_add_stored(struct lazy_side *s, uint64_t ref, int64_t after_ms, int64_t until_ms, int64_t total, double scale,
			 struct err *e) MUST_USE;
/* Adds stored profiles that are weighed. Their value is not added to the side's. */
void lazy_side_add_weighed(struct lazy_side *s, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_weigh *weigh, double scale);
/* The terms from first on, stored profiles of one series and one scale, are all of its profiles that are stamped in (after, until]. */
void lazy_side_widen(struct lazy_side *s, size_t first, int64_t after, int64_t until);

/* The whole for a share of a profile with that value. */
static inline double lazy_profile_whole(const struct lazy_profile *p, double value)
{
	return p->whole ? p->whole : value;
}

/* Base units. first: of a diff, the value of what something is subtracted from; else the same. */
double lazy_profile_value(const struct lazy_profile *p);
double lazy_profile_first(const struct lazy_profile *p);
double lazy_side_total(const struct lazy_side *s);
/* What a unit of the value stands for in covered_s, which is 1 unless less than the covered time was measured: value x weight / covered_s
 * is the rate. *ret_mixed: the weights that it is the mean of differ so much that those of functions do, too. */
double lazy_profile_weight(const struct lazy_profile *p, bool *ret_mixed);
/* total in the native unit, of a type whose unit has that factor; per_s as in a profile. It never falls as total rises. */
double lazy_profile_in_base(double total, double factor, double per_s);
double lazy_profile_factor(const struct lazy_profile *p); /* native unit to base unit, rate included */

/* p += other * scale, both sides; a rate meets a rate of another range by scaling. Types are the caller's matter. */
int lazy_profile_accumulate(struct lazy_profile *p, const struct lazy_profile *other, double scale, struct err *e) MUST_USE;
int lazy_profile_scale(const struct lazy_profile *p, double by, struct lazy_profile **ret, struct err *e) MUST_USE;
/* a - b, both sides kept. */
int lazy_profile_diff(const struct lazy_profile *a, const struct lazy_profile *b, double scale_a, struct lazy_profile **ret, struct err *e) MUST_USE;
/* The operation on two profiles, which decides the types that fit, and the text of an error. */
enum lazy_profile_meeting {
	MEET_ADDED,      /* unchanged: one type */
	MEET_GROUPED,    /* by an aggregation, which could keep them apart */
	MEET_SUBTRACTED, /* the NAMEs may differ */
};
/* Whether they may meet in op; the error names both. Units of one dimension may differ: *ret_scale rescales b. */
int lazy_profile_compatible(const struct ptype *a, const struct ptype *b, enum lazy_profile_meeting how, const char *op, double *ret_scale,
			    struct err *e) MUST_USE;

/* The vector of the whole side, borrowed; NULL: it is not materialised yet. Queries share profiles, so another thread may set it at any time. */
static inline struct stackvec *lazy_side_whole(const struct lazy_side *s)
{
	return __atomic_load_n(&s->vec, __ATOMIC_ACQUIRE);
}

/* Fills in the vectors of all of them with one call of the source. */
int lazy_profiles_materialise(struct eval *q, struct lazy_profile *const *p, size_t n, struct err *e) MUST_USE;
/* A new profile of the same kind with other vectors (b NULL unless p is a diff); takes the references. */
struct lazy_profile *lazy_profile_with(const struct lazy_profile *p, struct stackvec *a, struct stackvec *b, struct err *e);

#endif
