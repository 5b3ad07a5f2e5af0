/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of target groups as files and HTTP servers spell them: [{"targets": ["host:port"], "labels": {"name": "value"}}].
 * Other keys are errors. All of a list counts, or nothing. */
#ifndef PYRRHA_DISCOVERY_TARGET_GROUPS_H
#define PYRRHA_DISCOVERY_TARGET_GROUPS_H

#include "base/vec.h"
#include "discovery/discovery.h"

#define TARGET_GROUPS_MAX_BYTES ((size_t)64 << 20) /* of JSON; of YAML CONFIG_MAX_BYTES */
#define TARGET_GROUPS_MAX ((size_t)500000)         /* targets, and groups, of one list */

struct target_groups {
	VEC(const struct discovery_group *) v; /* one reference of each; those without targets as well */
};

/* The source's name: groups are of source "NAME:0", "NAME:1" ..., have label=value, and messages begin with NAME. */
struct target_origin {
	const char *name;
	const char *label, *value;
};

/* *ret is zeroed, or untouched on failure. Returns owned: target_groups_release. */
int target_groups_json(struct view text, const struct target_origin *o, struct target_groups *ret, struct err *e) MUST_USE;
int target_groups_yaml(struct view text, const struct target_origin *o, struct target_groups *ret, struct err *e) MUST_USE;
void target_groups_release(struct target_groups *g);

#endif
