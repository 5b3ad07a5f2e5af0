/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of clients. The handshake has shown only that the client has the key of its certificate. libmicrohttpd and GnuTLS
 * accept any issuer. */
#include <arpa/inet.h>
#include <gnutls/x509-ext.h>
#include <gnutls/x509.h>

#include "httpd/web_tls.h"

#define MAX_CHAIN 16

/* As Go prints one: IPv4 within IPv6 is IPv4. */
static bool is_address(const unsigned char *raw, size_t n, const char *want)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN];
	if (n == 16 && memcmp(raw, mapped, sizeof mapped) == 0)
		return is_address(raw + sizeof mapped, 4, want);
	return (n == 4 || n == 16) && inet_ntop(n == 4 ? AF_INET : AF_INET6, raw, text, sizeof text) && strcmp(text, want) == 0;
}

static bool is_name(unsigned type, const gnutls_datum_t *name, const char *want)
{
	if (type == GNUTLS_SAN_IPADDRESS)
		return is_address(name->data, name->size, want);
	return (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_RFC822NAME || type == GNUTLS_SAN_URI) &&
	       view_eqs(view_make((const char *)name->data, name->size), want);
}

static bool is_one_of(const struct web_config *w, gnutls_subject_alt_names_t names)
{
	gnutls_datum_t name;
	unsigned type;
	for (unsigned i = 0; gnutls_subject_alt_names_get(names, i, &type, &name, NULL) >= 0; i++)
		for (size_t k = 0; k < w->n_client_sans; k++)
			if (is_name(type, &name, w->client_sans[k]))
				return true;
	return false;
}

/* The extension is read once: GnuTLS's functions for a name of a certificate read it for each, and there may be thousands. */
static bool has_allowed_name(const struct web_config *w, gnutls_x509_crt_t cert)
{
	gnutls_subject_alt_names_t names;
	gnutls_datum_t extension;
	if (gnutls_x509_crt_get_extension_by_oid2(cert, GNUTLS_X509EXT_OID_SAN, 0, &extension, NULL))
		return false;
	bool found = false;
	if (gnutls_subject_alt_names_init(&names) == 0) {
		found = gnutls_x509_ext_import_subject_alt_names(&extension, names, 0) == 0 && is_one_of(w, names);
		gnutls_subject_alt_names_deinit(names);
	}
	gnutls_free(extension.data);
	return found;
}

static bool is_trusted(const struct web_config *w, gnutls_x509_crt_t *chain, unsigned n)
{
	gnutls_typed_vdata_st use = { .type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT };
	gnutls_x509_trust_list_t trust = web_tls_trust(w->tls);
	unsigned status = 0;
	return trust && gnutls_x509_trust_list_verify_crt2(trust, chain, n, &use, 1, 0, &status, NULL) == 0 && status == 0;
}

static enum web_client_cert judge_chain(const struct web_config *w, gnutls_x509_crt_t *chain, unsigned n)
{
	if (w->client_auth >= WEB_VERIFY_CLIENT_CERT_IF_GIVEN && !is_trusted(w, chain, n))
		return WEB_CERT_UNTRUSTED;
	if (w->client_sans && !has_allowed_name(w, chain[0]))
		return WEB_CERT_OTHER_NAME;
	return WEB_CERT_GOOD;
}

/* How many there are to release is told in any case. */
static bool import_chain(const gnutls_datum_t *sent, unsigned n, gnutls_x509_crt_t chain[MAX_CHAIN], unsigned *ret_n)
{
	for (*ret_n = 0; *ret_n < n; ++*ret_n) {
		gnutls_x509_crt_t *c = &chain[*ret_n];
		if (gnutls_x509_crt_init(c))
			return false;
		if (gnutls_x509_crt_import(*c, &sent[*ret_n], GNUTLS_X509_FMT_DER)) {
			gnutls_x509_crt_deinit(*c);
			return false;
		}
	}
	return true;
}

enum web_client_cert web_tls_judge(const struct web_config *w, gnutls_session_t session)
{
	gnutls_x509_crt_t chain[MAX_CHAIN];
	unsigned n_sent = 0, n;
	if (!w->tls || w->client_auth == WEB_NO_CLIENT_CERT)
		return WEB_CERT_NOT_WANTED;
	bool required = w->client_auth == WEB_REQUIRE_ANY_CLIENT_CERT || w->client_auth == WEB_REQUIRE_AND_VERIFY_CLIENT_CERT;
	const gnutls_datum_t *sent = session ? gnutls_certificate_get_peers(session, &n_sent) : NULL;
	if (!sent || !n_sent)
		return required ? WEB_CERT_MISSING : WEB_CERT_NOT_WANTED;
	bool whole = import_chain(sent, MIN(n_sent, (unsigned)MAX_CHAIN), chain, &n);
	enum web_client_cert judged = whole ? judge_chain(w, chain, n) : WEB_CERT_UNTRUSTED;
	for (unsigned i = 0; i < n; i++)
		gnutls_x509_crt_deinit(chain[i]);
	return judged;
}
