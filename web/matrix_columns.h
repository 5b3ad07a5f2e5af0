/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as columns, for the page: docs/format/matrix.md describes them. */
#ifndef PYRRHA_WEB_MATRIX_COLUMNS_H
#define PYRRHA_WEB_MATRIX_COLUMNS_H

#include "base/buf.h"
#include "base/permit.h"
#include "promql-like/promql.h"

#define MATRIX_TYPE "application/vnd.pyrrha.matrix"

/* The first n series of a matrix over steps from start_ms on, step_ms > 0 apart: appends the data object's content, without its
 * closing brace, to b. An error is what the permit (may be NULL) returned. */
int matrix_head(const struct promql_result *r, size_t n, int64_t start_ms, int64_t step_ms, const struct permit *permit, struct buf *b, struct err *e)
	MUST_USE;
/* The values of one of them, which follow the header in its order. */
void matrix_values(const struct promql_series *s, struct buf *b);

#endif
