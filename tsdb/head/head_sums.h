/* SPDX-License-Identifier: Apache-2.0 */
/* What the first rows of a chunk of the head add up to, kept from one question to the next: a question about the last hour is asked again and
 * again, and nearly all that it adds up is what the one before added up.
 *
 *	rows     0 ........... lo ......................... kept ..... hi
 *	answer                 [──────────────────────────────────────)
 *	         kept sums, less the rows before lo, and those behind what is kept
 *
 * Sums are made when a chunk is asked a second time, and again when there are some more rows; not of few rows, nor where they
 * would take as much memory as the rows. Rows only ever come behind those that are there. */
#ifndef PYRRHA_TSDB_HEAD_SUMS_H
#define PYRRHA_TSDB_HEAD_SUMS_H

#include "tsdb/head/window.h"

/* As chunk_sum, of a chunk of w, whose lock is held for reading. work: empty, and is empty again. */
int head_sums_add(struct window *w, struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct dense *d, struct dense *work,
		  uint64_t *ret_read, struct err *e) MUST_USE;
/* Lets go of those of one chunk. Under the window's write lock, or where nobody else has it. */
void head_sums_drop(struct window *w, struct chunk *c);

#endif
