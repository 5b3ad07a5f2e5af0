/* SPDX-License-Identifier: Apache-2.0 */
/* The recent series of a split endpoint, so that after a restart idle ones are still reported: a part of the cursor's note.
 *
 *	varint strings  { varint length, bytes } ...
 *	{ varint age  varint labels  { varint name, varint value } ... } ...     name, value: numbers of strings; until the end
 *
 * The age of a group of labels is how long before the cursor's end a profile had it last, ms. */
#ifndef PYRRHA_SCRAPER_SEEN_H
#define PYRRHA_SCRAPER_SEEN_H

#include "scraper/internal.h"

#define SEEN_MAX 60000 /* bytes; what is more is not kept at all */

/* Appends the groups that are not older than SPLIT_IDLE_MS at t_ms. */
void seen_encode(const struct series_set *set, uint64_t serial, int64_t t_ms, struct buf *out);
/* Labels are in the arena, their strings in bytes. Stops at malformed input, or when group returns false. */
void seen_decode(struct view bytes, struct arena *a, bool (*group)(void *arg, int64_t age_ms, struct labels l), void *arg);

#endif
