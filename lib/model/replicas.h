/* SPDX-License-Identifier: Apache-2.0 */
/* One series out of what several have recorded of it: replicas that scrape the same targets, servers that share the scraping. Pure functions over
 * lists that one view or several have returned. Any thread.
 *
 *	replica 0    ██▒▒▒▒▒▒██▒▒▒▒▒▒          measured (█) and covered (▒) time before each stamp
 *	replica 1        ▒▒██▒▒▒▒▒▒██▒▒
 *	one series   ██▒▒▒▒██▒▒██▒▒▒▒██        each covers the time since the one before
 */
#ifndef PYRRHA_MODEL_REPLICAS_H
#define PYRRHA_MODEL_REPLICAS_H

#include "model/source.h"

/* The profiles of one replica in order of time; borrowed. */
struct replica_profiles {
	const struct source_profile *v;
	size_t n;
};

/* The samples of one holder of a float series in order of time; borrowed. */
struct replica_points {
	const struct point *v;
	size_t n;
};

/* The profiles of n replicas as one list in order of time. A profile whose measured span overlaps that of one already in the list is left out; of two
 * with one stamp the first replica's stays. A profile that was measured for a part of its cover represents only the time since the one before it,
 * and its weight decreases with that. The list has a marker only where no replica goes on. *ret and *ret_replica are malloc'd: the profiles, and
 * which replica each is of. */
void replicas_join_profiles(const struct replica_profiles *r, size_t n, struct source_profile **ret, uint32_t **ret_replica, size_t *ret_n);

/* The samples of n holders as one list in order of time: of one stamp the first holder's value. A stale marker is left out while another holder goes
 * on. *ret is malloc'd. */
void replicas_join_points(const struct replica_points *r, size_t n, struct point **ret, size_t *ret_n);

#endif
