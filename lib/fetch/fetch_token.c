/* SPDX-License-Identifier: Apache-2.0 */
/* The token of a client: a thread keeps it fresh (fetch_oauth2.c), exchanges read it, and wait for it where they may. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "fetch/fetch_internal.h"

struct fetch_token *fetch_token_new(const struct http_oauth2 *c, void *(*keep_fresh)(void *token))
{
	struct fetch_token *t = NEW(struct fetch_token);
	t->config = c;
	mutex_init(&t->lock, LOCK_LEAF, "oauth2");
	pthread_cond_init(&t->changed, NULL);
	t->thread_runs = thread_start(&t->thread, "oauth2", keep_fresh, t, &t->last) == 0;
	return t;
}

void fetch_token_free(struct fetch_token *t)
{
	if (!t)
		return;
	mutex_lock(&t->lock);
	atomic_store(&t->stop, true);
	pthread_cond_broadcast(&t->changed);
	mutex_unlock(&t->lock);
	if (t->thread_runs)
		pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->changed);
	mutex_destroy(&t->lock);
	free(t->text);
	free(t);
}

void fetch_token_rest(struct fetch_token *t, int64_t until_ms)
{
	mutex_lock(&t->lock);
	while (!atomic_load(&t->stop) && clock_mono_ms() < until_ms)
		mutex_wait_ms(&t->lock, &t->changed, until_ms);
	mutex_unlock(&t->lock);
}

void fetch_token_put(struct fetch_token *t, char *text, int64_t good_until_ms)
{
	mutex_lock(&t->lock);
	t->last = (struct err){ 0 };
	free(t->text);
	t->text = text;
	t->good_until_ms = good_until_ms;
	pthread_cond_broadcast(&t->changed);
	mutex_unlock(&t->lock);
}

void fetch_token_fail(struct fetch_token *t, const struct err *why)
{
	mutex_lock(&t->lock);
	t->last = *why;
	pthread_cond_broadcast(&t->changed);
	mutex_unlock(&t->lock);
}

static bool is_good(const struct fetch_token *t) REQUIRES(t->lock)
{
	return t->text && clock_mono_ms() < t->good_until_ms;
}

int fetch_token_get(struct fetch_token *t, bool wait, struct buf *out, struct err *e)
{
	int rc = 0;
	int64_t until = clock_mono_ms() + FETCH_TOKEN_MS;
	mutex_lock(&t->lock);
	while (wait && !is_good(t) && !t->last.code && clock_mono_ms() < until)
		mutex_wait_ms(&t->lock, &t->changed, until);
	if (is_good(t))
		buf_puts(out, t->text);
	else if (t->last.code)
		rc = err_set(e, t->last.code, "%s", t->last.msg);
	else
		rc = err_set(e, ERR_UNAVAILABLE, "the token URL has not answered yet");
	mutex_unlock(&t->lock);
	return rc;
}
