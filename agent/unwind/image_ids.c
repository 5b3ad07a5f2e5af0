/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/image_ids.h"

#include <bpf/bpf.h>
#include <stdlib.h>

#include "agent/kernel/kernel_procs.h"
#include "agent/unwind/extents.h"
#include "base/alloc.h"

uint32_t image_ids_flags(const struct image_ids *ids)
{
	return ids->wiping.n ? 0 : UNWIND_PROC_CACHED;
}

void image_ids_init(struct image_ids *ids, struct unwind_proc *procs, int cache_fd)
{
	*ids = (struct image_ids){ .next = IMAGE_FIRST, .procs = procs, .cache_fd = cache_fd };
}

void image_ids_release(struct image_ids *ids)
{
	vec_free(&ids->resting);
	vec_free(&ids->wiping);
	vec_free(&ids->free);
}

static bool wipe(const struct image_ids *ids)
{
	uint32_t zero = 0;
	bool ok = true;

	if (ids->cache_fd >= 0) {
		AUTOFREE uint64_t *nothing = xcalloc(RULE_CACHE, sizeof *nothing);
		ok = bpf_map_update_elem(ids->cache_fd, &zero, nothing, BPF_ANY) == 0;
	}
	return ok;
}

/* Moves numbers on their way. */
static void advance(struct image_ids *ids, int64_t now_ns)
{
	if (ids->wiping.n && now_ns - ids->wiping_ns >= REUSE_NS && wipe(ids)) {
		for (size_t i = 0; i < ids->wiping.n; i++)
			vec_push(&ids->free, ids->wiping.v[i]);
		ids->wiping.n = 0;
		kernel_procs_flag(ids->procs, UNWIND_PROC_CACHED, true);
	}
	if (!ids->wiping.n && ids->resting.n >= IDS_WIPE) {
		kernel_procs_flag(ids->procs, UNWIND_PROC_CACHED, false);
		ids->wiping_ns = now_ns;
		for (size_t i = 0; i < ids->resting.n; i++)
			vec_push(&ids->wiping, ids->resting.v[i]);
		ids->resting.n = 0;
	}
}

uint16_t image_ids_take(struct image_ids *ids, int64_t now_ns)
{
	advance(ids, now_ns);
	if (ids->free.n)
		return ids->free.v[--ids->free.n];
	return ids->next < IMAGES_MAX ? (uint16_t)ids->next++ : 0;
}

void image_ids_give(struct image_ids *ids, uint16_t id, int64_t now_ns)
{
	vec_push(&ids->resting, id);
	advance(ids, now_ns);
}
