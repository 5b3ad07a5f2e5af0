/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/names.h"

#include <stdlib.h>

struct names *names_ref(struct names *n)
{
	if (n)
		atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
	return n;
}

void names_unref(struct names *n)
{
	if (!n || atomic_fetch_sub(&n->refs, 1) != 1)
		return;
	vec_free(&n->v);
	vec_free(&n->facts);
	free(n);
}

void names_map(const struct names *n, struct symbols_map *m)
{
	for (size_t i = 0; n && i < n->v.n; i++)
		symbols_map_location_as(m, n->v.v[i].location, n->v.v[i].as);
}
