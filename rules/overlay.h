/* SPDX-License-Identifier: Apache-2.0 */
/* A storage as it would be if rules had written to it: what they write is kept in memory, and read together with what is stored.
 * Nothing is stored. Notes are dropped. */
#ifndef PYRRHA_RULES_OVERLAY_H
#define PYRRHA_RULES_OVERLAY_H

#include "model/sink.h"
#include "model/source.h"

struct overlay;

/* What is stored under such names was written by who knows which rules, and is not seen. Borrowed. */
struct overlay_hidden {
	const struct view *names;
	size_t n_names;
	const struct view *alerts; /* ALERTS and ALERTS_FOR_STATE of these */
	size_t n_alerts;
};

/* At most so many samples, stacks of profiles included, are kept, then the sink refuses (ERR_LIMIT). Borrows under. */
struct overlay *overlay_new(struct source *under, const struct overlay_hidden *h, size_t max_samples);
void overlay_free(struct overlay *o);
/* While nobody appends, any number of threads may read. */
struct source *overlay_source(struct overlay *o);
struct sink *overlay_sink(struct overlay *o);

#endif
