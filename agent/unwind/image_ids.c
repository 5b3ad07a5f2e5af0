/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/image_ids.h"

void image_ids_init(struct image_ids *ids, struct cache_wiper *wiper)
{
	*ids = (struct image_ids){ .next = IMAGE_FIRST, .wiper = wiper };
}

void image_ids_release(struct image_ids *ids)
{
	vec_free(&ids->resting);
	vec_free(&ids->wiping);
	vec_free(&ids->free);
}

/* Moves numbers on their way. */
static void advance(struct image_ids *ids, int64_t now_ns)
{
	cache_wiper_advance(ids->wiper, now_ns);
	if (ids->wiping.n && cache_wiper_done(ids->wiper, ids->wipe)) {
		for (size_t i = 0; i < ids->wiping.n; i++)
			vec_push(&ids->free, ids->wiping.v[i]);
		ids->wiping.n = 0;
	}
	if (!ids->wiping.n && ids->resting.n >= IDS_WIPE) {
		ids->wipe = cache_wiper_order(ids->wiper, now_ns);
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
