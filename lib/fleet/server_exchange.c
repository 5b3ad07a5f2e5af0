/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are under way, and the views that they keep. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/server_internal.h"

/* ---- views ---- */

struct fleet_peer_view *server_view_ref(struct fleet_peer_view *v)
{
	__atomic_add_fetch(&v->refs, 1, __ATOMIC_RELAXED);
	return v;
}

void server_view_unref(struct fleet_peer_view *v)
{
	if (__atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < v->selects.n; i++)
		buf_free(&v->selects.v[i].question);
	for (size_t i = 0; i < v->strings.n; i++)
		arena_free(&v->strings.v[i]);
	vec_free(&v->selects);
	vec_free(&v->strings);
	vec_free(&v->held);
	server_refs_release(&v->refs_of);
	free(v->labels);
	pthread_cond_destroy(&v->changed);
	mutex_destroy(&v->wake);
	mutex_destroy(&v->lock);
	server_unref(v->server);
	free(v);
}

/* ---- exchanges ---- */

static void exchange_on_done(struct fleet_post *p)
{
	struct server_exchange *x = (struct server_exchange *)(void *)((char *)p - offsetof(struct server_exchange, post));
	struct fleet_peer_view *v = x->view;
	if (!v)
		return;
	atomic_store(&x->done, true);
	server_view_wake(v);
}

void server_exchange_unref(struct server_exchange *x)
{
	if (!x || __atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL))
		return;
	buf_free(&x->post.body);
	buf_free(&x->post.answer);
	if (x->view)
		server_view_unref(x->view);
	server_unref(x->server);
	free(x);
}

static void exchange_release(struct fleet_post *p)
{
	server_exchange_unref((struct server_exchange *)(void *)((char *)p - offsetof(struct server_exchange, post)));
}

struct server_exchange *server_exchange_new(struct fleet_server *s, struct fleet_peer_view *v, struct buf *body, int64_t until_ms)
{
	struct server_exchange *x = NEW(struct server_exchange);
	x->refs = 2;
	x->server = server_ref(s);
	x->view = v ? server_view_ref(v) : NULL;
	x->post = (struct fleet_post){ .client = s->client, .url = s->ask_url, .body = *body, .until_ms = until_ms, .max_bytes = s->max_answer_bytes,
				       .done = exchange_on_done, .release = exchange_release };
	*body = (struct buf){ 0 };
	metric_add(&server_metrics[SERVER_SENT], (double)x->post.body.len, s->name);
	fleet_loop_post(s->loop, &x->post);
	return x;
}

void server_question_init(struct fleet_question *q, const struct fleet_server *s, const struct fleet_call *call, const struct source_limits *lim,
			  int64_t until_ms)
{
	uint64_t read = lim->samples_read ? atomic_load(lim->samples_read) : 0;
	*q = (struct fleet_question){ .call = *call, .max_bytes = lim->max_bytes, .max_answer = s->max_answer_bytes, .strict = !lim->damage };
	if (until_ms)
		q->left_ms = MAX(until_ms - clock_mono_ms(), 1);
	if (lim->max_samples)
		q->max_samples = lim->max_samples > read ? lim->max_samples - read : 1;
}
