/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the printers of a query: its text (print.c) and its tree as JSON (print_json.c). */
#ifndef PYRRHA_PROMQL_PRINTER_H
#define PYRRHA_PROMQL_PRINTER_H

#include "promql-like/syntax/ast.h"

#define MAX_TEXT ((size_t)16 << 20) /* bytes of a formatted query, or of one as JSON */

/* Text on its way out: where to, how far it may go, and whether someone still waits for it. */
struct printer {
	struct buf *out;
	struct node_text *texts;         /* by node id, of its text on one line; NULL: not needed */
	const struct source_limits *lim; /* NULL = none */
	unsigned printed;                /* nodes */
	bool no_indent;                  /* the next line's beginning is there already */
	int rc;                          /* 0, or what ended it: then nothing more is written */
	struct err *e;
};

/* Every node passes here. False: it is over, the caller returns. */
bool printer_goes_on(struct printer *p);
/* A NODE_NUMBER as the language has it. */
void print_number(const struct node *n, struct buf *out);

#endif
