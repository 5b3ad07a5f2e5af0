/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of targets from Kubernetes objects: the labels of each role, as Prometheus 3.14 makes them. Pure functions of the
 * object and of the others that a lookup finds: nothing here asks a server or remembers anything.
 *
 *	__meta_kubernetes_ROLE_name                            the object
 *	__meta_kubernetes_ROLE_label_K, _labelpresent_K        each of its labels; the same for annotations
 *	__meta_kubernetes_...                                  what the role has besides
 *
 * Characters of K that are not in [a-zA-Z0-9_] become '_'. */
#ifndef PYRRHA_DISCOVERY_SD_KUBERNETES_GROUPS_H
#define PYRRHA_DISCOVERY_SD_KUBERNETES_GROUPS_H

#include "discovery/discovery.h"
#include "discovery/sd_kubernetes_objects.h"

/* Limit of all labels of one group, in bytes: each target of a service repeats its pod's labels. */
#define KUBE_SD_GROUP_BYTES_MAX ((size_t)64 << 20)

struct kube_sd_attach {
	bool node, namespace, deployment, job, cronjob;
};

struct kube_sd_world {
	struct kube_sd_attach attach;
	/* The object of that name, borrowed until the group is made; NULL = none. ns is empty for kinds without. */
	const json_t *(*find)(void *arg, enum kube_sd_kind kind, struct view ns, struct view name);
	void *arg;
};

/* Makes the group of an object (packed or whole) of a role's kind, in the arena. Labels borrow from the object and from the objects
 * found. ret->source is not set. ERR_NOT_FOUND: a node without any address; its earlier group stays. ERR_LIMIT: more than
 * KUBE_SD_GROUP_BYTES_MAX. */
int kube_sd_group(enum kube_sd_kind role, const json_t *object, const struct kube_sd_world *w, struct arena *a,
		  struct discovery_group *ret, struct err *e) MUST_USE;

#endif
