/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an item of consul_sd_configs. */
#include <sys/un.h>

#include "discovery/sd_consul.h"

/* server is host:port, also with a scheme and a path before and behind it, or unix:///path of a socket. */
static int check_server(struct config_ctx *c, const struct config_node *n, struct consul_config *k, struct err *e)
{
	static const char *const schemes[] = { "http", "https", "unix" };
	const char *scheme = k->scheme, *server = k->server, *sep = strstr(server, "://");
	if (sep) {
		struct view said = view_make(server, (size_t)(sep - server));
		scheme = NULL;
		for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
			if (view_eqs(said, schemes[i]))
				scheme = schemes[i];
		server = sep + 3;
	}
	if (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0 && !sep))
		return config_error(c, n, e, "scheme has to be http or https");
	if (!*server || strpbrk(server, " ?#@"))
		return config_error(c, n, e, "server has to be host:port (credentials have keys of their own)");
	if (strcmp(scheme, "unix") == 0) {
		k->unix_socket = server;
		scheme = "http";
		server = "consul";
		if (k->unix_socket[0] != '/' || strlen(k->unix_socket) >= sizeof((struct sockaddr_un *)0)->sun_path)
			return config_error(c, n, e, "server: unix:// wants the absolute path of a socket, not too long");
	}
	struct view host = view_of(server), prefix = view_of(k->path_prefix ? k->path_prefix : "");
	while (view_ends(host, VIEW("/")))
		host.len--;
	while (view_ends(prefix, VIEW("/")))
		prefix.len--;
	while (view_starts(prefix, VIEW("/")))
		prefix = view_make(prefix.ptr + 1, prefix.len - 1);
	k->base = arena_printf(c->arena, "%s://%.*s%s%.*s", scheme, VIEW_ARG(host), prefix.len ? "/" : "", VIEW_ARG(prefix));
	return 0;
}

static int check_credentials(struct config_ctx *c, const struct config_node *n, struct consul_config *k, struct err *e)
{
	struct http_config *h = &k->http;
	if (k->token && *k->token && (h->authorization || h->oauth2))
		return config_error(c, n, e, "token beside authorization or oauth2; one is enough");
	if (k->token && strpbrk(k->token, "\r\n"))
		return config_error(c, n, e, "a line break in token");
	if (!k->username && !k->password)
		return 0;
	if (h->basic_auth || h->authorization || h->oauth2)
		return config_error(c, n, e, "username and password beside basic_auth, authorization or oauth2; one is enough");
	h->basic_auth = arena_calloc(c->arena, 1, sizeof *h->basic_auth);
	h->basic_auth->username = k->username;
	h->basic_auth->password = k->password;
	return 0;
}

static int check_config(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	struct consul_config *k = at;
	if (k->refresh_ms <= 0)
		return config_error(c, n, e, "refresh_interval has to be above 0");
	for (size_t i = 0; i < k->services.n; i++)
		if (!k->services.v[i][0])
			return config_error(c, n, e, "services: an empty name");
	int rc = check_credentials(c, n, k, e);
	return rc ? rc : check_server(c, n, k, e);
}

#define F(key, type, member, def) { key, type, offsetof(struct consul_config, member), def }

static const struct config_field rows[] = {
	F("server", CONFIG_STRING, server, "localhost:8500"),
	F("scheme", CONFIG_STRING, scheme, "http"),
	F("path_prefix", CONFIG_STRING, path_prefix, NULL),
	F("token", CONFIG_SECRET, token, NULL),
	F("datacenter", CONFIG_STRING, datacenter, ""),
	F("namespace", CONFIG_STRING, namespace, ""),
	F("partition", CONFIG_STRING, partition, ""),
	F("tag_separator", CONFIG_STRING, tag_separator, ","),
	F("username", CONFIG_STRING, username, NULL),
	F("password", CONFIG_SECRET, password, NULL),
	F("allow_stale", CONFIG_BOOL, allow_stale, "true"),
	F("refresh_interval", CONFIG_DURATION, refresh_ms, "30s"),
	F("services", CONFIG_STRINGS, services, NULL),
	F("tags", CONFIG_STRINGS, tags, NULL),
	F("node_meta", CONFIG_MAP, node_meta, NULL),
	F("filter", CONFIG_STRING, filter, ""),
	F("health_filter", CONFIG_STRING, health_filter, ""),
	{ NULL, CONFIG_INLINE, offsetof(struct consul_config, http), .table = &config_http_table },
};
const struct config_table consul_config_table = CONFIG_TABLE(struct consul_config, rows, check_config);
