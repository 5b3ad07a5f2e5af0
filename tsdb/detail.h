/* SPDX-License-Identifier: Apache-2.0 */
/* The detail of a sealed series: which profiles hold a column and with what value, column by column. Private to
 * sealed.c. See detail.c for the streams. */
#ifndef PYRRHA_TSDB_DETAIL_H
#define PYRRHA_TSDB_DETAIL_H

#include "tsdb/chunk.h"

/* Rows being turned into columns: samples of column k lie in [start[k], start[k + 1]). */
struct detail_table {
	uint32_t n_columns, n_samples;
	uint32_t *columns;  /* ascending column ids */
	uint32_t *own, *base; /* local index of the chunk, of its base -> place in columns */
	uint32_t *start, *fill;
	uint32_t *rows;     /* by sample */
	int64_t *values;
};

void detail_begin(struct detail_table *t, const struct chunk *c);
void detail_add_row(struct detail_table *t, const struct chunk *c, const struct row *r, uint32_t number);
int detail_finish(struct detail_table *t, struct buf *rollup, struct buf detail[3], uint64_t *ret_samples, struct err *e);
void detail_release(struct detail_table *t);

#endif
