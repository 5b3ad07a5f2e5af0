/* SPDX-License-Identifier: Apache-2.0 */
/* From the elements of an answer to one profile. A single element is used unchanged. Several are imported into a new dictionary, with
 * each element's labels added to those of its samples if that is wanted. */
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "web/profiles/merged.h"

static bool same_type(const struct ptype *a, const struct ptype *b)
{
	return view_eq(a->name, b->name) && view_eq(a->sample_type, b->sample_type) &&
	       view_eq(a->sample_unit, b->sample_unit) && a->kind == b->kind;
}

static int check_elements(const struct promql_result *r, struct err *e)
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

/* ---- several elements, with their labels ---- */

struct relabel {
	struct symbols *from, *to;
	struct symbols_map *map;
	struct labels labels;         /* of the element */
	struct map index;             /* label set of `from` -> entry below */
	VEC(uint32_t) known, made;
};

static uint32_t translate_string(struct relabel *r, uint32_t id)
{
	return symbols_string(r->to, symbols_get_string(r->from, id));
}

/* The sample's own labels and the element's, without __name__. */
static uint32_t make_label_set(struct relabel *r, uint32_t set)
{
	VEC(struct sym_label) l = { 0 };
	size_t n;
	const struct sym_label *own = symbols_get_label_set(r->from, set, &n);
	for (size_t i = 0; i < n; i++)
		vec_push(&l, (struct sym_label){ .key = translate_string(r, own[i].key), .str = translate_string(r, own[i].str),
						 .unit = translate_string(r, own[i].unit), .is_num = own[i].is_num,
						 .num = own[i].num });
	for (size_t i = 0; i < r->labels.n; i++)
		if (!view_eqs(r->labels.v[i].name, LABEL_NAME))
			vec_push(&l, (struct sym_label){ .key = symbols_string(r->to, r->labels.v[i].name),
							 .str = symbols_string(r->to, r->labels.v[i].value) });
	uint32_t id = symbols_label_set(r->to, l.v, l.n);
	vec_free(&l);
	return id;
}

static uint32_t label_set(struct relabel *r, uint32_t set)
{
	uint64_t h = hash_u64(set);
	uint32_t i;
	if (!MAP_FIND_OR_ADD(&r->index, h, i, r->known.n, r->known.v[i] == set)) {
		vec_push(&r->known, set);
		vec_push(&r->made, make_label_set(r, set));
	}
	return r->made.v[i];
}

static void add_labelled(struct stackacc *a, struct symbols *to, const struct stackvec *v, struct labels labels)
{
	struct relabel r = { .from = v->symbols, .to = to, .map = symbols_map_new(v->symbols, to), .labels = labels };
	for (size_t i = 0; i < v->n; i++) {
		const struct sym_column *c = symbols_get_column(v->symbols, v->columns[i]);
		uint32_t column = symbols_column(to, symbols_map_stack(r.map, c->stack), label_set(&r, c->label_set));
		if (v->is_float)
			stackacc_add_scaled(a, column, v->floats[i]);
		else
			stackacc_add(a, column, v->ints[i]);
	}
	symbols_map_free(r.map);
	map_free(&r.index);
	vec_free(&r.known);
	vec_free(&r.made);
}

/* One side (the bases, or what they are subtracted from) of all elements. */
static int sum_side(struct stackvec **ret, struct symbols *to, const struct promql_result *r, bool base, bool labels,
		    struct err *e)
{
	struct stackacc *a = stackacc_new(to);
	int rc = 0;
	for (size_t i = 0; i < r->n_series && !rc; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		const struct stackvec *v = base ? p->base : p->vec;
		if (v && labels)
			add_labelled(a, to, v, r->series[i].labels);
		else if (v)
			rc = stackacc_add_vec(a, v, 1, e);
	}
	if (!rc) {
		*ret = stackacc_finish(a, e);
		rc = *ret ? 0 : -(int)ERR_EXECUTION;
	}
	stackacc_free(a);
	return rc;
}

static int sum_elements(struct merged_profile *m, const struct promql_result *r, bool labels, bool diff, struct err *e)
{
	struct symbols *s = symbols_new();
	int rc = sum_side(&m->vec, s, r, false, labels, e);
	if (!rc && diff)
		rc = sum_side(&m->base, s, r, true, labels, e);
	symbols_unref(s);
	return rc;
}

int merged_make(struct merged_profile *ret, const struct promql_result *r, bool labels, struct err *e)
{
	*ret = (struct merged_profile){ .t_ms = r->t_ms };
	int rc = check_elements(r, e);
	if (rc || !r->n_series)
		return rc;
	bool diff = false;
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		ret->covered_s = MAX(ret->covered_s, p->covered_s);
		ret->per_s = MAX(ret->per_s, p->per_s);
		ret->period = MAX(ret->period, p->period);
		diff |= p->base != NULL;
	}
	const struct promql_profile *first = &r->series[0].profiles[0];
	ret->type = first->type;
	if (r->n_series > 1) {
		rc = sum_elements(ret, r, labels, diff, e);
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
