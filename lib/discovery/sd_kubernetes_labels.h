/* SPDX-License-Identifier: Apache-2.0 */
/* A group under construction. The labels of a set are added one after the other; a later one of the same name wins, also an empty one.
 * A finished set is sorted and has no empty values. For sd_kubernetes_groups.c and sd_kubernetes_endpoints.c. */
#ifndef PYRRHA_DISCOVERY_SD_KUBERNETES_LABELS_H
#define PYRRHA_DISCOVERY_SD_KUBERNETES_LABELS_H

#include "base/vec.h"
#include "discovery/sd_kubernetes_groups.h"

#define META "__meta_kubernetes_"

struct kube_sd_label {
	struct label label;
	size_t order;
};

struct kube_sd_build {
	const struct kube_sd_world *w;
	struct arena *arena;
	VEC(struct kube_sd_label) set;   /* the current set */
	VEC(struct labels) targets;
	size_t bytes;                    /* of finished sets, as a copy of them will have */
	bool too_large;
};

/* name: with its prefix, valid as long as the group. */
void kube_sd_put(struct kube_sd_build *b, const char *name, struct view value);
void kube_sd_put_all(struct kube_sd_build *b, struct labels l);
void kube_sd_put_int(struct kube_sd_build *b, const char *name, int64_t v);
void kube_sd_put_bool(struct kube_sd_build *b, const char *name, bool v);
/* META prefix KEY = value, the key as a label's name may be; present: META prefix-of-presence KEY = "true" as well, or NULL. */
void kube_sd_put_key(struct kube_sd_build *b, const char *prefix, const char *present, struct view key, struct view value);
/* __address__; port < 0 = none. */
void kube_sd_put_address(struct kube_sd_build *b, struct view host, int64_t port);
/* Labels that all objects have: name, labels, annotations. with_name: META KIND_name as well. */
void kube_sd_put_meta(struct kube_sd_build *b, enum kube_sd_kind kind, const json_t *object, bool with_name);
/* The labels of another object, if it is there. */
void kube_sd_put_node(struct kube_sd_build *b, struct view name);
void kube_sd_put_namespace(struct kube_sd_build *b, struct view name);
/* META pod_*: of the pod, without its containers. */
void kube_sd_put_pod(struct kube_sd_build *b, const json_t *pod);
/* Ends the current set and begins the next one. */
struct labels kube_sd_finish(struct kube_sd_build *b);
void kube_sd_target(struct kube_sd_build *b);

/* The containers of a pod, then its init containers. */
struct kube_sd_container {
	const json_t *container;
	bool init;
};
bool kube_sd_container(const json_t *pod, size_t i, struct kube_sd_container *ret);

/* "" if there is no such member; by path as kube_get. */
struct view kube_sd_text(const json_t *object, const char *path);
struct view kube_sd_lower(struct kube_sd_build *b, struct view v); /* ASCII, in the arena */
const json_t *kube_sd_find(const struct kube_sd_build *b, enum kube_sd_kind kind, struct view ns, struct view name);

/* sd_kubernetes_endpoints.c: they put the group's labels, then its targets; the labels are finished into *ret. */
void kube_sd_endpoints(struct kube_sd_build *b, const json_t *object, struct labels *ret);
void kube_sd_endpointslice(struct kube_sd_build *b, const json_t *object, struct labels *ret);

#endif
