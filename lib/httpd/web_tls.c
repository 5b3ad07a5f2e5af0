/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/web_tls.h"

#include <gnutls/x509.h>
#include <stdlib.h>

#include "base/alloc.h"

struct web_tls {
	gnutls_certificate_credentials_t credentials;
	gnutls_priority_t priorities;
	gnutls_x509_trust_list_t trust;
	enum web_client_auth client_auth;
};

static gnutls_datum_t datum(struct view v)
{
	return (gnutls_datum_t){ (unsigned char *)(uintptr_t)v.ptr, (unsigned)MIN(v.len, (size_t)UINT32_MAX) };
}

/* GnuTLS's errors about malformed PEM are about base64 or ASN.1. */
static int bad_pem(struct err *e, const char *what, int rc)
{
	return err_set(e, ERR_BAD_DATA, "%s cannot be read: %s", what, gnutls_strerror(rc));
}

static int check_key(struct view pem, gnutls_pk_algorithm_t *ret, struct err *e)
{
	gnutls_x509_privkey_t key;
	if (memmem(pem.ptr, pem.len, "ENCRYPTED", 9))
		return err_set(e, ERR_BAD_DATA, "the key is encrypted; one without a passphrase is wanted");
	if (gnutls_x509_privkey_init(&key))
		return err_set(e, ERR_INTERNAL, "no memory for a key");
	gnutls_datum_t d = datum(pem);
	int rc = gnutls_x509_privkey_import2(key, &d, GNUTLS_X509_FMT_PEM, NULL, 0);
	*ret = rc ? GNUTLS_PK_UNKNOWN : (gnutls_pk_algorithm_t)gnutls_x509_privkey_get_pk_algorithm(key);
	gnutls_x509_privkey_deinit(key);
	return rc ? bad_pem(e, "the key", rc) : 0;
}

static int check_cert(struct view pem, struct err *e)
{
	gnutls_x509_crt_t *list = NULL;
	unsigned n = 0;
	gnutls_datum_t d = datum(pem);
	int rc = gnutls_x509_crt_list_import2(&list, &n, &d, GNUTLS_X509_FMT_PEM, 0);
	for (unsigned i = 0; rc >= 0 && i < n; i++)
		gnutls_x509_crt_deinit(list[i]);
	if (rc >= 0)
		gnutls_free(list);
	return rc < 0 ? bad_pem(e, "the certificate", rc) : 0;
}

static int set_pair(struct web_tls *t, const struct web_tls_options *o, enum web_tls_part *part, gnutls_pk_algorithm_t *ret_key, struct err *e)
{
	*part = WEB_TLS_CERT;
	int rc = check_cert(o->cert, e);
	if (rc)
		return rc;
	*part = WEB_TLS_KEY;
	rc = check_key(o->key, ret_key, e);
	if (rc)
		return rc;
	gnutls_datum_t cert = datum(o->cert), key = datum(o->key);
	rc = gnutls_certificate_set_x509_key_mem2(t->credentials, &cert, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
		return err_set(e, ERR_BAD_DATA, "the key is not that of the certificate");
	return rc < 0 ? bad_pem(e, "certificate and key", rc) : 0;
}

/* For the handshake too, which tells the client the accepted issuers. */
static int set_trust(struct web_tls *t, struct view ca, struct err *e)
{
	if (gnutls_x509_trust_list_init(&t->trust, 0))
		return err_set(e, ERR_INTERNAL, "no memory for certificates");
	if (!ca.ptr) {
		int n = gnutls_x509_trust_list_add_system_trust(t->trust, 0, 0);
		return n > 0 ? 0 : err_set(e, ERR_BAD_DATA, "no client_ca_file, and this machine has no certificates of authorities of its own");
	}
	gnutls_datum_t d = datum(ca);
	int n = gnutls_x509_trust_list_add_trust_mem(t->trust, &d, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
	if (n > 0)
		n = gnutls_certificate_set_x509_trust_mem(t->credentials, &d, GNUTLS_X509_FMT_PEM);
	if (n < 0)
		return bad_pem(e, "the authorities' certificates", n);
	return n ? 0 : err_set(e, ERR_BAD_DATA, "there is no certificate of an authority in it");
}

static int set_priorities(struct web_tls *t, const struct web_tls_options *o, gnutls_pk_algorithm_t key, enum web_tls_part *part, struct err *e)
{
	struct buf text = { 0 };
	const char *at = NULL;
	int rc = web_ciphers_priorities(o, key, &text, part, e);
	int failed = rc ? 0 : gnutls_priority_init(&t->priorities, text.ptr, &at);
	if (failed)
		rc = err_set(e, ERR_BAD_DATA, "GnuTLS does not take these: %s at %s", gnutls_strerror(failed), at ? at : "");
	buf_free(&text);
	return rc;
}

int web_tls_new(struct web_tls **ret, const struct web_tls_options *o, enum web_tls_part *part, struct err *e)
{
	struct web_tls *t = NEW(struct web_tls);
	gnutls_pk_algorithm_t key = GNUTLS_PK_UNKNOWN;
	t->client_auth = o->client_auth;
	*part = WEB_TLS_CERT;
	int rc = gnutls_certificate_allocate_credentials(&t->credentials) ? err_set(e, ERR_INTERNAL, "no memory for TLS") : 0;
	if (!rc)
		rc = set_pair(t, o, part, &key, e);
	if (!rc)
		rc = set_priorities(t, o, key, part, e);
	if (!rc && o->client_auth >= WEB_VERIFY_CLIENT_CERT_IF_GIVEN) {
		*part = WEB_TLS_CA;
		rc = set_trust(t, o->ca, e);
	}
	if (rc) {
		web_tls_free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

void web_tls_free(struct web_tls *t)
{
	if (!t)
		return;
	if (t->credentials)
		gnutls_certificate_free_credentials(t->credentials);
	if (t->priorities)
		gnutls_priority_deinit(t->priorities);
	if (t->trust)
		gnutls_x509_trust_list_deinit(t->trust, 1);
	free(t);
}

struct gnutls_x509_trust_list_st *web_tls_trust(const struct web_tls *t)
{
	return t->trust;
}

int web_tls_begin(const struct web_tls *t, gnutls_session_t session, struct err *e)
{
	gnutls_credentials_clear(session);
	int rc = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, t->credentials);
	if (!rc)
		rc = gnutls_priority_set(session, t->priorities);
	/* Never REQUIRE: requests that need no certificate may come without one. */
	gnutls_certificate_server_set_request(session, t->client_auth == WEB_NO_CLIENT_CERT ? GNUTLS_CERT_IGNORE : GNUTLS_CERT_REQUEST);
	return rc ? err_set(e, ERR_INTERNAL, "cannot prepare TLS: %s", gnutls_strerror(rc)) : 0;
}
