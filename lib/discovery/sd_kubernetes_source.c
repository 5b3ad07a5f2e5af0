/* SPDX-License-Identifier: Apache-2.0 */
/* Which API server, who we are to it, and which namespaces: what kubernetes_sd_configs and kubernetes_scrape_configs have in
 * common. */
#include "discovery/sd_kubernetes.h"

#define NAMESPACE_FILE "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
#define USER_AGENT "pyrrha"

#define FIELD(key, type, member, ...) { key, type, offsetof(struct kube_sd_config, member), __VA_ARGS__ }
static const struct config_field rows[] = {
	FIELD("api_server", CONFIG_STRING, api_server, NULL),
	FIELD("kubeconfig_file", CONFIG_PATH, kubeconfig_file, NULL),
	FIELD("namespaces", CONFIG_STRUCT, namespaces, .table = &kube_sd_namespace_table),
	{ NULL, CONFIG_INLINE, offsetof(struct kube_sd_config, http), .table = &config_http_table },
};
static const struct config_table table = CONFIG_TABLE(struct kube_sd_config, rows, kube_sd_check);

int kube_sd_decode_source(struct config_ctx *c, const struct config_node *n, struct kube_sd_config **ret, struct err *e)
{
	struct kube_sd_config *k = arena_calloc(c->arena, 1, sizeof *k);
	if (!k)
		return config_error(c, n, e, "too large");
	k->role = KUBE_SD_POD;
	*ret = k;
	return config_decode(c, &table, n, k, e);
}

bool kube_sd_same_source(const struct kube_sd_config *a, const struct kube_sd_config *b)
{
	return config_same(&table, a, b);
}

void kube_sd_copy_source(struct arena *a, const struct kube_sd_config *from, struct kube_sd_config *to)
{
	config_copy(&table, a, from, to);
	to->role = from->role;
}

static int own_namespace(struct buf *out, struct err *e)
{
	const char *path = NAMESPACE_FILE;
	int rc = buf_read_file(out, path, e);
	while (out->len && strchr(" \r\n", out->ptr[out->len - 1]))
		out->ptr[--out->len] = 0;
	if (!rc && (!out->len || memchr(out->ptr, '/', out->len)))
		rc = err_set(e, ERR_BAD_DATA, "it is not the name of a namespace");
	return rc ? err_wrap(e, "own_namespace: %s", path) : 0;
}

static void add(struct config_strings *to, const char *name)
{
	for (size_t i = 0; i < to->n; i++)
		if (strcmp(to->v[i], name) == 0)
			return;
	to->v[to->n++] = name;
}

int kube_sd_namespaces(const struct kube_sd_config *k, struct arena *a, struct config_strings *ret, struct err *e)
{
	struct buf own = { .max = 4096 };
	int rc = k->namespaces.own ? own_namespace(&own, e) : 0;
	*ret = (struct config_strings){ arena_calloc(a, k->namespaces.names.n + 1, sizeof *ret->v), 0 };
	for (size_t i = 0; i < k->namespaces.names.n && !rc; i++)
		add(ret, k->namespaces.names.v[i]);
	if (!rc && own.len)
		add(ret, arena_strndup(a, own.ptr, own.len));
	buf_free(&own);
	return rc;
}

int kube_sd_subscribe(struct kube_subscription **ret, const struct kube_sd_config *k, const char *path, const char *label_selector,
		      const char *field_selector, const struct kube_events *events, struct err *e)
{
	const struct kube_informer_config c = { .client = { .api_server = k->api_server, .kubeconfig_file = k->kubeconfig_file,
							    .http = &k->http, .user_agent = USER_AGENT },
						.path = path, .label_selector = label_selector, .field_selector = field_selector };
	return kube_subscribe(ret, &c, events, e);
}
