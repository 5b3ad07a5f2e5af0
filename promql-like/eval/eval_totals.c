/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of what profiles add up to: rate(cpu[5m]), sum by (pod) (rate(cpu[1m])). If only the values of a range function are used, no
 * profile is made: each series is read, its windows are added up into a number per step, and it is freed. The sum of a group adds
 * those numbers as a sum of profiles would: integers while possible, in the order of the series. */
#include <stdlib.h>

#include "base/lock.h"
#include "promql-like/eval/eval.h"
#include "promql-like/values/explain.h"

struct totals {
	struct eval *q;
	const struct node *call;
	const struct span *sp;
	bool keep;                 /* for groups; else each series is an output */
	struct value out;
	struct total **of;         /* by series, sp->n of them; NULL: it has nothing */
	struct labels *labels;
	bool *drop_name;
	size_t n, held;
	double factor, per_s;
	struct mutex lock;         /* of held and per_s */
};

static struct node *range_of(const struct node *call)
{
	const struct func *f = call->call.fn;
	if (f->form != FUNC_WINDOW ? !view_eqs(view_of(f->name), "merge_over_time") : !(f->flags & FUNC_PROFILES))
		return NULL;
	struct node *range = call->call.n == 1 ? node_unwrap(call->call.args[0]) : NULL;
	return range && range->kind == NODE_RANGE ? range : NULL;
}

static enum range_need need_of(const struct node *call)
{
	struct view name = view_of(call->call.fn->name);
	if (view_eqs(name, "rate") || view_eqs(name, "increase"))
		return RANGE_RATES;
	return view_eqs(name, "sum_over_time") || view_eqs(name, "merge_over_time") ? RANGE_SUMS : RANGE_PROFILES;
}

static void prepare(void *arg, const struct range_vector *r)
{
	struct totals *t = arg;
	t->of = xcalloc(r->n + 1, sizeof *t->of);
	t->labels = xcalloc(r->n + 1, sizeof *t->labels);
	t->drop_name = xcalloc(r->n + 1, sizeof *t->drop_name);
	t->n = r->n;
	for (size_t i = 0; i < r->n; i++) {
		t->labels[i] = r->s[i].labels;
		t->drop_name[i] = !(t->call->call.fn->flags & FUNC_KEEPS_NAME);
		if (!t->keep)
			value_add(&t->out, t->labels[i], t->drop_name[i]);
	}
	if (r->n) {
		struct lazy_profile like = { .type = r->s[0].type };
		t->factor = lazy_profile_factor(&like);
	}
}

static double value_of(const struct totals *t, const struct total *x, double per_s)
{
	return lazy_profile_in_base(x->is_float ? x->f : (double)x->i, t->factor, per_s);
}

static void fill_series(const struct totals *t, const struct total *x, size_t n, double per_s, struct value_series *out)
{
	out->s = xreallocarray(NULL, n, sizeof *out->s);
	out->cap = n;
	for (size_t i = 0; i < t->sp->n; i++)
		if (x[i].there)
			out->s[out->n++] = (struct value_sample){ span_at(t->sp, i), value_of(t, &x[i], per_s), NULL };
}

static int add_series(void *arg, const struct range_vector *r, size_t i, struct rseries *s, struct err *e)
{
	struct totals *t = arg;
	struct total *x AUTOFREE = xcalloc(t->sp->n, sizeof *x);
	double per_s = 0;
	int rc = profile_totals(t->q, t->call->call.fn, r, s, t->sp, x, &per_s, e);
	size_t n = 0;
	for (size_t k = 0; k < t->sp->n && !rc; k++)
		n += x[k].there;
	if (rc || !n)
		return rc;
	rc = eval_hold(t->q, n, e);
	if (rc) {
		eval_unhold(t->q, n);
		return rc;
	}
	if (!t->keep) {
		fill_series(t, x, n, per_s, &t->out.s[i]);
		return 0;
	}
	mutex_lock(&t->lock);
	t->held += n;
	t->per_s = per_s;
	mutex_unlock(&t->lock);
	t->of[i] = TAKE_PTR(x);
	return 0;
}

/* ---- groups ---- */

/* The series with data, which make the groups. */
static void compact(struct totals *t)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (!t->of[i])
			continue;
		t->of[n] = t->of[i];
		t->labels[n] = t->labels[i];
		t->drop_name[n++] = t->drop_name[i];
	}
	for (size_t i = n; i < t->n; i++)
		t->of[i] = NULL;
	t->n = n;
}

static int add_totals(struct total *to, const struct total *x, uint32_t *members, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (!x[i].there)
			continue;
		to[i].there = true;
		members[i]++;
		to[i].f += x[i].is_float ? x[i].f : (double)x[i].i;
		if (x[i].is_float)
			to[i].is_float = true;
		else if (__builtin_add_overflow(to[i].i, x[i].i, &to[i].i) && !to[i].is_float)
			return err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
	}
	return 0;
}

static int push_group(const struct totals *t, struct total *x, const uint32_t *members, bool mean, struct value_series *out, struct err *e)
{
	size_t n = 0;
	for (size_t i = 0; i < t->sp->n; i++) {
		n += x[i].there;
		if (!mean || members[i] < 2)
			continue;
		x[i].f = (x[i].is_float ? x[i].f : (double)x[i].i) * (1 / (double)members[i]);
		x[i].is_float = true;
	}
	int rc = eval_hold(t->q, n, e);
	if (rc)
		eval_unhold(t->q, n);
	else
		fill_series(t, x, n, t->per_s, out);
	return rc;
}

/* Groups are added up by several threads. */
struct group_job {
	struct totals *t;
	struct series_groups g;
	uint32_t *first, *next;    /* lists of series + 1, each in order: of a group, behind a series */
	bool mean;
	atomic_bool failed;
	struct mutex lock;         /* of e */
	struct err e;
};

static int add_group(struct group_job *j, size_t group, struct err *e)
{
	struct totals *t = j->t;
	struct value_series *out = &t->out.s[group];
	uint32_t only = j->first[group];
	if (!j->next[only - 1]) /* its mean, too, is what it is */
		return push_group(t, t->of[only - 1], NULL, false, out, e);
	struct total *sum = xcalloc(t->sp->n, sizeof *sum);
	uint32_t *members = xcalloc(t->sp->n, sizeof *members);
	int rc = 0;
	for (uint32_t i = only; i && !rc; i = j->next[i - 1])
		rc = add_totals(sum, t->of[i - 1], members, t->sp->n, e);
	if (!rc)
		rc = push_group(t, sum, members, j->mean, out, e);
	free(sum);
	free(members);
	return rc;
}

static void add_one_group(void *arg, size_t group, unsigned worker)
{
	(void)worker;
	struct group_job *j = arg;
	struct err e;
	if (atomic_load(&j->failed))
		return;
	int rc = add_group(j, group, &e);
	if (!rc)
		rc = eval_check(j->t->q, &e);
	if (!rc)
		return;
	mutex_lock(&j->lock);
	if (!atomic_exchange(&j->failed, true))
		j->e = e;
	mutex_unlock(&j->lock);
}

static int add_groups(struct totals *t, const struct node *aggr, struct err *e)
{
	compact(t);
	struct group_job j = { .t = t, .mean = aggr->aggr.op == AGGR_AVG, .lock = MUTEX_INIT(LOCK_LEAF, "partial sums") };
	groups_make(t->q, t->labels, t->drop_name, t->n, &aggr->aggr.by, aggr->aggr.without, &j.g);
	j.next = xcalloc(t->n + 1, sizeof *j.next);
	j.first = xcalloc(j.g.n + 1, sizeof *j.first);
	for (size_t i = t->n; i-- > 0;) {
		j.next[i] = j.first[j.g.of[i]];
		j.first[j.g.of[i]] = (uint32_t)i + 1;
	}
	for (size_t k = 0; k < j.g.n; k++)
		value_add(&t->out, j.g.labels[k], j.g.drop_name[k]);
	pool_run(t->q->pool, j.g.n, add_one_group, &j);
	free(j.next);
	free(j.first);
	groups_free(&j.g);
	if (!atomic_load(&j.failed))
		return 0;
	*e = j.e;
	return -(int)e->code;
}

/* ---- the call ---- */

static void totals_free(struct totals *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->of[i]);
	free(t->of);
	free(t->labels);
	free(t->drop_name);
	eval_unhold(t->q, t->held);
}

int eval_totals(struct eval *q, struct node *n, const struct span *sp, struct value *ret, bool *ret_done, struct err *e)
{
	bool aggr = n->kind == NODE_AGGREGATE;
	const struct node *call = aggr ? node_unwrap(n->aggr.expr) : n;
	*ret_done = false;
	if (!n->values_only || call->kind != NODE_CALL || (aggr && n->aggr.op != AGGR_SUM && n->aggr.op != AGGR_AVG) || !range_of(call))
		return 0;
	struct totals t = { .q = q, .call = call, .sp = sp, .keep = aggr, .lock = MUTEX_INIT(LOCK_LEAF, "totals") };
	value_start(q, &t.out, PROMQL_VECTOR);
	struct explaining at = explain_begin(q, call);
	int rc = eval_error_at(q, call, range_each(q, range_of(call), sp, need_of(call), prepare, add_series, &t, ret_done, e), e);
	explain_end(q, call, NULL, at);
	if (!rc && *ret_done && aggr)
		rc = add_groups(&t, n, e);
	totals_free(&t);
	if (rc || !*ret_done) {
		value_free(&t.out);
		return rc;
	}
	value_compact(&t.out);
	*ret = t.out;
	return 0;
}
