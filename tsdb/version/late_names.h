/* SPDX-License-Identifier: Apache-2.0 */
/* Names that arrive late. A location that came without lines gets those of another one at the same place of the same binary (build id,
 * address in its file). They come from a later profile of any series and partition, or from tsdb_name_location. Stored data does not
 * change: a fact in the head log (docs/format/head.md) says "read location L as location M of this dictionary", and readers do so:
 *
 *	filters by function   what holds for M holds for L         (sums.c)
 *	merged profiles       L is translated as if it were M      (merge.c)
 *
 * The facts are kept as long as their partition: the trim of the log keeps them. Private. */
#ifndef PYRRHA_TSDB_LATE_NAMES_H
#define PYRRHA_TSDB_LATE_NAMES_H

#include "tsdb/log/record.h"
#include "tsdb/version/db.h"

struct late_name {
	uint32_t location, as; /* ids of the partition */
};

/* Immutable, of one partition; owned by its pstates. */
struct late_names {
	atomic_int refs;
	VEC(struct late_name) v;  /* by location, each once */
	VEC(uint64_t) facts;      /* numbers of their records */
};

/* NULL is none. */
struct late_names *late_names_ref(struct late_names *n);
void late_names_unref(struct late_names *n);
/* Names what is in them; 0: nothing. */
uint64_t late_names_number(const struct late_names *n);
/* Has a translation read every location under its late name. */
void late_names_map(const struct late_names *n, struct symbols_map *m);

#endif
