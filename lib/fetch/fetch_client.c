/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a configuration: a plain one, and the thread that asks for its tokens, if it has such. */
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

struct fetch_client *fetch_client_new(const struct http_config *c, const char *user_agent)
{
	struct fetch_client *n = fetch_client_plain(c, user_agent);
	if (n->config->oauth2)
		n->token = fetch_token_new(n->config->oauth2, fetch_oauth2_keep_fresh);
	return n;
}

void fetch_client_owner(struct fetch_client *c, void (*release)(void *owner), void *owner)
{
	c->release = release;
	c->owner = owner;
}
