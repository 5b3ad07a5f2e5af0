/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all API handlers: Prometheus's envelope {"status","data","errorType","error","warnings","infos"}. */
#ifndef PYRRHA_WEB_ANSWER_H
#define PYRRHA_WEB_ANSWER_H

#include "base/json.h"
#include "base/permit.h"
#include "base/vec.h"
#include "httpd/httpd.h"
#include "model/matcher.h"
#include "promql-like/promql.h"
#include "web/params.h"

struct web;

/* ---- what is asked; params.h has single parameters ---- */

/* question.c: what a query is asked with, beside its time or times: `limit`, `timeout`, `lookback_delta`, `explain`, `partial_response`. ERR_TIMEOUT if the timeout
 * leaves no time. */
struct web_question {
	struct view query;
	struct promql_params params;
	size_t limit;
};
int question_read(const struct web *w, struct httpd_request *rq, struct web_question *q, struct err *e) MUST_USE;
/* `partial_response`: allow or refuse; true and false as Thanos has it. */
int param_partial(const struct httpd_request *rq, enum promql_partial *ret, struct err *e) MUST_USE;
/* An error of the engine, of which parameter it is. Returns -code. */
int query_error(struct err *e);
/* The stages of the query, in the header Server-Timing. Right after it. */
void answer_stages(struct httpd_request *rq, const struct promql_result *r);

/* question.c: the permit under which an answer is made of r. It asks for the memory, heeds deadline and client, and hands what is written so far
 * to httpd_out_stays. Lies on the handler's stack. */
struct answer_work {
	struct permit permit;
	struct httpd_request *rq;
	struct promql_result *r;
	uint64_t bytes;          /* that were asked for */
};
void answer_work_begin(struct answer_work *w, struct httpd_request *rq, struct promql_result *r);

/* selectors.c: the selectors of all match[]. Release with selectors_release. */
struct match_param {
	struct promql_expr *expr;
	const struct matcher *m;
	size_t n;
};
struct selectors {
	struct match_param *v;
	size_t n;
};
int param_selectors(const struct web *w, const struct httpd_request *rq, struct selectors *ret, struct err *e) MUST_USE;
void selectors_release(struct selectors *s);

/* ---- the envelope ---- */

void answer_error(struct httpd_request *rq, const struct err *e);
/* {"status":"success","data": — the caller writes the data into what is returned, then ends it. */
struct buf *answer_begin(struct httpd_request *rq);
void answer_end(struct httpd_request *rq, const struct view *warnings, size_t n_warnings, const struct view *infos,
		size_t n_infos);
/* Warnings as source_damage_warnings hands them out: answer_warn copies each into the arena. The caller frees v. */
struct answer_warnings {
	struct arena *arena;
	VEC(struct view) v;
};
void answer_warn(void *warnings, const char *text);
/* Behind the end: a newline. The caller writes columns into the returned buffer; the answer then has that content type. */
struct buf *answer_columns(struct httpd_request *rq, const char *content_type);
/* The warning of a result that a limit cut. */
extern const struct view answer_truncated;

/* ---- answers that grow with what the server has (targets, rules, names), which no query's budget counts ---- */

/* Such an answer ends at 64 MiB, with a warning. What is in memory of it is counted in --web.answer-memory before it grows; a large answer becomes a
 * file while it is written. If there is room in neither, the answer is an error. */
struct answer_rows {
	struct httpd_request *rq;
	struct buf *b;       /* where rows are written */
	uint64_t moved;      /* bytes of the answer that have left b */
	bool cut;            /* it is full: some rows are left out */
	struct err e;        /* why it cannot be completed; code 0: nothing */
	struct answer_warnings warnings; /* that it ends with; answer_rows_end frees them */
};
/* As answer_begin. */
void answer_rows_begin(struct answer_rows *r, struct httpd_request *rq);
/* Before a row. False: no more rows, because the answer is full, its client has left, or there is no room. Rows so far are final. */
bool answer_rows_more(struct answer_rows *r);
/* Reserves the memory that the writer of the answer will hold beside b, until the answer is complete: `bytes` is the most that it holds at one time.
 * False: there is no room. */
bool answer_rows_need(struct answer_rows *r, size_t bytes);
/* A member of an object that is one long text, which the caller holds in memory. */
void answer_rows_text(struct answer_rows *r, const char *key, struct view text);
/* After the data. Where the answer cannot be completed, the error takes its place. */
void answer_rows_end(struct answer_rows *r);

#endif
