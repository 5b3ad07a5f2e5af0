/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and alerts: Prometheus's rules, with all its parameters, and alerts, field by field. Groups come one after another from
 * model/rules_status.h and are written as they come (struct answer_rows). */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/rules_status.h"
#include "web/answer.h"
#include "web/internal.h"

struct names {
	VEC(struct view) v;
};

/* The request's filters. */
struct rules_question {
	bool recording, alerting, alerts;
	struct names rules, groups, files; /* none: all */
	struct selectors match;            /* of rules' labels; none: all */
	struct view token;
	int64_t limit;                     /* groups per answer; 0 = all */
};

struct rules_writer {
	const struct rules_question *q;
	struct answer_rows rows;
	struct regex_meter meter;
	size_t n_groups;
	bool found_token;
	struct view next;                  /* hexadecimal, in next_text */
	char next_text[17];
};

/* ---- parameters ---- */

static void read_names(const struct httpd_request *rq, const char *name, struct names *ret)
{
	struct view v;
	for (size_t at = 0; param_next(rq, name, &at, &v);)
		vec_push(&ret->v, v);
}

static bool names_have(const struct names *n, struct view name)
{
	for (size_t i = 0; i < n->v.n; i++)
		if (view_eq(n->v.v[i], name))
			return true;
	return n->v.n == 0;
}

/* The errors have Prometheus's words. */
static int read_type(const struct httpd_request *rq, struct rules_question *q, struct err *e)
{
	static const char *const names[] = { "record", "alert" };
	struct view v = httpd_param(rq, "type");
	size_t which; /* 2: both */
	if (param_choice(rq, "type", &(struct param_names){ names, 2, true }, 2, &which, e))
		return param_error(e, "type", "not supported value \"%.*s\"", PARAM_ARG(v));
	q->recording = which != 1;
	q->alerting = which != 0;
	return 0;
}

static int read_exclude(const struct httpd_request *rq, struct rules_question *q, struct err *e)
{
	struct view v = httpd_param(rq, "exclude_alerts");
	bool exclude;
	if (param_bool(rq, "exclude_alerts", false, &exclude, e))
		return param_error(e, "exclude_alerts", "error converting exclude_alerts: \"%.*s\" is neither true nor false", PARAM_ARG(v));
	q->alerts = !exclude;
	return 0;
}

static int read_page(const struct httpd_request *rq, struct rules_question *q, struct err *e)
{
	struct view limit = httpd_param(rq, "group_limit");
	q->token = httpd_param(rq, "group_next_token");
	if (q->token.len && !limit.len)
		return param_error(e, "group_next_token", "group_limit needs to be present in order to paginate over the groups");
	if (param_whole(rq, "group_limit", INT32_MIN, INT32_MAX, 0, &q->limit, e))
		return param_error(e, "group_limit", "group_limit needs to be a valid number: \"%.*s\"", PARAM_ARG(limit));
	if (limit.len && q->limit <= 0)
		return param_error(e, "group_limit", "group_limit needs to be greater than 0");
	return 0;
}

static int read_question(const struct web *w, const struct httpd_request *rq, struct rules_question *q, struct err *e)
{
	*q = (struct rules_question){ 0 };
	read_names(rq, "rule_name[]", &q->rules);
	read_names(rq, "rule_group[]", &q->groups);
	read_names(rq, "file[]", &q->files);
	int rc = param_selectors(w, rq, &q->match, e);
	if (!rc)
		rc = read_type(rq, q, e);
	if (!rc)
		rc = read_exclude(rq, q, e);
	return rc ? rc : read_page(rq, q, e);
}

static void release_question(struct rules_question *q)
{
	vec_free(&q->rules.v);
	vec_free(&q->groups.v);
	vec_free(&q->files.v);
	selectors_release(&q->match);
}

/* ---- what is written ---- */

static void put_time(struct buf *b, const char *key, int64_t t_ms)
{
	char when[RFC3339_LEN];
	json_field_text(b, key, t_ms ? clock_rfc3339_ms(t_ms, when) : "0001-01-01T00:00:00Z");
}

static void put_labels(struct buf *b, const char *key, struct labels l)
{
	json_key(b, key);
	labels_json(l, b);
}

static void put_alert(struct buf *b, const struct status_alert *a)
{
	json_object_begin(b);
	json_key(b, "labels");
	labels_json(a->labels, b);
	put_labels(b, "annotations", a->annotations);
	json_field_text(b, "state", alert_state_text(a->state));
	put_time(b, "activeAt", a->active_at_ms);
	if (a->keep_firing_since_ms)
		put_time(b, "keepFiringSince", a->keep_firing_since_ms);
	json_key(b, "value");
	json_exponent(b, a->value);
	json_object_end(b);
}

/* Resolved alerts are kept only for notifications. */
static void put_alerts(struct rules_writer *w, const struct status_rule *r)
{
	for (size_t i = 0; i < r->n_alerts; i++) {
		if (r->alerts[i].state == ALERT_INACTIVE)
			continue;
		if (!answer_rows_more(&w->rows))
			return;
		put_alert(w->rows.b, &r->alerts[i]);
	}
}

static void put_alerting(struct rules_writer *w, const struct status_rule *r)
{
	struct buf *b = w->rows.b;
	json_field_float(b, "duration", (double)r->for_ms / 1000);
	json_field_float(b, "keepFiringFor", (double)r->keep_firing_for_ms / 1000);
	put_labels(b, "labels", r->labels);
	put_labels(b, "annotations", r->annotations);
	json_key(b, "alerts");
	if (!w->q->alerts) {
		json_null_value(b);
		return;
	}
	json_array_begin(b);
	put_alerts(w, r);
	json_array_end(b);
}

static void put_rule(struct rules_writer *w, const struct status_rule *r)
{
	struct buf *b = w->rows.b;
	json_object_begin(b);
	if (r->alerting)
		json_field_text(b, "state", alert_state_text(r->state));
	json_field(b, "name", r->name);
	json_field(b, "query", r->query);
	if (r->alerting)
		put_alerting(w, r);
	else
		put_labels(b, "labels", r->labels);
	json_field_text(b, "health", rule_health_text(r->health));
	if (r->last_error.len)
		json_field(b, "lastError", r->last_error);
	json_field_float(b, "evaluationTime", (double)r->evaluation_ns / 1e9);
	put_time(b, "lastEvaluation", r->last_evaluation_ms);
	json_field_text(b, "type", r->alerting ? "alerting" : "recording");
	json_object_end(b);
}

/* ---- which ---- */

static bool selected(struct rules_writer *w, struct labels l)
{
	int is = w->q->match.n == 0;
	for (size_t i = 0; i < w->q->match.n && is == 0; i++)
		is = matchers_match(w->q->match.v[i].m, w->q->match.v[i].n, l, &w->meter, &w->rows.e);
	return is > 0;
}

static bool wanted_rule(struct rules_writer *w, const struct status_rule *r)
{
	if (!(r->alerting ? w->q->alerting : w->q->recording) || !names_have(&w->q->rules, r->name))
		return false;
	return selected(w, r->labels);
}

static bool wanted_group(struct rules_writer *w, const struct status_rule_group *g)
{
	bool wanted = false;
	if (!names_have(&w->q->groups, g->name) || !names_have(&w->q->files, g->file))
		return false;
	for (size_t i = 0; i < g->n_rules && !wanted && !w->rows.e.code; i++)
		wanted = wanted_rule(w, &g->rules[i]);
	return wanted;
}

/* Names the group to begin with; only what this server made is understood. */
static struct view token_of(const struct status_rule_group *g, char out[17])
{
	struct buf b = { 0 };
	buf_printf(&b, "%.*s;%.*s", VIEW_ARG(g->file), VIEW_ARG(g->name));
	int n = snprintf(out, 17, "%016llx", (unsigned long long)hash_stable_view(buf_view(&b)));
	buf_free(&b);
	return view_make(out, (size_t)n);
}

static void put_group(struct rules_writer *w, const struct status_rule_group *g)
{
	struct buf *b = w->rows.b;
	json_object_begin(b);
	json_field(b, "name", g->name);
	json_field(b, "file", g->file);
	json_array_begin_at(b, "rules");
	for (size_t i = 0; i < g->n_rules; i++)
		if (wanted_rule(w, &g->rules[i]) && answer_rows_more(&w->rows))
			put_rule(w, &g->rules[i]);
	json_array_end(b);
	json_field_float(b, "interval", (double)g->interval_ms / 1000);
	json_field_int(b, "limit", g->limit);
	json_field_float(b, "evaluationTime", (double)g->evaluation_ns / 1e9);
	put_time(b, "lastEvaluation", g->last_evaluation_ms);
	json_object_end(b);
	w->n_groups++;
	w->rows.cut |= g->cut;
}

static bool skips_to_token(struct rules_writer *w, const struct status_rule_group *g)
{
	char text[17];
	if (!w->q->token.len || w->found_token)
		return false;
	w->found_token = view_eq(token_of(g, text), w->q->token);
	return !w->found_token;
}

/* The group after the last one tells where the next answer begins, if anything of it is wanted. */
static bool put_if_wanted(void *arg, const struct status_rule_group *g)
{
	struct rules_writer *w = arg;
	if (!answer_rows_more(&w->rows))
		return false;
	if (skips_to_token(w, g) || !wanted_group(w, g))
		return !w->rows.e.code;
	if (w->q->limit && w->n_groups == (size_t)w->q->limit) {
		w->next = token_of(g, w->next_text);
		return false;
	}
	put_group(w, g);
	return !w->rows.cut && !w->rows.e.code;
}

/* ---- the answers ---- */

static bool has_room(void *arg, size_t bytes)
{
	struct rules_writer *w = arg;
	return answer_rows_need(&w->rows, bytes);
}

static void write_groups(const struct web *web, struct rules_writer *w, bool alerts, bool (*put)(void *arg, const struct status_rule_group *g))
{
	if (web->rules)
		web->rules->groups(web->rules, &(struct status_rules_query){ .alerts = alerts, .group = put, .arg = w, .room = has_room });
}

static void end_answer(struct rules_writer *w)
{
	json_object_end(w->rows.b);
	answer_rows_end(&w->rows);
}

static void write_rules(struct web *web, struct httpd_request *rq, const struct rules_question *q)
{
	struct rules_writer w = { .q = q };
	w.meter = (struct regex_meter){ .canceled = httpd_canceled(rq), .max_ns = REGEX_QUERY_NS, .max_name = REGEX_QUERY_NAME };
	answer_rows_begin(&w.rows, rq);
	json_object_begin(w.rows.b);
	json_array_begin_at(w.rows.b, "groups");
	write_groups(web, &w, q->alerts, put_if_wanted);
	if (!w.rows.e.code && q->token.len && !w.found_token)
		param_error(&w.rows.e, "group_next_token", "invalid group_next_token '%.*s'. were rule groups changed?", PARAM_ARG(q->token));
	json_array_end(w.rows.b);
	if (w.next.len)
		json_field(w.rows.b, "groupNextToken", w.next);
	end_answer(&w);
}

void serve_rules(struct httpd_request *rq, void *arg)
{
	struct rules_question q;
	struct err e;
	if (read_question(arg, rq, &q, &e))
		answer_error(rq, &e);
	else
		write_rules(arg, rq, &q);
	release_question(&q);
}

static bool put_group_alerts(void *arg, const struct status_rule_group *g)
{
	struct rules_writer *w = arg;
	for (size_t i = 0; i < g->n_rules; i++)
		put_alerts(w, &g->rules[i]);
	w->rows.cut |= g->cut;
	return answer_rows_more(&w->rows);
}

void serve_alerts(struct httpd_request *rq, void *arg)
{
	struct rules_writer w = { 0 };
	answer_rows_begin(&w.rows, rq);
	json_object_begin(w.rows.b);
	json_array_begin_at(w.rows.b, "alerts");
	write_groups(arg, &w, true, put_group_alerts);
	json_array_end(w.rows.b);
	end_answer(&w);
}
