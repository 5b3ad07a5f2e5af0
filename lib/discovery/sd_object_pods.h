/* SPDX-License-Identifier: Apache-2.0 */
/* The pods that an object of a cluster selects in its own namespace: a target for each port of their containers that has the given
 * name or number. It has no key in a scrape_config: a job that comes from an object is made with it. */
#ifndef PYRRHA_DISCOVERY_SD_OBJECT_PODS_H
#define PYRRHA_DISCOVERY_SD_OBJECT_PODS_H

#include "discovery/sd_kubernetes.h"

/* In the order of the words. */
enum kube_operator { KUBE_IN, KUBE_NOT_IN, KUBE_EXISTS, KUBE_DOES_NOT_EXIST };
#define KUBE_OPERATORS "In|NotIn|Exists|DoesNotExist"

struct kube_requirement {
	const char *key;
	int op;                       /* enum kube_operator */
	struct config_strings values; /* of In and NotIn */
};

/* A LabelSelector: all of it has to hold; nothing in it selects everything. */
struct kube_label_selector {
	struct config_map match_labels;
	struct config_list match_expressions; /* struct kube_requirement */
};

/* matchLabels and matchExpressions, as Kubernetes spells and checks them. */
extern const struct config_table kube_label_selector_table;
/* Whether labels, an object of strings (NULL = none), are selected. */
bool kube_label_selector_matches(const struct kube_label_selector *s, const json_t *labels);

struct object_pods_config {
	struct kube_sd_config source; /* which API server; its other fields are not used here */
	const char *namespace;
	struct kube_label_selector selector;
	const char *port;             /* name; NULL: port_number */
	int64_t port_number;
};

/* For all fields; config is a struct object_pods_config. Targets have the pod role's labels, and namespace, pod, container and
 * endpoint (the port as the object says it). Pods that have finished have none. */
extern const struct discovery_ops sd_object_pods;

#endif
