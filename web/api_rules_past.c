/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/v1/rules/try: what the alerts of a rule file would have done. Nothing is written, so it needs no flag. POST
 * /api/v1/admin/rules/backfill: what its recording rules would have recorded, stored; a part at a time. */
#include "base/clock.h"
#include "model/rules_past.h"
#include "web/answer.h"
#include "web/internal.h"

#define LONGEST_MS 600000
#define PART_MS 5000

static int read_past(const struct httpd_request *rq, struct past_question *q, struct err *e)
{
	int64_t now = clock_now_ms();
	*q = (struct past_question){ .text = httpd_param(rq, "rules"), .name = httpd_param(rq, "name"), .canceled = httpd_canceled(rq) };
	if (!q->text.len)
		return param_error(e, "rules", "the text of a rule file is needed");
	if (!q->name.len || memchr(q->name.ptr, 0, q->name.len))
		q->name = VIEW("rules");
	int rc = param_time(rq, "end", now, &q->end_ms, e);
	if (!rc)
		rc = param_time(rq, "start", q->end_ms - 3600000, &q->start_ms, e);
	if (!rc)
		rc = param_duration_from(rq, "timeout", 1, LONGEST_MS, &q->timeout_ms, e);
	q->timeout_ms = MIN(q->timeout_ms, LONGEST_MS);
	if (!rc && q->start_ms < 0)
		rc = param_error(e, "start", "it is before 1970");
	if (!rc && q->end_ms > now + 86400000)
		rc = param_error(e, "end", "it is not in the past");
	return rc;
}

static void put_time(struct buf *b, const char *key, int64_t t_ms)
{
	char when[RFC3339_LEN];
	if (t_ms)
		json_field_text(b, key, clock_rfc3339_ms(t_ms, when));
}

static void put_alert(struct buf *b, const struct past_alert *a)
{
	const char *state = !a->ended_at_ms && a->fired_at_ms ? "firing" : !a->ended_at_ms ? "pending" : "inactive";
	json_object_begin(b);
	json_field(b, "group", a->group);
	json_field(b, "name", a->name);
	json_key(b, "labels");
	labels_json(a->labels, b);
	put_time(b, "activeAt", a->active_at_ms);
	put_time(b, "firedAt", a->fired_at_ms);
	put_time(b, "endedAt", a->ended_at_ms);
	json_field_text(b, "state", state);
	json_key(b, "value");
	json_exponent(b, a->value);
	json_object_end(b);
}

void serve_rules_try(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct past_question q;
	struct past_answer a;
	struct err e = { 0 };
	int rc = w->past ? read_past(rq, &q, &e) : err_set(&e, ERR_UNAVAILABLE, "there are no rules");
	if (!rc)
		rc = w->past->evaluate(w->past, &q, &a, &e);
	if (rc) {
		answer_error(rq, &e);
		return;
	}
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_object_begin(rows.b);
	json_field_count(rows.b, "evaluations", a.evaluations);
	json_array_begin_at(rows.b, "alerts");
	for (size_t i = 0; i < a.n_alerts && answer_rows_more(&rows); i++)
		put_alert(rows.b, &a.alerts[i]);
	json_array_end(rows.b);
	json_object_end(rows.b);
	bool cut = a.cut || rows.cut;
	if (rows.e.code || !a.n_warnings) {
		rows.cut = cut;
		answer_rows_end(&rows);
	} else {
		answer_end(rq, a.warnings, a.n_warnings, cut ? &answer_truncated : NULL, cut);
	}
	arena_free(&a.arena);
}

void serve_rules_backfill(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct past_question q;
	struct past_answer a;
	struct err e = { 0 };
	if (!admin_allowed(rq, w))
		return;
	int rc = w->past ? read_past(rq, &q, &e) : err_set(&e, ERR_UNAVAILABLE, "there are no rules");
	if (!rc) {
		q.record = true;
		q.timeout_ms = MIN(q.timeout_ms, PART_MS);
		rc = w->past->evaluate(w->past, &q, &a, &e);
	}
	if (rc) {
		answer_error(rq, &e);
		return;
	}
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_field_count(b, "evaluations", a.evaluations);
	json_field_count(b, "written", a.written);
	json_field_count(b, "there", a.there);
	json_field_count(b, "refused", a.refused);
	if (a.next_ms)
		put_time(b, "next", a.next_ms);
	json_object_end(b);
	answer_end(rq, a.warnings, a.n_warnings, NULL, 0);
	arena_free(&a.arena);
}
