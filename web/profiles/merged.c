/* SPDX-License-Identifier: Apache-2.0 */
/* From the elements of an answer to one profile. A single element is used unchanged. Several are added up over their dictionary, or, if they have
 * several, over a new one. */
#include "web/profiles/merged.h"

#include <math.h>

static bool same_type(const struct ptype *a, const struct ptype *b)
{
	return view_eq(a->name, b->name) && view_eq(a->sample_type, b->sample_type) &&
	       view_eq(a->sample_unit, b->sample_unit) && a->kind == b->kind;
}

int merged_check(const struct promql_result *r, struct err *e)
{
	const struct ptype *first = NULL;
	if (r->type != PROMQL_VECTOR)
		return err_set(e, ERR_EXECUTION, "this format shows profiles, and the query is a %s%s", promql_type_text(r->type),
			       r->type == PROMQL_MATRIX ? ": a range becomes a profile with merge(...)" : "");
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_series *s = &r->series[i];
		if (!s->n || !s->profiles || !s->profiles[0].vec) {
			struct buf b = { 0 };
			labels_format(s->labels, &b);
			int rc = err_set(e, ERR_EXECUTION, "this format shows profiles, and %s is a number", b.ptr);
			buf_free(&b);
			return rc;
		}
		const struct ptype *t = s->profiles[0].type;
		if (!first)
			first = t;
		if (!same_type(first, t)) {
			struct buf a = { 0 }, b = { 0 };
			ptype_format(first, &a);
			ptype_format(t, &b);
			int rc = err_set(e, ERR_EXECUTION, "one profile has one type, and the query selects several: %s and %s; "
					 "name one of them", a.ptr, b.ptr);
			buf_free(&a);
			buf_free(&b);
			return rc;
		}
	}
	return 0;
}

/* ---- several elements ---- */

struct symbols *merged_symbols(const struct promql_result *r)
{
	struct symbols *s = NULL;
	for (size_t i = 0; i < r->n_series; i++) {
		struct symbols *own = r->series[i].profiles[0].vec->symbols;
		if (s && own != s)
			return NULL;
		s = own;
	}
	return s;
}

/* Bytes of memory for the sum of all elements of an answer: an accumulator over all columns of the dictionary, and the result. */
static uint64_t sum_bytes(const struct promql_result *r, const struct symbols *common)
{
	uint64_t samples = 0;
	for (size_t i = 0; i < r->n_series; i++)
		samples += r->series[i].profiles[0].vec->n;
	if (!common)
		return samples * MERGED_COLUMN_BYTES;
	uint64_t columns = symbols_count(common, SYMBOLS_COLUMNS);
	return MIN(columns * 17, samples * 32) + MIN(columns, samples) * 12;
}

/* One side (the bases, or what they are subtracted from) of all elements. */
static int sum_side(struct stackvec **ret, struct symbols *to, const struct promql_result *r, bool base, const struct permit *permit, struct err *e)
{
	struct stackacc *a = stackacc_new(to);
	int rc = 0;
	for (size_t i = 0; i < r->n_series && !rc; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		const struct stackvec *v = base ? p->base : p->vec;
		rc = v ? stackacc_add_vec(a, v, 1, e) : 0;
		if (!rc)
			rc = permit_go_on(permit, e);
	}
	if (!rc) {
		*ret = stackacc_finish(a, e);
		rc = *ret ? 0 : -(int)ERR_EXECUTION;
	}
	stackacc_free(a);
	return rc;
}

static int sum_elements(struct merged_profile *m, const struct promql_result *r, bool diff, const struct permit *permit, struct err *e)
{
	struct symbols *common = merged_symbols(r);
	int rc = permit_need(permit, sum_bytes(r, common) * (diff ? 2 : 1), e);
	if (rc)
		return rc;
	struct symbols *s = common ? symbols_ref(common) : symbols_new();
	rc = sum_side(&m->vec, s, r, false, permit, e);
	if (!rc && diff)
		rc = sum_side(&m->base, s, r, true, permit, e);
	symbols_unref(s);
	return rc;
}

/* The weight of an element's values in an answer that covers covered_s seconds. A single profile that covers less is weighted as if it had covered
 * all of them. */
static double element_weight(const struct promql_profile *p, double covered_s)
{
	return p->moment && p->covered_s > 0 ? p->weight * covered_s / p->covered_s : p->weight;
}

static void weigh_elements(struct merged_profile *m, const struct promql_result *r)
{
	double least = INFINITY, most = 0, sum = 0, weighted = 0;
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		double weight = element_weight(p, m->covered_s), value = fabs(p->first);
		m->mixed |= p->mixed;
		if (!i)
			m->weight = weight;
		if (value == 0)
			continue;
		least = MIN(least, weight);
		most = MAX(most, weight);
		sum += value;
		weighted += value * weight;
	}
	if (sum > 0)
		m->weight = most > least ? weighted / sum : most;
	m->mixed |= most > least * (1 + SOURCE_SAME_WEIGHT);
}

double merged_seconds(const struct merged_profile *m)
{
	return m->per_s > 0 ? m->per_s : m->covered_s / m->weight;
}

void merged_head_of(struct merged_profile *ret, const struct promql_result *r)
{
	*ret = (struct merged_profile){ .t_ms = r->t_ms, .weight = 1 };
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		ret->covered_s = MAX(ret->covered_s, p->covered_s);
		ret->per_s = MAX(ret->per_s, p->per_s);
		ret->period = MAX(ret->period, p->period);
	}
	if (r->n_series)
		ret->type = r->series[0].profiles[0].type;
	weigh_elements(ret, r);
}

int merged_make(struct merged_profile *ret, const struct promql_result *r, const struct permit *permit, struct err *e)
{
	*ret = (struct merged_profile){ .t_ms = r->t_ms, .weight = 1 };
	int rc = merged_check(r, e);
	if (rc || !r->n_series)
		return rc;
	merged_head_of(ret, r);
	bool diff = false;
	for (size_t i = 0; i < r->n_series; i++)
		diff |= r->series[i].profiles[0].base != NULL;
	const struct promql_profile *first = &r->series[0].profiles[0];
	if (r->n_series > 1) {
		rc = sum_elements(ret, r, diff, permit, e);
		if (rc)
			merged_release(ret);
		return rc;
	}
	ret->vec = stackvec_ref(first->vec);
	ret->base = first->base ? stackvec_ref(first->base) : NULL;
	return 0;
}

void merged_release(struct merged_profile *m)
{
	stackvec_unref(m->vec);
	stackvec_unref(m->base);
	*m = (struct merged_profile){ 0 };
}
