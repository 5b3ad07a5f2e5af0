/* SPDX-License-Identifier: Apache-2.0 */
/* One delete in one partition, as in the head log (docs/format/head.md): series, (after, until], and a part number. Parts below it
 * existed then and hide rows (tombstones.h); later ones have none of them. Private. */
#ifndef PYRRHA_TSDB_TOMBSTONE_FACT_H
#define PYRRHA_TSDB_TOMBSTONE_FACT_H

#include "base/buf.h"
#include "base/cursor.h"
#include "base/vec.h"

struct tombstone_fact {
	uint64_t number;      /* of its record in the head log; 0 = retention by selector (retention_rules.h) */
	uint32_t below_part;
	int64_t after_ms, until_ms;
	VEC(uint32_t) series; /* ascending */
};

/* Whether the fact is of that series. */
bool tombstone_fact_has(const struct tombstone_fact *f, uint32_t series);
/* The payload of a fact. */
void tombstone_fact_put(struct buf *b, const struct tombstone_fact *f);
/* False if it is unknown to this program or malformed (then c->bad). */
bool tombstone_fact_get(struct cursor *c, struct tombstone_fact *ret);

#endif
