/* SPDX-License-Identifier: Apache-2.0 */
/* Weighed sums of columns that are in every row of a sealed series and are stored as differences (detail.c, VALUES_DELTAS). Private to detail_read.c. Of
 * the differences d of a column and the weights w of the rows the sum is
 *
 *	sum of w[i] x (d[0] + ... + d[i])  =  sum of d[i] x (w[i] + w[i + 1] + ...)  =  sum of d[i] x from[i]
 *
 * so that no value is made of the differences, and those that are 0 add nothing. */
#ifndef PYRRHA_TSDB_DIFFERENCES_H
#define PYRRHA_TSDB_DIFFERENCES_H

#include "base/cursor.h"

/* Rows from the end of the last stretch on: each counts times level + near[row]. */
struct weighing_stretch {
	uint32_t end;      /* behind its last row */
	int64_t level;
	uint32_t most;     /* the largest |near|; 0: all rows count the same */
};

#define WEIGHING_STRETCHES 16

/* The weights of the rows of a series. */
struct weighing {
	const int64_t *weights;  /* by row */
	int64_t *from;           /* by row: sum of the weights from it on */
	uint32_t n_rows, lo, hi; /* rows with a weight are in [lo, hi) */
	bool same;               /* those all have the same */
	bool small;              /* bytes times weights add up to less than 64 bits */
	bool narrow;             /* differences of up to five bytes times `from` do */
	bool fits;               /* all sums so far */
	bool wide;               /* the processor adds up 32 bytes at once, and rows behind the first are in few stretches */
	struct weighing_stretch stretches[WEIGHING_STRETCHES];
	uint8_t *near_low, *near_high; /* by row: `from` less the stretch's level, as two bytes */
};

/* The weights stay the caller's. */
void weighing_open(struct weighing *w, const int64_t *weights, uint32_t n_rows);
void weighing_release(struct weighing *w);

/* Reads the differences of n columns, one after the other, and adds each column's values up, times the weights of their rows, into sums. The cursor is moved
 * past them. w->fits becomes false if a sum does not fit in 64 bits. */
void differences_weigh(struct cursor *c, struct weighing *w, size_t n, int64_t *sums);

#endif
