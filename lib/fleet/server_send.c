/* SPDX-License-Identifier: Apache-2.0 */
/* An ask on its way: sent, waited for, over. */
#include "base/clock.h"
#include "base/units.h"
#include "fleet/dictionary.h"
#include "fleet/server_internal.h"

#define STEP_MS 50        /* how often a waiting thread looks whether its question was stopped by somebody who raises no flag */
#define GRACE_MS 20       /* after its time the loop's error is waited for so long: it says how far the request came */

/* The ask is over, with that error (code 0: with its result). */
void server_ask_end(struct fleet_peer_view *v, struct fleet_ask *a, const struct err *why)
{
	a->state = ASK_OVER;
	a->err = *why;
	for (size_t i = 0; i < v->held.n; i++)
		if (v->held.v[i] == a)
			v->held.v[i--] = v->held.v[--v->held.n];
	if (v->opener == a)
		v->opener = NULL;
	server_view_go_on(v);
}

/* Rows of series that the server does not have any more. */
static bool send_is_empty(const struct fleet_call *c)
{
	return c->graph && !c->graph->n_refs;
}

static bool send_fits_matchers(const struct matcher *m, size_t n, size_t *left)
{
	for (size_t i = 0; i < n; i++) {
		size_t bytes = m[i].name.len + m[i].value.len;
		if (m[i].name.len > FLEET_TEXT_MAX || m[i].value.len > FLEET_TEXT_MAX || bytes > *left)
			return false;
		*left -= bytes;
	}
	return n <= FLEET_MATCHERS_MAX;
}

/* Whether the server would read the question. Unions split what is about too many series; matchers cannot be split. */
static int send_check(const struct fleet_call *c, const struct buf *body, struct err *e)
{
	size_t left = FLEET_TEXTS_MAX;
	if (!send_fits_matchers(c->m, c->n_m, &left) || (c->filter && !send_fits_matchers(c->filter->m, c->filter->n, &left)))
		return err_set(e, ERR_LIMIT, "the query has more than %u matchers, or longer ones than servers are asked with: ask with fewer", FLEET_MATCHERS_MAX);
	if (body->overflow)
		return err_set(e, ERR_LIMIT, "the question takes more than the %zu MiB that servers are asked with: ask for fewer series or steps",
			       FLEET_QUESTION_MAX >> 20);
	return 0;
}

void server_ask_send(struct fleet_peer_view *v, struct fleet_ask *a)
{
	struct fleet_question q;
	struct buf body = { .max = FLEET_QUESTION_MAX };
	server_call_release(&a->sent);
	server_call_init(&a->sent, a->call, &v->refs_of);
	if (send_is_empty(&a->sent.call)) {
		a->result = (struct fleet_result){ .op = FLEET_ROWS, .fits = true };
		server_ask_end(v, a, &(struct err){ 0 });
		return;
	}
	server_question_init(&q, v->server, &a->sent.call, a->lim, a->until_ms);
	q.view = v->token;
	a->with_dictionary = false;
	symbols_marks_start(&q.has);
	if (a->call->op == FLEET_MERGE && !a->without_dictionary)
		a->with_dictionary = fleet_dictionary_in_marks(v->server->dictionary, &q.session, &q.has);
	a->generation = v->generation;
	a->max_samples = q.max_samples;
	fleet_question_encode(&body, &q);
	struct err e;
	if (send_check(a->call, &body, &e)) {
		buf_free(&body);
		server_ask_end(v, a, &e);
		return;
	}
	a->state = ASK_SENT;
	a->asked = true;
	a->exchange = server_exchange_new(v->server, v, &body, a->until_ms);
	server_view_wake(v); /* who waits for the ask waits for another exchange now */
}

bool server_is_stopped(const struct source_limits *lim)
{
	return (lim->canceled && atomic_load(lim->canceled)) || (lim->stopped && atomic_load(lim->stopped));
}

void server_view_wait(struct fleet_peer_view *v, uint64_t seen, int64_t until_ms, const struct source_limits *lim)
{
	mutex_unlock(&v->lock);
	mutex_lock(&v->wake);
	if (v->news == seen && !server_is_stopped(lim))
		mutex_wait_ms(&v->wake, &v->changed, MIN(clock_mono_ms() + STEP_MS, until_ms));
	mutex_unlock(&v->wake);
	mutex_lock(&v->lock);
}

int server_ask_wait(struct fleet_peer_view *v, struct fleet_ask *a, uint64_t seen, struct err *e)
{
	int64_t until = a->until_ms ? a->until_ms + GRACE_MS : INT64_MAX;
	char took[DURATION_LEN];
	server_view_wait(v, seen, until, a->lim);
	if (server_is_stopped(a->lim))
		return source_limits_check(a->lim, e);
	if (clock_mono_ms() < until)
		return 0;
	return err_set(e, ERR_TIMEOUT, "did not answer within %s", units_format_duration(a->until_ms - a->started_ms, took));
}

static struct fleet_ask *send_next_held(struct fleet_peer_view *v) REQUIRES(v->lock)
{
	struct fleet_ask *a = v->held.v[0];
	memmove(v->held.v, v->held.v + 1, --v->held.n * sizeof *v->held.v);
	return a;
}

void server_view_go_on(struct fleet_peer_view *v)
{
	while (v->token && v->held.n)
		server_ask_send(v, send_next_held(v));
	if (!v->token && !v->lost && !v->opener && v->held.n) {
		v->opener = send_next_held(v);
		server_ask_send(v, v->opener);
	}
	server_view_wake(v);
}
