/* SPDX-License-Identifier: Apache-2.0 */
/* merge: what the profiles of each group add up to, over time and series together. For deltas it is their sum; gauges have a mean,
 * over the time that any series of the group was covered. */
#include <stdlib.h>

#include "promql-like/eval/pwindow.h"
#include "promql-like/stacks/readout.h"

struct interval {
	int64_t from, to;
};

struct merge_job {
	struct eval *q;
	struct node *n;
	const struct span *sp;
	struct range_vector r;
	struct series_groups g;
	size_t step;            /* at work */
	struct pwindow *w;      /* by series */
	size_t *members, *first; /* series of group g: members[first[g]] .. members[first[g + 1]] */
	VEC(struct interval) iv;
};

/* Each member series i of a group. */
#define EACH_MEMBER(j, group, i) \
	for (size_t m_ = (j)->first[group], i; m_ < (j)->first[(group) + 1] && (i = (j)->members[m_], true); m_++)

/* Counting sort of the series by group. */
static void list_members(struct merge_job *j)
{
	j->members = xcalloc(j->r.n + 1, sizeof *j->members);
	j->first = xcalloc(j->g.n + 2, sizeof *j->first);
	for (size_t i = 0; i < j->r.n; i++)
		j->first[j->g.of[i] + 1]++;
	for (size_t g = 0; g < j->g.n; g++)
		j->first[g + 1] += j->first[g];
	size_t *at = xcalloc(j->g.n + 1, sizeof *at);
	for (size_t i = 0; i < j->r.n; i++)
		j->members[j->first[j->g.of[i]] + at[j->g.of[i]]++] = i;
	free(at);
}

/* One that goes on from the last is joined with it: of a series they mostly do. */
static void push_interval(struct merge_job *j, struct interval v)
{
	struct interval *last = j->iv.n ? &j->iv.v[j->iv.n - 1] : NULL;
	if (last && v.from >= last->from && v.from <= last->to)
		last->to = MAX(last->to, v.to);
	else
		vec_push(&j->iv, v);
}

static int by_start(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

static int64_t union_length(struct interval *v, size_t n)
{
	int64_t sum = 0, end = INT64_MIN;
	if (n)
		qsort(v, n, sizeof *v, by_start);
	for (size_t i = 0; i < n; i++) {
		if (v[i].to <= end)
			continue;
		sum += v[i].to - MAX(v[i].from, end);
		end = v[i].to;
	}
	return sum;
}

static int check_same_type(const struct lazy_profile *p, const struct ptype *t, double *by, struct err *e)
{
	return lazy_profile_compatible(p->type, t, MEET_GROUPED, "merge", by, e);
}

/* What any series of the group covers of the range. */
static int64_t gauges_covered(struct merge_job *j, size_t group)
{
	j->iv.n = 0;
	EACH_MEMBER(j, group, i) {
		if (!j->r.s[i].vp)
			continue;
		for (size_t k = pwindow_first(&j->w[i]); k < j->w[i].hi; k++) {
			struct interval v;
			if (!j->r.s[i].vp[k].stale && pwindow_covered(&j->w[i], k, &v.from, &v.to))
				push_interval(j, v);
		}
	}
	return union_length(j->iv.v, j->iv.n);
}

/* Each profile of a series by itself: of few, or of replicas that interleave. */
static int add_gauge_profiles(struct lazy_profile *p, const struct pwindow *w, int64_t all, double unit, struct err *e)
{
	int rc = 0;
	for (size_t k = pwindow_first(w); k < w->hi && !rc; k++) {
		int64_t from, to;
		if (w->s->vp[k].stale || !pwindow_covered(w, k, &from, &to))
			continue;
		double share = to - from == all ? 1 : (double)(to - from) / (double)all;
		rc = pwindow_add_one(&p->a, w->s, k, false, share * unit, e);
		p->period = MAX(p->period, w->s->vp[k].period);
	}
	return rc;
}

/* ---- gauges of many profiles ----
 *
 *	     from                          to
 *	--(--|----x------x-----x------x----]...      x: a profile
 *	     |<-->|<---->|<--->|<---->|<-->|
 *	      each weighs what it covers:   the newest also ahead of its stamp
 *
 * Storage adds up the whole range with weights up to the stamps, and profiles one by one for what they cover ahead. All of it has integer
 * weights, and is divided once. Ranges come before single profiles, so that those of a service are one question (source.h). */

/* The weights of a series' profiles in the range, without what they cover ahead. *ret_n: how many there are. */
static struct source_weigh gauge_weigh(const struct pwindow *w, int64_t all, size_t *ret_n)
{
	struct source_weigh x = { .over_ms = all };
	*ret_n = 0;
	for (size_t k = w->hi; k-- > w->lo;) {
		int64_t behind, ahead;
		if (w->s->vp[k].stale)
			continue;
		if (!(*ret_n)++)
			x.base_ms = w->s->vp[k].interval_ms;
		pwindow_split(w, k, &behind, &ahead);
		x.by_cover |= behind != x.base_ms;
	}
	return x;
}

/* The sum of the totals of a group times their weights. */
struct gauge_total {
	wide sum;
	double scaled;       /* of series whose unit is another: native unit of the group */
};

static void add_gauge_total(struct gauge_total *t, wide sum, int64_t all, double unit)
{
	if (unit == 1)
		t->sum += sum;
	else
		t->scaled += source_weighed(sum, all) * unit;
}

/* The range of a series. It may be requested without profiles, as pwindow_add_whole does. */
static void add_gauge_range(struct lazy_profile *p, const struct pwindow *w, const struct source_weigh *weigh, double unit, struct gauge_total *t)
{
	wide sum = 0;
	bool any = false;
	for (size_t k = w->lo; k < w->hi; k++) {
		int64_t behind, ahead;
		if (w->s->vp[k].stale)
			continue;
		any = true;
		if (!pwindow_split(w, k, &behind, &ahead))
			continue;
		sum += (wide)w->s->vp[k].total * behind;
		p->period = MAX(p->period, w->s->vp[k].period);
	}
	if (any || pwindow_is_near(w))
		lazy_side_add_weighed(&p->a, w->s->ref, w->from, w->to, weigh, unit);
	add_gauge_total(t, sum, weigh->over_ms, unit);
}

/* What profiles cover ahead of their stamps. */
static void add_gauge_ahead(struct lazy_profile *p, const struct pwindow *w, int64_t all, double unit, struct gauge_total *t)
{
	for (size_t k = pwindow_first(w); k < w->hi; k++) {
		const struct source_profile *s = &w->s->vp[k];
		int64_t behind, ahead;
		if (!pwindow_split(w, k, &behind, &ahead) || !ahead)
			continue;
		struct source_weigh weigh = { .over_ms = all, .base_ms = ahead };
		lazy_side_add_weighed(&p->a, w->s->ref, s->t_ms - 1, s->t_ms, &weigh, unit);
		add_gauge_total(t, (wide)s->total * ahead, all, unit);
		p->period = MAX(p->period, s->period);
	}
}

/* Whether storage is to weigh the profiles of a group. Not where the lists of profiles lack something: storage might read it meanwhile, and `all`
 * would be too short for that. A graph of short ranges reads each profile once for all of its steps, if each is a term of
 * its own (GRAPH_RANGE_MOST_MS). *ret_by_cover: they do not all have one weight. */
static bool gauges_are_many(const struct merge_job *j, size_t group, int64_t all, bool *ret_by_cover)
{
	bool many = false;
	*ret_by_cover = false;
	if ((j->sp->n > 1 && j->r.range_ms <= GRAPH_RANGE_MOST_MS) || source_damage_met(&j->q->damage))
		return false;
	EACH_MEMBER(j, group, i) {
		size_t n;
		if (!j->r.s[i].vp || j->r.s[i].refs)
			continue;
		*ret_by_cover |= gauge_weigh(&j->w[i], all, &n).by_cover;
		many |= n > 1;
	}
	return many;
}

static int merge_many_gauges(struct merge_job *j, size_t group, struct lazy_profile *p, int64_t all, bool by_cover, struct err *e)
{
	struct gauge_total t = { 0 };
	int64_t base = 0;
	for (int ahead = 0; ahead < 2; ahead++)
		EACH_MEMBER(j, group, i) {
			const struct rseries *s = &j->r.s[i];
			double unit;
			size_t n;
			if (!s->vp)
				continue;
			int rc = check_same_type(p, s->type, &unit, e);
			if (!rc && s->refs && !ahead)
				rc = add_gauge_profiles(p, &j->w[i], all, unit, e);
			if (rc)
				return rc;
			if (s->refs)
				continue;
			struct source_weigh weigh = gauge_weigh(&j->w[i], all, &n);
			if (n)
				base = weigh.base_ms;
			else
				weigh.base_ms = base; /* so that it does not stand between series of a service */
			weigh.by_cover = by_cover;
			if (ahead)
				add_gauge_ahead(p, &j->w[i], all, unit, &t);
			else
				add_gauge_range(p, &j->w[i], &weigh, unit, &t);
		}
	p->a.ftotal += source_weighed(t.sum, all) + t.scaled;
	return 0;
}

/* The mean over the time that any series of the group was covered. */
static int merge_gauges(struct merge_job *j, size_t group, struct lazy_profile *p, bool *any, struct err *e)
{
	int64_t all = gauges_covered(j, group);
	bool by_cover;
	*any = all > 0;
	p->covered_s = (double)all / 1000;
	if (all && gauges_are_many(j, group, all, &by_cover))
		return merge_many_gauges(j, group, p, all, by_cover, e);
	EACH_MEMBER(j, group, i) {
		if (!j->r.s[i].vp || !all)
			continue;
		double unit;
		int rc = check_same_type(p, j->r.s[i].type, &unit, e);
		if (!rc)
			rc = add_gauge_profiles(p, &j->w[i], all, unit, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* Whether storage may keep one that has nothing in the window at work (PWINDOW_NEAR_MS); a window more or less does no harm. */
static bool is_near(const struct merge_job *j, const struct rseries *s)
{
	size_t far = (size_t)(PWINDOW_NEAR_MS / j->r.range_ms) + 1;
	for (size_t k = j->step - MIN(j->step, far); k < MIN(s->n_cover, j->step + far + 1); k++)
		if (s->cover[k].n)
			return true;
	return j->step < far && s->near;
}

/* For a series known only by its sums. *ret_ms: what its profiles cover is added. */
static int add_cover(struct merge_job *j, struct lazy_profile *p, const struct rseries *s, const struct pwindow *w, bool *any, int64_t *ret_ms, struct err *e)
{
	const struct source_cover *c = &s->cover[j->step];
	if (c->n == c->n_stale)
		return is_near(j, s) ? lazy_side_add_stored(&p->a, s->ref, w->from, w->to, 0, 1, e) : 0;
	*any = true;
	p->period = MAX(p->period, c->period);
	source_weights_join(&p->weights, c->weights, 1);
	for (size_t k = 0; k < c->spans.n; k++) {
		push_interval(j, (struct interval){ c->spans.v[k].after_ms, c->spans.v[k].until_ms });
		*ret_ms += c->spans.v[k].until_ms - c->spans.v[k].after_ms;
	}
	return lazy_side_add_stored(&p->a, s->ref, w->from, w->to, c->total, 1, e);
}

/* The time that the sum of several series is for. Profiles of different series end at different times, so their union is longer than the range by up to
 * a profile, while each series has profiles for no more than the range, or for `longest` ms. */
static int64_t covered_by_all(struct merge_job *j, int64_t longest)
{
	return MIN(union_length(j->iv.v, j->iv.n), MAX(j->r.range_ms, longest));
}

static int merge_deltas(struct merge_job *j, size_t group, struct lazy_profile *p, bool *any, struct err *e)
{
	int64_t longest = 0;
	j->iv.n = 0;
	EACH_MEMBER(j, group, i) {
		struct pwindow *w = &j->w[i];
		int64_t own = 0;
		if (j->r.s[i].cover) { /* all are of one type */
			int rc = add_cover(j, p, &j->r.s[i], w, any, &own, e);
			if (rc)
				return rc;
			longest = MAX(longest, own);
			continue;
		}
		if (!j->r.s[i].vp)
			continue;
		size_t n = pwindow_count(w);
		struct err unasked;
		double unit;
		int rc = check_same_type(p, j->r.s[i].type, &unit, n ? e : &unasked);
		if (rc && !n)
			continue;
		if (!rc)
			rc = pwindow_add_whole(p, w, unit, e);
		if (rc)
			return rc;
		*any |= n > 0;
		for (size_t k = w->lo; k < w->hi && j->sp->n == 1; k++) {
			if (w->s->vp[k].stale)
				continue;
			push_interval(j, (struct interval){ w->s->vp[k].t_ms - w->s->vp[k].cover_ms, w->s->vp[k].t_ms });
			own += w->s->vp[k].cover_ms;
		}
		longest = MAX(longest, own);
	}
	p->covered_s = (double)covered_by_all(j, longest) / 1000;
	return 0;
}

static bool has_data(const struct pwindow *w, size_t step, bool gauge)
{
	int64_t a, b;
	if (w->s->cover)
		return w->s->cover[step].n > w->s->cover[step].n_stale;
	if (!gauge)
		return pwindow_count(w) > 0;
	for (size_t k = pwindow_first(w); k < w->hi; k++)
		if (!w->s->vp[k].stale && pwindow_covered(w, k, &a, &b))
			return true;
	return false;
}

static int merge_group(struct merge_job *j, size_t group, int64_t t, struct value_series *out, struct err *e)
{
	const struct ptype *type = NULL;
	EACH_MEMBER(j, group, i)
		if (!type && (j->r.s[i].vp || j->r.s[i].cover) && has_data(&j->w[i], j->step, j->r.s[i].type->kind == PROFILE_GAUGE))
			type = j->r.s[i].type;
	if (!type)
		return 0;
	struct lazy_profile *p = lazy_profile_new(type, 0);
	bool any = false;
	if (out->n) /* about as many as at the step before */
		lazy_side_reserve(&p->a, out->s[out->n - 1].p->a.n);
	int rc = type->kind == PROFILE_GAUGE ? merge_gauges(j, group, p, &any, e) : merge_deltas(j, group, p, &any, e);
	if (rc || !any) {
		lazy_profile_unref(p);
		return rc;
	}
	return series_push(j->q, out, t, lazy_profile_value(p), p, e);
}

static int merge_steps(struct merge_job *j, struct value *out, struct err *e)
{
	j->w = xcalloc(j->r.n + 1, sizeof *j->w);
	struct taken *taken = xcalloc(j->r.n + 1, sizeof *taken);
	list_members(j);
	for (size_t i = 0; i < j->r.n; i++)
		j->w[i].s = &j->r.s[i];
	for (size_t g = 0; g < j->g.n; g++)
		value_add(out, j->g.labels[g], false);
	int rc = 0;
	for (size_t i = j->step = 0; i < j->sp->n && !rc; j->step = ++i) {
		int64_t t = span_at(j->sp, i), to = mods_time(j->r.mods, t);
		for (size_t k = 0; k < j->r.n; k++) {
			pwindow_slide(&j->w[k], to - j->r.range_ms, to);
			if (j->r.s[k].cover)
				taken_window(&taken[k], taken[k].seen, taken[k].seen + j->r.s[k].cover[i].n);
			else
				taken_window(&taken[k], j->w[k].lo, j->w[k].hi);
		}
		for (size_t g = 0; g < j->g.n && !rc; g++)
			rc = merge_group(j, g, t, &out->s[g], e);
		if (!rc)
			rc = eval_check(j->q, e);
	}
	for (size_t k = 0; k < j->r.n; k++)
		taken_count(j->q, &taken[k], false);
	free(taken);
	free(j->w);
	free(j->members);
	free(j->first);
	return rc;
}

static int merge_range(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct merge_job j = { .q = q, .n = n, .sp = sp };
	int rc = eval_check_edges(n->aggr.expr, "merge", e);
	if (!rc)
		rc = range_load_covers(q, n->aggr.expr, sp, &j.r, e);
	if (rc)
		return rc;
	size_t kept = 0;
	for (size_t i = 0; i < j.r.n; i++) { /* only profiles make groups */
		if (j.r.s[i].type) {
			struct rseries t = j.r.s[kept];
			j.r.s[kept++] = j.r.s[i];
			j.r.s[i] = t;
		}
	}
	rc = check_profiles(q, n, "merge", "use sum_over_time, or sum", &j.r, e);
	if (!rc && j.r.subquery && kept)
		rc = refuse_subquery("merge", e);
	size_t all = j.r.n;
	struct value out;
	value_start(q, &out, PROMQL_VECTOR);
	if (!rc) {
		j.r.n = kept;
		struct labels *l = xcalloc(kept + 1, sizeof *l);
		bool *drop = xcalloc(kept + 1, sizeof *drop);
		for (size_t i = 0; i < kept; i++)
			l[i] = j.r.s[i].labels;
		groups_make(q, l, drop, kept, &n->aggr.by, n->aggr.without, &j.g);
		free(l);
		free(drop);
		rc = merge_steps(&j, &out, e);
		groups_free(&j.g);
		j.r.n = all;
	}
	vec_free(&j.iv);
	range_free(&j.r);
	return value_finish(&out, rc, ret);
}

/* merge of an instant vector is sum, for profiles alone. */
int eval_merge(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	if (n->aggr.expr->type == PROMQL_MATRIX)
		return merge_range(q, n, sp, ret, e);
	struct value v;
	int rc = eval_node(q, n->aggr.expr, sp, &v, e);
	if (rc)
		return rc;
	rc = keep_profiles(q, n, "merge", "use sum", &v, e);
	if (rc) {
		value_free(&v);
		return rc;
	}
	return eval_aggregate_of(q, n, AGGR_SUM, sp, &v, ret, e);
}
