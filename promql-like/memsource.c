/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/memsource.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "model/frame_filter.h"

#define MAX_POINTS 10000000u

struct mem_profile {
	struct source_profile p;
	struct stackvec *v;
};

struct mem_series {
	struct labels *labels;
	struct ptype type;
	struct buf type_text;
	bool is_profile;
	VEC(struct point) pts;
	VEC(struct mem_profile) profiles;
};

struct memsource {
	struct source source;      /* first: the seam's functions get its address */
	struct source_view view;
	struct symbols *symbols;
	VEC(struct mem_series *) series; /* sorted by labels when a view is opened */
	struct map by_labels;
	struct mutex lock;         /* of the sorting */
	bool sorted;
};

static struct memsource *of_view(struct source_view *v)
{
	return (struct memsource *)((char *)v - offsetof(struct memsource, view));
}

/* ---- filling ---- */

static struct mem_series *need(struct memsource *m, struct labels l)
{
	uint64_t hash = labels_hash(l);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&m->by_labels, hash, id, m->series.n, labels_eq(*m->series.v[id]->labels, l)))
		return m->series.v[id];
	struct mem_series *s = NEW(struct mem_series);
	s->labels = labels_dup(l);
	vec_push(&m->series, s);
	m->sorted = false;
	return s;
}

int memsource_add_float(struct memsource *m, struct labels l, int64_t t_ms, double v, struct err *e)
{
	struct mem_series *s = need(m, l);
	size_t at = s->pts.n;
	while (at && s->pts.v[at - 1].t_ms >= t_ms)
		at--;
	if (at < s->pts.n && s->pts.v[at].t_ms == t_ms) {
		s->pts.v[at].v = v;
		return 0;
	}
	if (s->pts.n >= MAX_POINTS)
		return err_set(e, ERR_LIMIT, "more than %u samples in one series", MAX_POINTS);
	vec_push(&s->pts, (struct point){ t_ms, v });
	memmove(&s->pts.v[at + 1], &s->pts.v[at], (s->pts.n - 1 - at) * sizeof *s->pts.v);
	s->pts.v[at] = (struct point){ t_ms, v };
	return 0;
}

int memsource_add_profile(struct memsource *m, struct labels l, const struct ptype *type, const struct source_profile *p,
			  struct stackvec *v, struct err *e)
{
	struct mem_series *s = need(m, l);
	if (!s->is_profile) {
		s->is_profile = true;
		ptype_format(type, &s->type_text);
		if (!ptype_parse(buf_view(&s->type_text), &s->type))
			return err_set(e, ERR_BAD_DATA, "not a profile type: %s", s->type_text.ptr);
		s->type.kind = type->kind;
	}
	for (size_t i = s->profiles.n; i-- && s->profiles.v[i].p.t_ms >= p->t_ms;)
		if (s->profiles.v[i].p.t_ms == p->t_ms)
			return 0;
	struct mem_profile x = { *p, v ? stackvec_ref(v) : NULL };
	x.p.total = 0;
	if (v && stackvec_total_int(v, &x.p.total, e)) {
		stackvec_unref(v);
		return -ERR_EXECUTION;
	}
	size_t at = s->profiles.n;
	vec_push(&s->profiles, x);
	for (; at && s->profiles.v[at - 1].p.t_ms > x.p.t_ms; at--) /* one that is late */
		s->profiles.v[at] = s->profiles.v[at - 1];
	s->profiles.v[at] = x;
	return 0;
}

static void series_free_all(struct memsource *m)
{
	for (size_t i = 0; i < m->series.n; i++) {
		struct mem_series *s = m->series.v[i];
		for (size_t k = 0; k < s->profiles.n; k++)
			stackvec_unref(s->profiles.v[k].v);
		vec_free(&s->profiles);
		vec_free(&s->pts);
		buf_free(&s->type_text);
		free(s->labels);
		free(s);
	}
	vec_free(&m->series);
	map_free(&m->by_labels);
}

void memsource_clear(struct memsource *m)
{
	series_free_all(m);
	symbols_unref(m->symbols);
	m->symbols = symbols_new();
}

/* ---- the seam ---- */

static int check(const struct source_limits *lim, uint64_t n, struct err *e)
{
	int rc = lim ? source_limits_check(lim, e) : 0;
	if (rc || !lim)
		return rc;
	if (lim->samples_read)
		atomic_fetch_add(lim->samples_read, n);
	if (lim->stats)
		atomic_fetch_add(&lim->stats->samples, n);
	return 0;
}

static void view_release(struct source_view *v)
{
	(void)v;
}

static bool has_data(const struct mem_series *s, int64_t after, int64_t until)
{
	for (size_t i = 0; i < s->pts.n; i++)
		if (s->pts.v[i].t_ms > after && s->pts.v[i].t_ms <= until)
			return true;
	for (size_t i = 0; i < s->profiles.n; i++)
		if (s->profiles.v[i].p.t_ms > after && s->profiles.v[i].p.t_ms <= until)
			return true;
	return false;
}

static int view_select(struct source_view *v, const struct matcher *m, size_t n, int64_t after, int64_t until,
		       const struct source_limits *lim, struct source_series **ret, size_t *ret_n, struct err *e)
{
	struct memsource *s = of_view(v);
	VEC(struct source_series) out = { 0 };
	int rc = check(lim, 0, e);
	for (size_t i = 0; i < s->series.n && rc >= 0; i++) {
		const struct mem_series *x = s->series.v[i];
		rc = matchers_match(m, n, *x->labels, lim ? lim->regex : NULL, e);
		if (rc > 0 && has_data(x, after, until))
			vec_push(&out, (struct source_series){ *x->labels, x->is_profile ? &x->type : NULL, i });
	}
	if (rc < 0) {
		vec_free(&out);
		return rc;
	}
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

static int view_types(struct source_view *v, int64_t after, int64_t until, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		      struct err *e)
{
	struct memsource *s = of_view(v);
	VEC(struct source_type) out = { 0 };
	int rc = check(lim, 0, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < s->series.n; i++) {
		const struct mem_series *x = s->series.v[i];
		struct view name = labels_get(*x->labels, VIEW(LABEL_NAME));
		size_t k = 0;
		if (!x->is_profile || !has_data(x, after, until))
			continue;
		while (k < out.n && !(view_eq(out.v[k].name, name) && ptype_eq(out.v[k].type, &x->type)))
			k++;
		if (k == out.n)
			vec_push(&out, (struct source_type){ name, &x->type, 0 });
		out.v[k].n_series++;
	}
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

/* A call about several series: each is read by itself. */
struct mem_reading {
	const struct memsource *m;
	const uint64_t *refs;
	int64_t after, until;
	const struct source_tiles *tiles;
	const struct source_limits *lim;
	source_floats_fn floats;
	source_profiles_fn profiles;
	source_covers_fn covers;
	void *arg;
};

static int mem_floats_of(void *arg, size_t series, struct err *e)
{
	const struct mem_reading *r = arg;
	const struct mem_series *s = r->m->series.v[r->refs[series]];
	VEC(struct point) out = { 0 };
	for (size_t i = 0; i < s->pts.n; i++)
		if (s->pts.v[i].t_ms > r->after && s->pts.v[i].t_ms <= r->until)
			vec_push(&out, s->pts.v[i]);
	int rc = check(r->lim, out.n, e);
	if (!rc)
		return r->floats(r->arg, series, out.v, out.n, e);
	vec_free(&out);
	return rc;
}

static int view_floats(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		       source_floats_fn fn, void *arg, struct err *e)
{
	struct mem_reading r = { .m = of_view(v), .refs = refs, .after = after, .until = until, .lim = lim, .floats = fn, .arg = arg };
	return source_each(refs, n, lim, mem_floats_of, &r, e);
}

static int mem_profiles_of(void *arg, size_t series, struct err *e)
{
	const struct mem_reading *r = arg;
	const struct mem_series *s = r->m->series.v[r->refs[series]];
	VEC(struct source_profile) out = { 0 };
	for (size_t i = 0; i < s->profiles.n; i++)
		if (s->profiles.v[i].p.t_ms > r->after && s->profiles.v[i].p.t_ms <= r->until)
			vec_push(&out, s->profiles.v[i].p);
	int rc = check(r->lim, out.n, e);
	if (!rc)
		return r->profiles(r->arg, series, out.v, out.n, e);
	vec_free(&out);
	return rc;
}

static int view_profiles(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
			 source_profiles_fn fn, void *arg, struct err *e)
{
	struct mem_reading r = { .m = of_view(v), .refs = refs, .after = after, .until = until, .lim = lim, .profiles = fn, .arg = arg };
	return source_each(refs, n, lim, mem_profiles_of, &r, e);
}

/* Of one tile, with its spans. */
static struct source_cover mem_cover(const struct mem_series *s, int64_t after, int64_t until)
{
	struct source_cover c = { 0 };
	for (size_t i = 0; i < s->profiles.n; i++) {
		const struct source_profile *p = &s->profiles.v[i].p;
		if (p->t_ms > after && p->t_ms <= until)
			source_cover_add(&c, p->t_ms, p->cover_ms, p->total, p->weight, p->period, p->stale);
	}
	return c;
}

static int mem_covers_of(void *arg, size_t series, struct err *e)
{
	const struct mem_reading *r = arg;
	const struct source_tiles *t = r->tiles;
	struct source_cover *out = xcalloc(t->n + 1, sizeof *out);
	uint64_t read = 0;
	for (size_t k = 0; k < t->n; k++) {
		int64_t after = t->after_ms + (int64_t)k * t->width_ms;
		out[k] = mem_cover(r->m->series.v[r->refs[series]], after, after + t->width_ms);
		read += out[k].n;
		if (t->n > 1)
			vec_free(&out[k].spans);
	}
	int rc = check(r->lim, read, e);
	if (!rc)
		return r->covers(r->arg, series, out, e);
	source_covers_free(out, t->n);
	return rc;
}

static int view_covers(struct source_view *v, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		       source_covers_fn fn, void *arg, struct err *e)
{
	struct mem_reading r = { .m = of_view(v), .refs = refs, .tiles = t, .lim = lim, .covers = fn, .arg = arg };
	return source_each(refs, n, lim, mem_covers_of, &r, e);
}

__extension__ typedef __int128 wide;

/* What weighed parts of one group that have one scale and divisor add up to, by column. */
struct weighed_sum {
	uint32_t group;
	double scale;
	int64_t over_ms;
	wide *sums;
};

struct merging {
	const struct memsource *m;
	struct stackacc **acc; /* by group */
	VEC(struct weighed_sum) weighed;
	const struct source_limits *lim;
};

static wide *weighed_sums(struct merging *g, const struct source_part *x, uint32_t group)
{
	for (size_t i = g->weighed.n; i-- > 0;) {
		const struct weighed_sum *w = &g->weighed.v[i];
		if (w->group == group && w->scale == x->scale && w->over_ms == x->weigh.over_ms)
			return w->sums;
	}
	wide *sums = xcalloc(symbols_count(g->m->symbols, SYMBOLS_COLUMNS) + 1, sizeof *sums);
	vec_push(&g->weighed, (struct weighed_sum){ group, x->scale, x->weigh.over_ms, sums });
	return sums;
}

static int add_step(struct merging *g, const struct source_part *x, uint32_t step, struct err *e)
{
	const struct mem_series *s = g->m->series.v[x->ref];
	int64_t after = x->after_ms + step * x->step_ms, until = x->until_ms + step * x->step_ms;
	wide *sums = x->weigh.over_ms ? weighed_sums(g, x, x->group + step) : NULL;
	int rc = 0;
	for (size_t k = 0; k < s->profiles.n && !rc; k++) {
		const struct mem_profile *p = &s->profiles.v[k];
		if (!p->v || p->p.t_ms <= after || p->p.t_ms > until)
			continue;
		if (!sums)
			rc = stackacc_add_vec(g->acc[x->group + step], p->v, x->scale, e);
		for (size_t i = 0; sums && i < p->v->n; i++)
			sums[p->v->columns[i]] += (wide)p->v->ints[i] * source_weigh_of(&x->weigh, after, p->p.t_ms, p->p.cover_ms);
		if (g->lim && g->lim->samples_read)
			atomic_fetch_add(g->lim->samples_read, p->v->n);
	}
	return rc;
}

static void end_weighed(struct merging *g)
{
	for (size_t i = 0; i < g->weighed.n; i++) {
		const struct weighed_sum *w = &g->weighed.v[i];
		for (uint32_t c = 0; c < symbols_count(g->m->symbols, SYMBOLS_COLUMNS); c++)
			if (w->sums[c])
				stackacc_add_scaled(g->acc[w->group], c, source_weighed(w->sums[c], w->over_ms) * w->scale);
		free(w->sums);
	}
	vec_free(&g->weighed);
}

static int view_merge(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		      const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	(void)detail;
	struct memsource *m = of_view(v);
	struct stackacc **acc = xcalloc(n_groups + 1, sizeof *acc);
	struct merging merging = { .m = m, .acc = acc, .lim = lim };
	int rc = check(lim, 0, e);
	for (size_t g = 0; g < n_groups; g++)
		acc[g] = stackacc_new(m->symbols);
	for (size_t i = 0; i < n && !rc; i++)
		for (uint32_t step = 0; step < MAX(parts[i].n_steps, 1) && !rc; step++)
			rc = add_step(&merging, &parts[i], step, e);
	end_weighed(&merging);
	for (size_t g = 0; g < n_groups; g++) {
		ret[g] = rc ? NULL : stackacc_finish(acc[g], e);
		if (!rc && !ret[g])
			rc = -ERR_EXECUTION;
		stackacc_free(acc[g]);
	}
	for (size_t g = 0; g < n_groups && rc; g++) {
		stackvec_unref(ret[g]);
		ret[g] = NULL;
	}
	free(acc);
	return rc;
}

/* Answers by frame and by stack, each asked once per call: 0 not asked, 1 no, 2 yes. */
struct match_memo {
	const struct source_frame_filter *f;
	const struct symbols *s;
	uint8_t *locations, *stacks;
	struct regex_meter *meter;
	int rc;
	struct err *e;
};

static bool location_matches(struct match_memo *m, uint32_t location)
{
	const struct sym_location *l = symbols_get_location(m->s, location);
	uint8_t *at = &m->locations[location];
	if (*at)
		return *at == 2;
	uint32_t n = m->f->leaf_only || !l->n_lines ? 1 : l->n_lines;
	int rc = m->rc;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = frame_filter_match(m->f, m->s, l, i, m->meter, m->e);
	if (rc < 0)
		m->rc = rc;
	*at = rc > 0 ? 2 : 1;
	return rc > 0;
}

static bool stack_matches(struct match_memo *m, uint32_t column)
{
	uint32_t stack = symbols_get_column(m->s, column)->stack, node = symbols_stack_node(m->s, stack);
	uint8_t *at = &m->stacks[stack];
	bool yes = false;
	if (*at)
		return *at == 2;
	for (; node && !yes; node = m->f->leaf_only ? 0 : symbols_get_node(m->s, node)->parent)
		yes = location_matches(m, symbols_get_node(m->s, node)->location);
	*at = yes ? 2 : 1;
	return yes;
}

static struct match_memo memo_new(const struct memsource *m, const struct source_frame_filter *f, const struct source_limits *lim, struct err *e)
{
	const struct symbols *s = m->symbols;
	return (struct match_memo){ f, s, xcalloc(symbols_count(s, SYMBOLS_LOCATIONS) + 1, 1), xcalloc(symbols_count(s, SYMBOLS_STACKS) + 1, 1),
				    lim ? lim->regex : NULL, 0, e };
}

static void memo_free(struct match_memo *m)
{
	free(m->locations);
	free(m->stacks);
}

/* f NULL: all. */
static int64_t profile_match(struct match_memo *m, const struct mem_profile *p)
{
	int64_t sum = 0;
	for (size_t i = 0; p->v && i < p->v->n; i++)
		sum += !m->f || stack_matches(m, p->v->columns[i]) ? p->v->ints[i] : 0;
	return sum;
}

/* The sum of a group's parts that follow each other: of one question, or weighed and of one scale and divisor. */
struct scaled_sum {
	double scale;
	int64_t over_ms;
	wide sum;
};

/* As storage adds up: parts that differ only in their series as integers first, scaled then, weighed ones too if they differ in their weights, and
 * what has no scale at the end. */
struct sums {
	struct memsource *m;
	struct match_memo memo;
	struct scaled_sum *scaled; /* by group */
	wide *whole;
	double *ret;
};

static void end_scaled(struct sums *x, size_t g)
{
	struct scaled_sum *s = &x->scaled[g];
	if (s->sum)
		x->ret[g] += source_weighed(s->sum, s->over_ms) * s->scale;
	s->sum = 0;
}

static void add_to_sums(struct sums *x, const struct source_part *p, const struct source_limits *lim)
{
	const struct mem_series *s = x->m->series.v[p->ref];
	for (uint32_t step = 0; step < MAX(p->n_steps, 1); step++) {
		size_t g = p->group + step;
		int64_t after = p->after_ms + step * p->step_ms;
		bool plain = p->scale == 1 && !p->weigh.over_ms;
		if (!plain && (x->scaled[g].scale != p->scale || x->scaled[g].over_ms != p->weigh.over_ms))
			end_scaled(x, g);
		if (!plain)
			x->scaled[g] = (struct scaled_sum){ p->scale, p->weigh.over_ms, x->scaled[g].sum };
		for (size_t k = 0; k < s->profiles.n; k++) {
			const struct mem_profile *q = &s->profiles.v[k];
			if (!q->v || q->p.t_ms <= after || q->p.t_ms > p->until_ms + step * p->step_ms)
				continue;
			wide match = profile_match(&x->memo, q);
			if (plain)
				x->whole[g] += match;
			else
				x->scaled[g].sum += p->weigh.over_ms ? match * source_weigh_of(&p->weigh, after, q->p.t_ms, q->p.cover_ms) : match;
			if (lim && lim->samples_read)
				atomic_fetch_add(lim->samples_read, q->v->n);
		}
	}
}

static bool same_question(const struct source_part *x, const struct source_part *y)
{
	return x->after_ms == y->after_ms && x->until_ms == y->until_ms && x->scale == y->scale && x->group == y->group && x->n_steps == y->n_steps &&
	       x->step_ms == y->step_ms && source_weigh_eq(&x->weigh, &y->weigh);
}

static int view_sums(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups,
		     const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact,
		     struct err *e)
{
	struct memsource *m = of_view(v);
	struct sums x = { m, memo_new(m, f, lim, e), xcalloc(n_groups + 1, sizeof(struct scaled_sum)), xcalloc(n_groups + 1, sizeof(wide)), ret };
	int rc = check(lim, 0, e);
	for (size_t g = 0; g < n_groups; g++)
		ret[g] = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		add_to_sums(&x, &parts[i], lim);
		bool last = i + 1 == n || !same_question(&parts[i], &parts[i + 1]);
		for (uint32_t step = 0; last && !parts[i].weigh.over_ms && step < MAX(parts[i].n_steps, 1); step++)
			end_scaled(&x, parts[i].group + step);
		rc = x.memo.rc ? x.memo.rc : check(lim, 0, e);
	}
	for (size_t g = 0; g < n_groups && !rc; g++) {
		end_scaled(&x, g);
		if (!ret[g] && (x.whole[g] > INT64_MAX || x.whole[g] < INT64_MIN))
			rc = err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
		ret[g] += (double)x.whole[g];
		if (exact)
			exact[g] = (int64_t)x.whole[g];
	}
	memo_free(&x.memo);
	free(x.scaled);
	free(x.whole);
	return rc;
}

static void count_part(const struct memsource *m, const struct source_part *x, const struct source_shares *ret)
{
	const struct mem_series *s = m->series.v[x->ref];
	for (uint32_t step = 0; step < MAX(x->n_steps, 1); step++)
		for (size_t k = 0; k < s->profiles.n; k++) {
			const struct mem_profile *p = &s->profiles.v[k];
			if (!p->v || p->p.t_ms <= x->after_ms + step * x->step_ms || p->p.t_ms > x->until_ms + step * x->step_ms)
				continue;
			ret->total[x->group + step] += p->p.total;
			ret->there[x->group + step]++;
		}
}

static int view_shares(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		       const struct source_limits *lim, const struct source_shares *ret, struct err *e)
{
	double *unused = xcalloc(n_groups + 1, sizeof *unused);
	int rc = view_sums(v, parts, n, n_groups, f, lim, unused, ret->match, e);
	for (size_t g = 0; g < n_groups; g++)
		ret->total[g] = ret->there[g] = 0;
	for (size_t i = 0; i < n && !rc; i++)
		count_part(of_view(v), &parts[i], ret);
	free(unused);
	return rc;
}

static int view_matches(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_frame_filter *f,
			const struct source_limits *lim, source_matches_fn fn, void *arg, struct err *e)
{
	struct match_memo memo = memo_new(of_view(v), f, lim, e);
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		const struct mem_series *s = of_view(v)->series.v[refs[i]];
		VEC(struct source_profile) p = { 0 };
		VEC(int64_t) match = { 0 };
		for (size_t k = 0; k < s->profiles.n; k++) {
			if (s->profiles.v[k].p.t_ms <= after || s->profiles.v[k].p.t_ms > until)
				continue;
			vec_push(&p, s->profiles.v[k].p);
			vec_push(&match, profile_match(&memo, &s->profiles.v[k]));
		}
		rc = memo.rc ? memo.rc : check(lim, p.n, e);
		if (!rc)
			rc = fn(arg, i, p.v, match.v, p.n, 0, e);
		vec_free(&p);
		vec_free(&match);
	}
	memo_free(&memo);
	return rc;
}

/* The end of the hour or minute before a profile's. */
static int64_t begin_of(int64_t t_ms, int64_t unit)
{
	return (t_ms - 1) / unit * unit - ((t_ms - 1) % unit < 0 ? unit : 0);
}

/* The series and stamp under which a profile may be returned: there are no sums here, but readers must accept that there might be. */
static enum source_alike stand_in(const struct mem_profile *p, size_t *series, const struct source_cells_reader *to, int64_t *ret_t)
{
	const int64_t hour = 3600000, minute = SOURCE_MINUTE_MS, t = p->p.t_ms;
	int64_t hours = begin_of(t, hour), minutes = begin_of(t, minute);
	*ret_t = t;
	for (size_t i = 0; to->alike && i <= *series; i++) {
		enum source_alike how = to->alike(to->arg, i, *series, hours, hours + hour);
		bool whole = how == SOURCE_ALIKE;
		if (how == SOURCE_UNLIKE)
			how = to->alike(to->arg, i, *series, minutes, minutes + minute);
		if (how == SOURCE_UNLIKE)
			continue;
		*ret_t = whole ? hours + hour : source_mid_minute(t);
		*series = i;
		return how;
	}
	return SOURCE_UNLIKE;
}

static int profile_cells(const struct mem_profile *p, size_t series, const struct source_cells_reader *to, struct err *e)
{
	uint32_t *rows = xcalloc(p->v->n + 1, sizeof *rows);
	int64_t hour = begin_of(p->p.t_ms, 3600000), t;
	size_t as = series;
	const uint8_t summed = 1;
	bool few = stand_in(p, &as, to, &t) == SOURCE_ALIKE_BUT_FEW;
	struct source_cells c = { as, hour, hour + 3600000, p->v->symbols, &t, 1, p->v->n, rows, p->v->columns, p->v->ints, NULL, 0, NULL };
	int rc = to->take(to->arg, &c, 0, e);
	if (!rc && few && to->odd(to->arg, series, p->p.t_ms)) {
		c.series = series;
		c.t_ms = &p->p.t_ms;
		c.summed = &summed;
		rc = to->take(to->arg, &c, 0, e);
	}
	free(rows);
	return rc;
}

static int view_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until,
		      const struct source_limits *lim, const struct source_cells_reader *to, struct err *e)
{
	int rc = check(lim, 0, e);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct mem_series *s = of_view(v)->series.v[refs[i]];
		for (size_t k = 0; k < s->profiles.n && !rc; k++) {
			const struct mem_profile *p = &s->profiles.v[k];
			if (!p->v || p->p.t_ms <= after || p->p.t_ms > until)
				continue;
			rc = check(lim, p->v->n, e);
			if (!rc)
				rc = profile_cells(p, i, to, e);
		}
	}
	return rc;
}

/* ---- labels ---- */

static int by_text(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

static int list_labels(struct memsource *s, const struct view *name, const struct matcher *m, size_t n, int64_t after,
		       int64_t until, struct regex_meter *meter, struct view **ret, size_t *ret_n, struct err *e)
{
	VEC(struct view) out = { 0 };
	int rc = 0;
	for (size_t i = 0; i < s->series.n && rc >= 0; i++) {
		struct labels l = *s->series.v[i]->labels;
		rc = has_data(s->series.v[i], after, until) ? matchers_match(m, n, l, meter, e) : 0;
		for (size_t k = 0; k < l.n && rc > 0; k++)
			if (!name)
				vec_push(&out, l.v[k].name);
			else if (view_eq(l.v[k].name, *name))
				vec_push(&out, l.v[k].value);
	}
	size_t unique = 0;
	if (out.n)
		qsort(out.v, out.n, sizeof *out.v, by_text);
	for (size_t i = 0; i < out.n; i++)
		if (!i || !view_eq(out.v[i], out.v[unique - 1]))
			out.v[unique++] = out.v[i];
	if (rc < 0) {
		vec_free(&out);
		return rc;
	}
	*ret = out.v;
	*ret_n = unique;
	return 0;
}

static int view_label_names(struct source_view *v, const struct matcher *m, size_t n, int64_t after, int64_t until,
			    const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	int rc = check(lim, 0, e);
	return rc ? rc : list_labels(of_view(v), NULL, m, n, after, until, lim ? lim->regex : NULL, ret, ret_n, e);
}

static int view_label_values(struct source_view *v, struct view name, const struct matcher *m, size_t n, int64_t after,
			     int64_t until, const struct source_limits *lim, struct view **ret, size_t *ret_n,
			     struct err *e)
{
	int rc = check(lim, 0, e);
	return rc ? rc : list_labels(of_view(v), &name, m, n, after, until, lim ? lim->regex : NULL, ret, ret_n, e);
}

static const struct source_ops ops = {
	.release = view_release, .select = view_select, .types = view_types, .floats = view_floats, .profiles = view_profiles, .covers = view_covers,
	.merge = view_merge, .sums = view_sums, .shares = view_shares, .matches = view_matches, .cells = view_cells,
	.label_names = view_label_names, .label_values = view_label_values,
};

static int by_labels(const void *a, const void *b)
{
	return labels_cmp(*(*(struct mem_series *const *)a)->labels, *(*(struct mem_series *const *)b)->labels);
}

static void sort_series(struct memsource *m)
{
	if (m->series.n)
		qsort(m->series.v, m->series.n, sizeof *m->series.v, by_labels);
	map_free(&m->by_labels);
	for (size_t i = 0; i < m->series.n; i++)
		map_insert(&m->by_labels, labels_hash(*m->series.v[i]->labels), (uint32_t)i);
	m->sorted = true;
}

static int source_open(struct source *src, struct source_view **ret, struct err *e)
{
	(void)e;
	struct memsource *m = (struct memsource *)src;
	mutex_lock(&m->lock);
	if (!m->sorted)
		sort_series(m);
	mutex_unlock(&m->lock);
	*ret = &m->view;
	return 0;
}

struct memsource *memsource_new(void)
{
	struct memsource *m = NEW(struct memsource);
	m->source.open = source_open;
	m->view.ops = &ops;
	mutex_init(&m->lock, LOCK_LEAF, "series in memory");
	m->symbols = symbols_new();
	return m;
}

void memsource_free(struct memsource *m)
{
	if (!m)
		return;
	series_free_all(m);
	symbols_unref(m->symbols);
	mutex_destroy(&m->lock);
	free(m);
}

struct source *memsource_source(struct memsource *m)
{
	return &m->source;
}

struct symbols *memsource_symbols(struct memsource *m)
{
	return m->symbols;
}
