/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a cluster that define scrape jobs: ProfileScrapeConfig (pyrrha.dev/v1alpha1) and ParcaScrapeConfig
 * (parca.ricoberger.de/v1alpha1) of one API server, in some namespaces or all. Read and watched, never written. Their spec is not
 * interpreted here: it is kept as JSON. */
#ifndef PYRRHA_DISCOVERY_KUBE_OBJECTS_H
#define PYRRHA_DISCOVERY_KUBE_OBJECTS_H

#include "discovery/sd_kubernetes.h"

/* The objects of one namespace must not displace those of others: more than these are left out. */
#define KUBE_OBJECT_BYTES_MAX ((size_t)64 << 10) /* of one spec */
#define KUBE_OBJECTS_PER_NAMESPACE 200
#define KUBE_OBJECTS_MAX 10000

enum kube_object_kind { KUBE_PROFILE_SCRAPE_CONFIG, KUBE_PARCA_SCRAPE_CONFIG, KUBE_OBJECT_KINDS_ };

const char *kube_object_kind_name(enum kube_object_kind kind); /* "ProfileScrapeConfig" */

struct kube_object {
	enum kube_object_kind kind;
	const char *namespace, *name;
	const char *spec;    /* JSON; NULL: it is not available, problem says why */
	const char *problem;
};

struct kube_objects;

/* Subscribes, without waiting for the network. c is borrowed until kube_objects_stop. changed is called, from any thread, when objects
 * have changed, all lists were read once, or a problem began or ended; it must not call back. */
int kube_objects_start(struct kube_objects **ret, const struct kube_sd_config *c, void (*changed)(void *arg), void *arg,
		       struct err *e) MUST_USE;
/* Begins its end without waiting for it: nothing is called afterwards, and kube_objects_stop has to follow. For callers with many.
 * NULL does nothing. */
void kube_objects_cancel(struct kube_objects *o);
/* May take a second. NULL does nothing. */
void kube_objects_stop(struct kube_objects *o);
/* All of them, in no order, lent for the duration of the call, under a lock. */
void kube_objects_each(struct kube_objects *o, void (*fn)(void *arg, const struct kube_object *object), void *arg);
/* Whether each list was read once, or cannot be now: its CRD is not installed, or there is a problem. */
bool kube_objects_ready(struct kube_objects *o);
/* The problem of the source itself, owned; NULL = none. */
char *kube_objects_problem(struct kube_objects *o) MUST_USE;

#endif
