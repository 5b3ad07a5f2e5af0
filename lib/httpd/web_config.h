/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --web.config.file: TLS, headers, a limit of the rate, and who may ask what. As Prometheus's web configuration
 * (exporter-toolkit 0.17), with two sections more; docs/web-configuration.md describes it.
 *
 *	tls_server_config:  {cert_file: server.crt, key_file: server.key, client_auth_type: RequireAndVerifyClientCert, ...}
 *	http_server_config: {headers: {X-Frame-Options: deny}}
 *	rate_limit:         {interval: 1s, burst: 20}
 *	basic_auth_users:   {alice: $2y$10$...}
 *	user_rights:        {alice: [read]}                                 ours: who is not named has all
 *	tokens:             [{name: prometheus, sha256: 9f86..., rights: [read]}]   ours: Authorization: Bearer
 *
 * A configuration never changes: a reload makes a new one. Reference-counted, because requests and connections keep the one that they
 * began with. Any thread. No problem and no warning shows a key, a hash or a token. */
#ifndef PYRRHA_HTTPD_WEB_CONFIG_H
#define PYRRHA_HTTPD_WEB_CONFIG_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "httpd/httpd.h"

struct config_sources;
struct web_tls;

/* Of basic_auth_users. */
struct web_user {
	const char *name;   /* without a colon */
	const char *hash;   /* of bcrypt: 60 characters that begin with $2a$, $2b$ or $2y$ */
	unsigned rights;    /* enum httpd_right */
};

#define WEB_SHA256 32

struct web_token {
	const char *name;   /* for the log */
	unsigned char sha256[WEB_SHA256];
	unsigned rights;
};

struct web_header {
	const char *name, *value;
};

/* In the order of Go's crypto/tls. */
enum web_client_auth { WEB_NO_CLIENT_CERT, WEB_REQUEST_CLIENT_CERT, WEB_REQUIRE_ANY_CLIENT_CERT, WEB_VERIFY_CLIENT_CERT_IF_GIVEN,
		       WEB_REQUIRE_AND_VERIFY_CLIENT_CERT };

struct web_config {
	const char *path;
	struct web_tls *tls;            /* web_tls.h; NULL: plain HTTP */
	enum web_client_auth client_auth;
	bool has_client_ca;             /* otherwise the system's CAs are trusted: anybody may get a certificate of one of those */
	const char *const *client_sans; /* a client's certificate has to have one of these names; NULL: any will do */
	size_t n_client_sans;
	const struct web_header *headers;
	size_t n_headers;
	int64_t rate_interval_ns;       /* one request each, and `rate_burst` at once; 0 = no limit */
	int64_t rate_burst;
	const struct web_user *users;
	size_t n_users;
	const struct web_token *tokens;
	size_t n_tokens;

	struct arena arena;             /* private */
	atomic_uint refs;
};

struct web_config_how {
	struct config_sources *sources; /* each file that is read is noted there, also if something is wrong; may be NULL */
	/* One line each, "file:line:column: field X: ...": all problems, and warnings. May be NULL. */
	void (*problem)(void *arg, const char *text);
	void (*warn)(void *arg, const char *text);
	void *arg;
};

/* Reads the file and what it names. Returns a reference. how: may be NULL. The error is the first problem, and says how many
 * more there are. */
int web_config_load(struct web_config **ret, const char *path, const struct web_config_how *how, struct err *e) MUST_USE;
/* The same from memory; `path` decides what relative paths refer to. */
int web_config_parse(struct web_config **ret, struct view text, const char *path, const struct web_config_how *how, struct err *e)
	MUST_USE;
/* Adds what the file says to `out`, a line each, or what is wrong with it. */
int web_config_check(const char *path, struct buf *out, struct err *e) MUST_USE;
struct web_config *web_config_ref(struct web_config *w);
void web_config_unref(struct web_config *w); /* NULL is fine */

/* Whether it requires a login: users, tokens, or client certificates that are required and verified by one's own CA. TLS or headers
 * alone do not. w: may be NULL. */
bool web_config_has_login(const struct web_config *w);
/* How a token is kept. */
void web_config_hash(struct view token, unsigned char ret[WEB_SHA256]);

#endif
