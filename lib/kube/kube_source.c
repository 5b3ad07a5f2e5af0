/* SPDX-License-Identifier: Apache-2.0 */
/* Server and credentials as a value: it can be compared, copied, and made into a client. */
#include "kube/kube_private.h"

static bool said(const char *s)
{
	return s && *s;
}

static bool same_text(const char *a, const char *b)
{
	return said(a) == said(b) && (!said(a) || strcmp(a, b) == 0);
}

bool kube_source_same(const struct kube_source *a, const struct kube_source *b)
{
	static const struct http_config defaults = { .follow_redirects = true, .enable_http2 = true };
	if (!same_text(a->api_server, b->api_server))
		return false;
	if (said(a->api_server))
		return config_same(&config_http_table, a->http ? a->http : &defaults, b->http ? b->http : &defaults);
	return same_text(a->kubeconfig_file, b->kubeconfig_file) &&
	       (said(a->kubeconfig_file) || same_text(a->pod_dir, b->pod_dir));
}

int kube_client_of(struct kube_client **ret, const struct kube_source *s, struct err *e)
{
	if (said(s->api_server))
		return kube_client_new(ret, s->api_server, s->http, s->user_agent, e);
	if (said(s->kubeconfig_file))
		return kube_client_kubeconfig(ret, s->kubeconfig_file, NULL, s->user_agent, e);
	return kube_client_in_cluster(ret, said(s->pod_dir) ? s->pod_dir : NULL, s->user_agent, e);
}

const char *kube_text_copy(struct arena *a, const char *s)
{
	return said(s) ? arena_strndup(a, s, strlen(s)) : NULL;
}

struct kube_source kube_source_copy(struct arena *a, const struct kube_source *s)
{
	struct kube_source c = { .api_server = kube_text_copy(a, s->api_server),
				 .kubeconfig_file = kube_text_copy(a, s->kubeconfig_file),
				 .pod_dir = kube_text_copy(a, s->pod_dir), .user_agent = kube_text_copy(a, s->user_agent) };
	if (s->http) {
		struct http_config *h = arena_calloc(a, 1, sizeof *h);
		config_copy(&config_http_table, a, s->http, h);
		c.http = h;
	}
	return c;
}
