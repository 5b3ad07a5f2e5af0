/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes_sd_configs: what an item says (sd_kubernetes_config.c), and the provider that it makes (sd_kubernetes_run.c). */
#ifndef PYRRHA_DISCOVERY_SD_KUBERNETES_H
#define PYRRHA_DISCOVERY_SD_KUBERNETES_H

#include "config/config_http.h"
#include "discovery/sd_kubernetes_groups.h"
#include "kube/kube.h"

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

/* Mutually exclusive keys; for tables of a struct kube_sd_config. */
int kube_sd_check(struct config_ctx *c, const struct config_node *n, void *at, struct err *e) MUST_USE;
extern const struct config_table kube_sd_namespace_table;

/* The item's struct kube_sd_config, in the arena; whether two say the same. */
int kube_sd_decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e) MUST_USE;
bool kube_sd_same(const void *a, const void *b);

/* An item without role, selectors and attach_metadata: who we are to which server, and the namespaces (sd_kubernetes_source.c). */
int kube_sd_decode_source(struct config_ctx *c, const struct config_node *n, struct kube_sd_config **ret, struct err *e) MUST_USE;
bool kube_sd_same_source(const struct kube_sd_config *a, const struct kube_sd_config *b);
/* A copy of that in an arena without a limit. */
void kube_sd_copy_source(struct arena *a, const struct kube_sd_config *from, struct kube_sd_config *to);
/* The namespaces, each once, in the arena; none: all of them. own_namespace is read from the service account. */
int kube_sd_namespaces(const struct kube_sd_config *k, struct arena *a, struct config_strings *ret, struct err *e) MUST_USE;
/* kube_subscribe as that source. k is borrowed until kube_unsubscribe. */
int kube_sd_subscribe(struct kube_subscription **ret, const struct kube_sd_config *k, const char *path, const char *label_selector,
		      const char *field_selector, const struct kube_events *events, struct err *e) MUST_USE;

/* The provider. */
int kube_sd_start(struct discovery_provider **ret, const struct discovery_ops *ops, const void *config, const struct discovery_emit *emit,
		  struct err *e) MUST_USE;
void kube_sd_cancel(struct discovery_provider *p);
void kube_sd_stop(struct discovery_provider *p);

extern const struct discovery_ops sd_kubernetes;

#endif
