/* SPDX-License-Identifier: Apache-2.0 */
/* One question, from its bytes to the bytes of its answer, on the caller's thread:
 *
 *	decode ─► view: found by its token, or opened ─► check ─► fleet_call_run ─► session (of a merge) ─► encode
 *
 * An error anywhere after the first step becomes an answer with that error; also one of the first if it is about memory. */
#include "fleet/answerer.h"

#include "base/clock.h"
#include "base/regex.h"
#include "fleet/answerer_check.h"
#include "fleet/answerer_metrics.h"
#include "fleet/answerer_sessions.h"
#include "fleet/answerer_views.h"

#define TIMEOUT_DEFAULT_MS INT64_C(120000)
#define DICTIONARIES_DEFAULT ((size_t)256 << 20)
#define TIDY_MS INT64_C(60000)              /* between two times that idle sessions are looked for */
#define QUESTION_LEAST (UINT64_C(64) << 10) /* bytes: room for a question that begins */
#define ANSWER_LEAST ((size_t)64 << 10)     /* bytes that an answer is counted as at first */

struct fleet_answerer {
	struct fleet_answerer_options o;
	struct answerer_views *views;
	struct answerer_sessions *sessions;
	struct question_memory memory;
};

static void answerer_tidy(void *arg)
{
	struct fleet_answerer *a = arg;
	answerer_sessions_tidy(a->sessions, clock_mono_ms() - a->o.session_idle_ms);
}

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
	a->o.session_idle_ms = o->session_idle_ms ? o->session_idle_ms : FLEET_SESSION_IDLE_MS;
	question_memory_init(&a->memory, o->max_memory_bytes);
	a->sessions = answerer_sessions_new(o->max_dictionary_bytes ? (size_t)o->max_dictionary_bytes : DICTIONARIES_DEFAULT);
	a->views = answerer_views_new(&(struct answerer_views_options){
		.idle_ms = o->view_idle_ms ? o->view_idle_ms : FLEET_VIEW_IDLE_MS, .age_ms = o->view_age_ms ? o->view_age_ms : FLEET_VIEW_AGE_MS,
		.tidy = answerer_tidy, .arg = a, .tidy_ms = MIN(MAX(a->o.session_idle_ms / 4, 1), TIDY_MS) });
	return a;
}

void fleet_answerer_free(struct fleet_answerer *a)
{
	if (!a)
		return;
	answerer_views_free(a->views); /* first: its thread tidies up sessions */
	answerer_sessions_free(a->sessions);
	question_memory_destroy(&a->memory);
	free(a);
}

/* A question at work. */
struct answerer_work {
	struct fleet_answerer *a;
	const struct fleet_asker *asker;
	uint64_t asker_hash;
	struct question_held held;
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

static int64_t answerer_deadline_ns(const struct answerer_work *w)
{
	int64_t most_ms = w->a->o.timeout_ms;
	return w->asker->arrived_ns + (w->q.left_ms > 0 ? MIN(w->q.left_ms, most_ms) : most_ms) * 1000000;
}

/* Whether what the call reads is held as it was read. What it only adds up or passes on is not limited in samples, as in queries of the engine (eval_stream_limits); the asker
 * may limit it. */
static bool answerer_holds_samples(enum fleet_op op)
{
	return op == FLEET_FLOATS || op == FLEET_PROFILES || op == FLEET_POINTS || op == FLEET_COVERS;
}

static struct source_limits answerer_limits(struct answerer_work *w)
{
	const struct fleet_answerer_options *o = &w->a->o;
	int64_t deadline_ns = answerer_deadline_ns(w);
	uint64_t max_samples = answerer_holds_samples(w->q.call.op) ? o->max_samples : 0;
	w->regex = (struct regex_meter){ .deadline_mono_ns = deadline_ns, .canceled = w->asker->canceled, .max_ns = REGEX_QUERY_NS,
					 .max_name = REGEX_QUERY_NAME };
	return (struct source_limits){
		.deadline_mono_ns = deadline_ns, .canceled = w->asker->canceled, .max_samples = lower_limit(max_samples, w->q.max_samples),
		.samples_read = &w->samples, .stats = &w->stats, .pool = o->pool, .max_bytes = lower_limit(o->max_bytes, w->q.max_bytes),
		.damage = w->q.strict ? NULL : &w->damage, .regex = &w->regex, .waits = w->asker->waits, .waits_arg = w->asker->waits_arg,
	};
}

/* The places of the result. There is still little in the question's hands, so it waits for them. */
static int answerer_take_places(struct answerer_work *w, const struct source_limits *lim, struct err *e)
{
	uint64_t n = answerer_places(&w->q.call);
	if (!question_held_wait(&w->held, n + QUESTION_LEAST, lim->deadline_mono_ns, lim->canceled))
		return question_held_refuse(&w->held, n + QUESTION_LEAST, e);
	return question_held_list(&w->held, n, e);
}

static int answerer_call_guarded(struct answerer_work *w, struct source_limits *lim, struct err *e)
{
	const struct fleet_answerer_options *o = &w->a->o;
	bool is_guarded = o->guard_enter && w->q.call.op != FLEET_ROWS;
	void *guarded = is_guarded ? o->guard_enter(o->guard_arg, &w->samples, &lim->stopped) : NULL;
	int rc = fleet_call_run(w->view->view, &w->q.call, o->rows, o->rows_arg, lim, &w->held, &w->result, e);
	if (is_guarded)
		o->guard_leave(o->guard_arg, guarded);
	return rc;
}

static int answerer_call(struct answerer_work *w, struct err *e)
{
	struct fleet_call *c = &w->q.call;
	struct source_limits lim = answerer_limits(w);
	if (c->op == FLEET_OPEN || c->op == FLEET_CLOSE)
		return 0;
	w->held.max_bytes = lim.max_bytes;
	int rc = source_limits_check(&lim, e);
	if (!rc)
		rc = answerer_check(c, w->view, lim.max_bytes, e);
	if (!rc)
		rc = answerer_take_places(w, &lim, e);
	if (!rc)
		rc = answerer_call_guarded(w, &lim, e);
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

/* An answer is counted before it is encoded, as about as large as the lists. If it is larger, it is encoded again, as up to four times as large: that is rare. */
static int answerer_encode_within(struct answerer_work *w, struct buf *out, size_t most, struct err *e)
{
	size_t held = 0, n = MAX((size_t)atomic_load(&w->held.lists) / 8, ANSWER_LEAST); /* as bytes they are an eighth or less */
	for (;;) {
		n = MIN(n, most);
		int rc = question_held_take(&w->held, n - held, e);
		if (rc)
			return rc;
		held = n;
		out->max = n;
		rc = fleet_answer_encode(out, &w->answer, &w->result, w->session ? w->session->dictionary : NULL, &w->q, e);
		if (!out->overflow && rc != -ERR_LIMIT)
			return rc;
		if (n == most)
			return rc;
		buf_reset(out);
		n = n > most / 4 ? most : n * 4;
	}
}

static int answerer_encode_result(struct answerer_work *w, struct buf *out, struct err *e)
{
	size_t most = out->max ? out->max : BUF_DEFAULT_MAX;
	if (w->q.call.op == FLEET_MERGE)
		answerer_enter_session(w);
	int rc = answerer_encode_within(w, out, w->q.max_answer ? (size_t)MIN(w->q.max_answer, most) : most, e);
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

/* A question that does not find room gives back what it has of it, and begins anew once there is some. */
static int answerer_decode(struct answerer_work *w, struct view body, struct err *e)
{
	uint64_t n = body.len + QUESTION_LEAST; /* it is not known before how much it takes */
	int rc = fleet_question_decode(&w->q, body, &w->held.budget, e);
	while (rc == -ERR_BUSY) {
		arena_free(&w->q.arena);
		n *= 2;
		if (!question_held_wait(&w->held, n, answerer_deadline_ns(w), w->asker->canceled))
			return question_held_refuse(&w->held, n, e);
		fleet_question_release(&w->q);
		rc = fleet_question_decode(&w->q, body, &w->held.budget, e);
	}
	return rc;
}

int fleet_answerer_run(struct fleet_answerer *a, struct view body, const struct fleet_asker *asker, struct buf *out)
{
	struct answerer_work w = { .a = a, .asker = asker, .asker_hash = hash_view(asker->name) };
	struct err e = { 0 };
	int status = 200;
	question_held_init(&w.held, &a->memory);
	int rc = answerer_decode(&w, body, &e);
	if (rc && w.q.arena.refused) {
		if (answerer_encode_error(&w, &e, out))
			status = 500;
	} else if (rc) {
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
	question_held_release(&w.held);
	source_damage_release(&w.damage);
	free(w.labels);
	return status;
}
