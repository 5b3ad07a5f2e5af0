/* SPDX-License-Identifier: Apache-2.0 */
/* frame/KEY/values: what a frame matcher on the selected profiles can name, the most used first. Asked of the engine as
 * a query like any other, so its limits, its queue and its log hold here, too. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/internal.h"

#define LONGEST_MS UINT64_C(9000000000000) /* of a range: 285 years */
#define SPAN_MS 3600000 /* what is looked at unless `start` says otherwise */
#define MAX_NAMES 100000 /* looked through: the most used ones */

struct frame_name {
	struct view name;
	double value;
};

struct frame_names {
	struct httpd_request *rq;
	struct promql_engine *engine;
	const char *key;
	int64_t start, end;
	size_t limit;
	struct view search;
	struct promql_params params;
	VEC(struct frame_name) v;
	struct map index;
	struct answer_warnings warnings; /* of the queries, each once */
};

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether what is searched is in it; letters of ASCII match in both cases. */
static bool found_in(struct view name, struct view what)
{
	for (size_t i = 0; i + what.len <= name.len; i++) {
		size_t k = 0;
		while (k < what.len && lower(name.ptr[i + k]) == lower(what.ptr[k]))
			k++;
		if (k == what.len)
			return true;
	}
	return false;
}

/* The same name of several selectors is one, with their values added up. */
static int add_name(struct frame_names *f, struct view name, double value, struct err *e)
{
	uint64_t h = hash_view(name);
	uint32_t i;
	for (size_t at = map_start(&f->index, h); map_probe(&f->index, h, &at, &i);)
		if (view_eq(f->v.v[i].name, name)) {
			f->v.v[i].value += value;
			return 0;
		}
	struct view own = arena_view(httpd_arena(f->rq), name);
	if (!own.ptr)
		return err_set(e, ERR_LIMIT, "the names are more than a request may hold: pass search");
	map_insert(&f->index, h, (uint32_t)f->v.n);
	vec_push(&f->v, (struct frame_name){ own, value });
	return 0;
}

/* total() by the key, of each type for itself: different units do not add up, but they need not to be in some order. */
static int put_query(const struct frame_names *f, struct view selector, struct buf *out, struct err *e)
{
	struct promql_expr *x;
	const struct matcher *m;
	size_t n;
	int rc = promql_engine_selector(f->engine, &x, selector, &m, &n, e);
	if (rc)
		return param_wrap(e, "match[]");
	promql_expr_free(x); /* its aliases are expanded: the engine does that, by its own table */
	rc = promql_parse(&x, selector, e);
	if (rc)
		return param_wrap(e, "match[]");
	buf_printf(out, "topk(%d, sum by (%s) (total(merge by (__name__) (", MAX_NAMES, f->key);
	promql_expr_print(x, out);
	buf_printf(out, "[%lldms]), \"%s\")))", (long long)MIN((uint64_t)f->end - (uint64_t)f->start, LONGEST_MS), f->key);
	promql_expr_free(x);
	return 0;
}

static void frame_names_warn(struct frame_names *f, struct view warning)
{
	for (size_t i = 0; i < f->warnings.v.n; i++)
		if (view_eq(f->warnings.v.v[i], warning))
			return;
	struct view own = arena_view(httpd_arena(f->rq), warning);
	if (own.ptr)
		vec_push(&f->warnings.v, own);
}

static int ask(struct frame_names *f, struct view selector, struct err *e)
{
	struct buf query = { 0 };
	struct promql_result r;
	int rc = put_query(f, selector, &query, e);
	if (!rc) {
		rc = promql_instant(f->engine, buf_view(&query), f->end, &f->params, &r, e);
		if (rc) /* no user typed it, and the error may name a place in it */
			err_wrap(e, "%.*s", VIEW_ARG(buf_view(&query)));
	}
	buf_free(&query);
	if (rc)
		return rc;
	for (size_t i = 0; i < r.n_series && !rc; i++) {
		struct view name = labels_get(r.series[i].labels, view_of(f->key));
		if (name.len && found_in(name, f->search))
			rc = add_name(f, name, r.series[i].points[0].v, e);
	}
	for (size_t i = 0; i < r.n_warnings && !rc; i++)
		frame_names_warn(f, r.warnings[i]);
	promql_result_release(&r);
	return rc;
}

static int most_first(const void *a, const void *b)
{
	const struct frame_name *x = a, *y = b;
	return x->value != y->value ? (x->value < y->value) - (x->value > y->value) : view_cmp(x->name, y->name);
}

static void answer_frame_names(struct frame_names *f)
{
	if (f->v.n)
		qsort(f->v.v, f->v.n, sizeof *f->v.v, most_first);
	size_t shown = f->limit && f->limit < f->v.n ? f->limit : f->v.n;
	struct answer_rows rows;
	answer_rows_begin(&rows, f->rq);
	for (size_t i = 0; i < f->warnings.v.n; i++)
		vec_push(&rows.warnings.v, f->warnings.v.v[i]);
	json_array_begin(rows.b);
	for (size_t i = 0; i < shown && answer_rows_more(&rows); i++)
		json_text(rows.b, f->v.v[i].name);
	json_array_end(rows.b);
	rows.cut |= shown < f->v.n;
	answer_rows_end(&rows);
}

static int read_request(struct frame_names *f, const struct web *w, struct err *e)
{
	static const char *const keys[] = { "function", "file", "binary" };
	struct view key = httpd_segment(f->rq, "key");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (view_eqs(key, keys[i]))
			f->key = keys[i];
	if (!f->key)
		return err_set(e, ERR_BAD_DATA, "frames have no \"%.*s\" to list: ask for function, file or binary", VIEW_ARG(key));
	if (!w->o.engine)
		return err_set(e, ERR_UNAVAILABLE, "there is no query engine");
	f->engine = w->o.engine;
	f->search = httpd_param(f->rq, "search");
	f->params = (struct promql_params){ .canceled = httpd_canceled(f->rq), .arrived_ns = httpd_arrived_ns(f->rq), .timeout_ms = w->o.query_timeout_ms };
	int rc = param_partial(f->rq, &f->params.partial, e);
	if (!rc)
		rc = param_limit(f->rq, "limit", &f->limit, e);
	if (!rc)
		rc = param_time(f->rq, "end", clock_now_ms(), &f->end, e);
	if (!rc)
		rc = param_time(f->rq, "start", f->end - SPAN_MS, &f->start, e);
	if (!rc && f->end <= f->start)
		rc = param_error(e, "end", "end timestamp must be after start timestamp");
	return rc;
}

void serve_frame_values(struct httpd_request *rq, void *arg)
{
	struct frame_names f = { .rq = rq };
	struct err e = { 0 };
	size_t at = 0;
	struct view selector;
	bool any = false;
	int rc = read_request(&f, arg, &e);
	while (!rc && param_next(rq, "match[]", &at, &selector)) {
		any = true;
		rc = ask(&f, selector, &e);
	}
	if (!rc && !any)
		rc = err_set(&e, ERR_BAD_DATA, "no match[] parameter provided");
	if (rc)
		answer_error(rq, &e);
	else
		answer_frame_names(&f);
	map_free(&f.index);
	vec_free(&f.v);
	vec_free(&f.warnings.v);
}
