/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/accounts.h"

#include "tsdb/tsdb.h"

#define ACCOUNTS_MAX 100000
#define LEAST_BUDGET ((uint64_t)16 << 20) /* a smaller one would leave no room for any program */

void accounts_release(struct accounts *a)
{
	vec_free(&a->v);
	map_free(&a->index);
}

uint64_t accounts_target(struct labels series)
{
	return hash_u64(hash_view(labels_get(series, VIEW("job"))) ^ hash_u64(hash_view(labels_get(series, VIEW("instance")))));
}

struct account *accounts_get(struct accounts *a, uint64_t target)
{
	uint32_t i;
	for (size_t at = map_start(&a->index, target); map_probe(&a->index, target, &at, &i);)
		if (a->v.v[i].target == target)
			return &a->v.v[i];
	if (a->v.n >= ACCOUNTS_MAX)
		return &a->v.v[ACCOUNTS_MAX - 1];
	map_insert(&a->index, target, (uint32_t)a->v.n);
	struct account *x = vec_add(&a->v);
	*x = (struct account){ .target = target };
	return x;
}

static size_t left(size_t most, size_t used)
{
	return most > used ? most - used : 0;
}

struct symbols_room accounts_room(const struct accounts *a, const struct account *x, const struct symbols *s,
				  const struct tsdb_options *o)
{
	uint64_t budget = MAX(o->dictionary_bytes, LEAST_BUDGET), there = symbols_bytes(s), share = budget / 4;
	if (there >= budget / 2)
		share = budget / 2 / a->v.n;
	return (struct symbols_room){ .functions = left(o->max_target_functions, x->used.functions),
				      .locations = left(o->max_target_locations, x->used.locations),
				      .stacks = left(o->max_target_stacks, x->used.stacks),
				      .bytes = left(share, x->used.bytes) };
}

bool accounts_has_series(const struct accounts *a, const struct account *x, size_t counted, const struct tsdb_options *o)
{
	size_t half = o->max_series / 2;
	return counted < o->max_series && (counted < half || a->v.n < 2 || x->series < MAX(half / a->v.n, 1));
}

void account_add(struct account *x, const struct symbols_room *before, const struct symbols *s)
{
	struct symbols_room now = symbols_used(s);
	x->used.functions += now.functions - before->functions;
	x->used.locations += now.locations - before->locations;
	x->used.stacks += now.stacks - before->stacks;
	x->used.bytes += now.bytes - before->bytes;
}
