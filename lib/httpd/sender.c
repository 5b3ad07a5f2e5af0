/* SPDX-License-Identifier: Apache-2.0 */
/* The name of who sent a request. A login's name says it better than an address, which other clients behind the same proxy have, too. */
#include <arpa/inet.h>
#include <gnutls/crypto.h>

#include "httpd/authorization.h"
#include "httpd/internal.h"

/* The login has been checked: it is one of the configuration under which the request was admitted. */
static const char *sender_token(const struct web_config *c, struct view secret)
{
	unsigned char sha256[WEB_SHA256];
	web_config_hash(secret, sha256);
	for (size_t i = 0; i < c->n_tokens; i++)
		if (gnutls_memcmp(c->tokens[i].sha256, sha256, WEB_SHA256) == 0)
			return c->tokens[i].name;
	return NULL;
}

static const char *sender_login(struct httpd_request *rq)
{
	struct authorization a;
	const char *name, *text = NULL;
	if (!rq->web || !(rq->web->n_users || rq->web->n_tokens))
		return NULL;
	authorization_parse(httpd_header(rq, MHD_HTTP_HEADER_AUTHORIZATION), &a);
	if (a.kind == AUTHORIZATION_BASIC)
		text = arena_printf(&rq->arena, "user %.*s", (int)a.user.len, a.user.ptr);
	else if (a.kind == AUTHORIZATION_BEARER && (name = sender_token(rq->web, a.secret)))
		text = arena_printf(&rq->arena, "token %s", name);
	authorization_clear(&a);
	return text;
}

struct view httpd_sender(struct httpd_request *rq)
{
	char address[INET6_ADDRSTRLEN] = "?";
	const struct in6_addr *from = slot_from(rq->slot);
	const char *text = sender_login(rq);
	if (!text) {
		bool v4 = IN6_IS_ADDR_V4MAPPED(from);
		inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? (const void *)&from->s6_addr[12] : from, address, sizeof address);
		text = arena_printf(&rq->arena, "address %s", address);
	}
	return text ? view_of(text) : (struct view){ NULL, 0 };
}
