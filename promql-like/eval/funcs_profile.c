/* SPDX-License-Identifier: Apache-2.0 */
/* Functions over profiles. rate and increase take each profile in proportion to the part of its cover within the range (pwindow.h);
 * merge of deltas takes those stamped in it as a whole. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "promql-like/eval/funcs.h"
#include "promql-like/eval/pwindow.h"

int refuse_subquery(const char *fn, struct err *e)
{
	return err_set(e, ERR_EXECUTION, "%s of a subquery of profiles has no meaning, since a subquery holds snapshots: use the "
		       "plain range, as in %s(cpu[5m])", fn, fn);
}

/* Why a function of a range can do nothing with such profiles; 0: it can. */
static int refuse_series(const char *fn, const struct ptype *type, const struct range_vector *r, bool snapshots, struct err *e)
{
	if (r->mods->edges)
		return err_set(e, ERR_EXECUTION, "a range of profiles has no values at its edges: leave out %s", edges_text(r->mods->edges));
	bool rate = strcmp(fn, "rate") == 0 || strcmp(fn, "increase") == 0;
	if (snapshots && (rate || strcmp(fn, "merge_over_time") == 0))
		return refuse_subquery(fn, e);
	if (!rate || type->kind != PROFILE_GAUGE)
		return 0;
	struct buf name = { 0 };
	ptype_format(type, &name);
	int rc = err_set(e, ERR_EXECUTION, "%s of the gauge %s has no meaning: use deriv(...) for how fast it changes, "
			 "or merge(...[range]) for its mean", fn, name.ptr);
	buf_free(&name);
	return rc;
}

int range_drop_refused(struct eval *q, const struct node *n, struct range_vector *r, struct err *e)
{
	struct err why = { 0 };
	char place[32];
	size_t kept = 0;
	for (size_t i = 0; i < r->n; i++)
		kept += !r->s[i].type || !refuse_series(n->call.fn->name, r->s[i].type, r, r->s[i].smp, &why);
	if (kept == r->n)
		return 0;
	if (!kept)
		return err_set(e, why.code, "%s", why.msg);
	kept = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (r->s[i].type && refuse_series(n->call.fn->name, r->s[i].type, r, r->s[i].smp, &why)) {
			eval_note(q, false, "PromQL warning: dropped: %s (%s)", why.msg, eval_place(q, n->start, place));
			rseries_release(&r->s[i]);
		} else {
			r->s[kept++] = r->s[i];
		}
	}
	r->n = kept;
	return 0;
}

/* ---- range functions with a meaning of their own ---- */

static int rate_window(const struct pwindow *w, bool per_second, struct lazy_profile *p, bool *ret_any, struct err *e)
{
	int64_t ms = 0;
	int rc = pwindow_add_covered(p, w, 1, true, &ms, e);
	p->per_s = per_second ? (double)(w->to - w->from) / 1000 : 0;
	p->covered_s = (double)ms / 1000;
	*ret_any = ms > 0;
	return rc;
}

/* A function's operation on the profiles of a window. */
enum over { OVER_RATE, OVER_INCREASE, OVER_SUM, OVER_MEAN, OVER_LAST, OVER_FIRST, OVER_MAX, OVER_MIN };

static enum over over_of(const struct func *f, const struct ptype *type)
{
	static const struct {
		const char *name;
		enum over over;
	} table[] = {
		{ "rate", OVER_RATE }, { "increase", OVER_INCREASE }, { "sum_over_time", OVER_SUM }, { "avg_over_time", OVER_MEAN },
		{ "last_over_time", OVER_LAST }, { "first_over_time", OVER_FIRST }, { "max_over_time", OVER_MAX },
		{ "min_over_time", OVER_MIN },
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcmp(f->name, table[i].name) == 0)
			return table[i].over;
	return type->kind == PROFILE_GAUGE ? OVER_MEAN : OVER_SUM; /* merge_over_time */
}

static size_t pick(const struct pwindow *w, enum over over)
{
	size_t best = SIZE_MAX;
	for (size_t i = w->lo; i < w->hi; i++) {
		const struct source_profile *s = &w->s->vp[i];
		if (s->stale)
			continue;
		int64_t old = best == SIZE_MAX ? 0 : w->s->vp[best].total;
		bool better = best == SIZE_MAX || over == OVER_LAST || (over == OVER_MAX && s->total > old) ||
			      (over == OVER_MIN && s->total < old);
		if (better)
			best = i;
	}
	return best;
}

static int plain_window(enum over over, const struct pwindow *w, struct lazy_profile *p, bool *ret_any, struct err *e)
{
	if (over == OVER_RATE || over == OVER_INCREASE)
		return rate_window(w, over == OVER_RATE, p, ret_any, e);
	size_t n = pwindow_count(w);
	*ret_any = n > 0;
	if (!n)
		return 0;
	p->moment = p->type->kind != PROFILE_GAUGE && over != OVER_SUM;
	if (over == OVER_SUM || over == OVER_MEAN) {
		for (size_t i = w->lo; i < w->hi; i++)
			p->covered_s += w->s->vp[i].stale ? 0 : (double)w->s->vp[i].cover_ms / 1000;
		if (p->moment)
			p->covered_s /= (double)n;
		return pwindow_add_whole(p, w, over == OVER_MEAN && n > 1 ? 1 / (double)n : 1, e);
	}
	size_t i = pick(w, over);
	p->period = w->s->vp[i].period;
	p->covered_s = (double)w->s->vp[i].duration_ns / 1e9;
	return pwindow_add_one(&p->a, w->s, i, false, 1, e);
}

/* Snapshots of a subquery. */
static int snapshot_window(struct eval *q, const struct func *f, const struct node *n, const struct value_sample *s, size_t count,
			   struct lazy_profile **ret, struct err *e)
{
	char place[32];
	for (size_t i = 0; i < count; i++)
		if (!s[i].p) {
			eval_note(q, false, "PromQL warning: %s of a series with numbers and profiles, it is dropped (%s)", f->name,
				  eval_place(q, n->start, place));
			return 0;
		}
	bool mean = strcmp(f->name, "avg_over_time") == 0;
	if (!mean && strcmp(f->name, "sum_over_time") != 0) {
		size_t best = 0;
		for (size_t i = 1; i < count; i++)
			if (*f->name == 'l' || (strncmp(f->name, "max", 3) == 0 && s[i].v > s[best].v) ||
			    (strncmp(f->name, "min", 3) == 0 && s[i].v < s[best].v))
				best = i;
		*ret = lazy_profile_ref(s[best].p);
		return 0;
	}
	struct lazy_profile *sum = NULL;
	double by = mean && count > 1 ? 1 / (double)count : 1, unit;
	int rc = lazy_profile_scale(s[0].p, by, &sum, e);
	for (size_t i = 1; i < count && !rc; i++) {
		rc = lazy_profile_compatible(sum->type, s[i].p->type, MEET_ADDED, f->name, &unit, e);
		if (!rc)
			rc = lazy_profile_accumulate(sum, s[i].p, by * unit, e);
	}
	if (rc) {
		lazy_profile_unref(sum);
		return rc;
	}
	if (!mean) { /* each snapshot is one measurement, and all of them are added */
		sum->covered_s *= (double)count;
		sum->moment = false;
	}
	*ret = sum;
	return 0;
}

static int snapshot_windows(struct eval *q, const struct func *f, const struct node *n, struct range_vector *r, struct rseries *s,
			    const struct span *sp, struct value_series *out, struct err *e)
{
	size_t lo = 0, hi = 0;
	struct taken taken = { 0 };
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i), to = mods_time(r->mods, t);
		window_slide(s->pts, s->n, &lo, &hi, to - r->range_ms, to);
		taken_window(&taken, lo, hi);
		struct lazy_profile *p = NULL;
		int rc = eval_check_at(q, i, e);
		if (!rc && lo < hi)
			rc = snapshot_window(q, f, n, s->smp + lo, hi - lo, &p, e);
		if (!rc && p)
			rc = series_push(q, out, t, lazy_profile_value(p), p, e);
		if (rc)
			return rc;
	}
	taken_count(q, &taken, true);
	return 0;
}

int profile_window(struct eval *q, const struct func *f, const struct node *n, struct range_vector *r, struct rseries *s,
		   const struct span *sp, struct value_series *out, struct err *e)
{
	int refused = refuse_series(f->name, s->type, r, s->smp, e);
	if (refused)
		return refused;
	if (s->smp)
		return snapshot_windows(q, f, n, r, s, sp, out, e);
	enum over over = over_of(f, s->type);
	struct pwindow w = { .s = s };
	struct taken taken = { 0 };
	size_t terms = 0; /* of the step before; this one has about as many */
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i), to = mods_time(r->mods, t);
		pwindow_slide(&w, to - r->range_ms, to);
		taken_window(&taken, w.lo, w.hi);
		struct lazy_profile *p = lazy_profile_new(s->type, 0);
		bool any = false;
		int rc = i % 256 ? 0 : eval_check(q, e);
		lazy_side_reserve(&p->a, terms);
		if (!rc)
			rc = plain_window(over, &w, p, &any, e);
		terms = p->a.n;
		if (rc || !any)
			lazy_profile_unref(p);
		if (!rc && any)
			rc = series_push(q, out, t, lazy_profile_value(p), p, e);
		if (rc)
			return rc;
	}
	taken_count(q, &taken, false);
	return 0;
}

int profile_totals(struct eval *q, const struct func *f, const struct range_vector *r, const struct rseries *s, const struct span *sp,
		   struct total *out, double *ret_per_s, struct err *e)
{
	enum over over = over_of(f, s->type);
	bool done = false;
	int refused = refuse_series(f->name, s->type, r, false, e);
	if (refused)
		return refused;
	if (over == OVER_RATE || over == OVER_INCREASE)
		refused = rate_totals(q, r, s, sp, over == OVER_RATE, out, ret_per_s, &done, e);
	if (refused || done)
		return refused;
	if (over == OVER_SUM && s->points.plain)
		return sum_totals(q, r, s, sp, out, e);
	struct pwindow w = { .s = s };
	struct taken taken = { 0 };
	for (size_t i = 0; i < sp->n; i++) {
		int64_t to = mods_time(r->mods, span_at(sp, i));
		pwindow_slide(&w, to - r->range_ms, to);
		taken_window(&taken, w.lo, w.hi);
		struct lazy_profile p = { .type = s->type, .a.no_terms = true };
		bool any = false;
		int rc = i % 256 ? 0 : eval_check(q, e);
		if (!rc)
			rc = plain_window(over, &w, &p, &any, e);
		if (rc)
			return rc;
		*ret_per_s = p.per_s;
		out[i] = (struct total){ p.a.total, p.a.ftotal, p.a.is_float, any };
	}
	taken_count(q, &taken, false);
	return 0;
}

/* Whether there is anything that a profile function can take; an error if all of it is numbers. */
static int check_any_profile(struct eval *q, const struct node *n, const char *fn, const char *remedy, size_t profiles,
			     size_t floats, struct err *e)
{
	char place[32];
	if (floats && !profiles)
		return err_set(e, ERR_EXECUTION, "%s takes profiles, but the operand has only numbers: %s", fn, remedy);
	if (floats)
		eval_note(q, false, "PromQL warning: %s passes over elements that are numbers (%s)", fn, eval_place(q, n->start, place));
	return 0;
}

int check_profiles(struct eval *q, const struct node *n, const char *fn, const char *remedy, const struct range_vector *r, struct err *e)
{
	size_t profiles = 0, floats = 0;
	for (size_t i = 0; i < r->n; i++)
		++*(r->s[i].type ? &profiles : &floats);
	return check_any_profile(q, n, fn, remedy, profiles, floats, e);
}

/* Per series, over plain ranges; what rate does for counters and profiles, these do for profiles alone. */
static int over_range(struct eval *q, struct node *n, const struct span *sp, const char *remedy, struct value *ret,
		      int (*one)(struct eval *, struct node *, struct range_vector *, struct rseries *, const struct span *,
				 struct value_series *, struct err *),
		      struct err *e)
{
	struct range_vector r;
	struct value v;
	int rc = range_load(q, n->call.args[0], sp, &r, e);
	if (rc)
		return rc;
	value_start(q, &v, PROMQL_VECTOR);
	rc = check_profiles(q, n, n->call.fn->name, remedy, &r, e);
	for (size_t i = 0; i < r.n && !rc; i++)
		if (r.s[i].type)
			rc = one(q, n, &r, &r.s[i], sp, value_add(&v, r.s[i].labels, true), e);
	range_free(&r);
	return value_finish(&v, rc, ret);
}

static int merge_one(struct eval *q, struct node *n, struct range_vector *r, struct rseries *s, const struct span *sp,
		     struct value_series *out, struct err *e)
{
	return profile_window(q, n->call.fn, n, r, s, sp, out, e);
}

CALL(fn_merge_over_time)
{
	bool done;
	int rc = eval_totals(q, n, sp, ret, &done, e);
	if (rc || done)
		return rc;
	return over_range(q, n, sp, "use sum_over_time", ret, merge_one, e);
}

static int coverage_one(struct eval *q, struct node *n, struct range_vector *r, struct rseries *s, const struct span *sp,
			struct value_series *out, struct err *e)
{
	struct pwindow w = { .s = s };
	struct taken taken = { 0 };
	if (s->smp)
		return refuse_subquery(n->call.fn->name, e);
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i), to = mods_time(r->mods, t), ms = 0, a, b;
		pwindow_slide(&w, to - r->range_ms, to);
		taken_window(&taken, w.lo, w.hi);
		for (size_t k = pwindow_first(&w); k < w.hi; k++)
			if (!s->vp[k].stale && pwindow_covered(&w, k, &a, &b))
				ms += b - a;
		int rc = eval_check_at(q, i, e);
		if (!rc && ms)
			rc = series_push(q, out, t, (double)ms / (double)r->range_ms, NULL, e);
		if (rc)
			return rc;
	}
	taken_count(q, &taken, false);
	return 0;
}

CALL(fn_coverage)
{
	return over_range(q, n, sp, "use count_over_time", ret, coverage_one, e);
}

int keep_profiles(struct eval *q, const struct node *n, const char *fn, const char *remedy, struct value *v, struct err *e)
{
	size_t profiles = 0, floats = 0;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			++*(v->s[i].s[k].p ? &profiles : &floats);
	int rc = check_any_profile(q, n, fn, remedy, profiles, floats, e);
	for (size_t i = 0; i < v->n && floats && !rc; i++) {
		size_t out = 0;
		for (size_t k = 0; k < v->s[i].n; k++)
			if (v->s[i].s[k].p)
				v->s[i].s[out++] = v->s[i].s[k];
		atomic_fetch_sub(&q->held, v->s[i].n - out);
		v->s[i].n = out;
	}
	if (floats && !rc)
		value_compact(v);
	return rc;
}
