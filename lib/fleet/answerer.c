/* SPDX-License-Identifier: Apache-2.0 */
/* One question, from its bytes to the bytes of its answer, on the caller's thread:
 *
 *	decode ─► view: found by its token, or opened ─► check ─► fleet_call_run ─► session (of a merge) ─► encode
 *
 * An error anywhere after the first step becomes an answer with that error. */
#include "fleet/answerer.h"

#include "base/clock.h"
#include "base/regex.h"
#include "fleet/answerer_check.h"
#include "fleet/answerer_metrics.h"
#include "fleet/answerer_sessions.h"
#include "fleet/answerer_views.h"

#define TIMEOUT_DEFAULT_MS INT64_C(120000)
#define DICTIONARIES_DEFAULT ((size_t)256 << 20)

struct fleet_answerer {
	struct fleet_answerer_options o;
	struct answerer_views *views;
	struct answerer_sessions *sessions;
};

static const char *answerer_op_text(enum fleet_op op)
{
	static const char *const names[FLEET_OPS] = {
		[FLEET_OPEN] = "open", [FLEET_SELECT] = "select", [FLEET_TYPES] = "types", [FLEET_LABEL_NAMES] = "label_names",
		[FLEET_LABEL_VALUES] = "label_values", [FLEET_FLOATS] = "floats", [FLEET_PROFILES] = "profiles", [FLEET_POINTS] = "points",
		[FLEET_COVERS] = "covers", [FLEET_MERGE] = "merge", [FLEET_SUMS] = "sums", [FLEET_SHARES] = "shares", [FLEET_MATCHES] = "matches",
		[FLEET_CLOSE] = "close", [FLEET_ROWS] = "rows",
	};
	return op < FLEET_OPS && names[op] ? names[op] : "(other)";
}

struct fleet_answerer *fleet_answerer_new(const struct fleet_answerer_options *o)
{
	struct fleet_answerer *a = NEW(struct fleet_answerer);
	a->o = *o;
	a->o.timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_DEFAULT_MS;
	a->views = answerer_views_new(o->view_idle_ms ? o->view_idle_ms : FLEET_VIEW_IDLE_MS, o->view_age_ms ? o->view_age_ms : FLEET_VIEW_AGE_MS);
	a->sessions = answerer_sessions_new(o->max_dictionary_bytes ? (size_t)o->max_dictionary_bytes : DICTIONARIES_DEFAULT);
	return a;
}

void fleet_answerer_free(struct fleet_answerer *a)
{
	if (!a)
		return;
	answerer_views_free(a->views);
	answerer_sessions_free(a->sessions);
	free(a);
}

/* A question at work. */
struct answerer_work {
	struct fleet_answerer *a;
	const struct fleet_asker *asker;
	uint64_t asker_hash;
	struct fleet_question q;
	struct answerer_view *view;      /* in use; NULL: none */
	struct answerer_session *session; /* the same */
	struct fleet_answer answer;
	struct fleet_result result;
	struct labels *labels;           /* owned; NULL: none */
	struct source_stats stats;
	struct source_damage damage;
	struct regex_meter regex;
	atomic_uint_fast64_t samples;
};

/* ---- the view ---- */

static int answerer_open(struct answerer_work *w, struct err *e)
{
	const struct fleet_answerer_options *o = &w->a->o;
	struct source_view *view;
	int rc = o->source->open(o->source, &view, e);
	if (rc)
		return rc;
	w->view = answerer_views_add(w->a->views, view, w->asker_hash);
	w->labels = o->labels ? o->labels(o->arg) : NULL;
	w->answer.opened = true;
	w->answer.labels = w->labels ? *w->labels : (struct labels){ 0 };
	return 0;
}

static int answerer_find_view(struct answerer_work *w, struct err *e)
{
	if (!w->q.view)
		return w->q.call.op == FLEET_CLOSE ? 0 : answerer_open(w, e);
	w->view = answerer_views_find(w->a->views, w->q.view, w->asker_hash);
	if (w->view || w->q.call.op == FLEET_CLOSE)
		return 0;
	w->answer.view_lost = true;
	return err_set(e, ERR_NOT_FOUND, "the state of the storage that the question is about is not kept any more");
}

/* ---- the call ---- */

static uint64_t lower_limit(uint64_t a, uint64_t b)
{
	return a && b ? MIN(a, b) : a + b;
}

static struct source_limits answerer_limits(struct answerer_work *w)
{
	const struct fleet_answerer_options *o = &w->a->o;
	int64_t left_ms = w->q.left_ms > 0 ? MIN(w->q.left_ms, o->timeout_ms) : o->timeout_ms;
	int64_t deadline_ns = w->asker->arrived_ns + left_ms * 1000000;
	w->regex = (struct regex_meter){ .deadline_mono_ns = deadline_ns, .canceled = w->asker->canceled, .max_ns = REGEX_QUERY_NS,
					 .max_name = REGEX_QUERY_NAME };
	return (struct source_limits){
		.deadline_mono_ns = deadline_ns, .canceled = w->asker->canceled, .max_samples = lower_limit(o->max_samples, w->q.max_samples),
		.samples_read = &w->samples, .stats = &w->stats, .pool = o->pool, .max_bytes = lower_limit(o->max_bytes, w->q.max_bytes),
		.damage = w->q.strict ? NULL : &w->damage, .regex = &w->regex, .waits = w->asker->waits, .waits_arg = w->asker->waits_arg,
	};
}

static int answerer_call(struct answerer_work *w, struct err *e)
{
	struct fleet_call *c = &w->q.call;
	struct source_limits lim = answerer_limits(w);
	if (c->op == FLEET_OPEN || c->op == FLEET_CLOSE)
		return 0;
	int rc = source_limits_check(&lim, e);
	if (!rc)
		rc = answerer_check(c, w->view, lim.max_bytes, e);
	if (!rc)
		rc = fleet_call_run(w->view->view, c, w->a->o.rows, w->a->o.rows_arg, &lim, &w->result, e);
	return rc || c->op != FLEET_SELECT ? rc : answerer_view_add_series(w->view, w->result.series, w->result.n, e);
}

/* ---- the answer ---- */

static struct fleet_lacks answerer_lacks(const struct source_lacks *l)
{
	uint64_t met = atomic_load(&l->met);
	return met ? (struct fleet_lacks){ met, atomic_load(&l->until_ms), INT64_MAX - atomic_load(&l->before_from_ms) } : (struct fleet_lacks){ 0 };
}

static void answerer_account(struct answerer_work *w)
{
	struct fleet_answer *to = &w->answer;
	to->chunks = atomic_load(&w->stats.chunks);
	to->samples = atomic_load(&w->samples);
	to->bytes = atomic_load(&w->stats.bytes);
	to->bucket_requests = atomic_load(&w->stats.bucket_requests);
	to->bucket_bytes = atomic_load(&w->stats.bucket_bytes);
	to->damaged = answerer_lacks(&w->damage.damaged);
	to->absent = answerer_lacks(&w->damage.absent);
	to->doubled = answerer_lacks(&w->damage.doubled);
}

/* The dictionary of a merge. If it is another one than the asker has, it is sent from its beginning (wire.h). */
static void answerer_enter_session(struct answerer_work *w)
{
	w->session = answerer_sessions_enter(w->a->sessions, w->q.session, w->asker_hash);
	w->answer.session = w->session->id;
}

static int answerer_encode_result(struct answerer_work *w, struct buf *out, struct err *e)
{
	size_t most = out->max ? out->max : BUF_DEFAULT_MAX;
	if (w->q.call.op == FLEET_MERGE)
		answerer_enter_session(w);
	out->max = w->q.max_answer ? (size_t)MIN(w->q.max_answer, most) : most;
	int rc = fleet_answer_encode(out, &w->answer, &w->result, w->session ? w->session->dictionary : NULL, &w->q, e);
	out->max = most;
	return rc;
}

/* An answer with an error. It has no result, and so no dictionary. */
static int answerer_encode_error(struct answerer_work *w, const struct err *why, struct buf *out)
{
	struct err e = { 0 };
	buf_reset(out);
	w->answer.err = *why;
	w->answer.session = 0;
	metric_add(&answerer_metrics[M_QUESTION_ERRORS], 1, err_info(why->code)->type);
	return fleet_answer_encode(out, &w->answer, NULL, NULL, &w->q, &e);
}

static int answerer_work_run(struct answerer_work *w, struct buf *out)
{
	struct err e = { 0 };
	int64_t cpu_ns = clock_cpu_ns();
	int rc = answerer_find_view(w, &e);
	if (!rc)
		rc = answerer_call(w, &e);
	/* Nobody learns the token of a view whose question was canceled. */
	bool drop = w->q.call.op == FLEET_CLOSE || (rc == -ERR_CANCELED && w->answer.opened);
	w->answer.view = w->view && !drop ? w->view->token : 0;
	w->answer.cpu_ns = clock_cpu_ns() - cpu_ns;
	answerer_account(w);
	if (!rc)
		rc = answerer_encode_result(w, out, &e);
	if (rc)
		rc = answerer_encode_error(w, &e, out);
	fleet_result_release(&w->result); /* before the view, which has its strings */
	if (w->session)
		answerer_sessions_leave(w->a->sessions, w->session);
	if (w->view)
		answerer_views_leave(w->a->views, w->view, drop);
	return rc;
}

int fleet_answerer_run(struct fleet_answerer *a, struct view body, const struct fleet_asker *asker, struct buf *out)
{
	struct answerer_work w = { .a = a, .asker = asker, .asker_hash = hash_view(asker->name) };
	struct err e = { 0 };
	int status = 200;
	if (fleet_question_decode(&w.q, body, &e)) {
		metric_add(&answerer_metrics[M_QUESTION_ERRORS], 1, err_info(e.code)->type);
		buf_puts(out, e.msg);
		buf_putc(out, '\n');
		status = 400;
	} else if (answerer_work_run(&w, out)) {
		buf_reset(out);
		buf_puts(out, "the answer is too large\n");
		status = 500;
	}
	const char *op = status == 400 ? "(malformed)" : answerer_op_text(w.q.call.op);
	metric_add(&answerer_metrics[M_QUESTIONS], 1, op);
	metric_observe(&answerer_metrics[M_QUESTION_SECONDS], (double)(clock_mono_ns() - asker->arrived_ns) / 1e9, op);
	fleet_question_release(&w.q);
	source_damage_release(&w.damage);
	free(w.labels);
	return status;
}
