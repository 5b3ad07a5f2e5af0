/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a query, and the remarks besides its result: for queries of values and of profiles alike. */
#include "web/answer.h"
#include "web/internal.h"

int query_error(struct err *e)
{
	if (e->code == ERR_BAD_DATA)
		param_wrap(e, "query");
	return -(int)e->code;
}

int param_partial(const struct httpd_request *rq, enum promql_partial *ret, struct err *e)
{
	static const char *const names[] = { "allow", "true", "1", "t", "refuse", "false", "0", "f" };
	size_t which;
	*ret = PROMQL_PARTIAL_DEFAULT;
	if (!httpd_param(rq, "partial_response").len)
		return 0;
	if (param_choice(rq, "partial_response", &(struct param_names){ names, ARRAY_LEN(names), true }, 0, &which, e))
		return param_error(e, "partial_response", "\"%.*s\" is neither allow nor refuse", PARAM_ARG(httpd_param(rq, "partial_response")));
	*ret = which < 4 ? PROMQL_PARTIAL_ALLOW : PROMQL_PARTIAL_REFUSE;
	return 0;
}

/* A query that is wrong is told before that it has no time. */
static int no_time(struct view query, struct err *e)
{
	struct promql_expr *x;
	if (promql_parse(&x, query, e))
		return query_error(e);
	promql_expr_free(x);
	return err_set(e, ERR_TIMEOUT, "query timed out in query queue: \"timeout\" leaves it no time");
}

/* A query that waits for the bucket needs no CPU, and what it does afterwards takes long: others of its lane start meanwhile. */
static void question_waits(void *arg)
{
	httpd_turn_is_over(arg);
}

int question_read(const struct web *w, struct httpd_request *rq, struct web_question *q, struct err *e)
{
	*q = (struct web_question){ .query = httpd_param(rq, "query") };
	q->params.canceled = httpd_canceled(rq);
	q->params.waits = question_waits;
	q->params.waits_arg = rq;
	q->params.arrived_ns = httpd_arrived_ns(rq);
	q->params.count = httpd_param(rq, "stats").len > 0;
	if (!w->o.engine)
		return err_set(e, ERR_UNAVAILABLE, "there is no query engine");
	int rc = param_limit(rq, "limit", &q->limit, e);
	if (!rc)
		rc = param_duration(rq, "timeout", w->o.query_timeout_ms, &q->params.timeout_ms, e);
	if (!rc)
		rc = param_duration(rq, "lookback_delta", 0, &q->params.lookback_ms, e);
	if (!rc)
		rc = param_bool(rq, "explain", false, &q->params.explain, e);
	if (!rc)
		rc = param_partial(rq, &q->params.partial, e);
	if (rc)
		return rc;
	if (q->params.timeout_ms <= 0 && httpd_param(rq, "timeout").len)
		return no_time(q->query, e);
	q->params.timeout_ms = MIN(q->params.timeout_ms, w->o.query_timeout_ms);
	q->params.lookback_ms = MAX(q->params.lookback_ms, 0); /* the server's own, as for nothing */
	return 0;
}

void answer_stages(struct httpd_request *rq, const struct promql_result *r)
{
	httpd_stage(rq, "queue", r->queue_ns); /* from the request's arrival on */
	httpd_stage(rq, "read", r->read_ns);
	httpd_stage(rq, "eval", r->eval_ns - r->read_ns);
}

#define LARGE_BYTES (UINT64_C(1) << 20) /* of an answer that others do not wait for */

static int work_go_on(void *arg, struct err *e)
{
	struct answer_work *w = arg;
	int rc = promql_result_go_on(w->r, e);
	return rc ? rc : httpd_out_stays(w->rq, e);
}

static int work_need(void *arg, uint64_t bytes, struct err *e)
{
	struct answer_work *w = arg;
	w->bytes += bytes;
	if (w->bytes > LARGE_BYTES && w->bytes - bytes <= LARGE_BYTES)
		httpd_turn_is_over(w->rq);
	return promql_result_need(w->r, bytes, e);
}

void answer_work_begin(struct answer_work *w, struct httpd_request *rq, struct promql_result *r)
{
	*w = (struct answer_work){ .permit = { work_go_on, work_need, w, httpd_out_in_memory(rq) }, .rq = rq, .r = r };
}
