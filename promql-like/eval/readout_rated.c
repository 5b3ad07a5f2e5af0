/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of one function of rates: total(merge by (service) (rate(cpu[1m])), {function="f"}), share(rate(cpu[5m]), F). In a rate, the
 * profiles at both ends of a window count by the part of their time within it. So each profile is read, but no merged profile is made. A
 * series is read with what matches of each of its profiles, its windows are added up, and it is forgotten:
 *
 *	threads       series 0   series 2        each by itself: of each step the total, and pieces of the match: (range, scale, sum)
 *	              series 1       series 3
 *	whoever is done            0 1 2 3 ->    in the order of the series, added to the group at work; the last of a group ends it
 *
 * Numbers are added up as those of profiles would be: scales of the same range as integers first, whole profiles as integers at the end. */
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "promql-like/eval/pwindow.h"
#include "promql-like/eval/readout_calls.h"
#include "promql-like/values/explain.h"

/* The matching part of the profiles in (after, until], which count with this factor. */
struct piece {
	int64_t after_ms, until_ms;
	double scale;
	int64_t sum;
};

/* A step of one series. */
struct rated_step {
	int64_t total;
	double ftotal;
	uint32_t n_pieces;
	bool is_float, there;
};

/* All steps of one series. */
struct rated_series {
	struct rated_step *steps;
	VEC(struct piece) pieces;  /* those that each step has */
	bool any;
};

/* A step of the group at work. */
struct rated_sum {
	wide whole;                /* of pieces that count unchanged */
	double part;               /* of the others, except the last ones, */
	struct piece last;         /* which have one range and scale: */
	wide pending;
	bool open, scaled;
	struct total total;
};

struct worker {
	struct lazy_profile p;             /* of a window; its terms are used again */
	VEC(uint64_t) before;      /* what matches of the profiles before each, modulo 2^64 */
};

struct rated {
	struct readout *r;
	const struct span *sp;
	const struct node *aggr;   /* NULL: each series is a group */
	const struct node *call;
	bool per_second;
	struct range_vector range;
	struct series_groups g;
	size_t *order;             /* series by group */
	struct worker *workers;
	size_t n_workers;
	struct mutex lock;         /* of what follows, but what `adding` has */
	struct rated_series **ready; /* by place in order */
	size_t next;               /* place of the first that is not added up yet */
	bool adding;               /* a thread adds up ready ones, and holds the rest: */
	VEC(struct rated_series *) spare;
	struct rated_sum *sums;    /* by step */
	VEC(struct point) *points; /* by group */
	size_t *first;             /* by group: the first series that has anything; SIZE_MAX: none */
	atomic_bool too_large;     /* a sum: the long way knows what to say */
};

static int too_large(struct rated *m, struct err *e)
{
	atomic_store(&m->too_large, true);
	return readout_overflow(e);
}

/* ---- one series ---- */

static bool sum_before(struct worker *w, const int64_t *match, size_t n)
{
	uint64_t sum = 0;
	double size = 0;
	vec_reserve(&w->before, n + 1);
	for (size_t i = 0; i < n; i++) {
		w->before.v[i] = sum;
		sum += (uint64_t)match[i];
		size += match[i] < 0 ? -(double)match[i] : (double)match[i];
	}
	w->before.v[n] = sum;
	return size < 0x1p62;
}

/* The first profile of the window from `at` on that is stamped after t. */
static size_t seek(const struct pwindow *w, size_t at, int64_t t_ms)
{
	const struct source_profile *p = w->s->vp;
	for (size_t tries = 8; tries; tries--, at++)
		if (at == w->hi || p[at].t_ms > t_ms)
			return at;
	for (size_t hi = w->hi; at < hi;) {
		size_t mid = (at + hi) / 2;
		if (p[mid].t_ms <= t_ms)
			at = mid + 1;
		else
			hi = mid;
	}
	return at;
}

static int add_window(struct rated *m, struct worker *w, const struct pwindow *win, struct rated_series *to, struct rated_step *step, struct err *e)
{
	struct lazy_side *a = &w->p.a;
	int64_t ms = 0;
	*step = (struct rated_step){ 0 };
	a->n = 0;
	a->total = 0;
	a->ftotal = 0;
	a->is_float = false;
	if (pwindow_add_covered(&w->p, win, 1, true, &ms, e))
		return too_large(m, e);
	if (ms <= 0)
		return 0;
	size_t at = pwindow_first(win);
	vec_reserve(&to->pieces, to->pieces.n + a->n);
	for (size_t i = 0; i < a->n; i++) {
		size_t lo = seek(win, at, a->t[i].after_ms);
		at = seek(win, lo, a->t[i].until_ms);
		to->pieces.v[to->pieces.n++] = (struct piece){ a->t[i].after_ms, a->t[i].until_ms, a->t[i].scale,
							       (int64_t)(w->before.v[at] - w->before.v[lo]) };
	}
	*step = (struct rated_step){ a->total, a->ftotal, (uint32_t)a->n, a->is_float, true };
	to->any = true;
	return 0;
}

static int add_windows(struct rated *m, struct worker *w, const struct rseries *s, const int64_t *match, struct rated_series *to, struct err *e)
{
	struct pwindow win = { .s = s };
	int rc = sum_before(w, match, s->n_vp) ? 0 : too_large(m, e);
	to->pieces.n = 0;
	to->any = false;
	for (size_t i = 0; i < m->sp->n && !rc; i++) {
		int64_t until = mods_time(m->range.mods, span_at(m->sp, i));
		pwindow_slide(&win, until - m->range.range_ms, until);
		rc = i % 256 ? 0 : eval_check(m->r->q, e);
		if (!rc)
			rc = add_window(m, w, &win, to, &to->steps[i], e);
	}
	return rc;
}

/* ---- groups ---- */

static void close_pieces(struct rated_sum *to)
{
	if (to->open)
		to->part += (double)to->pending * to->last.scale;
	to->open = false;
}

static inline void add_piece(struct rated_sum *to, const struct piece *p)
{
	if (p->scale == 1) {
		close_pieces(to);
		to->whole += p->sum;
		return;
	}
	to->scaled = true;
	if (!to->open || to->last.after_ms != p->after_ms || to->last.until_ms != p->until_ms || to->last.scale != p->scale) {
		close_pieces(to);
		to->open = true;
		to->last = *p;
		to->pending = 0;
	}
	to->pending += p->sum;
}

/* Returns whether the total fits. */
static bool add_total(struct total *to, const struct rated_step *x)
{
	to->there = true;
	to->f += x->is_float ? x->ftotal : (double)x->total;
	if (x->is_float)
		to->is_float = true;
	else
		return !__builtin_add_overflow(to->i, x->total, &to->i) || to->is_float;
	return true;
}

static int add_series(struct rated *m, const struct rated_series *x, struct err *e)
{
	const struct piece *p = x->pieces.v;
	bool fits = true;
	for (size_t i = 0; i < m->sp->n && x->any; i++) {
		const struct rated_step *step = &x->steps[i];
		if (!step->there)
			continue;
		fits &= add_total(&m->sums[i].total, step);
		for (uint32_t k = 0; k < step->n_pieces; k++)
			add_piece(&m->sums[i], p++);
	}
	return fits ? 0 : too_large(m, e);
}

/* The matching part in a step, in the native unit. */
static int match_of(struct rated *m, struct rated_sum *x, double *ret, struct err *e)
{
	close_pieces(x);
	*ret = x->part + (double)x->whole;
	return x->scaled || (x->whole <= INT64_MAX && x->whole >= INT64_MIN) ? 0 : too_large(m, e);
}

/* The numbers of a group whose series are all present. Leaves zeros. */
static int end_group(struct rated *m, size_t g, struct err *e)
{
	struct lazy_profile like = { .type = m->range.s[0].type, .per_s = m->per_second ? (double)m->range.range_ms / 1000 : 0 };
	int rc = 0;
	for (size_t i = 0; i < m->sp->n && !rc; i++) {
		struct rated_sum *x = &m->sums[i];
		double native, v;
		if (!x->total.there)
			continue;
		rc = match_of(m, x, &native, e);
		like.a.total = x->total.i;
		like.a.ftotal = x->total.f;
		like.a.is_float = x->total.is_float;
		struct value_sample s = { span_at(m->sp, i), lazy_profile_value(&like), &like };
		struct readout_reading reading = readout_reading(m->r, &s);
		if (!rc && reading_number(&reading, native, &v))
			vec_push(&m->points[g], (struct point){ s.t_ms, v });
		*x = (struct rated_sum){ 0 };
	}
	return rc ? rc : eval_hold_bytes(m->r->q, m->points[g].n * sizeof(struct point), e);
}

static int add_in_order(struct rated *m, size_t at, struct rated_series *x, struct err *e)
{
	size_t i = m->order[at], g = m->g.of[i];
	int rc = add_series(m, x, e);
	if (x->any)
		m->first[g] = MIN(m->first[g], i);
	if (!rc && (at + 1 == m->range.n || m->g.of[m->order[at + 1]] != g))
		rc = end_group(m, g, e);
	return rc;
}

/* The thread that finds the next series ready adds them up. */
static int hand_in(struct rated *m, size_t at, struct rated_series *x, struct err *e)
{
	int rc = 0;
	mutex_lock(&m->lock);
	m->ready[at] = x;
	bool mine = !m->adding;
	m->adding = true;
	while (mine && !rc && m->next < m->range.n && m->ready[m->next]) {
		size_t now = m->next++;
		struct rated_series *taken = TAKE_PTR(m->ready[now]);
		mutex_unlock(&m->lock);
		rc = add_in_order(m, now, taken, e);
		mutex_lock(&m->lock);
		vec_push(&m->spare, taken);
	}
	if (mine)
		m->adding = false;
	mutex_unlock(&m->lock);
	return rc;
}

/* Their number is how far threads are ahead of the next series in order. */
static int new_series(struct rated *m, struct rated_series **ret, struct err *e)
{
	mutex_lock(&m->lock);
	struct rated_series *x = m->spare.n ? m->spare.v[--m->spare.n] : NULL;
	mutex_unlock(&m->lock);
	int rc = x ? 0 : eval_hold_bytes(m->r->q, m->sp->n * (sizeof(struct rated_step) + 3 * sizeof(struct piece)), e); /* as of rate(x[1m]) */
	if (rc)
		return rc;
	if (!x) {
		x = NEW(struct rated_series);
		x->steps = xcalloc(m->sp->n + 1, sizeof *x->steps);
	}
	*ret = x;
	return 0;
}

static void free_series(struct rated_series *x)
{
	if (!x)
		return;
	free(x->steps);
	vec_free(&x->pieces);
	free(x);
}

static int take_series(void *arg, size_t at, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker, struct err *e)
{
	struct rated *m = arg;
	struct rated_series *x;
	struct rseries s = { .type = m->range.s[0].type, .vp = (struct source_profile *)p, .n_vp = n };
	int rc = new_series(m, &x, e);
	if (rc)
		return rc;
	rc = add_windows(m, &m->workers[worker], &s, match, x, e);
	if (!rc)
		return hand_in(m, at, x, e);
	free_series(x);
	return rc;
}

/* ---- the call ---- */

static bool is_call_of_rate(const struct node *n, bool *ret_per_second)
{
	if (n->kind != NODE_CALL || n->invariant || n->call.n != 1)
		return false;
	*ret_per_second = view_eqs(view_of(n->call.fn->name), "rate");
	if (!*ret_per_second && !view_eqs(view_of(n->call.fn->name), "increase"))
		return false;
	const struct node *range = node_unwrap(n->call.args[0]);
	return range->kind == NODE_RANGE && range->range.sel->sel.mods.edges == EDGES_AS_THEY_ARE;
}

static bool find_nodes(struct rated *m)
{
	struct node *n = node_unwrap(m->r->in);
	if (!readout_is_graph(m->r, m->sp) || !m->r->q->view->ops->matches)
		return false;
	if (n->kind == NODE_AGGREGATE && (n->aggr.op == AGGR_MERGE || n->aggr.op == AGGR_SUM)) {
		m->aggr = n;
		n = node_unwrap(n->aggr.expr);
	}
	m->call = n;
	return is_call_of_rate(n, &m->per_second) && !(m->aggr && m->aggr->invariant);
}

static void make_groups(struct rated *m)
{
	if (m->aggr) {
		readout_groups(m->r, &m->range, m->aggr, &m->g);
		return;
	}
	size_t n = m->range.n;
	m->g = (struct series_groups){ xcalloc(n + 1, sizeof *m->g.of), xcalloc(n + 1, sizeof *m->g.labels),
				       xcalloc(n + 1, sizeof *m->g.drop_name), n };
	for (size_t i = 0; i < n; i++) {
		m->g.of[i] = (uint32_t)i;
		m->g.labels[i] = m->range.s[i].labels;
	}
}

static int ask(struct rated *m, struct err *e)
{
	struct eval *q = m->r->q;
	size_t n = m->range.n, *at = xcalloc(m->g.n + 1, sizeof *at);
	uint64_t *refs = xcalloc(n + 1, sizeof *refs);
	int64_t first = mods_time(m->range.mods, m->sp->start), last = mods_time(m->range.mods, span_at(m->sp, m->sp->n - 1));
	struct source_frame_filter filter = readout_filter(m->r);
	m->order = xcalloc(n + 1, sizeof *m->order);
	for (size_t i = 0; i < n; i++)
		at[m->g.of[i] + 1]++;
	for (size_t g = 0; g < m->g.n; g++)
		at[g + 1] += at[g];
	for (size_t i = 0; i < n; i++)
		m->order[at[m->g.of[i]]++] = i;
	for (size_t i = 0; i < n; i++)
		refs[i] = m->range.s[m->order[i]].ref;
	eval_read_begin(q);
	int rc = q->view->ops->matches(q->view, refs, n, first - m->range.range_ms - q->lookback_ms, last, &filter, eval_stream_limits(q), take_series, m, e);
	eval_read_end(q);
	free(refs);
	free(at);
	return frames_source_failed(&m->r->frames, rc, e);
}

static void start(struct rated *m)
{
	size_t n = m->range.n;
	make_groups(m);
	m->n_workers = (m->r->q->lim.pool ? pool_size(m->r->q->lim.pool) : 0) + 1;
	m->workers = xcalloc(m->n_workers, sizeof *m->workers);
	m->ready = xcalloc(n + 1, sizeof *m->ready);
	m->sums = xcalloc(m->sp->n + 1, sizeof *m->sums);
	m->points = xcalloc(m->g.n + 1, sizeof *m->points);
	m->first = xcalloc(m->g.n + 1, sizeof *m->first);
	for (size_t g = 0; g < m->g.n; g++)
		m->first[g] = SIZE_MAX;
}

static void rated_free(struct rated *m)
{
	for (size_t i = 0; i < m->n_workers; i++) {
		free(m->workers[i].p.a.t);
		vec_free(&m->workers[i].before);
	}
	for (size_t i = 0; m->ready && i < m->range.n; i++)
		free_series(m->ready[i]);
	for (size_t i = 0; i < m->spare.n; i++)
		free_series(m->spare.v[i]);
	for (size_t g = 0; m->points && g < m->g.n; g++)
		vec_free(&m->points[g]);
	vec_free(&m->spare);
	free(m->workers);
	free(m->ready);
	free(m->sums);
	free(m->points);
	free(m->first);
	free(m->order);
	groups_free(&m->g);
	range_free(&m->range);
	mutex_destroy(&m->lock);
}

/* By their first series, as groups of those that have data. */
static int by_first(const void *a, const void *b, void *arg)
{
	const size_t *first = arg;
	size_t x = first[*(const uint32_t *)a], y = first[*(const uint32_t *)b];
	return (x > y) - (x < y);
}

static int put_groups(struct rated *m, struct err *e)
{
	uint32_t *order = xcalloc(m->g.n + 1, sizeof *order);
	int rc = 0;
	for (uint32_t g = 0; g < m->g.n; g++)
		order[g] = g;
	qsort_r(order, m->g.n, sizeof *order, by_first, m->first);
	for (size_t k = 0; k < m->g.n && !rc; k++) {
		uint32_t g = order[k];
		struct value_series *out = m->points[g].n ? readout_out(m->r, readout_in(m->r, m->g.labels[g]), UINT32_MAX) : NULL;
		for (size_t i = 0; i < m->points[g].n && !rc; i++)
			rc = series_push(m->r->q, out, m->points[g].v[i].t_ms, m->points[g].v[i].v, NULL, e);
		if (!rc)
			rc = eval_check(m->r->q, e);
	}
	free(order);
	return rc;
}

int readout_rated(struct readout *r, const struct span *sp, bool *ret_done, struct err *e)
{
	struct rated m = { .r = r, .sp = sp, .lock = MUTEX_INIT(LOCK_LEAF, "rated sums") };
	*ret_done = false;
	if (!find_nodes(&m))
		return 0;
	const struct node *outer = m.aggr ? m.aggr : m.call;
	struct explaining at = explain_begin(r->q, outer);
	int rc = range_select(r->q, node_unwrap(m.call->call.args[0]), sp, &m.range, ret_done, e);
	*ret_done = *ret_done && !rc && readout_adds_up(&m.range);
	if (*ret_done) {
		start(&m);
		rc = ask(&m, e);
	}
	explain_end(r->q, outer, NULL, at);
	if (!rc && *ret_done)
		rc = put_groups(&m, e);
	if (rc && atomic_load(&m.too_large)) {
		rc = 0;
		*ret_done = false;
	}
	rated_free(&m);
	return rc;
}
