/* SPDX-License-Identifier: Apache-2.0 */
/* From an object of a cluster to a job. The author of the object may write objects in one namespace only, and gets no further: see
 * struct confinement for limits that hold whatever the object says. Pure: it does not even log. */
#ifndef PYRRHA_SCRAPER_OBJECT_CONFIG_H
#define PYRRHA_SCRAPER_OBJECT_CONFIG_H

#include "discovery/kube_objects.h"
#include "scraper/config/object_sources.h"

#define OBJECT_TARGETS_MAX 1000   /* of one object; like target_limit, all or none */
#define OBJECT_RULES_MAX 100      /* relabelConfigs */
#define OBJECT_TYPES_MAX 32       /* entries of pprofConfig */
#define OBJECT_PARAMS_MAX 64
#define OBJECT_INTERVAL_MIN_MS 1000 /* or that of `global`, if it is shorter */
#define OBJECT_TIMEOUT_MAX_MS 3600000

/* A configuration of one job, `namespace/name`, with the inherited parts of base's global. Depends on nothing of base or source
 * afterwards. The error names object and field. Returns owned. */
int object_config_parse(struct scraper_config **ret, const struct kube_object *o, const struct object_source *source,
			const struct scraper_config *base, struct err *e) MUST_USE;

#endif
