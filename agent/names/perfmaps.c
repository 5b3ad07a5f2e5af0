/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/perfmaps.h"

#include "agent/names/perfmap.h"
#include "agent/names/perfmap_helper.h"
#include "base/clock.h"

#define PERFMAPS_MAX 64
#define PERFMAPS_BYTES_MAX ((size_t)6 << 20)
#define PERFMAPS_COPIES_MAX ((uint64_t)256 << 20) /* in temporary files */
/* Compilers append continuously: look for new entries, but not for every address of one profile. */
#define UPDATE_MS 1000

struct process_map {
	struct process_info *process; /* reference held */
	struct perfmap map;
	int64_t updated_mono_ms, used_mono_ms; /* updated -1: never */
};

struct perfmaps {
	struct perfmap_helper *helper;
	VEC(struct process_map *) all;
};

struct perfmaps *perfmaps_new(void)
{
	struct perfmaps *x = NEW(struct perfmaps);
	x->helper = perfmap_helper_new();
	return x;
}

static void free_map(struct process_map *m)
{
	perfmap_free(&m->map);
	process_info_unref(m->process);
	free(m);
}

void perfmaps_free(struct perfmaps *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->all.n; i++)
		free_map(x->all.v[i]);
	vec_free(&x->all);
	perfmap_helper_free(x->helper);
	free(x);
}

size_t perfmaps_bytes(const struct perfmaps *x)
{
	size_t n = x->all.n * sizeof **x->all.v;
	for (size_t i = 0; i < x->all.n; i++)
		n += perfmap_bytes(&x->all.v[i]->map);
	return n;
}

static uint64_t copied_bytes(const struct perfmaps *x)
{
	uint64_t n = 0;
	for (size_t i = 0; i < x->all.n; i++)
		n += x->all.v[i]->map.copied;
	return n;
}

const uint64_t *perfmaps_counts(const struct perfmaps *x)
{
	return perfmap_helper_counts(x->helper);
}

/* Removes the least recently used one, but not the one in use. */
static void drop_one(struct perfmaps *x, const struct process_map *in_use)
{
	size_t oldest = SIZE_MAX;
	for (size_t i = 0; i < x->all.n; i++)
		if (x->all.v[i] != in_use &&
		    (oldest == SIZE_MAX || x->all.v[i]->used_mono_ms < x->all.v[oldest]->used_mono_ms))
			oldest = i;
	if (oldest == SIZE_MAX)
		return;
	free_map(x->all.v[oldest]);
	x->all.v[oldest] = x->all.v[--x->all.n];
}

static struct process_map *map_of(struct perfmaps *x, struct process_info *p)
{
	for (size_t i = 0; i < x->all.n; i++)
		if (x->all.v[i]->process == p)
			return x->all.v[i];
	if (x->all.n == PERFMAPS_MAX)
		drop_one(x, NULL);
	struct process_map *m = NEW(struct process_map);
	perfmap_init(&m->map);
	m->process = process_info_ref(p);
	m->updated_mono_ms = -1;
	vec_push(&x->all, m);
	return m;
}

bool perfmaps_lookup(struct perfmaps *x, struct process_info *p, uint64_t address, struct buf *name)
{
	struct process_map *m = map_of(x, p);
	int64_t now = m->used_mono_ms = clock_mono_ms();
	if (perfmap_lookup(&m->map, address, name))
		return true;
	if (m->updated_mono_ms >= 0 && now - m->updated_mono_ms <= UPDATE_MS)
		return false;
	perfmap_update(&m->map, x->helper, p->pid);
	m->updated_mono_ms = clock_mono_ms();
	while (x->all.n > 1 && (perfmaps_bytes(x) > PERFMAPS_BYTES_MAX || copied_bytes(x) > PERFMAPS_COPIES_MAX))
		drop_one(x, m);
	return perfmap_lookup(&m->map, address, name);
}
