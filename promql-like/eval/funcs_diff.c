/* SPDX-License-Identifier: Apache-2.0 */
/* diff(A, B). At each step separately, as in an instant query: if each side has just one element, these two are the pair, whatever
 * their labels. Otherwise elements pair whose labels are equal except the name. */
#include <stdlib.h>
#include <string.h>

#include "promql-like/eval/funcs.h"

/* Which output two elements go to that were the only ones at a step. */
struct single {
	size_t a, b, out;
};

struct diffing {
	struct eval *q;
	struct value a, b, out;
	bool share;
	struct series_groups groups;  /* of a's, then of b's series: the same labels but for the name */
	size_t *ca, *cb;       /* cursors */
	size_t *right;         /* by group: b's series at this step + 1; TWO */
	size_t *out_of;        /* by a's series: output + 1 */
	VEC(struct single) singles;
};

#define TWO SIZE_MAX

static struct labels shared_labels(struct eval *q, struct labels a, struct labels b)
{
	struct label *v = eval_alloc(q, a.n * sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < a.n; i++)
		if (view_eq(labels_get(b, a.v[i].name), a.v[i].value))
			v[n++] = a.v[i];
	return (struct labels){ v, n };
}

static int push_pair(struct diffing *d, const struct value_sample *a, const struct value_sample *b, size_t out, struct err *e)
{
	double unit, scale = 1;
	struct lazy_profile *other = b->p, *scaled = NULL, *p = NULL;
	int rc = lazy_profile_compatible(a->p->type, b->p->type, MEET_SUBTRACTED, "diff", &unit, e);
	if (!rc && unit != 1) {
		rc = lazy_profile_scale(b->p, unit, &scaled, e);
		other = scaled;
	}
	if (!rc && d->share && a->v != 0)
		scale = b->v / a->v;
	if (!rc)
		rc = lazy_profile_diff(a->p, other, scale, &p, e);
	if (!rc && d->share)
		p->whole = b->v; /* that of both sides, now: a share of the difference is a function's change in points */
	lazy_profile_unref(scaled);
	return rc ? rc : series_push(d->q, &d->out.s[out], a->t_ms, lazy_profile_value(p), p, e);
}

static size_t single_output(struct diffing *d, size_t a, size_t b)
{
	for (size_t i = d->singles.n; i-- > 0;)
		if (d->singles.v[i].a == a && d->singles.v[i].b == b)
			return d->singles.v[i].out;
	struct labels l = shared_labels(d->q, d->a.s[a].labels, d->b.s[b].labels);
	value_add(&d->out, l, labels_get(l, VIEW(LABEL_NAME)).len > 0);
	vec_push(&d->singles, (struct single){ a, b, d->out.n - 1 });
	return d->out.n - 1;
}

static size_t matched_output(struct diffing *d, size_t a)
{
	if (!d->out_of[a]) {
		value_add(&d->out, eval_drop_name(d->q, d->a.s[a].labels), false);
		d->out_of[a] = d->out.n;
	}
	return d->out_of[a] - 1;
}

/* How many series are there at t; *ret_last is one of them. */
static size_t present(struct value *v, size_t *cursors, int64_t t, size_t *ret_last)
{
	size_t n = 0;
	for (size_t i = 0; i < v->n; i++)
		if (series_at(&v->s[i], &cursors[i], t)) {
			*ret_last = i;
			n++;
		}
	return n;
}

static int matched_step(struct diffing *d, int64_t t, struct err *e)
{
	int rc = 0;
	memset(d->right, 0, (d->groups.n + 1) * sizeof *d->right);
	for (size_t k = 0; k < d->b.n; k++)
		if (series_at(&d->b.s[k], &d->cb[k], t)) {
			size_t *at = &d->right[d->groups.of[d->a.n + k]];
			*at = *at ? TWO : k + 1;
		}
	for (size_t i = 0; i < d->a.n && !rc; i++) {
		struct value_sample *x = series_at(&d->a.s[i], &d->ca[i], t);
		size_t k = x ? d->right[d->groups.of[i]] : 0;
		if (k == TWO)
			rc = err_set(e, ERR_EXECUTION, "diff: several elements on the right-hand side have the labels of one on the left");
		else if (k)
			rc = push_pair(d, x, &d->b.s[k - 1].s[d->cb[k - 1]], matched_output(d, i), e);
	}
	return rc;
}

static int one_step(struct diffing *d, int64_t t, struct err *e)
{
	size_t i = 0, k = 0;
	size_t left = present(&d->a, d->ca, t, &i), right = present(&d->b, d->cb, t, &k);
	if (left == 1 && right == 1)
		return push_pair(d, &d->a.s[i].s[d->ca[i]], &d->b.s[k].s[d->cb[k]], single_output(d, i, k), e);
	return left && right ? matched_step(d, t, e) : 0;
}

static void make_groups(struct diffing *d)
{
	size_t n = d->a.n + d->b.n;
	struct labels *l = xcalloc(n + 1, sizeof *l);
	bool *drop = xcalloc(n + 1, sizeof *drop);
	for (size_t i = 0; i < n; i++)
		l[i] = i < d->a.n ? d->a.s[i].labels : d->b.s[i - d->a.n].labels;
	groups_make(d->q, l, drop, n, &(struct node_labels){ 0 }, true, &d->groups);
	free(l);
	free(drop);
}

static int all_steps(struct diffing *d, const struct span *sp, struct err *e)
{
	make_groups(d);
	d->ca = xcalloc(d->a.n + 1, sizeof *d->ca);
	d->cb = xcalloc(d->b.n + 1, sizeof *d->cb);
	d->right = xcalloc(d->groups.n + 1, sizeof *d->right);
	d->out_of = xcalloc(d->a.n + 1, sizeof *d->out_of);
	int rc = 0;
	for (size_t i = 0; i < sp->n && !rc; i++) {
		rc = i % 256 ? 0 : eval_check(d->q, e);
		if (!rc)
			rc = one_step(d, span_at(sp, i), e);
	}
	free(d->ca);
	free(d->cb);
	free(d->right);
	free(d->out_of);
	vec_free(&d->singles);
	groups_free(&d->groups);
	return rc ? rc : merge_same_labels(&d->out, e);
}

CALL(fn_diff)
{
	struct diffing d = { .q = q };
	if (n->call.n > 2) {
		d.share = view_eqs(string_arg(n->call.args[2]), "share");
		if (!d.share)
			return err_set(e, ERR_EXECUTION, "diff: the third argument can only be \"share\", got \"%.*s\"",
				       VIEW_ARG(string_arg(n->call.args[2])));
	}
	value_start(q, &d.out, PROMQL_VECTOR);
	int rc = eval_node(q, n->call.args[0], sp, &d.a, e);
	if (!rc)
		rc = eval_node(q, n->call.args[1], sp, &d.b, e);
	if (!rc)
		rc = keep_profiles(q, n, "diff", "use -", &d.a, e);
	if (!rc)
		rc = keep_profiles(q, n, "diff", "use -", &d.b, e);
	if (!rc)
		rc = all_steps(&d, sp, e);
	value_free(&d.a);
	value_free(&d.b);
	return value_finish(&d.out, rc, ret);
}
