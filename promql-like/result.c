/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/result.h"

#include <math.h>
#include <stdlib.h>

#include "base/lock.h"
#include "promql-like/eval/eval.h"
#include "promql-like/hold.h"
#include "promql-like/values/explain.h"

#define COUNTED_AT_ONCE ((size_t)256 << 10) /* bytes of the result, towards --query.memory */
#define MAX_EXPLAIN ((size_t)64 << 20)

static int too_large(struct err *e)
{
	return err_set(e, ERR_LIMIT, "the answer is too large");
}

static int by_labels(const void *a, const void *b)
{
	const struct promql_series *x = a, *y = b;
	return labels_cmp(x->labels, y->labels);
}

static bool profile_series(const struct value_series *s)
{
	return s->n && s->s[0].p;
}

/* Both sides of a diff over one dictionary. The profile may be shared with other queries: it stays as it is. */
static int rebase_diff(struct promql_profile *x, struct err *e)
{
	if (!x->vec || !x->base || x->vec->symbols == x->base->symbols)
		return 0;
	struct symbols *to = symbols_new();
	struct stackvec *vec = stackvec_rebase(x->vec, to, e), *base = vec ? stackvec_rebase(x->base, to, e) : NULL;
	symbols_unref(to);
	if (!base) {
		stackvec_unref(vec);
		return -ERR_EXECUTION;
	}
	stackvec_unref(x->vec);
	stackvec_unref(x->base);
	x->vec = vec;
	x->base = base;
	return 0;
}

/* The result gets the profile's vectors only if lazy_profiles_materialise filled them in. */
static int keep_profile(struct promql_profile *to, const struct ptype *type, const struct lazy_profile *p, double value, struct err *e)
{
	*to = (struct promql_profile){ .type = type, .value = value, .first = value };
	if (!p)
		return 0;
	to->first = lazy_profile_first(p);
	to->per_s = p->per_s;
	to->covered_s = p->covered_s;
	to->weight = rint(lazy_profile_weight(p, &to->mixed) * 1e9) / 1e9; /* however the sums were rounded */
	to->moment = p->moment;
	to->period = p->period;
	struct stackvec *vec = lazy_side_whole(&p->a), *base = p->diff ? lazy_side_whole(&p->b) : NULL;
	if (vec)
		to->vec = stackvec_ref(vec);
	if (base)
		to->base = stackvec_ref(base);
	return rebase_diff(to, e);
}

static const struct ptype *copy_type(struct arena *a, const struct ptype *t)
{
	struct ptype *c = arena_alloc(a, sizeof *c);
	if (!c)
		return NULL;
	*c = *t;
	struct view *parts[] = { &c->name, &c->sample_type, &c->sample_unit, &c->period_type, &c->period_unit };
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		*parts[i] = arena_view(a, *parts[i]);
	return c;
}

static int copy_series(struct promql_result *r, const struct value_series *s, struct promql_series *out, struct err *e)
{
	*out = (struct promql_series){ .labels = labels_copy(&r->arena, s->labels), .n = s->n };
	out->points = arena_alloc(&r->arena, (s->n + 1) * sizeof *out->points);
	if (!out->points || (s->labels.n && !out->labels.v))
		return too_large(e);
	for (size_t i = 0; i < s->n; i++)
		out->points[i] = (struct point){ s->s[i].t_ms, s->s[i].v };
	if (!profile_series(s))
		return 0;
	out->profiles = arena_calloc(&r->arena, s->n + 1, sizeof *out->profiles);
	const struct ptype *type = copy_type(&r->arena, s->s[0].p->type), *last = s->s[0].p->type;
	if (!out->profiles || !type)
		return too_large(e);
	for (size_t i = 0; i < s->n; i++) {
		const struct lazy_profile *p = s->s[i].p;
		if (p && p->type != last) {
			type = copy_type(&r->arena, p->type);
			last = p->type;
		}
		int rc = keep_profile(&out->profiles[i], type, p, s->s[i].v, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* Names go now; what becomes equal is one series, unless it overlaps. */
static int settle_names(struct eval *q, struct value *v, struct err *e)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->s[i].drop_name) {
			v->s[i].labels = eval_drop_name(q, v->s[i].labels);
			v->s[i].drop_name = false;
		}
	return merge_same_labels(v, e);
}

static int take_stacks(struct eval *q, struct value *v, struct err *e)
{
	VEC(struct lazy_profile *) all = { 0 };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			if (v->s[i].s[k].p)
				vec_push(&all, v->s[i].s[k].p);
	int rc = lazy_profiles_materialise(q, all.v, all.n, e);
	vec_free(&all);
	return rc;
}

/* They are the root's to answer for. */
static int take_root_stacks(struct eval *q, struct value *v, struct err *e)
{
	struct explaining at = explain_begin(q, q->x->root);
	int rc = take_stacks(q, v, e);
	explain_end(q, q->x->root, NULL, at);
	return rc;
}

static void note_lack(void *arg, const char *text)
{
	eval_note(arg, false, "%s", text);
}

static int copy_notes(struct eval *q, struct promql_result *r, struct err *e)
{
	source_damage_warnings(&q->damage, note_lack, q);
	r->warnings = arena_alloc(&r->arena, (q->notes.n + 1) * sizeof *r->warnings);
	r->infos = arena_alloc(&r->arena, (q->notes.n + 1) * sizeof *r->infos);
	if (!r->warnings || !r->infos)
		return too_large(e);
	for (size_t i = 0; i < q->notes.n; i++) {
		struct view t = arena_view(&r->arena, q->notes.v[i].text);
		if (q->notes.v[i].info)
			r->infos[r->n_infos++] = t;
		else
			r->warnings[r->n_warnings++] = t;
	}
	return 0;
}

static int copy_value(struct eval *q, const struct value *v, struct promql_result *r, struct err *e)
{
	r->type = v->type;
	if (v->type == PROMQL_STRING) {
		r->string = arena_view(&r->arena, v->str);
		return 0;
	}
	if (v->type == PROMQL_SCALAR && !q->is_range) {
		r->scalar = value_scalar(v, 0);
		return 0;
	}
	if (q->is_range)
		r->type = PROMQL_MATRIX;
	if (q->max_series && v->n > q->max_series)
		return err_set(e, ERR_LIMIT, "the answer has %zu series; the limit is %u (--query.max-series): aggregate, or use topk",
			       v->n, q->max_series);
	r->series = arena_calloc(&r->arena, v->n + 1, sizeof *r->series);
	if (!r->series)
		return too_large(e);
	size_t counted = 0;
	for (size_t i = 0; i < v->n; i++) {
		int rc = copy_series(r, &v->s[i], &r->series[r->n_series++], e);
		if (!rc && r->arena.used - counted > COUNTED_AT_ONCE) {
			rc = eval_budget(q, r->arena.used - counted, e);
			counted = r->arena.used;
		}
		if (rc)
			return rc;
	}
	if (r->type == PROMQL_MATRIX && r->n_series)
		qsort(r->series, r->n_series, sizeof *r->series, by_labels);
	return 0;
}

static int copy_explain(const struct eval *q, struct promql_result *r, struct err *e)
{
	struct buf b = { .max = MAX_EXPLAIN };
	explain_json(q, &b);
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "the explanation of %u nodes is longer than %zu bytes", q->x->n_nodes, b.max) : 0;
	if (!rc)
		r->explain = arena_view(&r->arena, buf_view(&b));
	buf_free(&b);
	return rc || r->explain.ptr ? rc : too_large(e);
}

int result_fill(struct promql_result *r, struct eval *q, struct value *v, bool profiles, struct err *e)
{
	int rc = 0;
	if (v->type != PROMQL_STRING && v->type != PROMQL_SCALAR)
		rc = settle_names(q, v, e);
	if (!rc && profiles)
		rc = take_root_stacks(q, v, e);
	if (!rc)
		rc = copy_value(q, v, r, e);
	if (!rc)
		rc = copy_notes(q, r, e);
	if (!rc && q->explain)
		rc = copy_explain(q, r, e);
	return rc;
}

int promql_result_need(struct promql_result *r, uint64_t bytes, struct err *e)
{
	return r->hold ? hold_make(r->hold, bytes, e) : 0;
}

int promql_result_go_on(const struct promql_result *r, struct err *e)
{
	return r->hold ? hold_check(r->hold, e) : 0;
}

void promql_result_release(struct promql_result *r)
{
	for (size_t i = 0; i < r->n_series; i++)
		for (size_t k = 0; r->series[i].profiles && k < r->series[i].n; k++) {
			stackvec_unref(r->series[i].profiles[k].vec);
			stackvec_unref(r->series[i].profiles[k].base);
		}
	arena_free(&r->arena);
	hold_free(r->hold); /* when it is gone */
	*r = (struct promql_result){ 0 };
}
