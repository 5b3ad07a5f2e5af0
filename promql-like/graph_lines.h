/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a graph: what each stack has in each step. A graph's windows overlap: at a step of a minute, rate(cpu[5m]) reads
 * each profile five times if it is done step by step. Here each stored value is read once. The terms of all steps tell in which
 * steps a profile counts whole, which is a run of them, and in which as a part:
 *
 *	                 step 0   1   2   3   4   5   6
 *	profile            .   +v   .   .   .   .  -v        whole in steps 1 to 5: two additions to a table of differences
 *	                  +.3v              (floats)         and a part of it at step 0
 *
 * Tables are filled by the source's threads, each its own. What is exact stays so: whole profiles are added as integers. */
#ifndef PYRRHA_PROMQL_GRAPH_LINES_H
#define PYRRHA_PROMQL_GRAPH_LINES_H

#include "readout.h"

/* A lane is one side (what is added, what is subtracted) of one input series: 2 * series, 2 * series + 1. A line is one column's; of self it
 * is one row's, to which the columns are added as they come: rows are few, so what is added to stays in the processor's cache. */
struct graph_line {
	uint32_t lane;
	uint32_t column, row;  /* the column, or of self the readout's row */
	struct symbols *s;     /* of the column; NULL of a row */
	int64_t *ints;         /* differences, n_steps + 1 */
	double *floats;        /* NULL until needed; n_steps */
	double size;           /* sum of |value| */
};

/* Whether what is asked counts for the innermost frame only. */
static inline bool graph_of_self(const struct readout *r)
{
	return r->measure == SELF || r->measure == SELF_SHARE;
}

/* The lines that one worker made; the same column or row may have a line in several. */
struct graph_table {
	VEC(struct graph_line) lines;
};

struct graph_lines {
	struct graph_table *tables;
	size_t n_tables;
	size_t n;              /* lines of all of them */
};

/* Whether v is sums of stored profiles, of ranges for which storage keeps no sums by the hour: what a table is for. */
bool graph_lines_fit(const struct value *v);
/* Reads all profiles of v, whose steps are sp; r's choosers leave columns out. What it holds counts towards the query's bytes.
 * Free it in any case. */
int graph_lines_read(struct graph_lines *g, struct readout *r, const struct value *v, const struct span *sp, struct err *e)
	MUST_USE;
void graph_lines_free(struct graph_lines *g);

#endif
