/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes_sd_configs: what an item says (sd_kubernetes.c), and the provider that it makes (sd_kubernetes_run.c). */
#ifndef PYRRHA_DISCOVERY_SD_KUBERNETES_H
#define PYRRHA_DISCOVERY_SD_KUBERNETES_H

#include "config/config_http.h"
#include "discovery/sd_kubernetes_groups.h"

struct kube_sd_selector {
	int role;
	const char *label, *field; /* NULL = none */
};

struct kube_sd_config {
	const char *api_server, *kubeconfig_file; /* at most one; none: as the pod that this runs in */
	struct http_config http;
	int role;                    /* enum kube_sd_kind */
	struct {
		bool own;
		struct config_strings names;
	} namespaces;                /* none: all */
	struct config_list selectors; /* struct kube_sd_selector */
	struct kube_sd_attach attach;
};

/* Whether the API server would understand a selector ("app in (a,b),!canary", "spec.nodeName=n1"). */
int kube_sd_check_label_selector(const char *s, struct err *e) MUST_USE;
int kube_sd_check_field_selector(const char *s, struct err *e) MUST_USE;

/* The provider. */
int kube_sd_start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e);
void kube_sd_cancel(struct discovery_provider *p);
void kube_sd_stop(struct discovery_provider *p);

extern const struct discovery_ops sd_kubernetes;

#endif
