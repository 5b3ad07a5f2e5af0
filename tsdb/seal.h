/* SPDX-License-Identifier: Apache-2.0 */
/* Writing what a window holds as a part: of the sealer, and of what makes one part of several. Private. */
#ifndef PYRRHA_TSDB_SEAL_H
#define PYRRHA_TSDB_SEAL_H

#include "tsdb/part.h"

/* What sealing says where the values of one series add up to more than 64 bits: nothing that concerns the other windows. */
#define NOT_SEALABLE (-ERR_EXECUTION)

/* Fills in the part's series, aggregates, samples and bytes, and ingests it; window, number, origin and records are set.
 * Nobody writes to the window meanwhile. */
int seal_write(struct partition *p, struct window *w, struct part *part, const struct buf *symbols, struct err *e);

/* Brings the rows of parts of one hour back into a window, without what is masked. ret_lost NULL: a damaged value is an error; else
 * its series is left out and added to *ret_lost. */
int compact_refill(const struct pstate *s, struct part *const *from, size_t n, struct window *w, uint64_t *ret_lost, struct err *e);
/* All symbols that p has in parts: where those of a part cannot be read, one made of it has them all. */
void compact_all_symbols(struct partition *p, struct buf *b);

#endif
