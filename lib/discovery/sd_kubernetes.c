/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes_sd_configs as a kind of discovery. */
#include "discovery/sd_kubernetes.h"

static void name(const void *config, struct buf *out)
{
	const struct kube_sd_config *k = config;
	if (k->api_server)
		config_redact_url(view_of(k->api_server), out);
	else
		buf_puts(out, k->kubeconfig_file ? k->kubeconfig_file : "in-cluster");
}

static const char *role(const void *config)
{
	return kube_sd_kinds[((const struct kube_sd_config *)config)->role].role;
}

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	return kube_sd_start(ret, &sd_kubernetes, config, emit, e);
}

const struct discovery_ops sd_kubernetes = { .key = "kubernetes_sd_configs", .decode = kube_sd_decode, .same = kube_sd_same,
					     .start = start, .stop = kube_sd_stop, .cancel = kube_sd_cancel,
					     .name = name, .role = role };
