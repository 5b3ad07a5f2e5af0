/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a configuration: a plain one, and the thread that asks for its tokens, if it has such. */
#include "fetch/fetch_internal.h"

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
