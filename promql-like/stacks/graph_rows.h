/* SPDX-License-Identifier: Apache-2.0 */
/* Rows over steps, and what they are added up in. Each worker adds the values of an hour to a table that is only as wide as the steps in
 * which the hour's profiles count, so that it stays in the processor's cache:
 *
 *	             step 6   7   8            (differences: a run of steps is two additions)
 *	 main          .
 *	  └ f          +2  -2
 *	     └ g       +5      -5
 *
 * A line of it is a node of a tree. For self there is one per row. For total they are stacks of rows, without repetitions of a caller's row,
 * so that a recursive function counts once and the tree is small. At the end of the hour the tree is added up from its leaves, each node to
 * its row, and these to the rows of all steps. All sums are exact: whole profiles are added as integers, parts of them as fractions
 * (graph_terms.h). */
#ifndef PYRRHA_PROMQL_GRAPH_ROWS_H
#define PYRRHA_PROMQL_GRAPH_ROWS_H

#include "base/lock.h"
#include "promql-like/stacks/graph_terms.h"

struct graph_row {
	uint32_t lane, row;    /* row: of the readout */
	int64_t *ints;         /* differences until graph_rows_finish; steps + 1 */
	wide *parts;           /* NULL until needed; steps. Gone after graph_rows_numbers, which makes */
	double *floats;        /* of them; NULL: there are none */
};

/* The results of all workers. */
struct graph_rows {
	struct readout *r;
	const struct span *sp;
	const struct graph_terms *terms;
	struct mutex lock;     /* of all here, and of the readout's rows */
	VEC(struct graph_row) v;
	struct map by_row;
	VEC(double *) sizes;   /* by lane: the most that its rows can be, by step; NULL: it has none */
	bool given;            /* rows were added by graph_rows_add: ints are sums, not differences */
	bool overflow;         /* of these, some did not fit */
};

struct graph_table;

void graph_rows_init(struct graph_rows *g, struct readout *r, const struct graph_terms *terms);
void graph_rows_free(struct graph_rows *g);
/* Adds a row that a source has made, instead of tables. */
int graph_rows_add(struct graph_rows *g, const struct source_graph_row *x, struct err *e) MUST_USE;
/* Call once, after the last table or row. Makes running totals out of the stored differences. False: a total may have overflowed. */
bool graph_rows_finish(struct graph_rows *g);
/* And fractions numbers. */
void graph_rows_numbers(struct graph_rows *g);

/* A worker's; free it. */
struct graph_table *graph_table_new(struct graph_rows *to);
void graph_table_free(struct graph_table *t);
/* Adds what storage handed out. The readout's stack filters leave columns out. */
int graph_table_add(struct graph_table *t, const struct graph_classes *k, const struct source_cells *c, struct err *e) MUST_USE;
/* Adds its contents to the rows. */
int graph_table_flush(struct graph_table *t, struct err *e) MUST_USE;

#endif
