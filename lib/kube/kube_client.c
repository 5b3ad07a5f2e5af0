/* SPDX-License-Identifier: Apache-2.0 */
/* The address of the API server and the credentials: from the environment of a pod, or from a kubeconfig. Only the needed parts of a
 * kubeconfig are read; the rest (preferences, extensions) is for other programs. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "kube/kube_private.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

static struct kube_client *new_client(void)
{
	struct kube_client *c = NEW(struct kube_client);
	arena_init(&c->arena, 0);
	c->http.enable_http2 = true;
	return c;
}

void kube_client_free(struct kube_client *c)
{
	if (!c)
		return;
	fetch_client_unref(c->fetch);
	arena_free(&c->arena);
	free(c->server);
	free(c);
}

const char *kube_client_server(const struct kube_client *c)
{
	return c->server;
}

static int finish(struct kube_client **ret, struct kube_client *c, const char *server, const struct http_config *h,
		  const char *user_agent, struct err *e)
{
	struct view v = view_of(server);
	int rc = 0;

	while (view_ends(v, VIEW("/")))
		v.len--;
	c->server = xstrndup(v.ptr, v.len);
	if (!view_starts(v, VIEW("https://")) && !view_starts(v, VIEW("http://")))
		rc = err_set(e, ERR_BAD_DATA, "\"%s\" is no URL of an API server (https://host:port)", c->server);
	if (!rc)
		c->fetch = fetch_client_new(h, user_agent);
	if (rc)
		kube_client_free(c);
	else
		*ret = c;
	return rc;
}

int kube_client_new(struct kube_client **ret, const char *server, const struct http_config *h, const char *user_agent,
		    struct err *e)
{
	struct kube_client *c = new_client();
	return finish(ret, c, server, h ? h : &c->http, user_agent, e);
}

static void use_token(struct kube_client *c, const char *token, const char *file)
{
	struct http_authorization *a = arena_calloc(&c->arena, 1, sizeof *a);
	*a = (struct http_authorization){ .type = "Bearer", .credentials = token, .credentials_file = file };
	c->http.authorization = a;
}

int kube_client_in_cluster(struct kube_client **ret, const char *dir, const char *user_agent, struct err *e)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
	if (!host || !*host || !port || !*port)
		return err_set(e, ERR_NOT_FOUND, "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
	struct kube_client *c = new_client();
	dir = dir ? dir : SERVICE_ACCOUNT;
	const char *token = arena_printf(&c->arena, "%s/token", dir);
	c->http.tls.ca_file = arena_printf(&c->arena, "%s/ca.crt", dir);
	use_token(c, NULL, token);
	/* An IPv6 address needs brackets. */
	const char *server = arena_printf(&c->arena, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
	if (access(token, R_OK)) {
		int rc = err_errno(e, errno, "%s: does the pod have a service account (automountServiceAccountToken)?", token);
		kube_client_free(c);
		return rc;
	}
	return finish(ret, c, server, &c->http, user_agent, e);
}

/* --- kubeconfig --- */

/* RFC 4648, line breaks allowed. NULL if it is something else. */
static const char *decoded(struct arena *a, struct view v)
{
	size_t n;
	char *out = arena_alloc(a, BASE64_ROOM(v.len));
	return out && base64_decode(v, out, &n) ? out : NULL;
}

struct kubeconfig {
	struct kube_client *client;
	struct config_ctx ctx;
	struct err *e;
};

static const char *text(struct kubeconfig *k, const struct config_node *n, const char *key)
{
	const struct config_node *v = config_get(n, key);
	if (!v || v->type != CONFIG_NODE_SCALAR || !v->text.len)
		return NULL;
	return arena_strndup(&k->client->arena, v->text.ptr, v->text.len);
}

/* A file, relative to the kubeconfig. */
static const char *file(struct kubeconfig *k, const struct config_node *n, const char *key)
{
	const char *s = text(k, n, key);
	return !s || *s == '/' ? s : arena_printf(&k->client->arena, "%s/%s", k->ctx.dir, s);
}

/* The member KEY-data, decoded. */
static int data(struct kubeconfig *k, const struct config_node *n, const char *key, const char **ret)
{
	const char *s = text(k, n, key);
	*ret = s ? decoded(&k->client->arena, view_of(s)) : NULL;
	return s && !*ret ? config_error(&k->ctx, config_get(n, key), k->e, "%s is not base64", key) : 0;
}

/* The entry of that name of a list of {name: ..., MEMBER: {...}}. */
static int named(struct kubeconfig *k, const struct config_node *root, const char *list, const char *member,
		 const char *name, const struct config_node **ret)
{
	const struct config_node *l = config_get(root, list);
	for (size_t i = 0; l && l->type == CONFIG_NODE_LIST && i < l->n; i++) {
		const struct config_node *n = config_get(l->items[i], "name"), *m = config_get(l->items[i], member);
		if (!n || !view_eqs(n->text, name) || !m || m->type != CONFIG_NODE_MAP)
			continue;
		*ret = m;
		return 0;
	}
	return config_error(&k->ctx, l ? l : root, k->e, "there is no %s \"%s\"", member, name);
}

static int read_cluster(struct kubeconfig *k, const struct config_node *n, const char **ret_server)
{
	struct http_config *h = &k->client->http;
	const char *skip = text(k, n, "insecure-skip-tls-verify");
	int rc = data(k, n, "certificate-authority-data", &h->tls.ca);
	*ret_server = text(k, n, "server");
	if (!rc && !*ret_server)
		rc = config_error(&k->ctx, n, k->e, "the cluster has no server");
	if (!h->tls.ca)
		h->tls.ca_file = file(k, n, "certificate-authority");
	h->tls.insecure_skip_verify = skip && strcmp(skip, "true") == 0;
	h->tls.server_name = text(k, n, "tls-server-name");
	h->proxy_url = text(k, n, "proxy-url");
	return rc;
}

static int read_user(struct kubeconfig *k, const struct config_node *n)
{
	struct http_config *h = &k->client->http;
	const char *token = text(k, n, "token"), *token_file = file(k, n, "tokenFile"), *user = text(k, n, "username");
	int rc = data(k, n, "client-certificate-data", &h->tls.cert);
	if (!rc)
		rc = data(k, n, "client-key-data", &h->tls.key);
	if (rc)
		return rc;
	if (!h->tls.cert)
		h->tls.cert_file = file(k, n, "client-certificate");
	if (!h->tls.key)
		h->tls.key_file = file(k, n, "client-key");
	if ((h->tls.cert || h->tls.cert_file) != (h->tls.key || h->tls.key_file))
		return config_error(&k->ctx, n, k->e, "a client certificate needs both a certificate and its key");
	if (token_file || token) {
		use_token(k->client, token_file ? NULL : token, token_file);
	} else if (user) {
		h->basic_auth = arena_calloc(&k->client->arena, 1, sizeof *h->basic_auth);
		h->basic_auth->username = user;
		h->basic_auth->password = text(k, n, "password");
	} else if (!h->tls.cert && !h->tls.cert_file && (config_get(n, "exec") || config_get(n, "auth-provider"))) {
		return config_error(&k->ctx, n, k->e, "the user's token comes from a program, which is not run here: put a token, "
				    "a tokenFile or a client certificate there (a service account has them)");
	}
	return 0;
}

static int read_kubeconfig(struct kubeconfig *k, const struct config_node *root, const char *context, const char **ret_server)
{
	const struct config_node *c = NULL, *cluster = NULL, *user = NULL;
	context = context ? context : text(k, root, "current-context");
	if (!context)
		return config_error(&k->ctx, root, k->e, "there is no current-context");
	int rc = named(k, root, "contexts", "context", context, &c);
	if (rc)
		return rc;
	const char *cluster_name = text(k, c, "cluster"), *user_name = text(k, c, "user");
	rc = named(k, root, "clusters", "cluster", cluster_name ? cluster_name : "", &cluster);
	if (!rc)
		rc = read_cluster(k, cluster, ret_server);
	if (!rc && user_name)
		rc = named(k, root, "users", "user", user_name, &user);
	return !rc && user ? read_user(k, user) : rc;
}

int kube_client_kubeconfig(struct kube_client **ret, const char *path, const char *context, const char *user_agent,
			   struct err *e)
{
	struct kubeconfig k = { .client = new_client(), .e = e };
	struct config_tree *t = NULL;
	const char *server = NULL;

	k.ctx.arena = &k.client->arena;
	k.ctx.dir = config_dirname(&k.client->arena, path);
	int rc = config_load(&t, path, e);
	if (!rc)
		rc = read_kubeconfig(&k, config_root(t), context, &server);
	config_ctx_release(&k.ctx);
	config_free(t);
	if (!rc)
		return finish(ret, k.client, server, &k.client->http, user_agent, e);
	kube_client_free(k.client);
	return rc;
}
