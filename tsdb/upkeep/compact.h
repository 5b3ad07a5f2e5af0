/* SPDX-License-Identifier: Apache-2.0 */
/* One part of the several of an hour. Private. */
#ifndef PYRRHA_TSDB_COMPACT_H
#define PYRRHA_TSDB_COMPACT_H

#include "tsdb/part/part.h"
#include "tsdb/version/db.h"

/* Makes one part of the several of an hour, if nothing came for a while; at most one hour, and not too often (now:
 * all, at once). */
int compact_due(struct tsdb *db, bool now, int64_t until_mono_ms, struct err *e) MUST_USE;
/* Brings the rows of parts of one hour back into a window, without hidden ones. ret_lost NULL: a damaged value is an error; else its
 * series is left out and added to *ret_lost. */
int compact_refill(const struct pstate *s, struct part *const *from, size_t n, struct window *w, uint64_t *ret_lost, struct err *e) MUST_USE;
/* All symbols that p has in parts: where those of a part cannot be read, one made of it has them all. */
void compact_all_symbols(struct partition *p, struct buf *b);
/* Whether whoever does several steps of compacting or rewriting, until a moment, is to end. Then these two return 1: there is more. */
static inline bool clean_is_over(struct tsdb *db, int64_t until_mono_ms)
{
	return atomic_load(&db->stopping) || clock_mono_ms() >= until_mono_ms;
}

#endif
