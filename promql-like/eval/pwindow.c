/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/eval/pwindow.h"

void pwindow_slide(struct pwindow *w, int64_t from, int64_t to)
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

bool pwindow_covered(const struct pwindow *w, size_t i, int64_t *ret_from, int64_t *ret_to)
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

size_t pwindow_first(const struct pwindow *w)
{
	return w->newest != SIZE_MAX && w->newest < w->lo ? w->newest : w->lo;
}

static int64_t part_after(const struct rseries *s, size_t i, bool joined)
{
	return joined && !s->refs ? s->vp[i - 1].t_ms : s->vp[i].t_ms - 1;
}

int pwindow_add_one(struct lazy_side *side, const struct rseries *s, size_t i, bool joined, double scale, struct err *e)
{
	const struct source_profile *p = &s->vp[i];
	return lazy_side_add_stored(side, s->refs ? s->refs[i] : s->ref, part_after(s, i, joined), p->t_ms, p->total, scale, e);
}

bool pwindow_split(const struct pwindow *w, size_t i, int64_t *ret_behind_ms, int64_t *ret_ahead_ms)
{
	int64_t from, to, t = w->s->vp[i].t_ms;
	*ret_behind_ms = *ret_ahead_ms = 0;
	if (w->s->vp[i].stale || !pwindow_covered(w, i, &from, &to))
		return false;
	*ret_behind_ms = MAX(MIN(to, t) - from, 0);
	*ret_ahead_ms = to - from - *ret_behind_ms;
	return true;
}

bool pwindow_is_near(const struct pwindow *w)
{
	return (w->lo > 0 && w->from - w->s->vp[w->lo - 1].t_ms < PWINDOW_NEAR_MS) || (w->hi < w->s->n_vp && w->s->vp[w->hi].t_ms - w->to < PWINDOW_NEAR_MS);
}

/* If the profiles are all that one series has in the range, the range is requested instead of their stamps: series with equal requests are
 * read as one (source.h). For that, a series with profiles only shortly before or after is requested, too: a service's sum is read only if
 * all of its series are requested. */
int pwindow_add_whole(struct lazy_profile *p, const struct pwindow *w, double scale, struct err *e)
{
	bool joined = false, any = false;
	size_t first = p->a.n;
	for (size_t i = w->lo; i < w->hi; i++) {
		const struct source_profile *s = &w->s->vp[i];
		if (s->stale) {
			joined = false;
			continue;
		}
		int rc = pwindow_add_one(&p->a, w->s, i, joined, scale, e);
		if (rc)
			return rc;
		source_weights_add(&p->weights, (double)s->total * scale, s->weight);
		p->period = MAX(p->period, s->period);
		joined = any = true;
	}
	if (w->s->refs)
		return 0;
	if (any)
		lazy_side_widen(&p->a, first, w->from, w->to);
	else if (pwindow_is_near(w))
		return lazy_side_add_stored(&p->a, w->s->ref, w->from, w->to, 0, scale, e);
	return 0;
}

size_t pwindow_count(const struct pwindow *w)
{
	size_t n = 0;
	for (size_t i = w->lo; i < w->hi; i++)
		n += !w->s->vp[i].stale;
	return n;
}

/* Most profiles are completely within the range, and measured all of the time that they cover. */
static inline bool is_plain(const struct pwindow *w, size_t i, bool weighted)
{
	const struct source_profile *s = &w->s->vp[i];
	return !s->stale && i != w->newest && s->cover_ms > 0 && s->t_ms - s->cover_ms >= w->from && (!weighted || s->weight == 1);
}

/* What a window comes to: those that count whole, and parts of others in order of time. The sum does not depend on how the whole ones are added up. */
struct covered {
	int128 whole;
	double parts;
	int64_t ms;
};

/* The totals of the plain ones from i on, as add_covered would; returns the next that is not. */
static size_t add_plain(struct lazy_profile *p, const struct pwindow *w, size_t i, bool weighted, struct covered *sum)
{
	for (; i < w->hi && is_plain(w, i, weighted); i++) {
		const struct source_profile *s = &w->s->vp[i];
		if (UNLIKELY(__builtin_add_overflow(p->a.total, s->total, &p->a.total))) {
			p->a.total = (int64_t)((uint64_t)p->a.total - (uint64_t)s->total);
			break; /* the other way knows what to say */
		}
		sum->whole += s->total;
		p->period = MAX(p->period, s->period);
		sum->ms += s->cover_ms;
	}
	return i;
}

/* Most of a window is a run of plain ones, which are one term. *i: the next one without a profile; *joined as of it. */
static int add_run(struct lazy_profile *p, const struct pwindow *w, bool weighted, size_t *i, bool *joined, struct covered *sum, struct err *e)
{
	const struct rseries *s = w->s;
	size_t first = *i;
	if (s->refs && !p->a.no_terms)
		return 0;
	*i = add_plain(p, w, first, weighted, sum);
	if (*i == first || p->a.no_terms)
		return 0;
	int64_t after = part_after(s, first, *joined);
	*joined = true;
	return lazy_side_add_stored(&p->a, s->ref, after, s->vp[*i - 1].t_ms, 0, 1, e); /* its total is there already */
}

static int add_covered(struct lazy_profile *p, const struct pwindow *w, double times, bool weighted, struct covered *sum, struct err *e)
{
	bool joined = false;
	for (size_t i = pwindow_first(w); i < w->hi; i++) {
		int rc = times == 1 ? add_run(p, w, weighted, &i, &joined, sum, e) : 0;
		if (rc || i == w->hi)
			return rc;
		const struct source_profile *s = &w->s->vp[i];
		int64_t from, to;
		if (s->stale || !pwindow_covered(w, i, &from, &to)) {
			joined = false;
			continue;
		}
		double scale = times * (weighted && s->weight > 0 ? s->weight : 1);
		if (to - from != s->cover_ms && s->cover_ms > 0)
			scale *= (double)(to - from) / (double)s->cover_ms;
		rc = pwindow_add_one(&p->a, w->s, i, joined, scale, e);
		if (rc)
			return rc;
		if (scale == 1)
			sum->whole += s->total;
		else
			sum->parts += (double)s->total * scale;
		p->period = MAX(p->period, s->period);
		sum->ms += to - from;
		joined = true;
	}
	return 0;
}

int pwindow_add_covered(struct lazy_profile *p, const struct pwindow *w, double times, bool weighted, int64_t *ret_ms, struct err *e)
{
	struct covered sum = { 0 };
	double before = p->a.ftotal;
	int rc = add_covered(p, w, times, weighted, &sum, e);
	p->a.ftotal = before + (sum.parts + (double)sum.whole);
	*ret_ms += sum.ms;
	return rc;
}
