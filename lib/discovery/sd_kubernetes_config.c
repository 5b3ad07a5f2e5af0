/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes_sd_configs: what an item of the list may say, and what excludes what, as Prometheus has it. */
#include "discovery/sd_kubernetes.h"

#include "base/alloc.h"

/* Whether a role takes selectors of another. */
static const unsigned selects[] = {
	[KUBE_SD_NODE] = 1u << KUBE_SD_NODE,
	[KUBE_SD_SERVICE] = 1u << KUBE_SD_SERVICE,
	[KUBE_SD_POD] = 1u << KUBE_SD_POD | 1u << KUBE_SD_NODE,
	[KUBE_SD_ENDPOINTS] = 1u << KUBE_SD_POD | 1u << KUBE_SD_SERVICE | 1u << KUBE_SD_ENDPOINTS,
	[KUBE_SD_ENDPOINTSLICE] = 1u << KUBE_SD_POD | 1u << KUBE_SD_SERVICE | 1u << KUBE_SD_ENDPOINTSLICE,
	[KUBE_SD_INGRESS] = 1u << KUBE_SD_INGRESS,
};

static int check_selector(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct kube_sd_selector *s = at;
	const struct { const char *key, *text; int (*check)(const char *s, struct err *e); } rows[] = {
		{ "label", s->label, kube_sd_check_label_selector },
		{ "field", s->field, kube_sd_check_field_selector },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err why;
		if (!rows[i].text || !rows[i].check(rows[i].text, &why))
			continue;
		size_t mark = config_enter(c, rows[i].key);
		int rc = config_error(c, config_get(n, rows[i].key), e, "%s", why.msg);
		config_leave(c, mark);
		return rc;
	}
	return 0;
}

static const struct config_field selector_rows[] = {
	{ "role", CONFIG_ENUM, offsetof(struct kube_sd_selector, role), NULL, CONFIG_REQUIRED, .words = KUBE_SD_ROLES },
	{ "label", CONFIG_STRING, offsetof(struct kube_sd_selector, label) },
	{ "field", CONFIG_STRING, offsetof(struct kube_sd_selector, field) },
};
static const struct config_table selector_table = CONFIG_TABLE(struct kube_sd_selector, selector_rows, check_selector);

#define FIELD(key, type, member, ...) { key, type, offsetof(struct kube_sd_config, member), __VA_ARGS__ }
#define SUB(outer, member) (offsetof(struct kube_sd_config, outer.member) - offsetof(struct kube_sd_config, outer))

static const struct config_field namespace_rows[] = {
	{ "own_namespace", CONFIG_BOOL, SUB(namespaces, own), "false" },
	{ "names", CONFIG_STRINGS, SUB(namespaces, names) },
};
const struct config_table kube_sd_namespace_table = {
	namespace_rows, ARRAY_LEN(namespace_rows), sizeof(((struct kube_sd_config *)0)->namespaces), NULL
};

static const struct config_field attach_rows[] = {
	{ "node", CONFIG_BOOL, offsetof(struct kube_sd_attach, node), "false" },
	{ "namespace", CONFIG_BOOL, offsetof(struct kube_sd_attach, namespace), "false" },
	{ "deployment", CONFIG_BOOL, offsetof(struct kube_sd_attach, deployment), "false" },
	{ "job", CONFIG_BOOL, offsetof(struct kube_sd_attach, job), "false" },
	{ "cronjob", CONFIG_BOOL, offsetof(struct kube_sd_attach, cronjob), "false" },
};
static const struct config_table attach_table = CONFIG_TABLE(struct kube_sd_attach, attach_rows, NULL);

static int at_key(struct config_ctx *c, const struct config_node *n, const char *key, struct err *e, const char *text)
{
	const struct config_node *at = config_get(n, key);
	size_t mark = config_enter(c, key);
	int rc = config_error(c, at ? at : n, e, "%s", text);
	config_leave(c, mark);
	return rc;
}

static int check_selectors(struct config_ctx *c, const struct config_node *n, const struct kube_sd_config *k, struct err *e)
{
	const struct kube_sd_selector *s = k->selectors.v;
	const struct config_node *list = config_get(n, "selectors");
	struct buf may = { 0 };
	unsigned seen = 0;
	int rc = 0;

	for (int i = 0; i < KUBE_SD_NAMESPACE; i++)
		if (selects[k->role] & 1u << i)
			buf_printf(&may, "%s%s", may.len ? ", " : "", kube_sd_kinds[i].role);
	size_t mark = config_enter(c, "selectors");
	for (size_t i = 0; i < k->selectors.n && !rc; i++) {
		size_t inner = config_enter_index(c, i);
		if (!(selects[k->role] & 1u << s[i].role))
			rc = config_error(c, list->items[i], e, "role %s takes selectors of these roles only: %s",
					  kube_sd_kinds[k->role].role, may.ptr);
		else if (seen & 1u << s[i].role)
			rc = config_error(c, list->items[i], e, "a second selector of role %s", kube_sd_kinds[s[i].role].role);
		seen |= 1u << s[i].role;
		config_leave(c, inner);
	}
	config_leave(c, mark);
	buf_free(&may);
	return rc;
}

/* Names become part of a path. */
static int check_names(struct config_ctx *c, const struct config_node *n, const struct kube_sd_config *k, struct err *e)
{
	const struct config_node *list = config_get(config_get(n, "namespaces"), "names");
	size_t mark = config_enter(c, "namespaces"), inner = config_enter(c, "names");
	int rc = 0;
	for (size_t i = 0; i < k->namespaces.names.n && !rc; i++) {
		const char *name = k->namespaces.names.v[i];
		if (!*name || strlen(name) > 63 || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")])
			rc = config_error(c, list && list->type == CONFIG_NODE_LIST ? list->items[i] : n, e,
					  "\"%s\" is not the name of a namespace", name);
	}
	config_leave(c, inner);
	config_leave(c, mark);
	return rc;
}

int kube_sd_check(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct kube_sd_config *k = at;
	struct http_config none = { 0 };
	int rc = config_decode(c, &config_http_table, NULL, &none, e);
	if (rc)
		return rc;
	bool http = !config_same(&config_http_table, &none, &k->http);

	if (k->api_server && k->kubeconfig_file)
		return at_key(c, n, "kubeconfig_file", e, "api_server and kubeconfig_file are both given; one is enough");
	if (k->kubeconfig_file && http)
		return at_key(c, n, "kubeconfig_file", e, "the kubeconfig says who we are: no HTTP client fields beside it");
	if (!k->api_server && http)
		return config_error(c, n, e, "HTTP client fields need the URL of the server: api_server");
	if (k->api_server && k->namespaces.own)
		return at_key(c, n, "namespaces", e, "own_namespace means the namespace of this pod; it cannot be combined with api_server");
	if (k->kubeconfig_file && k->namespaces.own)
		return at_key(c, n, "namespaces", e, "own_namespace means the namespace of this pod; it cannot be combined with kubeconfig_file");
	if (k->api_server && strncmp(k->api_server, "http://", 7) != 0 && strncmp(k->api_server, "https://", 8) != 0)
		return at_key(c, n, "api_server", e, "not a URL: http:// or https:// is wanted");
	rc = check_selectors(c, n, k, e);
	return rc ? rc : check_names(c, n, k, e);
}

static const struct config_field rows[] = {
	FIELD("api_server", CONFIG_STRING, api_server, NULL),
	FIELD("kubeconfig_file", CONFIG_PATH, kubeconfig_file, NULL),
	FIELD("role", CONFIG_ENUM, role, NULL, CONFIG_REQUIRED, .words = KUBE_SD_ROLES),
	FIELD("namespaces", CONFIG_STRUCT, namespaces, .table = &kube_sd_namespace_table),
	FIELD("selectors", CONFIG_STRUCTS, selectors, .table = &selector_table),
	FIELD("attach_metadata", CONFIG_STRUCT, attach, .table = &attach_table),
	{ NULL, CONFIG_INLINE, offsetof(struct kube_sd_config, http), .table = &config_http_table },
};
static const struct config_table table = CONFIG_TABLE(struct kube_sd_config, rows, kube_sd_check);

int kube_sd_decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	struct kube_sd_config *k = arena_calloc(c->arena, 1, sizeof *k);
	*ret = k;
	if (!k)
		return config_error(c, n, e, "too large");
	return config_decode(c, &table, n, k, e);
}

bool kube_sd_same(const void *a, const void *b)
{
	return config_same(&table, a, b);
}
