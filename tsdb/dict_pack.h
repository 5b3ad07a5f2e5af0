/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols as a sealed part has them: the rows of dict.h turned into columns, so that like lies beside like, and numbers into
 * differences. A short-lived process brings a pid, a label set with it and a column or two; in rows these take 8, 5 and 4
 * bytes after zstd, in columns 2 to 3, 1 and 1. Pure: bytes in, bytes out; nothing is looked up. docs/format/partition.md draws
 * it. */
#ifndef PYRRHA_TSDB_DICT_PACK_H
#define PYRRHA_TSDB_DICT_PACK_H

#include "base/buf.h"
#include "base/err.h"

/* Rows (what dict_encode writes) into columns, appended to out. ERR_CORRUPT if they make no sense, ERR_LIMIT if out is full. */
int dict_pack(struct buf *out, struct view rows, struct err *e);
/* And back: the same bytes, appended to out. */
int dict_unpack(struct buf *out, struct view packed, struct err *e);

#endif
