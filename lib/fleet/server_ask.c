/* SPDX-License-Identifier: Apache-2.0 */
/* An ask: one call on a view, from start to finish. Answers are read by threads that wait for them, never by the loop's. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/metrics.h"
#include "base/units.h"
#include "fleet/dictionary.h"
#include "fleet/server_internal.h"

#define RESERVE_MS 50     /* the least time that is left to use the answers of others */
#define RESERVE_SHARE 10  /* and the least part of the time that was left at the start */

/* ---- sending ---- */

/* Until when the answer is of use: before the question's own time is over. */
static int64_t ask_until(const struct fleet_server *s, const struct source_limits *lim, int64_t now_ms)
{
	int64_t until = s->timeout_ms ? now_ms + s->timeout_ms : INT64_MAX;
	if (lim->deadline_mono_ns) {
		int64_t deadline = lim->deadline_mono_ns / 1000000;
		until = MIN(until, deadline - MAX((deadline - now_ms) / RESERVE_SHARE, RESERVE_MS));
	}
	return until == INT64_MAX ? 0 : until;
}


/* Sends it, or holds it. */
static void ask_go(struct fleet_peer_view *v, struct fleet_ask *a) REQUIRES(v->lock)
{
	if (v->token) {
		server_ask_send(v, a);
	} else if (v->opener == a || (!v->opener && !v->lost)) { /* an opener is sent again without the dictionary */
		v->opener = a;
		server_ask_send(v, a);
	} else {
		a->state = ASK_HELD;
		vec_push(&v->held, a);
		server_view_wake(v);
	}
}

struct fleet_ask *server_ask_start(struct fleet_peer_view *v, const struct fleet_call *call, const struct source_limits *lim)
{
	static const struct source_limits none;
	struct fleet_ask *a = NEW(struct fleet_ask);
	a->view = server_view_ref(v);
	a->call = call;
	a->lim = lim ? lim : &none;
	a->started_ms = clock_mono_ms();
	a->until_ms = ask_until(v->server, a->lim, a->started_ms);
	a->own_time = call->op == FLEET_OPEN || (v->server->timeout_ms && a->until_ms == a->started_ms + v->server->timeout_ms); /* a probe has its own time, too */
	mutex_lock(&v->lock);
	if (a->until_ms && a->until_ms <= a->started_ms) {
		a->state = ASK_OVER;
		err_set(&a->err, ERR_TIMEOUT, "was not asked: no time was left");
	} else {
		ask_go(v, a);
	}
	mutex_unlock(&v->lock);
	return a;
}

/* ---- reading the answer ---- */

/* The answer that came, decoded outside of the lock. */
struct ask_reading {
	struct fleet_answer answer;
	struct fleet_result result;
	struct arena strings;
	bool decoded;
	struct err err;                  /* code 0: result is set */
};

static void ask_decode(struct fleet_ask *a, struct ask_reading *r)
{
	struct fleet_server *s = a->view->server;
	const struct fleet_within within = { a->lim->max_bytes, a->max_samples, a->lim };
	r->decoded = !server_answer_read(&a->exchange->post, s, &a->sent.call, &within, &r->strings, &r->answer, &r->result, &r->err);
	if (r->decoded && !r->answer.view_lost)
		IGNORE(server_answer_account(&r->answer, s, a->lim, a->max_samples, &r->err)); /* the error is in r */
}

/* Of an answer that opened the view. */
static void ask_take_view(struct fleet_peer_view *v, struct fleet_ask *a, const struct ask_reading *r) REQUIRES(v->lock)
{
	if (v->opener == a)
		v->opener = NULL;
	if (!r->answer.opened || v->token)
		return;
	v->token = r->answer.view;
	if (!v->labels)
		v->labels = labels_dup(r->answer.labels);
	server_note_labels(v->server, r->answer.labels);
}

/* Keeps the strings of the result as long as the view, and a select for the case that the view is lost. */
static void ask_take_result(struct fleet_peer_view *v, struct fleet_ask *a, struct ask_reading *r) REQUIRES(v->lock)
{
	if (a->call->op == FLEET_SELECT) {
		vec_push(&v->selects, ((struct server_select){ a->exchange->post.body }));
		a->exchange->post.body = (struct buf){ 0 };
		if (server_refs_add(&v->refs_of, r->result.series, r->result.n, &r->err))
			return;
	}
	server_call_widen(&a->sent, &r->result, a->call->n_refs);
	a->result = r->result;
	r->result = (struct fleet_result){ 0 };
}

/* Rows do not fit the mirror, which may be the mirror's fault, or have no room in it: then the whole dictionary is wanted, once. A mirror that was at
 * fault is dropped already; others stay, as other asks build on them. */
static bool ask_again_without_dictionary(struct fleet_ask *a, const struct ask_reading *r)
{
	if (r->decoded || !a->with_dictionary || a->exchange->post.err.code || a->exchange->post.status != 200)
		return false;
	a->exchange = NULL;
	metric_add(&server_metrics[SERVER_FORGOTTEN], 1, a->view->server->name);
	a->without_dictionary = true;
	return true;
}

/* The view of the answer is not there any more: the ask is sent again, or held until the view was opened again. False, and *e: that would be the
 * second time. */
static bool ask_lose_view(struct fleet_peer_view *v, struct fleet_ask *a, struct err *e) REQUIRES(v->lock)
{
	if (a->lost || v->opener == a) {
		err_set(e, ERR_UNAVAILABLE, "lost its state twice: is it restarted again and again, or asked by more than it has room for?");
		return false;
	}
	a->lost = true;
	if (a->generation == v->generation && v->token) {
		v->token = 0;
		v->lost = true;
		v->generation++; /* a select of the lost view that is read from now on has numbers of that view */
		metric_add(&server_metrics[SERVER_REOPENED], 1, v->server->name);
	}
	a->exchange = NULL;
	ask_go(v, a);
	return true;
}

/* The opener brought no answer: what waits for it would not get one, either. */
static void ask_fail_held(struct fleet_peer_view *v, struct fleet_ask *a, const struct err *why) REQUIRES(v->lock)
{
	if (v->opener != a)
		return;
	while (v->held.n)
		server_ask_end(v, v->held.v[v->held.n - 1], why);
}

/* Whether the answer is about a view that the server has lost. The series numbers in the answer to a select that was sent before the loss are invalid, too. */
static bool ask_is_lost(const struct fleet_ask *a, const struct ask_reading *r)
{
	return r->decoded && (r->answer.view_lost || (a->call->op == FLEET_SELECT && a->generation != a->view->generation));
}

static void ask_conclude(struct fleet_peer_view *v, struct fleet_ask *a, struct ask_reading *r) REQUIRES(v->lock)
{
	if (r->decoded)
		ask_take_view(v, a, r);
	else if (!source_limits_check(a->lim, &(struct err){ 0 })) /* else its question is over, not that of others */
		ask_fail_held(v, a, &r->err);
	if (!r->err.code)
		ask_take_result(v, a, r);
	if (r->strings.used) {
		v->strings_used += MIN(r->strings.used, SERVER_MAX_STRINGS - 1 - v->strings_used);
		vec_push(&v->strings, r->strings);
		r->strings = (struct arena){ 0 };
	}
	a->exchange = NULL;
	server_ask_end(v, a, &r->err);
}

/* Reads the answer of an exchange that is done; releases the lock meanwhile. The ask is over then, or was sent or held again. */
static void ask_read(struct fleet_peer_view *v, struct fleet_ask *a) REQUIRES(v->lock)
{
	struct server_exchange *x = a->exchange;
	struct ask_reading r = { 0 };
	a->state = ASK_READING;
	arena_init(&r.strings, SERVER_MAX_STRINGS - v->strings_used);
	mutex_unlock(&v->lock);
	ask_decode(a, &r);
	mutex_lock(&v->lock);
	a->came |= r.decoded;
	if (ask_again_without_dictionary(a, &r))
		ask_go(v, a);
	else if (!ask_is_lost(a, &r) || !ask_lose_view(v, a, &r.err))
		ask_conclude(v, a, &r);
	mutex_unlock(&v->lock); /* the ask may be gone from here on */
	fleet_result_release(&r.result);
	arena_free(&r.strings);
	server_exchange_unref(x);
	mutex_lock(&v->lock);
}

/* ---- waiting ---- */


/* The caller does not wait any longer. */
static void ask_abandon(struct fleet_peer_view *v, struct fleet_ask *a, const struct err *why) REQUIRES(v->lock)
{
	static const struct source_limits none;
	for (uint64_t seen = server_view_news(v); a->state == ASK_READING; seen = server_view_news(v)) /* by another thread: it works, and refers to the call */
		server_view_wait(v, seen, INT64_MAX, &none);
	if (a->state == ASK_OVER)
		return;
	struct server_exchange *x = a->exchange;
	a->exchange = NULL;
	server_ask_end(v, a, why);
	mutex_unlock(&v->lock);
	if (x)
		fleet_loop_cancel(v->server->loop, &x->post);
	server_exchange_unref(x);
	mutex_lock(&v->lock);
}

static void ask_announce_wait(struct fleet_peer_view *v, struct fleet_ask *a) REQUIRES(v->lock)
{
	if (!a->lim->waits)
		return;
	mutex_unlock(&v->lock);
	a->lim->waits(a->lim->waits_arg);
	mutex_lock(&v->lock);
}

/* One step: the view is opened again, an answer is read, or the thread waits. */
static void ask_step(struct fleet_peer_view *v, struct fleet_ask *a, bool *announced) REQUIRES(v->lock)
{
	struct fleet_ask *x = a->state == ASK_HELD ? v->opener : a; /* whose answer it waits for */
	struct err e = { 0 };
	uint64_t seen = server_view_news(v);
	if (!x) {
		v->opener = a;
		if (server_view_reopen(v, a, &e))
			server_ask_end(v, a, &e);
	} else if (x->state == ASK_SENT && atomic_load(&x->exchange->done)) {
		ask_read(v, x);
	} else if (!*announced) {
		*announced = true;
		ask_announce_wait(v, a);
	} else if (server_ask_wait(v, a, seen, &e)) {
		ask_abandon(v, a, &e);
	}
}

static void ask_note(const struct fleet_ask *a)
{
	struct fleet_server *s = a->view->server;
	int64_t took_ms = clock_mono_ms() - a->started_ms;
	if (a->came)
		server_note_answer(s, took_ms);
	else if (a->asked && a->err.code == ERR_TIMEOUT && !a->own_time)
		server_note_hurry(s, took_ms);
	else if (a->asked && a->err.code && a->err.code != ERR_CANCELED && a->err.code != ERR_BUSY && a->err.code != ERR_LIMIT)
		server_note_failure(s, took_ms, &a->err);
}

/* A view that is to be opened again is work, too: finish waits for that. */
static bool ask_has_work(const struct fleet_peer_view *v, const struct fleet_ask *a) REQUIRES(v->lock)
{
	const struct fleet_ask *x = a->state == ASK_HELD ? v->opener : a;
	return a->state == ASK_OVER || !x || (x->state == ASK_SENT && atomic_load(&x->exchange->done)) || server_is_stopped(a->lim) ||
	       (a->until_ms && clock_mono_ms() >= a->until_ms);
}

bool server_ask_has_work(struct fleet_ask *a, int64_t until_ms)
{
	struct fleet_peer_view *v = a->view;
	mutex_lock(&v->lock);
	uint64_t seen = server_view_news(v);
	bool has = ask_has_work(v, a);
	while (!has && clock_mono_ms() < until_ms) {
		server_view_wait(v, seen, until_ms, a->lim);
		seen = server_view_news(v);
		has = ask_has_work(v, a);
	}
	mutex_unlock(&v->lock);
	return has;
}

static void ask_free(struct fleet_ask *a)
{
	fleet_result_release(&a->result);
	server_call_release(&a->sent);
	server_view_unref(a->view);
	free(a);
}

void server_ask_cancel(struct fleet_ask *a)
{
	struct err why;
	err_set(&why, ERR_CANCELED, "was not waited for");
	mutex_lock(&a->view->lock);
	ask_abandon(a->view, a, &why);
	mutex_unlock(&a->view->lock);
	ask_note(a);
	ask_free(a);
}

int server_ask_finish(struct fleet_ask *a, struct fleet_result *ret, struct err *e)
{
	struct fleet_peer_view *v = a->view;
	struct flag_watch watch;
	bool announced = false;
	flag_watch(&watch, a->lim->canceled, &v->wake, &v->changed);
	mutex_lock(&v->lock);
	while (a->state != ASK_OVER)
		ask_step(v, a, &announced);
	mutex_unlock(&v->lock);
	flag_unwatch(&watch);
	ask_note(a);
	int rc = a->err.code ? err_set(e, a->err.code, "%s", a->err.msg) : 0;
	if (!rc) {
		*ret = a->result;
		a->result = (struct fleet_result){ 0 };
	}
	ask_free(a);
	return rc;
}
