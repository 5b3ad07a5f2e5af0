/* SPDX-License-Identifier: Apache-2.0 */
/* TLS of one web configuration: certificate, ciphers, and the CA of clients' certificates. It never changes. GnuTLS's sessions point
 * into it: the owner of a session keeps the web_config until the session is freed. */
#ifndef PYRRHA_HTTPD_WEB_TLS_H
#define PYRRHA_HTTPD_WEB_TLS_H

#include <gnutls/gnutls.h>

#include "base/buf.h"
#include "config/config.h"
#include "httpd/web_config.h"

/* In the order of the words TLS10|TLS11|TLS12|TLS13. */
enum web_tls_version { WEB_TLS_10, WEB_TLS_11, WEB_TLS_12, WEB_TLS_13 };

struct web_tls_options {
	struct view cert, key;        /* PEM; the certificate first, then those above it */
	struct view ca;               /* PEM; {NULL, 0}: of the system, if clients' certificates are verified at all */
	enum web_client_auth client_auth;
	int min_version, max_version; /* enum web_tls_version */
	struct config_strings cipher_suites, curves; /* by Go's names; empty: GnuTLS's defaults */
	bool server_preference;       /* of ours, the first that the client has; else the other way round */
};

/* Which part of the options an error is about. */
enum web_tls_part { WEB_TLS_CERT, WEB_TLS_KEY, WEB_TLS_CA, WEB_TLS_VERSIONS, WEB_TLS_CIPHERS, WEB_TLS_CURVES };

struct web_tls;
int web_tls_new(struct web_tls **ret, const struct web_tls_options *o, enum web_tls_part *ret_part, struct err *e) MUST_USE;
void web_tls_free(struct web_tls *t);

/* Before the handshake. */
int web_tls_begin(const struct web_tls *t, gnutls_session_t session, struct err *e) MUST_USE;

/* web_ciphers.c: GnuTLS's priorities for them; key: of the certificate. Checks the names. */
int web_ciphers_priorities(const struct web_tls_options *o, gnutls_pk_algorithm_t key, struct buf *ret, enum web_tls_part *ret_part,
			   struct err *e) MUST_USE;

/* client_cert.c: checks a client's certificate. */
enum web_client_cert {
	WEB_CERT_NOT_WANTED, /* or not given, where it need not be */
	WEB_CERT_GOOD,       /* as the configuration wants it */
	WEB_CERT_MISSING,
	WEB_CERT_UNTRUSTED,  /* not of the authority, out of its time, or not for clients */
	WEB_CERT_OTHER_NAME  /* none of client_allowed_sans */
};
enum web_client_cert web_tls_judge(const struct web_config *w, gnutls_session_t session);
/* The authorities, for web_tls_judge. NULL: none. */
struct gnutls_x509_trust_list_st *web_tls_trust(const struct web_tls *t);

#endif
