/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a Kubernetes API server for kubernetes_sd_configs: the kinds, the paths of their lists, and the stored members of each.
 * Only members that labels use are stored, as compact JSON in one piece. A pod of 10 kB keeps about 1. */
#ifndef PYRRHA_DISCOVERY_SD_KUBERNETES_OBJECTS_H
#define PYRRHA_DISCOVERY_SD_KUBERNETES_OBJECTS_H

#include <jansson.h>

#include "base/buf.h"

/* The first six are roles, in the order of KUBE_SD_ROLES. */
enum kube_sd_kind {
	KUBE_SD_NODE,
	KUBE_SD_SERVICE,
	KUBE_SD_POD,
	KUBE_SD_ENDPOINTS,
	KUBE_SD_ENDPOINTSLICE,
	KUBE_SD_INGRESS,
	KUBE_SD_NAMESPACE,
	KUBE_SD_REPLICASET,
	KUBE_SD_JOB,
	KUBE_SD_KINDS_
};
#define KUBE_SD_ROLES "node|service|pod|endpoints|endpointslice|ingress"

struct kube_sd_keep;

struct kube_sd_kind_info {
	const char *role;         /* as KUBE_SD_ROLES and meta labels spell it */
	const char *source;       /* what sources of groups begin with: "svc" */
	const char *group;        /* "/apis/apps/v1" */
	const char *resource;     /* "replicasets" */
	bool namespaced;
	const struct kube_sd_keep *keep;
	const struct kube_sd_keep *keep_attached; /* of an object that only adds labels to others */
};
extern const struct kube_sd_kind_info kube_sd_kinds[KUBE_SD_KINDS_];

/* "/api/v1/namespaces/NS/pods"; ns NULL = all, and for kinds that have none. */
void kube_sd_path(enum kube_sd_kind kind, const char *ns, struct buf *out);
/* The stored form of an object, as JSON. Members are always in the same order, so equal texts mean that nothing changed. */
void kube_sd_pack(enum kube_sd_kind kind, bool attached, const json_t *object, struct buf *out);
/* "namespace/name", or "name" if the object has no namespace. False: it has no name. */
bool kube_sd_key(const json_t *object, struct buf *out);

#endif
