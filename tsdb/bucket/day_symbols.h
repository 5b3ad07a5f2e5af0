/* SPDX-License-Identifier: Apache-2.0 */
/* The object with the symbols of a finished day: a zstd frame, which says its size, of the packed form of dict_pack.h. Of the fleet of bench/ it has a
 * tenth of the bytes of the packed form. */
#ifndef PYRRHA_TSDB_DAY_SYMBOLS_H
#define PYRRHA_TSDB_DAY_SYMBOLS_H

#include "base/buf.h"
#include "base/err.h"

#define DAY_SYMBOLS_MAX ((size_t)2 << 30) /* bytes of the packed form */

/* Appends the object of a packed dictionary. ERR_LIMIT: it is over DAY_SYMBOLS_MAX, or out is full. */
int day_symbols_encode(struct buf *out, struct view packed, struct err *e) MUST_USE;
/* And back, appended. ERR_CORRUPT: it is no such object; ERR_LIMIT. */
int day_symbols_decode(struct buf *out, struct view object, struct err *e) MUST_USE;

#endif
