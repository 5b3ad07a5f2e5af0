/* SPDX-License-Identifier: Apache-2.0 */
/* A storage as it would be if rules had written to it: what they write is kept in memory, and read together with what is stored.
 * Nothing is stored. Notes are dropped. */
#ifndef PYRRHA_RULES_OVERLAY_H
#define PYRRHA_RULES_OVERLAY_H

#include "model/sink.h"
#include "model/source.h"

struct overlay;

/* Stored series under such names may come from other rules, and are hidden. Borrowed. */
struct overlay_hidden {
	const struct view *names;
	size_t n_names;
	const struct view *alerts; /* ALERTS and ALERTS_FOR_STATE of these */
	size_t n_alerts;
};

/* It keeps at most max_samples samples (each stack of a profile is one) and max_bytes bytes; beyond that the sink refuses with ERR_LIMIT. Borrows under. */
struct overlay *overlay_new(struct source *under, const struct overlay_hidden *h, size_t max_samples, uint64_t max_bytes);
void overlay_free(struct overlay *o);
/* While nothing is appended, any number of threads may read. */
struct source *overlay_source(struct overlay *o);
struct sink *overlay_sink(struct overlay *o);

#endif
