/* SPDX-License-Identifier: Apache-2.0 */
/* Go's names of cipher suites and curves as GnuTLS's priorities.
 *
 * GnuTLS chooses key exchange, cipher and MAC one by one, Go a suite of all three. The certificate has one key, so one key
 * exchange is possible: suites for the other are left out. Each of the remaining ciphers has only one MAC, so GnuTLS accepts exactly
 * the listed suites. GnuTLS has one list for all versions: a suite that is not listed is not used with TLS 1.3 either, which Go would
 * do. */
#include "httpd/web_tls.h"

enum kind { FOR_ALL, FOR_RSA, FOR_ECDSA };

struct suite {
	const char *name;   /* Go's */
	enum kind kind;     /* of the certificate's key; FOR_ALL: of TLS 1.3 */
	const char *cipher, *mac; /* GnuTLS's */
};

static const struct suite suites[] = {
	{ "TLS_AES_128_GCM_SHA256", FOR_ALL, "AES-128-GCM", "AEAD" },
	{ "TLS_AES_256_GCM_SHA384", FOR_ALL, "AES-256-GCM", "AEAD" },
	{ "TLS_CHACHA20_POLY1305_SHA256", FOR_ALL, "CHACHA20-POLY1305", "AEAD" },
	{ "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", FOR_RSA, "AES-128-GCM", "AEAD" },
	{ "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", FOR_RSA, "AES-256-GCM", "AEAD" },
	{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", FOR_RSA, "CHACHA20-POLY1305", "AEAD" },
	{ "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", FOR_RSA, "AES-128-CBC", "SHA1" },
	{ "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", FOR_RSA, "AES-256-CBC", "SHA1" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", FOR_ECDSA, "AES-128-GCM", "AEAD" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", FOR_ECDSA, "AES-256-GCM", "AEAD" },
	{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", FOR_ECDSA, "CHACHA20-POLY1305", "AEAD" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", FOR_ECDSA, "AES-128-CBC", "SHA1" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", FOR_ECDSA, "AES-256-CBC", "SHA1" },
};

static const struct { const char *name, *group; } curves[] = {
	{ "CurveP256", "SECP256R1" }, { "CurveP384", "SECP384R1" }, { "CurveP521", "SECP521R1" }, { "X25519", "X25519" },
};

static const char *const versions[] = { "TLS1.0", "TLS1.1", "TLS1.2", "TLS1.3" };

static const struct suite *find_suite(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(suites); i++)
		if (strcmp(suites[i].name, name) == 0)
			return &suites[i];
	return NULL;
}

static int check_suites(const struct config_strings *names, struct err *e)
{
	for (size_t i = 0; i < names->n; i++)
		if (!find_suite(names->v[i]))
			return err_set(e, ERR_BAD_DATA, "unknown cipher: \"%s\"; those of Go are known by its names, but for the ones that it "
				       "calls insecure", names->v[i]);
	return 0;
}

static void put_once(struct buf *out, const char *prefix, const char *word)
{
	struct buf item = { 0 };
	buf_printf(&item, ":+%s%s", prefix, word);
	if (!view_contains(buf_view(out), buf_view(&item)))
		buf_putv(out, buf_view(&item));
	buf_free(&item);
}

static void put_suite(struct buf *out, const struct suite *s)
{
	put_once(out, "", s->cipher);
	put_once(out, "", s->mac);
}

/* Adds the suites of one kind; whether there are any, and any with a cipher that TLS 1.3 has too. */
static bool put_kind(struct buf *out, const struct config_strings *names, enum kind kind, bool *ret_modern)
{
	bool any = false;
	for (size_t i = 0; i < names->n; i++) {
		const struct suite *s = find_suite(names->v[i]);
		if (s->kind != kind)
			continue;
		any = true;
		*ret_modern |= strcmp(s->mac, "AEAD") == 0;
		put_suite(out, s);
	}
	return any;
}

/* Ciphers, and the TLS versions that support them. */
static int put_ciphers(const struct web_tls_options *o, enum kind key, int *min, int *max, struct buf *out, struct err *e)
{
	bool modern = false;
	if (!o->cipher_suites.n) {
		buf_puts(out, ":+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-CBC:+AES-256-CBC:+AEAD:+SHA1");
		return 0;
	}
	if (put_kind(out, &o->cipher_suites, key, &modern)) {
		if (!modern)
			*max = MIN(*max, (int)WEB_TLS_12);
		return *min <= *max ? 0 : err_set(e, ERR_BAD_DATA, "none of these is a cipher of TLS 1.3, which is wanted");
	}
	*min = WEB_TLS_13;
	if (*max < *min)
		return err_set(e, ERR_BAD_DATA, "none of these goes with the certificate's key (%s) before TLS 1.3, and max_version is below",
			       key == FOR_RSA ? "RSA" : "not RSA");
	if (!put_kind(out, &o->cipher_suites, FOR_ALL, &modern))
		buf_puts(out, ":+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+AEAD");
	return 0;
}

static int put_groups(const struct config_strings *names, struct buf *out, struct err *e)
{
	for (size_t i = 0; i < names->n; i++) {
		const char *group = NULL;
		for (size_t k = 0; k < ARRAY_LEN(curves); k++)
			if (strcmp(curves[k].name, names->v[i]) == 0)
				group = curves[k].group;
		if (!group)
			return err_set(e, ERR_BAD_DATA, "unknown curve: \"%s\"; it is one of CurveP256, CurveP384, CurveP521, X25519", names->v[i]);
		put_once(out, "GROUP-", group);
	}
	if (!names->n)
		buf_puts(out, ":+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+GROUP-SECP521R1");
	return 0;
}

int web_ciphers_priorities(const struct web_tls_options *o, gnutls_pk_algorithm_t pk, struct buf *ret, enum web_tls_part *part, struct err *e)
{
	enum kind key = pk == GNUTLS_PK_RSA || pk == GNUTLS_PK_RSA_PSS ? FOR_RSA : FOR_ECDSA;
	int min = o->min_version, max = o->max_version;
	*part = WEB_TLS_CIPHERS;
	int rc = check_suites(&o->cipher_suites, e);
	if (rc)
		return rc;
	*part = WEB_TLS_VERSIONS;
	if (min > max)
		return err_set(e, ERR_BAD_DATA, "min_version is above max_version");
	buf_puts(ret, "NORMAL:-VERS-ALL:-KX-ALL:-CIPHER-ALL:-MAC-ALL:-GROUP-ALL");
	buf_puts(ret, key == FOR_RSA ? ":+ECDHE-RSA" : ":+ECDHE-ECDSA");
	*part = WEB_TLS_CIPHERS;
	rc = put_ciphers(o, key, &min, &max, ret, e);
	if (rc)
		return rc;
	for (int v = max; v >= min; v--)
		put_once(ret, "VERS-", versions[v]);
	*part = WEB_TLS_CURVES;
	rc = put_groups(&o->curves, ret, e);
	if (o->server_preference)
		buf_puts(ret, ":%SERVER_PRECEDENCE");
	return rc;
}
