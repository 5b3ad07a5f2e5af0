/* SPDX-License-Identifier: Apache-2.0 */
/* Cached sums of the first rows of a head chunk. A query about the last hour is repeated again and again, and adds up nearly the same rows as
 * the one before.
 *
 *	rows     0 ........... lo ......................... kept ..... hi
 *	answer                 [──────────────────────────────────────)
 *	         kept sums, less the rows before lo, and those behind what is kept
 *
 * Sums are made when a chunk is read a second time, and again when there are more rows. They are not made for few rows, nor if they
 * would take as much memory as the rows. New rows always come behind existing ones. */
#ifndef PYRRHA_TSDB_HEAD_SUMS_H
#define PYRRHA_TSDB_HEAD_SUMS_H

#include "tsdb/head/window.h"

/* As chunk_sum, of a chunk of w, whose lock is held for reading. work: empty, and is empty again. */
int head_sums_add(struct window *w, struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct dense *d, struct dense *work,
		  uint64_t *ret_read, struct err *e) MUST_USE;
/* Frees those of one chunk. Under the window's write lock, or without other threads. */
void head_sums_drop(struct window *w, struct chunk *c);

#endif
