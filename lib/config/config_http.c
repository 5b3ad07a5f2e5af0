/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of Prometheus's HTTP client configuration, and its rules: one kind of credentials at most, and either files or values.
 * lib/fetch uses the decoded struct. */
#include <assert.h>

#include "config/config_http.h"

#define F(key, type, st, member, def) { key, type, offsetof(struct st, member), def }
#define TLS_WORDS "|TLS10|TLS11|TLS12|TLS13"

static int both(struct config_ctx *c, const struct config_node *n, struct err *e, const char *a, const char *b)
{
	return config_error(c, n, e, "%s and %s are both given; one is enough", a, b);
}

static int check_tls(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct tls_config *t = at;
	if (t->ca && t->ca_file)
		return both(c, n, e, "ca", "ca_file");
	if (t->cert && t->cert_file)
		return both(c, n, e, "cert", "cert_file");
	if (t->key && t->key_file)
		return both(c, n, e, "key", "key_file");
	if ((t->cert || t->cert_file) != (t->key || t->key_file))
		return config_error(c, n, e, "a client certificate needs both a certificate and its key");
	if (t->max_version && t->min_version > t->max_version)
		return config_error(c, n, e, "min_version is above max_version");
	return 0;
}

static const struct config_field tls_rows[] = {
	F("ca", CONFIG_STRING, tls_config, ca, NULL),
	F("ca_file", CONFIG_PATH, tls_config, ca_file, NULL),
	F("cert", CONFIG_STRING, tls_config, cert, NULL),
	F("cert_file", CONFIG_PATH, tls_config, cert_file, NULL),
	F("key", CONFIG_SECRET, tls_config, key, NULL),
	F("key_file", CONFIG_PATH, tls_config, key_file, NULL),
	F("server_name", CONFIG_STRING, tls_config, server_name, NULL),
	F("insecure_skip_verify", CONFIG_BOOL, tls_config, insecure_skip_verify, "false"),
	{ "min_version", CONFIG_ENUM, offsetof(struct tls_config, min_version), "", .words = TLS_WORDS },
	{ "max_version", CONFIG_ENUM, offsetof(struct tls_config, max_version), "", .words = TLS_WORDS },
};
static const struct config_table tls_table = CONFIG_TABLE(struct tls_config, tls_rows, check_tls);

static int check_basic(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct http_basic_auth *b = at;
	if (b->username && b->username_file)
		return both(c, n, e, "username", "username_file");
	if (b->password && b->password_file)
		return both(c, n, e, "password", "password_file");
	return 0;
}

static const struct config_field basic_rows[] = {
	F("username", CONFIG_STRING, http_basic_auth, username, NULL),
	F("username_file", CONFIG_PATH, http_basic_auth, username_file, NULL),
	F("password", CONFIG_SECRET, http_basic_auth, password, NULL),
	F("password_file", CONFIG_PATH, http_basic_auth, password_file, NULL),
	{ "username_ref", CONFIG_REFUSED, .words = "there is no secret store; use username_file" },
	{ "password_ref", CONFIG_REFUSED, .words = "there is no secret store; use password_file" },
};
static const struct config_table basic_table = CONFIG_TABLE(struct http_basic_auth, basic_rows, check_basic);

static int check_authorization(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct http_authorization *a = at;
	if (a->credentials && a->credentials_file)
		return both(c, n, e, "credentials", "credentials_file");
	if (strcasecmp(a->type, "basic") == 0)
		return config_error(c, n, e, "type basic: use basic_auth with username and password");
	if (strpbrk(a->type, " \t\r\n"))
		return config_error(c, n, e, "type must be one word");
	return 0;
}

static const struct config_field authorization_rows[] = {
	F("type", CONFIG_STRING, http_authorization, type, "Bearer"),
	F("credentials", CONFIG_SECRET, http_authorization, credentials, NULL),
	F("credentials_file", CONFIG_PATH, http_authorization, credentials_file, NULL),
	{ "credentials_ref", CONFIG_REFUSED, .words = "there is no secret store; use credentials_file" },
};
static const struct config_table authorization_table =
	CONFIG_TABLE(struct http_authorization, authorization_rows, check_authorization);

static int check_oauth2(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct http_oauth2 *o = at;
	if (o->client_secret && o->client_secret_file)
		return both(c, n, e, "client_secret", "client_secret_file");
	if (o->grant_type)
		return config_error(c, n, e, "grant_type jwt-bearer is not supported; use client_credentials");
	return 0;
}

static const struct config_field oauth2_rows[] = {
	{ "client_id", CONFIG_STRING, offsetof(struct http_oauth2, client_id), NULL, CONFIG_REQUIRED },
	F("client_secret", CONFIG_SECRET, http_oauth2, client_secret, NULL),
	F("client_secret_file", CONFIG_PATH, http_oauth2, client_secret_file, NULL),
	F("scopes", CONFIG_STRINGS, http_oauth2, scopes, NULL),
	{ "token_url", CONFIG_STRING, offsetof(struct http_oauth2, token_url), NULL, CONFIG_REQUIRED },
	F("endpoint_params", CONFIG_MAP, http_oauth2, endpoint_params, NULL),
	{ "tls_config", CONFIG_STRUCT, offsetof(struct http_oauth2, tls), .table = &tls_table },
	F("proxy_url", CONFIG_STRING, http_oauth2, proxy_url, NULL),
	F("no_proxy", CONFIG_STRING, http_oauth2, no_proxy, NULL),
	F("proxy_from_environment", CONFIG_BOOL, http_oauth2, proxy_from_environment, "false"),
	{ "grant_type", CONFIG_ENUM, offsetof(struct http_oauth2, grant_type), "client_credentials",
	  .words = "client_credentials|urn:ietf:params:oauth:grant-type:jwt-bearer|jwt-bearer" },
};
static const struct config_table oauth2_table = CONFIG_TABLE(struct http_oauth2, oauth2_rows, check_oauth2);

static const struct config_field header_rows[] = {
	F("values", CONFIG_STRINGS, http_header, values, NULL),
	F("secrets", CONFIG_STRINGS, http_header, secrets, NULL),
	F("files", CONFIG_STRINGS, http_header, files, NULL),
};
static const struct config_table header_table = CONFIG_TABLE(struct http_header, header_rows, NULL);
/* As they are afterwards, to be compared and copied. */
static const struct config_field named_header_rows[] = {
	F("name", CONFIG_STRING, http_header, name, NULL),
	{ NULL, CONFIG_INLINE, .table = &header_table },
};
static const struct config_table named_header_table = CONFIG_TABLE(struct http_header, named_header_rows, NULL);
static_assert(offsetof(struct http_config, n_headers) - offsetof(struct http_config, headers) == offsetof(struct config_list, n),
	      "config_value.c takes them for a list");

static bool reserved_header(const char *name)
{
	static const char *const names[] = { "Authorization", "Host", "Content-Encoding", "Content-Length", "Content-Type",
					     "User-Agent", "Connection", "Keep-Alive", "Proxy-Authenticate",
					     "Proxy-Authorization", "Www-Authenticate", "Accept-Encoding",
					     "X-Prometheus-Scrape-Timeout-Seconds", "Transfer-Encoding" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool has_control(const struct config_strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (strpbrk(s->v[i], "\r\n"))
			return true;
	return false;
}

static int decode_headers(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct http_config *h = (struct http_config *)((char *)at - offsetof(struct http_config, headers));
	if (n->type != CONFIG_NODE_MAP)
		return config_error(c, n, e, "a map is wanted: header name to {values, secrets, files}");
	h->headers = arena_calloc(c->arena, n->n + 1, sizeof *h->headers);
	h->n_headers = n->n;
	for (size_t i = 0; i < n->n; i++) {
		const char *name = n->pairs[i].key->text.ptr;
		size_t mark = config_enter(c, name);
		int rc = config_decode(c, &header_table, n->pairs[i].value, &h->headers[i], e);
		struct http_header *hd = &h->headers[i];
		hd->name = arena_strndup(c->arena, name, strlen(name));
		if (!rc && (!name[0] || strpbrk(name, " :\r\n\t")))
			rc = config_error(c, n->pairs[i].key, e, "not the name of a header");
		if (!rc && reserved_header(name))
			rc = config_error(c, n->pairs[i].key, e, "this header is set by the client itself");
		if (!rc && (has_control(&hd->values) || has_control(&hd->secrets)))
			rc = config_error(c, n->pairs[i].value, e, "a line break in a header");
		for (size_t k = 0; k < hd->files.n && !rc; k++)
			if (hd->files.v[k][0] != '/' && c->dir)
				hd->files.v[k] = arena_printf(c->arena, "%s/%s", c->dir, hd->files.v[k]);
		config_leave(c, mark);
		if (rc)
			return rc;
	}
	return 0;
}

/* The old bearer_token is an authorization of its own. */
static int adopt_bearer(struct config_ctx *c, const struct config_node *n, struct http_config *h, struct err *e)
{
	if (!h->bearer_token && !h->bearer_token_file)
		return 0;
	if (h->bearer_token && h->bearer_token_file)
		return both(c, n, e, "bearer_token", "bearer_token_file");
	if (h->authorization || h->basic_auth || h->oauth2)
		return config_error(c, n, e, "bearer_token beside basic_auth, authorization or oauth2; one is enough");
	h->authorization = arena_calloc(c->arena, 1, sizeof *h->authorization);
	*h->authorization = (struct http_authorization){ "Bearer", h->bearer_token, h->bearer_token_file };
	return 0;
}

static int check_http(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct http_config *h = at;
	int rc = adopt_bearer(c, n, h, e);
	if (rc)
		return rc;
	if (!!h->basic_auth + !!h->authorization + !!h->oauth2 > 1)
		return config_error(c, n, e, "more than one of basic_auth, authorization and oauth2");
	if (h->proxy_from_environment && (h->proxy_url || h->no_proxy))
		return config_error(c, n, e, "proxy_from_environment beside proxy_url or no_proxy");
	if (h->no_proxy && !h->proxy_url)
		return config_error(c, n, e, "no_proxy without proxy_url");
	return 0;
}

static const struct config_field http_rows[] = {
	{ "basic_auth", CONFIG_POINTER, offsetof(struct http_config, basic_auth), .table = &basic_table },
	{ "authorization", CONFIG_POINTER, offsetof(struct http_config, authorization), .table = &authorization_table },
	{ "oauth2", CONFIG_POINTER, offsetof(struct http_config, oauth2), .table = &oauth2_table },
	{ "tls_config", CONFIG_STRUCT, offsetof(struct http_config, tls), .table = &tls_table },
	F("proxy_url", CONFIG_STRING, http_config, proxy_url, NULL),
	F("no_proxy", CONFIG_STRING, http_config, no_proxy, NULL),
	F("proxy_from_environment", CONFIG_BOOL, http_config, proxy_from_environment, "false"),
	F("proxy_connect_header", CONFIG_MULTIMAP, http_config, proxy_connect_header, NULL),
	F("follow_redirects", CONFIG_BOOL, http_config, follow_redirects, "true"),
	F("enable_http2", CONFIG_BOOL, http_config, enable_http2, "true"),
	{ "http_headers", CONFIG_CUSTOM, offsetof(struct http_config, headers), .table = &named_header_table,
	  .custom = decode_headers },
	F("bearer_token", CONFIG_SECRET, http_config, bearer_token, NULL),
	F("bearer_token_file", CONFIG_PATH, http_config, bearer_token_file, NULL),
};
const struct config_table config_http_table = CONFIG_TABLE(struct http_config, http_rows, check_http);
