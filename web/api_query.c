/* SPDX-License-Identifier: Apache-2.0 */
/* query, query_range, format_query, parse_query: the engine's answers in Prometheus's JSON. formats.c handles `format=`: profiles
 * instead of their values. */
#include "base/clock.h"
#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/formats.h"
#include "web/internal.h"
#include "web/matrix_columns.h"

#define MAX_STEPS 11000 /* a minute's resolution over a week, or an hour's over a year */

static void put_series(struct buf *b, const struct promql_series *s, bool matrix)
{
	json_object_begin(b);
	json_key(b, "metric");
	labels_json(s->labels, b);
	json_key(b, matrix ? "values" : "value");
	if (matrix)
		json_array_begin(b);
	for (size_t i = 0; i < s->n; i++)
		json_point(b, s->points[i].t_ms, s->points[i].v);
	if (matrix)
		json_array_end(b);
	json_object_end(b);
}

static size_t at_most(const struct promql_result *r, size_t limit)
{
	return limit && limit < r->n_series ? limit : r->n_series;
}

#define SERIES_AT_ONCE 64 /* of a vector, until the client is looked after */
#define POINT_BYTES 48  /* of a point as text: a stamp and a value */
#define SERIES_BYTES 512 /* of the labels of a series as text, about */

/* The memory of an answer with these series. */
static int need_series(const struct permit *p, const struct promql_result *r, size_t n, struct err *e)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += SERIES_BYTES + r->series[i].n * POINT_BYTES;
	return permit_need(p, permit_text(p, bytes), e);
}

/* Series, at most limit of them (0: all). */
static int put_result(struct httpd_request *rq, const struct permit *p, const struct promql_result *r, size_t limit, struct err *e)
{
	struct buf *b = httpd_out(rq);
	size_t n = at_most(r, limit);
	int rc = 0;
	json_object_begin(b);
	json_field_text(b, "resultType", promql_type_text(r->type));
	json_key(b, "result");
	switch (r->type) {
	case PROMQL_SCALAR:
		json_point(b, r->t_ms, r->scalar);
		break;
	case PROMQL_STRING:
		json_array_begin(b);
		json_time(b, r->t_ms);
		json_text(b, r->string);
		json_array_end(b);
		break;
	default:
		json_array_begin(b);
		for (size_t i = 0; i < n && !rc; i++) {
			put_series(b, &r->series[i], r->type == PROMQL_MATRIX);
			if (r->type == PROMQL_MATRIX || i % SERIES_AT_ONCE == SERIES_AT_ONCE - 1 || b->len >= PERMIT_TEXT)
				rc = permit_go_on(p, e);
		}
		json_array_end(b);
	}
	return rc;
}

static void put_stats(struct buf *b, const struct promql_result *r)
{
	const struct { const char *key; int64_t ns; } timings[] = {
		{ "evalTotalTime", r->eval_ns }, { "resultSortTime", r->sort_ns }, { "queryPreparationTime", r->prepare_ns },
		{ "innerEvalTime", r->inner_ns }, { "execQueueTime", r->queue_ns }, { "execTotalTime", r->eval_ns + r->queue_ns },
	};
	json_object_begin_at(b, "stats");
	json_object_begin_at(b, "timings");
	for (size_t i = 0; i < ARRAY_LEN(timings); i++)
		json_field_float(b, timings[i].key, (double)timings[i].ns / 1e9);
	json_object_end(b);
	json_object_begin_at(b, "samples");
	json_field_count(b, "totalQueryableSamples", r->samples);
	json_field_count(b, "samplesRead", r->samples_read);
	json_field_count(b, "peakSamples", r->peak_samples);
	json_object_end(b);
	json_object_end(b);
}

/* Prometheus's words: it takes any text so far. */
static struct view unknown_stats(struct httpd_request *rq, struct view stats)
{
	struct buf b = { 0 };
	buf_puts(&b, "value ");
	buf_json_string(&b, stats);
	buf_puts(&b, " for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\"");
	struct view text = arena_view(httpd_arena(rq), buf_view(&b));
	buf_free(&b);
	return text;
}

/* The part after the result, to the answer's end. */
static void end_result(struct httpd_request *rq, const struct promql_result *r, size_t limit)
{
	struct buf *b = httpd_out(rq);
	struct view stats = httpd_param(rq, "stats");
	if (stats.len)
		put_stats(b, r);
	if (r->explain.len)
		json_field_raw(b, "explain", r->explain);
	json_object_end(b);
	struct view *warnings = arena_alloc(httpd_arena(rq), (r->n_warnings + 2) * sizeof *warnings);
	size_t n = 0;
	if (warnings && limit && limit < r->n_series)
		warnings[n++] = answer_truncated;
	if (warnings && stats.len && !view_eqs(stats, "true") && !view_eqs(stats, "all"))
		warnings[n++] = unknown_stats(rq, stats);
	for (size_t i = 0; warnings && i < r->n_warnings; i++)
		warnings[n++] = r->warnings[i];
	answer_end(rq, warnings, n, r->infos, r->n_infos);
}

static int answer_result(struct httpd_request *rq, const struct permit *p, const struct promql_result *r, size_t limit, struct err *e)
{
	answer_begin(rq);
	int rc = put_result(rq, p, r, limit, e);
	end_result(rq, r, limit);
	return rc;
}

/* The same of a graph, as columns if the client takes them. */
static int answer_graph(struct httpd_request *rq, const struct permit *p, const struct promql_result *r, size_t limit, int64_t start, int64_t step,
			struct err *e)
{
	httpd_set_header(rq, "Vary", "Accept");
	if (r->type != PROMQL_MATRIX || !httpd_accepts(httpd_header(rq, "Accept"), MATRIX_TYPE))
		return answer_result(rq, p, r, limit, e);
	size_t n = at_most(r, limit);
	int rc = matrix_head(r, n, start, step, p, answer_begin(rq), e);
	if (rc)
		return rc;
	end_result(rq, r, limit);
	struct buf *out = answer_columns(rq, MATRIX_TYPE);
	for (size_t i = 0; i < n && !rc; i++) {
		matrix_values(&r->series[i], out);
		rc = permit_go_on(p, e);
	}
	return rc;
}

/* The engine's word on the query itself. */
static void answer_query_error(struct httpd_request *rq, struct err *e)
{
	query_error(e);
	answer_error(rq, e);
}

void serve_query(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	struct web_question q;
	struct promql_result r;
	struct answer_work work;
	struct view format = httpd_param(rq, "format");
	int64_t t;
	if (format.len && !view_eqs(format, "prometheus")) {
		serve_format(w, rq, format);
		return;
	}
	int rc = param_time(rq, "time", clock_now_ms(), &t, &e);
	if (!rc)
		rc = question_read(w, rq, &q, &e);
	if (rc) {
		answer_error(rq, &e);
		return;
	}
	if (promql_instant(w->o.engine, q.query, t, &q.params, &r, &e)) {
		answer_query_error(rq, &e);
		return;
	}
	answer_stages(rq, &r);
	answer_work_begin(&work, rq, &r);
	if (need_series(&work.permit, &r, at_most(&r, q.limit), &e) || answer_result(rq, &work.permit, &r, q.limit, &e))
		answer_query_error(rq, &e);
	promql_result_release(&r);
}

static int read_steps(const struct httpd_request *rq, int64_t *start, int64_t *end, int64_t *step, struct err *e)
{
	int rc = param_need_time(rq, "start", start, e);
	if (!rc)
		rc = param_need_time(rq, "end", end, e);
	if (!rc)
		rc = param_need_duration(rq, "step", step, e);
	if (rc)
		return rc;
	if (*end < *start)
		return param_error(e, "end", "end timestamp must not be before start time");
	if (*step <= 0)
		return param_error(e, "step", "zero or negative query resolution step widths are not accepted. Try a positive integer");
	if (((uint64_t)*end - (uint64_t)*start) / (uint64_t)*step > MAX_STEPS)
		return err_set(e, ERR_BAD_DATA, "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing "
			       "the query resolution (?step=XX)");
	return 0;
}

void serve_query_range(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	struct web_question q;
	struct promql_result r;
	struct answer_work work;
	int64_t start, end, step;
	int rc = read_steps(rq, &start, &end, &step, &e);
	if (!rc)
		rc = question_read(w, rq, &q, &e);
	if (rc) {
		answer_error(rq, &e);
		return;
	}
	if (promql_range(w->o.engine, q.query, start, end, step, &q.params, &r, &e)) {
		answer_query_error(rq, &e);
		return;
	}
	answer_stages(rq, &r);
	answer_work_begin(&work, rq, &r);
	if (need_series(&work.permit, &r, at_most(&r, q.limit), &e) || answer_graph(rq, &work.permit, &r, q.limit, start, step, &e))
		answer_query_error(rq, &e);
	promql_result_release(&r);
}

/* ---- the language itself ---- */

static struct promql_expr *parse(struct httpd_request *rq)
{
	struct promql_expr *x;
	struct err e = { 0 };
	if (promql_parse(&x, httpd_param(rq, "query"), &e) == 0)
		return x;
	answer_query_error(rq, &e);
	return NULL;
}

/* Answers with the query in another form, which is written within the limits of a query. */
static void answer_form(const struct web *w, struct httpd_request *rq, bool json)
{
	struct promql_expr *x = parse(rq);
	if (!x)
		return;
	struct source_limits lim = { .canceled = httpd_canceled(rq) };
	struct buf text = { 0 };
	struct err e = { 0 };
	if (w->o.query_timeout_ms)
		lim.deadline_mono_ns = clock_mono_ns() + w->o.query_timeout_ms * 1000000;
	if (json ? promql_expr_json(x, &lim, &text, &e) : promql_format(x, &lim, &text, &e)) {
		answer_query_error(rq, &e);
	} else {
		if (json)
			json_raw(answer_begin(rq), buf_view(&text));
		else
			json_text(answer_begin(rq), buf_view(&text));
		answer_end(rq, NULL, 0, NULL, 0);
	}
	buf_free(&text);
	promql_expr_free(x);
}

void serve_format_query(struct httpd_request *rq, void *arg)
{
	answer_form(arg, rq, false);
}

void serve_parse_query(struct httpd_request *rq, void *arg)
{
	answer_form(arg, rq, true);
}

/* There are none; parameters are checked all the same. */
void serve_no_exemplars(struct httpd_request *rq, void *arg)
{
	(void)arg;
	int64_t after, until;
	struct err e = { 0 };
	struct promql_expr *x;
	if (param_span(rq, true, &after, &until, &e)) {
		answer_error(rq, &e);
		return;
	}
	if (!(x = parse(rq)))
		return;
	promql_expr_free(x);
	struct buf *b = answer_begin(rq);
	json_array_begin(b);
	json_array_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}

/* Every function and aggregation, for completion. */
