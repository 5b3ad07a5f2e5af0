/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles over time: what a range of a profile series adds up to. A profile covers (t-w, t]; a query at `to` sees
 * those stamped up to it, and the newest of them also covers forward until the next is due, never past a stale marker:
 *
 *	          from                                  to
 *	   ---|-----(--|---------|---------|---------|--x--]-------> time
 *	      t1       t2        t3        t4        t5 :  due
 *	        <-w2->   <- w3 ->  <- w4 ->  <- w5 ->...>
 *
 * rate and increase take each in proportion to how much of its w lies in the range (the part ahead of the newest
 * counts at its own density); merge of deltas takes whole those stamped in (from, to]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "funcs.h"

/* ---- windows over profiles ---- */

struct pwindow {
	const struct rseries *s;
	int64_t from, to;
	size_t lo, hi;     /* stamped in (from, to], markers included */
	size_t newest;     /* of those stamped <= to; SIZE_MAX: none */
};

static void slide(struct pwindow *w, int64_t from, int64_t to)
{
	w->from = from;
	w->to = to;
	while (w->hi < w->s->n_vp && w->s->vp[w->hi].t_ms <= to)
		w->hi++;
	while (w->lo < w->hi && w->s->vp[w->lo].t_ms <= from)
		w->lo++;
	w->newest = w->hi;
	while (w->newest > 0 && w->s->vp[w->newest - 1].stale)
		w->newest--;
	w->newest = w->newest ? w->newest - 1 : SIZE_MAX;
}

/* What of profile i's cover lies in the range, as an interval; false if nothing. */
static bool covered(const struct pwindow *w, size_t i, int64_t *ret_from, int64_t *ret_to)
{
	const struct source_profile *p = &w->s->vp[i];
	int64_t lo = p->t_ms - p->cover_ms, hi = p->t_ms;
	if (i == w->newest) {
		hi += p->interval_ms;
		if (i + 1 < w->hi) /* all that follow are markers */
			hi = MIN(hi, w->s->vp[i + 1].t_ms);
	}
	*ret_from = MAX(lo, w->from);
	*ret_to = MIN(hi, w->to);
	return *ret_from < *ret_to;
}

/* The first that can cover: one in the range, or the newest before it. */
static size_t first_covering(const struct pwindow *w)
{
	return w->newest != SIZE_MAX && w->newest < w->lo ? w->newest : w->lo;
}

static int64_t part_after(const struct rseries *s, size_t i, bool joined)
{
	return joined && !s->refs ? s->vp[i - 1].t_ms : s->vp[i].t_ms - 1;
}

static int add_one(struct side *side, const struct rseries *s, size_t i, bool joined, double scale, struct err *e)
{
	const struct source_profile *p = &s->vp[i];
	return side_add_stored(side, s->refs ? s->refs[i] : s->ref, part_after(s, i, joined), p->t_ms, p->total, scale, e);
}

/* Stamped in the range, whole, each times scale. Of one series they are all that it has there, so that the range is asked
 * for and not their stamps: series that are asked the same are read as one (source.h). */
static int add_whole(struct prof *p, const struct pwindow *w, double scale, struct err *e)
{
	bool joined = false, any = false, first = !p->a.n;
	for (size_t i = w->lo; i < w->hi; i++) {
		const struct source_profile *s = &w->s->vp[i];
		if (s->stale) {
			joined = false;
			continue;
		}
		int rc = add_one(&p->a, w->s, i, joined, scale, e);
		if (rc)
			return rc;
		p->period = MAX(p->period, s->period);
		joined = any = true;
	}
	if (any && first && !w->s->refs)
		side_widen(&p->a, w->from, w->to);
	return 0;
}

static size_t count_whole(const struct pwindow *w)
{
	size_t n = 0;
	for (size_t i = w->lo; i < w->hi; i++)
		n += !w->s->vp[i].stale;
	return n;
}

/* Most profiles lie in the range as a whole, and were asked for all of the time that they cover. */
static inline bool is_plain(const struct pwindow *w, size_t i, bool weighted)
{
	const struct source_profile *s = &w->s->vp[i];
	return !s->stale && i != w->newest && s->cover_ms > 0 && s->t_ms - s->cover_ms >= w->from && (!weighted || s->weight == 1);
}

/* The plain ones from i on, as add_covered would; returns the next that is not. No terms are kept. */
static size_t add_plain(struct prof *p, const struct pwindow *w, size_t i, bool weighted, int64_t *ret_ms)
{
	for (; i < w->hi && is_plain(w, i, weighted); i++) {
		const struct source_profile *s = &w->s->vp[i];
		if (UNLIKELY(__builtin_add_overflow(p->a.total, s->total, &p->a.total))) {
			p->a.total = (int64_t)((uint64_t)p->a.total - (uint64_t)s->total);
			break; /* the other way knows what to say */
		}
		p->a.ftotal += (double)s->total;
		p->period = MAX(p->period, s->period);
		*ret_ms += s->cover_ms;
	}
	return i;
}

/* In proportion to what lies in the range; *ret_ms gets how much was covered. */
static int add_covered(struct prof *p, const struct pwindow *w, double times, bool weighted, int64_t *ret_ms, struct err *e)
{
	bool joined = false;
	for (size_t i = first_covering(w); i < w->hi; i++) {
		if (p->a.no_terms && times == 1 && (i = add_plain(p, w, i, weighted, ret_ms)) == w->hi)
			break;
		const struct source_profile *s = &w->s->vp[i];
		int64_t from, to;
		if (s->stale || !covered(w, i, &from, &to)) {
			joined = false;
			continue;
		}
		double scale = times * (weighted && s->weight > 0 ? s->weight : 1);
		if (to - from != s->cover_ms && s->cover_ms > 0)
			scale *= (double)(to - from) / (double)s->cover_ms;
		int rc = add_one(&p->a, w->s, i, joined, scale, e);
		if (rc)
			return rc;
		p->period = MAX(p->period, s->period);
		*ret_ms += to - from;
		joined = true;
	}
	return 0;
}

static int refuse_gauge(const char *fn, const struct ptype *t, struct err *e)
{
	struct buf name = { 0 };
	ptype_format(t, &name);
	int rc = err_set(e, ERR_EXECUTION, "%s of the gauge %s has no meaning: use deriv(...) for how fast it changes, "
			 "or merge(...[range]) for its mean", fn, name.ptr);
	buf_free(&name);
	return rc;
}

static int refuse_subquery(const char *fn, struct err *e)
{
	return err_set(e, ERR_EXECUTION, "%s of a subquery of profiles has no meaning, since a subquery holds snapshots: use the "
		       "plain range, as in %s(cpu[5m])", fn, fn);
}

/* ---- range functions with a meaning of their own ---- */

static int rate_window(const struct pwindow *w, bool per_second, struct prof *p, bool *ret_any, struct err *e)
{
	int64_t ms = 0;
	int rc = add_covered(p, w, 1, true, &ms, e);
	p->per_s = per_second ? (double)(w->to - w->from) / 1000 : 0;
	p->covered_s = (double)ms / 1000;
	*ret_any = ms > 0;
	return rc;
}

/* What a function does with the profiles of a window. */
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

static int plain_window(enum over over, const struct pwindow *w, struct prof *p, bool *ret_any, struct err *e)
{
	if (over == OVER_RATE || over == OVER_INCREASE)
		return rate_window(w, over == OVER_RATE, p, ret_any, e);
	size_t n = count_whole(w);
	*ret_any = n > 0;
	if (!n)
		return 0;
	if (over == OVER_SUM || over == OVER_MEAN) {
		for (size_t i = w->lo; i < w->hi; i++)
			p->covered_s += w->s->vp[i].stale ? 0 : (double)w->s->vp[i].cover_ms / 1000;
		return add_whole(p, w, over == OVER_MEAN && n > 1 ? 1 / (double)n : 1, e);
	}
	size_t i = pick(w, over);
	p->period = w->s->vp[i].period;
	p->covered_s = (double)w->s->vp[i].duration_ns / 1e9;
	return add_one(&p->a, w->s, i, false, 1, e);
}

/* Snapshots of a subquery. */
static int snapshot_window(struct eval *q, const struct func *f, const struct node *n, const struct sample *s, size_t count,
			   struct prof **ret, struct err *e)
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
		*ret = prof_ref(s[best].p);
		return 0;
	}
	struct prof *sum = NULL;
	double by = mean && count > 1 ? 1 / (double)count : 1, unit;
	int rc = prof_scale(s[0].p, by, &sum, e);
	for (size_t i = 1; i < count && !rc; i++) {
		rc = prof_compatible(sum->type, s[i].p->type, false, f->name, &unit, e);
		if (!rc)
			rc = prof_accumulate(sum, s[i].p, by * unit, e);
	}
	if (rc)
		prof_unref(sum);
	else
		*ret = sum;
	return rc;
}

static int snapshot_windows(struct eval *q, const struct func *f, const struct node *n, struct range *r, struct rseries *s,
			    const struct span *sp, struct series *out, struct err *e)
{
	size_t lo = 0, hi = 0;
	if (strcmp(f->name, "rate") == 0 || strcmp(f->name, "increase") == 0 || strcmp(f->name, "merge_over_time") == 0)
		return refuse_subquery(f->name, e);
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i), to = mods_time(r->mods, t);
		window_slide(s->pts, s->n, &lo, &hi, to - r->range_ms, to);
		struct prof *p = NULL;
		int rc = lo < hi ? snapshot_window(q, f, n, s->smp + lo, hi - lo, &p, e) : 0;
		if (!rc && p)
			rc = series_push(q, out, t, prof_value(p), p, e);
		if (rc)
			return rc;
	}
	return 0;
}

int profile_window(struct eval *q, const struct func *f, const struct node *n, struct range *r, struct rseries *s,
		   const struct span *sp, struct series *out, struct err *e)
{
	if (s->smp)
		return snapshot_windows(q, f, n, r, s, sp, out, e);
	enum over over = over_of(f, s->type);
	if (s->type->kind == PROFILE_GAUGE && (over == OVER_RATE || over == OVER_INCREASE))
		return refuse_gauge(f->name, s->type, e);
	struct pwindow w = { .s = s };
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i), to = mods_time(r->mods, t);
		slide(&w, to - r->range_ms, to);
		struct prof *p = prof_new(s->type, 0);
		bool any = false;
		int rc = i % 256 ? 0 : eval_check(q, e);
		if (!rc)
			rc = plain_window(over, &w, p, &any, e);
		if (rc || !any)
			prof_unref(p);
		if (!rc && any)
			rc = series_push(q, out, t, prof_value(p), p, e);
		if (rc)
			return rc;
	}
	return 0;
}

int profile_totals(struct eval *q, const struct func *f, const struct range *r, const struct rseries *s, const struct span *sp,
		   struct total *out, double *ret_per_s, struct err *e)
{
	enum over over = over_of(f, s->type);
	if (s->type->kind == PROFILE_GAUGE && (over == OVER_RATE || over == OVER_INCREASE))
		return refuse_gauge(f->name, s->type, e);
	struct pwindow w = { .s = s };
	for (size_t i = 0; i < sp->n; i++) {
		int64_t to = mods_time(r->mods, span_at(sp, i));
		slide(&w, to - r->range_ms, to);
		struct prof p = { .type = s->type, .a.no_terms = true };
		bool any = false;
		int rc = i % 256 ? 0 : eval_check(q, e);
		if (!rc)
			rc = plain_window(over, &w, &p, &any, e);
		if (rc)
			return rc;
		*ret_per_s = p.per_s;
		out[i] = (struct total){ p.a.total, p.a.ftotal, p.a.is_float, any };
	}
	return 0;
}

/* Whether there is anything that a profile function can take; an error if all of it is numbers. */
static int check_any_profile(struct eval *q, const struct node *n, const char *fn, const char *remedy, size_t profiles,
			     size_t floats, struct err *e)
{
	char place[32];
	if (floats && !profiles)
		return err_set(e, ERR_EXECUTION, "%s: %s takes profiles, but the operand has only numbers: %s",
			       eval_place(q, n->start, place), fn, remedy);
	if (floats)
		eval_note(q, false, "PromQL warning: %s passes over elements that are numbers (%s)", fn, eval_place(q, n->start, place));
	return 0;
}

static void count_kinds(const struct range *r, size_t *profiles, size_t *floats)
{
	for (size_t i = 0; i < r->n; i++)
		++*(r->s[i].type ? profiles : floats);
}

/* Per series, over plain ranges; what rate does for counters and profiles, these do for profiles alone. */
static int over_range(struct eval *q, struct node *n, const struct span *sp, const char *remedy, struct value *ret,
		      int (*one)(struct eval *, struct node *, struct range *, struct rseries *, const struct span *,
				 struct series *, struct err *),
		      struct err *e)
{
	struct range r;
	struct value v;
	int rc = range_load(q, n->call.args[0], sp, &r, e);
	if (rc)
		return rc;
	size_t profiles = 0, floats = 0;
	count_kinds(&r, &profiles, &floats);
	value_start(q, &v, PROMQL_VECTOR);
	rc = check_any_profile(q, n, n->call.fn->name, remedy, profiles, floats, e);
	for (size_t i = 0; i < r.n && !rc; i++)
		if (r.s[i].type)
			rc = one(q, n, &r, &r.s[i], sp, value_add(&v, r.s[i].labels, true), e);
	range_free(&r);
	if (rc) {
		value_free(&v);
		return rc;
	}
	value_compact(&v);
	*ret = v;
	return 0;
}

static int merge_one(struct eval *q, struct node *n, struct range *r, struct rseries *s, const struct span *sp,
		     struct series *out, struct err *e)
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

static int coverage_one(struct eval *q, struct node *n, struct range *r, struct rseries *s, const struct span *sp,
			struct series *out, struct err *e)
{
	struct pwindow w = { .s = s };
	if (s->smp)
		return refuse_subquery(n->call.fn->name, e);
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i), to = mods_time(r->mods, t), ms = 0, a, b;
		slide(&w, to - r->range_ms, to);
		for (size_t k = first_covering(&w); k < w.hi; k++)
			if (!s->vp[k].stale && covered(&w, k, &a, &b))
				ms += b - a;
		int rc = ms ? series_push(q, out, t, (double)ms / (double)r->range_ms, NULL, e) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

CALL(fn_coverage)
{
	return over_range(q, n, sp, "use count_over_time", ret, coverage_one, e);
}

/* ---- merge over time and series ---- */

struct interval {
	int64_t from, to;
};

struct merge_job {
	struct eval *q;
	struct node *n;
	const struct span *sp;
	struct range r;
	struct groups g;
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

static int check_same_type(const struct prof *p, const struct ptype *t, double *by, struct err *e)
{
	return prof_compatible(p->type, t, false, "merge", by, e);
}

/* The mean over the time that any series of the group was covered. */
static int merge_gauges(struct merge_job *j, size_t group, struct prof *p, bool *any, struct err *e)
{
	j->iv.n = 0;
	EACH_MEMBER(j, group, i) {
		if (!j->r.s[i].vp)
			continue;
		for (size_t k = first_covering(&j->w[i]); k < j->w[i].hi; k++) {
			struct interval v;
			if (!j->r.s[i].vp[k].stale && covered(&j->w[i], k, &v.from, &v.to))
				push_interval(j, v);
		}
	}
	int64_t all = union_length(j->iv.v, j->iv.n);
	*any = all > 0;
	p->covered_s = (double)all / 1000;
	EACH_MEMBER(j, group, i) {
		if (!j->r.s[i].vp || !all)
			continue;
		double unit;
		int rc = check_same_type(p, j->r.s[i].type, &unit, e);
		for (size_t k = first_covering(&j->w[i]); k < j->w[i].hi && !rc; k++) {
			int64_t from, to;
			if (j->r.s[i].vp[k].stale || !covered(&j->w[i], k, &from, &to))
				continue;
			double share = to - from == all ? 1 : (double)(to - from) / (double)all;
			rc = add_one(&p->a, &j->r.s[i], k, false, share * unit, e);
			p->period = MAX(p->period, j->r.s[i].vp[k].period);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int merge_deltas(struct merge_job *j, size_t group, struct prof *p, bool *any, struct err *e)
{
	j->iv.n = 0;
	EACH_MEMBER(j, group, i) {
		if (!j->r.s[i].vp)
			continue;
		struct pwindow *w = &j->w[i];
		if (!count_whole(w))
			continue;
		double unit;
		int rc = check_same_type(p, j->r.s[i].type, &unit, e);
		if (!rc)
			rc = add_whole(p, w, unit, e);
		if (rc)
			return rc;
		*any = true;
		for (size_t k = w->lo; k < w->hi && j->sp->n == 1; k++)
			if (!w->s->vp[k].stale)
				push_interval(j, (struct interval){ w->s->vp[k].t_ms - w->s->vp[k].cover_ms, w->s->vp[k].t_ms });
	}
	p->covered_s = (double)union_length(j->iv.v, j->iv.n) / 1000;
	return 0;
}

static bool has_data(const struct pwindow *w, bool gauge)
{
	int64_t a, b;
	if (!gauge)
		return count_whole(w) > 0;
	for (size_t k = first_covering(w); k < w->hi; k++)
		if (!w->s->vp[k].stale && covered(w, k, &a, &b))
			return true;
	return false;
}

static int merge_group(struct merge_job *j, size_t group, int64_t t, struct series *out, struct err *e)
{
	const struct ptype *type = NULL;
	EACH_MEMBER(j, group, i)
		if (!type && j->r.s[i].vp && has_data(&j->w[i], j->r.s[i].type->kind == PROFILE_GAUGE))
			type = j->r.s[i].type;
	if (!type)
		return 0;
	struct prof *p = prof_new(type, 0);
	bool any = false;
	int rc = type->kind == PROFILE_GAUGE ? merge_gauges(j, group, p, &any, e) : merge_deltas(j, group, p, &any, e);
	if (rc || !any) {
		prof_unref(p);
		return rc;
	}
	return series_push(j->q, out, t, prof_value(p), p, e);
}

static int merge_steps(struct merge_job *j, struct value *out, struct err *e)
{
	j->w = xcalloc(j->r.n + 1, sizeof *j->w);
	list_members(j);
	for (size_t i = 0; i < j->r.n; i++)
		j->w[i].s = &j->r.s[i];
	for (size_t g = 0; g < j->g.n; g++)
		value_add(out, j->g.labels[g], false);
	int rc = 0;
	for (size_t i = 0; i < j->sp->n && !rc; i++) {
		int64_t t = span_at(j->sp, i), to = mods_time(j->r.mods, t);
		for (size_t k = 0; k < j->r.n; k++)
			slide(&j->w[k], to - j->r.range_ms, to);
		for (size_t g = 0; g < j->g.n && !rc; g++)
			rc = merge_group(j, g, t, &out->s[g], e);
		if (!rc)
			rc = eval_check(j->q, e);
	}
	free(j->w);
	free(j->members);
	free(j->first);
	return rc;
}

static int merge_range(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct merge_job j = { .q = q, .n = n, .sp = sp };
	int rc = range_load(q, n->aggr.expr, sp, &j.r, e);
	if (rc)
		return rc;
	size_t profiles = 0, floats = 0, kept = 0;
	count_kinds(&j.r, &profiles, &floats);
	rc = check_any_profile(q, n, "merge", "use sum_over_time, or sum", profiles, floats, e);
	if (!rc && j.r.subquery && profiles)
		rc = refuse_subquery("merge", e);
	for (size_t i = 0; i < j.r.n; i++) { /* only profiles make groups */
		if (j.r.s[i].type) {
			struct rseries t = j.r.s[kept];
			j.r.s[kept++] = j.r.s[i];
			j.r.s[i] = t;
		}
	}
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
	if (rc) {
		value_free(&out);
		return rc;
	}
	value_compact(&out);
	*ret = out;
	return 0;
}

/* Takes out samples that are numbers. */
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

/* ---- diff ---- */

static struct labels shared_labels(struct eval *q, struct labels a, struct labels b)
{
	struct label *v = eval_alloc(q, a.n * sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < a.n; i++)
		if (view_eq(labels_get(b, a.v[i].name), a.v[i].value))
			v[n++] = a.v[i];
	return (struct labels){ v, n };
}

static int diff_pair(struct eval *q, const struct sample *a, const struct sample *b, bool share, struct series *out,
		     struct err *e)
{
	double unit, scale = 1;
	struct prof *other = b->p, *scaled = NULL, *p = NULL;
	int rc = prof_compatible(a->p->type, b->p->type, true, "diff", &unit, e);
	if (!rc && unit != 1) {
		rc = prof_scale(b->p, unit, &scaled, e);
		other = scaled;
	}
	if (!rc && share && a->v != 0)
		scale = b->v / a->v;
	if (!rc)
		rc = prof_diff(a->p, other, scale, &p, e);
	prof_unref(scaled);
	return rc ? rc : series_push(q, out, a->t_ms, prof_value(p), p, e);
}

static int diff_series(struct eval *q, struct series *a, struct series *b, const struct span *sp, bool share,
		       struct series *out, struct err *e)
{
	size_t ca = 0, cb = 0;
	for (size_t i = 0; i < sp->n; i++) {
		struct sample *x = series_at(a, &ca, span_at(sp, i)), *y = series_at(b, &cb, span_at(sp, i));
		int rc = x && y ? diff_pair(q, x, y, share, out, e) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

static int diff_matched(struct eval *q, struct value *a, struct value *b, const struct span *sp, bool share,
			struct value *out, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < a->n && !rc; i++) {
		struct labels key = eval_drop_name(q, a->s[i].labels);
		struct series *match = NULL;
		for (size_t k = 0; k < b->n && !rc; k++) {
			if (!labels_eq(key, eval_drop_name(q, b->s[k].labels)))
				continue;
			if (match)
				rc = err_set(e, ERR_EXECUTION, "diff: several elements on the right-hand side have the labels of one on the left");
			match = &b->s[k];
		}
		if (match && !rc)
			rc = diff_series(q, &a->s[i], match, sp, share, value_add(out, key, false), e);
	}
	return rc ? rc : merge_same_labels(out, e);
}

CALL(fn_diff)
{
	bool share = false;
	if (n->call.n > 2) {
		share = view_eqs(string_arg(n->call.args[2]), "share");
		if (!share)
			return err_set(e, ERR_EXECUTION, "diff: the third argument can only be \"share\", got \"%.*s\"",
				       VIEW_ARG(string_arg(n->call.args[2])));
	}
	struct value a = { 0 }, b = { 0 }, out;
	value_start(q, &out, PROMQL_VECTOR);
	int rc = eval_node(q, n->call.args[0], sp, &a, e);
	if (!rc)
		rc = eval_node(q, n->call.args[1], sp, &b, e);
	if (!rc)
		rc = keep_profiles(q, n, "diff", "use -", &a, e);
	if (!rc)
		rc = keep_profiles(q, n, "diff", "use -", &b, e);
	if (!rc && a.n == 1 && b.n == 1)
		rc = diff_series(q, &a.s[0], &b.s[0], sp, share,
				 value_add(&out, shared_labels(q, a.s[0].labels, b.s[0].labels), true), e);
	else if (!rc)
		rc = diff_matched(q, &a, &b, sp, share, &out, e);
	value_free(&a);
	value_free(&b);
	if (rc) {
		value_free(&out);
		return rc;
	}
	value_compact(&out);
	*ret = out;
	return 0;
}
