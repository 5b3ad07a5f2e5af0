/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/values/lazy_profile.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "promql-like/values/query.h"

struct lazy_profile *lazy_profile_new(const struct ptype *type, int64_t period)
{
	struct lazy_profile *p = NEW(struct lazy_profile);
	p->refs = 1;
	p->type = type;
	p->period = period;
	return p;
}

struct lazy_profile *lazy_profile_ref(struct lazy_profile *p)
{
	if (p)
		__atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
	return p;
}

static void side_release(struct lazy_side *s)
{
	for (size_t i = 0; i < s->n; i++)
		stackvec_unref(s->t[i].vec);
	free(s->t);
	stackvec_unref(s->vec);
}

void lazy_profile_unref(struct lazy_profile *p)
{
	if (!p || __atomic_fetch_sub(&p->refs, 1, __ATOMIC_ACQ_REL) != 1)
		return;
	side_release(&p->a);
	side_release(&p->b);
	lazy_profile_rows_free(p->rows[0]);
	lazy_profile_rows_free(p->rows[1]);
	free(p);
}

void lazy_profile_names_unref(struct lazy_profile_names *names)
{
	if (!names || __atomic_fetch_sub(&names->refs, 1, __ATOMIC_ACQ_REL) != 1)
		return;
	map_free(&names->by_name);
	free(names->text);
	free(names->v);
	free(names);
}

uint32_t lazy_profile_names_find(const struct lazy_profile_names *names, struct view name, uint64_t hash)
{
	uint32_t id;
	for (size_t at = map_start(&names->by_name, hash); map_probe(&names->by_name, hash, &at, &id);)
		if (view_eq(names->v[id].name, name))
			return id;
	return UINT32_MAX;
}

void lazy_profile_rows_free(struct lazy_profile_rows *r)
{
	if (!r)
		return;
	lazy_profile_names_unref(r->names);
	free(r->name);
	free(r->native);
	free(r->falling);
	free(r);
}

double lazy_profile_rows_native(const struct lazy_profile_rows *r, uint32_t name, bool *ret_there)
{
	size_t a = 0, b = r->n;
	while (a < b) {
		size_t k = (a + b) / 2;
		if (r->name[k] < name)
			a = k + 1;
		else
			b = k;
	}
	*ret_there = a < r->n && r->name[a] == name;
	return *ret_there ? r->native[a] : 0;
}

static int greatest_first(const void *a, const void *b, void *arg)
{
	const double *native = arg, x = native[*(const uint32_t *)a], y = native[*(const uint32_t *)b];
	return (x < y) - (x > y);
}

const uint32_t *lazy_profile_rows_falling(struct lazy_profile_rows *r)
{
	uint32_t *made = __atomic_load_n(&r->falling, __ATOMIC_ACQUIRE), *none = NULL;
	if (made)
		return made;
	made = xcalloc(r->n + 1, sizeof *made);
	for (size_t i = 0; i < r->n; i++)
		made[i] = (uint32_t)i;
	qsort_r(made, r->n, sizeof *made, greatest_first, r->native);
	if (__atomic_compare_exchange_n(&r->falling, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	free(made); /* another query was faster */
	return none;
}

static struct lazy_term *side_term(struct lazy_side *s)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 2;
		s->t = xreallocarray(s->t, s->cap, sizeof *s->t);
	}
	return &s->t[s->n++];
}

void lazy_side_reserve(struct lazy_side *s, size_t n)
{
	if (s->no_terms || n <= s->cap)
		return;
	s->cap = n;
	s->t = xreallocarray(s->t, s->cap, sizeof *s->t);
}

static int add_total(struct lazy_side *s, int64_t total, double ftotal, bool is_float, double scale, struct err *e)
{
	if (!is_float && (scale == 1 || scale == -1)) {
		bool over = scale == 1 ? __builtin_add_overflow(s->total, total, &s->total)
				       : __builtin_sub_overflow(s->total, total, &s->total);
		if (over && !s->is_float)
			return err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
	} else {
		s->is_float = true;
	}
	s->ftotal += (is_float ? ftotal : (double)total) * scale;
	return 0;
}

int lazy_side_add_stored(struct lazy_side *s, uint64_t ref, int64_t after, int64_t until, int64_t total, double scale, struct err *e)
{
	struct lazy_term *last = s->n ? &s->t[s->n - 1] : NULL;
	if (s->no_terms)
		return add_total(s, total, 0, false, scale, e);
	if (last && !last->vec && !last->weigh.over_ms && last->ref == ref && last->scale == scale && last->until_ms == after)
		last->until_ms = until;
	else
		*side_term(s) = (struct lazy_term){ .ref = ref, .after_ms = after, .until_ms = until, .scale = scale };
	return add_total(s, total, 0, false, scale, e);
}

void lazy_side_add_weighed(struct lazy_side *s, uint64_t ref, int64_t after, int64_t until, const struct source_weigh *weigh, double scale)
{
	s->is_float = true;
	if (!s->no_terms)
		*side_term(s) = (struct lazy_term){ ref, after, until, NULL, scale, *weigh };
}

void lazy_side_widen(struct lazy_side *s, size_t first, int64_t after, int64_t until)
{
	if (first >= s->n) /* no terms are kept */
		return;
	s->t[first].after_ms = after;
	s->t[first].until_ms = until;
	s->n = first + 1;
}

/* Adds a vector; takes a reference. */
static int side_add_vec(struct lazy_side *s, struct stackvec *v, double scale, struct err *e)
{
	int64_t total = 0;
	if (!v->is_float) {
		int rc = stackvec_total_int(v, &total, e);
		if (rc)
			return rc;
	}
	*side_term(s) = (struct lazy_term){ .vec = stackvec_ref(v), .scale = scale };
	return add_total(s, total, v->is_float ? stackvec_total(v) : 0, v->is_float, scale, e);
}

static int side_add(struct lazy_side *s, const struct lazy_side *from, double scale, struct err *e)
{
	struct stackvec *whole = lazy_side_whole(from);
	if (whole) {
		int rc = 0;
		if (whole->n || from->is_float) {
			*side_term(s) = (struct lazy_term){ .vec = stackvec_ref(whole), .scale = scale };
			rc = add_total(s, from->total, from->ftotal, from->is_float, scale, e);
		}
		return rc;
	}
	for (size_t i = 0; i < from->n; i++) {
		struct lazy_term t = from->t[i];
		t.scale *= scale;
		if (t.vec)
			stackvec_ref(t.vec);
		*side_term(s) = t;
	}
	return add_total(s, from->total, from->ftotal, from->is_float, scale, e);
}

double lazy_side_total(const struct lazy_side *s)
{
	return s->is_float ? s->ftotal : (double)s->total;
}

double lazy_profile_factor(const struct lazy_profile *p)
{
	struct unit_info u;
	unit_lookup(p->type->sample_unit, &u);
	return p->per_s ? u.factor / p->per_s : u.factor;
}

/* Dividing by a whole number of units (1e9) is exact where multiplying by 1e-9 is not. */
static double to_base(double native, double factor)
{
	return factor < 1 ? native / rint(1 / factor) : native * factor;
}

double lazy_profile_in_base(double total, double factor, double per_s)
{
	double v = to_base(total, factor);
	return per_s ? v / per_s : v;
}

double lazy_profile_value(const struct lazy_profile *p)
{
	struct unit_info u;
	unit_lookup(p->type->sample_unit, &u);
	double native = lazy_side_total(&p->a);
	if (p->diff) {
		int64_t d;
		if (!p->a.is_float && !p->b.is_float && !__builtin_sub_overflow(p->a.total, p->b.total, &d))
			native = (double)d;
		else
			native -= lazy_side_total(&p->b);
	}
	return lazy_profile_in_base(native, u.factor, p->per_s);
}

double lazy_profile_first(const struct lazy_profile *p)
{
	struct unit_info u;
	unit_lookup(p->type->sample_unit, &u);
	return lazy_profile_in_base(lazy_side_total(&p->a), u.factor, p->per_s);
}

#define WEIGHED_ROUNDING 1e-9 /* of the total: what sums of doubles may differ by */

/* The weights of p's first side, with the weight 1 of values that have no other. */
static struct source_weights weights_with_plain(const struct lazy_profile *p)
{
	double total = lazy_side_total(&p->a);
	struct source_weights w = p->weights;
	if (w.heaviest > 0 && fabs(total - w.weighed) > WEIGHED_ROUNDING * fabs(total)) {
		w.lightest = MIN(w.lightest, 1);
		w.heaviest = MAX(w.heaviest, 1);
	}
	return w;
}

double lazy_profile_weight(const struct lazy_profile *p, bool *ret_mixed)
{
	struct source_weights w = weights_with_plain(p);
	double total = lazy_side_total(&p->a), weight = total && w.heaviest > 0 ? 1 + w.extra / total : MAX(w.heaviest, 1);
	*ret_mixed = p->base_mixed || w.heaviest > w.lightest * (1 + SOURCE_SAME_WEIGHT);
	return weight > 0 && isfinite(weight) ? weight : 1;
}

/* The weights of p as a part of a sum over over_s. A range without a profile measured nothing to stand for, but one measurement stands for
 * all of the time that longer ones of other series took. */
static struct source_weights weights_over(const struct lazy_profile *p, double over_s)
{
	double total = lazy_side_total(&p->a);
	if (!p->moment || !(p->covered_s > 0) || p->covered_s == over_s || !total)
		return p->weights;
	double by = over_s / p->covered_s;
	struct source_weights w = weights_with_plain(p);
	bool plain = !(w.heaviest > 0);
	return (struct source_weights){ (total + w.extra) * by - total, total, by * (plain ? 1 : w.lightest), by * (plain ? 1 : w.heaviest) };
}

static void add_weights(struct lazy_profile *p, const struct lazy_profile *other, double scale)
{
	double over_s = MAX(p->covered_s, other->covered_s);
	p->weights = weights_over(p, over_s);
	source_weights_join(&p->weights, weights_over(other, over_s), scale);
	p->covered_s = over_s;
	p->moment &= other->moment;
	p->base_mixed |= other->base_mixed;
}

int lazy_profile_accumulate(struct lazy_profile *p, const struct lazy_profile *other, double scale, struct err *e)
{
	double given = scale;
	if (p->per_s != other->per_s) { /* both into p's terms */
		if (other->per_s)
			scale /= other->per_s;
		if (p->per_s)
			scale *= p->per_s;
	}
	add_weights(p, other, scale);
	int rc = side_add(&p->a, &other->a, scale, e);
	if (!rc && other->diff) {
		p->diff = true;
		rc = side_add(&p->b, &other->b, scale, e);
	}
	p->whole = p->whole && other->whole ? p->whole + other->whole * given : 0;
	p->period = MAX(p->period, other->period);
	return rc;
}

static struct lazy_profile *like(const struct lazy_profile *p)
{
	struct lazy_profile *n = lazy_profile_new(p->type, p->period);
	n->per_s = p->per_s;
	n->covered_s = p->covered_s;
	n->moment = p->moment;
	n->base_mixed = p->base_mixed;
	n->diff = p->diff;
	n->whole = p->whole;
	return n;
}

int lazy_profile_scale(const struct lazy_profile *p, double by, struct lazy_profile **ret, struct err *e)
{
	struct lazy_profile *n = like(p);
	int rc = lazy_profile_accumulate(n, p, by, e);
	n->whole = p->whole * by;
	if (by != 1 && by != -1) /* an empty profile scaled is a scaled one too */
		n->a.is_float = true;
	if (rc) {
		lazy_profile_unref(n);
		return rc;
	}
	*ret = n;
	return 0;
}

int lazy_profile_diff(const struct lazy_profile *a, const struct lazy_profile *b, double scale_a, struct lazy_profile **ret, struct err *e)
{
	struct lazy_profile *n = like(a);
	n->diff = true;
	n->whole = 0;
	double scale_b = 1;
	if (a->per_s != b->per_s) {
		scale_b = b->per_s ? 1 / b->per_s : 1;
		scale_b *= a->per_s ? a->per_s : 1;
	}
	(void)lazy_profile_weight(b, &n->base_mixed);
	n->base_mixed |= a->base_mixed;
	source_weights_join(&n->weights, weights_over(a, MAX(a->covered_s, b->covered_s)), scale_a);
	int rc = side_add(&n->a, &a->a, scale_a, e);
	if (!rc && b->diff)
		rc = side_add(&n->a, &b->b, scale_b, e);
	if (!rc)
		rc = side_add(&n->b, &b->a, scale_b, e);
	if (!rc && a->diff)
		rc = side_add(&n->b, &a->b, scale_a, e);
	n->period = MAX(a->period, b->period);
	n->covered_s = MAX(a->covered_s, b->covered_s);
	if (rc) {
		lazy_profile_unref(n);
		return rc;
	}
	*ret = n;
	return 0;
}

int lazy_profile_compatible(const struct ptype *a, const struct ptype *b, enum lazy_profile_meeting how, const char *op, double *ret_scale,
			    struct err *e)
{
	*ret_scale = 1;
	if (a == b)
		return 0;
	struct unit_info ua = { 0 }, ub = { 0 };
	bool same_unit = view_eq(a->sample_unit, b->sample_unit), same_dimension = same_unit;
	if (!same_unit) {
		unit_lookup(a->sample_unit, &ua);
		unit_lookup(b->sample_unit, &ub);
		same_dimension = *ua.base && strcmp(ua.base, ub.base) == 0;
	}
	bool same = view_eq(a->sample_type, b->sample_type) && a->kind == b->kind && same_dimension &&
		    (how == MEET_SUBTRACTED || view_eq(a->name, b->name));
	if (!same) {
		struct buf x = { 0 }, y = { 0 };
		ptype_format(a, &x);
		ptype_format(b, &y);
		int rc = err_set(e, ERR_EXECUTION, "%s needs profiles of one type and kind, but got %s (%s) and %s (%s): select one of them%s",
				 op, x.ptr, profile_kind_text(a->kind), y.ptr, profile_kind_text(b->kind),
				 how == MEET_GROUPED ? ", or group by (__name__)" : "");
		buf_free(&x);
		buf_free(&y);
		return rc;
	}
	if (!same_unit)
		*ret_scale = ub.factor / ua.factor;
	return 0;
}

struct lazy_profile *lazy_profile_with(const struct lazy_profile *p, struct stackvec *a, struct stackvec *b, struct err *e)
{
	struct lazy_profile *n = like(p);
	struct { struct lazy_side *s; struct stackvec *v; } sides[] = { { &n->a, a }, { &n->b, b } };
	int rc = 0;
	for (size_t i = 0; i < 2 && !rc; i++) {
		if (!sides[i].v)
			continue;
		rc = side_add_vec(sides[i].s, sides[i].v, 1, e);
		sides[i].s->vec = stackvec_ref(sides[i].v);
	}
	stackvec_unref(a);
	stackvec_unref(b);
	if (rc) {
		lazy_profile_unref(n);
		return NULL;
	}
	double before = lazy_side_total(&p->a); /* a part of the stacks has the weight of all */
	source_weights_join(&n->weights, p->weights, before ? lazy_side_total(&n->a) / before : 0);
	return n;
}

/* ---- stacks ---- */

struct wanted {
	VEC(struct lazy_side *) sides;
	VEC(struct source_part) parts;
	VEC(uint32_t) group_of;  /* parts group -> side */
};

static void want_side(struct wanted *w, struct lazy_side *s)
{
	if (lazy_side_whole(s))
		return;
	vec_push(&w->sides, s);
	uint32_t group = (uint32_t)w->group_of.n;
	bool any = false;
	for (size_t i = 0; i < s->n; i++) {
		if (s->t[i].vec)
			continue;
		vec_push(&w->parts, (struct source_part){ .ref = s->t[i].ref, .after_ms = s->t[i].after_ms, .until_ms = s->t[i].until_ms,
							  .scale = s->t[i].scale, .group = group, .weigh = s->t[i].weigh });
		any = true;
	}
	if (any)
		vec_push(&w->group_of, (uint32_t)w->sides.n - 1);
}

static struct symbols *query_symbols(struct eval *q)
{
	if (!q->symbols)
		q->symbols = symbols_new();
	return q->symbols;
}

/* One vector out of what storage gave and the terms that are vectors already. */
static int finish_side(struct eval *q, struct lazy_side *s, struct stackvec *stored, struct err *e)
{
	VEC(struct stackvec *) v = { 0 };
	VEC(double) scales = { 0 };
	if (stored) {
		vec_push(&v, stored);
		vec_push(&scales, 1);
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->t[i].vec) {
			vec_push(&v, s->t[i].vec);
			vec_push(&scales, s->t[i].scale);
		}
	struct stackvec *sum = NULL;
	if (v.n == 1 && scales.v[0] == 1) {
		sum = stackvec_ref(v.v[0]);
	} else {
		struct symbols *to = v.n ? v.v[0]->symbols : NULL;
		for (size_t i = 1; i < v.n; i++)
			if (v.v[i]->symbols != to)
				to = NULL;
		mutex_lock(&q->symbols_lock);
		sum = stackvec_sum(to ? to : query_symbols(q), v.v, scales.v, v.n, e);
		mutex_unlock(&q->symbols_lock);
	}
	vec_free(&v);
	vec_free(&scales);
	if (!sum)
		return -ERR_EXECUTION;
	struct stackvec *none = NULL; /* another thread may have been first: profiles are shared */
	if (!__atomic_compare_exchange_n(&s->vec, &none, sum, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		stackvec_unref(sum);
	return eval_hold_bytes(q, lazy_side_whole(s)->n * 12, e);
}

int lazy_profiles_materialise(struct eval *q, struct lazy_profile *const *p, size_t n, struct err *e)
{
	struct wanted w = { 0 };
	for (size_t i = 0; i < n; i++) {
		bool seen = false; /* neighbours are often the same profile */
		if (i && p[i] == p[i - 1])
			seen = true;
		if (!p[i] || seen)
			continue;
		want_side(&w, &p[i]->a);
		if (p[i]->diff)
			want_side(&w, &p[i]->b);
	}
	struct stackvec **got = xcalloc(w.group_of.n + 1, sizeof *got);
	int rc = 0;
	eval_read_begin(q);
	if (w.group_of.n)
		rc = q->view->ops->merge(q->view, w.parts.v, w.parts.n, w.group_of.n, q->detail, eval_stream_limits(q), got, e);
	eval_read_end(q);
	if (!rc) {
		struct stackvec **of = xcalloc(w.sides.n + 1, sizeof *of);
		for (size_t g = 0; g < w.group_of.n; g++)
			of[w.group_of.v[g]] = got[g];
		for (size_t i = 0; i < w.sides.n && !rc; i++)
			if (!lazy_side_whole(w.sides.v[i]))
				rc = finish_side(q, w.sides.v[i], of[i], e);
		for (size_t g = 0; g < w.group_of.n; g++)
			stackvec_unref(got[g]);
		free(of);
	}
	free(got);
	vec_free(&w.sides);
	vec_free(&w.parts);
	vec_free(&w.group_of);
	return rc;
}
