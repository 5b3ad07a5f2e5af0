/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/stacks/graph_terms.h"

#include <math.h>
#include <stdlib.h>

/* One term of one series: its profiles in (after, until] count at that step. */
struct entry {
	int64_t after, until;
	double scale;
	uint32_t step, lane;
};

/* All entries of one stored series in order of steps, and bounds for searching them. */
struct ref_terms {
	uint64_t ref;
	VEC(struct entry) e;
	int64_t *latest, *earliest; /* of until up to here; of after from here on */
};

static struct ref_terms *need_ref(struct graph_terms *g, uint64_t ref)
{
	uint64_t h = hash_u64(ref);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&g->by_ref, h, id, g->refs.n, g->refs.v[id].ref == ref))
		vec_push(&g->refs, (struct ref_terms){ .ref = ref });
	return &g->refs.v[id];
}

static bool is_whole(double scale)
{
	return scale == 1 || scale == -1;
}

static void meet_scale(struct graph_lane *l, double scale)
{
	if (is_whole(scale) || scale == 0)
		return;
	l->least = l->most == 0 ? fabs(scale) : fmin(l->least, fabs(scale));
	l->most = isfinite(scale) ? fmax(l->most, fabs(scale)) : INFINITY;
}

/* Parts take 62 bits at most. A value much smaller than another in its lane keeps fewer bits, but still more than are printed. */
#define PART_BITS 62
#define PARTS_APART 0x1p24

static bool set_bits(struct graph_lane *l)
{
	int up = 0;
	if (!isfinite(l->most) || l->most > l->least * PARTS_APART)
		return false;
	frexp(l->most, &up);
	l->bits = PART_BITS - up;
	return true;
}

static void add_side(struct graph_terms *g, const struct lazy_side *s, uint32_t step, uint32_t lane)
{
	struct ref_terms *to = NULL;
	while (g->lanes.n <= lane)
		vec_push(&g->lanes, (struct graph_lane){ 0 });
	for (size_t i = 0; i < s->n; i++) {
		const struct lazy_term *t = &s->t[i];
		if (!to || to->ref != t->ref)
			to = need_ref(g, t->ref);
		vec_push(&to->e, (struct entry){ t->after_ms, t->until_ms, t->scale, step, lane });
		meet_scale(&g->lanes.v[lane], t->scale);
	}
}

/* Stacks that exist already, ranges for which storage keeps sums by the hour, and those that storage weighs are not for a table. */
static bool side_fits(const struct lazy_side *s)
{
	if (lazy_side_whole(s))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->t[i].vec || s->t[i].weigh.over_ms || s->t[i].until_ms - s->t[i].after_ms > GRAPH_RANGE_MOST_MS)
			return false;
	return true;
}

bool graph_terms_fit(const struct value *v)
{
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct lazy_profile *p = v->s[i].s[k].p;
			if (!p || !side_fits(&p->a) || (p->diff && !side_fits(&p->b)))
				return false;
		}
	return true;
}

/* After the last entry. */
static void bound_refs(struct graph_terms *g)
{
	for (size_t i = 0; i < g->refs.n; i++) {
		struct ref_terms *r = &g->refs.v[i];
		r->latest = xcalloc(r->e.n + 1, sizeof *r->latest);
		r->earliest = xcalloc(r->e.n + 1, sizeof *r->earliest);
		for (size_t k = 0; k < r->e.n; k++)
			r->latest[k] = k ? MAX(r->latest[k - 1], r->e.v[k].until) : r->e.v[k].until;
		for (size_t k = r->e.n; k-- > 0;)
			r->earliest[k] = k + 1 < r->e.n ? MIN(r->earliest[k + 1], r->e.v[k].after) : r->e.v[k].after;
	}
}

bool graph_terms_list(struct graph_terms *g, const struct value *v, const struct span *sp)
{
	*g = (struct graph_terms){ .sp = sp };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct value_sample *s = &v->s[i].s[k];
			add_side(g, &s->p->a, graph_step(g->sp, s->t_ms), (uint32_t)(2 * i));
			if (s->p->diff)
				add_side(g, &s->p->b, graph_step(g->sp, s->t_ms), (uint32_t)(2 * i + 1));
		}
	bound_refs(g);
	for (size_t i = 0; i < g->lanes.n; i++)
		if (!set_bits(&g->lanes.v[i]))
			return false;
	return true;
}

/* The first that may reach beyond a time. */
static size_t first_beyond(const struct ref_terms *r, int64_t t_ms)
{
	size_t lo = 0, hi = r->e.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (r->latest[mid] <= t_ms)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Entries from *lo on that may hold a profile stamped t; stamps mostly ascend. */
static void seek_entry(const struct ref_terms *r, size_t *lo, int64_t t_ms)
{
	if (*lo && r->latest[*lo - 1] >= t_ms)
		*lo = first_beyond(r, t_ms - 1);
	for (size_t tries = 8; *lo < r->e.n && r->latest[*lo] < t_ms; ++*lo)
		if (!tries--) {
			*lo = first_beyond(r, t_ms - 1);
			break;
		}
}

static inline bool holds(const struct entry *x, int64_t t_ms)
{
	return t_ms > x->after && t_ms <= x->until;
}

/* Adds a step in which it counts: to those from `begin` on, and to the run that it continues, if there is one. */
static void add_step(const struct graph_terms *g, struct graph_classes *to, size_t begin, const struct entry *x, double scale)
{
	to->work++;
	for (size_t i = to->runs.n; i > begin; i--, to->work++) {
		struct graph_run *r = &to->runs.v[i - 1];
		if (r->lane == x->lane && r->scale == scale && r->end == x->step) {
			r->end = x->step + 1;
			return;
		}
	}
	int64_t part = is_whole(scale) ? 0 : (int64_t)ldexp(scale, g->lanes.v[x->lane].bits);
	vec_push(&to->runs, (struct graph_run){ x->step, x->step + 1, x->lane, is_whole(scale), scale, part });
}

#define CLASSES_WORK ((size_t)1 << 16)

/* Whether the query may go on, now and then. */
static int classes_check(struct graph_classes *c, struct eval *q, struct err *e)
{
	if (LIKELY(c->work < CLASSES_WORK))
		return 0;
	size_t more = c->runs.n > c->n_held ? c->runs.n - c->n_held : 0;
	c->work = 0;
	c->n_held += more;
	int rc = more ? eval_hold_bytes(q, 2 * more * sizeof *c->runs.v, e) : 0; /* as much again is free at the end */
	return rc ? rc : eval_check(q, e);
}

/* The runs of a profile stamped t_ms. */
static int find_runs(const struct graph_terms *g, struct eval *q, const struct ref_terms *r, size_t lo, int64_t t_ms, struct graph_classes *to, struct err *e)
{
	size_t begin = to->runs.n;
	int rc = 0;
	for (; lo < r->e.n && r->earliest[lo] < t_ms && !rc; lo++)
		if (holds(&r->e.v[lo], t_ms)) {
			add_step(g, to, begin, &r->e.v[lo], r->e.v[lo].scale);
			rc = classes_check(to, q, e);
		}
	return rc;
}

/* Their excess over the middle of their minute. */
static int find_odd_runs(const struct graph_terms *g, struct eval *q, const struct ref_terms *r, int64_t t_ms, struct graph_classes *to, struct err *e)
{
	int64_t mid = source_mid_minute(t_ms);
	size_t begin = to->runs.n;
	int rc = 0;
	for (size_t lo = first_beyond(r, MIN(t_ms, mid) - 1); lo < r->e.n && r->earliest[lo] < MAX(t_ms, mid) && !rc; lo++) {
		const struct entry *x = &r->e.v[lo];
		to->work++;
		if (holds(x, t_ms) != holds(x, mid))
			add_step(g, to, begin, x, holds(x, t_ms) ? x->scale : -x->scale);
		rc = classes_check(to, q, e);
	}
	return rc;
}

bool graph_terms_odd(const struct graph_terms *g, size_t series, int64_t t_ms)
{
	const struct ref_terms *r = &g->refs.v[series];
	int64_t mid = source_mid_minute(t_ms);
	for (size_t lo = first_beyond(r, MIN(t_ms, mid) - 1); lo < r->e.n && r->earliest[lo] < MAX(t_ms, mid); lo++)
		if (holds(&r->e.v[lo], t_ms) != holds(&r->e.v[lo], mid))
			return true;
	return false;
}

static bool same_runs(const struct graph_run *x, const struct graph_run *y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (x[i].first != y[i].first || x[i].end != y[i].end || x[i].lane != y[i].lane || x[i].scale != y[i].scale)
			return false;
	return true;
}

/* Whether the runs from `begin` on are those of the class before, which are dropped then. */
static bool goes_on(struct graph_classes *c, size_t begin)
{
	if (!c->first_run.n)
		return false;
	size_t before = c->first_run.v[c->first_run.n - 1];
	if (begin - before != c->runs.n - begin || !same_runs(c->runs.v + before, c->runs.v + begin, begin - before))
		return false;
	c->runs.n = begin;
	return true;
}

int graph_terms_classes(const struct graph_terms *g, struct eval *q, size_t series, const int64_t *t_ms, const uint8_t *summed, size_t n, struct graph_classes *ret,
			struct err *e)
{
	const struct ref_terms *r = &g->refs.v[series];
	size_t at = 0;
	int rc = 0;
	ret->runs.n = ret->first_run.n = ret->of.n = 0;
	ret->first = UINT32_MAX;
	ret->end = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		size_t begin = ret->runs.n;
		if (summed && summed[i]) {
			rc = find_odd_runs(g, q, r, t_ms[i], ret, e);
		} else {
			seek_entry(r, &at, t_ms[i]);
			rc = find_runs(g, q, r, at, t_ms[i], ret, e);
		}
		if (!goes_on(ret, begin))
			vec_push(&ret->first_run, (uint32_t)begin);
		vec_push(&ret->of, (uint32_t)ret->first_run.n - 1);
	}
	vec_push(&ret->first_run, (uint32_t)ret->runs.n);
	for (size_t i = 0; i < ret->runs.n; i++) {
		ret->first = MIN(ret->first, ret->runs.v[i].first);
		ret->end = MAX(ret->end, ret->runs.v[i].end);
	}
	return rc;
}

void graph_classes_free(struct graph_classes *c)
{
	vec_free(&c->runs);
	vec_free(&c->first_run);
	vec_free(&c->of);
}

/* The next entry from *at on that meets the range; NULL: none. */
static const struct entry *next_meeting(const struct ref_terms *r, size_t *at, int64_t after, int64_t until)
{
	while (*at < r->e.n && r->earliest[*at] < until) {
		const struct entry *x = &r->e.v[(*at)++];
		if (x->after < until && x->until > after)
			return x;
	}
	return NULL;
}

/* Whether both say the same of what is stamped in (after, until]. */
static bool same_within(const struct entry *x, const struct entry *y, int64_t after, int64_t until)
{
	return MAX(x->after, after) == MAX(y->after, after) && MIN(x->until, until) == MIN(y->until, until) && x->scale == y->scale &&
	       x->step == y->step && x->lane == y->lane;
}

static bool bound_is_whole(int64_t t_ms, int64_t after, int64_t until)
{
	return t_ms <= after || t_ms >= until || t_ms % SOURCE_MINUTE_MS == 0;
}

/* The range that counts like the middle of a minute: from *from on, up to *to. */
static void steady(const struct ref_terms *r, int64_t mid, int64_t *from, int64_t *to)
{
	const struct entry *x;
	size_t i = first_beyond(r, *from);
	while ((x = next_meeting(r, &i, *from, *to))) {
		int64_t bounds[] = { x->after, x->until };
		for (size_t k = 0; k < 2; k++)
			if (bounds[k] < mid)
				*from = MAX(*from, bounds[k]);
			else
				*to = MIN(*to, bounds[k]);
	}
}

/* The next that holds a stamp; NULL: none. */
static const struct entry *next_holding(const struct ref_terms *r, size_t *at, int64_t t_ms)
{
	return next_meeting(r, at, t_ms - 1, t_ms);
}

/* Whether what is stamped in the middle counts alike, and as most of the minute does. */
static bool alike_but_few(const struct ref_terms *r, const struct ref_terms *s, int64_t after, int64_t until)
{
	int64_t mid = source_mid_minute(until), from = after, to = until;
	if (until - after != SOURCE_MINUTE_MS || until % SOURCE_MINUTE_MS)
		return false;
	steady(r, mid, &from, &to);
	steady(s, mid, &from, &to);
	if (to - from < SOURCE_MINUTE_MS / 2)
		return false;
	for (size_t i = first_beyond(r, mid - 1), k = first_beyond(s, mid - 1);;) {
		const struct entry *x = next_holding(r, &i, mid), *y = next_holding(s, &k, mid);
		if (!x || !y)
			return !x && !y;
		if (x->step != y->step || x->lane != y->lane || x->scale != y->scale)
			return false;
	}
}

enum source_alike graph_terms_alike(const struct graph_terms *g, size_t a, size_t b, int64_t after, int64_t until)
{
	const struct ref_terms *r = &g->refs.v[a], *s = &g->refs.v[b];
	size_t i = first_beyond(r, after), k = first_beyond(s, after);
	bool all = true;
	for (;;) {
		const struct entry *x = next_meeting(r, &i, after, until), *y = next_meeting(s, &k, after, until);
		if (!x && !y)
			return all ? SOURCE_ALIKE : SOURCE_ALIKE_BY_MINUTE;
		if (!x || !y || !same_within(x, y, after, until) || !bound_is_whole(x->after, after, until) || !bound_is_whole(x->until, after, until))
			return alike_but_few(r, s, after, until) ? SOURCE_ALIKE_BUT_FEW : SOURCE_UNLIKE;
		all &= x->after <= after && x->until >= until;
	}
}

uint64_t *graph_terms_refs(const struct graph_terms *g, int64_t *ret_after, int64_t *ret_until)
{
	uint64_t *refs = xcalloc(g->refs.n + 1, sizeof *refs);
	*ret_after = INT64_MAX;
	*ret_until = INT64_MIN;
	for (size_t i = 0; i < g->refs.n; i++) {
		const struct ref_terms *r = &g->refs.v[i];
		refs[i] = r->ref;
		*ret_after = MIN(*ret_after, r->earliest[0]);
		*ret_until = MAX(*ret_until, r->latest[r->e.n - 1]);
	}
	return refs;
}

void graph_terms_free(struct graph_terms *g)
{
	for (size_t i = 0; i < g->refs.n; i++) {
		vec_free(&g->refs.v[i].e);
		free(g->refs.v[i].latest);
		free(g->refs.v[i].earliest);
	}
	vec_free(&g->refs);
	vec_free(&g->lanes);
	map_free(&g->by_ref);
}

/* ---- asking another ---- */

void graph_terms_ask(const struct graph_terms *g, struct source_graph *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < g->refs.n; i++)
		n += g->refs.v[i].e.n;
	uint64_t *refs = xcalloc(g->refs.n + 1, sizeof *refs);
	uint32_t *first = xcalloc(g->refs.n + 1, sizeof *first);
	struct source_graph_term *terms = xcalloc(n + 1, sizeof *terms);
	int *bits = xcalloc(g->lanes.n + 1, sizeof *bits);
	n = 0;
	for (size_t i = 0; i < g->refs.n; i++) {
		refs[i] = g->refs.v[i].ref;
		first[i] = (uint32_t)n;
		for (size_t k = 0; k < g->refs.v[i].e.n; k++) {
			const struct entry *x = &g->refs.v[i].e.v[k];
			terms[n++] = (struct source_graph_term){ x->after, x->until, x->scale, x->step, x->lane };
		}
	}
	first[g->refs.n] = (uint32_t)n;
	for (size_t i = 0; i < g->lanes.n; i++)
		bits[i] = g->lanes.v[i].bits;
	*ret = (struct source_graph){ .n_steps = g->sp->n, .refs = refs, .first = first, .n_refs = g->refs.n, .terms = terms, .bits = bits,
				      .n_lanes = g->lanes.n };
}

void graph_terms_asked_free(struct source_graph *a)
{
	free((void *)(uintptr_t)a->refs);
	free((void *)(uintptr_t)a->first);
	free((void *)(uintptr_t)a->terms);
	free((void *)(uintptr_t)a->bits);
}

static bool term_is_good(const struct source_graph *a, const struct source_graph_term *t)
{
	return t->step < a->n_steps && t->lane < a->n_lanes && t->after_ms < t->until_ms && isfinite(t->scale) &&
	       (is_whole(t->scale) || fabs(ldexp(t->scale, a->bits[t->lane])) <= 0x1p62);
}

int graph_terms_of(struct graph_terms *g, struct eval *q, const struct source_graph *a, const struct span *sp, struct err *e)
{
	*g = (struct graph_terms){ .sp = sp };
	/* Arrays that grow have room for twice as much. */
	uint64_t bytes = 2 * ((uint64_t)a->n_lanes * sizeof(struct graph_lane) + (uint64_t)a->n_refs * (sizeof(struct ref_terms) + 2 * sizeof(uint64_t)) +
			      (uint64_t)a->first[a->n_refs] * (sizeof(struct entry) + sizeof(int64_t)));
	int rc = eval_hold_bytes(q, bytes, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < a->n_lanes; i++)
		vec_push(&g->lanes, (struct graph_lane){ .bits = a->bits[i] });
	for (size_t i = 0; i < a->n_refs; i++) {
		struct ref_terms *to = need_ref(g, a->refs[i]);
		if (to->e.n || a->first[i] >= a->first[i + 1])
			return err_set(e, ERR_BAD_DATA, "a question for rows has a series twice, or one without terms");
		for (uint32_t k = a->first[i]; k < a->first[i + 1]; k++) {
			const struct source_graph_term *t = &a->terms[k];
			if (!term_is_good(a, t) || (k > a->first[i] && t[-1].step > t->step))
				return err_set(e, ERR_BAD_DATA, "a question for rows has a term of a step, lane or scale that cannot be");
			vec_push(&to->e, (struct entry){ t->after_ms, t->until_ms, t->scale, t->step, t->lane });
			meet_scale(&g->lanes.v[t->lane], t->scale);
		}
	}
	bound_refs(g);
	return 0;
}
