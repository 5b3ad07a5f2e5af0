/* SPDX-License-Identifier: Apache-2.0 */
/* The pods of this node, from the API server: kept up to date by threads of its own, looked up by the labeler. */
#ifndef PYRRHA_AGENT_PODS_H
#define PYRRHA_AGENT_PODS_H

#include "kube/kube.h"
#include "model/labels.h"

struct pods;

struct pods_options {
	struct kube_client *client;  /* taken */
	const char *node;            /* the node's name in the cluster */
	uint32_t pause_ms;           /* kube.h; 0 = the default */
};

/* The known data of a container: all in the arena, empty = not known. */
struct pod_container {
	struct view pod, namespace_, container, image;
	struct view workload;        /* the name that outlives a deploy: of the Deployment, not of its ReplicaSet */
	struct labels meta;          /* __meta_kubernetes_*, of pod, container and node */
	bool started, all_started;   /* the API server knows the id of one, of each of the pod's containers */
};

int pods_start(struct pods **ret, const struct pods_options *o, struct err *e) MUST_USE;
/* Ends its threads; takes up to a second. */
void pods_stop(struct pods *p);
/* The container of that id, else the pod of that uid (pod_uid may be ""). False: neither is known. Any thread. */
bool pods_find(struct pods *p, struct view container_id, struct view pod_uid, struct arena *a, struct pod_container *ret);
/* Whether the node's pods were listed: a pod that is not known is a new one then. Any thread. */
bool pods_listed(const struct pods *p);
/* Changes whenever a look-up may answer something else. */
uint64_t pods_version(const struct pods *p);
/* Pods that are known now; problems with the API server so far. */
void pods_stats(struct pods *p, size_t *ret_pods, uint64_t *ret_problems);

/* For tests: as if the API server had reported it. */
struct pods *pods_new(void);
void pods_put(struct pods *p, const json_t *pod);
void pods_del(struct pods *p, const json_t *pod);
void pods_list_ends(struct pods *p);

#endif
