/* SPDX-License-Identifier: Apache-2.0 */
/* Stored groups, by the hash of their source, and the number of all their targets. Not thread-safe. */
#ifndef PYRRHA_DISCOVERY_GROUP_H
#define PYRRHA_DISCOVERY_GROUP_H

#include "base/map.h"
#include "discovery/discovery.h"

struct group_set {
	VEC(const struct discovery_group *) groups; /* one reference of each */
	struct map index;                           /* hash of source -> place in groups */
	size_t targets;
};

/* NULL if there is none. Borrowed. */
const struct discovery_group *group_set_get(const struct group_set *s, const char *source);
/* Copies g, or takes out that of its source if it has no targets. False: it was so already. */
bool group_set_put(struct group_set *s, const struct discovery_group *g);
/* The same of a group that is counted: it is ref'd instead of copied. */
bool group_set_put_counted(struct group_set *s, const struct discovery_group *g);
void group_set_free(struct group_set *s);

#endif
