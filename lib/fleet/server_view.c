/* SPDX-License-Identifier: Apache-2.0 */
/* A view of another server: its token, the selects that were made on it, and the strings of their results. When the server has lost it (it was restarted,
 * or had no room), another one is opened by making the same selects again. The new view is the state of now; series that the question has not selected
 * before stay unknown to it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "fleet/server_internal.h"

struct fleet_peer_view *server_view_open(struct fleet_peer *p)
{
	struct fleet_peer_view *v = NEW(struct fleet_peer_view);
	v->server = server_ref((struct fleet_server *)(void *)((char *)p - offsetof(struct fleet_server, peer)));
	v->refs = 1;
	mutex_init(&v->lock, RANK_FLEET_VIEW, "fleet_peer_view");
	mutex_init(&v->wake, LOCK_LEAF, "news of a fleet_peer_view");
	pthread_cond_init(&v->changed, NULL);
	return v;
}

struct labels server_view_labels(struct fleet_peer_view *v)
{
	mutex_lock(&v->lock);
	struct labels l = v->labels ? *v->labels : (struct labels){ 0 }; /* set once */
	mutex_unlock(&v->lock);
	return l;
}

/* Tells the server that the view is not needed any more. Nobody waits for the answer. Servers forget views by themselves, so a server that is away is not
 * told, and none is while many requests are under way. */
static void view_send_close(struct fleet_server *s, uint64_t token)
{
	static const struct source_limits none;
	const struct fleet_call call = { .op = FLEET_CLOSE };
	const int64_t until_ms = clock_mono_ms() + SERVER_CLOSE_MS;
	struct fleet_question q;
	struct buf body = { 0 };
	server_question_init(&q, s, &call, &none, until_ms);
	q.view = token;
	fleet_question_encode(&body, &q);
	server_exchange_unref(server_exchange_new(s, NULL, &body, until_ms));
}

void server_view_close(struct fleet_peer_view *v)
{
	mutex_lock(&v->lock);
	uint64_t token = v->token;
	mutex_unlock(&v->lock);
	if (token && server_is_up(v->server) && !fleet_loop_is_full(v->server->loop) && atomic_load(&v->server->posts) < SERVER_MOST_POSTS / 2)
		view_send_close(v->server, token);
	server_view_unref(v);
}

/* ---- news ---- */

uint64_t server_view_news(struct fleet_peer_view *v)
{
	mutex_lock(&v->wake);
	uint64_t news = v->news;
	mutex_unlock(&v->wake);
	return news;
}

/* ---- opening it again ---- */

/* A select that is made again. */
struct view_again {
	struct fleet_question stored, sent;
	struct fleet_answer answer;
	struct fleet_result result;
	struct arena strings;
};

static void again_release(struct view_again *g)
{
	fleet_result_release(&g->result);
	arena_free(&g->strings);
	fleet_question_release(&g->stored);
}

static int again_read(struct view_again *g, const struct server_exchange *x, struct fleet_ask *a, struct err *e)
{
	struct fleet_server *s = a->view->server;
	const struct fleet_within within = { a->lim->max_bytes, g->sent.max_samples, a->lim };
	int rc = server_answer_read(&x->post, s, &g->sent.call, &within, &g->strings, &g->answer, &g->result, e);
	if (!rc && g->answer.view_lost)
		rc = err_set(e, ERR_UNAVAILABLE, "lost its state twice: is it restarted again and again, or asked by more than it has room for?");
	if (!rc)
		rc = server_answer_account(&g->answer, s, a->lim, g->sent.max_samples, e);
	if (!rc && !g->answer.view)
		rc = err_set(e, ERR_CORRUPT, "opened no view for a select");
	return rc;
}

/* Makes a select with that token (0: a view is opened), and returns the token of the answer. */
static int view_select_again(struct fleet_peer_view *v, struct view question, uint64_t *token, struct fleet_ask *a, struct err *e) REQUIRES(v->lock)
{
	struct view_again g = { 0 };
	struct buf body = { .max = FLEET_QUESTION_MAX };
	arena_init(&g.strings, SERVER_MAX_STRINGS);
	mutex_unlock(&v->lock);
	int rc = fleet_question_decode(&g.stored, question, NULL, e);
	mutex_lock(&v->lock);
	if (!rc) {
		server_question_init(&g.sent, v->server, &g.stored.call, a->lim, a->until_ms);
		g.sent.view = *token;
		fleet_question_encode(&body, &g.sent);
		a->asked = true;
		struct server_exchange *x = server_exchange_new(v->server, v, &body, a->until_ms);
		for (uint64_t seen = server_view_news(v); !rc && !atomic_load(&x->done); seen = server_view_news(v))
			rc = server_ask_wait(v, a, seen, e);
		mutex_unlock(&v->lock);
		if (rc)
			fleet_loop_cancel(v->server->loop, &x->post);
		else
			rc = again_read(&g, x, a, e);
		server_exchange_unref(x);
		mutex_lock(&v->lock);
	}
	if (!rc) {
		*token = g.answer.view;
		server_refs_found(&v->refs_of, g.result.series, g.result.n);
	}
	again_release(&g);
	return rc;
}

int server_view_reopen(struct fleet_peer_view *v, struct fleet_ask *a, struct err *e)
{
	uint64_t token = 0;
	int rc = 0;
	server_refs_lost(&v->refs_of);
	for (size_t i = 0; i < v->selects.n && !rc; i++)
		rc = view_select_again(v, buf_view(&v->selects.v[i].question), &token, a, e);
	if (rc)
		return rc;
	v->token = token; /* 0, as there was no select: the first held ask opens it */
	v->lost = false;
	v->opener = NULL;
	server_view_go_on(v);
	return 0;
}
