/* SPDX-License-Identifier: Apache-2.0 */
/* The detail of a sealed series: which profiles hold a column and with what value, column by column. Private to
 * sealed.c; detail.c writes and says what the streams are, detail_read.c reads. */
#ifndef PYRRHA_TSDB_DETAIL_H
#define PYRRHA_TSDB_DETAIL_H

#include "tsdb/head/chunk.h"
#include "tsdb/part/sealed.h"

/* Modes of stream 2, and the byte that stands for the next escape. */
enum { VALUES_BYTES = 0, VALUES_SCALED = 1, VALUES_DELTAS = 2 };
#define ESCAPE 255

/* Rows being turned into columns: samples of column k lie in [start[k], start[k + 1]). */
struct detail_table {
	uint32_t n_columns, n_samples;
	const uint32_t *columns;  /* ascending column ids */
	const uint32_t *start;
	const uint32_t *rows;     /* by sample */
	const int64_t *values;
};

/* Rows are numbered in the order given: order[i] is the index in c->rows of number i. The table is in the scratch. */
void detail_turn(struct detail_table *t, struct sealed_scratch *s, const struct chunk *c, const uint32_t *order);
int detail_finish(const struct detail_table *t, struct sealed_scratch *s, struct buf *rollup, struct buf detail[3],
		  uint64_t *ret_samples, struct err *e) MUST_USE;

#endif
