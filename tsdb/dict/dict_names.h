/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a day's stacks: what is left of its dictionary in SYMBOLS_NAMES, and the place of each of its columns there. A rollup of a day has it,
 * so that sums over many days need no dictionary.
 *
 *	dictionary of the day      names                 (depth-first, siblings in one order for all days)
 *	column 0 1 2 3 4 5         stack  0  1  2
 *	place  1 0 2 1 1 2
 *
 * Two days have nearly the same names in nearly the same order, so joining the second is a walk over what the first has made. Pure: bytes in, bytes
 * out. docs/format/partition.md draws it. */
#ifndef PYRRHA_TSDB_DICT_NAMES_H
#define PYRRHA_TSDB_DICT_NAMES_H

#include "base/buf.h"
#include "base/err.h"
#include "model/symbols.h"

/* Appends the names. s: only names; place: by column of the day, 1 + the column of s, 0 = none; late: names the late names that s has. */
void dict_names_put(struct buf *out, const struct symbols *s, const uint32_t *place, uint32_t n, uint64_t late);
/* Adds the names to `to`. *ret_place: by column of the day, 1 + the column of `to`, 0 = none; the caller frees it; *ret_n are there. ERR_NOT_FOUND:
 * they are with other late names. ERR_CORRUPT: they are malformed; some may have been added. */
int dict_names_join(struct view names, struct symbols *to, uint64_t late, uint32_t **ret_place, uint32_t *ret_n, struct err *e) MUST_USE;

#endif
