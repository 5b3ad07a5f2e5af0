/* SPDX-License-Identifier: Apache-2.0 */
/* Takes rows out of a window in memory, as if they had never come. */
#ifndef PYRRHA_TSDB_REMOVE_H
#define PYRRHA_TSDB_REMOVE_H

#include "tsdb/head/tombstone_fact.h"
#include "tsdb/head/window.h"

/* Removes what the fact names. Returns how many rows and points went. */
size_t remove_from_window(struct window *w, const struct tombstone_fact *f) REQUIRES(w->lock);

#endif
