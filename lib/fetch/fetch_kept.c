/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of blocking exchanges that later ones use again. */
#include "fetch/fetch_internal.h"

/* A handle of curl has its connections for itself, so those that are to be used again are kept with their handles. */
void fetch_client_keep(struct fetch_client *c, size_t n, int64_t idle_ms)
{
	c->max_kept = MIN(n, (size_t)FETCH_KEPT_MAX);
	c->idle_ms = idle_ms;
}

CURL *fetch_client_take(struct fetch_client *c, const struct fetch_request *q, bool blocking)
{
	CURL *h = NULL;
	if (blocking && !q->upload && !q->own_connection) {
		mutex_lock(&c->kept_lock);
		if (c->n_kept)
			h = c->kept[--c->n_kept];
		mutex_unlock(&c->kept_lock);
	}
	return h ? h : curl_easy_init();
}

void fetch_client_leave(struct fetch_client *c, CURL *h)
{
	curl_easy_reset(h); /* all but connections, names and TLS sessions */
	mutex_lock(&c->kept_lock);
	if (c->n_kept < c->max_kept)
		c->kept[c->n_kept++] = TAKE_PTR(h);
	mutex_unlock(&c->kept_lock);
	curl_easy_cleanup(h);
}

void fetch_client_drop_kept(struct fetch_client *c)
{
	while (c->n_kept)
		curl_easy_cleanup(c->kept[--c->n_kept]);
	mutex_destroy(&c->kept_lock);
}
