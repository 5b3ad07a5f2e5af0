/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus's HTTP client configuration: basic_auth, authorization, oauth2, tls_config, proxies, redirects,
 * headers. Parsed here, so that every module that asks others over HTTP spells it the same; lib/fetch acts on it. */
#ifndef PYRRHA_CONFIG_CONFIG_HTTP_H
#define PYRRHA_CONFIG_CONFIG_HTTP_H

#include "config/config.h"

enum tls_version { TLS_VERSION_DEFAULT, TLS_VERSION_10, TLS_VERSION_11, TLS_VERSION_12, TLS_VERSION_13 };

struct tls_config {
	const char *ca, *ca_file, *cert, *cert_file; /* PEM, or a file of it */
	const char *key, *key_file;                  /* key is a secret */
	const char *server_name;
	bool insecure_skip_verify;
	int min_version, max_version; /* enum tls_version */
};

struct http_basic_auth {
	const char *username, *username_file;
	const char *password, *password_file; /* password is a secret */
};

struct http_authorization {
	const char *type; /* "Bearer" unless set; never "basic" */
	const char *credentials, *credentials_file; /* credentials is a secret */
};

struct http_oauth2 {
	const char *client_id;
	const char *client_secret, *client_secret_file;
	struct config_strings scopes;
	const char *token_url;
	struct config_map endpoint_params;
	struct tls_config tls;
	const char *proxy_url, *no_proxy;
	bool proxy_from_environment;
	int grant_type;
};

/* One header: values and secrets unchanged, files read for each request. */
struct http_header {
	const char *name;
	struct config_strings values, secrets, files;
};

struct http_config {
	struct http_basic_auth *basic_auth;       /* at most one of these three */
	struct http_authorization *authorization;
	struct http_oauth2 *oauth2;
	struct tls_config tls;
	const char *proxy_url, *no_proxy;
	bool proxy_from_environment;
	struct config_multimap proxy_connect_header;
	bool follow_redirects, enable_http2; /* both true unless said */
	struct http_header *headers;
	size_t n_headers;
	const char *bearer_token, *bearer_token_file; /* the old spelling; moved into authorization */
};

/* For CONFIG_STRUCT and CONFIG_INLINE. */
extern const struct config_table config_http_table;

#endif
