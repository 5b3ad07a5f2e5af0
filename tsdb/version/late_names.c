/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/late_names.h"

#include <stdlib.h>

struct late_names *late_names_ref(struct late_names *n)
{
	if (n)
		atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
	return n;
}

void late_names_unref(struct late_names *n)
{
	if (!n || atomic_fetch_sub(&n->refs, 1) != 1)
		return;
	vec_free(&n->v);
	vec_free(&n->facts);
	free(n);
}

void late_names_map(const struct late_names *n, struct symbols_map *m)
{
	for (size_t i = 0; n && i < n->v.n; i++)
		symbols_map_location_as(m, n->v.v[i].location, n->v.v[i].as);
}

uint64_t late_names_number(const struct late_names *n)
{
	uint64_t h = 0;
	for (size_t i = 0; n && i < n->v.n; i++)
		h = hash_u64(h ^ ((uint64_t)n->v.v[i].location << 32 | n->v.v[i].as)) | 1;
	return h;
}
