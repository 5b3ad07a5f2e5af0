/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: certificates, made on the spot. */
#ifndef PYRRHA_HTTPD_TESTCERT_H
#define PYRRHA_HTTPD_TESTCERT_H

#include <assert.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"

struct testcert {
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t crt;
	char *cert_pem, *key_pem;
};

struct testcert_how {
	const char *name;              /* common name and DNS name */
	const struct testcert *signer; /* NULL: itself, as an authority */
	bool rsa;
	bool for_servers;              /* and not for clients */
	bool expired;
};

static inline char *testcert_pem(gnutls_datum_t d)
{
	char *s = xstrndup((char *)d.data, d.size);
	gnutls_free(d.data);
	return s;
}

static inline struct testcert testcert_new(struct testcert_how how)
{
	struct testcert t;
	gnutls_datum_t d;
	static unsigned char serial = 1;
	time_t now = time(NULL);
	bool bad = gnutls_x509_privkey_init(&t.key) || gnutls_x509_crt_init(&t.crt) ||
		   gnutls_x509_privkey_generate(t.key, how.rsa ? GNUTLS_PK_RSA : GNUTLS_PK_EC,
						how.rsa ? 2048 : GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) ||
		   gnutls_x509_crt_set_version(t.crt, 3) || gnutls_x509_crt_set_serial(t.crt, (unsigned char[]){ ++serial }, 1) ||
		   gnutls_x509_crt_set_activation_time(t.crt, now - 7200) ||
		   gnutls_x509_crt_set_expiration_time(t.crt, how.expired ? now - 3600 : now + 3600) ||
		   gnutls_x509_crt_set_key(t.crt, t.key) ||
		   gnutls_x509_crt_set_dn_by_oid(t.crt, GNUTLS_OID_X520_COMMON_NAME, 0, how.name, (unsigned)strlen(how.name)) ||
		   gnutls_x509_crt_set_basic_constraints(t.crt, !how.signer, -1);
	if (how.signer)
		bad = bad || gnutls_x509_crt_set_subject_alt_name(t.crt, GNUTLS_SAN_DNSNAME, how.name, (unsigned)strlen(how.name), GNUTLS_FSAN_SET) ||
		      gnutls_x509_crt_set_subject_alt_name(t.crt, GNUTLS_SAN_IPADDRESS, "\x7f\0\0\1", 4, GNUTLS_FSAN_APPEND);
	else
		bad = bad || gnutls_x509_crt_set_key_usage(t.crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_DIGITAL_SIGNATURE);
	if (how.for_servers)
		bad = bad || gnutls_x509_crt_set_key_purpose_oid(t.crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
	bad = bad || gnutls_x509_crt_sign2(t.crt, how.signer ? how.signer->crt : t.crt, how.signer ? how.signer->key : t.key, GNUTLS_DIG_SHA256, 0);
	assert(!bad && gnutls_x509_crt_export2(t.crt, GNUTLS_X509_FMT_PEM, &d) == 0);
	t.cert_pem = testcert_pem(d);
	bad = gnutls_x509_privkey_export2(t.key, GNUTLS_X509_FMT_PEM, &d);
	assert(!bad);
	t.key_pem = testcert_pem(d);
	return t;
}

static inline void testcert_free(struct testcert *t)
{
	gnutls_x509_crt_deinit(t->crt);
	gnutls_x509_privkey_deinit(t->key);
	free(t->cert_pem);
	free(t->key_pem);
}

#endif
