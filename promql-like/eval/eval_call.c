/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, by form: functions of one number, functions of a window, functions with their own evaluation. */
#include <string.h>

#include "base/lock.h"
#include "promql-like/eval/funcs.h"

static void map_value(struct eval *q, struct value *v, double (*map)(double))
{
	for (size_t i = 0; i < v->n; i++) {
		v->s[i].drop_name = true;
		for (size_t k = 0; k < v->s[i].n; k++) {
			struct value_sample *s = &v->s[i].s[k];
			s->v = map(s->v);
			sample_drop_profile(q, s);
		}
	}
}

static int call_map(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	int rc = eval_node(q, n->call.args[0], sp, ret, e);
	if (!rc)
		map_value(q, ret, func_code(n->call.fn)->map);
	return rc;
}

static int call_time(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	if (n->call.n)
		return call_map(q, n, sp, ret, e);
	struct value v;
	value_start(q, &v, PROMQL_VECTOR);
	struct value_series *s = value_add(&v, (struct labels){ 0 }, false);
	for (size_t i = 0; i < sp->n; i++) {
		int64_t t = span_at(sp, i);
		int rc = series_push(q, s, t, func_code(n->call.fn)->map((double)(t / 1000)), NULL, e);
		if (rc) {
			value_free(&v);
			return rc;
		}
	}
	*ret = v;
	return 0;
}

/* ---- windows ---- */

struct window_job {
	struct eval *q;
	struct node *n;
	const struct span *sp;
	struct range_vector r;
	struct value args[2];
	size_t n_args;
	struct value out;
	atomic_bool failed;
	struct mutex lock;
	struct err e;
};

static int float_windows(struct window_job *j, struct rseries *s, struct value_series *out, struct err *e)
{
	const struct func *f = j->n->call.fn;
	size_t lo = 0, hi = 0;
	double *work = f->flags & FUNC_WORK ? xreallocarray(NULL, s->n + 1, sizeof *work) : NULL;
	struct taken taken = { 0 };
	uint8_t edges = j->r.mods->edges;
	int64_t back = edges ? j->q->lookback_ms : 0, ahead = edges == EDGES_SMOOTHED ? back : 0;
	bool (*window)(struct func_window *w, double *ret) = func_code(f)->window;
	int rc = 0;
	for (size_t i = 0; i < j->sp->n && !rc; i++) {
		int64_t t = span_at(j->sp, i), to = mods_time(j->r.mods, t);
		window_slide(s->pts, s->n, &lo, &hi, to - j->r.range_ms - back, to + ahead);
		taken_window(&taken, lo, hi);
		rc = i % 256 ? 0 : eval_check(j->q, e);
		if (lo == hi || rc)
			continue;
		struct func_window w = { s->pts + lo, hi - lo, to - j->r.range_ms, to, t, 0, 0, j->q, metric_name(s->labels),
					 j->n->call.args[0]->start, work, edges };
		if (j->n_args)
			w.arg = value_scalar(&j->args[0], i);
		if (j->n_args > 1)
			w.arg2 = value_scalar(&j->args[1], i);
		double v;
		if (window(&w, &v))
			rc = series_push(j->q, out, t, v, NULL, e);
	}
	taken_count(j->q, &taken, j->r.subquery);
	free(work);
	return rc;
}

static void window_one(void *arg, size_t i, unsigned worker)
{
	(void)worker;
	struct window_job *j = arg;
	struct err e = { 0 };
	if (atomic_load(&j->failed))
		return;
	struct rseries *s = &j->r.s[i];
	const struct func *f = j->n->call.fn;
	int rc = eval_check(j->q, &e);
	if (!rc && s->type && f->flags & FUNC_PROFILES)
		rc = profile_window(j->q, f, j->n, &j->r, s, j->sp, &j->out.s[i], &e);
	else if (!rc) {
		rseries_points(s);
		rc = float_windows(j, s, &j->out.s[i], &e);
	}
	if (rc) {
		mutex_lock(&j->lock);
		if (!atomic_exchange(&j->failed, true))
			j->e = e;
		mutex_unlock(&j->lock);
	}
}

static int call_window(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct window_job j = { .q = q, .n = n, .sp = sp, .lock = MUTEX_INIT(LOCK_LEAF, "windows") };
	struct node *range = NULL;
	bool done;
	int rc = eval_totals(q, n, sp, ret, &done, e);
	if (rc || done)
		return rc;
	for (size_t i = 0; i < n->call.n && !rc; i++) {
		if (n->call.args[i]->type == PROMQL_MATRIX)
			range = n->call.args[i];
		else
			rc = eval_node(q, n->call.args[i], sp, &j.args[j.n_args], e);
		j.n_args += !rc && n->call.args[i]->type != PROMQL_MATRIX;
	}
	if (!rc)
		rc = range_load(q, range, sp, &j.r, e);
	if (!rc)
		rc = range_drop_refused(q, n, &j.r, e);
	value_start(q, &j.out, PROMQL_VECTOR);
	if (!rc) {
		for (size_t i = 0; i < j.r.n; i++)
			value_add(&j.out, j.r.s[i].labels, j.r.s[i].drop_name || !(n->call.fn->flags & FUNC_KEEPS_NAME));
		pool_run(q->pool, j.r.n, window_one, &j);
		if (atomic_load(&j.failed)) {
			*e = j.e;
			rc = -(int)j.e.code;
		}
	}
	range_free(&j.r);
	for (size_t i = 0; i < j.n_args; i++)
		value_free(&j.args[i]);
	return value_finish(&j.out, rc, ret);
}

int eval_check_edges(const struct node *arg, const char *fn, struct err *e)
{
	static const char *const fit[] = { "changes", "delta", "increase", "rate", "resets" };
	const struct node *range = node_unwrap((struct node *)arg);
	uint8_t edges = range->kind == NODE_RANGE ? range->range.sel->sel.mods.edges : EDGES_AS_THEY_ARE;
	bool anchored = edges == EDGES_ANCHORED;
	for (size_t i = 0; i < ARRAY_LEN(fit); i++)
		if (!edges || (strcmp(fn, fit[i]) == 0 && (anchored || (i > 0 && i < 4))))
			return 0;
	return err_set(e, ERR_EXECUTION, "%s modifier can only be used with: %s - not with %s", edges_text(edges),
		       anchored ? "changes, delta, increase, rate, resets" : "delta, increase, rate", fn);
}

int eval_call(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	for (size_t i = 0; i < n->call.n; i++)
		if (eval_check_edges(n->call.args[i], n->call.fn->name, e))
			return -(int)e->code;
	switch (n->call.fn->form) {
	case FUNC_MAP: return call_map(q, n, sp, ret, e);
	case FUNC_TIME: return call_time(q, n, sp, ret, e);
	case FUNC_WINDOW: return call_window(q, n, sp, ret, e);
	case FUNC_CALL:
	case FUNC_PROFILE: return func_code(n->call.fn)->call(q, n, sp, ret, e);
	case FUNC_FRAMES:
	case FUNC_REFUSED: break;
	}
	return err_set(e, ERR_INTERNAL, "function %s cannot be evaluated", n->call.fn->name);
}
